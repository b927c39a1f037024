/* Exports: tracks whose slices never overlap, whatever the trace says, and the times of ranks on one axis. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#define CHECK(condition) assert_true(condition)
#include "tests/unit/export_checker.h"
#include "tests/unit/tool_trace.h"

/* What the checker's format leaves out: the slices of calls and events, as text. */
static char told[4096];

static void tell_slice(struct rp_export *export, const struct rp_export_slice *slice)
{
    size_t used = strlen(told);
    snprintf(told + used, sizeof(told) - used, "%s %d %s\n", rp_export_category_name(slice->category),
             (int)slice->begin, rp_export_name(export->names, slice->name));
}

static void tell_open(struct rp_export *export, const struct rp_export_slice *slice)
{
    checker_open(export, slice);
    tell_slice(export, slice);
}

static void tell_close(struct rp_export *export, const struct rp_export_track *track, int64_t end)
{
    size_t used = strlen(told);
    checker_close(export, track, end);
    snprintf(told + used, sizeof(told) - used, "end %d\n", (int)end);
}

static void tell_call(struct rp_export *export, const struct rp_export_slice *slice)
{
    size_t used = strlen(told);
    checker_call(export, slice);
    used +=
        (size_t)snprintf(told + used, sizeof(told) - used, "%s %d to %d %s", rp_export_category_name(slice->category),
                         (int)slice->begin, (int)slice->end, rp_export_name(export->names, slice->name));
    if (slice->flow != 0)
        used += (size_t)snprintf(told + used, sizeof(told) - used, " flow %d", (int)(uint32_t)slice->flow);
    snprintf(told + used, sizeof(told) - used, "\n");
}

static void export_cut(struct rp_trace *trace, const struct rp_timeline *timeline, struct rp_export_steps steps)
{
    struct rp_export_format format = checker_format;
    struct rp_progress progress;
    const struct rp_trace_run run = {.ranks = &trace, .count = 1};
    struct rp_export export = {.format = &format, .progress = &progress, .base_wall_ns = rp_export_base(&run)};
    format.open = tell_open;
    format.close = tell_close;
    format.call = tell_call;
    told[0] = '\0';
    rp_progress_begin(&progress, "test", 1);
    assert_int_equal(rp_export_names_create(&export.names), RP_OK);
    format.begin(&export);
    assert_int_equal(rp_export_rank(&export, 0, trace, timeline, steps), RP_OK);
    format.end(&export);
    rp_export_names_destroy(export.names);
}

/* Cut into steps as it is in the command. */
static void export_steps(struct rp_trace *trace, struct rp_export_steps steps)
{
    struct rp_timeline timeline;
    assert_int_equal(rp_timeline_create(trace, &timeline), RP_OK);
    export_cut(trace, &timeline, steps);
    rp_timeline_free(&timeline);
}

/* All of it as one step. */
static void export_all(struct rp_trace *trace)
{
    struct rp_step step = {0, RP_STEP_OTHER};
    const struct rp_timeline timeline = {.steps = &step, .count = 1, .op_count = trace->op_count};
    export_cut(trace, &timeline, (struct rp_export_steps){0, SIZE_MAX});
}

/* ---------------------------------------------------------------- tests */

