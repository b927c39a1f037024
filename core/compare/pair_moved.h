/*
 * Finds what moved within a pair of steps: an op that is alone on both sides, equal in event and signature. Private to
 * pair_lane.c.
 *
 * Threads: pure.
 */
#ifndef RP_PAIR_MOVED_H
#define RP_PAIR_MOVED_H

#include "core/compare/pair_side.h"

struct rp_pair_slice { /* ops of a lane that are in one step */
    const struct rp_pair_lanes *side;
    const uint32_t *index; /* in the trace's ops */
    size_t count;
};

/* The first of several equal ones on the left is the first on the right. Adds to `pairs`. RP_NO_MEMORY. */
enum rp_status rp_pair_moved(struct rp_pair_slice left, struct rp_pair_slice right, struct rp_pairs *pairs);

#endif
