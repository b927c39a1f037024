/*
 * Positions and digest of a lane. Called in the hooks of collectives, after the real call, by the thread whose turn
 * it is on the communicator.
 *
 * Relaxed atomics suffice: the application orders two threads that take turns, and a reader (the writer thread)
 * wants each field whole, not both of the same moment.
 */
#include "core/lane.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

void rp_lane_init(struct rp_lane *lane)
{
    atomic_init(&lane->next, 0);
    atomic_init(&lane->digest, 0);
}

bool rp_lane_counts(const struct rp_op *op)
{
    return rp_op_kind_on_lane((enum rp_op_kind)op->kind) && op->count > 0 &&
           (op->flags & (RP_OP_FAILED | RP_OP_SIMULATED)) == 0;
}

uint64_t rp_lane_fold(uint64_t digest, uint64_t signature)
{
    uint64_t words[2] = {digest, signature};
    return XXH3_64bits(words, sizeof(words));
}

void rp_lane_take(struct rp_lane *lane, struct rp_op *op)
{
    op->position = RP_NO_POSITION;
    if (!rp_lane_counts(op))
        return;
    op->position = atomic_fetch_add_explicit(&lane->next, 1, memory_order_relaxed);
    uint64_t digest = atomic_load_explicit(&lane->digest, memory_order_relaxed);
    atomic_store_explicit(&lane->digest, rp_lane_fold(digest, rp_op_signature(op)), memory_order_relaxed);
}
