/*
 * Names that are in no one place: where a module is beneath another one, and what the names of several parameters have
 * in common (the grammar of paths has " // " and "[*]" for them). Only dictionaries, lists and tuples are read, keys
 * are compared by identity; no code of the application runs.
 *
 * Threads: any, inside rp_python_enter().
 */
#include "shim/site_python.h"

#include <stdlib.h>
#include <string.h>

#define TREE_DEPTH 32           /* modules inside one another */
#define TREE_MODULES 65536      /* that are looked at: more are no place */
#define VAIN_SHARE 64           /* so many modules of a search in vain buy one question that is passed over */
#define COMMON_ITEMS 1024       /* that are looked at */
#define COMMON_NAMES (1u << 18) /* of a dictionary, that are looked at: behind them nothing has a name */

struct name {
    size_t length;
    char text[RP_MODULE_NAME_MAX];
};

static bool name_append(const struct rp_python *python, struct name *name, struct rp_pyobject *part)
{
    size_t length = 0, dot = name->length > 0 ? 1 : 0;
    const char *text = rp_python_text(python, part, &length);
    if (text == NULL || name->length + dot + length > sizeof(name->text))
        return false;
    if (dot > 0)
        name->text[name->length] = '.';
    memcpy(name->text + name->length + dot, text, length);
    name->length += dot + length;
    return true;
}

static struct rp_pyobject *text_new(const struct rp_python *python, const char *text, size_t length)
{
    struct rp_pyobject *object = python->PyUnicode_FromStringAndSize(text, (ssize_t)length);
    python->PyErr_Clear();
    return object;
}

/* ---------------------------------------------------------------- a place in the tree of modules */

struct search {
    const struct rp_python *python;
    const struct rp_pyobject *root, *wanted;
    unsigned number;
    unsigned left; /* modules that may still be looked at */
    struct name name;
};

static bool is_beneath(struct search *search, struct rp_pyobject *module, unsigned depth);

static bool is_beneath_children(struct search *search, struct rp_pyobject *children, unsigned depth)
{
    const struct rp_python *python = search->python;
    struct rp_pyobject *key, *child;
    ssize_t position = 0;
    while (search->left > 0 && python->PyDict_Next(children, &position, &key, &child)) {
        size_t length = search->name.length;
        search->left--;
        if (!name_append(python, &search->name, key))
            continue;
        /* making an object's dictionary may collect garbage, which runs code that may take the child out of ours */
        python->Py_IncRef(child);
        bool found = is_beneath(search, child, depth);
        python->Py_DecRef(child);
        if (found)
            return true;
        search->name.length = length;
    }
    return false;
}

/* A new reference to the dictionary of its children; NULL for what is no module. */
static struct rp_pyobject *children_of(const struct rp_python *python, struct rp_pyobject *module)
{
    return rp_python_stored(python, module, "_modules");
}

/* Depth first in the order of registration, as Module.named_modules(): a module in two places is named by the first. */
static bool is_beneath(struct search *search, struct rp_pyobject *module, unsigned depth)
{
    if (depth == TREE_DEPTH)
        return false;
    struct rp_pyobject *children = children_of(search->python, module);
    if (children == NULL)
        return false;
    bool first = rp_python_keep(search->root, module, search->name.text, search->name.length, search->number);
    bool found = first && (module == search->wanted || is_beneath_children(search, children, depth + 1));
    search->python->Py_DecRef(children);
    return found;
}

/* A new reference to the child of that name, or NULL. */
static struct rp_pyobject *child_of(const struct rp_python *python, struct rp_pyobject *module, const char *name)
{
    return rp_python_dict_take(python, children_of(python, module), name);
}

/* Whether `name` leads from `root` to `module`. */
static bool leads_to(const struct rp_python *python, struct rp_pyobject *root, const struct rp_pyobject *module,
                     const char *name)
{
    struct rp_pyobject *at = root;
    char part[RP_MODULE_NAME_MAX + 1];
    python->Py_IncRef(at);
    while (*name != '\0' && at != NULL) {
        size_t length = strcspn(name, ".");
        memcpy(part, name, length);
        part[length] = '\0';
        name += length + (name[length] == '.');
        struct rp_pyobject *child = child_of(python, at, part);
        python->Py_DecRef(at);
        at = child;
    }
    bool found = at == module;
    rp_python_release(python, at);
    return found;
}

/* What an earlier search has passed, if it is still there: a new str; else NULL. */
static struct rp_pyobject *known_place(const struct rp_python *python, struct rp_pyobject *root,
                                       const struct rp_pyobject *module)
{
    const char *known = rp_python_known(root, module);
    struct rp_pyobject *place = known != NULL ? text_new(python, known, strlen(known)) : NULL;
    size_t length;
    const char *text = rp_python_text(python, place, &length); /* the table may change while it is followed */
    if (text != NULL && leads_to(python, root, module, text))
        return place;
    rp_python_release(python, place);
    return NULL;
}

