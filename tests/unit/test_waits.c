/* link: shim: waits.c */
/*
 * Which wait is the first for which op: events are recorded behind ops of lanes, and other streams wait for them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "shim/waits.h"

_Thread_local struct rp_thread rp_thread;

enum { LINK = 100, COMPUTE, REDUCE, OTHER }; /* streams */

static struct rp_comm *const lane = (struct rp_comm *)64, *const other_lane = (struct rp_comm *)128;

static cudaEvent_t event(unsigned number)
{
    return (cudaEvent_t)(uintptr_t)(4096 + number);
}

static void gather(uint64_t position)
{
    rp_waits_op(&(struct rp_waits_op){.comm = lane, .position = position, .gather = true}, LINK);
}

static void reduction(uint64_t position)
{
    rp_waits_op(&(struct rp_waits_op){.comm = lane, .position = position}, REDUCE);
}

static void assert_waits_for(unsigned number, uintptr_t stream, uint64_t position)
{
    struct rp_waits_op op;
    assert_true(rp_waits_first(event(number), stream, &op));
    assert_ptr_equal(op.comm, lane);
    assert_int_equal(op.position, position);
}

static void assert_no_wait(unsigned number, uintptr_t stream)
{
    struct rp_waits_op op;
    assert_false(rp_waits_first(event(number), stream, &op));
}

static int watched(void **state)
{
    (void)state;
    rp_waits_watch();
    return 0;
}

static int unwatched(void **state)
{
    (void)state;
    rp_waits_unwatch();
    assert_false(rp_waits_any());
    return 0;
}

/* The gather behind which the event was recorded, also if others come before the wait. */
static void the_first_other_stream_waits(void **state)
{
    (void)state;
    gather(7);
    rp_waits_recorded(event(1), LINK);
    rp_waits_recorded(event(2), LINK);
    gather(8);
    rp_waits_recorded(event(3), LINK);
    assert_no_wait(1, LINK);
    assert_no_wait(9, COMPUTE);
    assert_waits_for(1, COMPUTE, 7);
    assert_no_wait(1, COMPUTE);
    assert_no_wait(2, OTHER);
    assert_waits_for(3, OTHER, 8);
}

static void an_event_recorded_elsewhere_is_forgotten(void **state)
{
    (void)state;
    gather(1);
    rp_waits_recorded(event(1), LINK);
    rp_waits_recorded(event(1), COMPUTE);
    assert_no_wait(1, OTHER);
    rp_waits_recorded(event(1), LINK);
    gather(2);
    rp_waits_recorded(event(1), LINK);
    assert_waits_for(1, COMPUTE, 2);
}

/* What else a lane or another does on the stream: the event is no longer the gather's. */
static void an_op_that_is_not_timed_takes_the_stream(void **state)
{
    (void)state;
    gather(1);
    rp_waits_op(&(struct rp_waits_op){.comm = NULL, .gather = true}, LINK);
    rp_waits_recorded(event(1), LINK);
    assert_no_wait(1, COMPUTE);
}

/* A reduction counts where compute waits for it, and who computes is known by a gather of the lane. */
static void reductions_count_on_the_stream_of_gathers(void **state)
{
    (void)state;
    reduction(1);
    rp_waits_recorded(event(1), REDUCE);
    assert_no_wait(1, COMPUTE);
    rp_waits_op(&(struct rp_waits_op){.comm = other_lane, .position = 5, .gather = true}, LINK);
    rp_waits_recorded(event(2), LINK);
    struct rp_waits_op op;
    assert_true(rp_waits_first(event(2), COMPUTE, &op));
    assert_ptr_equal(op.comm, other_lane);
    assert_no_wait(1, COMPUTE);
    gather(2);
    rp_waits_recorded(event(3), LINK);
    assert_waits_for(3, COMPUTE, 2);
    assert_no_wait(1, OTHER);
    assert_waits_for(1, COMPUTE, 1);
}

/* A wait that comes long after is no longer known; more events than there is room for replace the oldest. */
static void what_is_long_ago_is_forgotten(void **state)
{
    (void)state;
    gather(0);
    rp_waits_recorded(event(0), LINK);
    for (unsigned i = 1; i < 64; i++) {
        gather(i);
        rp_waits_recorded(event(i), LINK);
    }
    gather(64);
    assert_no_wait(0, COMPUTE);
    rp_waits_recorded(event(64), LINK);
    for (unsigned i = 1; i <= 64; i++)
        assert_waits_for(i, COMPUTE, i);
}

static void events_of_before_are_not_trusted(void **state)
{
    (void)state;
    gather(3);
    rp_waits_recorded(event(1), LINK);
    rp_waits_unwatch();
    assert_false(rp_waits_any());
    rp_waits_watch();
    assert_true(rp_waits_any());
    assert_no_wait(1, COMPUTE);
    gather(4);
    rp_waits_watch();
    rp_waits_recorded(event(2), LINK);
    rp_waits_unwatch();
    assert_waits_for(2, COMPUTE, 4);
}

static void default_streams_have_one_number(void **state)
{
    (void)state;
    assert_int_equal(rp_waits_stream(NULL), rp_waits_stream(cudaStreamLegacy));
    assert_int_not_equal(rp_waits_stream(cudaStreamPerThread), rp_waits_stream(cudaStreamLegacy));
    assert_int_equal(rp_waits_stream(cudaStreamPerThread), (uintptr_t)&rp_thread);
    assert_int_equal(rp_waits_stream((cudaStream_t)4096), 4096);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_first_other_stream_waits, watched, unwatched),
        cmocka_unit_test_setup_teardown(an_event_recorded_elsewhere_is_forgotten, watched, unwatched),
        cmocka_unit_test_setup_teardown(an_op_that_is_not_timed_takes_the_stream, watched, unwatched),
        cmocka_unit_test_setup_teardown(reductions_count_on_the_stream_of_gathers, watched, unwatched),
        cmocka_unit_test_setup_teardown(what_is_long_ago_is_forgotten, watched, unwatched),
        cmocka_unit_test_setup_teardown(events_of_before_are_not_trusted, watched, unwatched),
        cmocka_unit_test(default_streams_have_one_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
