/* Comparing by steps: other numbers of microbatches and layers, recompute, what moved, steps that only one run has,
 * runs whose steps were found in another way, and parts of runs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/unit/diff_world.h"

struct shape {
    int steps, microbatches, layers;
    bool recompute, hashed, named;
    int eval_before; /* the step before which there is an evaluation; -1: none */
    int bytes_from;  /* the step from which weights are others; -1: none */
};

static const struct shape plain = {
    .steps = 6, .microbatches = 2, .layers = 3, .hashed = true, .named = true, .eval_before = -1, .bytes_from = -1};

static void gather(struct rp_trace *trace, const struct shape *shape, int step, int layer, enum rp_phase phase)
{
    struct rp_trace_op *op = add(trace, RP_OP_ALL_GATHER, 1000, shape->named ? layer_name(layer) : "-",
                                 shape->named ? phase : RP_PHASE_UNKNOWN);
    bool changed = shape->bytes_from >= 0 && step >= shape->bytes_from;
    op->fingerprint[0] = 100 * (uint64_t)step + (uint64_t)layer + (changed ? 7 : 0);
    op->has_fingerprint = shape->hashed;
}

static void reduce_scatter(struct rp_trace *trace, const struct shape *shape, int layer)
{
    struct rp_trace_op *op = add(trace, RP_OP_REDUCE_SCATTER, 1000, shape->named ? layer_name(layer) : "-",
                                 shape->named ? RP_PHASE_BACKWARD : RP_PHASE_UNKNOWN);
    op->has_fingerprint = false;
}

static void forward(struct rp_trace *trace, const struct shape *shape, int step)
{
    for (int layer = 0; layer < shape->layers; layer++)
        gather(trace, shape, step, layer, RP_PHASE_FORWARD);
}

static void backward(struct rp_trace *trace, const struct shape *shape, int step)
{
    for (int layer = shape->layers - 1; layer >= 0; layer--) {
        if (shape->recompute)
            gather(trace, shape, step, layer, RP_PHASE_RECOMPUTE);
        gather(trace, shape, step, layer, RP_PHASE_BACKWARD);
        reduce_scatter(trace, shape, layer);
    }
}

static struct rp_trace *make_shape(const struct shape *shape)
{
    struct rp_trace *trace = make_trace(0);
    trace->ops = realloc(trace->ops, 1000 * sizeof(*trace->ops));
    for (int step = 0; step < shape->steps; step++) {
        if (step == shape->eval_before)
            forward(trace, shape, step);
        for (int microbatch = 0; microbatch < shape->microbatches; microbatch++) {
            forward(trace, shape, step);
            backward(trace, shape, step);
        }
    }
    assert_true(trace->op_count < 1000);
    for (size_t i = 0; i < trace->op_count; i++)
        trace->ops[i].op.begin = 1000 * (i + 1);
    return trace;
}

static const struct rp_diff_side *named_side(const struct rp_diff_point *point)
{
    return point->left.present ? &point->left : &point->right;
}

/* ---------------------------------------------------------------- one run is of another shape */

