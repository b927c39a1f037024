/*
 * Which op of one trace is which op of another one. Communicators are paired by how they came to be: the n-th one of
 * the left trace with the same origin, size and own rank is the n-th such one of the right trace. The ops of a pair
 * of communicators are aligned in order, those on the lane and those beside it (send, recv, failed calls) apart;
 * so are the ops without a communicator. Allocations are not paired.
 *
 * Ops of a lane are aligned first by signature and name, because the layers of a model have equal signatures and a
 * skipped layer must not rename all that follow; then, between those pairs, by kind and name (an op that changed
 * its size), then by signature alone (an op that changed its name: only to or from one that the other run lacks).
 * A module or phase that one run does not know, because replay did not look it up, may be any.
 *
 * Threads: pure; the traces are only read.
 */
#ifndef RP_PAIR_H
#define RP_PAIR_H

#include <stdbool.h>

#include "core/trace/trace.h"

#define RP_PAIR_NONE UINT32_MAX

struct rp_pairs {
    uint32_t *right_of; /* per op of the left trace: its partner's index in the right one, or RP_PAIR_NONE */
    uint32_t *left_of;  /* and the other way round */
};

/* The caller frees the result. RP_NO_MEMORY; RP_UNSUPPORTED above 2^30 ops. */
enum rp_status rp_pair_ops(const struct rp_trace *left, const struct rp_trace *right, struct rp_pairs *pairs_out);
void rp_pairs_free(struct rp_pairs *pairs);

/* True if ops of the kind are paired at all. */
bool rp_pair_compares(enum rp_op_kind kind);

/* True if both ops, of one trace, are aligned together: same communicator, both on its lane or both not. */
bool rp_pair_same_lane(const struct rp_op *a, const struct rp_op *b);

/* False if the trace does not say in which module the op was called. */
bool rp_pair_knows_module(const struct rp_trace *trace, const struct rp_op *op);

/* The communicator of `other` that `comm` of `trace` is paired with, or NULL. */
const struct rp_trace_comm *rp_pair_comm(const struct rp_trace *trace, const struct rp_trace_comm *comm,
                                         const struct rp_trace *other);

#endif
