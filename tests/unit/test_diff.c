/* Comparing runs: every class alone, classes together, names under shifts, runs that end early, ranks and lanes that
 * only one run has. The runs are made in memory: four steps of a small sharded model on two communicators. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/compare/diff.h"
#include "core/compare/pair.h"

enum { STEPS = 4, LAYERS = 3, PER_STEP = 3 * LAYERS + 3, OPS = STEPS * PER_STEP, WORLD = 0, NODE = 1 };

/* ---------------------------------------------------------------- making traces */

static struct rp_trace *make_trace(int rank)
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

static void free_trace(struct rp_trace *trace)
{
    rp_modules_destroy(trace->modules);
    free(trace->comms);
    free(trace->ops);
    free(trace);
}

static uint32_t module_number(struct rp_trace *trace, const char *name)
{
    return rp_module_intern(trace->modules, name, strlen(name));
}

static struct rp_trace_op *add(struct rp_trace *trace, enum rp_op_kind kind, uint64_t count, const char *module,
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

static const char *layer_name(int layer)
{
    static const char *const names[] = {"layers.0", "layers.1", "layers.2", "layers.3", "layers.4"};
    return names[layer];
}

/* PER_STEP ops: 0-2 forward, 3-8 backward (gather and reduce-scatter), 9 malloc, 10 send, 11 all-reduce on NODE. */
static void add_step(struct rp_trace *trace, int layers)
{
    for (int layer = 0; layer < layers; layer++)
        add(trace, RP_OP_ALL_GATHER, 1000, layer_name(layer), RP_PHASE_FORWARD);
    for (int layer = layers - 1; layer >= 0; layer--) {
        add(trace, RP_OP_ALL_GATHER, 1000, layer_name(layer), RP_PHASE_BACKWARD);
        add(trace, RP_OP_REDUCE_SCATTER, 1000, layer_name(layer), RP_PHASE_BACKWARD);
    }
    add(trace, RP_OP_MALLOC, 77, "-", RP_PHASE_UNKNOWN)->op.comm = RP_NO_COMM;
    add(trace, RP_OP_SEND, 10, "-", RP_PHASE_OTHER)->op.root = 1;
    add(trace, RP_OP_ALL_REDUCE, 20, "norm", RP_PHASE_OPTIMIZER)->op.comm = NODE;
}

static struct rp_trace *make_run(int rank, int steps, int layers)
{
    struct rp_trace *trace = make_trace(rank);
    for (int step = 0; step < steps; step++)
        add_step(trace, layers);
    return trace;
}

/* Index of an op by step and place in the step. */
static size_t at(int step, int place)
{
    return (size_t)(step * PER_STEP + place);
}

static void remove_op(struct rp_trace *trace, size_t index)
{
    trace->op_count--;
    memmove(&trace->ops[index], &trace->ops[index + 1], (trace->op_count - index) * sizeof(*trace->ops));
}

static void repeat_op(struct rp_trace *trace, size_t index)
{
    memmove(&trace->ops[index + 1], &trace->ops[index], (trace->op_count - index) * sizeof(*trace->ops));
    trace->op_count++;
}

static struct rp_diff diff_ranks(struct rp_trace **left, size_t left_count, struct rp_trace **right, size_t right_count)
{
    struct rp_diff diff;
    assert_int_equal(rp_diff_runs(&(struct rp_trace_run){left, left_count}, &(struct rp_trace_run){right, right_count},
                                  RP_DIFF_ALL_RANKS, &diff),
                     RP_OK);
    return diff;
}

static struct rp_diff diff_traces(struct rp_trace *left, struct rp_trace *right)
{
    return diff_ranks(&left, 1, &right, 1);
}

/* ---------------------------------------------------------------- one change in the right run */

static void change_nothing(struct rp_trace *trace)
{
    (void)trace;
}

static void drop_layer(struct rp_trace *trace)
{
    remove_op(trace, at(1, 1));
}

static void repeat_layer(struct rp_trace *trace)
{
    repeat_op(trace, at(1, 1));
}

static void resize(struct rp_trace *trace)
{
    trace->ops[at(1, 1)].op.count = 999;
}

static void resize_all(struct rp_trace *trace)
{
    for (size_t i = 0; i < trace->op_count; i++)
        trace->ops[i].op.count *= 2;
}

static void change_dtype(struct rp_trace *trace)
{
    trace->ops[at(1, 1)].op.dtype = RP_DTYPE_FLOAT16;
}

static void change_dtype_and_size(struct rp_trace *trace)
{
    trace->ops[at(1, 1)].op.dtype = RP_DTYPE_FLOAT32;
}

static void change_reduction(struct rp_trace *trace)
{
    trace->ops[at(1, 4)].op.redop = RP_REDOP_AVG;
}

static void change_root(struct rp_trace *trace)
{
    trace->ops[at(1, 1)].op.root = 0;
}

static void change_peer(struct rp_trace *trace)
{
    trace->ops[at(1, 10)].op.root = 2;
}

static void rename_module(struct rp_trace *trace)
{
    for (int step = 0; step < STEPS; step++) {
        trace->ops[at(step, 1)].op.module = module_number(trace, "blocks.1");
        trace->ops[at(step, 5)].op.module = module_number(trace, "blocks.1");
        trace->ops[at(step, 6)].op.module = module_number(trace, "blocks.1");
    }
}

static void forget_modules(struct rp_trace *trace)
{
    for (size_t i = 0; i < trace->op_count; i++)
        trace->ops[i].op.module = RP_MODULE_UNKNOWN;
}

static void forget_names(struct rp_trace *trace, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) {
        trace->ops[i].op.module = RP_MODULE_UNKNOWN;
        trace->ops[i].op.phase = RP_PHASE_UNKNOWN;
    }
}