static const struct {
    const char *name;
    struct shape right;
    enum rp_diff_verdict verdict;
    uint64_t only_left, only_right;
    unsigned classes; /* of the first difference; 0: none */
    size_t step;      /* of it, from 0 */
    const char *module;
    enum rp_phase phase;
} table[] = {
    {"same", {6, 2, 3, false, true, true, -1, -1}, RP_DIFF_ALIKE, 0, 0, 0, 0, "", RP_PHASE_UNKNOWN},
    {"a microbatch more",
     {6, 3, 3, false, true, true, -1, -1},
     RP_DIFF_DIFFERENT,
     0,
     6 * 9,
     RP_DIFF_BIT(RP_DIFF_ONLY_RIGHT),
     0,
     "layers.0",
     RP_PHASE_FORWARD},
    {"a microbatch less",
     {6, 1, 3, false, true, true, -1, -1},
     RP_DIFF_DIFFERENT,
     6 * 9,
     0,
     RP_DIFF_BIT(RP_DIFF_ONLY_LEFT),
     0,
     "layers.0",
     RP_PHASE_FORWARD},
    {"a microbatch more, fewer steps",
     {4, 3, 3, false, true, true, -1, -1},
     RP_DIFF_DIFFERENT,
     2 * 18,
     4 * 9,
     RP_DIFF_BIT(RP_DIFF_ONLY_RIGHT),
     0,
     "layers.0",
     RP_PHASE_FORWARD},
    {"a layer more",
     {6, 2, 4, false, true, true, -1, -1},
     RP_DIFF_DIFFERENT,
     0,
     6 * 2 * 3,
     RP_DIFF_BIT(RP_DIFF_ONLY_RIGHT),
     0,
     "layers.3",
     RP_PHASE_FORWARD},
    {"recompute",
     {6, 2, 3, true, true, true, -1, -1},
     RP_DIFF_DIFFERENT,
     0,
     6 * 2 * 3,
     RP_DIFF_BIT(RP_DIFF_ONLY_RIGHT),
     0,
     "layers.2",
     RP_PHASE_RECOMPUTE},
    {"an evaluation before the third step",
     {6, 2, 3, false, true, true, 2, -1},
     RP_DIFF_DIFFERENT,
     0,
     3,
     RP_DIFF_BIT(RP_DIFF_ONLY_RIGHT),
     2,
     "layers.0",
     RP_PHASE_FORWARD},
    {"other bytes from the fourth step on",
     {6, 2, 3, false, true, true, -1, 3},
     RP_DIFF_DIFFERENT,
     0,
     0,
     RP_DIFF_BIT(RP_DIFF_BYTES),
     3,
     "layers.0",
     RP_PHASE_FORWARD},
    {"no fingerprints: its steps are microbatches",
     {6, 2, 3, false, false, true, -1, -1},
     RP_DIFF_ALIKE,
     0,
     0,
     0,
     0,
     "",
     RP_PHASE_UNKNOWN},
    {"no fingerprints, and it ends early",
     {5, 2, 3, false, false, true, -1, -1},
     RP_DIFF_RIGHT_ENDS,
     18,
     0,
     RP_DIFF_BIT(RP_DIFF_ONLY_LEFT),
     5,
     "layers.0",
     RP_PHASE_FORWARD},
    {"no names", {6, 2, 3, false, true, false, -1, -1}, RP_DIFF_ALIKE, 0, 0, 0, 0, "", RP_PHASE_UNKNOWN},
    {"ends early",
     {5, 2, 3, false, true, true, -1, -1},
     RP_DIFF_RIGHT_ENDS,
     18,
     0,
     RP_DIFF_BIT(RP_DIFF_ONLY_LEFT),
     5,
     "layers.0",
     RP_PHASE_FORWARD},
};

static void check_first(const char *name, const struct rp_diff *diff, size_t row)
{
    const struct rp_diff_point *first = rp_diff_first(diff);
    if (first->found != (table[row].classes != 0))
        fail_msg("%s: a difference is found: %d", name, first->found);
    if (!first->found)
        return;
    const struct rp_diff_side *side = named_side(first);
    const char *module = rp_module_name(diff->modules, side->op.module);
    if (first->classes != table[row].classes || side->step != table[row].step || side->op.phase != table[row].phase ||
        strcmp(module, table[row].module) != 0)
        fail_msg("%s: classes 0x%x, step %zu, %s %s", name, first->classes, side->step, module,
                 rp_phase_name((enum rp_phase)side->op.phase));
}

static void test_shapes(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct rp_trace *left = make_shape(&plain), *right = make_shape(&table[i].right);
        struct rp_diff diff = diff_traces(left, right);
        if (diff.verdict != table[i].verdict || diff.counts[RP_DIFF_ONLY_LEFT] != table[i].only_left ||
            diff.counts[RP_DIFF_ONLY_RIGHT] != table[i].only_right)
            fail_msg("%s: verdict %d, %d only left, %d only right", table[i].name, (int)diff.verdict,
                     (int)diff.counts[RP_DIFF_ONLY_LEFT], (int)diff.counts[RP_DIFF_ONLY_RIGHT]);
        check_first(table[i].name, &diff, i);
        rp_trace_free(left);
        rp_trace_free(right);
    }
}

