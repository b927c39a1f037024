/* Steps in the unified order: which lane cuts, ops of other lanes, which step is shown. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/compare/timeline.h"
#include "tests/unit/tool_trace.h"

enum { STEP_OPS = 7 };

/* A step: two gathers forward, the same two and their reductions backward; one op of another lane before them. */
static void add_step(struct rp_trace *trace, uint64_t generation)
{
    tool_trace_add(trace, 0, RP_OP_ALL_GATHER, 1 << 20, "a", RP_PHASE_FORWARD, 10 * generation + 1);
    tool_trace_add(trace, 0, RP_OP_ALL_GATHER, 1 << 21, "b", RP_PHASE_FORWARD, 10 * generation + 2);
    tool_trace_add(trace, 0, RP_OP_ALL_GATHER, 1 << 21, "b", RP_PHASE_BACKWARD, 10 * generation + 2);
    tool_trace_add(trace, 0, RP_OP_REDUCE_SCATTER, 1 << 21, "b", RP_PHASE_BACKWARD, 0);
    tool_trace_add(trace, 0, RP_OP_ALL_GATHER, 1 << 20, "a", RP_PHASE_BACKWARD, 10 * generation + 1);
    tool_trace_add(trace, 0, RP_OP_REDUCE_SCATTER, 1 << 20, "a", RP_PHASE_BACKWARD, 0);
    tool_trace_add(trace, 1, RP_OP_ALL_REDUCE, 1 << 22, "norm", RP_PHASE_OPTIMIZER, 0);
}

/* Of packed ops it is the same. */
static void assert_packed_alike(const struct rp_trace *trace, const struct rp_timeline *timeline)
{
    struct rp_trace copy = *trace;
    struct rp_packed packed;
    struct rp_timeline other;
    copy.ops = calloc(trace->op_count + 1, sizeof(*copy.ops));
    assert_non_null(copy.ops);
    memcpy(copy.ops, trace->ops, trace->op_count * sizeof(*copy.ops));
    assert_int_equal(rp_packed_create(&copy, &packed), RP_OK);
    assert_int_equal(rp_timeline_create_packed(&packed, &other), RP_OK);
    assert_int_equal(other.count, timeline->count);
    assert_int_equal(other.whole, timeline->whole);
    assert_int_equal(other.op_count, timeline->op_count);
    assert_int_equal(other.basis, timeline->basis);
    for (size_t i = 0; i < other.count; i++) {
        assert_int_equal(other.steps[i].first, timeline->steps[i].first);
        assert_int_equal(other.steps[i].kind, timeline->steps[i].kind);
    }
    rp_timeline_free(&other);
    rp_packed_free(&packed);
}

static struct rp_timeline timeline_of(const struct rp_trace *trace)
{
    struct rp_timeline timeline;
    assert_int_equal(rp_timeline_create(trace, &timeline), RP_OK);
    assert_packed_alike(trace, &timeline);
    return timeline;
}

static void test_steps_of_the_busiest_lane(void **state)
{
    (void)state;
    struct rp_trace *trace = tool_trace_make();
    for (uint64_t generation = 1; generation <= 5; generation++)
        add_step(trace, generation);
    struct rp_timeline timeline = timeline_of(trace);
    assert_int_equal(timeline.count, 5);
    assert_int_equal(timeline.whole, 5);
    for (size_t step = 0; step < 5; step++) {
        assert_int_equal(timeline.steps[step].first, step * STEP_OPS);
        assert_int_equal(rp_timeline_end(&timeline, step), (step + 1) * STEP_OPS);
    }
    for (size_t i = 0; i < trace->op_count; i++)
        assert_int_equal(rp_timeline_step_of(&timeline, i), i / STEP_OPS);
    assert_int_equal(rp_timeline_step_of(&timeline, 1000), 4);
    assert_int_equal(rp_timeline_representative(&timeline), 3);
    rp_timeline_free(&timeline);
    tool_trace_free(trace);
}

