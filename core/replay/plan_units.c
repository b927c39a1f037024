/*
 * Which gathers of a cycle send the same bytes. A gather is linked to the nearest one before it that had the same
 * content and size: in its cycle if both of the last two cycles say so (layers that were equal when they were made part
 * after the first optimizer step); the first of a content in a cycle to the last of it in the one before.
 * plan_private.h has the threads.
 */
#include "core/replay/plan_private.h"

#include <stdlib.h>

struct gather {
    const struct rp_learned *item;
    size_t place; /* from the beginning of the cycle before the last: up to two periods */
};

static bool same_content(const struct rp_learned *a, const struct rp_learned *b)
{
    return a->content[0] == b->content[0] && a->content[1] == b->content[1] && a->bytes == b->bytes;
}

static int compare(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

/* By content, then by place. */
static int compare_gathers(const void *left, const void *right)
{
    const struct gather *a = left, *b = right;
    int order = compare(a->item->content[0], b->item->content[0]);

    order = order != 0 ? order : compare(a->item->content[1], b->item->content[1]);
    order = order != 0 ? order : compare(a->item->bytes, b->item->bytes);
    return order != 0 ? order : compare(a->place, b->place);
}

static size_t sorted_gathers(const struct rp_plan_cycle *cycle, struct gather *gathers)
{
    size_t count = 0;
    for (size_t place = 0; place < 2 * cycle->period; place++) {
        const struct rp_learned *item = rp_plan_before(cycle, place);
        if (item->kind == RP_OP_ALL_GATHER)
            gathers[count++] = (struct gather){.item = item, .place = place};
    }
    qsort(gathers, count, sizeof(*gathers), compare_gathers);
    return count;
}

/* In the last cycle, and equal in the one before as well. */
static bool same_before(const struct rp_plan_cycle *cycle, const struct gather *from, const struct gather *to)
{
    return from->place >= cycle->period && same_content(rp_plan_before(cycle, from->place - cycle->period),
                                                        rp_plan_before(cycle, to->place - cycle->period));
}

/* gathers[at] is linked to the one before it that it repeats. True if it repeats anything that is near enough. */
static bool link_gather(const struct rp_plan_cycle *cycle, const struct gather *gathers, size_t at, size_t *next)
{
    const struct gather *to = &gathers[at], *from = to - 1;
    size_t period = cycle->period;

    if (!same_content(from->item, to->item) || to->place < period || to->place - from->place > period)
        return false;
    if (from->place < period) {
        next[from->place] = to->place - period;
        return true;
    }
    while (from > gathers && !same_before(cycle, from, to) && same_content(from[-1].item, to->item))
        from--;
    if (same_before(cycle, from, to))
        next[from->place - period] = to->place - period;
    return true;
}

enum rp_status rp_plan_link(const struct rp_plan_cycle *cycle, size_t *next, size_t *repeats_out)
{
    struct gather *gathers = calloc(2 * cycle->period, sizeof(*gathers));
    size_t repeats = 0;

    if (gathers == NULL)
        return RP_NO_MEMORY;
    for (size_t place = 0; place < cycle->period; place++)
        next[place] = RP_NO_PLACE;
    size_t count = sorted_gathers(cycle, gathers);
    for (size_t i = 1; i < count; i++)
        repeats += link_gather(cycle, gathers, i, next);
    free(gathers);
    *repeats_out = repeats;
    return RP_OK;
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
