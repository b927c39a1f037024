/*
 * The set of contents seen in the last `window` ops: a ring with one place an op, and a hash over the places that
 * hold a gather's content. A content lives at the place where it was last seen.
 */
#include "core/steps/fresh.h"

#include <stdlib.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define HASH_FUNCTION(key, length, hash) ((hash) = (unsigned)XXH3_64bits(key, length))
/* uthash would exit() the application when memory is out; instead a content is not remembered. */
#define HASH_NONFATAL_OOM 1
#include <uthash.h>

struct content {
    uint64_t key[3]; /* fingerprint, bytes */
    UT_hash_handle hh;
    enum { PLACE_FREE, PLACE_HELD } state;
};

struct rp_freshness {
    struct content *hash;
    size_t window;
    size_t next; /* the place of the next op */
    struct content places[];
};

enum rp_status rp_freshness_create(size_t window, struct rp_freshness **set_out)
{
    struct rp_freshness *set;

    if (window == 0 || window > (SIZE_MAX - sizeof(*set)) / sizeof(set->places[0]))
        return RP_INVALID;
    set = calloc(1, sizeof(*set) + window * sizeof(set->places[0]));
    if (set == NULL)
        return RP_NO_MEMORY;
    set->window = window;
    *set_out = set;
    return RP_OK;
}

void rp_freshness_destroy(struct rp_freshness *set)
{
    if (set == NULL)
        return;
    HASH_CLEAR(hh, set->hash);
    free(set);
}

static void forget(struct rp_freshness *set, struct content *content)
{
    if (content->state == PLACE_HELD)
        HASH_DEL(set->hash, content);
    content->state = PLACE_FREE;
}

static void remember(struct rp_freshness *set, struct content *content)
{
    HASH_ADD(hh, set->hash, key, sizeof(content->key), content);
    content->state = content->hh.tbl != NULL ? PLACE_HELD : PLACE_FREE;
}

bool rp_freshness_see(struct rp_freshness *set, const struct rp_op *op, const uint64_t fingerprint[2])
{
    struct content *place = &set->places[set->next], *before;

    set->next = (set->next + 1) % set->window;
    if (op->kind != RP_OP_ALL_GATHER || fingerprint == NULL) {
        forget(set, place);
        return false;
    }
    uint64_t key[3] = {fingerprint[0], fingerprint[1], rp_op_bytes(op)};
    HASH_FIND(hh, set->hash, key, sizeof(key), before);
    if (before != NULL)
        forget(set, before);
    forget(set, place);
    memcpy(place->key, key, sizeof(key));
    remember(set, place);
    return before == NULL;
}
