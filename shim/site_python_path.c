/*
 * Reads the name of a module from a frame along a rule's paths (the grammar is in core/rules/README.md). Only stored
 * values are read: locals, instance dictionaries, items of exact containers. No code of the application runs.
 *
 * Threads: any, inside rp_python_enter().
 */
#include "shim/site_python.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "core/rules/path.h"

/* Where a path is being read. `at` stands behind what has been read. */
struct reader {
    const struct rp_python *python;
    struct rp_pyobject *frame;
    const char *at;
    unsigned nested;
};

static struct rp_pyobject *path(struct reader *reader);

/* An identifier into `name`; false if there is none, or it is too long. */
static bool take_name(struct reader *reader, char name[RP_PATH_NAME_BYTES])
{
    size_t length = strspn(reader->at, RP_PATH_NAME_CHARACTERS);
    if (length == 0 || length >= RP_PATH_NAME_BYTES)
        return false;
    memcpy(name, reader->at, length);
    name[length] = '\0';
    reader->at += length;
    return true;
}

/* A new reference from a borrowed one, with no exception left set. */
static struct rp_pyobject *own(const struct rp_python *python, struct rp_pyobject *borrowed)
{
    if (borrowed != NULL)
        python->Py_IncRef(borrowed);
    python->PyErr_Clear();
    return borrowed;
}

struct rp_pyobject *rp_python_dict_take(const struct rp_python *python, struct rp_pyobject *dictionary,
                                        const char *wanted)
{
    struct rp_pyobject *value = dictionary != NULL ? rp_python_dict_text(python, dictionary, wanted) : NULL;
    value = own(python, value);
    rp_python_release(python, dictionary);
    return value;
}

struct rp_pyobject *rp_python_attribute(const struct rp_python *python, struct rp_pyobject *object, const char *name)
{
    struct rp_pyobject *text = python->PyUnicode_FromStringAndSize(name, (ssize_t)strlen(name));
    struct rp_pyobject *value = text != NULL ? python->PyObject_GenericGetAttr(object, text) : NULL;
    python->PyErr_Clear();
    rp_python_release(python, text);
    return value;
}

struct rp_pyobject *rp_python_local(const struct rp_python *python, struct rp_pyobject *frame, const char *name)
{
    if (python->PyFrame_GetVarString != NULL) {
        struct rp_pyobject *value = python->PyFrame_GetVarString(frame, name);
        python->PyErr_Clear();
        return value;
    }
    /* Up to 3.11 this makes the frame hold a copy of its locals until it returns: ask short-lived frames only. */
    return rp_python_dict_take(python, rp_python_attribute(python, frame, "f_locals"), name);
}

struct rp_pyobject *rp_python_stored(const struct rp_python *python, struct rp_pyobject *object, const char *name)
{
    return rp_python_dict_take(python, python->PyObject_GenericGetDict(object, NULL), name);
}

static struct rp_pyobject *attribute(struct reader *reader, struct rp_pyobject *object)
{
    char name[RP_PATH_NAME_BYTES];
    if (!take_name(reader, name))
        return NULL;
    return rp_python_stored(reader->python, object, name);
}

static struct rp_pyobject *item_by_number(struct reader *reader, struct rp_pyobject *object)
{
    char *end;
    ssize_t index = strtol(reader->at, &end, 10);
    reader->at = end;
    return own(reader->python, rp_python_item(reader->python, object, index));
}

/* An int itself, since asking others for their number may run their code; -1 for all else. */
static ssize_t index_of(const struct rp_python *python, struct rp_pyobject *object)
{
    struct rp_pyobject *zero = python->PyLong_FromLong(0);
    struct rp_pyobject *number = zero != NULL ? python->PyObject_Type(zero) : NULL,
                       *type = python->PyObject_Type(object);
    ssize_t index = number != NULL && type == number ? python->PyLong_AsSsize_t(object) : -1;
    python->PyErr_Clear();
    rp_python_release(python, type);
    rp_python_release(python, number);
    rp_python_release(python, zero);
    return index;
}

/* A dictionary's value or, where the key is an int, a list's item; with "[*]" behind it what all items' names share. */
static struct rp_pyobject *item_by_key(struct reader *reader, struct rp_pyobject *object)
{
    const struct rp_python *python = reader->python;
    struct rp_pyobject *wanted = path(reader), *value = NULL;
    if (wanted == NULL)
        return NULL;
    if (strncmp(reader->at, RP_PATH_ALL_ITEMS, strlen(RP_PATH_ALL_ITEMS)) == 0) {
        reader->at += strlen(RP_PATH_ALL_ITEMS);
        value = rp_python_common(python, object, wanted);
    } else {
        value = own(python, rp_python_dict_find(python, object, wanted));
        ssize_t index = value == NULL ? index_of(python, wanted) : -1;
        value = index >= 0 ? own(python, rp_python_item(python, object, index)) : value;
    }
    rp_python_release(python, wanted);
    return value;
}