/* Left and right swapped: the same first difference, from the other side. */
static void test_shapes_swapped(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct rp_trace *left = make_shape(&table[i].right), *right = make_shape(&plain);
        struct rp_diff diff = diff_traces(left, right);
        if (diff.counts[RP_DIFF_ONLY_LEFT] != table[i].only_right ||
            diff.counts[RP_DIFF_ONLY_RIGHT] != table[i].only_left)
            fail_msg("%s: %d only left, %d only right", table[i].name, (int)diff.counts[RP_DIFF_ONLY_LEFT],
                     (int)diff.counts[RP_DIFF_ONLY_RIGHT]);
        const struct rp_diff_point *first = rp_diff_first(&diff);
        if (first->found && strcmp(rp_module_name(diff.modules, named_side(first)->op.module), table[i].module) != 0)
            fail_msg("%s: first at %s", table[i].name, rp_module_name(diff.modules, named_side(first)->op.module));
        rp_trace_free(left);
        rp_trace_free(right);
    }
}

/* ---------------------------------------------------------------- what moved */

/* Moves op `from` of the trace to place `to`. */
static void move(struct rp_trace *trace, size_t from, size_t to)
{
    struct rp_trace_op op = trace->ops[from];
    if (from < to)
        memmove(&trace->ops[from], &trace->ops[from + 1], (to - from) * sizeof(op));
    else
        memmove(&trace->ops[to + 1], &trace->ops[to], (from - to) * sizeof(op));
    trace->ops[to] = op;
}

static void test_moved(void **state)
{
    (void)state;
    enum { PER_PASS = 9 };
    struct rp_trace *left = make_shape(&plain), *right = make_shape(&plain);
    move(right, 2 * PER_PASS + 1, 2 * PER_PASS + 7); /* in the second step: the gather of layers.1 forward */
    struct rp_diff diff = diff_traces(left, right);
    assert_int_equal(diff.verdict, RP_DIFF_DIFFERENT);
    assert_int_equal(diff.counts[RP_DIFF_MOVED], 1);
    assert_int_equal(diff.counts[RP_DIFF_ONLY_LEFT] + diff.counts[RP_DIFF_ONLY_RIGHT], 0);
    assert_int_equal(diff.structure.classes, RP_DIFF_BIT(RP_DIFF_MOVED));
    assert_int_equal(diff.structure.left.index, 2 * PER_PASS + 1);
    assert_int_equal(diff.structure.right.index, 2 * PER_PASS + 7);
    assert_int_equal(diff.structure.left.step, 1);
    right->ops[2 * PER_PASS + 7].fingerprint[1] = 1; /* and it sends other bytes */
    diff = diff_traces(left, right);
    assert_int_equal(diff.structure.classes, RP_DIFF_BIT(RP_DIFF_MOVED) | RP_DIFF_BIT(RP_DIFF_BYTES));
    right->ops[2 * PER_PASS + 7].op.count++; /* of another size it is another op */
    diff = diff_traces(left, right);
    assert_int_equal(diff.counts[RP_DIFF_MOVED], 0);
    assert_int_equal(diff.counts[RP_DIFF_ONLY_LEFT], 1);
    assert_int_equal(diff.counts[RP_DIFF_ONLY_RIGHT], 1);
    rp_trace_free(left);
    rp_trace_free(right);
}

/* From one step into another is no move. */
static void test_moved_too_far(void **state)
{
    (void)state;
    struct rp_trace *left = make_shape(&plain), *right = make_shape(&plain);
    move(right, 18 + 10, 3 * 18 + 12);
    struct rp_diff diff = diff_traces(left, right);
    assert_int_equal(diff.counts[RP_DIFF_MOVED], 0);
    assert_int_equal(diff.counts[RP_DIFF_ONLY_LEFT], 1);
    assert_int_equal(diff.counts[RP_DIFF_ONLY_RIGHT], 1);
    rp_trace_free(left);
    rp_trace_free(right);
}

/* ---------------------------------------------------------------- parts, and the list */