static void forget_all_names(struct rp_trace *trace)
{
    forget_names(trace, 0, trace->op_count);
}

/* Where replay serves it looks no names up. Those of the last step must not be taken for those of the second one. */
static void forget_names_inside(struct rp_trace *trace)
{
    forget_names(trace, at(1, 1), at(3, 0));
}

static void forget_names_and_resize(struct rp_trace *trace)
{
    forget_names(trace, at(1, 0), at(3, 0));
    trace->ops[at(2, 4)].op.count = 999;
}

/* Without names ops are known by their signatures: the last of those that look alike is the one that is missed. */
static void forget_names_and_drop(struct rp_trace *trace)
{
    forget_names(trace, at(1, 0), at(3, 0));
    remove_op(trace, at(1, 1));
}

/* Only phases are known in the second step: the change of one of them is seen. */
static void forget_modules_and_change_phase(struct rp_trace *trace)
{
    for (size_t i = at(1, 0); i < at(2, 0); i++)
        trace->ops[i].op.module = RP_MODULE_UNKNOWN;
    trace->ops[at(1, 5)].op.phase = RP_PHASE_RECOMPUTE;
}

static void change_phase(struct rp_trace *trace)
{
    trace->ops[at(1, 3)].op.phase = RP_PHASE_RECOMPUTE;
}

static void change_launches(struct rp_trace *trace)
{
    trace->ops[at(1, 1)].launches++;
}

static void change_digest(struct rp_trace *trace)
{
    trace->ops[at(1, 1)].launch_digest++;
}

static void change_lossy_launches(struct rp_trace *trace)
{
    trace->ops[at(1, 1)].launches--;
    trace->ops[at(1, 1)].lossy = true;
}

static void change_bytes(struct rp_trace *trace)
{
    for (size_t i = at(1, 1); i < trace->op_count; i++)
        trace->ops[i].fingerprint[1] = 1;
}

static void change_bytes_without_fingerprint(struct rp_trace *trace)
{
    trace->ops[at(1, 1)].fingerprint[0] = 0;
    trace->ops[at(1, 1)].has_fingerprint = false;
}

/* Allocations come and go with what a framework's own allocator has at hand. */
static void drop_malloc(struct rp_trace *trace)
{
    remove_op(trace, at(1, 9));
}

/* The launches before an op that came in have another end. */
static void repeat_layer_and_launch(struct rp_trace *trace)
{
    trace->ops[at(1, 1)].launches++;
    repeat_op(trace, at(1, 1));
}

