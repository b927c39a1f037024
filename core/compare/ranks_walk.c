#include <stdlib.h>

#include "core/compare/ranks_private.h"

enum rp_status rp_ranks_walk_open(const struct rp_ranks_comm *comm, struct rp_ranks_walk *walk_out)
{
    struct rp_ranks_walk walk = {.comm = comm, .position = RP_NO_POSITION};
    walk.ops = calloc(comm->member_count, sizeof(*walk.ops));
    walk.next = calloc(comm->member_count, sizeof(*walk.next));
    if (walk.ops == NULL || walk.next == NULL) {
        rp_ranks_walk_close(&walk);
        return RP_NO_MEMORY;
    }
    *walk_out = walk;
    return RP_OK;
}

void rp_ranks_walk_close(struct rp_ranks_walk *walk)
{
    free(walk->ops);
    free(walk->next);
}

static const struct rp_trace_op *next_op(const struct rp_ranks_walk *walk, size_t m)
{
    const struct rp_ranks_member *member = &walk->comm->members[m];
    return walk->next[m] < member->lane_count ? &member->trace->ops[member->lane[walk->next[m]]] : NULL;
}

bool rp_ranks_walk_next(struct rp_ranks_walk *walk)
{
    walk->position = RP_NO_POSITION;
    walk->present = 0;
    for (size_t m = 0; m < walk->comm->member_count; m++) {
        walk->ops[m] = next_op(walk, m);
        if (walk->ops[m] != NULL && walk->ops[m]->op.position < walk->position)
            walk->position = walk->ops[m]->op.position;
    }
    for (size_t m = 0; m < walk->comm->member_count; m++) {
        const struct rp_trace_op *op = walk->ops[m];
        if (op == NULL || op->op.position != walk->position) {
            walk->ops[m] = NULL;
            continue;
        }
        walk->present++;
        /* a position is given once; a trace that says it twice is taken at its first word */
        while (op != NULL && op->op.position == walk->position) {
            walk->next[m]++;
            op = next_op(walk, m);
        }
    }
    return walk->present > 0;
}