static struct rp_pyobject *item(struct reader *reader, struct rp_pyobject *object)
{
    bool number = isdigit((unsigned char)*reader->at);
    struct rp_pyobject *value = number ? item_by_number(reader, object) : item_by_key(reader, object);
    if (value == NULL || *reader->at++ == ']')
        return value;
    rp_python_release(reader->python, value);
    return NULL;
}

/* The object at the end of the path at the reader, a new reference, or NULL. */
static struct rp_pyobject *path(struct reader *reader)
{
    char name[RP_PATH_NAME_BYTES];
    if (reader->nested == RP_PATH_NESTED || !take_name(reader, name))
        return NULL;
    reader->nested++;
    struct rp_pyobject *object = rp_python_local(reader->python, reader->frame, name);
    while (object != NULL && (*reader->at == '.' || *reader->at == '[') &&
           strncmp(reader->at, RP_PATH_ALL_ITEMS, strlen(RP_PATH_ALL_ITEMS)) != 0) {
        bool is_attribute = *reader->at++ == '.';
        struct rp_pyobject *next = is_attribute ? attribute(reader, object) : item(reader, object);
        rp_python_release(reader->python, object);
        object = next;
    }
    reader->nested--;
    return object;
}

static struct rp_pyobject *path_at(const struct rp_python *python, struct rp_pyobject *frame, const char *at)
{
    struct reader reader = {.python = python, .frame = frame, .at = at};
    return path(&reader);
}

/* `length` without the text of `end` at the end, and without the dot before it. */
static size_t without_end(const char *text, size_t length, const char *end, size_t end_length)
{
    if (end_length > length || memcmp(text + length - end_length, end, end_length) != 0)
        return length;
    length -= end_length;
    return length > 0 && text[length - 1] == '.' ? length - 1 : length;
}

/* The path behind `operator` in the name that ends at `rest` (NULL: with the text), or NULL. */
static const char *second_path(const char *spec, const char *rest, const char *operator)
{
    const char *at = strstr(spec, operator);
    return at != NULL && (rest == NULL || at < rest) ? at + strlen(operator) : NULL;
}

/* Where what `spec` leads to is beneath `root`, whose reference is given back. */
static struct rp_pyobject *place_beneath(const struct rp_python *python, struct rp_pyobject *frame,
                                         struct rp_pyobject *root, const char *spec)
{
    struct rp_pyobject *module = path_at(python, frame, spec);
    struct rp_pyobject *place = module != NULL ? rp_python_beneath(python, root, module) : NULL;
    rp_python_release(python, module);
    rp_python_release(python, root);
    return place;
}

/* The first name of `spec`; the next one begins at `*rest_out`, NULL if there is none. */
static uint32_t module_of_first(const struct rp_python *python, struct rp_modules *modules, struct rp_pyobject *frame,
                                const char *spec, const char **rest_out)
{
    const char *rest = strstr(spec, " | ");
    const char *end_spec = second_path(spec, rest, " - "), *place_spec = second_path(spec, rest, " // ");
    struct rp_pyobject *name = path_at(python, frame, spec);
    if (name != NULL && place_spec != NULL)
        name = place_beneath(python, frame, name, place_spec);
    struct rp_pyobject *end = name != NULL && end_spec != NULL ? path_at(python, frame, end_spec) : NULL;
    size_t length = 0, end_length = 0;
    uint32_t module = RP_MODULE_UNKNOWN;
    const char *text = rp_python_text(python, name, &length), *end_text = rp_python_text(python, end, &end_length);
    if (text != NULL && end_text != NULL)
        length = without_end(text, length, end_text, end_length);
    if (text != NULL)
        module = rp_site_intern(modules, text, length);
    rp_python_release(python, end);
    rp_python_release(python, name);
    *rest_out = rest != NULL ? rest + strlen(" | ") : NULL;
    return module;
}

uint32_t rp_python_module(const struct rp_python *python, struct rp_modules *modules, struct rp_pyobject *frame,
                          const char *spec)
{
    uint32_t module = RP_MODULE_UNKNOWN;
    if (python->_Py_MergeZeroLocalRefcount != NULL)
        return module; /* a build without a GIL: others change what we read, and references are borrowed */
    while (spec != NULL && module == RP_MODULE_UNKNOWN)
        module = module_of_first(python, modules, frame, spec, &spec);
    return module;
}
