/*
 * Puts a trace together: modules by their file's numbers, the unified order, then launches and fingerprints to their
 * ops, in linear time; the clock.
 */
#include "core/trace/trace_parse.h"

#include <stdlib.h>
#include <string.h>

struct join_key {
    uint64_t value;  /* begin, or position */
    uint32_t number; /* thread, or comm */
};

/*
 * Finds ops by a key. Records come in the order of their ops but for threads that take turns, so the next ops are
 * looked at first; the table, which is slower to make than all of that, only when one is not there. Open addressing, at
 * most half full.
 */
struct join_table {
    const struct rp_trace *trace;
    struct join_key (*key_of)(const struct rp_trace_op *op);
    bool lanes_only; /* ops without a position have no key */
    size_t next;     /* index of the op found last */
    uint32_t *slots; /* index + 1; 0: empty. NULL: not made yet */
    size_t mask;
    bool failed; /* there was no memory for it */
};

#define NEAR 16 /* ops that are looked at first */

static struct join_key launch_key(const struct rp_trace_op *op)
{
    return (struct join_key){op->op.begin, op->thread};
}

static struct join_key fingerprint_key(const struct rp_trace_op *op)
{
    return (struct join_key){op->op.position, op->op.comm};
}

/* The slot that holds the key, or the empty one where it would go. */
static uint32_t *join_slot(const struct join_table *table, struct join_key key)
{
    uint64_t hash = (key.value ^ ((uint64_t)key.number << 40)) * 0x9e3779b97f4a7c15u;
    for (size_t at = (hash ^ hash >> 32) & table->mask;; at = (at + 1) & table->mask) {
        uint32_t *slot = &table->slots[at];
        if (*slot == 0)
            return slot;
        struct join_key other = table->key_of(&table->trace->ops[*slot - 1]);
        if (other.value == key.value && other.number == key.number)
            return slot;
    }
}

static bool has_key(const struct join_table *table, const struct rp_trace_op *op)
{
    return !table->lanes_only || op->op.position != RP_NO_POSITION;
}

static void join_make(struct join_table *table)
{
    size_t room = 16;
    while (room < table->trace->op_count * 2)
        room *= 2;
    table->mask = room - 1;
    table->slots = calloc(room, sizeof *table->slots);
    table->failed = table->slots == NULL;
    for (size_t i = 0; i < table->trace->op_count && !table->failed; i++) {
        const struct rp_trace_op *op = &table->trace->ops[i];
        if (has_key(table, op))
            *join_slot(table, table->key_of(op)) = (uint32_t)i + 1;
    }
}

/* False: it is not among the next ones. */
static bool join_find_near(struct join_table *table, struct join_key key)
{
    size_t end = table->trace->op_count - table->next < NEAR ? table->trace->op_count : table->next + NEAR;
    for (size_t i = table->next; i < end; i++) {
        struct join_key other = table->key_of(&table->trace->ops[i]);
        if (other.value == key.value && other.number == key.number && has_key(table, &table->trace->ops[i])) {
            table->next = i;
            return true;
        }
    }
    return false;
}

struct rp_trace_op *rp_trace_parse_next_fingerprinted(struct rp_trace_parse *parse,
                                                      const struct rp_file_fingerprint *from)
{
    struct join_table table = {
        .trace = parse->trace, .key_of = fingerprint_key, .lanes_only = true, .next = parse->fingerprint_next};
    if (!join_find_near(&table, (struct join_key){from->position, from->comm}))
        return NULL;
    parse->fingerprint_next = table.next;
    return &parse->trace->ops[table.next];
}

/* NULL: there is none, or the table has failed. */
static struct rp_trace_op *join_find(struct join_table *table, struct rp_trace *trace, struct join_key key)
{
    if (trace->ops == NULL)
        return NULL;
    if (join_find_near(table, key))
        return &trace->ops[table->next];
    if (table->slots == NULL && !table->failed)
        join_make(table);
    uint32_t slot = table->failed ? 0 : *join_slot(table, key);
    if (slot == 0)
        return NULL;
    table->next = slot - 1;
    return &trace->ops[slot - 1];
}

static enum rp_status join_end(struct join_table *table)
{
    free(table->slots);
    return table->failed ? RP_NO_MEMORY : RP_OK;
}

/* ---------------------------------------------------------------- modules */

static int by_file_number(const void *left, const void *right)
{
    const struct rp_file_number *a = left, *b = right;
    return (a->in_file > b->in_file) - (a->in_file < b->in_file);
}