static void calls_in_events_in_steps(void **state)
{
    struct rp_trace *trace = tool_trace_make();
    (void)state;
    tool_trace_add(trace, 0, RP_OP_ALL_GATHER, 256, "a", RP_PHASE_FORWARD, 1);
    tool_trace_add(trace, 0, RP_OP_ALL_GATHER, 256, "a", RP_PHASE_FORWARD, 2);
    tool_trace_add(trace, 0, RP_OP_MALLOC, 256, "-", RP_PHASE_UNKNOWN, 0); /* ends no event */
    tool_trace_add(trace, 0, RP_OP_ALL_GATHER, 256, "b", RP_PHASE_FORWARD, 3);
    tool_trace_add(trace, 0, RP_OP_ALL_REDUCE, 1, "-", RP_PHASE_UNKNOWN, 0); /* has none */
    export_all(trace);
    assert_string_equal(told, "step 0 step 1\n"
                              "event 0 a forward\n"
                              "call 0 to 5 all-gather 1.0 KiB float32\n"
                              "call 10 to 15 all-gather 1.0 KiB float32\n"
                              "call 20 to 25 malloc 1.0 KiB\n"
                              "end 30\n"
                              "event 30 b forward\n"
                              "call 30 to 35 all-gather 1.0 KiB float32\n"
                              "end 40\n"
                              "call 40 to 45 all-reduce 4 B float32\n"
                              "end 45\n");
    assert_int_equal(checked.instants, 4); /* on the stream; an allocation is on none */
    tool_trace_free(trace);
}

static void launches_of_another_event_begin_it(void **state)
{
    struct rp_trace *trace = tool_trace_make();
    (void)state;
    struct rp_trace_op *op = tool_trace_add(trace, 0, RP_OP_ALL_GATHER, 256, "a", RP_PHASE_FORWARD, 1);
    tool_trace_launch(trace, 3, tool_trace_event(op));
    tool_trace_launch(trace, 3, (struct rp_event){op->op.module, RP_PHASE_OPTIMIZER});
    trace->parts[1].first = 7;
    tool_trace_add(trace, 0, RP_OP_ALL_GATHER, 256, "a", RP_PHASE_FORWARD, 2);
    tool_trace_launch(trace, 1, (struct rp_event){op->op.module, RP_PHASE_OPTIMIZER});
    trace->parts[2].first = 12; /* inside the call, which no event can begin in */
    export_all(trace);
    assert_string_equal(told, "step 0 step 1\n"
                              "event 0 a forward\n"
                              "call 0 to 5 all-gather 1.0 KiB float32\n"
                              "end 7\n"
                              "event 7 a optimizer\n"
                              "end 10\n"
                              "event 10 a forward\n"
                              "call 10 to 15 all-gather 1.0 KiB float32\n"
                              "end 15\n"
                              "event 15 a optimizer\n"
                              "end 15\n"
                              "end 15\n");
    tool_trace_free(trace);
}

/* A call of a group that returns after the next one came in, one whose end was not taken, and equal times. */
static void calls_never_overlap(void **state)
{
    struct rp_trace *trace = tool_trace_make();
    (void)state;
    tool_trace_add(trace, 0, RP_OP_ALL_GATHER, 256, "a", RP_PHASE_FORWARD, 1)->op.end = 25;
    tool_trace_add(trace, 0, RP_OP_ALL_GATHER, 256, "a", RP_PHASE_FORWARD, 2)->op.end = 25;
    tool_trace_add(trace, 0, RP_OP_ALL_GATHER, 256, "a", RP_PHASE_FORWARD, 3)->op.end = 0;
    tool_trace_add(trace, 0, RP_OP_ALL_GATHER, 256, "a", RP_PHASE_FORWARD, 4)->op.begin = 20;
    trace->ops[3].op.end = 22;
    export_all(trace);
    assert_string_equal(told, "step 0 step 1\n"
                              "event 0 a forward\n"
                              "call 0 to 10 all-gather 1.0 KiB float32\n"
                              "call 10 to 20 all-gather 1.0 KiB float32\n"
                              "call 20 to 20 all-gather 1.0 KiB float32\n"
                              "call 20 to 22 all-gather 1.0 KiB float32\n"
                              "end 22\n"
                              "end 22\n");
    tool_trace_free(trace);
}

