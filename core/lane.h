/*
 * A lane is the part of the order that runs on one communicator. Its positions count, alike on every rank, what
 * NCCL requires of every rank and would enqueue: no Send or Recv, no count of 0, no failed or simulated call;
 * inside a group a position is given at the outermost end.
 *
 * Threads: NCCL wants the calls on one communicator serialised by the application, so two threads may take
 * positions one after the other; the fields are atomic for that hand-over and for readers (the writer thread).
 */
#ifndef RP_LANE_H
#define RP_LANE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/op.h"

struct rp_lane {
    _Atomic uint64_t next;   /* the position that the next counted op gets */
    _Atomic uint64_t digest; /* running hash of the signatures of all counted ops, in order */
};

/* The digest behind an op of that signature. */
uint64_t rp_lane_fold(uint64_t digest, uint64_t signature);

void rp_lane_init(struct rp_lane *lane);

/* True if the op is one that positions count. */
bool rp_lane_counts(const struct rp_op *op);

/*
 * Gives the op its position and folds its signature into the digest if rp_lane_counts(); sets RP_NO_POSITION
 * otherwise. Call it once per op, in the order of the calls on the communicator, after the real call returned.
 */
void rp_lane_take(struct rp_lane *lane, struct rp_op *op);

#endif
