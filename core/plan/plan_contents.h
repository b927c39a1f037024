/*
 * Gathers by what they sent: which one sent the same before. A hash table of as many items as are put in at most.
 *
 * Threads: one at a time.
 */
#ifndef RP_PLAN_CONTENTS_H
#define RP_PLAN_CONTENTS_H

#include <stdbool.h>
#include <stddef.h>

#include "core/plan/plan.h"
#include "core/status.h"

#define RP_NOT_SEEN SIZE_MAX

struct rp_plan_contents {
    struct rp_plan_sent {
        const struct rp_learned *item; /* not owned; NULL: none */
        size_t number;
    } * table;
    size_t mask; /* its size, a power of 2, less 1 */
};

/* The same content of the same size. */
static inline bool rp_plan_sent_same(const struct rp_learned *a, const struct rp_learned *b)
{
    return a->content[0] == b->content[0] && a->content[1] == b->content[1] && a->bytes == b->bytes;
}

/* For at most `most` different ones. RP_NO_MEMORY. */
enum rp_status rp_plan_contents_make(size_t most, struct rp_plan_contents *contents_out);
void rp_plan_contents_free(struct rp_plan_contents *contents);

/* The number of the item seen last that sent the same, RP_NOT_SEEN: none. From now on it is this one, of that number.
 */
size_t rp_plan_contents_see(struct rp_plan_contents *contents, const struct rp_learned *item, size_t number);

#endif