static struct rp_diff diff_part(struct rp_trace *left, struct rp_trace *right, size_t first, size_t end, size_t top)
{
    forget_diff();
    assert_int_equal(
        rp_diff_create(&(struct rp_diff_options){.first_step = first, .end_step = end, .top = top}, &last_diff), RP_OK);
    add_rank(&last_diff, left, right);
    assert_int_equal(rp_diff_finish(&last_diff), RP_OK);
    return last_diff;
}

static void test_steps(void **state)
{
    (void)state;
    struct shape changed = plain;
    changed.bytes_from = 3;
    struct rp_trace *left = make_shape(&plain), *right = make_shape(&changed);
    struct rp_diff diff = diff_part(left, right, 0, 3, 4);
    assert_int_equal(diff.verdict, RP_DIFF_ALIKE);
    assert_int_equal(diff.ops_left, 3 * 18);
    assert_int_equal(diff.ops_right, 3 * 18);
    diff = diff_part(left, right, 2, 4, 4);
    assert_int_equal(diff.verdict, RP_DIFF_DIFFERENT);
    assert_int_equal(diff.ops_left, 2 * 18);
    assert_int_equal(diff.bytes.left.index, 3 * 18);
    assert_int_equal(diff.bytes.left.step, 3);
    assert_int_equal(diff.counts[RP_DIFF_BYTES], 12);
    diff = diff_part(left, right, 4, RP_DIFF_ALL_STEPS, 4);
    assert_int_equal(diff.bytes.left.index, 4 * 18);
    assert_int_equal(diff.ops_right, 2 * 18);
    /* the launches behind the last op of a part end behind it on both sides */
    right->ops[3 * 18 - 1].launches++;
    assert_int_equal(diff_part(left, right, 0, 3, 4).counts[RP_DIFF_LAUNCHES], 1);
    rp_trace_free(left);
    rp_trace_free(right);
}

static void test_list(void **state)
{
    (void)state;
    struct rp_trace *left = make_shape(&plain), *right = make_shape(&plain);
    const size_t changed[] = {40, 5, 70, 30, 20};
    for (size_t i = 0; i < sizeof(changed) / sizeof(changed[0]); i++)
        right->ops[changed[i]].op.count++;
    struct rp_diff diff = diff_part(left, right, 0, RP_DIFF_ALL_STEPS, 3);
    assert_int_equal(diff.places, 5);
    assert_int_equal(diff.point_count, 3);
    assert_int_equal(diff.points[0].left.index, 5);
    assert_int_equal(diff.points[1].left.index, 20);
    assert_int_equal(diff.points[2].left.index, 30);
    diff = diff_part(left, right, 0, RP_DIFF_ALL_STEPS, 0);
    assert_int_equal(diff.point_count, 0);
    assert_int_equal(diff.structure.left.index, 5);
    rp_trace_free(left);
    rp_trace_free(right);
}

/* Of several ranks the earlier step comes first, wherever in the rank's ops it is. */
static void test_ranks_by_step(void **state)
{
    (void)state;
    struct shape half = plain;
    half.microbatches = 1;
    struct rp_trace *left[] = {make_shape(&half), make_shape(&plain)};
    struct rp_trace *right[] = {make_shape(&half), make_shape(&plain)};
    left[1]->identity.rank = right[1]->identity.rank = 1;
    right[0]->ops[3 * 9 + 1].op.count++;  /* fourth step */
    right[1]->ops[2 * 18 + 1].op.count++; /* third step, at a higher index */
    struct rp_diff diff = diff_ranks(left, 2, right, 2);
    assert_int_equal(diff.structure.rank, 1);
    assert_int_equal(diff.points[0].rank, 1);
    assert_int_equal(diff.points[1].rank, 0);
    for (int i = 0; i < 2; i++) {
        rp_trace_free(left[i]);
        rp_trace_free(right[i]);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shapes),        cmocka_unit_test(test_shapes_swapped), cmocka_unit_test(test_moved),
        cmocka_unit_test(test_moved_too_far), cmocka_unit_test(test_steps),          cmocka_unit_test(test_list),
        cmocka_unit_test(test_ranks_by_step),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    forget_diff();
    return failed;
}