static uint32_t module_number(const struct rp_trace_parse *parse, uint32_t in_file)
{
    size_t guess = (size_t)in_file - 1; /* numbers count up from 1, so mostly there */
    if (guess < parse->modules_count && parse->modules[guess].in_file == in_file)
        return parse->modules[guess].ours;
    if (parse->modules_count == 0)
        return RP_MODULE_UNKNOWN;
    const struct rp_file_number key = {.in_file = in_file}, *found;
    found = bsearch(&key, parse->modules, parse->modules_count, sizeof key, by_file_number);
    return found == NULL ? RP_MODULE_UNKNOWN : found->ours;
}

static void number_modules(struct rp_trace_parse *parse)
{
    if (parse->modules_count > 1)
        qsort(parse->modules, parse->modules_count, sizeof *parse->modules, by_file_number);
    for (size_t i = 0; i < parse->trace->op_count; i++)
        parse->trace->ops[i].op.module = module_number(parse, parse->trace->ops[i].op.module);
}

/* ---------------------------------------------------------------- launches */

/* What a file says of an event: a module by its file's number, a phase that may be one of a newer version. */
static struct rp_event event_of(const struct rp_trace_parse *parse, uint32_t module, uint32_t phase)
{
    return (struct rp_event){.module = module_number(parse, module),
                             .phase = phase < RP_PHASE_COUNT ? (enum rp_phase)phase : RP_PHASE_UNKNOWN};
}

static bool find_calls(struct rp_trace_parse *parse)
{
    const struct rp_trace *trace = parse->trace;
    if (parse->calls_before != NULL)
        return true;
    parse->calls_before = calloc(trace->op_count + 1, sizeof *parse->calls_before);
    for (size_t i = 0; parse->calls_before != NULL && i < trace->op_count; i++) {
        bool allocation = rp_op_kind_is_allocation((enum rp_op_kind)trace->ops[i].op.kind);
        parse->calls_before[i + 1] = allocation ? parse->calls_before[i] : (uint32_t)i + 1;
    }
    return parse->calls_before != NULL;
}

/* The last op of any thread that began by then, allocations aside; NULL: there is none. */
static const struct rp_op *last_op_before(struct rp_trace_parse *parse, uint64_t ticks)
{
    const struct rp_trace *trace = parse->trace;
    if (trace->ops == NULL || !find_calls(parse))
        return NULL;
    /* ops before `from` began by then, those from `to` on later */
    size_t from = 0, to = trace->op_count;
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        if (trace->ops[middle].op.begin <= ticks)
            from = middle + 1;
        else
            to = middle;
    }
    uint32_t call = parse->calls_before[from];
    return call > 0 ? &trace->ops[call - 1].op : NULL;
}

/* Launches before the first op of their thread belong to what the process was at, as far as no rule said otherwise. */
static void take_event_of_others(struct rp_trace_parse *parse, uint64_t after_begin, uint64_t ticks,
                                 struct rp_event *event)
{
    const struct rp_op *op = after_begin == 0 ? last_op_before(parse, ticks) : NULL;
    if (op != NULL)
        *event = rp_event_filled(*event, (struct rp_event){op->module, (enum rp_phase)op->phase});
}

/* `op`: that the stretch follows. NULL: it is before the thread's first op, or after one that was lost. */
static void join_part(struct rp_trace_parse *parse, const struct rp_file_stretch *stretch, const struct rp_trace_op *op)
{
    struct rp_trace *trace = parse->trace;
    struct rp_trace_part *part = &trace->parts[trace->part_count++];
    *part = (struct rp_trace_part){.event = event_of(parse, stretch->module, stretch->phase),
                                   .count = stretch->count - stretch->before,
                                   .digest = stretch->digest,
                                   .first = stretch->first,
                                   .op = RP_TRACE_NO_OP,
                                   .thread = (uint16_t)stretch->thread};
    if (!stretch->says_event)
        part->first = stretch->after_begin;
    if (op == NULL) {
        take_event_of_others(parse, stretch->after_begin, part->first, &part->event);
        return;
    }
    part->op = (uint32_t)(op - trace->ops);
    if (!stretch->says_event)
        part->event = (struct rp_event){op->op.module, (enum rp_phase)op->op.phase};
}

static void join_stretch(struct rp_trace_parse *parse, struct join_table *table, const struct rp_file_stretch *stretch)
{
    struct rp_trace_op *op = join_find(table, parse->trace, (struct join_key){stretch->after_begin, stretch->thread});
    if (op != NULL)
        rp_trace_parse_give_launches(op, stretch);
    join_part(parse, stretch, op);
}

