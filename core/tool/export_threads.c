/*
 * The tracks of a rank's host threads: steps, events, calls. A thread's ops are walked in order of their begin, so that
 * whatever is open ends by the begin of what comes next: nothing overlaps.
 *
 * An event runs on to the next one, since the launches behind a call belong to the call's event, or to another from a
 * part of them on (struct rp_trace_part). Allocations belong to none and end none.
 *
 * Threads: one at a time.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/tool/export_walk.h"
#include "core/tool/source.h"

#define PROGRESS_OPS 8192

/* The threads of a table's elements: the first one's, and how far the others are from it. */
struct threads {
    const uint16_t *first;
    size_t stride, count;
};

static size_t thread_of(const struct threads *threads, size_t element)
{
    return *(const uint16_t *)((const char *)threads->first + element * threads->stride);
}

/* Elements of a table by their thread: those of thread t are order[first[t]] to order[first[t + 1] - 1], in order. */
struct by_thread {
    size_t *first;
    uint32_t *order;
};

static void by_thread_free(struct by_thread *by)
{
    free(by->first);
    free(by->order);
}

/* Those of threads below `most`. RP_NO_MEMORY. */
static enum rp_status by_thread_make(const struct threads *threads, size_t most, struct by_thread *by_out)
{
    struct by_thread by = {calloc(most + 1, sizeof(*by.first)), malloc((threads->count + 1) * sizeof(*by.order))};
    if (by.first == NULL || by.order == NULL) {
        by_thread_free(&by);
        return RP_NO_MEMORY;
    }
    for (size_t i = 0; i < threads->count; i++) {
        if (thread_of(threads, i) < most)
            by.first[thread_of(threads, i) + 1]++;
    }
    for (size_t t = 0; t < most; t++)
        by.first[t + 1] += by.first[t];
    size_t all = by.first[most];
    for (size_t i = threads->count; i-- > 0;) { /* from the end, so that each thread's end becomes its beginning */
        if (thread_of(threads, i) < most)
            by.order[--by.first[thread_of(threads, i) + 1]] = (uint32_t)i;
    }
    for (size_t t = 0; t < most; t++)
        by.first[t] = by.first[t + 1];
    by.first[most] = all;
    *by_out = by;
    return RP_OK;
}

/* ---------------------------------------------------------------- a thread */

struct thread {
    struct rp_export_walk *walk;
    struct rp_export_track track;
    const uint32_t *ops, *parts; /* of the thread */
    size_t op_count, part_count, next_part;
    size_t step; /* of the op that is walked over, or the one before */
    bool in_step, in_event;
    struct rp_event event; /* that is open */
};

static void open_slice(struct thread *thread, enum rp_export_category category, uint32_t name, int64_t at,
                       const struct rp_export_arguments *arguments)
{
    struct rp_export *export = thread->walk->export;
    export->format->open(export, &(struct rp_export_slice){&thread->track, category, name, at, at, arguments, 0});
}

static void close_slice(struct thread *thread, bool *is_open, int64_t at)
{
    if (*is_open)
        thread->walk->export->format->close(thread->walk->export, &thread->track, at);
    *is_open = false;
}

static void enter_event(struct thread *thread, struct rp_event event, int64_t at)
{
    if (thread->in_event && rp_event_is_same(thread->event, event))
        return;
    close_slice(thread, &thread->in_event, at);
    if (!thread->in_step || !rp_event_is_named(event))
        return;
    open_slice(thread, RP_EXPORT_EVENT, rp_export_name_event(thread->walk->export->names, event), at,
               &(struct rp_export_arguments){0});
    thread->event = event;
    thread->in_event = true;
}

