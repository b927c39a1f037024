/*
 * Open addressing, at most half full. plan_contents.h has the job and the threads.
 */
#include "core/plan/plan_contents.h"

#include <stdlib.h>

enum rp_status rp_plan_contents_make(size_t most, struct rp_plan_contents *contents_out)
{
    struct rp_plan_contents contents = {.mask = 1};

    if (most > SIZE_MAX / 4)
        return RP_NO_MEMORY;
    while (contents.mask + 1 < 2 * most)
        contents.mask = 2 * contents.mask + 1;
    contents.table = calloc(contents.mask + 1, sizeof(*contents.table));
    if (contents.table == NULL)
        return RP_NO_MEMORY;
    *contents_out = contents;
    return RP_OK;
}

void rp_plan_contents_free(struct rp_plan_contents *contents)
{
    free(contents->table);
}

/* Contents are sums of hashes already. */
static size_t hash_of(const struct rp_learned *item)
{
    uint64_t hash = (item->content[0] + item->bytes) * UINT64_C(0x9e3779b97f4a7c15);
    hash = (hash ^ hash >> 32 ^ item->content[1]) * UINT64_C(0x9e3779b97f4a7c15);
    return (size_t)(hash ^ hash >> 32);
}

size_t rp_plan_contents_see(struct rp_plan_contents *contents, const struct rp_learned *item, size_t number)
{
    size_t at = hash_of(item) & contents->mask;

    while (contents->table[at].item != NULL && !rp_plan_sent_same(contents->table[at].item, item))
        at = (at + 1) & contents->mask;
    struct rp_plan_sent *sent = &contents->table[at];
    size_t before = sent->item != NULL ? sent->number : RP_NOT_SEEN;
    *sent = (struct rp_plan_sent){.item = item, .number = number};
    return before;
}
