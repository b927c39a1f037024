#include "core/tool/export.h"

#include <inttypes.h>
#include <stdlib.h>

#include "core/tool/export_walk.h"
#include "core/tool/source.h"
#include "core/tool/tool.h"

#define TIME_MOST ((int64_t)1 << 60) /* a time that is beyond it is no time; the sum of two has room */

const char *rp_export_category_name(enum rp_export_category category)
{
    static const char *const names[] = {
#define X(name, text) text,
        RP_EXPORT_CATEGORIES(X)
#undef X
    };
    return names[category];
}

const char *rp_export_argument_name(enum rp_export_argument_name name)
{
    static const char *const names[] = {
#define X(name, text) text,
        RP_EXPORT_ARGUMENTS(X)
#undef X
    };
    return names[name];
}

void rp_export_put_number(struct rp_export_arguments *arguments, enum rp_export_argument_name name, uint64_t number)
{
    arguments->all[arguments->count++] = (struct rp_export_argument){.name = name, .number = number};
}

void rp_export_put_text(struct rp_export_arguments *arguments, enum rp_export_argument_name name, const char *text)
{
    arguments->all[arguments->count++] = (struct rp_export_argument){.name = name, .text = text};
}

void rp_export_progress(struct rp_export_walk *walk, size_t ops)
{
    walk->export->done += ops;
    rp_progress_at(walk->export->progress, walk->export->done);
}

/* ---------------------------------------------------------------- time */

static int64_t bounded(double ns)
{
    return ns >= (double)TIME_MOST ? TIME_MOST : (int64_t)ns;
}

/* Since the trace's start. Ops are in order of their ticks as numbers without a sign, and so are these times. */
static int64_t since_start(const struct rp_trace *trace, uint64_t ticks)
{
    uint64_t start = trace->identity.start_ticks;
    return ticks >= start ? bounded((double)(ticks - start) * trace->ns_per_tick)
                          : -bounded((double)(start - ticks) * trace->ns_per_tick);
}

uint64_t rp_export_base(const struct rp_trace_run *run)
{
    uint64_t base = UINT64_MAX;
    for (size_t i = 0; i < run->count; i++) {
        const struct rp_trace *trace = run->ranks[i];
        uint64_t first = trace->identity.start_wall_ns;
        int64_t ns = trace->op_count > 0 ? since_start(trace, trace->ops[0].op.begin) : 0;
        if (ns < 0) /* counters of two processors may differ */
            first = first > (uint64_t)-ns ? first - (uint64_t)-ns : 0;
        base = first < base ? first : base;
    }
    return run->count > 0 ? base : 0;
}

int64_t rp_export_time(const struct rp_export_walk *walk, uint64_t ticks)
{
    uint64_t start = walk->trace->identity.start_wall_ns, base = walk->export->base_wall_ns;
    int64_t offset = bounded((double)(start - base)); /* the base is the least */
    int64_t time = offset + since_start(walk->trace, ticks);
    return time > 0 ? time : 0;
}

bool rp_export_is_shown(const struct rp_export_walk *walk, uint64_t ticks)
{
    const struct rp_trace *trace = walk->trace;
    bool after = walk->from == 0 || (walk->from < trace->op_count && ticks >= trace->ops[walk->from].op.begin);
    return after && (walk->to == trace->op_count || ticks < trace->ops[walk->to].op.begin);
}

/* ---------------------------------------------------------------- states */

