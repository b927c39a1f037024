/*
 * The Python frames of a call: from the innermost outwards, rules by qualified name, as far as one further out can add
 * anything (rp_site_done()).
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
#define FILE_BYTES 1024
#define CLASSES 16 /* of the order in which methods are looked up */

/* Copies a str attribute of an object into `text`; false, and the empty text, if it is none or too long. */
static bool copy_attribute(const struct rp_python *python, struct rp_pyobject *object, const char *attribute,
                           char *copy, size_t size)
{
    struct rp_pyobject *value = rp_python_attribute(python, object, attribute);
    size_t length = 0;
    const char *text = rp_python_text(python, value, &length);
    bool fits = text != NULL && length < size;
    copy[0] = '\0';
    if (fits)
        memcpy(copy, text, length + 1);
    rp_python_release(python, value);
    return fits;
}

/* "Class.method" into `text` for the first class of `self` that a rule matches; false if there is none. */
static bool find_class(const struct rp_python *python, const struct rp_rules *rules, struct rp_pyobject *self,
                       const char *method, const char *file, char text[2 * NAME_BYTES])
{
    char name[NAME_BYTES];
    struct rp_rule_match match;
    bool matched = false;
    struct rp_pyobject *type = python->PyObject_Type(self);
    struct rp_pyobject *classes = type != NULL ? rp_python_attribute(python, type, "__mro__") : NULL;
    for (ssize_t i = 0; classes != NULL && !matched && i < CLASSES; i++) {
        struct rp_pyobject *class = python->PyTuple_GetItem(classes, i);
        if (class == NULL || !copy_attribute(python, class, "__name__", name, sizeof(name)))
            break;
        snprintf(text, 2 * NAME_BYTES, "%s.%s", name, method);
        matched = rp_rules_match(rules, RP_RULE_PYTHON, text, file, &match);
    }
    python->PyErr_Clear();
    rp_python_release(python, classes);
    rp_python_release(python, type);
    return matched;
}

/*
 * Python 3.10 says a frame's plain name only. Its locals are read only where that is the method of a rule
 * (site_python_path.c). False: it is no such method.
 */
static bool find_method(const struct rp_python *python, const struct rp_rules *rules, struct rp_pyobject *frame,
                        const char *name, const char *file, char text[2 * NAME_BYTES])
{
    if (!rp_rules_have_method(rules, name))
        return false;
    struct rp_pyobject *self = rp_python_local(python, frame, "self");
    if (self == NULL)
        return false;
    bool found = find_class(python, rules, self, name, file, text);
    python->Py_DecRef(self);
    return found;
}

static struct rp_site_place look_up(const struct rp_python *python, const struct rp_site_tables *tables,
                                    struct rp_pyobject *frame, struct rp_pyobject *code)
{
    char name[NAME_BYTES], method[2 * NAME_BYTES], file[FILE_BYTES];
    const char *text = name;
    copy_attribute(python, code, "co_filename", file, sizeof(file));
    if (!copy_attribute(python, code, "co_qualname", name, sizeof(name))) {
        if (!copy_attribute(python, code, "co_name", name, sizeof(name)))
            return rp_site_no_place();
        if (find_method(python, tables->rules, frame, name, file, method))
            text = method;
    }
    return rp_site_ask(tables, RP_RULE_PYTHON, text, file, true);
}

static struct rp_site_place place_of(const struct rp_python *python, const struct rp_site_tables *tables,
                                     struct rp_pyobject *frame)
{
    struct rp_site_place place;
    struct rp_pyobject *code = python->PyFrame_GetCode(frame);
    if (!rp_site_cache_find(&rp_site_codes, code, &place)) {
        place = look_up(python, tables, frame, code);
        if (rp_site_cache_add(&rp_site_codes, code, &place))
            return place; /* our reference is the cache's now */
    }
    python->Py_DecRef(code);
    return place;
}

static void take_frame(const struct rp_python *python, const struct rp_site_query *query, struct rp_pyobject *frame,
                       struct rp_site_finding *finding)
{
    struct rp_site_place place = place_of(python, query->tables, frame);
    uint32_t module = place.module;
    if (place.by_path != NULL && rp_site_wants_module(finding, &place))
        module = rp_python_module(python, query->tables->modules, frame, place.by_path->module);
    rp_site_take(query, finding, &place, module);
}

/* The next frame outwards; gives the reference to `frame` back. */
static struct rp_pyobject *step_out(const struct rp_python *python, struct rp_pyobject *frame)
{
    struct rp_pyobject *back = python->PyFrame_GetBack(frame);
    python->Py_DecRef(frame);
    return back;
}

static void walk(const struct rp_python *python, const struct rp_site_query *query, struct rp_site_finding *finding)
{
    struct rp_pyobject *frame = python->PyEval_GetFrame();
    if (frame != NULL)
        python->Py_IncRef(frame);
    for (unsigned depth = 0; frame != NULL && depth < DEPTH; depth++) {
        take_frame(python, query, frame, finding);
        if (rp_site_done(query, RP_RULE_PYTHON, finding))
            break;
        frame = step_out(python, frame);
    }
    rp_python_release(python, frame);
    rp_site_join(query, finding);
}

void rp_site_from_python(const struct rp_site_query *query, struct rp_site_finding *finding)
{
    struct rp_python_visit visit;
    const struct rp_python *python = rp_python();
    if (python == NULL || !rp_python_enter(python, &visit))
        return;
    walk(python, query, finding);
    rp_python_leave(python, &visit);
}
