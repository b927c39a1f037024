/* Calls over host time: the span, bars, calls without an end, time in several gathers at once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/tool/timeline_view.h"
#include "tests/unit/tool_trace.h"

#define MS UINT64_C(1000000) /* ticks of the traces here */

static char text[65536];

static struct rp_op *add(struct rp_trace *trace, enum rp_op_kind kind, uint64_t begin, uint64_t end)
{
    struct rp_trace_op *op = tool_trace_add(trace, 0, kind, 256, "a", RP_PHASE_FORWARD, 0);
    op->op.begin = begin;
    op->op.end = end;
    return &op->op;
}

static void print(const struct rp_trace *trace, size_t from, size_t to, bool all_ops)
{
    const struct rp_filter filter = {.allocations = all_ops};
    OUTPUT(text, out, rp_timeline_view_print(out, trace, from, to, &filter));
}

static void has(const char *line)
{
    if (strstr(text, line) == NULL)
        fail_msg("no '%s' in:\n%s", line, text);
}

/* The trace begins later than its first tick, and the range is not its first: times count from the range's first op. */
static void test_times_and_bars(void **state)
{
    (void)state;
    struct rp_trace *trace = tool_trace_make();
    add(trace, RP_OP_ALL_GATHER, 7 * MS, 8 * MS);
    add(trace, RP_OP_ALL_GATHER, 100 * MS, 116 * MS);
    add(trace, RP_OP_REDUCE_SCATTER, 117 * MS, 117 * MS + 1);
    add(trace, RP_OP_ALL_GATHER, 131 * MS + MS / 2, 132 * MS)->flags = RP_OP_VOTED | RP_OP_HIT;
    add(trace, RP_OP_ALL_GATHER, 132 * MS, 140 * MS);
    print(trace, 1, 4, false);
    has("     at ms  in call ms  0 to 32.000 ms                    "
        "module  phase    op                                  source\n"
        "     0.000      16.000  ################................  "
        "a       forward  all-gather 1.0 KiB float32          network\n"
        "    17.000       0.000  .................=..............  "
        "a       forward  reduce-scatter 1.0 KiB float32 sum  -\n"
        "    31.500       0.500  ...............................#  "
        "a       forward  all-gather 1.0 KiB float32          memory\n"
        "\n"
        " gathers  in calls ms  of the time  source\n"
        "       1       16.000        50.0%  network\n"
        "       1        0.500         1.6%  memory\n"
        "       2       16.500        51.6%  all gathers\n");
    tool_trace_free(trace);
}

/* Behind the last op of all there is nothing that ends the time but the calls themselves. */
static void test_end_of_the_trace(void **state)
{
    (void)state;
    struct rp_trace *trace = tool_trace_make();
    add(trace, RP_OP_ALL_GATHER, 10 * MS, 18 * MS);
    add(trace, RP_OP_REDUCE_SCATTER, 11 * MS, 12 * MS);
    print(trace, 0, 2, false);
    has("0 to 8.000 ms");
    has("       1        8.000       100.0%  all gathers\n");
    print(trace, 1, 2, false);
    has("0 to 1.000 ms");
    has("       0        0.000         0.0%  all gathers\n");
    tool_trace_free(trace);
}

/* Where the trace says when a gather ahead was issued, so does the view. */
static void test_gathers_ahead(void **state)
{
    (void)state;
    struct rp_trace *trace = tool_trace_make();
    struct rp_trace_issue issue = {.of = {.number = 1, .begin = 8 * MS}, .op = 1};
    struct rp_trace_used used = {.op = 1};
    add(trace, RP_OP_ALL_GATHER, 10 * MS, 11 * MS)->flags = RP_OP_VOTED | RP_OP_HIT | RP_OP_AHEAD;
    add(trace, RP_OP_ALL_GATHER, 12 * MS + MS / 2, 13 * MS)->flags = RP_OP_VOTED | RP_OP_HIT | RP_OP_AHEAD;
    trace->issues = &issue;
    trace->used = &used;
    trace->issue_count = trace->used_count = 1;
    print(trace, 0, 2, false);
    has("all-gather 1.0 KiB float32  prefetch\n");
    has("all-gather 1.0 KiB float32  prefetch, issued 4.500 ms before\n");
    has("       2        1.500        50.0%  prefetch\n");
    tool_trace_free(trace);
}

