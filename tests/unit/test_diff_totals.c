/* Totals and times per event: what is counted, which steps are timed, and what is beyond the noise. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/unit/diff_world.h"

enum { MORE_STEPS = 8, TICK_NS = 100 };

/*
 * Eight steps of 12 ops (diff_world.h) on 4 * OPS places. Op n of a step begins 1000 ticks of 100 ns behind the one
 * before; then the step's gather of layers.1 in forward, its second op, takes extra[step] ticks more.
 */
static struct rp_trace *make_timed(const uint64_t extra[MORE_STEPS])
{
    struct rp_trace *trace = make_run(0, MORE_STEPS, LAYERS);
    uint64_t now = 5000;
    trace->ns_per_tick = TICK_NS;
    for (size_t i = 0; i < trace->op_count; i++) {
        trace->ops[i].op.begin = now;
        now += 1000 + (i % PER_STEP == 1 ? extra[i / PER_STEP] : 0);
    }
    return trace;
}

static const struct rp_diff_total *find(const struct rp_diff *diff, const char *module, enum rp_phase phase)
{
    for (size_t i = 0; i < diff->totals->count; i++) {
        const struct rp_diff_total *total = &diff->totals->rows[i];
        if (total->event.phase == phase && strcmp(rp_module_name(diff->modules, total->event.module), module) == 0)
            return total;
    }
    fail_msg("no row for %s", module);
    return NULL;
}

/* In us of the event, over the first seven steps: of the last it is not known when it ended. */
static const struct {
    const char *name;
    uint64_t left[MORE_STEPS], right[MORE_STEPS]; /* extra ticks of 100 ns */
    double left_median, left_low, left_high, right_median;
    bool retimed, step_retimed;
} table[] = {
    {"the same", {0}, {0}, 100, 100, 100, 100, false, false},
    {"less than 10 us", {0}, {90, 90, 90, 90, 90, 90, 90}, 100, 100, 100, 109, false, false},
    {"less than a hundredth of a step", {0}, {100, 100, 100, 100, 100, 100, 100}, 100, 100, 100, 110, false, false},
    {"more than both", {0}, {200, 200, 200, 200, 200, 200, 200}, 100, 100, 100, 120, true, true},
    {"faster", {300, 300, 300, 300, 300, 300, 300}, {0}, 130, 130, 130, 100, true, true},
    {"some steps of many", {0}, {0, 900, 0, 900, 0, 900, 0}, 100, 100, 100, 100, false, false},
    {"most steps, but they spread",
     {0, 0, 0, 400, 400, 400, 400},
     {0, 300, 500, 500, 500, 900, 900},
     140,
     100,
     140,
     150,
     false,
     false},
    {"beyond the spread of both",
     {0, 10, 20, 30, 40, 50, 60},
     {500, 510, 520, 530, 540, 550, 560},
     103,
     101,
     105,
     153,
     true,
     true},
};

static bool near(double ns, double us)
{
    double apart = ns - us * 1000;
    return apart < 1 && apart > -1;
}

static void test_times(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct rp_trace *left = make_timed(table[i].left), *right = make_timed(table[i].right);
        struct rp_diff diff = diff_traces(left, right);
        const struct rp_diff_total *total = find(&diff, "layers.1", RP_PHASE_FORWARD);
        const struct rp_diff_time *time = total->time;
        assert_int_equal(time[RP_DIFF_A].samples, MORE_STEPS - 1);
        if (!near(time[RP_DIFF_A].median, table[i].left_median) || !near(time[RP_DIFF_A].low, table[i].left_low) ||
            !near(time[RP_DIFF_A].high, table[i].left_high) || !near(time[RP_DIFF_B].median, table[i].right_median))
            fail_msg("%s: %.0f (%.0f to %.0f), %.0f ns", table[i].name, time[RP_DIFF_A].median, time[RP_DIFF_A].low,
                     time[RP_DIFF_A].high, time[RP_DIFF_B].median);
        if (total->retimed != table[i].retimed || diff.totals->step_retimed != table[i].step_retimed)
            fail_msg("%s: retimed %d, step %d", table[i].name, total->retimed, diff.totals->step_retimed);
        assert_int_equal(diff.counts[RP_DIFF_RETIMED], table[i].retimed);
        assert_int_equal(diff.verdict, RP_DIFF_ALIKE); /* whatever the times are */
        rp_trace_free(left);
        rp_trace_free(right);
    }
}

/* The events of a step add up to it: 11 ops and an allocation, which is part of the op before it. */
static void test_events_add_up_to_the_step(void **state)
{
    (void)state;
    const uint64_t none[MORE_STEPS] = {0};
    struct rp_trace *left = make_timed(none), *right = make_timed(none);
    struct rp_diff diff = diff_traces(left, right);
    double sum = 0;
    for (size_t i = 0; i < diff.totals->count; i++)
        sum += diff.totals->rows[i].time[RP_DIFF_A].median;
    assert_true(near(sum, 12 * 100));
    assert_true(near(diff.totals->step[RP_DIFF_A].median, 12 * 100));
    assert_true(
        near(find(&diff, "layers.0", RP_PHASE_BACKWARD)->time[RP_DIFF_A].median, 300)); /* with the allocation */
    assert_true(near(find(&diff, "layers.1", RP_PHASE_BACKWARD)->time[RP_DIFF_A].median, 200));
    rp_trace_free(left);
    rp_trace_free(right);
}

static void test_one_step_is_no_noise(void **state)
{
    (void)state;
    const uint64_t none[MORE_STEPS] = {0}, much[MORE_STEPS] = {9000, 9000, 9000, 9000, 9000, 9000, 9000, 9000};
    struct rp_trace *left = make_timed(none), *right = make_timed(much);
    left->op_count = right->op_count = 2 * PER_STEP; /* of which the second's end is not known */
    struct rp_diff diff = diff_traces(left, right);
    assert_true(diff.totals->step[RP_DIFF_A].samples <= 1);
    assert_int_equal(diff.counts[RP_DIFF_RETIMED], 0);
    assert_false(diff.totals->step_retimed);
    rp_trace_free(left);
    rp_trace_free(right);
}

static void test_counts(void **state)
{
    (void)state;
    struct rp_trace *left = make_run(0, STEPS, LAYERS), *right = make_run(0, STEPS, LAYERS + 1);
    struct rp_diff diff = diff_traces(left, right);
    const struct rp_diff_total *total = find(&diff, "layers.0", RP_PHASE_BACKWARD);
    assert_int_equal(total->ops[RP_DIFF_A], 2 * STEPS);
    assert_int_equal(total->ops[RP_DIFF_B], 2 * STEPS);
    assert_int_equal(total->bytes[RP_DIFF_A], 2 * STEPS * 1000 * 2);
    total = find(&diff, "layers.3", RP_PHASE_FORWARD);
    assert_int_equal(total->ops[RP_DIFF_A], 0);
    assert_int_equal(total->ops[RP_DIFF_B], STEPS);
    assert_int_equal(total->bytes[RP_DIFF_B], STEPS * 1000 * 2);
    assert_false(total->retimed);
    rp_trace_free(left);
    rp_trace_free(right);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_times),
        cmocka_unit_test(test_events_add_up_to_the_step),
        cmocka_unit_test(test_one_step_is_no_noise),
        cmocka_unit_test(test_counts),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    forget_diff();
    return failed;
}
