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

#include "core/compare/pair.h"
#include "tests/unit/diff_world.h"

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
enum { CLASSES = RP_DIFF_BYTES - RP_DIFF_ONLY_LEFT + 1 };
/* counts: only left, only right, moved, resized, dtype, reduction, root, renamed, launches, bytes */
static const struct {
    const char *name;
    void (*change)(struct rp_trace *);
    enum rp_diff_verdict verdict;
    uint64_t counts[CLASSES];
    size_t structure, launches, bytes; /* index of the first, in the left trace (in the right one if only there) */
} table[] = {
    {"nothing", change_nothing, RP_DIFF_ALIKE, {0}, NO_FIRST, NO_FIRST, NO_FIRST},
    {"drop", drop_layer, RP_DIFF_DIFFERENT, {1}, PER_STEP + 1, NO_FIRST, NO_FIRST},
    {"repeat", repeat_layer, RP_DIFF_DIFFERENT, {0, 1}, PER_STEP + 2, NO_FIRST, NO_FIRST},
    {"resize", resize, RP_DIFF_DIFFERENT, {0, 0, 0, 1}, PER_STEP + 1, NO_FIRST, NO_FIRST},
    {"resize all", resize_all, RP_DIFF_DIFFERENT, {0, 0, 0, OPS - STEPS}, 0, NO_FIRST, NO_FIRST},
    {"dtype", change_dtype, RP_DIFF_DIFFERENT, {0, 0, 0, 0, 1}, PER_STEP + 1, NO_FIRST, NO_FIRST},
    {"dtype, size", change_dtype_and_size, RP_DIFF_DIFFERENT, {0, 0, 0, 1, 1}, PER_STEP + 1, NO_FIRST, NO_FIRST},
    {"reduction", change_reduction, RP_DIFF_DIFFERENT, {0, 0, 0, 0, 0, 1}, PER_STEP + 4, NO_FIRST, NO_FIRST},
    {"root", change_root, RP_DIFF_DIFFERENT, {0, 0, 0, 0, 0, 0, 1}, PER_STEP + 1, NO_FIRST, NO_FIRST},
    {"peer", change_peer, RP_DIFF_DIFFERENT, {0, 0, 0, 0, 0, 0, 1}, PER_STEP + 10, NO_FIRST, NO_FIRST},
    {"rename", rename_module, RP_DIFF_DIFFERENT, {0, 0, 0, 0, 0, 0, 0, 3 * STEPS}, 1, NO_FIRST, NO_FIRST},
    {"no modules", forget_modules, RP_DIFF_ALIKE, {0}, NO_FIRST, NO_FIRST, NO_FIRST},
    {"no names", forget_all_names, RP_DIFF_ALIKE, {0}, NO_FIRST, NO_FIRST, NO_FIRST},
    {"no names inside", forget_names_inside, RP_DIFF_ALIKE, {0}, NO_FIRST, NO_FIRST, NO_FIRST},
    {"no names, resize",
     forget_names_and_resize,
     RP_DIFF_DIFFERENT,
     {0, 0, 0, 1},
     2 * PER_STEP + 4,
     NO_FIRST,
     NO_FIRST},
    {"no names, drop", forget_names_and_drop, RP_DIFF_DIFFERENT, {1, [9] = 1}, PER_STEP + 3, NO_FIRST, PER_STEP + 1},
    {"no modules, phase",
     forget_modules_and_change_phase,
     RP_DIFF_DIFFERENT,
     {[7] = 1},
     PER_STEP + 5,
     NO_FIRST,
     NO_FIRST},
    {"phase", change_phase, RP_DIFF_DIFFERENT, {0, 0, 0, 0, 0, 0, 0, 1}, PER_STEP + 3, NO_FIRST, NO_FIRST},
    {"launches", change_launches, RP_DIFF_DIFFERENT, {[8] = 1}, NO_FIRST, PER_STEP + 1, NO_FIRST},
    {"digest", change_digest, RP_DIFF_DIFFERENT, {[8] = 1}, NO_FIRST, PER_STEP + 1, NO_FIRST},
    {"lossy", change_lossy_launches, RP_DIFF_ALIKE, {0}, NO_FIRST, NO_FIRST, NO_FIRST},
    {"bytes", change_bytes, RP_DIFF_DIFFERENT, {[9] = 9 + 10 * (STEPS - 2)}, NO_FIRST, NO_FIRST, PER_STEP + 1},
    {"unknown bytes", change_bytes_without_fingerprint, RP_DIFF_ALIKE, {0}, NO_FIRST, NO_FIRST, NO_FIRST},
    {"replay", replay, RP_DIFF_ALIKE, {0}, NO_FIRST, NO_FIRST, NO_FIRST},
    {"exchange", exchange_module, RP_DIFF_DIFFERENT, {1, 1}, PER_STEP + 4, NO_FIRST, NO_FIRST},
    {"repeat, launches", repeat_layer_and_launch, RP_DIFF_DIFFERENT, {0, 1}, PER_STEP + 2, NO_FIRST, NO_FIRST},
    {"malloc", drop_malloc, RP_DIFF_ALIKE, {0}, NO_FIRST, NO_FIRST, NO_FIRST},
    {"drop send", drop_send, RP_DIFF_DIFFERENT, {1}, PER_STEP + 10, NO_FIRST, NO_FIRST},
    {"move send", move_send, RP_DIFF_ALIKE, {0}, NO_FIRST, NO_FIRST, NO_FIRST},
    {"fail", fail_op, RP_DIFF_DIFFERENT, {1, 1}, PER_STEP + 1, NO_FIRST, NO_FIRST},
    {"swap", swap_layers, RP_DIFF_DIFFERENT, {0, 0, 1}, PER_STEP + 1, NO_FIRST, NO_FIRST},
    {"everything",
     change_everything,
     RP_DIFF_DIFFERENT,
     {1, 1, 0, 1, 0, 0, 0, 1, 1, 1},
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
     {OPS - STEPS - (2 * PER_STEP + 4 - 2), 0, 0, 1},
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
    const struct rp_diff_side *side = point->left.present ? &point->left : &point->right;
    if (side->index != index || !side->present)
        fail_msg("%s: first at %zu, not %zu", name, side->index, index);
}

static void check_counts(const char *name, const struct rp_diff *diff, const uint64_t *counts)
{
    for (int c = 0; c < CLASSES; c++) {
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
        rp_trace_free(left);
        rp_trace_free(right);
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
        uint64_t counts[CLASSES];
        memcpy(counts, table[i].counts, sizeof(counts));
        counts[0] = table[i].counts[1];
        counts[1] = table[i].counts[0];
        assert_int_equal(diff.verdict, swapped[table[i].verdict]);
        check_counts(table[i].name, &diff, counts);
        rp_trace_free(left);
        rp_trace_free(right);
    }
}

/* ---------------------------------------------------------------- names */

static const char *side_module(const struct rp_diff_side *side)
{
    return rp_module_name(last_diff.modules, side->op.module);
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
    assert_false(diff.structure.right.present);
    assert_int_equal(diff.structure.right.comm, WORLD);
    rp_trace_free(left);
    rp_trace_free(right);
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
    rp_trace_free(left);
    rp_trace_free(right);
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
    rp_trace_free(left);
    rp_trace_free(right);
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
    rp_trace_free(left);
    rp_trace_free(right);
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
    assert_int_equal(diff.structure.right.comm, NODE);
    assert_int_equal(diff.structure.left.comm, RP_NO_COMM);
    rp_trace_free(left);
    rp_trace_free(right);
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
    rp_trace_free(left);
    rp_trace_free(right);
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
    rp_trace_free(left);
    rp_trace_free(right);
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
    rp_trace_free(left);
    rp_trace_free(right);
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
    rp_trace_free(left);
    rp_trace_free(right);
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

    struct rp_diff none;
    assert_int_equal(rp_diff_create(&all_steps, &none), RP_OK);
    rp_diff_add_alone(&none, true);
    assert_int_equal(rp_diff_finish(&none), RP_NOT_FOUND);
    rp_diff_free(&none);
    for (int i = 0; i < 2; i++) {
        rp_trace_free(left[i]);
        rp_trace_free(right[i]);
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
        rp_trace_free(left[i]);
        rp_trace_free(right[i]);
    }
}

/* Whole lanes are compared a part of some thousands of ops at a time. */
static void test_long_lanes(void **state)
{
    (void)state;
    enum { LONG = 1000 };
    struct rp_trace *runs[2];
    for (int i = 0; i < 2; i++) {
        runs[i] = make_trace(0);
        make_room(runs[i], (size_t)LONG * PER_STEP);
        for (int step = 0; step < LONG; step++)
            add_step(runs[i], LAYERS);
    }
    assert_int_equal(diff_traces(runs[0], runs[1]).verdict, RP_DIFF_ALIKE);
    for (int step = 1; step < LONG; step += 37) {
        struct rp_op *op = &runs[1]->ops[at(step, 1)].op;
        op->count++;
        struct rp_diff diff = diff_traces(runs[0], runs[1]);
        op->count--;
        assert_int_equal(diff.counts[RP_DIFF_RESIZED], 1);
        assert_int_equal(diff.counts[RP_DIFF_SAME], LONG * (PER_STEP - 1) - 1);
        assert_int_equal(diff.structure.left.index, at(step, 1));
        assert_int_equal(diff.structure.right.op.count, 1001);
    }
    rp_trace_free(runs[0]);
    rp_trace_free(runs[1]);
}

static void test_empty_traces(void **state)
{
    (void)state;
    struct rp_trace *left = make_run(0, 0, 0), *right = make_run(0, 1, 1);
    assert_int_equal(diff_traces(left, left).verdict, RP_DIFF_ALIKE);
    assert_int_equal(diff_traces(left, right).verdict, RP_DIFF_LEFT_ENDS);
    assert_int_equal(diff_traces(right, left).verdict, RP_DIFF_RIGHT_ENDS);
    rp_trace_free(left);
    rp_trace_free(right);
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
    rp_trace_free(left);
    rp_trace_free(right);
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
        cmocka_unit_test(test_long_lanes),
        cmocka_unit_test(test_empty_traces),
        cmocka_unit_test(test_undescribed_communicator),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    forget_diff();
    return failed;
}
