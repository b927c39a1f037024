/*
 * Finds Python in the process, and goes in and out of it (site_python.h).
 *
 * Invariant: `api` is written once, under the lock and before `found` is set; nothing is called under the lock.
 * Threads: any.
 */
#include "shim/site_python.h"

#include <dlfcn.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct rp_python api;
static _Atomic bool found; /* released after `api` was written, acquired before it is read */

static bool has_all(const struct rp_python *python)
{
    bool all = python->Py_IsFinalizing != NULL || python->_Py_IsFinalizing != NULL;
#define X(result, name, parameters) all = all && python->name != NULL;
    RP_PYTHON_REQUIRED(X)
#undef X
    return all;
}

/* ISO C has no cast from object to function pointer, hence memcpy. */
static void resolve(const char *name, void *function_out)
{
    void *address = dlsym(RTLD_DEFAULT, name);
    memcpy(function_out, &address, sizeof(address));
}

static bool search(struct rp_python *python)
{
    resolve("Py_IsInitialized", &python->Py_IsInitialized);
    if (python->Py_IsInitialized == NULL)
        return false;
#define X(result, name, parameters) resolve(#name, &python->name);
    RP_PYTHON_REQUIRED(X)
    RP_PYTHON_OPTIONAL(X)
#undef X
    return has_all(python);
}

/* Several threads may have searched at once, and found the same. */
static void publish(const struct rp_python *python)
{
    pthread_mutex_lock(&lock);
    if (!atomic_load_explicit(&found, memory_order_relaxed)) {
        api = *python;
        atomic_store_explicit(&found, true, memory_order_release);
    }
    pthread_mutex_unlock(&lock);
}

const struct rp_python *rp_python(void)
{
    static _Atomic unsigned long long searched_at; /* adds + 1 of a search in vain; relaxed: it only saves work */
    struct rp_python python = {0};
    if (atomic_load_explicit(&found, memory_order_acquire))
        return &api;
    unsigned long long now = rp_site_loader_now().adds + 1;
    if (atomic_load_explicit(&searched_at, memory_order_relaxed) == now)
        return NULL;
    if (!search(&python)) {
        atomic_store_explicit(&searched_at, now, memory_order_relaxed);
        return NULL;
    }
    publish(&python);
    return &api;
}

void rp_python_forked(void)
{
    pthread_mutex_init(&lock, NULL);
}

static bool finalizing(const struct rp_python *python)
{
    return python->Py_IsFinalizing != NULL ? python->Py_IsFinalizing() : python->_Py_IsFinalizing();
}

/*
 * A thread inside a subinterpreter may hold the GIL under a thread state that PyGILState_Ensure() does not know (up
 * to 3.11), and would wait for itself. New interpreters are put at the head of the list, so a head that is not the
 * main one says that there are others; then no thread is asked.
 */
static bool has_subinterpreters(const struct rp_python *python)
{
    return python->PyInterpreterState_Head() != python->PyInterpreterState_Main();
}

static bool may_enter(const struct rp_python *python)
{
    return python->Py_IsInitialized() && !finalizing(python) && !has_subinterpreters(python) &&
           python->PyGILState_GetThisThreadState() != NULL;
}

bool rp_python_enter(const struct rp_python *python, struct rp_python_visit *visit_out)
{
    if (!may_enter(python))
        return false;
    visit_out->gil = python->PyGILState_Ensure();
    python->PyErr_Fetch(&visit_out->pending[0], &visit_out->pending[1], &visit_out->pending[2]);
    return true;
}

void rp_python_leave(const struct rp_python *python, const struct rp_python_visit *visit)
{
    python->PyErr_Restore(visit->pending[0], visit->pending[1], visit->pending[2]);
    python->PyGILState_Release(visit->gil);
}