/* Both runs have both modules: the one op is gone and another one is there. */
static void exchange_module(struct rp_trace *trace)
{
    trace->ops[at(1, 4)].op.module = trace->ops[at(1, 6)].op.module;
}

static void drop_send(struct rp_trace *trace)
{
    remove_op(trace, at(1, 10));
}

/* The send one place earlier: lanes and what is beside them are aligned apart. */
static void move_send(struct rp_trace *trace)
{
    struct rp_trace_op send = trace->ops[at(1, 10)];
    trace->ops[at(1, 10)] = trace->ops[at(1, 8)];
    trace->ops[at(1, 8)] = send;
}

static void fail_op(struct rp_trace *trace)
{
    trace->ops[at(1, 1)].op.position = RP_NO_POSITION;
    trace->ops[at(1, 1)].op.flags = RP_OP_FAILED;
}

/* What replay notes of a gather is how it was served, not what was called; there is no fingerprint of what it serves.
 */
static void replay(struct rp_trace *trace)
{
    static const uint16_t flags[] = {RP_OP_STORED, RP_OP_VOTED | RP_OP_HIT, RP_OP_VOTED | RP_OP_STORED,
                                     RP_OP_VOTED | RP_OP_WITHDRAWN};
    for (size_t i = at(1, 0), gathers = 0; i < trace->op_count; i++) {
        if (trace->ops[i].op.kind != RP_OP_ALL_GATHER)
            continue;
        trace->ops[i].op.flags |= flags[gathers++ % 4];
        trace->ops[i].has_fingerprint = false;
    }
}

static void swap_layers(struct rp_trace *trace)
{
    struct rp_trace_op op = trace->ops[at(1, 1)];
    trace->ops[at(1, 1)] = trace->ops[at(1, 2)];
    trace->ops[at(1, 2)] = op;
}

static void change_everything(struct rp_trace *trace)
{
    trace->ops[at(1, 1)].op.count = 999;
    trace->ops[at(1, 1)].launches++;
    trace->ops[at(1, 2)].op.phase = RP_PHASE_OTHER;
    trace->ops[at(1, 2)].fingerprint[1] = 1;
    remove_op(trace, at(2, 1));
    repeat_op(trace, at(3, 1));
}

static void end_early(struct rp_trace *trace)
{
    trace->op_count = at(2, 4);
}

static void end_early_and_differ(struct rp_trace *trace)
{
    trace->ops[at(1, 1)].op.count = 999;
    trace->op_count = at(2, 4);
}

