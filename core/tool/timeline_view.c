#include "core/tool/timeline_view.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "core/op.h"
#include "core/tool/source.h"
#include "core/tool/tool.h"

#define BAR_WIDTH 32
#define MODULE_MAX 200 /* bytes of a module's name in text */

static const char explanation[] =
    "host time: when a call came in and how long until it returned (# a gather, = another call).\n"
    "A real gather returns before it runs; a served one when the device has come there and compared,\n"
    "and all have voted. How long the device waits is not in the trace: of two runs compare how long\n"
    "the step takes.\n\n";

/* ---------------------------------------------------------------- times, in ticks */

/* What is shown, and the time that it takes. */
struct view {
    const struct rp_trace *trace;
    size_t from, to;
    const struct rp_filter *filter;
    uint64_t begin, length;
};

static bool is_shown(const struct view *view, size_t index)
{
    return rp_filter_has(view->filter, view->trace, &view->trace->ops[index].op);
}

/*
 * False if the end of the call was not taken: a gather that was served at the end of its group. Counters of two
 * processors may differ too.
 */
static bool has_end(const struct rp_op *op)
{
    return op->end >= op->begin;
}

static uint64_t end_of(const struct rp_op *op)
{
    return has_end(op) ? op->end : op->begin;
}

/* Ops of a trace are sorted by begin. */
static struct view view_of(const struct rp_trace *trace, size_t from, size_t to, const struct rp_filter *filter)
{
    struct view view = {.trace = trace, .from = from, .to = to, .filter = filter, .begin = trace->ops[from].op.begin};
    uint64_t last = view.begin;
    for (size_t i = from; i < to; i++)
        last = end_of(&trace->ops[i].op) > last ? end_of(&trace->ops[i].op) : last;
    if (to < trace->op_count)
        last = trace->ops[to].op.begin;
    view.length = last - view.begin;
    return view;
}

static double milliseconds(const struct view *view, uint64_t ticks)
{
    return (double)ticks * view->trace->ns_per_tick * 1e-6;
}

/* ---------------------------------------------------------------- ops */

struct widths {
    int module, phase, op;
};

struct cells {
    char at[32], in_call[32], bar[BAR_WIDTH + 1], module[MODULE_MAX], op[80], source[64];
    const char *phase;
};

static const struct cells titles = {
    .at = "at ms", .in_call = "in call ms", .module = "module", .phase = "phase", .op = "op", .source = "source"};

/* The columns that the call touches, of which there is at least one. */
static void draw_bar(const struct view *view, const struct rp_op *op, char bar[BAR_WIDTH + 1])
{
    double length = view->length > 0 ? (double)view->length : 1;
    double begin = (double)(op->begin - view->begin) * BAR_WIDTH / length;
    double end = (double)(end_of(op) - view->begin) * BAR_WIDTH / length;
    size_t first = begin < BAR_WIDTH ? (size_t)begin : BAR_WIDTH - 1;
    memset(bar, '.', BAR_WIDTH);
    bar[BAR_WIDTH] = '\0';
    for (size_t i = first; i < BAR_WIDTH && (i == first || (double)i < end); i++)
        bar[i] = op->kind == RP_OP_ALL_GATHER ? '#' : '=';
}

/* And of what was gathered ahead, how long before the call. */
static void print_source(const struct view *view, size_t index, char *text, size_t size)
{
    const struct rp_op *op = &view->trace->ops[index].op;
    const struct rp_trace_issue *issue = rp_trace_issue_of(view->trace, index);
    const char *source = rp_source_name(rp_source_of(op));
    if (issue == NULL)
        snprintf(text, size, "%s", source);
    else
        snprintf(text, size, "%s, issued %.3f ms before", source, milliseconds(view, op->begin - issue->of.begin));
}

