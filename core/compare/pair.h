/*
 * Which op of one trace is which of another one. Communicators are paired by how they came to be: the n-th one of
 * the left trace with the same origin, size and own rank is the n-th such one of the right trace. The ops of a pair
 * of communicators are aligned in order, those on the lane and those beside it (send, recv, failed calls) apart;
 * so are the ops without a communicator. Allocations are not paired.
 *
 * A lane is aligned by structure first. Steps are paired with steps (pair_steps.h), so that a step with one
 * microbatch more has it at its own end, not at the end of the run. Inside a pair of steps ops are aligned first by
 * event and signature, because the layers of a model have equal signatures and a skipped layer must not rename all that
 * follow; then, between those pairs, by event and kind (an op that changed its size), then by signature alone (an op
 * that changed its name: only to or from one that the other run lacks). What then stays alone is aligned once more
 * without regard to steps: a lane's first op may lie on the other side of a step's beginning, which another lane makes.
 * An op that is alone on both sides of a pair of steps, equal in event and signature, moved.
 *
 * Steps are not looked at where the whole lanes match without them, nor where more ops match without them: then the
 * runs' steps were not found in the same way (one has no fingerprints, or learning rate 0, or a layer was skipped). But
 * where it is sure that steps differ (pair_steps.h), and of a pair of them as a rule one holds all of the other, they
 * alone count: six steps of two microbatches are not four of three.
 *
 * A module or phase that one run does not know, because replay did not look it up, may be any.
 *
 * Ops are taken packed (trace_packed.h): what is asked of an op is mostly asked of its call, once.
 *
 * Threads: pure; the traces are only read.
 */
#ifndef RP_PAIR_H
#define RP_PAIR_H

#include <stdbool.h>

#include "core/compare/timeline.h"
#include "core/trace/trace_packed.h"

#define RP_PAIR_NONE UINT32_MAX

/* What is paired of a trace: whole steps of it. */
struct rp_pair_part {
    const struct rp_packed *packed;
    const struct rp_trace *trace; /* all but its ops */
    const struct rp_timeline *timeline;
    size_t first_step, end_step; /* [first, end) */
    size_t from, to;             /* the ops of these steps */
};

struct rp_pairs {
    uint32_t *right_of;      /* per op of the left trace: its partner's index in the right one, or RP_PAIR_NONE */
    uint32_t *left_of;       /* and the other way round */
    bool *moved;             /* per op of the left trace: it and its partner stand at different places */
    uint32_t *step_of;       /* per step of the left trace: the right one it is paired with, or RP_PAIR_NONE */
    bool *step_alike;        /* per step of the left trace: it and its partner have the same ops, in whatever order */
    bool steps_differ;       /* pair_steps.h */
    uint32_t *right_comm_of; /* per communicator of the left trace: its partner's index in the right one's, or NONE */
    uint32_t *left_comm_of;  /* and the other way round */
};

/* The part of a trace with the steps [first, end); SIZE_MAX: to its end. */
struct rp_pair_part rp_pair_part_of(const struct rp_packed *packed, const struct rp_timeline *timeline, size_t first,
                                    size_t end);

/* The caller frees the result. RP_NO_MEMORY; RP_UNSUPPORTED above 2^30 ops. */
enum rp_status rp_pair_ops(const struct rp_pair_part *left, const struct rp_pair_part *right,
                           struct rp_pairs *pairs_out);
void rp_pairs_free(struct rp_pairs *pairs);

/* True if ops of the kind are paired at all. */
bool rp_pair_compares(enum rp_op_kind kind);

/* True if both ops, of one trace, are aligned together: same communicator, both on its lane or both not. */
bool rp_pair_same_lane(const struct rp_op *a, const struct rp_op *b);

#endif