#define NO_FIRST SIZE_MAX
/* counts: only left, only right, resized, dtype, reduction, root, renamed, launches, bytes */
static const struct {
    const char *name;
    void (*change)(struct rp_trace *);
    enum rp_diff_verdict verdict;
    uint64_t counts[9];
    size_t structure, launches, bytes; /* index of the first, in the left trace (in the right one if only there) */
} table[] = {
    {"nothing", change_nothing, RP_DIFF_ALIKE, {0}, NO_FIRST, NO_FIRST, NO_FIRST},
    {"drop", drop_layer, RP_DIFF_DIFFERENT, {1}, PER_STEP + 1, NO_FIRST, NO_FIRST},
    {"repeat", repeat_layer, RP_DIFF_DIFFERENT, {0, 1}, PER_STEP + 2, NO_FIRST, NO_FIRST},
    {"resize", resize, RP_DIFF_DIFFERENT, {0, 0, 1}, PER_STEP + 1, NO_FIRST, NO_FIRST},
    {"resize all", resize_all, RP_DIFF_DIFFERENT, {0, 0, OPS - STEPS}, 0, NO_FIRST, NO_FIRST},
    {"dtype", change_dtype, RP_DIFF_DIFFERENT, {0, 0, 0, 1}, PER_STEP + 1, NO_FIRST, NO_FIRST},
    {"dtype, size", change_dtype_and_size, RP_DIFF_DIFFERENT, {0, 0, 1, 1}, PER_STEP + 1, NO_FIRST, NO_FIRST},
    {"reduction", change_reduction, RP_DIFF_DIFFERENT, {0, 0, 0, 0, 1}, PER_STEP + 4, NO_FIRST, NO_FIRST},
    {"root", change_root, RP_DIFF_DIFFERENT, {0, 0, 0, 0, 0, 1}, PER_STEP + 1, NO_FIRST, NO_FIRST},
    {"peer", change_peer, RP_DIFF_DIFFERENT, {0, 0, 0, 0, 0, 1}, PER_STEP + 10, NO_FIRST, NO_FIRST},
    {"rename", rename_module, RP_DIFF_DIFFERENT, {0, 0, 0, 0, 0, 0, 3 * STEPS}, 1, NO_FIRST, NO_FIRST},
    {"no modules", forget_modules, RP_DIFF_ALIKE, {0}, NO_FIRST, NO_FIRST, NO_FIRST},
    {"no names", forget_all_names, RP_DIFF_ALIKE, {0}, NO_FIRST, NO_FIRST, NO_FIRST},
    {"no names inside", forget_names_inside, RP_DIFF_ALIKE, {0}, NO_FIRST, NO_FIRST, NO_FIRST},
    {"no names, resize", forget_names_and_resize, RP_DIFF_DIFFERENT, {0, 0, 1}, 2 * PER_STEP + 4, NO_FIRST, NO_FIRST},
    {"no names, drop", forget_names_and_drop, RP_DIFF_DIFFERENT, {1, [8] = 2}, PER_STEP + 3, NO_FIRST, PER_STEP + 1},
    {"no modules, phase",
     forget_modules_and_change_phase,
     RP_DIFF_DIFFERENT,
     {[6] = 1},
     PER_STEP + 5,
     NO_FIRST,
     NO_FIRST},
    {"phase", change_phase, RP_DIFF_DIFFERENT, {0, 0, 0, 0, 0, 0, 1}, PER_STEP + 3, NO_FIRST, NO_FIRST},
    {"launches", change_launches, RP_DIFF_DIFFERENT, {[7] = 1}, NO_FIRST, PER_STEP + 1, NO_FIRST},
    {"digest", change_digest, RP_DIFF_DIFFERENT, {[7] = 1}, NO_FIRST, PER_STEP + 1, NO_FIRST},
    {"lossy", change_lossy_launches, RP_DIFF_ALIKE, {0}, NO_FIRST, NO_FIRST, NO_FIRST},
    {"bytes", change_bytes, RP_DIFF_DIFFERENT, {[8] = 9 + 10 * (STEPS - 2)}, NO_FIRST, NO_FIRST, PER_STEP + 1},
    {"unknown bytes", change_bytes_without_fingerprint, RP_DIFF_ALIKE, {0}, NO_FIRST, NO_FIRST, NO_FIRST},
    {"replay", replay, RP_DIFF_ALIKE, {0}, NO_FIRST, NO_FIRST, NO_FIRST},
    {"exchange", exchange_module, RP_DIFF_DIFFERENT, {1, 1}, PER_STEP + 4, NO_FIRST, NO_FIRST},
    {"repeat, launches", repeat_layer_and_launch, RP_DIFF_DIFFERENT, {0, 1}, PER_STEP + 2, NO_FIRST, NO_FIRST},
    {"malloc", drop_malloc, RP_DIFF_ALIKE, {0}, NO_FIRST, NO_FIRST, NO_FIRST},
    /* one of equal ops is gone: it is said of the last */
    {"drop send", drop_send, RP_DIFF_DIFFERENT, {1}, OPS - 2, NO_FIRST, NO_FIRST},
    {"move send", move_send, RP_DIFF_ALIKE, {0}, NO_FIRST, NO_FIRST, NO_FIRST},
    {"fail", fail_op, RP_DIFF_DIFFERENT, {1, 1}, PER_STEP + 1, NO_FIRST, NO_FIRST},
    {"swap", swap_layers, RP_DIFF_DIFFERENT, {1, 1}, PER_STEP + 1, NO_FIRST, NO_FIRST},
    {"everything",
     change_everything,
     RP_DIFF_DIFFERENT,
     {1, 1, 1, 0, 0, 0, 1, 1, 1},
     PER_STEP + 1,
     PER_STEP + 1,
     PER_STEP + 2},
    {"end",
     end_early,
     RP_DIFF_RIGHT_ENDS,
     {OPS - STEPS - (2 * PER_STEP + 4 - 2)},
     2 * PER_STEP + 4,
     NO_FIRST,
     NO_FIRST},
    {"differ, end",
     end_early_and_differ,
     RP_DIFF_DIFFERENT,
     {OPS - STEPS - (2 * PER_STEP + 4 - 2), 0, 1},
     PER_STEP + 1,
     NO_FIRST,
     NO_FIRST},
};

