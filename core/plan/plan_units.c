/*
 * Which gathers of a cycle send the same bytes. A gather is linked to the nearest one before it that had the same
 * content and size: in its cycle if both of the last two cycles say so (layers that were equal when they were made part
 * after the first optimizer step); the first of a content in a cycle to the last of it in the one before.
 * plan_private.h has the threads.
 */
#include "core/plan/plan_contents.h"
#include "core/plan/plan_private.h"

#include <stdlib.h>

/* Of a place in the last two cycles: the one before it that sent the same, RP_NOT_SEEN: there is none. */
struct history {
    const struct rp_plan_cycle *cycle;
    size_t *previous;
};

/* In the last cycle, and equal in the one before as well. */
static bool same_before(const struct rp_plan_cycle *cycle, size_t from, size_t to)
{
    return from >= cycle->period &&
           rp_plan_sent_same(rp_plan_before(cycle, from - cycle->period), rp_plan_before(cycle, to - cycle->period));
}

/* `to`, of the last cycle, is linked to the one that it repeats. True if it repeats anything that is near enough. */
static bool link_gather(const struct history *history, size_t to, size_t *next)
{
    const struct rp_plan_cycle *cycle = history->cycle;
    size_t from = history->previous[to], period = cycle->period;

    if (from == RP_NOT_SEEN || to - from > period)
        return false;
    if (from < period) {
        next[from] = to - period;
        return true;
    }
    while (from != RP_NOT_SEEN && !same_before(cycle, from, to))
        from = history->previous[from];
    if (from != RP_NOT_SEEN)
        next[from - period] = to - period;
    return true;
}

static void link_all(const struct history *history, struct rp_plan_contents *contents, size_t *next,
                     size_t *repeats_out)
{
    size_t period = history->cycle->period, repeats = 0;

    for (size_t place = 0; place < period; place++)
        next[place] = RP_NO_PLACE;
    for (size_t place = 0; place < 2 * period; place++) {
        const struct rp_learned *item = rp_plan_before(history->cycle, place);
        if (item->kind != RP_OP_ALL_GATHER)
            continue;
        history->previous[place] = rp_plan_contents_see(contents, item, place);
        repeats += place >= period && link_gather(history, place, next);
    }
    *repeats_out = repeats;
}

enum rp_status rp_plan_link(const struct rp_plan_cycle *cycle, size_t *next, size_t *repeats_out)
{
    struct history history = {.cycle = cycle, .previous = malloc(2 * cycle->period * sizeof(*history.previous))};
    struct rp_plan_contents contents = {0};
    enum rp_status status =
        history.previous == NULL ? RP_NO_MEMORY : rp_plan_contents_make(2 * cycle->period, &contents);

    if (status == RP_OK)
        link_all(&history, &contents, next, repeats_out);
    rp_plan_contents_free(&contents);
    free(history.previous);
    return status;
}

/* The unit of the links from `first` on: a number that they lead to, or a new one. */
static uint32_t unit_from(const size_t *next, struct rp_plan *plan, size_t first)
{
    size_t place = next[first];

    while (place != RP_NO_PLACE && place != first && plan->entries[place].unit == RP_NO_UNIT)
        place = next[place];
    if (place == RP_NO_PLACE || place == first)
        return (uint32_t)plan->unit_count++;
    return plan->entries[place].unit;
}

void rp_plan_number_units(const size_t *next, struct rp_plan *plan)
{
    for (size_t first = 0; first < plan->count; first++) {
        if (plan->entries[first].kind != RP_OP_ALL_GATHER || plan->entries[first].unit != RP_NO_UNIT)
            continue;
        uint32_t unit = unit_from(next, plan, first);
        for (size_t place = first; place != RP_NO_PLACE && plan->entries[place].unit == RP_NO_UNIT; place = next[place])
            plan->entries[place].unit = unit;
    }
}
