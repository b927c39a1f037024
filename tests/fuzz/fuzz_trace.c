/*
 * All that the command line does with one trace: reading, whole and its head, joining, cutting into steps, every view,
 * the exports, the differences to itself, of which there must be none, and to its first half, and both of these as
 * ranks.
 *
 * An input is a trace file, which is sealed first (trace_file.h).
 *
 * Threads: one.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/compare/diff.h"
#include "core/compare/ranks.h"
#include "core/compare/timeline.h"
#include "core/log.h"
#include "core/tool/diff_totals_view.h"
#include "core/tool/export.h"
#include "core/tool/launch_view.h"
#include "core/tool/order_view.h"
#include "core/tool/plan_view.h"
#include "core/tool/ranks_report.h"
#include "core/tool/rows.h"
#include "core/tool/sites_view.h"
#include "core/tool/summary.h"
#include "core/tool/timeline_view.h"
#include "core/tool/tree_view.h"
#include "core/trace/trace.h"
#include "core/trace/trace_lane.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/trace_file.h"

const char fuzz_target[] = "trace";

#define STEPS_SHOWN 1

#define CHECK(condition) must(condition)
#include "tests/unit/export_checker.h"

/* What is printed is made, and thrown away. */
static FILE *nowhere(void)
{
    static FILE *out;
    if (out == NULL)
        out = fopen("/dev/null", "w");
    must(out != NULL);
    return out;
}

/* The path of a file that holds the input; the descriptor is the caller's. */
static int make_file(const uint8_t *data, size_t size, char *path, size_t path_size)
{
    unsigned char *file = malloc(size + 1);
    int descriptor = memfd_create("trace", MFD_CLOEXEC);
    must(file != NULL && descriptor >= 0);
    memcpy(file, data, size);
    fuzz_trace_seal(file, size);
    must(write(descriptor, file, size) == (ssize_t)size);
    free(file);
    snprintf(path, path_size, "/proc/self/fd/%d", descriptor);
    return descriptor;
}

static void show_ops(const struct rp_trace *trace, const struct rp_timeline *timeline, size_t from, size_t to)
{
    const struct rp_filter all = {.allocations = true}, some = {.module = "*a*"};
    FILE *out = nowhere();
    struct rp_rows rows = {0};
    for (size_t i = from; i < to; i++)
        rp_rows_measure(&rows, trace, &trace->ops[i]);
    for (size_t i = from; i < to; i++)
        rp_rows_print(&rows, out, "", trace, &trace->ops[i]);
    rp_launch_view_figures(out, trace, from, to, "");
    rp_launch_view_print(out, trace, from, to, &all);
    rp_tree_view_print(out, trace, timeline, from, to, &all);
    rp_tree_view_print(out, trace, timeline, from, to, &some);
    rp_order_view_print(out, trace, from, to, &some);
    rp_order_view_modules(out, trace, from, to, &all);
    rp_plan_view_print(out, trace, from, to, "", &all);
    rp_timeline_view_print(out, trace, from, to, &all);
}

static void show_csv(const struct rp_trace *trace, const struct rp_timeline *timeline)
{
    uint64_t *named = rp_launch_named(trace);
    must(named != NULL);
    for (size_t i = 0; i < trace->op_count; i++)
        rp_rows_csv(nowhere(), trace, i, rp_timeline_step_of(timeline, i), named[i]);
    free(named);
}

/* In every format; slices must not overlap. */
static void export_run(const struct rp_trace_run *run, const struct rp_timeline *timeline)
{
    static const struct rp_export_format *const formats[] = {&checker_format, &rp_export_chrome, &rp_export_perfetto};
    static struct rp_export_out out;
    const struct rp_export_steps all = {0, SIZE_MAX}, some = {1, 2};
    struct rp_progress progress;
    uint64_t done = 0;
    rp_progress_begin(&progress, "", 0);
    rp_export_out_begin(&out, nowhere());
    for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
        struct rp_export export = {
            .format = formats[i], .out = &out, .progress = &progress, .base_wall_ns = rp_export_base(run)};
        must(rp_export_names_create(&export.names) == RP_OK);
        export.format->begin(&export);
        must(rp_export_rank(&export, 0, run->ranks[0], timeline, i == 1 ? some : all) == RP_OK);
        export.format->end(&export);
        rp_export_names_destroy(export.names);
    }
    must(checked.calls == run->ranks[0]->op_count);
    must(rp_export_jsonl(&out, &progress, &done, run->ranks[0], timeline, all) == RP_OK);
    must(rp_export_out_end(&out) == RP_OK);
}

