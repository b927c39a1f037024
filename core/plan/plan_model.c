/*
 * The clock of a cycle. plan_model.h has the job and the threads.
 */
#include "core/plan/plan_model.h"

#include <stdlib.h>

/* No time is longer than these ns (69 s): sums of as many as a lane has do not overflow. */
#define LONGEST (UINT64_C(1) << 36)

static uint64_t shorter(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* ---------------------------------------------------------------- what is known */

static uint64_t transfer_ns(const struct rp_learned *item, uint32_t nranks, const struct rp_plan_link_model *link)
{
    uint64_t bytes = rp_plan_received(item, nranks), mib = bytes >> 20, rest = bytes & ((1u << 20) - 1);
    uint64_t rate = shorter(link->ns_per_mib, LONGEST);

    if (rate != 0 && mib > LONGEST / rate)
        return LONGEST;
    return shorter(shorter(link->latency_ns, LONGEST) + mib * rate + (rest * rate >> 20), LONGEST);
}

/* From the item behind `from` up to `to`: small ops in between are part of the gap. */
static uint64_t gap_between(const uint64_t *gap_ns, size_t from, size_t to)
{
    uint64_t sum = 0;
    for (size_t i = from + 1; i <= to; i++)
        sum = shorter(sum + shorter(gap_ns[i], LONGEST), LONGEST);
    return sum;
}

/* In the cycle that begins at `start` of the index; the one before has an item before its first, or none. */
static uint64_t gap_in(const struct rp_plan_cycle *cycle, const uint64_t *gap_ns, size_t start, size_t place)
{
    size_t at = start + place;
    return at == 0 ? 0 : gap_between(gap_ns, cycle->index[at - 1], cycle->index[at]);
}

/* The shorter of the last two cycles: a host that stalled once is not compute to hide transfers behind. */
static uint64_t gap_of(const struct rp_plan_cycle *cycle, const uint64_t *gap_ns, size_t place)
{
    uint64_t before = gap_in(cycle, gap_ns, cycle->before, place), last = gap_in(cycle, gap_ns, cycle->last, place);
    return before == 0 || last == 0 ? later(before, last) : shorter(before, last);
}

static bool reduces(const struct rp_plan_cycle *cycle, size_t place)
{
    return rp_plan_class(cycle, place) == RP_CYCLE_REDUCE;
}

static void set_entries(struct rp_model *model, const struct rp_plan_cycle *cycle, const size_t *next, uint32_t nranks,
                        const struct rp_plan_ahead *ahead)
{
    for (size_t place = 0; place < model->count; place++) {
        const struct rp_learned *item = rp_plan_last(cycle, place);
        bool gather = item->kind == RP_OP_ALL_GATHER && item->bytes > 0;
        model->entries[place].gap = gap_of(cycle, ahead->gap_ns, place);
        model->entries[place].transfer = transfer_ns(item, nranks, &ahead->link);
        model->entries[place].gather = gather;
        model->entries[place].live = gather && item->send != 0 && item->send == rp_plan_before(cycle, place)->send;
        model->entries[place].after = next[place];
        model->entries[place].before = RP_NO_PLACE;
        model->known.compute += model->entries[place].gap;
    }
    for (size_t place = 0; place < model->count; place++) {
        if (next[place] != RP_NO_PLACE)
            model->entries[next[place]].before = place;
    }
}

/* Begun by a fresh gather, the cycle's first or the first behind a reduction. */
static void set_generations(struct rp_model *model, const struct rp_plan_cycle *cycle)
{
    bool reduced = false;
    for (size_t place = 0; place < model->count; place++) {
        bool fresh = rp_plan_class(cycle, place) == RP_CYCLE_FRESH;
        model->entries[place].begins = place == 0 || (fresh && reduced);
        reduced = (reduced && !fresh) || reduces(cycle, place);
    }
}

static void mark_winding(struct rp_model *model, size_t first)
{
    size_t place = first;

    do {
        model->entries[place].winds = true;
        place = model->entries[place].after;
    } while (place != RP_NO_PLACE && place != first);
}

/* Along the links from each gather that repeats none. */
static void follow_heads(struct rp_model *model)
{
    for (size_t place = 0; place < model->count; place++)
        model->entries[place].head = RP_NO_PLACE;
    for (size_t head = 0; head < model->count; head++) {
        if (model->entries[head].before != RP_NO_PLACE)
            continue;
        size_t length = 0;
        for (size_t place = head; place != RP_NO_PLACE; place = model->entries[place].after) {
            length += place == head ? 0 : rp_model_distance(model, model->entries[place].before, place);
            model->entries[place].head = head;
            model->entries[head].copied |= !model->entries[place].live;
        }
        if (length >= model->count)
            mark_winding(model, head);
    }
}

static bool is_over_the_end(const struct rp_model *model, size_t place)
{
    return model->entries[place].before != RP_NO_PLACE && model->entries[place].before >= place;
}

/* Links that go round: once in a cycle, if only one of them leads over its end. */
static void follow_rings(struct rp_model *model)
{
    for (size_t first = 0; first < model->count; first++) {
        if (model->entries[first].head != RP_NO_PLACE || model->entries[first].winds || !is_over_the_end(model, first))
            continue;
        size_t place = model->entries[first].after;
        while (!is_over_the_end(model, place))
            place = model->entries[place].after;
        if (place != first)
            mark_winding(model, first);
    }
}

static void set_reach(struct rp_model *model)
{
    size_t began = 0;
    for (size_t place = 0; place < model->count; place++) {
        struct rp_model_entry *entry = &model->entries[place];
        size_t reach = 0;
        began = entry->begins ? place : began;
        if (entry->gather && !entry->winds && entry->before != RP_NO_PLACE)
            reach = rp_model_distance(model, entry->before, place) - 1;
        else if (entry->gather && !entry->winds && entry->live && !entry->copied)
            reach = place - began;
        entry->reach = (uint32_t)(reach < RP_PLAN_LOOKAHEAD ? reach : RP_PLAN_LOOKAHEAD);
    }
}

enum rp_status rp_model_make(const struct rp_plan_cycle *cycle, const size_t *next, uint32_t nranks,
                             const struct rp_plan_ahead *ahead, struct rp_model *model_out)
{
    struct rp_model model = {.count = cycle->period};

    model.entries = calloc(model.count, sizeof(*model.entries));
    model.first = calloc(model.count, sizeof(*model.first));
    model.follows = calloc(model.count, sizeof(*model.follows));
    model.ready = calloc(model.count, sizeof(*model.ready));
    struct rp_choice *plain = calloc(model.count, sizeof(*plain));
    *model_out = model;
    if (model.entries == NULL || model.first == NULL || model.follows == NULL || model.ready == NULL || plain == NULL) {
        free(plain);
        return RP_NO_MEMORY;
    }
    set_entries(model_out, cycle, next, nranks, ahead);
    set_generations(model_out, cycle);
    follow_heads(model_out);
    follow_rings(model_out);
    set_reach(model_out);
    model_out->known.plain = rp_model_run(model_out, plain, NULL);
    free(plain);
    return RP_OK;
}

void rp_model_free(struct rp_model *model)
{
    free(model->entries);
    free(model->first);
    free(model->follows);
    free(model->ready);
}

/* ---------------------------------------------------------------- a run */

static void put_first(struct rp_model *model, size_t issue, size_t place)
{
    model->follows[place] = model->first[issue];
    model->first[issue] = (uint32_t)place;
}

/* Those over the cycle's end are used last, so they are put in first. */
static void list_issues(struct rp_model *model, const struct rp_choice *choices)
{
    size_t prefetches = 0;

    for (size_t place = 0; place < model->count; place++) {
        model->first[place] = RP_MODEL_END;
        model->ready[place] = 0;
        prefetches += choices[place].action == RP_PLAN_PREFETCH;
    }
    if (prefetches == 0)
        return;
    for (size_t place = model->count; place-- > 0;) {
        if (choices[place].action == RP_PLAN_PREFETCH && choices[place].issue >= place)
            put_first(model, choices[place].issue, place);
    }
    for (size_t place = model->count; place-- > 0;) {
        if (choices[place].action == RP_PLAN_PREFETCH && choices[place].issue < place)
            put_first(model, choices[place].issue, place);
    }
}

struct clock {
    uint64_t compute; /* now */
    uint64_t link;    /* when it is free */
    uint64_t others;  /* when the last op that is no gather ends */
    uint64_t waited;
};

static uint64_t wait_for(struct clock *clock, uint64_t end)
{
    uint64_t wait = end > clock->compute ? end - clock->compute : 0;

    clock->compute += wait;
    clock->waited += wait;
    return wait;
}

static uint64_t transfer(struct clock *clock, uint64_t ns)
{
    clock->link = later(clock->link, clock->compute) + ns;
    return clock->link;
}

/* What the entry itself waits for. */
static uint64_t run_op(struct rp_model *model, struct clock *clock, const struct rp_choice *choice, size_t place)
{
    const struct rp_model_entry *entry = &model->entries[place];

    if (choice->action == RP_PLAN_KEEP)
        return 0;
    if (choice->action == RP_PLAN_PREFETCH)
        return wait_for(clock, model->ready[place]);
    uint64_t end = transfer(clock, entry->transfer);
    if (entry->gather)
        return wait_for(clock, end);
    clock->others = end;
    return 0;
}

static void run_cycle(struct rp_model *model, struct clock *clock, const struct rp_choice *choices,
                      struct rp_model_trace *trace)
{
    for (size_t place = 0; place < model->count; place++) {
        const struct rp_model_entry *entry = &model->entries[place];
        if (entry->begins)
            wait_for(clock, clock->others);
        uint64_t busy_to = later(clock->link, clock->compute);
        clock->compute += entry->gap;
        if (trace != NULL)
            trace->idle[place] = clock->compute > busy_to ? clock->compute - busy_to : 0;
        uint64_t wait = run_op(model, clock, &choices[place], place);
        if (trace != NULL)
            trace->waits[place] = wait;
        for (uint32_t ahead = model->first[place]; ahead != RP_MODEL_END; ahead = model->follows[ahead])
            model->ready[ahead] = transfer(clock, model->entries[ahead].transfer);
    }
}

static uint64_t lag_of(const struct clock *clock)
{
    return clock->link > clock->compute ? clock->link - clock->compute : 0;
}

uint64_t rp_model_run(struct rp_model *model, const struct rp_choice *choices, struct rp_model_trace *trace)
{
    struct clock clock = {0};
    uint64_t waited = UINT64_MAX;

    list_issues(model, choices);
    for (unsigned round = 0; round < RP_PLAN_ROUNDS; round++) {
        uint64_t lag = lag_of(&clock), before = waited, began = clock.waited;
        run_cycle(model, &clock, choices, trace);
        waited = clock.waited - began;
        if (waited == before && lag == lag_of(&clock))
            break;
    }
    return waited;
}
