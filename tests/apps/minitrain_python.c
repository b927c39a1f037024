/*
 * Python frames around the work, without anything of Python where this is built: its library is loaded at run time, and
 * what is called of it is in its stable ABI (docs.python.org/3/c-api/stable.html, 3.2 and later).
 *
 * A thread gives the GIL away while it works, as an extension does around CUDA calls; mt_python_call takes it, for the
 * frames of its own.
 *
 * Invariant: all is found and made before there are threads. Between mt_python_call and `run`, which the method calls
 * at once, what is to be done is in this thread's `next`.
 */
#include "minitrain_site.h"

#include "minitrain_host.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* What a framework looks like from a frame: a module knows its name, and has a method for each phase. */
static const char script[] = "class Block:\n"
                             "    def __init__(self, fqn):\n"
                             "        self._fqn = fqn\n"
                             "    def forward(self, run):\n"
                             "        run()\n"
                             "    def backward(self, run):\n"
                             "        run()\n"
                             "    def recompute(self, run):\n"
                             "        run()\n"
                             "    def eval(self, run):\n"
                             "        run()\n"
                             "    def optimizer(self, run):\n"
                             "        run()\n"
                             "    def other(self, run):\n"
                             "        run()\n"
                             "blocks = {}\n"
                             "def at(phase, fqn, run):\n"
                             "    if fqn not in blocks:\n"
                             "        blocks[fqn] = Block(fqn)\n"
                             "    getattr(blocks[fqn], phase)(run)\n";

typedef struct object object; /* PyObject */

/* PyMethodDef of the stable ABI. */
struct method {
    const char *name;
    object *(*function)(object *, object *);
    int flags;
    const char *doc;
};
#define METH_NOARGS 0x0004
#define PY_FILE_INPUT 257

/* X(result, name, parameters) */
#define API(X)                                                            \
    X(void, Py_InitializeEx, (int))                                       \
    X(object *, Py_CompileString, (const char *, const char *, int))      \
    X(object *, PyEval_EvalCode, (object *, object *, object *))          \
    X(object *, PyImport_AddModule, (const char *))                       \
    X(object *, PyModule_GetDict, (object *))                             \
    X(object *, PyDict_GetItemString, (object *, const char *))           \
    X(object *, PyCFunction_NewEx, (struct method *, object *, object *)) \
    X(object *, PyObject_CallFunction, (object *, const char *, ...))     \
    X(object *, Py_BuildValue, (const char *, ...))                       \
    X(void, PyErr_Print, (void))                                          \
    X(void, Py_DecRef, (object *))                                        \
    X(void *, PyEval_SaveThread, (void))                                  \
    X(void, PyEval_RestoreThread, (void *))                               \
    X(int, PyGILState_Ensure, (void))                                     \
    X(void, PyGILState_Release, (int))

static struct {
#define X(result, name, parameters) result(*name) parameters;
    API(X)
#undef X
} python;

static object *at, *run;
static _Thread_local struct {
    mt_work *work;
    void *argument;
} next;

/* Python's errors are printed by Python. */
static object *made(object *result, const char *what)
{
    if (!result) {
        python.PyErr_Print();
        mt_die("python: no %s", what);
    }
    return result;
}

static object *run_next(object *self, object *arguments)
{
    (void)self;
    (void)arguments;
    void *state = python.PyEval_SaveThread();
    next.work(next.argument);
    python.PyEval_RestoreThread(state);
    return made(python.Py_BuildValue(""), "None");
}

static void find(void *library, const char *name, void *function_out)
{
    void *address = dlsym(library, name);
    if (!address)
        mt_die("python: no %s", name);
    memcpy(function_out, &address, sizeof address);
}

static void load(const char *file)
{
    void *library = dlopen(file, RTLD_NOW | RTLD_GLOBAL);
    if (!library)
        mt_die("python: %s", dlerror());
#define X(result, name, parameters) find(library, #name, &python.name);
    API(X)
#undef X
}

void mt_python_start(const char *file)
{
    static struct method method = {"run", run_next, METH_NOARGS, NULL};
    load(file);
    python.Py_InitializeEx(0);
    object *names = python.PyModule_GetDict(made(python.PyImport_AddModule("__main__"), "__main__"));
    object *code = made(python.Py_CompileString(script, "minitrain.py", PY_FILE_INPUT), "code");
    made(python.PyEval_EvalCode(code, names, names), "result");
    at = made(python.PyDict_GetItemString(names, "at"), "function");
    run = made(python.PyCFunction_NewEx(&method, NULL, NULL), "function of ours");
    python.PyEval_SaveThread();
}

void mt_python_call(enum mt_phase phase, const char *module, mt_work *work, void *argument)
{
    int gil = python.PyGILState_Ensure();
    next.work = work;
    next.argument = argument;
    python.Py_DecRef(made(python.PyObject_CallFunction(at, "szO", mt_phase_name(phase), module, run), "result"));
    python.PyGILState_Release(gil);
}
