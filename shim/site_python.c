/*
 * The Python frames of a call: from the innermost outwards, rules by qualified name, until module and phase are told.
 *
 * Each code object is matched once and then known by its address. The cache holds a reference to it, so that the
 * address cannot become another's; at most as many code objects as the cache has places live longer than they would.
 * Cost: about 0.1 us a frame when known, and the wait for the GIL (site_python.h).
 *
 * Limits. Python 3.10 has no qualified names on code objects: there a frame is known by its plain name, and where
 * that is a method of a rule, by the classes of `self`. Frames inlined by a compiler are not seen.
 *
 * Threads: any.
 */
#include "shim/site_python.h"

#include <stdio.h>
#include <string.h>

#define DEPTH 64 /* frames that are looked at */
#define NAME_BYTES 256
#define CLASSES 16 /* of the order in which methods are looked up */

/* Copies a str attribute of an object into `name`; false if it is none or too long. */
static bool copy_attribute(const struct rp_python *python, struct rp_pyobject *object, const char *attribute,
                           char name[NAME_BYTES])
{
    struct rp_pyobject *value = python->PyObject_GetAttrString(object, attribute);
    ssize_t length = 0;
    const char *text = value != NULL ? python->PyUnicode_AsUTF8AndSize(value, &length) : NULL;
    bool fits = text != NULL && length < NAME_BYTES;
    if (fits)
        memcpy(name, text, (size_t)length + 1);
    if (value != NULL)
        python->Py_DecRef(value);
    python->PyErr_Clear();
    return fits;
}

/* Whether a rule matches "Class.method" for some class of `self`. */
static bool match_method(const struct rp_python *python, struct rp_pyobject *self, const char *method,
                         struct rp_rule_match *match_out)
{
    char name[NAME_BYTES], text[2 * NAME_BYTES];
    bool matched = false;
    struct rp_pyobject *type = python->PyObject_Type(self);
    struct rp_pyobject *classes = type != NULL ? python->PyObject_GetAttrString(type, "__mro__") : NULL;
    for (ssize_t i = 0; classes != NULL && !matched && i < CLASSES; i++) {
        struct rp_pyobject *class = python->PyTuple_GetItem(classes, i);
        if (class == NULL || !copy_attribute(python, class, "__name__", name))
            break;
        snprintf(text, sizeof(text), "%s.%s", name, method);
        matched = rp_rule_match(RP_RULE_PYTHON, text, match_out);
    }
    python->PyErr_Clear();
    if (classes != NULL)
        python->Py_DecRef(classes);
    if (type != NULL)
        python->Py_DecRef(type);
    return matched;
}

/* Python 3.10. A frame's locals are read only where the method's name is one of the rules (site_python_path.c). */
static bool match_plain_name(const struct rp_python *python, struct rp_pyobject *frame, struct rp_pyobject *code,
                             struct rp_rule_match *match_out)
{
    char name[NAME_BYTES];
    if (!copy_attribute(python, code, "co_name", name))
        return false;
    if (!rp_rule_python_method(name))
        return rp_rule_match(RP_RULE_PYTHON, name, match_out);
    struct rp_pyobject *self = rp_python_local(python, frame, "self");
    if (self == NULL)
        return false;
    bool matched = match_method(python, self, name, match_out);
    python->Py_DecRef(self);
    return matched;
}

static struct rp_site_cached look_up(const struct rp_python *python, struct rp_pyobject *frame,
                                     struct rp_pyobject *code)
{
    char name[NAME_BYTES];
    struct rp_rule_match match;
    bool matched = copy_attribute(python, code, "co_qualname", name) ? rp_rule_match(RP_RULE_PYTHON, name, &match)
                                                                     : match_plain_name(python, frame, code, &match);
    if (!matched)
        return (struct rp_site_cached){0};
    return (struct rp_site_cached){match.module_rule, match.phase_rule};
}

static struct rp_site_cached rules_of(const struct rp_python *python, struct rp_pyobject *frame)
{
    struct rp_site_cached cached;
    struct rp_pyobject *code = python->PyFrame_GetCode(frame);
    if (!rp_site_cache_find(&rp_site_codes, code, &cached)) {
        cached = look_up(python, frame, code);
        if (rp_site_cache_add(&rp_site_codes, code, &cached))
            return cached; /* our reference is the cache's now */
    }
    python->Py_DecRef(code);
    return cached;
}

static void take_frame(const struct rp_python *python, struct rp_modules *modules, struct rp_pyobject *frame,
                       struct rp_site_finding *finding)
{
    struct rp_site_cached rules = rules_of(python, frame);
    rp_site_take_phase(finding, rules.phase_rule);
    if (finding->module == RP_MODULE_UNKNOWN && rules.module_rule != NULL)
        finding->module = rp_python_module(python, modules, frame, rules.module_rule->module);
}

/* The next frame outwards; gives the reference to `frame` back. */
static struct rp_pyobject *step_out(const struct rp_python *python, struct rp_pyobject *frame)
{
    struct rp_pyobject *back = python->PyFrame_GetBack(frame);
    python->Py_DecRef(frame);
    return back;
}

static void walk(const struct rp_python *python, struct rp_modules *modules, struct rp_site_finding *finding)
{
    struct rp_pyobject *frame = python->PyEval_GetFrame();
    if (frame != NULL)
        python->Py_IncRef(frame);
    for (unsigned depth = 0; frame != NULL && depth < DEPTH; depth++) {
        take_frame(python, modules, frame, finding);
        if (finding->module != RP_MODULE_UNKNOWN && finding->phase != RP_PHASE_UNKNOWN)
            break;
        frame = step_out(python, frame);
    }
    if (frame != NULL)
        python->Py_DecRef(frame);
}

void rp_site_from_python(struct rp_modules *modules, struct rp_site_finding *finding)
{
    struct rp_python_visit visit;
    const struct rp_python *python = rp_python();
    if (python == NULL || !rp_python_enter(python, &visit))
        return;
    walk(python, modules, finding);
    rp_python_leave(python, &visit);
}