static void check_first(const char *name, const struct rp_diff_point *point, size_t index)
{
    if (point->found != (index != NO_FIRST))
        fail_msg("%s: found %d", name, point->found);
    if (!point->found)
        return;
    const struct rp_diff_side *side = point->left.op != NULL ? &point->left : &point->right;
    if (side->index != index || side->op != &side->trace->ops[index])
        fail_msg("%s: first at %zu, not %zu", name, side->index, index);
}

static void check_counts(const char *name, const struct rp_diff *diff, const uint64_t *counts)
{
    for (int c = 0; c < 9; c++) {
        if (diff->counts[RP_DIFF_ONLY_LEFT + c] != counts[c])
            fail_msg("%s: %d x %s", name, (int)diff->counts[RP_DIFF_ONLY_LEFT + c],
                     rp_diff_class_name(RP_DIFF_ONLY_LEFT + c));
    }
}

static void test_table(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct rp_trace *left = make_run(0, STEPS, LAYERS), *right = make_run(0, STEPS, LAYERS);
        table[i].change(right);
        struct rp_diff diff = diff_traces(left, right);
        if (diff.verdict != table[i].verdict)
            fail_msg("%s: verdict %d", table[i].name, (int)diff.verdict);
        check_counts(table[i].name, &diff, table[i].counts);
        check_first(table[i].name, &diff.structure, table[i].structure);
        check_first(table[i].name, &diff.launches, table[i].launches);
        check_first(table[i].name, &diff.bytes, table[i].bytes);
        free_trace(left);
        free_trace(right);
    }
}

/* Left and right swapped say the same with the sides swapped. */
static void test_table_swapped(void **state)
{
    static const enum rp_diff_verdict swapped[] = {RP_DIFF_ALIKE, RP_DIFF_RIGHT_ENDS, RP_DIFF_LEFT_ENDS,
                                                   RP_DIFF_DIFFERENT};
    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct rp_trace *left = make_run(0, STEPS, LAYERS), *right = make_run(0, STEPS, LAYERS);
        table[i].change(left);
        struct rp_diff diff = diff_traces(left, right);
        uint64_t counts[9];
        memcpy(counts, table[i].counts, sizeof(counts));
        counts[0] = table[i].counts[1];
        counts[1] = table[i].counts[0];
        assert_int_equal(diff.verdict, swapped[table[i].verdict]);
        check_counts(table[i].name, &diff, counts);
        free_trace(left);
        free_trace(right);
    }
}

/* ---------------------------------------------------------------- names */

static const char *side_module(const struct rp_diff_side *side)
{
    return rp_module_name(side->trace->modules, side->op->op.module);
}

/* A skipped layer is named itself; the layers after it keep their partners although their signatures are equal. */
static void test_skipped_layer_is_named(void **state)
{
    (void)state;
    struct rp_trace *left = make_run(0, STEPS, LAYERS), *right = make_run(0, STEPS, LAYERS);
    for (int step = STEPS - 1; step >= 2; step--) {
        remove_op(right, at(step, 6));
        remove_op(right, at(step, 5));
        remove_op(right, at(step, 1));
    }
    struct rp_diff diff = diff_traces(left, right);
    assert_int_equal(diff.counts[RP_DIFF_ONLY_LEFT], 6);
    assert_int_equal(diff.counts[RP_DIFF_SAME], OPS - STEPS - 6);
    assert_int_equal(diff.structure.left.index, at(2, 1));
    assert_string_equal(side_module(&diff.structure.left), "layers.1");
    assert_int_equal(diff.structure.right.index, at(2, 1)); /* after layers.0 */
    assert_null(diff.structure.right.op);
    assert_ptr_equal(diff.structure.right.comm, &right->comms[WORLD]);
    free_trace(left);
    free_trace(right);
}