static void show(const struct rp_trace_run *run)
{
    struct rp_timeline timeline;
    const struct rp_trace *trace = run->ranks[0];
    must(rp_timeline_create(trace, &timeline) == RP_OK);
    rp_summary_rank(nowhere(), trace, &timeline);
    for (size_t i = 0; i < timeline.count; i++) {
        must(timeline.steps[i].first < rp_timeline_end(&timeline, i));
        if (i < STEPS_SHOWN)
            show_ops(trace, &timeline, timeline.steps[i].first, rp_timeline_end(&timeline, i));
    }
    if (trace->op_count > 0)
        show_ops(trace, &timeline, 0, trace->op_count);
    show_csv(trace, &timeline);
    export_run(run, &timeline);
    rp_timeline_free(&timeline);
    rp_sites_view_print(nowhere(), trace, false);
    rp_sites_view_csv(nowhere(), trace, true);
    rp_sites_hint_print(nowhere(), trace);
}

/* A trace that is packed, while the one that it was made from stays as it is. */
struct packed_run {
    struct rp_trace trace;
    struct rp_packed packed;
    struct rp_timeline steps;
};

static void pack_run(const struct rp_trace *trace, struct packed_run *run)
{
    run->trace = *trace;
    run->trace.ops = calloc(trace->op_count + 1, sizeof(*trace->ops));
    must(run->trace.ops != NULL);
    if (trace->op_count > 0)
        memcpy(run->trace.ops, trace->ops, trace->op_count * sizeof(*trace->ops));
    must(rp_packed_create(&run->trace, &run->packed) == RP_OK);
    must(rp_timeline_create_packed(&run->packed, &run->steps) == RP_OK);
}

static void unpack_run(struct packed_run *run)
{
    rp_timeline_free(&run->steps);
    rp_packed_free(&run->packed);
}

static enum rp_diff_verdict compare(const struct rp_trace *left_trace, const struct rp_trace *right_trace)
{
    const struct rp_diff_options options = {0, RP_DIFF_ALL_STEPS, 10};
    struct packed_run left, right;
    struct rp_diff diff;
    pack_run(left_trace, &left);
    pack_run(right_trace, &right);
    must(rp_diff_create(&options, &diff) == RP_OK);
    must(rp_diff_add(&diff, &left.packed, &left.steps, &right.packed, &right.steps) == RP_OK);
    must(rp_diff_finish(&diff) == RP_OK);
    rp_diff_totals_print(nowhere(), &diff, 10, true);
    enum rp_diff_verdict verdict = diff.verdict;
    rp_diff_free(&diff);
    unpack_run(&left);
    unpack_run(&right);
    return verdict;
}

static void compare_ranks(const struct rp_trace_run *run)
{
    struct rp_ranks ranks;
    must(rp_ranks_compare(run, NULL, &ranks) == RP_OK);
    rp_ranks_report(nowhere(), &ranks, "a", NULL);
    rp_ranks_report_json(nowhere(), &ranks);
    rp_ranks_report_csv(nowhere(), &ranks);
    rp_ranks_free(&ranks);
}

/* Without what says no more: as many ops. */
static void read_ops(const char *path, const struct rp_trace *whole)
{
    char cause[RP_TRACE_CAUSE_MAX];
    struct rp_trace *trace;
    must(rp_trace_read_lean(path, cause, sizeof cause, &trace) == RP_OK);
    must(trace->op_count == whole->op_count && trace->launch_count == 0);
    rp_trace_free(trace);
}

/* The blocks that begin in the first half, and what the whole has more: as two runs, and as two ranks of one. */
static void read_head(const char *path, size_t size, const struct rp_trace_run *whole)
{
    struct rp_trace *head;
    struct rp_trace_lane lane;
    char cause[80];
    if (rp_trace_read_head(path, size / 2, cause, sizeof(cause), &head) != RP_OK)
        return;
    if (head->comm_count > 0 && rp_trace_lane_make(head, head->comms[0].number, 1000, &lane) == RP_OK)
        rp_trace_lane_free(&lane);
    if (whole->count > 0) {
        struct rp_trace *both[2] = {whole->ranks[0], head};
        compare(head, whole->ranks[0]);
        compare(whole->ranks[0], head);
        compare_ranks(&(struct rp_trace_run){.ranks = both, .count = 2});
    }
    rp_trace_free(head);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[40];
    struct rp_trace_run run = {0};
    rp_log_setup(RP_LOG_NONE, NULL);
    int descriptor = make_file(data, size, path, sizeof(path));
    if (rp_trace_run_read(path, &run) == RP_OK) {
        rp_summary_run(nowhere(), path, &run);
        show(&run);
        must(compare(run.ranks[0], run.ranks[0]) == RP_DIFF_ALIKE);
        compare_ranks(&run);
        read_ops(path, run.ranks[0]);
    }
    read_head(path, size, &run);
    rp_trace_run_free(&run);
    close(descriptor);
    return 0;
}