static void put_states(struct rp_export_walk *walk)
{
    static const char *const names[] = {
#define X(name, text) text,
        RP_TRACE_STATES(X)
#undef X
    };
    const struct rp_export_track track = {walk->process, RP_EXPORT_STATES, 0, "state changes", NULL};
    struct rp_export *export = walk->export;
    if (walk->trace->state_count == 0)
        return;
    export->format->track(export, &track);
    for (size_t i = 0; i < walk->trace->state_count; i++) {
        const struct rp_trace_change *change = &walk->trace->states[i];
        struct rp_export_arguments arguments = {0};
        if (!rp_export_is_shown(walk, change->ticks))
            continue;
        if (change->comm != RP_NO_COMM)
            rp_export_put_number(&arguments, RP_EXPORT_ARGUMENT_COMMUNICATOR, change->comm);
        int64_t at = rp_export_time(walk, change->ticks);
        const char *text = change->text[0] != '\0' ? change->text : names[change->state];
        export->format->instant(export, &(struct rp_export_slice){&track, RP_EXPORT_STATE,
                                                                  rp_export_name_text(export->names, text), at, at,
                                                                  &arguments, 0});
    }
}

/* ---------------------------------------------------------------- counters */

enum counter { GATHERED, FROM_MEMORY, LAUNCHES, AHEAD, WAITING, COUNTERS };

static struct rp_export_track counter_track(const struct rp_export_walk *walk, enum counter counter)
{
    static const char *const names[] = {[GATHERED] = "gathered from the network, a step",
                                        [FROM_MEMORY] = "gathers from memory, a step",
                                        [LAUNCHES] = "kernel launches behind a call",
                                        [AHEAD] = "gathered ahead from the network, a step",
                                        [WAITING] = "gathers ahead, issued and not yet used"};
    static const char *const units[] = {[GATHERED] = "bytes",
                                        [FROM_MEMORY] = "gathers",
                                        [LAUNCHES] = "launches",
                                        [AHEAD] = "bytes",
                                        [WAITING] = "gathers"};
    return (struct rp_export_track){walk->process, RP_EXPORT_COUNTERS, counter, names[counter], units[counter]};
}

static void put_count(const struct rp_export_walk *walk, enum counter counter, int64_t at, uint64_t value)
{
    struct rp_export_track track = counter_track(walk, counter);
    walk->export->format->count(walk->export, &track, at, value);
}

struct gathers {
    uint64_t bytes, hits;
};

static void add_gather(struct gathers *gathers, const struct rp_op *op)
{
    switch (rp_source_of(op)) {
    case RP_SOURCE_MEMORY:
    case RP_SOURCE_PREFETCH:
        gathers->hits++;
        break;
    case RP_SOURCE_NETWORK:
    case RP_SOURCE_STORED:
    case RP_SOURCE_REPAIRED:
    case RP_SOURCE_WITHDRAWN:
        gathers->bytes += rp_op_bytes(op);
        break;
    case RP_SOURCE_NONE:
    case RP_SOURCE_COUNT:
        break;
    }
}

static void count_step(const struct rp_export_walk *walk, size_t from, size_t to)
{
    struct gathers gathers = {0};
    for (size_t i = from; i < to; i++)
        add_gather(&gathers, &walk->trace->ops[i].op);
    int64_t at = rp_export_time(walk, walk->trace->ops[from].op.begin);
    put_count(walk, GATHERED, at, gathers.bytes);
    put_count(walk, FROM_MEMORY, at, gathers.hits);
}

/* Those of the steps that are exported; `*next` goes on over the trace's gathers ahead. */
static void count_ahead(const struct rp_export_walk *walk, size_t from, size_t to, size_t *next)
{
    const struct rp_trace *trace = walk->trace;
    uint64_t bytes = 0;
    for (; *next < trace->issue_count; ++*next) {
        const struct rp_issue *issue = &trace->issues[*next].of;
        if (to < trace->op_count && issue->begin >= trace->ops[to].op.begin)
            break;
        bytes += rp_export_is_shown(walk, issue->begin) ? issue->bytes : 0;
    }
    put_count(walk, AHEAD, rp_export_time(walk, trace->ops[from].op.begin), bytes);
}