static void join_launch(struct rp_trace_parse *parse, struct join_table *table, const struct rp_file_launch *launch)
{
    struct rp_trace *trace = parse->trace;
    const struct rp_trace_op *op = join_find(table, trace, (struct join_key){launch->after_begin, launch->thread});
    struct rp_trace_launch *joined = &trace->launches[trace->launch_count++];
    *joined = (struct rp_trace_launch){.event = event_of(parse, launch->module, launch->phase),
                                       .ticks = launch->ticks,
                                       .kernel = launch->name_hash,
                                       .stream = launch->stream,
                                       .shared_bytes = launch->shared_bytes,
                                       .op = op == NULL ? RP_TRACE_NO_OP : (uint32_t)(op - trace->ops),
                                       .thread = (uint16_t)launch->thread};
    if (op == NULL)
        take_event_of_others(parse, launch->after_begin, launch->ticks, &joined->event);
    memcpy(joined->grid, launch->grid, sizeof joined->grid);
    memcpy(joined->block, launch->block, sizeof joined->block);
}

/* The ops are sorted and their modules numbered. */
static enum rp_status join_launches(struct rp_trace_parse *parse)
{
    struct rp_trace *trace = parse->trace;
    struct join_table table = {.trace = trace, .key_of = launch_key};
    trace->parts = calloc(parse->stretches_count + 1, sizeof *trace->parts);
    trace->launches = calloc(parse->launches_count + 1, sizeof *trace->launches);
    if (trace->parts == NULL || trace->launches == NULL)
        return RP_NO_MEMORY;
    for (size_t i = 0; i < parse->stretches_count; i++)
        join_stretch(parse, &table, &parse->stretches[i]);
    free(parse->stretches); /* the largest of what is needed no more */
    parse->stretches = NULL;
    parse->stretches_count = 0;
    for (size_t i = 0; i < parse->launches_count; i++)
        join_launch(parse, &table, &parse->launches[i]);
    return join_end(&table);
}

/* ---------------------------------------------------------------- fingerprints */

static enum rp_status join_fingerprints(struct rp_trace_parse *parse)
{
    struct rp_trace *trace = parse->trace;
    struct join_table table = {.trace = trace, .key_of = fingerprint_key, .lanes_only = true};
    for (size_t i = 0; i < parse->fingerprints_count; i++) {
        const struct rp_file_fingerprint *from = &parse->fingerprints[i];
        struct rp_trace_op *op = join_find(&table, trace, (struct join_key){from->position, from->comm});
        if (op == NULL)
            continue; /* its op was lost */
        op->fingerprint[0] = from->value[0];
        op->fingerprint[1] = from->value[1];
        op->has_fingerprint = true;
    }
    return join_end(&table);
}

/* ---------------------------------------------------------------- order */

static int by_begin(const void *left, const void *right)
{
    const struct rp_trace_op *a = left, *b = right;
    if (a->op.begin != b->op.begin)
        return a->op.begin < b->op.begin ? -1 : 1;
    return (a->thread > b->thread) - (a->thread < b->thread);
}

static void sort_ops(struct rp_trace *trace)
{
    for (size_t i = 1; i < trace->op_count; i++)
        if (by_begin(&trace->ops[i - 1], &trace->ops[i]) > 0) {
            qsort(trace->ops, trace->op_count, sizeof *trace->ops, by_begin);
            return;
        }
}

/* ---------------------------------------------------------------- clock */

#define CLOCK_SPAN_NS 1000000u /* a shorter span says less than the estimate */

/* From the start to the last CLOCK record; where the wall clock was set meanwhile, the writer's estimate. */
static void join_clock(const struct rp_trace_parse *parse)
{
    struct rp_trace *trace = parse->trace;
    const struct rp_trace_identity *identity = &trace->identity;
    double estimate = identity->ticks_per_second == 0 ? 0 : 1e9 / (double)identity->ticks_per_second;
    const struct rp_file_clock *clock = &parse->clock;
    trace->last_clock = clock->ticks;
    trace->ns_per_tick = estimate == 0 ? 1 : estimate;
    if (clock->ticks <= identity->start_ticks || clock->wall_ns < identity->start_wall_ns + CLOCK_SPAN_NS)
        return;
    double measured =
        (double)(clock->wall_ns - identity->start_wall_ns) / (double)(clock->ticks - identity->start_ticks);
    trace->clocked = estimate == 0 || (measured > estimate * 0.99 && measured < estimate * 1.01);
    if (trace->clocked)
        trace->ns_per_tick = measured;
}

enum rp_status rp_trace_parse_finish(struct rp_trace_parse *parse)
{
    number_modules(parse);
    sort_ops(parse->trace);
    enum rp_status status = join_launches(parse);
    if (status == RP_OK)
        status = join_fingerprints(parse);
    if (status == RP_OK)
        status = rp_trace_issue_join(&parse->issues, parse->trace);
    if (status != RP_OK)
        return status;
    rp_trace_parse_sort_tables(parse);
    join_clock(parse);
    parse->trace->complete = parse->ended;
    return RP_OK;
}
