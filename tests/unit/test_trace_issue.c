/* Gathers ahead in a trace: their fields, and the op that each was served to, whatever a file says. */
#include "core/trace/trace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/log.h"
#include "core/trace/trace_format.h"
#include "tests/unit/scratch.h"
#include "tests/unit/trace_file.h"

static struct scratch scratch;
static struct rp_trace_writer *writer;
static struct rp_trace *trace;

static int setup(void **state)
{
    const struct rp_trace_identity who = {.nranks = 1, .start_ticks = 1, .ticks_per_second = 1000000000};
    (void)state;
    scratch_make(&scratch);
    assert_int_equal(trace_file_create(scratch.path, &who, &writer), RP_OK);
    trace = NULL;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    rp_trace_free(trace);
    scratch_remove(&scratch);
    return 0;
}

static void read_back(void)
{
    assert_int_equal(rp_trace_finish(writer), RP_OK);
    assert_int_equal(rp_trace_read(scratch_path(&scratch, "rank-0.rpt"), &trace), RP_OK);
}

/* A gather at that position of a communicator, 100 ticks for each position. */
static void put_op(uint32_t comm, uint64_t position, uint16_t flags)
{
    const struct rp_op op = {.kind = RP_OP_ALL_GATHER,
                             .dtype = RP_DTYPE_FLOAT32,
                             .redop = RP_REDOP_NONE,
                             .root = -1,
                             .comm = comm,
                             .position = position,
                             .begin = 1000 + 100 * position + comm,
                             .count = 4,
                             .flags = flags};
    assert_int_equal(rp_trace_put_op(writer, 0, &op), RP_OK);
}

static void put_served(uint32_t comm, uint64_t position)
{
    put_op(comm, position, RP_OP_VOTED | RP_OP_HIT | RP_OP_AHEAD);
}

static void put_issue(uint32_t comm, uint64_t number, uint64_t begin)
{
    const struct rp_issue issue = {.comm = comm,
                                   .source = RP_ISSUE_LIVE,
                                   .number = number,
                                   .behind = 3,
                                   .position = 5,
                                   .begin = begin,
                                   .end = begin + 7,
                                   .bytes = 16};
    assert_int_equal(rp_trace_put_issue(writer, &issue), RP_OK);
}

static void put_use(uint32_t comm, uint64_t number, uint64_t position)
{
    const struct rp_issue_use use = {.comm = comm, .number = number, .position = position};
    assert_int_equal(rp_trace_put_issue_use(writer, &use), RP_OK);
}

/* The number of the gather ahead that an op was served, 0: none is known. */
static uint64_t number_of(size_t op)
{
    const struct rp_trace_issue *issue = rp_trace_issue_of(trace, op);
    if (issue != NULL)
        assert_int_equal(issue->op, op);
    return issue == NULL ? 0 : issue->of.number;
}

static void what_is_put_comes_out(void **state)
{
    (void)state;
    put_issue(2, 1, 900);
    put_op(2, 0, 0);
    put_use(2, 1, 1); /* by another thread, so before its op */
    put_served(2, 1);
    put_op(2, 2, RP_OP_VOTED | RP_OP_HIT);
    put_issue(2, 2, 1210);
    read_back();
    assert_int_equal(trace->issue_count, 2);
    const struct rp_issue *first = &trace->issues[0].of;
    assert_int_equal(first->comm, 2);
    assert_int_equal(first->source, RP_ISSUE_LIVE);
    assert_int_equal(first->number, 1);
    assert_int_equal(first->behind, 3);
    assert_int_equal(first->position, 5);
    assert_int_equal(first->begin, 900);
    assert_int_equal(first->end, 907);
    assert_int_equal(first->bytes, 16);
    assert_int_equal(trace->issues[0].op, 1);
    assert_int_equal(trace->issues[1].of.number, 2);
    assert_int_equal(trace->issues[1].op, RP_TRACE_NO_OP);
    assert_int_equal(trace->used_count, 1);
    assert_int_equal(number_of(0), 0);
    assert_int_equal(number_of(1), 1);
    assert_int_equal(number_of(2), 0);
}