/* One more where one that is used begins, one less where its call does. */
static void count_waiting(const struct rp_export_walk *walk)
{
    const struct rp_trace *trace = walk->trace;
    size_t use = 0;
    uint64_t waiting = 0;
    for (size_t i = 0; i < trace->issue_count || use < trace->used_count;) {
        const struct rp_trace_issue *issue = i < trace->issue_count ? &trace->issues[i] : NULL;
        uint64_t used_at = use < trace->used_count ? trace->ops[trace->used[use].op].op.begin : UINT64_MAX;
        bool issued = issue != NULL && issue->of.begin <= used_at;
        if (!issued)
            issue = &trace->issues[trace->used[use++].issue];
        else
            i++;
        if (rp_export_flow(walk, issue) == 0)
            continue;
        waiting = issued ? waiting + 1 : waiting - 1;
        put_count(walk, WAITING, rp_export_time(walk, issued ? issue->of.begin : used_at), waiting);
    }
}

static void put_counters_ahead(const struct rp_export_walk *walk)
{
    const struct rp_timeline *timeline = walk->timeline;
    size_t next = 0;
    for (size_t step = walk->steps.from; step < walk->steps.to && step < timeline->count; step++)
        count_ahead(walk, timeline->steps[step].first, rp_timeline_end(timeline, step), &next);
    count_waiting(walk);
}

static void put_counters(struct rp_export_walk *walk)
{
    const struct rp_timeline *timeline = walk->timeline;
    bool ahead = walk->trace->issue_count > 0;
    for (unsigned counter = 0; counter < (ahead ? COUNTERS : AHEAD) && walk->from < walk->to; counter++) {
        struct rp_export_track track = counter_track(walk, (enum counter)counter);
        walk->export->format->track(walk->export, &track);
    }
    for (size_t step = walk->steps.from; step < walk->steps.to && step < timeline->count; step++)
        count_step(walk, timeline->steps[step].first, rp_timeline_end(timeline, step));
    for (size_t i = walk->from; i < walk->to; i++) {
        const struct rp_trace_op *op = &walk->trace->ops[i];
        if (!rp_op_kind_is_allocation((enum rp_op_kind)op->op.kind))
            put_count(walk, LAUNCHES, rp_export_time(walk, op->op.begin), op->launches);
    }
    if (ahead)
        put_counters_ahead(walk);
}

/* ---------------------------------------------------------------- a rank */

static void put_process(struct rp_export_walk *walk)
{
    char name[600], program[300], host[100];
    const struct rp_trace_identity *identity = &walk->trace->identity;
    snprintf(name, sizeof(name), "rank %" PRId32 ": %s on %s, process %" PRIu64, identity->rank,
             rp_tool_safe(identity->program, program, sizeof(program)),
             rp_tool_safe(identity->host, host, sizeof(host)), identity->pid);
    walk->export->format->process(walk->export, walk->process, name);
}

/* The ops of the steps that are asked for; none if there are no such steps. */
static void find_ops(struct rp_export_walk *walk)
{
    const struct rp_timeline *timeline = walk->timeline;
    size_t count = timeline->count;
    walk->from = walk->steps.from < count ? timeline->steps[walk->steps.from].first : walk->trace->op_count;
    walk->to = walk->steps.to < count ? timeline->steps[walk->steps.to].first : walk->trace->op_count;
}

enum rp_status rp_export_rank(struct rp_export *export, uint32_t process, const struct rp_trace *trace,
                              const struct rp_timeline *timeline, struct rp_export_steps steps)
{
    struct rp_export_walk walk = {export, process, trace, timeline, steps, 0, 0};
    find_ops(&walk);
    rp_export_names_of(export->names, trace);
    put_process(&walk);
    enum rp_status status = rp_export_ahead(&walk); /* first, so that a flow's begin comes before its end */
    if (status == RP_OK)
        status = rp_export_threads(&walk);
    if (status == RP_OK)
        status = rp_export_streams(&walk);
    put_states(&walk);
    put_counters(&walk);
    return status;
}