struct rp_pyobject *rp_python_beneath(const struct rp_python *python, struct rp_pyobject *root,
                                      const struct rp_pyobject *module)
{
    static unsigned searches, passed_over; /* under the GIL */
    struct rp_pyobject *place = known_place(python, root, module);
    struct search search = {
        .python = python, .root = root, .wanted = module, .number = ++searches, .left = TREE_MODULES};
    if (place != NULL || passed_over > 0) {
        passed_over -= place == NULL;
        return place;
    }
    if (is_beneath(&search, root, 0))
        return text_new(python, search.name.text, search.name.length);
    passed_over = (TREE_MODULES - search.left) / VAIN_SHARE;
    return NULL;
}

/* ---------------------------------------------------------------- what names have in common */

struct rp_pyobject *rp_python_dict_find(const struct rp_python *python, struct rp_pyobject *dictionary,
                                        const struct rp_pyobject *wanted)
{
    struct rp_pyobject *key, *value;
    ssize_t position = 0;
    while (python->PyDict_Next(dictionary, &position, &key, &value))
        if (key == wanted)
            return value;
    return NULL;
}

struct rp_pyobject *rp_python_dict_text(const struct rp_python *python, struct rp_pyobject *dictionary,
                                        const char *wanted)
{
    struct rp_pyobject *key, *value;
    ssize_t position = 0;
    size_t length = 0, wanted_length = strlen(wanted);
    while (python->PyDict_Next(dictionary, &position, &key, &value)) {
        const char *text = rp_python_text(python, key, &length);
        if (text != NULL && length == wanted_length && memcmp(text, wanted, length) == 0)
            return value;
    }
    return NULL;
}

struct rp_pyobject *rp_python_item(const struct rp_python *python, struct rp_pyobject *items, ssize_t index)
{
    struct rp_pyobject *item = python->PyTuple_GetItem(items, index);
    python->PyErr_Clear();
    if (item == NULL)
        item = python->PyList_GetItem(items, index);
    python->PyErr_Clear();
    return item;
}

/* The length of `text` in front of its last dot. */
static size_t owner_length(const char *text, size_t length)
{
    while (length > 0 && text[length - 1] != '.')
        length--;
    return length > 0 ? length - 1 : 0;
}

/* How much of two dotted names is the same, in whole parts. */
static size_t common_length(const char *a, size_t a_length, const char *b, size_t b_length)
{
    size_t least = a_length < b_length ? a_length : b_length, length = 0;
    while (length < least && a[length] == b[length])
        length++;
    bool a_ends = length == a_length || a[length] == '.', b_ends = length == b_length || b[length] == '.';
    return a_ends && b_ends ? length : owner_length(a, length);
}

struct items {
    size_t count; /* different ones, in the order of their addresses */
    const struct rp_pyobject *all[COMMON_ITEMS];
};

static int by_address(const void *left, const void *right)
{
    uintptr_t a = (uintptr_t) * (const struct rp_pyobject *const *)left;
    uintptr_t b = (uintptr_t) * (const struct rp_pyobject *const *)right;
    return (a > b) - (a < b);
}

static void items_read(const struct rp_python *python, struct rp_pyobject *list, struct items *items)
{
    struct rp_pyobject *item;
    size_t count = 0;
    items->count = 0;
    while (count < COMMON_ITEMS && (item = rp_python_item(python, list, (ssize_t)count)) != NULL)
        items->all[count++] = item;
    qsort(items->all, count, sizeof(items->all[0]), by_address);
    for (size_t i = 0; i < count; i++)
        if (i == 0 || items->all[i] != items->all[i - 1])
            items->all[items->count++] = items->all[i];
}

static bool items_have(const struct items *items, const struct rp_pyobject *object)
{
    return bsearch(&object, items->all, items->count, sizeof(items->all[0]), by_address) != NULL;
}

/* `common` becomes what it shares with `name`, which is the first if `first`. False: `name` is none. */
static bool take_common(const struct rp_python *python, struct name *common, struct rp_pyobject *name, bool first)
{
    size_t length = 0;
    const char *text = rp_python_text(python, name, &length);
    length = text != NULL ? owner_length(text, length) : 0;
    if (text == NULL || length > sizeof(common->text))
        return false;
    if (first)
        memcpy(common->text, text, length);
    common->length = first ? length : common_length(common->text, common->length, text, length);
    return true;
}

/* One pass over the names, whose order is not that of the items: both may be many. */
struct rp_pyobject *rp_python_common(const struct rp_python *python, struct rp_pyobject *names,
                                     struct rp_pyobject *items)
{
    struct items wanted;
    struct name common = {0};
    struct rp_pyobject *key, *name;
    ssize_t position = 0;
    size_t found = 0;
    items_read(python, items, &wanted);
    for (unsigned i = 0; i < COMMON_NAMES && found < wanted.count; i++) {
        if (!python->PyDict_Next(names, &position, &key, &name))
            break;
        if (!items_have(&wanted, key))
            continue;
        if (!take_common(python, &common, name, found == 0))
            return NULL;
        found++;
    }
    return found > 0 && found == wanted.count ? text_new(python, common.text, common.length) : NULL;
}
