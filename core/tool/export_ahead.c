/*
 * Gathers that replay issued ahead of their calls: a track a communicator, on it a slice each, as long as the host took
 * to issue it. Where one was served to a call that is exported too, a flow leads there.
 *
 * The gathers of a communicator are issued one after the other; where a trace says otherwise, a slice ends by the begin
 * of the next.
 *
 * Threads: one at a time.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/tool/export_walk.h"

uint64_t rp_export_flow(const struct rp_export_walk *walk, const struct rp_trace_issue *issue)
{
    if (issue == NULL || issue->op < walk->from || issue->op >= walk->to || !rp_export_is_shown(walk, issue->of.begin))
        return 0;
    return ((uint64_t)walk->process + 1) << 32 | (uint64_t)(issue - walk->trace->issues);
}

uint64_t rp_export_ahead_ns(const struct rp_export_walk *walk, const struct rp_trace_issue *issue)
{
    uint64_t use = walk->trace->ops[issue->op].op.begin;
    return (uint64_t)(rp_export_time(walk, use) - rp_export_time(walk, issue->of.begin));
}

/* ---------------------------------------------------------------- slices */

static uint32_t name_of(const struct rp_export_walk *walk, const struct rp_issue *issue)
{
    char bytes[32], name[64];
    rp_bytes_print(issue->bytes, bytes, sizeof(bytes));
    snprintf(name, sizeof(name), "all-gather ahead %s", bytes);
    return rp_export_name_text(walk->export->names, name);
}

static void put_issue(const struct rp_export_walk *walk, const struct rp_export_track *track,
                      const struct rp_trace_issue *issue, int64_t end)
{
    const struct rp_issue *of = &issue->of;
    struct rp_export_arguments arguments = {0};
    struct rp_export_slice slice = {.track = track,
                                    .category = RP_EXPORT_AHEAD,
                                    .name = name_of(walk, of),
                                    .begin = rp_export_time(walk, of->begin),
                                    .end = end,
                                    .arguments = &arguments,
                                    .flow = rp_export_flow(walk, issue)};
    rp_export_put_number(&arguments, RP_EXPORT_ARGUMENT_NUMBER, of->number);
    rp_export_put_number(&arguments, RP_EXPORT_ARGUMENT_COMMUNICATOR, of->comm);
    rp_export_put_number(&arguments, RP_EXPORT_ARGUMENT_BYTES, of->bytes);
    rp_export_put_text(&arguments, RP_EXPORT_ARGUMENT_SENDS, rp_issue_source_name((enum rp_issue_source)of->source));
    rp_export_put_number(&arguments, RP_EXPORT_ARGUMENT_BEHIND, of->behind);
    rp_export_put_number(&arguments, RP_EXPORT_ARGUMENT_EXPECTED, of->position);
    if (issue->op == RP_TRACE_NO_OP) {
        rp_export_put_text(&arguments, RP_EXPORT_ARGUMENT_USE, "unused");
    } else {
        rp_export_put_number(&arguments, RP_EXPORT_ARGUMENT_OP, issue->op);
        rp_export_put_number(&arguments, RP_EXPORT_ARGUMENT_POSITION, walk->trace->ops[issue->op].op.position);
        rp_export_put_number(&arguments, RP_EXPORT_ARGUMENT_AHEAD_NS, rp_export_ahead_ns(walk, issue));
    }
    walk->export->format->call(walk->export, &slice);
}

/* ---------------------------------------------------------------- tracks */

static int by_comm(const void *left, const void *right)
{
    const struct rp_trace_issue *a = *(const struct rp_trace_issue *const *)left;
    const struct rp_trace_issue *b = *(const struct rp_trace_issue *const *)right;
    if (a->of.comm != b->of.comm)
        return a->of.comm < b->of.comm ? -1 : 1;
    return (a > b) - (a < b); /* they lie in one table, by begin */
}

/* Those that are exported, by communicator and begin; one element more, NULL. NULL: memory is out. */
static const struct rp_trace_issue **find_shown(const struct rp_export_walk *walk)
{
    const struct rp_trace *trace = walk->trace;
    const struct rp_trace_issue **shown = calloc(trace->issue_count + 1, sizeof(*shown));
    size_t count = 0;
    for (size_t i = 0; shown != NULL && i < trace->issue_count; i++) {
        if (rp_export_is_shown(walk, trace->issues[i].of.begin))
            shown[count++] = &trace->issues[i];
    }
    if (shown != NULL)
        qsort(shown, count, sizeof(struct rp_trace_issue *), by_comm);
    return shown;
}

static int64_t end_of(const struct rp_export_walk *walk, const struct rp_issue *issue, const struct rp_issue *next)
{
    uint64_t end = issue->end > issue->begin ? issue->end : issue->begin;
    if (next != NULL && next->comm == issue->comm && next->begin < end)
        end = next->begin;
    return rp_export_time(walk, end);
}

enum rp_status rp_export_ahead(struct rp_export_walk *walk)
{
    char name[80];
    struct rp_export_track track = {walk->process, RP_EXPORT_AHEADS, 0, name, NULL};
    if (walk->trace->issue_count == 0)
        return RP_OK;
    const struct rp_trace_issue **shown = find_shown(walk);
    if (shown == NULL)
        return RP_NO_MEMORY;
    for (size_t i = 0; shown[i] != NULL; i++) {
        const struct rp_issue *issue = &shown[i]->of, *next = shown[i + 1] != NULL ? &shown[i + 1]->of : NULL;
        if (i == 0 || issue->comm != shown[i - 1]->of.comm) {
            track.number = i == 0 ? 0 : track.number + 1;
            snprintf(name, sizeof(name), "gathered ahead, communicator %" PRIu32 " (issued by the host)", issue->comm);
            walk->export->format->track(walk->export, &track);
        }
        put_issue(walk, &track, shown[i], end_of(walk, issue, next));
    }
    free(shown);
    return RP_OK;
}
