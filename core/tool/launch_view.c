#include "core/tool/launch_view.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/tool/demangle.h"
#include "core/tool/rows.h"
#include "core/tool/tool.h"
#include "core/trace/trace_format.h"

#define NAME_MAX_SHOWN 1000 /* bytes of a kernel's name in text */

/* ---------------------------------------------------------------- figures */

/* True if the time lies between the begin of the first of ops [from, to) and that of the op behind them. */
static bool is_between(const struct rp_trace *trace, size_t from, size_t to, uint64_t ticks)
{
    if (from == 0 && to == trace->op_count)
        return true;
    return from < to && ticks >= trace->ops[from].op.begin &&
           (to == trace->op_count || ticks < trace->ops[to].op.begin);
}

struct rp_launch_figures rp_launch_figures(const struct rp_trace *trace, size_t from, size_t to)
{
    struct rp_launch_figures figures = {0};
    for (size_t i = 0; i < trace->part_count; i++) {
        const struct rp_trace_part *part = &trace->parts[i];
        bool early = part->op == RP_TRACE_NO_OP;
        if (early ? !is_between(trace, from, to, part->first) : part->op < from || part->op >= to)
            continue;
        figures.all += part->count;
        if (rp_event_is_named(part->event))
            figures.named += part->count;
        else
            *(early ? &figures.early : &figures.behind) += part->count;
    }
    return figures;
}

uint64_t *rp_launch_named(const struct rp_trace *trace)
{
    uint64_t *named = calloc(trace->op_count + 1, sizeof(*named));
    for (size_t i = 0; i < trace->part_count && named != NULL; i++) {
        const struct rp_trace_part *part = &trace->parts[i];
        if (part->op < trace->op_count && rp_event_is_named(part->event))
            named[part->op] += part->count;
    }
    return named;
}

void rp_launch_view_figures_head(FILE *out)
{
    fprintf(out, "%10s  %13s  %7s  %13s  %20s\n", "launches", "with an event", "share", "before any op",
            "behind an unnamed op");
}

void rp_launch_view_figures(FILE *out, const struct rp_trace *trace, size_t from, size_t to, const char *title)
{
    struct rp_launch_figures figures = rp_launch_figures(trace, from, to);
    char share[16] = "-";
    if (figures.all > 0) /* rounded down: 100.00% means all */
        snprintf(share, sizeof(share), "%" PRIu64 ".%02" PRIu64 "%%", figures.named * 100 / figures.all,
                 figures.named * 10000 / figures.all % 100);
    fprintf(out, "%10" PRIu64 "  %13" PRIu64 "  %7s  %13" PRIu64 "  %20" PRIu64 "  %s\n", figures.all, figures.named,
            share, figures.early, figures.behind, title);
}

/* ---------------------------------------------------------------- one by one */

/* Launches by the op that they follow: those of op i are order[first[i]] to order[first[i + 1] - 1]. */
struct index {
    size_t *first; /* op_count + 2 long; at op_count: those without an op */
    size_t *order;
};

struct view {
    const struct rp_trace *trace;
    const struct rp_filter *filter;
    struct index index;
};

static size_t bucket(const struct rp_trace *trace, const struct rp_trace_launch *launch)
{
    return launch->op < trace->op_count ? launch->op : trace->op_count;
}

static void index_free(struct index *index)
{
    free(index->first);
    free(index->order);
}

/* Each op keeps the order of its launches. */
static enum rp_status index_make(const struct rp_trace *trace, struct index *index_out)
{
    struct index index = {calloc(trace->op_count + 2, sizeof(*index.first)),
                          calloc(trace->launch_count + 1, sizeof(*index.order))};
    size_t *next = calloc(trace->op_count + 2, sizeof(*next));
    if (index.first == NULL || index.order == NULL || next == NULL) {
        index_free(&index);
        free(next);
        return RP_NO_MEMORY;
    }
    for (size_t i = 0; i < trace->launch_count; i++)
        index.first[bucket(trace, &trace->launches[i]) + 1]++;
    for (size_t i = 0; i <= trace->op_count; i++)
        index.first[i + 1] += index.first[i];
    memcpy(next, index.first, (trace->op_count + 2) * sizeof(*next));
    for (size_t i = 0; i < trace->launch_count; i++)
        index.order[next[bucket(trace, &trace->launches[i])]++] = i;
    free(next);
    *index_out = index;
    return RP_OK;
}

static void kernel_name(const struct rp_trace *trace, uint64_t kernel, char *text, size_t size)
{
    static char plain[4 * RP_KERNEL_NAME_MAX];
    const char *name = rp_trace_kernel_name(trace, kernel);
    rp_tool_safe(rp_demangle(name != NULL ? name : "?", plain, sizeof(plain)), text, size);
}

