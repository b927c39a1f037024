/*
 * One of two traces while they are paired: its ops by lane, and the keys by which they are found again in the other
 * trace. Private to pair.c and its parts.
 *
 * Threads: pure; the trace is only read.
 */
#ifndef RP_PAIR_SIDE_H
#define RP_PAIR_SIDE_H

#include <stdbool.h>

#include "core/compare/align.h"
#include "core/compare/pair.h"

/* What calls of two traces are compared by. */
struct rp_pair_key {
    uint64_t signature; /* rp_op_signature(), and the peer of a send or receive, which that leaves out */
    uint64_t name;      /* module and phase as the two parts of a name (align.h) */
};

/*
 * Lane 2c holds the ops on the lane of comms[c], 2c + 1 those beside it; the last two those of no known communicator.
 * index[first[lane] .. first[lane + 1]) are a lane's ops, in the unified order.
 */
struct rp_pair_lanes {
    const struct rp_pair_part *part;
    const struct rp_trace *trace;
    const struct rp_packed *packed;
    struct rp_pair_key *keys; /* per call */
    uint64_t *names;          /* hash per module number */
    uint64_t *known;          /* those of modules that ops have, sorted */
    size_t known_count;
    size_t *first;
    uint32_t *index;
    size_t lane_count;
};

/* The number of an op's lane. */
size_t rp_pair_lane_of(const struct rp_trace *trace, const struct rp_op *op);

/* RP_NO_MEMORY. The result is to be freed. */
enum rp_status rp_pair_lanes_create(const struct rp_pair_part *part, struct rp_pair_lanes *lanes_out);
void rp_pair_lanes_free(struct rp_pair_lanes *lanes);

/* How many of these ops of a lane have no partner. */
size_t rp_pair_count_alone(const uint32_t *index, size_t count, const uint32_t *partner_of);

static inline struct rp_pair_key rp_pair_key_of(const struct rp_pair_lanes *lanes, size_t index)
{
    return lanes->keys[lanes->packed->ops[index].call];
}

/* Two modules that both runs have are not one that was renamed. An op without a module may be any. */
bool rp_pair_may_be_renamed(const struct rp_pair_lanes *left, const struct rp_op *a, const struct rp_pair_lanes *right,
                            const struct rp_op *b);

#endif
