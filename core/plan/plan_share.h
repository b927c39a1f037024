/*
 * Sharing a budget out over slots of several sizes: a knapsack, of which each size's next slot is worth no more than
 * the one before it, as a rule.
 *
 * Threads: pure functions of their arguments.
 */
#ifndef RP_PLAN_SHARE_H
#define RP_PLAN_SHARE_H

#include <stddef.h>
#include <stdint.h>

#include "core/status.h"

/* Each of so many further slots of a size adds `value`. */
struct rp_share_run {
    size_t size;
    size_t slots;
    uint64_t value;
};

struct rp_share_size {
    uint64_t bytes;                                 /* of a slot, at least 1 */
    size_t first, count;                            /* of the runs: its own, in the order in which its slots are had */
    size_t slots;                                   /* what it gets */
    enum { RP_SHARE_EXACT, RP_SHARE_ROUGH } values; /* rough: the slots of a run add that much together only */
};

struct rp_share {
    struct rp_share_size *sizes; /* the smallest first */
    size_t count;
    const struct rp_share_run *runs;
    size_t run_count;
    uint64_t budget;
};

/*
 * Sets `slots` of each size: the run that is worth most for its bytes first, of several the one of the smallest size.
 * Then, where values are exact, better ones are searched for (branch and bound), which finds the best if there are few
 * sizes or slots; it ends after a number of steps that depends on nothing else. Values of all slots together must fit
 * in 64 bits. RP_NO_MEMORY: slots as they came.
 */
enum rp_status rp_share_out(struct rp_share *share);

#endif
