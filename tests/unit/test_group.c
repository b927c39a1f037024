/* link: shim: group.c */
/*
 * Groups of a thread against a plain account of what NCCL does: what is issued inside is told at the outermost end,
 * once, in order, with the end's result.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "shim/group.h"
#include "shim/runtime.h"

_Thread_local struct rp_thread rp_thread;

/* What was told. */
static struct {
    uint64_t count; /* of the call; 0: a birth */
    unsigned flags;
    ncclResult_t result;
} told[8];
static size_t told_count;

void rp_call_report(struct rp_call *call, ncclResult_t result)
{
    told[told_count].count = call->op.count;
    told[told_count].flags = call->op.flags;
    told[told_count++].result = result;
}

void rp_comm_born(const struct rp_comm_birth *birth, ncclResult_t result)
{
    (void)birth;
    told[told_count].count = 0;
    told[told_count++].result = result;
}

static void add(uint64_t count)
{
    struct rp_call call = {.op = {.count = count}};
    assert_true(rp_group_add_call(&call));
}

static int start(void **state)
{
    (void)state;
    rp_thread = (struct rp_thread){0};
    told_count = 0;
    return 0;
}

static void test_told_at_the_outermost_end(void **state)
{
    (void)state;
    rp_group_start(NULL, ncclSuccess);
    add(1);
    rp_group_start(NULL, ncclSuccess);
    assert_true(rp_group_add_birth(&(struct rp_comm_birth){0}));
    add(2);
    rp_group_end(ncclSuccess);
    assert_int_equal(told_count, 0);
    rp_group_end(ncclInProgress);
    assert_int_equal(told_count, 3);
    for (uint64_t i = 0; i < 3; i++) {
        assert_int_equal(told[i].count, i == 1 ? 0 : i / 2 + 1);
        assert_int_equal(told[i].result, ncclInProgress);
    }
    assert_int_equal(rp_thread.groups, 1);
}

static void test_a_failed_end_ends(void **state)
{
    (void)state;
    rp_group_start(NULL, ncclSuccess);
    add(1);
    rp_group_end(ncclInvalidArgument);
    assert_int_equal(rp_thread.group_depth, 0);
    assert_int_equal(told_count, 1);
    assert_int_equal(told[0].result, ncclInvalidArgument);
}

static void test_ends_without_start_and_failed_starts(void **state)
{
    (void)state;
    rp_group_end(ncclInvalidUsage);
    rp_group_simulate_end(ncclInvalidUsage);
    rp_group_start(NULL, ncclInternalError);
    assert_int_equal(rp_thread.group_depth, 0);
    assert_int_equal(rp_thread.groups, 0);
}

static void test_simulated(void **state)
{
    (void)state;
    rp_group_start(NULL, ncclSuccess);
    add(1);
    rp_group_simulate_end(ncclSuccess);
    assert_int_equal(told_count, 1);
    assert_true(told[0].flags & RP_OP_SIMULATED);
}

static void test_a_fork_forgets_the_parents_group(void **state)
{
    (void)state;
    rp_group_start(NULL, ncclSuccess);
    add(1);
    rp_group_forked();
    rp_thread = (struct rp_thread){0};
    rp_group_start(NULL, ncclSuccess);
    add(2);
    rp_group_end(ncclSuccess);
    assert_int_equal(told_count, 1);
    assert_int_equal(told[0].count, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_told_at_the_outermost_end, start),
        cmocka_unit_test_setup(test_a_failed_end_ends, start),
        cmocka_unit_test_setup(test_ends_without_start_and_failed_starts, start),
        cmocka_unit_test_setup(test_simulated, start),
        cmocka_unit_test_setup(test_a_fork_forgets_the_parents_group, start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
