#include "core/tool/export_names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define HASH_NONFATAL_OOM 1
#define HASH_FUNCTION(key, length, hash) (hash) = (unsigned)XXH3_64bits((key), (length))
#include <uthash.h>

#include "core/tool/demangle.h"
#include "core/tool/rows.h"
#include "core/tool/tool.h"
#include "core/trace/trace_format.h"

#define NAME_BYTES 1000 /* of a name, cut */

/* What a name is made from. Its bytes are compared, so that it has no padding. */
struct key {
    uint64_t a, b;
    uint32_t kind, trace;
};

enum kind { KIND_OP, KIND_EVENT, KIND_KERNEL, KIND_TEXT };

struct name {
    UT_hash_handle hh;
    struct key key;
    uint32_t number;
    char text[];
};

struct rp_export_names {
    const struct rp_trace *trace;
    uint32_t traces; /* so far */
    struct name *hash;
    struct name **by_number; /* number 1 is at 0 */
    uint32_t count, room;
};

enum rp_status rp_export_names_create(struct rp_export_names **names_out)
{
    struct rp_export_names *names = calloc(1, sizeof(*names));
    if (names == NULL)
        return RP_NO_MEMORY;
    *names_out = names;
    return RP_OK;
}

void rp_export_names_destroy(struct rp_export_names *names)
{
    if (names == NULL)
        return;
    HASH_CLEAR(hh, names->hash);
    for (uint32_t i = 0; i < names->count; i++)
        free(names->by_number[i]);
    free(names->by_number);
    free(names);
}

void rp_export_names_of(struct rp_export_names *names, const struct rp_trace *trace)
{
    names->trace = trace;
    names->traces++;
}

static uint32_t find(const struct rp_export_names *names, const struct key *key)
{
    struct name *name;
    HASH_FIND(hh, names->hash, key, sizeof(*key), name);
    return name == NULL ? 0 : name->number;
}

static bool has_room(struct rp_export_names *names)
{
    if (names->count < names->room)
        return true;
    uint32_t room = names->room == 0 ? 64 : names->room * 2;
    struct name **larger = realloc(names->by_number, room * sizeof(struct name *));
    if (larger == NULL)
        return false;
    names->by_number = larger;
    names->room = room;
    return true;
}

static uint32_t add(struct rp_export_names *names, const struct key *key, const char *text)
{
    char safe[NAME_BYTES];
    rp_tool_safe(text, safe, sizeof(safe));
    size_t length = strlen(safe);
    struct name *name = has_room(names) ? malloc(sizeof(*name) + length + 1) : NULL;
    if (name == NULL)
        return 0;
    memcpy(name->text, safe, length + 1);
    name->key = *key;
    name->number = names->count + 1;
    HASH_ADD(hh, names->hash, key, sizeof(name->key), name);
    names->by_number[names->count++] = name; /* also one that memory was out for in the hash */
    return name->number;
}

uint32_t rp_export_name_op(struct rp_export_names *names, const struct rp_op *op)
{
    char text[160];
    const struct key key = {.a = op->count,
                            .b = (uint64_t)op->kind | (uint64_t)op->dtype << 8 | (uint64_t)op->redop << 16 |
                                 (uint64_t)(uint32_t)op->root << 32,
                            .kind = KIND_OP};
    uint32_t number = find(names, &key);
    return number != 0 ? number : add(names, &key, rp_op_print(op, text, sizeof(text)));
}

uint32_t rp_export_name_event(struct rp_export_names *names, struct rp_event event)
{
    char text[300];
    const struct key key = {.a = event.module, .b = event.phase, .kind = KIND_EVENT, .trace = names->traces};
    const struct rp_op op = {.module = event.module, .phase = (uint8_t)event.phase};
    uint32_t number = find(names, &key);
    return number != 0 ? number : add(names, &key, rp_rows_event(names->trace, &op, text, sizeof(text)));
}

uint32_t rp_export_name_kernel(struct rp_export_names *names, uint64_t kernel)
{
    char text[NAME_BYTES];
    const struct key key = {.a = kernel, .kind = KIND_KERNEL, .trace = names->traces};
    uint32_t number = find(names, &key);
    if (number != 0)
        return number;
    const char *name = rp_trace_kernel_name(names->trace, kernel);
    return add(names, &key, rp_demangle(name != NULL ? name : "?", text, sizeof(text)));
}

uint32_t rp_export_name_text(struct rp_export_names *names, const char *text)
{
    const XXH128_hash_t hash = XXH3_128bits(text, strlen(text));
    const struct key key = {.a = hash.low64, .b = hash.high64, .kind = KIND_TEXT};
    uint32_t number = find(names, &key);
    return number != 0 ? number : add(names, &key, text);
}

const char *rp_export_name(const struct rp_export_names *names, uint32_t number)
{
    return number == 0 || number > names->count ? "?" : names->by_number[number - 1]->text;
}