/* Each thread has a track of its own, on which the calls of the other do not count. */
static void threads_stand_apart(void **state)
{
    struct rp_trace *trace = tool_trace_make();
    (void)state;
    tool_trace_add(trace, 0, RP_OP_ALL_GATHER, 256, "a", RP_PHASE_FORWARD, 1)->op.end = 25;
    tool_trace_add(trace, 0, RP_OP_ALL_GATHER, 512, "b", RP_PHASE_BACKWARD, 2)->thread = 7;
    tool_trace_add(trace, 0, RP_OP_ALL_GATHER, 256, "a", RP_PHASE_FORWARD, 3);
    trace->ops[1].op.stream = 9;
    export_all(trace);
    assert_string_equal(told, "step 0 step 1\n"
                              "event 0 a forward\n"
                              "call 0 to 20 all-gather 1.0 KiB float32\n"
                              "call 20 to 25 all-gather 1.0 KiB float32\n"
                              "end 25\n"
                              "end 25\n"
                              "step 10 step 1\n"
                              "event 10 b backward\n"
                              "call 10 to 15 all-gather 2.0 KiB float32\n"
                              "end 15\n"
                              "end 15\n");
    assert_int_equal(checked.streams, 2);
    tool_trace_free(trace);
}

/* Three steps of a gather and a reduction; weights change from one to the next. */
static struct rp_trace *steps_trace(void)
{
    struct rp_trace *trace = tool_trace_make();
    for (unsigned step = 0; step < 6; step++) {
        tool_trace_add(trace, 0, RP_OP_ALL_GATHER, 256, "a", RP_PHASE_FORWARD, 10 + step);
        tool_trace_add(trace, 0, RP_OP_ALL_GATHER, 256, "a", RP_PHASE_BACKWARD, 10 + step);
        tool_trace_add(trace, 0, RP_OP_REDUCE_SCATTER, 256, "a", RP_PHASE_BACKWARD, 100 + step);
    }
    return trace;
}

static void only_the_steps_asked_for(void **state)
{
    struct rp_trace *trace = steps_trace();
    (void)state;
    export_steps(trace, (struct rp_export_steps){0, SIZE_MAX});
    assert_int_equal(checked.steps, 6);
    assert_int_equal(checked.calls, 18);
    export_steps(trace, (struct rp_export_steps){2, 4});
    assert_int_equal(checked.steps, 2);
    assert_int_equal(checked.calls, 6);
    assert_int_equal(checked.instants, 6);
    assert_int_equal(checked.counts, 6 + 2 * 2);
    assert_non_null(strstr(told, "step 60 step 3\n"));
    assert_non_null(strstr(told, "end 120\n")); /* where the step behind begins */
    assert_null(strstr(told, "step 5"));
    export_steps(trace, (struct rp_export_steps){6, 7});
    assert_int_equal(checked.steps + checked.calls + checked.instants + checked.counts, 0);
    tool_trace_free(trace);
}

/* ---------------------------------------------------------------- gathers ahead */

/* `use`: the op that it is served to, of those in order; the trace owns nothing of it. */
static void add_issue(struct rp_trace *trace, uint32_t comm, uint64_t begin, uint64_t end, uint32_t use)
{
    static struct rp_trace_issue issues[16];
    static struct rp_trace_used used[16];
    uint32_t index = (uint32_t)trace->issue_count++;
    trace->issues = issues;
    trace->used = used;
    assert_true(index < 16);
    issues[index] = (struct rp_trace_issue){
        .of =
            {.comm = comm, .source = RP_ISSUE_SNAPSHOT, .number = index + 1, .begin = begin, .end = end, .bytes = 1024},
        .op = use};
    if (use != RP_TRACE_NO_OP)
        used[trace->used_count++] = (struct rp_trace_used){use, index};
}