/* All at one tick: no time, no share, a bar. */
static void test_no_time_at_all(void **state)
{
    (void)state;
    struct rp_trace *trace = tool_trace_make();
    add(trace, RP_OP_ALL_GATHER, 10, 10);
    print(trace, 0, 1, false);
    has("     0.000       0.000  #...............................  a ");
    has("       1        0.000         0.0%  network\n");
    tool_trace_free(trace);
}

/* Gathers of a group end together; each moment counts once, and none behind the end of the step. */
static void test_gathers_at_once(void **state)
{
    (void)state;
    struct rp_trace *trace = tool_trace_make();
    add(trace, RP_OP_ALL_GATHER, 0, 4 * MS);
    add(trace, RP_OP_ALL_GATHER, 1 * MS, 4 * MS)->flags = RP_OP_VOTED | RP_OP_HIT | RP_OP_AHEAD;
    add(trace, RP_OP_ALL_GATHER, 2 * MS, 5 * MS)->flags = RP_OP_VOTED | RP_OP_HIT | RP_OP_AHEAD;
    add(trace, RP_OP_ALL_GATHER, 9 * MS, 14 * MS)->flags = RP_OP_FAILED;
    add(trace, RP_OP_SEND, 10 * MS, 11 * MS);
    print(trace, 0, 4, false);
    has("0 to 10.000 ms");
    has("     2.000       3.000  ......##########................");
    has("     9.000       5.000  ............................####");
    has("       1        1.000        10.0%  -\n"
        "       1        4.000        40.0%  network\n"
        "       2        1.000        10.0%  prefetch\n"
        "       4        6.000        60.0%  all gathers\n");
    tool_trace_free(trace);
}

/* A call of which the end was not taken, or by a counter that is behind: not a time of centuries. */
static void test_calls_without_an_end(void **state)
{
    (void)state;
    struct rp_trace *trace = tool_trace_make();
    add(trace, RP_OP_ALL_GATHER, 1000 * MS, 0);
    add(trace, RP_OP_ALL_GATHER, 1004 * MS, 1003 * MS);
    add(trace, RP_OP_ALL_GATHER, 1006 * MS, 1008 * MS);
    print(trace, 0, 3, false);
    has("     0.000           -  #...............................");
    has("     4.000           -  ................#...............");
    has("     6.000       2.000  ........................########");
    has("       3        2.000        25.0%  all gathers\n");
    tool_trace_free(trace);
}

/* Allocations are hidden, but time goes on in them; what has no communicator has no bytes. */
static void test_other_ops(void **state)
{
    (void)state;
    struct rp_trace *trace = tool_trace_make();
    add(trace, RP_OP_GRAPH_LAUNCH, 0, MS)->comm = RP_NO_COMM;
    struct rp_op *allocation = add(trace, RP_OP_MALLOC, 2 * MS, 4 * MS);
    allocation->comm = RP_NO_COMM;
    allocation->module = rp_module_intern(trace->modules, "a.longer.name\x1b", 14);
    print(trace, 0, 2, false);
    has("     at ms  in call ms  0 to 4.000 ms                     module  phase    op            source\n"
        "     0.000       1.000  ========........................  a       forward  graph-launch  -\n\n");
    print(trace, 0, 2, true);
    has("     2.000       2.000  ................================  a.longer.name\\x1b  forward  malloc 1.0 KiB  -\n");
    assert_null(strchr(text, '\x1b'));
    tool_trace_free(trace);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_times_and_bars),  cmocka_unit_test(test_end_of_the_trace),
        cmocka_unit_test(test_gathers_ahead),   cmocka_unit_test(test_no_time_at_all),
        cmocka_unit_test(test_gathers_at_once), cmocka_unit_test(test_calls_without_an_end),
        cmocka_unit_test(test_other_ops),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
