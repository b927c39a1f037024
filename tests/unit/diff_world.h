/*
 * Runs made in memory, and their diffs: steps of a small sharded model on two communicators. For tests that include
 * cmocka.h before.
 */
#ifndef DIFF_WORLD_H
#define DIFF_WORLD_H

#include <stdlib.h>
#include <string.h>

#include "core/compare/diff.h"

enum { STEPS = 4, LAYERS = 3, PER_STEP = 3 * LAYERS + 3, OPS = STEPS * PER_STEP, WORLD = 0, NODE = 1 };

static inline struct rp_trace *make_trace(int rank)
{
    static const struct rp_trace_comm comms[] = {
        {.number = 0, .nranks = 2, .parent = RP_NO_COMM, .origin = RP_COMM_INIT},
        {.number = 1, .nranks = 2, .parent = 0, .origin = RP_COMM_SPLIT},
    };
    struct rp_trace *trace = calloc(1, sizeof(*trace));
    assert_non_null(trace);
    trace->identity = (struct rp_trace_identity){.rank = rank, .nranks = 2};
    trace->ops = calloc(4 * OPS, sizeof(*trace->ops));
    trace->comms = malloc(sizeof(comms));
    memcpy(trace->comms, comms, sizeof(comms));
    trace->comm_count = 2;
    for (size_t i = 0; i < trace->comm_count; i++)
        trace->comms[i].rank = rank;
    trace->complete = true;
    assert_int_equal(rp_modules_create(&trace->modules), RP_OK);
    return trace;
}

/* A trace has room for 4 * OPS ops at first. */
static inline void make_room(struct rp_trace *trace, size_t ops)
{
    trace->ops = realloc(trace->ops, ops * sizeof(*trace->ops));
    assert_non_null(trace->ops);
}

static inline uint32_t module_number(struct rp_trace *trace, const char *name)
{
    return rp_module_intern(trace->modules, name, strlen(name));
}

static inline struct rp_trace_op *add(struct rp_trace *trace, enum rp_op_kind kind, uint64_t count, const char *module,
                                      enum rp_phase phase)
{
    struct rp_trace_op *op = &trace->ops[trace->op_count++];
    *op = (struct rp_trace_op){.launches = 5, .launch_digest = 50};
    op->op = (struct rp_op){.kind = (uint8_t)kind,
                            .dtype = RP_DTYPE_BFLOAT16,
                            .redop = kind == RP_OP_REDUCE_SCATTER ? RP_REDOP_SUM : RP_REDOP_NONE,
                            .phase = (uint8_t)phase,
                            .root = -1,
                            .comm = WORLD,
                            .count = count,
                            .module = module_number(trace, module)};
    op->op.position = rp_op_kind_on_lane(kind) ? trace->op_count : RP_NO_POSITION;
    if (rp_op_kind_on_lane(kind)) {
        op->has_fingerprint = true;
        op->fingerprint[0] = trace->op_count;
    }
    return op;
}

static inline const char *layer_name(int layer)
{
    static const char *const names[] = {"layers.0", "layers.1", "layers.2", "layers.3", "layers.4"};
    return names[layer];
}

/* PER_STEP ops: 0-2 forward, 3-8 backward (gather and reduce-scatter), 9 malloc, 10 send, 11 all-reduce on NODE. */
static inline void add_step(struct rp_trace *trace, int layers)
{
    uint64_t weights = 1000 * trace->op_count; /* new in every step, and the same in all of it */
    for (int layer = 0; layer < layers; layer++)
        add(trace, RP_OP_ALL_GATHER, 1000, layer_name(layer), RP_PHASE_FORWARD)->fingerprint[0] =
            weights + (uint64_t)layer;
    for (int layer = layers - 1; layer >= 0; layer--) {
        add(trace, RP_OP_ALL_GATHER, 1000, layer_name(layer), RP_PHASE_BACKWARD)->fingerprint[0] =
            weights + (uint64_t)layer;
        add(trace, RP_OP_REDUCE_SCATTER, 1000, layer_name(layer), RP_PHASE_BACKWARD);
    }
    add(trace, RP_OP_MALLOC, 77, "-", RP_PHASE_UNKNOWN)->op.comm = RP_NO_COMM;
    add(trace, RP_OP_SEND, 10, "-", RP_PHASE_OTHER)->op.root = 1;
    add(trace, RP_OP_ALL_REDUCE, 20, "norm", RP_PHASE_OPTIMIZER)->op.comm = NODE;
}

static inline struct rp_trace *make_run(int rank, int steps, int layers)
{
    struct rp_trace *trace = make_trace(rank);
    for (int step = 0; step < steps; step++)
        add_step(trace, layers);
    return trace;
}

/* Index of an op by step and place in the step. */
static inline size_t at(int step, int place)
{
    return (size_t)(step * PER_STEP + place);
}

static inline void remove_op(struct rp_trace *trace, size_t index)
{
    trace->op_count--;
    memmove(&trace->ops[index], &trace->ops[index + 1], (trace->op_count - index) * sizeof(*trace->ops));
}

static inline void repeat_op(struct rp_trace *trace, size_t index)
{
    memmove(&trace->ops[index + 1], &trace->ops[index], (trace->op_count - index) * sizeof(*trace->ops));
    trace->op_count++;
}

static const struct rp_diff_options all_steps = {.end_step = RP_DIFF_ALL_STEPS, .top = 4};
static struct rp_diff last_diff; /* freed when the next one is made, and at the end */

static inline void forget_diff(void)
{
    rp_diff_free(&last_diff);
}

/* A trace that is packed, while the one that it was made from stays as it is. */
struct packed_run {
    struct rp_trace trace;
    struct rp_packed packed;
    struct rp_timeline steps;
};

static inline void pack_run(const struct rp_trace *trace, struct packed_run *run)
{
    run->trace = *trace;
    run->trace.ops = calloc(trace->op_count + 1, sizeof(*trace->ops));
    assert_non_null(run->trace.ops);
    memcpy(run->trace.ops, trace->ops, trace->op_count * sizeof(*trace->ops));
    assert_int_equal(rp_packed_create(&run->trace, &run->packed), RP_OK);
    assert_int_equal(rp_timeline_create_packed(&run->packed, &run->steps), RP_OK);
}

static inline void unpack_run(struct packed_run *run)
{
    rp_timeline_free(&run->steps);
    rp_packed_free(&run->packed);
}

static inline void add_rank(struct rp_diff *diff, const struct rp_trace *left, const struct rp_trace *right)
{
    struct packed_run left_run, right_run;
    pack_run(left, &left_run);
    pack_run(right, &right_run);
    assert_int_equal(rp_diff_add(diff, &left_run.packed, &left_run.steps, &right_run.packed, &right_run.steps), RP_OK);
    unpack_run(&left_run);
    unpack_run(&right_run);
}

static inline struct rp_diff diff_ranks(struct rp_trace **left, size_t left_count, struct rp_trace **right,
                                        size_t right_count)
{
    forget_diff();
    assert_int_equal(rp_diff_create(&all_steps, &last_diff), RP_OK);
    for (size_t i = 0; i < left_count || i < right_count; i++) {
        if (i < left_count && i < right_count)
            add_rank(&last_diff, left[i], right[i]);
        else
            rp_diff_add_alone(&last_diff, i < left_count);
    }
    assert_int_equal(rp_diff_finish(&last_diff), RP_OK);
    return last_diff;
}

static inline struct rp_diff diff_traces(struct rp_trace *left, struct rp_trace *right)
{
    return diff_ranks(&left, 1, &right, 1);
}

#endif