static void a_gather_ahead_flows_to_its_call(void **state)
{
    struct rp_trace *trace = tool_trace_make();
    (void)state;
    for (int i = 0; i < 4; i++)
        tool_trace_add(trace, 0, RP_OP_ALL_GATHER, 256, "a", RP_PHASE_FORWARD, 1);
    add_issue(trace, 0, 2, 4, 1);
    add_issue(trace, 0, 3, 9, RP_TRACE_NO_OP); /* the one before ends later than this begins */
    add_issue(trace, 1, 3, 30, 2);             /* of another communicator: on a track of its own */
    add_issue(trace, 0, 8, 5, 3);              /* of an end that is no end */
    export_all(trace);
    assert_non_null(strstr(told, "ahead 2 to 3 all-gather ahead 1.0 KiB flow 0\n"
                                 "ahead 3 to 8 all-gather ahead 1.0 KiB\n"
                                 "ahead 8 to 8 all-gather ahead 1.0 KiB flow 3\n"
                                 "ahead 3 to 30 all-gather ahead 1.0 KiB flow 2\n"
                                 "step 0 step 1\n"));
    assert_non_null(strstr(told, "call 0 to 5 all-gather 1.0 KiB float32\n"
                                 "call 10 to 15 all-gather 1.0 KiB float32 flow 0\n"
                                 "call 20 to 25 all-gather 1.0 KiB float32 flow 2\n"
                                 "call 30 to 35 all-gather 1.0 KiB float32 flow 3\n"));
    assert_int_equal(checked.aheads, 4);
    assert_int_equal(checked.aheads_tracks, 2);
    assert_int_equal(checked.flow_begins, 3);
    /* launches of each call, two of the step, its bytes ahead, and of three gathers when they wait and no longer */
    assert_int_equal(checked.counts, 4 + 2 + 1 + 6);
    tool_trace_free(trace);
}

/* Where only one end of a flow is in the steps asked for, there is none. */
static void flows_within_the_steps_asked_for(void **state)
{
    struct rp_trace *trace = steps_trace();
    (void)state;
    add_issue(trace, 0, 45, 46, 6); /* of step 2, for step 3 */
    add_issue(trace, 0, 61, 62, 7); /* of step 3 */
    add_issue(trace, 0, 85, 86, 9); /* of step 3, for step 4 */
    export_steps(trace, (struct rp_export_steps){2, 3});
    assert_int_equal(checked.aheads, 2);
    assert_int_equal(checked.flow_begins, 1);
    assert_int_equal(checked.counts, 3 + 2 + 1 + 2);
    export_steps(trace, (struct rp_export_steps){0, SIZE_MAX});
    assert_int_equal(checked.aheads, 3);
    assert_int_equal(checked.flow_begins, 3);
    tool_trace_free(trace);
}

static void ranks_share_the_axis_of_the_wall_clock(void **state)
{
    struct rp_trace *traces[2] = {tool_trace_make(), tool_trace_make()};
    const struct rp_trace_run run = {.ranks = traces, .count = 2};
    (void)state;
    traces[0]->identity.start_wall_ns = 5000;
    traces[1]->identity.start_wall_ns = 4000;
    assert_int_equal(rp_export_base(&run), 4000);
    traces[1]->identity.start_ticks = 300; /* of a processor whose counter is ahead: its first op began before */
    tool_trace_add(traces[1], 0, RP_OP_ALL_GATHER, 256, "a", RP_PHASE_FORWARD, 1);
    assert_int_equal(rp_export_base(&run), 3700);
    tool_trace_free(traces[0]);
    tool_trace_free(traces[1]);
}