static void test_more_layers(void **state)
{
    (void)state;
    struct rp_trace *left = make_run(0, STEPS, LAYERS), *right = make_run(0, STEPS, LAYERS + 2);
    struct rp_diff diff = diff_traces(left, right);
    assert_int_equal(diff.counts[RP_DIFF_ONLY_RIGHT], STEPS * 6);
    assert_int_equal(diff.counts[RP_DIFF_ONLY_LEFT] + diff.counts[RP_DIFF_RENAMED], 0);
    assert_string_equal(side_module(&diff.structure.right), "layers.3");
    assert_int_equal(diff.structure.left.index, LAYERS);
    free_trace(left);
    free_trace(right);
}

/* Module numbers are each trace's own. */
static void test_module_numbers_may_differ(void **state)
{
    (void)state;
    struct rp_trace *left = make_run(0, STEPS, LAYERS), *right = make_trace(0);
    module_number(right, "zeroth");
    module_number(right, "layers.2");
    for (int step = 0; step < STEPS; step++)
        add_step(right, LAYERS);
    assert_int_equal(diff_traces(left, right).verdict, RP_DIFF_ALIKE);
    free_trace(left);
    free_trace(right);
}

/* ---------------------------------------------------------------- communicators */

/* Numbers may differ: an unused communicator of another size was made before. */
static void test_communicators_pair_by_origin(void **state)
{
    (void)state;
    struct rp_trace *left = make_run(0, STEPS, LAYERS), *right = make_run(0, STEPS, LAYERS);
    right->comms = realloc(right->comms, 3 * sizeof(*right->comms));
    memmove(&right->comms[1], &right->comms[0], 2 * sizeof(*right->comms));
    right->comms[0].nranks = 8;
    right->comm_count = 3;
    right->comms[1].number = 1;
    right->comms[2].number = 2;
    for (size_t i = 0; i < right->op_count; i++)
        right->ops[i].op.comm += right->ops[i].op.comm != RP_NO_COMM;
    assert_int_equal(diff_traces(left, right).verdict, RP_DIFF_ALIKE);
    free_trace(left);
    free_trace(right);
}

static void test_communicator_without_partner(void **state)
{
    (void)state;
    struct rp_trace *left = make_run(0, STEPS, LAYERS), *right = make_run(0, STEPS, LAYERS);
    right->comms[NODE].nranks = 4;
    struct rp_diff diff = diff_traces(left, right);
    assert_int_equal(diff.verdict, RP_DIFF_DIFFERENT);
    assert_int_equal(diff.counts[RP_DIFF_ONLY_LEFT], STEPS);
    assert_int_equal(diff.counts[RP_DIFF_ONLY_RIGHT], STEPS);
    assert_int_equal(diff.structure.right.index, PER_STEP - 1);
    assert_ptr_equal(diff.structure.right.comm, &right->comms[NODE]);
    assert_null(diff.structure.left.comm);
    free_trace(left);
    free_trace(right);
}

/* Two threads may interleave two lanes in another way. */
static void test_interleaving_of_lanes_is_no_difference(void **state)
{
    (void)state;
    struct rp_trace *left = make_run(0, STEPS, LAYERS), *right = make_run(0, STEPS, LAYERS);
    for (int step = 0; step + 1 < STEPS; step++) {
        struct rp_trace_op op = right->ops[at(step, 11)];
        right->ops[at(step, 11)] = right->ops[at(step + 1, 0)];
        right->ops[at(step + 1, 0)] = op;
    }
    assert_int_equal(diff_traces(left, right).verdict, RP_DIFF_ALIKE);
    free_trace(left);
    free_trace(right);
}

/* ---------------------------------------------------------------- launches at the end, fingerprints */