static struct cells cells_of(const struct view *view, size_t index)
{
    const struct rp_op *op = &view->trace->ops[index].op;
    struct cells cells = {.phase = rp_phase_name((enum rp_phase)op->phase)};
    print_source(view, index, cells.source, sizeof(cells.source));
    snprintf(cells.at, sizeof(cells.at), "%.3f", milliseconds(view, op->begin - view->begin));
    snprintf(cells.in_call, sizeof(cells.in_call), "-");
    if (has_end(op))
        snprintf(cells.in_call, sizeof(cells.in_call), "%.3f", milliseconds(view, op->end - op->begin));
    draw_bar(view, op, cells.bar);
    rp_tool_safe(rp_module_name(view->trace->modules, op->module), cells.module, sizeof(cells.module));
    rp_op_print(op, cells.op, sizeof(cells.op));
    return cells;
}

static int wider(int width, const char *text)
{
    int length = (int)strlen(text);
    return length > width ? length : width;
}

static void widen(struct widths *widths, const struct cells *cells)
{
    widths->module = wider(widths->module, cells->module);
    widths->phase = wider(widths->phase, cells->phase);
    widths->op = wider(widths->op, cells->op);
}

static void print_cells(FILE *out, const struct widths *widths, const struct cells *cells)
{
    fprintf(out, "%10s  %10s  %-*s  %-*s  %-*s  %-*s  %s\n", cells->at, cells->in_call, BAR_WIDTH, cells->bar,
            widths->module, cells->module, widths->phase, cells->phase, widths->op, cells->op, cells->source);
}

static void print_ops(FILE *out, const struct view *view)
{
    struct widths widths = {0};
    struct cells head = titles;
    snprintf(head.bar, sizeof(head.bar), "0 to %.3f ms", milliseconds(view, view->length));
    widen(&widths, &head);
    for (size_t i = view->from; i < view->to; i++) {
        struct cells cells = cells_of(view, i);
        if (is_shown(view, i))
            widen(&widths, &cells);
    }
    print_cells(out, &widths, &head);
    for (size_t i = view->from; i < view->to; i++) {
        struct cells cells = cells_of(view, i);
        if (is_shown(view, i))
            print_cells(out, &widths, &cells);
    }
}

/* ---------------------------------------------------------------- gathers by source */

struct total {
    uint64_t gathers, ticks;
};

/*
 * Time that is in two calls at once (of a group, of two threads) is the earlier one's; what is behind the view's end is
 * nobody's.
 */
static struct total add_up(const struct view *view, struct total by_source[RP_SOURCE_COUNT])
{
    struct total all = {0};
    uint64_t covered = view->begin, last = view->begin + view->length;
    for (size_t i = view->from; i < view->to; i++) {
        const struct rp_op *op = &view->trace->ops[i].op;
        if (op->kind != RP_OP_ALL_GATHER || !is_shown(view, i))
            continue;
        uint64_t begin = op->begin > covered ? op->begin : covered;
        uint64_t end = end_of(op) < last ? end_of(op) : last;
        uint64_t ticks = end > begin ? end - begin : 0;
        struct total *total = &by_source[rp_source_of(op)];
        total->gathers++;
        total->ticks += ticks;
        all.gathers++;
        all.ticks += ticks;
        covered = begin + ticks;
    }
    return all;
}

static void print_total(FILE *out, const struct view *view, const struct total *total, const char *source)
{
    double share = view->length > 0 ? 100.0 * (double)total->ticks / (double)view->length : 0;
    fprintf(out, "%8" PRIu64 "  %11.3f  %10.1f%%  %s\n", total->gathers, milliseconds(view, total->ticks), share,
            source);
}

static void print_totals(FILE *out, const struct view *view)
{
    struct total by_source[RP_SOURCE_COUNT] = {0};
    struct total all = add_up(view, by_source);
    fprintf(out, "%8s  %11s  %11s  %s\n", "gathers", "in calls ms", "of the time", "source");
    for (size_t s = 0; s < RP_SOURCE_COUNT; s++) {
        if (by_source[s].gathers > 0)
            print_total(out, view, &by_source[s], rp_source_name((enum rp_source)s));
    }
    print_total(out, view, &all, "all gathers");
}

void rp_timeline_view_print(FILE *out, const struct rp_trace *trace, size_t from, size_t to,
                            const struct rp_filter *filter)
{
    struct view view = view_of(trace, from, to, filter);
    fputs(explanation, out);
    print_ops(out, &view);
    fputc('\n', out);
    print_totals(out, &view);
}