/* Goes on to the step of op `index`; none is open if it is not asked for. */
static void enter_step(struct thread *thread, size_t index, int64_t at)
{
    const struct rp_timeline *timeline = thread->walk->timeline;
    const struct rp_export_steps *asked = &thread->walk->steps;
    struct rp_export_arguments arguments = {0};
    char name[32];
    size_t step = thread->step;
    while (step + 1 < timeline->count && timeline->steps[step + 1].first <= index)
        step++;
    if (thread->in_step && step == thread->step)
        return;
    thread->step = step;
    close_slice(thread, &thread->in_event, at);
    close_slice(thread, &thread->in_step, at);
    if (step < asked->from || step >= asked->to)
        return;
    rp_export_put_number(&arguments, RP_EXPORT_ARGUMENT_WHOLE, timeline->steps[step].kind == RP_STEP_WHOLE);
    snprintf(name, sizeof(name), "step %zu", step + 1);
    open_slice(thread, RP_EXPORT_STEP, rp_export_name_text(thread->walk->export->names, name), at, &arguments);
    thread->in_step = true;
}

/* ---------------------------------------------------------------- calls */

static const char *fingerprint_text(const struct rp_trace_op *op, char text[40])
{
    snprintf(text, 40, "%s%016" PRIx64 "%016" PRIx64, (op->op.flags & RP_OP_SAMPLED) != 0 ? "~" : "",
             op->fingerprint[0], op->fingerprint[1]);
    return text;
}