static void test_launches_after_the_last_op(void **state)
{
    (void)state;
    struct rp_trace *left = make_run(0, STEPS, LAYERS), *right = make_run(0, STEPS, LAYERS);
    right->ops[OPS - 1].launches = 3;
    assert_int_equal(diff_traces(left, right).counts[RP_DIFF_LAUNCHES], 1);
    right->complete = false;
    assert_int_equal(diff_traces(left, right).counts[RP_DIFF_LAUNCHES], 0);
    free_trace(left);
    free_trace(right);
}

static void test_no_fingerprints(void **state)
{
    (void)state;
    struct rp_trace *left = make_run(0, STEPS, LAYERS), *right = make_run(0, STEPS, LAYERS);
    assert_int_equal(diff_traces(left, right).fingerprints, 10 * STEPS);
    for (size_t i = 0; i < right->op_count; i++)
        right->ops[i].has_fingerprint = false;
    struct rp_diff diff = diff_traces(left, right);
    assert_int_equal(diff.verdict, RP_DIFF_ALIKE);
    assert_int_equal(diff.fingerprints, 0);
    assert_int_equal(diff.fingerprints_left, 10 * STEPS);
    assert_int_equal(diff.fingerprints_right, 0);
    free_trace(left);
    free_trace(right);
}

static void sample(struct rp_trace *trace)
{
    for (size_t i = 0; i < trace->op_count; i++)
        if (trace->ops[i].op.kind == RP_OP_ALL_GATHER)
            trace->ops[i].op.flags |= RP_OP_SAMPLED;
}

/* Samples are compared with samples; with fingerprints of all bytes they are not. */
static void test_samples(void **state)
{
    (void)state;
    struct rp_trace *left = make_run(0, STEPS, LAYERS), *right = make_run(0, STEPS, LAYERS);
    sample(left);
    right->ops[at(1, 1)].fingerprint[1] = 1;
    struct rp_diff diff = diff_traces(left, right);
    assert_int_equal(diff.verdict, RP_DIFF_ALIKE);
    assert_int_equal(diff.fingerprints, 4 * STEPS);
    assert_int_equal(diff.fingerprints_sampled, 0);
    assert_int_equal(diff.fingerprints_unlike, 6 * STEPS);
    assert_int_equal(diff.fingerprints_left, 10 * STEPS);
    assert_int_equal(diff.fingerprints_right, 10 * STEPS);
    sample(right);
    diff = diff_traces(left, right);
    assert_int_equal(diff.verdict, RP_DIFF_DIFFERENT);
    assert_int_equal(diff.counts[RP_DIFF_BYTES], 1);
    assert_int_equal(diff.bytes.left.index, at(1, 1));
    assert_int_equal(diff.fingerprints, 10 * STEPS);
    assert_int_equal(diff.fingerprints_sampled, 6 * STEPS);
    assert_int_equal(diff.fingerprints_unlike, 0);
    right->ops[at(1, 1)].op.count++; /* of other bytes: not compared at all */
    diff = diff_traces(left, right);
    assert_int_equal(diff.fingerprints_sampled, 6 * STEPS - 1);
    assert_int_equal(diff.fingerprints_unlike, 0);
    free_trace(left);
    free_trace(right);
}

/* ---------------------------------------------------------------- ranks */

