/* The beginning of a trace, and the lane of one communicator in it. */
#include "core/trace/trace_lane.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/unit/scratch.h"
#include "tests/unit/trace_file.h"

static struct scratch scratch;

static int setup(void **state)
{
    (void)state;
    scratch_make(&scratch);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    scratch_remove(&scratch);
    return 0;
}

static struct rp_op op_at(uint32_t comm, uint64_t begin, uint64_t position)
{
    return (struct rp_op){.type = 2,
                          .kind = RP_OP_ALL_GATHER,
                          .redop = RP_REDOP_NONE,
                          .root = -1,
                          .comm = comm,
                          .position = position,
                          .begin = begin,
                          .end = begin + 1,
                          .count = 100 + position};
}

/* Two communicators, one block for each of the `count` positions of both; `missing` of the second is left out. */
static const char *write_trace(uint64_t count, uint64_t missing)
{
    struct rp_trace_identity identity = {.rank = 0, .nranks = 2, .start_ticks = 1, .ticks_per_second = 1000};
    struct rp_trace_writer *writer = NULL;

    assert_int_equal(trace_file_create(scratch.path, &identity, &writer), RP_OK);
    for (uint64_t i = 0; i < count; i++) {
        for (uint32_t comm = 4; comm < 6; comm++) {
            struct rp_op op = op_at(comm, 10 + 2 * i + comm, i);
            if (comm != 5 || i != missing)
                assert_int_equal(rp_trace_put_op(writer, 1, &op), RP_OK);
        }
        struct rp_op message = op_at(4, 11 + 2 * i, RP_NO_POSITION);
        assert_int_equal(rp_trace_put_op(writer, 2, &message), RP_OK);
        assert_int_equal(rp_trace_flush(writer), RP_OK);
    }
    assert_int_equal(rp_trace_finish(writer), RP_OK);
    return scratch_path(&scratch, "rank-0.rpt");
}

static void assert_lane(const struct rp_trace *trace, uint32_t comm, size_t most, size_t count)
{
    struct rp_trace_lane lane;

    assert_int_equal(rp_trace_lane_make(trace, comm, most, &lane), RP_OK);
    assert_int_equal(lane.count, count);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(lane.ops[i]->op.comm, comm);
        assert_int_equal(lane.ops[i]->op.count, 100 + i);
    }
    rp_trace_lane_free(&lane);
}

static void a_lane_ends_where_a_position_is_missing(void **state)
{
    (void)state;
    struct rp_trace *trace = NULL;
    assert_int_equal(rp_trace_read(write_trace(20, 7), &trace), RP_OK);
    assert_lane(trace, 4, 100, 20);
    assert_lane(trace, 4, 20, 20);
    assert_lane(trace, 4, 3, 3);
    assert_lane(trace, 5, 100, 7);
    assert_lane(trace, 6, 100, 0);
    rp_trace_free(trace);
}

static void the_head_of_a_trace_is_what_begins_in_it(void **state)
{
    (void)state;
    const char *file = write_trace(20, 20);
    char cause[100] = "";
    struct rp_trace *whole = NULL, *head = NULL;
    assert_int_equal(rp_trace_read(file, &whole), RP_OK);
    size_t last = 0;
    for (uint64_t most = 0; most < 8000; most += 500) {
        assert_int_equal(rp_trace_read_head(file, most, cause, sizeof(cause), &head), RP_OK);
        assert_true(head->op_count >= last && head->op_count % 3 == 0);
        assert_true(head->op_count == whole->op_count || !head->complete);
        last = head->op_count;
        rp_trace_free(head);
    }
    assert_int_equal(last, 60);
    assert_string_equal(cause, "");
    rp_trace_free(whole);
}

/* A line in the log would stand beside the one that the caller says. */
static void what_is_wrong_is_told_not_logged(void **state)
{
    (void)state;
    const char *file = write_trace(3, 3);
    char cause[100];
    struct rp_trace *trace = NULL;
    assert_int_equal(truncate(file, 40), 0);
    assert_int_equal(rp_trace_read_head(file, UINT64_MAX, cause, sizeof(cause), &trace), RP_TRUNCATED);
    assert_string_equal(cause, "byte 40: the file ends inside its header");
    assert_int_equal(rp_trace_read_head("/nowhere/rank-0.rpt", UINT64_MAX, cause, sizeof(cause), &trace), RP_NOT_FOUND);
    assert_string_equal(cause, "cannot be opened: No such file or directory");
    assert_int_equal(rp_trace_read_head("/dev", UINT64_MAX, cause, sizeof(cause), &trace), RP_IO);
    assert_string_equal(cause, "not a regular file");
    assert_int_not_equal(access(scratch.log, F_OK), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_lane_ends_where_a_position_is_missing),
        TEST(the_head_of_a_trace_is_what_begins_in_it),
        TEST(what_is_wrong_is_told_not_logged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