/* Times at which no program ever was: what is exported still is in order. */
static void absurd_times(void **state)
{
    static const uint64_t begins[] = {0, 1, UINT64_MAX / 2, UINT64_MAX / 2 + 2, UINT64_MAX - 1, UINT64_MAX};
    static const double rates[] = {1e-9, 1, 1e9};
    (void)state;
    for (size_t r = 0; r < sizeof(rates) / sizeof(rates[0]); r++) {
        struct rp_trace *trace = tool_trace_make();
        trace->ns_per_tick = rates[r];
        trace->identity.start_ticks = UINT64_MAX / 2 + 1;
        trace->identity.start_wall_ns = UINT64_MAX;
        for (size_t i = 0; i < sizeof(begins) / sizeof(begins[0]); i++) {
            struct rp_trace_op *op = tool_trace_add(trace, 0, RP_OP_ALL_GATHER, 256, "a", RP_PHASE_FORWARD, 1);
            op->op.begin = begins[i];
            op->op.end = UINT64_MAX;
        }
        export_all(trace);
        assert_int_equal(checked.calls, sizeof(begins) / sizeof(begins[0]));
        tool_trace_free(trace);
    }
}

static void names_are_made_once(void **state)
{
    struct rp_trace *trace = tool_trace_make();
    struct rp_export_names *names;
    (void)state;
    uint32_t module = rp_module_intern(trace->modules, "a\x1b[31m\"", 7);
    const struct rp_event event = {module, RP_PHASE_FORWARD};
    assert_int_equal(rp_export_names_create(&names), RP_OK);
    rp_export_names_of(names, trace);
    assert_int_equal(rp_export_name_event(names, event), 1);
    assert_int_equal(rp_export_name_text(names, "step 1"), 2);
    assert_int_equal(rp_export_name_event(names, event), 1);
    assert_int_equal(rp_export_name_text(names, "step 1"), 2);
    assert_string_equal(rp_export_name(names, 1), "a\\x1b[31m\" forward");
    rp_export_names_of(names, trace); /* another trace: its numbers are others */
    assert_int_equal(rp_export_name_event(names, event), 3);
    assert_string_equal(rp_export_name(names, 0), "?");
    assert_string_equal(rp_export_name(names, 4), "?");
    rp_export_names_destroy(names);
    tool_trace_free(trace);
}

static void numbers_and_texts(void **state)
{
    static struct rp_export_out out;
    char text[200];
    (void)state;
    OUTPUT(text, file, ({
               rp_export_out_begin(&out, file);
               rp_export_u64(&out, 0);
               rp_export_text(&out, " ");
               rp_export_u64(&out, UINT64_MAX);
               rp_export_text(&out, " ");
               rp_export_i64(&out, INT64_MIN);
               rp_export_text(&out, " ");
               rp_export_hex(&out, 0x2f, 8);
               rp_export_text(&out, " ");
               rp_export_hex(&out, UINT64_MAX, 1);
               rp_export_text(&out, " ");
               rp_export_json_text(&out, "\\x1b \"a\"");
               assert_int_equal(rp_export_out_end(&out), RP_OK);
           }));
    assert_string_equal(text, "0 18446744073709551615 -9223372036854775808 0000002f ffffffffffffffff "
                              "\"\\\\x1b \\\"a\\\"\"");
}

static void a_full_disk_is_seen(void **state)
{
    static struct rp_export_out out;
    FILE *full = fopen("/dev/full", "w");
    (void)state;
    assert_non_null(full);
    rp_export_out_begin(&out, full);
    for (int i = 0; i < 1000000; i++)
        rp_export_text(&out, "a line\n");
    assert_int_equal(rp_export_out_end(&out), RP_IO);
    assert_int_not_equal(out.error, 0);
    fclose(full);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_in_events_in_steps),
        cmocka_unit_test(launches_of_another_event_begin_it),
        cmocka_unit_test(calls_never_overlap),
        cmocka_unit_test(threads_stand_apart),
        cmocka_unit_test(only_the_steps_asked_for),
        cmocka_unit_test(a_gather_ahead_flows_to_its_call),
        cmocka_unit_test(flows_within_the_steps_asked_for),
        cmocka_unit_test(ranks_share_the_axis_of_the_wall_clock),
        cmocka_unit_test(absurd_times),
        cmocka_unit_test(names_are_made_once),
        cmocka_unit_test(numbers_and_texts),
        cmocka_unit_test(a_full_disk_is_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