static void put_call(struct thread *thread, size_t index, int64_t begin, int64_t end)
{
    struct rp_export *export = thread->walk->export;
    const struct rp_trace_op *op = &thread->walk->trace->ops[index];
    struct rp_export_arguments arguments = {0};
    char fingerprint[40];
    enum rp_source source = rp_source_of(&op->op);
    rp_export_put_number(&arguments, RP_EXPORT_ARGUMENT_OP, index);
    if (op->op.position != RP_NO_POSITION)
        rp_export_put_number(&arguments, RP_EXPORT_ARGUMENT_POSITION, op->op.position);
    rp_export_put_number(&arguments, RP_EXPORT_ARGUMENT_BYTES, rp_op_bytes(&op->op));
    if (op->op.comm != RP_NO_COMM)
        rp_export_put_number(&arguments, RP_EXPORT_ARGUMENT_COMMUNICATOR, op->op.comm);
    if (op->op.group != 0)
        rp_export_put_number(&arguments, RP_EXPORT_ARGUMENT_GROUP, op->op.group);
    rp_export_put_number(&arguments, RP_EXPORT_ARGUMENT_FLAGS, op->op.flags);
    rp_export_put_number(&arguments, RP_EXPORT_ARGUMENT_LAUNCHES, op->launches);
    if (op->has_fingerprint)
        rp_export_put_text(&arguments, RP_EXPORT_ARGUMENT_FINGERPRINT, fingerprint_text(op, fingerprint));
    if (source != RP_SOURCE_NONE)
        rp_export_put_text(&arguments, RP_EXPORT_ARGUMENT_SOURCE, rp_source_name(source));
    if (op->op.end < op->op.begin) /* a gather that was served at the end of its group */
        rp_export_put_text(&arguments, RP_EXPORT_ARGUMENT_END, "not taken");
    const struct rp_trace_issue *issue = rp_trace_issue_of(thread->walk->trace, index);
    if (issue != NULL)
        rp_export_put_number(&arguments, RP_EXPORT_ARGUMENT_AHEAD_NS, rp_export_ahead_ns(thread->walk, issue));
    uint32_t name = rp_export_name_op(export->names, &op->op);
    uint64_t flow = rp_export_flow(thread->walk, issue);
    export->format->call(export,
                         &(struct rp_export_slice){&thread->track, RP_EXPORT_CALL, name, begin, end, &arguments, flow});
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Events of the launches behind op `index`: each begins behind the call and before the thread's next one. */
static int64_t walk_parts(struct thread *thread, size_t index, int64_t end, int64_t next)
{
    const struct rp_trace *trace = thread->walk->trace;
    int64_t at = end;
    for (; thread->next_part < thread->part_count; thread->next_part++) {
        const struct rp_trace_part *part = &trace->parts[thread->parts[thread->next_part]];
        if (part->op != RP_TRACE_NO_OP && part->op > index)
            break;
        if (part->op != index)
            continue;
        int64_t first = least(rp_export_time(thread->walk, part->first), next);
        at = first > at ? first : at;
        enter_event(thread, part->event, at);
    }
    return at;
}

/* `next`: when the thread's next call begins, the largest number if there is none. Returns when this ended. */
static int64_t walk_op(struct thread *thread, size_t index, int64_t next)
{
    const struct rp_op *op = &thread->walk->trace->ops[index].op;
    int64_t begin = rp_export_time(thread->walk, op->begin);
    int64_t end = op->end > op->begin ? least(rp_export_time(thread->walk, op->end), next) : begin;
    bool is_allocation = rp_op_kind_is_allocation((enum rp_op_kind)op->kind);
    enter_step(thread, index, begin);
    if (!thread->in_step)
        return begin;
    if (!is_allocation)
        enter_event(thread, (struct rp_event){op->module, (enum rp_phase)op->phase}, begin);
    put_call(thread, index, begin, end);
    return is_allocation ? end : walk_parts(thread, index, end, next);
}

static void walk_thread(struct thread *thread)
{
    const struct rp_export_walk *walk = thread->walk;
    int64_t last = 0;
    walk->export->format->track(walk->export, &thread->track);
    for (size_t i = 0; i < thread->op_count; i++) {
        int64_t next = INT64_MAX;
        if (i + 1 < thread->op_count)
            next = rp_export_time(walk, walk->trace->ops[thread->ops[i + 1]].op.begin);
        last = walk_op(thread, thread->ops[i], next);
        if (i % PROGRESS_OPS == PROGRESS_OPS - 1)
            rp_export_progress(thread->walk, PROGRESS_OPS);
    }
    close_slice(thread, &thread->in_event, last);
    close_slice(thread, &thread->in_step, last);
    rp_export_progress(thread->walk, thread->op_count % PROGRESS_OPS);
}

static void walk_all(struct rp_export_walk *walk, size_t count, const struct by_thread *ops,
                     const struct by_thread *parts)
{
    char name[32];
    for (size_t t = 0; t < count; t++) {
        if (ops->first[t] == ops->first[t + 1])
            continue;
        snprintf(name, sizeof(name), "thread %zu", t);
        struct thread thread = {.walk = walk,
                                .track = {walk->process, RP_EXPORT_THREADS, (uint32_t)t, name, NULL},
                                .ops = ops->order + ops->first[t],
                                .parts = parts->order + parts->first[t],
                                .op_count = ops->first[t + 1] - ops->first[t],
                                .part_count = parts->first[t + 1] - parts->first[t]};
        walk_thread(&thread);
    }
}

enum rp_status rp_export_threads(struct rp_export_walk *walk)
{
    const struct rp_trace *trace = walk->trace;
    struct by_thread ops, parts;
    size_t count = 0; /* of threads that have ops; launches of others are on streams alone */
    if (trace->op_count == 0)
        return RP_OK;
    for (size_t i = 0; i < trace->op_count; i++)
        count = trace->ops[i].thread >= count ? (size_t)trace->ops[i].thread + 1 : count;
    const struct threads of_ops = {&trace->ops[0].thread, sizeof(trace->ops[0]), trace->op_count};
    const struct threads of_parts = {&trace->parts[0].thread, sizeof(trace->parts[0]), trace->part_count};
    if (by_thread_make(&of_ops, count, &ops) != RP_OK)
        return RP_NO_MEMORY;
    if (by_thread_make(&of_parts, count, &parts) != RP_OK) {
        by_thread_free(&ops);
        return RP_NO_MEMORY;
    }
    walk_all(walk, count, &ops, &parts);
    by_thread_free(&ops);
    by_thread_free(&parts);
    return RP_OK;
}