/* `since`: the time of the op before; the event is said where it is not that op's. */
static void print_launch(FILE *out, const struct rp_trace *trace, const struct rp_trace_launch *launch, uint64_t since,
                         struct rp_event event)
{
    char name[NAME_MAX_SHOWN], grid[40], block[24];
    snprintf(grid, sizeof(grid), "%" PRIu32 "x%" PRIu32 "x%" PRIu32, launch->grid[0], launch->grid[1], launch->grid[2]);
    snprintf(block, sizeof(block), "%ux%ux%u", launch->block[0], launch->block[1], launch->block[2]);
    kernel_name(trace, launch->kernel, name, sizeof(name));
    fprintf(out, "    %+10.3f ms  thread %u  stream 0x%" PRIx64 "  grid %s  block %s  shared %" PRIu32 "  %s",
            (double)(int64_t)(launch->ticks - since) * trace->ns_per_tick * 1e-6, launch->thread, launch->stream, grid,
            block, launch->shared_bytes, name);
    if (!rp_event_is_same(launch->event, event)) {
        const struct rp_op other = {.module = launch->event.module, .phase = (uint8_t)launch->event.phase};
        fprintf(out, "  (%s)", rp_rows_event(trace, &other, name, sizeof(name)));
    }
    fputc('\n', out);
}

/* True if the filter has the op, or the event of a launch behind it. */
static bool is_shown(const struct view *view, size_t number)
{
    const struct rp_op *op = &view->trace->ops[number].op;
    if (rp_op_kind_is_allocation((enum rp_op_kind)op->kind) || !rp_filter_has_call(view->filter, op))
        return false;
    bool shown = rp_filter_has(view->filter, view->trace, op);
    for (size_t i = view->index.first[number]; !shown && i < view->index.first[number + 1]; i++)
        shown = rp_filter_has_event(view->filter, view->trace, view->trace->launches[view->index.order[i]].event);
    return shown;
}

static void print_op(FILE *out, const struct rp_rows *rows, const struct view *view, size_t number)
{
    const struct rp_trace *trace = view->trace;
    const struct rp_trace_op *op = &trace->ops[number];
    const struct rp_event event = {op->op.module, (enum rp_phase)op->op.phase};
    size_t first = view->index.first[number], count = view->index.first[number + 1] - first;
    rp_rows_print(rows, out, "", trace, op);
    for (size_t i = 0; i < count; i++) {
        const struct rp_trace_launch *launch = &trace->launches[view->index.order[first + i]];
        if (rp_filter_has_event(view->filter, trace, launch->event))
            print_launch(out, trace, launch, op->op.begin, event);
    }
    if (count < op->launches)
        fprintf(out, "    %zu of %" PRIu32 " launches were recorded one by one\n", count, op->launches);
}

static void print_early(FILE *out, const struct view *view, size_t from, size_t to)
{
    const struct rp_trace *trace = view->trace;
    const struct index *index = &view->index;
    const struct rp_event none = {RP_MODULE_UNKNOWN, RP_PHASE_UNKNOWN};
    const char *title = "\nbefore the first op of their thread; times from the first op above\n";
    for (size_t i = index->first[trace->op_count]; i < index->first[trace->op_count + 1]; i++) {
        const struct rp_trace_launch *launch = &trace->launches[index->order[i]];
        const struct rp_trace_part part = {.event = launch->event, .op = RP_TRACE_NO_OP};
        if (!is_between(trace, from, to, launch->ticks) || !rp_filter_has_part(view->filter, trace, &part))
            continue;
        fputs(title, out);
        title = "";
        print_launch(out, trace, launch, trace->ops[from].op.begin, none);
    }
}

enum rp_status rp_launch_view_print(FILE *out, const struct rp_trace *trace, size_t from, size_t to,
                                    const struct rp_filter *filter)
{
    struct rp_rows rows = {0};
    struct view view = {.trace = trace, .filter = filter};
    if (trace->launch_count == 0) {
        fputs("no launches one by one in this trace: REPRISE_DETAIL=launches records them\n", out);
        return RP_OK;
    }
    enum rp_status status = index_make(trace, &view.index);
    if (status != RP_OK)
        return status;
    for (size_t i = from; i < to; i++) {
        if (is_shown(&view, i))
            rp_rows_measure(&rows, trace, &trace->ops[i]);
    }
    rp_rows_head(&rows, out, "");
    for (size_t i = from; i < to; i++) {
        if (is_shown(&view, i))
            print_op(out, &rows, &view, i);
    }
    print_early(out, &view, from, to);
    index_free(&view.index);
    return RP_OK;
}