static void test_ranks(void **state)
{
    (void)state;
    struct rp_trace *left[] = {make_run(0, STEPS, LAYERS), make_run(1, STEPS, LAYERS)};
    struct rp_trace *right[] = {make_run(0, STEPS, LAYERS), make_run(1, STEPS, LAYERS)};
    struct rp_diff diff = diff_ranks(left, 2, right, 2);
    assert_int_equal(diff.verdict, RP_DIFF_ALIKE);
    assert_int_equal(diff.ranks, 2);
    assert_int_equal(diff.ops_left, 2 * (OPS - STEPS));

    diff = diff_ranks(left, 2, right, 1);
    assert_int_equal(diff.verdict, RP_DIFF_DIFFERENT);
    assert_int_equal(diff.ranks_only_left, 1);
    assert_int_equal(diff.ranks_only_right, 0);

    right[0]->ops[at(2, 1)].fingerprint[1] = 1;
    right[1]->ops[at(1, 1)].fingerprint[1] = 1; /* earlier, on a higher rank */
    diff = diff_ranks(left, 2, right, 2);
    assert_int_equal(diff.bytes.rank, 1);
    right[0]->ops[at(1, 1)].fingerprint[1] = 1; /* at the same place: the lower rank */
    diff = diff_ranks(left, 2, right, 2);
    assert_int_equal(diff.bytes.rank, 0);

    struct rp_trace_run left_run = {left, 2}, right_run = {right, 2};
    assert_int_equal(rp_diff_runs(&left_run, &right_run, 1, &diff), RP_OK);
    assert_int_equal(diff.ranks, 1);
    assert_int_equal(diff.bytes.rank, 1);
    assert_int_equal(rp_diff_runs(&left_run, &right_run, 2, &diff), RP_NOT_FOUND);
    right_run.count = 1;
    assert_int_equal(rp_diff_runs(&left_run, &right_run, 0, &diff), RP_OK);
    assert_int_equal(diff.ranks_only_left, 0);
    for (int i = 0; i < 2; i++) {
        free_trace(left[i]);
        free_trace(right[i]);
    }
}

static void test_ranks_end_on_different_sides(void **state)
{
    (void)state;
    struct rp_trace *left[] = {make_run(0, STEPS, LAYERS), make_run(1, STEPS - 1, LAYERS)};
    struct rp_trace *right[] = {make_run(0, STEPS - 1, LAYERS), make_run(1, STEPS, LAYERS)};
    assert_int_equal(diff_ranks(left, 1, right, 1).verdict, RP_DIFF_RIGHT_ENDS);
    assert_int_equal(diff_ranks(left + 1, 1, right + 1, 1).verdict, RP_DIFF_LEFT_ENDS);
    assert_int_equal(diff_ranks(left, 2, right, 2).verdict, RP_DIFF_DIFFERENT);
    for (int i = 0; i < 2; i++) {
        free_trace(left[i]);
        free_trace(right[i]);
    }
}

static void test_empty_traces(void **state)
{
    (void)state;
    struct rp_trace *left = make_run(0, 0, 0), *right = make_run(0, 1, 1);
    assert_int_equal(diff_traces(left, left).verdict, RP_DIFF_ALIKE);
    assert_int_equal(diff_traces(left, right).verdict, RP_DIFF_LEFT_ENDS);
    assert_int_equal(diff_traces(right, left).verdict, RP_DIFF_RIGHT_ENDS);
    free_trace(left);
    free_trace(right);
}

/* An op whose communicator or module the trace does not describe. */
static void test_undescribed_communicator(void **state)
{
    (void)state;
    struct rp_trace *left = make_run(0, STEPS, LAYERS), *right = make_run(0, STEPS, LAYERS);
    left->ops[3].op.comm = right->ops[3].op.comm = 0xfffffffe;
    left->ops[3].op.module = right->ops[3].op.module = 0xffffffff;
    assert_int_equal(diff_traces(left, right).verdict, RP_DIFF_ALIKE);
    right->ops[3].op.count++;
    assert_int_equal(diff_traces(left, right).structure.left.index, 3);
    free_trace(left);
    free_trace(right);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_table_swapped),
        cmocka_unit_test(test_skipped_layer_is_named),
        cmocka_unit_test(test_more_layers),
        cmocka_unit_test(test_module_numbers_may_differ),
        cmocka_unit_test(test_communicators_pair_by_origin),
        cmocka_unit_test(test_communicator_without_partner),
        cmocka_unit_test(test_interleaving_of_lanes_is_no_difference),
        cmocka_unit_test(test_launches_after_the_last_op),
        cmocka_unit_test(test_no_fingerprints),
        cmocka_unit_test(test_samples),
        cmocka_unit_test(test_ranks),
        cmocka_unit_test(test_ranks_end_on_different_sides),
        cmocka_unit_test(test_empty_traces),
        cmocka_unit_test(test_undescribed_communicator),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
