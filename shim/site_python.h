/*
 * The part of CPython's C API that site_python*.c use, found in the running process: no header of Python, nothing
 * linked. Functions and their contracts are those of docs.python.org/3/c-api for 3.10 to 3.14; objects are opaque.
 *
 * All but rp_python(), rp_python_forked() and rp_python_enter() is called between rp_python_enter() and
 * rp_python_leave() only, and with no lock of ours held.
 */
#ifndef RP_SITE_PYTHON_H
#define RP_SITE_PYTHON_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "shim/site_sources.h"

struct rp_pyobject;

/* X(result, name, parameters): what every version has. */
#define RP_PYTHON_REQUIRED(X)                                                                            \
    X(int, Py_IsInitialized, (void))                                                                     \
    X(int, PyGILState_Ensure, (void))                                                                    \
    X(void, PyGILState_Release, (int))                                                                   \
    X(void *, PyGILState_GetThisThreadState, (void))                                                     \
    X(void *, PyInterpreterState_Head, (void))                                                           \
    X(void *, PyInterpreterState_Main, (void))                                                           \
    X(void, PyErr_Fetch, (struct rp_pyobject **, struct rp_pyobject **, struct rp_pyobject **))          \
    X(void, PyErr_Restore, (struct rp_pyobject *, struct rp_pyobject *, struct rp_pyobject *))           \
    X(void, PyErr_Clear, (void))                                                                         \
    X(void, Py_IncRef, (struct rp_pyobject *))                                                           \
    X(void, Py_DecRef, (struct rp_pyobject *))                                                           \
    X(struct rp_pyobject *, PyEval_GetFrame, (void))                                                     \
    X(struct rp_pyobject *, PyFrame_GetBack, (struct rp_pyobject *))                                     \
    X(struct rp_pyobject *, PyFrame_GetCode, (struct rp_pyobject *))                                     \
    X(struct rp_pyobject *, PyObject_Type, (struct rp_pyobject *))                                       \
    X(struct rp_pyobject *, PyObject_GenericGetAttr, (struct rp_pyobject *, struct rp_pyobject *))       \
    X(struct rp_pyobject *, PyObject_GenericGetDict, (struct rp_pyobject *, void *))                     \
    X(int, PyDict_Next, (struct rp_pyobject *, ssize_t *, struct rp_pyobject **, struct rp_pyobject **)) \
    X(struct rp_pyobject *, PyTuple_GetItem, (struct rp_pyobject *, ssize_t))                            \
    X(struct rp_pyobject *, PyList_GetItem, (struct rp_pyobject *, ssize_t))                             \
    X(struct rp_pyobject *, PyLong_FromLong, (long))                                                     \
    X(ssize_t, PyLong_AsSsize_t, (struct rp_pyobject *))                                                 \
    X(struct rp_pyobject *, PyUnicode_FromStringAndSize, (const char *, ssize_t))                        \
    X(const char *, PyUnicode_AsUTF8AndSize, (struct rp_pyobject *, ssize_t *))

/* What some versions have: NULL in others. */
#define RP_PYTHON_OPTIONAL(X)                                                                               \
    X(int, Py_IsFinalizing, (void))                                                     /* 3.13 */          \
    X(int, _Py_IsFinalizing, (void))                                                    /* up to 3.12 */    \
    X(void, _Py_MergeZeroLocalRefcount, (struct rp_pyobject *))                         /* without a GIL */ \
    X(struct rp_pyobject *, PyFrame_GetVarString, (struct rp_pyobject *, const char *)) /* 3.12 */

struct rp_python {
#define X(result, name, parameters) result(*name) parameters;
    RP_PYTHON_REQUIRED(X)
    RP_PYTHON_OPTIONAL(X)
#undef X
};

/* The API of this process, or NULL: no Python so far. Searched anew when a library was loaded. */
const struct rp_python *rp_python(void);

void rp_python_forked(void);

/* What enter has to give back. */
struct rp_python_visit {
    int gil;
    struct rp_pyobject *pending[3]; /* the exception that the caller had set */
};

