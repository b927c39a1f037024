/*
 * The cycle to plan: the one at the end of the lane, if it was shown often enough to be a whole batch that goes on.
 * plan_private.h has the threads.
 */
#include "core/plan/plan_contents.h"
#include "core/plan/plan_private.h"

#include <stdlib.h>

/* ---------------------------------------------------------------- the lane's items */

/* What no item before it sent is fresh. */
static struct rp_cycle_item classify(struct rp_plan_contents *contents, const struct rp_learned *item, size_t number)
{
    struct rp_op op = {.kind = item->kind, .dtype = RP_DTYPE_UINT8, .count = item->bytes};
    bool fresh = item->kind == RP_OP_ALL_GATHER && rp_plan_contents_see(contents, item, number) == RP_NOT_SEEN;

    return (struct rp_cycle_item){.signature = item->signature, .class = rp_cycle_class(&op, fresh)};
}

enum rp_status rp_plan_classify(const struct rp_learned *items, size_t count, struct rp_cycle_item *classes)
{
    struct rp_plan_contents contents;
    enum rp_status status = rp_plan_contents_make(count, &contents);

    if (status != RP_OK)
        return status;
    for (size_t i = 0; i < count; i++)
        classes[i] = classify(&contents, &items[i], i);
    rp_plan_contents_free(&contents);
    return RP_OK;
}

static bool has_class(const struct rp_plan_cycle *cycle, enum rp_cycle_class class)
{
    for (size_t place = 0; place < cycle->period; place++) {
        if (rp_plan_class(cycle, place) == class)
            return true;
    }
    return false;
}

/* ---------------------------------------------------------------- often enough */

static bool starts_cycle(const struct rp_plan_cycle *cycle, size_t number)
{
    return number % cycle->period == cycle->last % cycle->period;
}

/*
 * Generations among the items that repeat: begun by a fresh gather after a reduction, or at the start of a cycle, and
 * shown up to their first reduction (until then an evaluation of the new weights looks the same). Where reductions run
 * on another communicator the starts of cycles count.
 */
static size_t count_generations(const struct rp_plan_cycle *cycle)
{
    size_t generations = 0, starts = 0;
    enum { NOTHING, BEGUN, REDUCED } state = NOTHING;

    for (size_t i = cycle->count - cycle->seen; i < cycle->count; i++) {
        enum rp_cycle_class class = cycle->classes[cycle->index[i]].class;
        starts += starts_cycle(cycle, i);
        if (class == RP_CYCLE_FRESH && (state == REDUCED || starts_cycle(cycle, i)))
            state = BEGUN;
        if (class == RP_CYCLE_REDUCE) {
            generations += state == BEGUN;
            state = REDUCED;
        }
    }
    return has_class(cycle, RP_CYCLE_REDUCE) ? generations : starts;
}

static bool shown_often(const struct rp_plan_cycle *cycle)
{
    if (cycle->basis == RP_CYCLE_BY_FRESHNESS)
        return count_generations(cycle) >= RP_PLAN_GENERATIONS;
    return !has_class(cycle, RP_CYCLE_FRESH) && has_class(cycle, RP_CYCLE_GATHER) &&
           cycle->seen / RP_PLAN_REPEATS >= cycle->period;
}

bool rp_plan_cycle_settled(const struct rp_plan_cycle *cycle)
{
    size_t enough = cycle->stale > 0 ? RP_PLAN_SETTLED : RP_PLAN_REPEATS;
    return cycle->seen / enough >= cycle->period;
}

/* A fresh content comes again within the cycle. */
static bool repeats_fresh(const struct rp_plan_cycle *cycle, const size_t *next)
{
    for (size_t place = 0; place < cycle->period; place++) {
        if (rp_plan_class(cycle, place) == RP_CYCLE_FRESH && next[place] != RP_NO_PLACE && next[place] > place)
            return true;
    }
    return false;
}

/*
 * A block that layers share is gathered between them: fresh, stale, fresh, stale. Without a reduction that is a cycle
 * only if a fresh content comes again.
 */
bool rp_plan_cycle_explains(const struct rp_plan_cycle *cycle, const size_t *next, size_t repeats)
{
    if (cycle->basis == RP_CYCLE_BY_FRESHNESS && !has_class(cycle, RP_CYCLE_REDUCE) && !repeats_fresh(cycle, next))
        return false;
    return cycle->stale == 0 || repeats > cycle->stale - repeats;
}

/* ---------------------------------------------------------------- finding */

/* The numbers of the items that are not SMALL, and where the last two cycles are in them. False: there are not two. */
static bool place_cycles(struct rp_plan_cycle *cycle, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (cycle->classes[i].class == RP_CYCLE_SMALL)
            continue;
        if (i == cycle->first)
            cycle->last = cycle->count;
        cycle->index[cycle->count++] = i;
    }
    if (cycle->last < cycle->count - cycle->seen + cycle->period)
        return false;
    cycle->before = cycle->last - cycle->period;
    for (size_t place = 0; place < cycle->period; place++)
        cycle->stale += rp_plan_class(cycle, place) == RP_CYCLE_GATHER;
    return true;
}

static enum rp_status find(struct rp_plan_cycle *cycle, size_t count)
{
    struct rp_cycle found;
    enum rp_status status = rp_plan_classify(cycle->items, count, cycle->classes);

    if (status == RP_OK)
        status = rp_cycle_find(cycle->classes, count, &found);
    if (status != RP_OK)
        return status;
    cycle->period = found.period;
    cycle->first = found.first;
    cycle->end = found.end;
    cycle->seen = found.seen;
    cycle->basis = found.basis;
    return place_cycles(cycle, count) && shown_often(cycle) ? RP_OK : RP_NOT_FOUND;
}

enum rp_status rp_plan_cycle_find(const struct rp_learned *items, size_t count, struct rp_plan_cycle *cycle_out)
{
    struct rp_plan_cycle cycle = {.items = items};
    enum rp_status status = RP_NO_MEMORY;

    if (count == 0)
        return RP_NOT_FOUND;
    cycle.classes = calloc(count, sizeof(*cycle.classes));
    cycle.index = calloc(count, sizeof(*cycle.index));
    if (cycle.classes != NULL && cycle.index != NULL)
        status = find(&cycle, count);
    if (status != RP_OK) {
        rp_plan_cycle_free(&cycle);
        return status;
    }
    *cycle_out = cycle;
    return RP_OK;
}

void rp_plan_cycle_free(struct rp_plan_cycle *cycle)
{
    free(cycle->classes);
    free(cycle->index);
}