/* What comes before the first step of the lane belongs to the first step; ops beside the lane do not cut. */
static void test_ops_before_and_beside(void **state)
{
    (void)state;
    struct rp_trace *trace = tool_trace_make();
    tool_trace_add(trace, 1, RP_OP_ALL_REDUCE, 1 << 22, "init", RP_PHASE_OTHER, 0);
    tool_trace_add(trace, RP_NO_COMM, RP_OP_MALLOC, 1, "-", RP_PHASE_UNKNOWN, 0)->op.position = RP_NO_POSITION;
    for (uint64_t generation = 1; generation <= 4; generation++) {
        add_step(trace, generation);
        tool_trace_add(trace, 0, RP_OP_SEND, 1 << 20, "-", RP_PHASE_UNKNOWN, 0)->op.position = RP_NO_POSITION;
    }
    struct rp_timeline timeline = timeline_of(trace);
    assert_int_equal(timeline.count, 4);
    assert_int_equal(timeline.steps[0].first, 0);
    assert_int_equal(timeline.steps[1].first, 2 + STEP_OPS + 1);
    assert_int_equal(rp_timeline_step_of(&timeline, 2 + STEP_OPS), 0);
    assert_int_equal(rp_timeline_end(&timeline, 3), trace->op_count);
    rp_timeline_free(&timeline);
    tool_trace_free(trace);
}

static void test_nothing_repeats(void **state)
{
    (void)state;
    struct rp_trace *trace = tool_trace_make();
    struct rp_timeline timeline = timeline_of(trace);
    assert_int_equal(timeline.count, 0);
    assert_int_equal(rp_timeline_step_of(&timeline, 0), 0);
    assert_int_equal(rp_timeline_representative(&timeline), 0);
    rp_timeline_free(&timeline);

    tool_trace_add(trace, RP_NO_COMM, RP_OP_GRAPH_LAUNCH, 0, "-", RP_PHASE_UNKNOWN, 0)->op.position = RP_NO_POSITION;
    timeline = timeline_of(trace); /* an op, but none on a lane */
    assert_int_equal(timeline.count, 1);
    assert_int_equal(timeline.whole, 0);
    assert_int_equal(rp_timeline_end(&timeline, 0), 1);
    rp_timeline_free(&timeline);

    tool_trace_add(trace, 0, RP_OP_ALL_GATHER, 1 << 20, "a", RP_PHASE_FORWARD, 1);
    tool_trace_add(trace, 7, RP_OP_ALL_GATHER, 1 << 20, "a", RP_PHASE_FORWARD, 1); /* a communicator nobody described */
    timeline = timeline_of(trace);
    assert_int_equal(timeline.whole, 0);
    assert_int_equal(rp_timeline_end(&timeline, timeline.count - 1), 3);
    rp_timeline_free(&timeline);
    tool_trace_free(trace);
}

/* The last whole step is passed over, others are not counted. */
static void test_representative(void **state)
{
    static const struct {
        size_t count;
        const char *kinds; /* w whole, o other */
        size_t expected;
    } table[] = {{1, "w", 0}, {1, "o", 0}, {2, "ow", 1}, {2, "oo", 1}, {3, "www", 1}, {4, "wwow", 1}, {5, "owwwo", 2}};
    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct rp_step steps[5];
        struct rp_timeline timeline = {.steps = steps, .count = table[i].count, .op_count = 100};
        for (size_t j = 0; j < table[i].count; j++) {
            steps[j] = (struct rp_step){.first = j, .kind = table[i].kinds[j] == 'w' ? RP_STEP_WHOLE : RP_STEP_OTHER};
            timeline.whole += table[i].kinds[j] == 'w';
        }
        assert_int_equal(rp_timeline_representative(&timeline), table[i].expected);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps_of_the_busiest_lane),
        cmocka_unit_test(test_ops_before_and_beside),
        cmocka_unit_test(test_nothing_repeats),
        cmocka_unit_test(test_representative),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