/*
 * Takes the GIL if this thread may walk its frames now: it has run Python before, the one interpreter is up, is not
 * being finalized, and has no subinterpreter beside it. False: nothing was taken.
 *
 * May wait for the GIL as long as its holder keeps it. PyTorch calls NCCL without the GIL and with no lock that a
 * holder of the GIL waits for; a program whose thread holds the GIL while it waits for a collective to be *issued* by
 * another thread would wait forever, with us as with any Python hook there. If finalization begins while we wait,
 * CPython ends or parks this thread, as it would at the thread's own return to Python.
 */
bool rp_python_enter(const struct rp_python *python, struct rp_python_visit *visit_out);
void rp_python_leave(const struct rp_python *python, const struct rp_python_visit *visit);

static inline void rp_python_release(const struct rp_python *python, struct rp_pyobject *object)
{
    if (object != NULL)
        python->Py_DecRef(object);
}

/* The characters of a str, inside it; NULL for all else, and for NULL. The call leaves no exception set. */
static inline const char *rp_python_text(const struct rp_python *python, struct rp_pyobject *object, size_t *length_out)
{
    ssize_t length = 0;
    const char *text = object != NULL ? python->PyUnicode_AsUTF8AndSize(object, &length) : NULL;
    if (text != NULL)
        *length_out = (size_t)length;
    else
        python->PyErr_Clear();
    return text;
}

/*
 * An attribute of a code object, a frame or a class, by its type alone: a metaclass may look up in code of its own. New
 * reference, or NULL; no exception is left set.
 */
struct rp_pyobject *rp_python_attribute(const struct rp_python *python, struct rp_pyobject *object, const char *name);

/* What the object's own dictionary has under that name, or NULL. New reference; no exception is left set. */
struct rp_pyobject *rp_python_stored(const struct rp_python *python, struct rp_pyobject *object, const char *name);

/* A local variable of a frame, or NULL. New reference; no exception is left set. */
struct rp_pyobject *rp_python_local(const struct rp_python *python, struct rp_pyobject *frame, const char *name);

/*
 * Where `module` is beneath `root`: the names by which it is reached through `_modules` dictionaries, joined by dots. A
 * new str, empty for the root itself; NULL if it is not there.
 */
struct rp_pyobject *rp_python_beneath(const struct rp_python *python, struct rp_pyobject *root,
                                      const struct rp_pyobject *module);

/* Keeps the place of a module that search number `search` passes. False: that search has passed it before. */
bool rp_python_keep(const void *root, const void *module, const char *name, size_t length, unsigned search);

/* What was kept, until the next is kept, or NULL. It may be of what stood at these addresses once. */
const char *rp_python_known(const void *root, const void *module);

/*
 * What the names of all `items` (a list or tuple) have in common: `names` is a dictionary of them by item, of each the
 * part in front of the last dot counts. A new str; NULL if there are no items, or one has no name.
 */
struct rp_pyobject *rp_python_common(const struct rp_python *python, struct rp_pyobject *names,
                                     struct rp_pyobject *items);

/* By identity: hashing or comparing keys would run their code. A borrowed reference, or NULL. */
struct rp_pyobject *rp_python_dict_find(const struct rp_python *python, struct rp_pyobject *dictionary,
                                        const struct rp_pyobject *wanted);

/* By the text of a str, compared by us: keys that are none may have code of their own. Borrowed, or NULL. */
struct rp_pyobject *rp_python_dict_text(const struct rp_python *python, struct rp_pyobject *dictionary,
                                        const char *wanted);

/* The same as a new reference; that to `dictionary`, which may be NULL, is given back. No exception is left set. */
struct rp_pyobject *rp_python_dict_take(const struct rp_python *python, struct rp_pyobject *dictionary,
                                        const char *wanted);

/* Of a list or tuple. A borrowed reference, or NULL. */
struct rp_pyobject *rp_python_item(const struct rp_python *python, struct rp_pyobject *items, ssize_t index);

/*
 * Interns the module that `spec` (core/rules/README.md) names in `frame`; RP_MODULE_UNKNOWN if it names none. Runs no
 * code of the application; no exception is left set.
 */
uint32_t rp_python_module(const struct rp_python *python, struct rp_modules *modules, struct rp_pyobject *frame,
                          const char *spec);

#endif
