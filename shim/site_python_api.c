/*
 * Finds Python in the process, and goes in and out of it (site_python.h).
 *
 * Invariant: `api` is written once, before `found` says so (release; the reader's acquire is in rp_python()).
 * Threads: any; one of them searches, others meanwhile see no Python.
 */
#include "shim/site_python.h"

#include <dlfcn.h>
#include <string.h>

enum search { UNKNOWN, SEARCHING, FOUND };

static struct rp_python api;
static _Atomic enum search found;

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

static bool search(void)
{
    resolve("Py_IsInitialized", &api.Py_IsInitialized);
    if (api.Py_IsInitialized == NULL)
        return false;
#define X(result, name, parameters) resolve(#name, &api.name);
    RP_PYTHON_REQUIRED(X)
    RP_PYTHON_OPTIONAL(X)
#undef X
    return has_all(&api);
}

static const struct rp_python *search_anew(const struct rp_site_loader *loader)
{
    static _Atomic unsigned long long searched_at; /* adds + 1 of the last search; relaxed: only saves work */
    enum search unknown = UNKNOWN;
    if (atomic_load_explicit(&searched_at, memory_order_relaxed) == loader->adds + 1)
        return NULL;
    if (!atomic_compare_exchange_strong_explicit(&found, &unknown, SEARCHING, memory_order_acquire,
                                                 memory_order_relaxed))
        return NULL;
    bool success = search();
    atomic_store_explicit(&searched_at, loader->adds + 1, memory_order_relaxed);
    atomic_store_explicit(&found, success ? FOUND : UNKNOWN, memory_order_release);
    return success ? &api : NULL;
}

const struct rp_python *rp_python(const struct rp_site_loader *loader)
{
    if (atomic_load_explicit(&found, memory_order_acquire) == FOUND)
        return &api;
    return search_anew(loader);
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