/* In whatever order they stand in the file: numbers are one communicator's own. */
static void in_order_of_time(void **state)
{
    (void)state;
    put_issue(1, 1, 980);
    put_issue(0, 2, 970);
    put_issue(0, 1, 960);
    for (uint64_t i = 0; i < 2; i++) {
        put_served(0, i);
        put_served(1, i);
    }
    put_use(1, 1, 1);
    put_use(0, 2, 0);
    put_use(0, 1, 1);
    read_back();
    assert_int_equal(trace->issue_count, 3);
    assert_int_equal(trace->issues[0].of.begin, 960);
    assert_int_equal(trace->issues[1].of.begin, 970);
    assert_int_equal(trace->issues[2].of.begin, 980);
    assert_int_equal(number_of(0), 2);
    assert_int_equal(number_of(1), 0);
    assert_int_equal(number_of(2), 1);
    assert_int_equal(number_of(3), 1);
    assert_int_equal(rp_trace_issue_of(trace, 3)->of.comm, 1);
}

/* What does not fit is not believed: each of these would make an arrow that leads nowhere, backwards or twice. */
static void uses_that_do_not_fit(void **state)
{
    (void)state;
    put_served(0, 0);
    put_served(0, 1);
    put_op(0, 2, RP_OP_VOTED | RP_OP_HIT); /* of what was kept */
    put_served(0, 3);
    put_op(0, RP_NO_POSITION, RP_OP_VOTED | RP_OP_HIT | RP_OP_AHEAD);
    for (uint64_t number = 1; number <= 6; number++)
        put_issue(0, number, number == 4 ? 1301 : 900 + number);
    put_issue(0, 5, 2); /* a number that there is */
    put_use(0, 1, 0);
    put_use(0, 1, 1);              /* one gather twice */
    put_use(0, 2, 0);              /* one op twice */
    put_use(0, 3, 2);              /* to an op that says otherwise */
    put_use(0, 4, 3);              /* issued after the op began */
    put_use(0, 5, 9);              /* no such op */
    put_use(0, 9, 1);              /* no such gather */
    put_use(7, 6, 1);              /* no such communicator */
    put_use(0, 6, RP_NO_POSITION); /* of no lane */
    read_back();
    assert_int_equal(trace->issue_count, 6);
    assert_int_equal(trace->used_count, 1);
    assert_int_equal(trace->ops[1].op.position, 0); /* the one of no lane is first by its begin */
    assert_int_equal(number_of(1), 1);
}

static void a_source_of_a_newer_version(void **state)
{
    const struct rp_issue issue = {.source = RP_ISSUE_SOURCE_COUNT, .number = 1};
    (void)state;
    assert_int_equal(rp_trace_put_issue(writer, &issue), RP_OK);
    read_back();
    assert_int_equal(trace->issues[0].of.source, RP_ISSUE_UNKNOWN);
    assert_string_equal(rp_issue_source_name(RP_ISSUE_UNKNOWN), "?");
    assert_string_equal(rp_issue_source_name(RP_ISSUE_SNAPSHOT), "snapshot");
}

/* A file that ends within the records, or within the one of the use: what stands whole before it is read. */
static void cut_within(void **state)
{
    struct stat info;
    const char *path = scratch_path(&scratch, "rank-0.rpt");
    (void)state;
    put_issue(0, 1, 900);
    assert_int_equal(rp_trace_flush(writer), RP_OK);
    assert_int_equal(stat(path, &info), 0);
    off_t with_issue = info.st_size;
    put_use(0, 1, 0);
    put_served(0, 0);
    assert_int_equal(rp_trace_finish(writer), RP_OK);
    assert_int_equal(stat(path, &info), 0);
    for (off_t length = info.st_size; length >= (off_t)sizeof(struct rp_file_header); length--) {
        assert_int_equal(truncate(path, length), 0);
        assert_int_equal(rp_trace_read(path, &trace), RP_OK);
        assert_int_equal(trace->issue_count, length >= with_issue);
        assert_int_equal(trace->used_count, length == info.st_size);
        assert_int_equal(trace->complete, length == info.st_size);
        rp_trace_free(trace);
        trace = NULL;
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_is_put_comes_out),       TEST(in_order_of_time), TEST(uses_that_do_not_fit),
        TEST(a_source_of_a_newer_version), TEST(cut_within),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
