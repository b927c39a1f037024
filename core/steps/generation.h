/*
 * Generations: a generation of the weights begins at the first fresh gather after a reduction, and normally lasts one
 * step. Most generations are alike, and that kind is the cycle; an evaluation that a generation begins with, because it
 * was first to gather the changed weights, is no part of it.
 *
 * Threads: pure functions of their arguments.
 */
#ifndef RP_GENERATION_H
#define RP_GENERATION_H

#include <stddef.h>

#include "core/steps/cycle.h"
#include "core/status.h"

/* The items of a lane that are not SMALL, and the generations in them. */
struct rp_lane_view {
    const struct rp_cycle_item *items;
    size_t *index; /* of item number i, in `items` */
    size_t count;
    size_t *starts; /* item numbers where a generation begins; ascending */
    size_t start_count;
    size_t units; /* the most fresh gathers in a generation: so many gathers, at least, are in a step */
};

static inline const struct rp_cycle_item *rp_lane_view_at(const struct rp_lane_view *view, size_t number)
{
    return &view->items[view->index[number]];
}

/* `items` must outlive the view, which the caller frees. `count` is at least 1. RP_NO_MEMORY. */
enum rp_status rp_lane_view_make(const struct rp_cycle_item *items, size_t count, struct rp_lane_view *view_out);
void rp_lane_view_free(struct rp_lane_view *view);

/*
 * A generation of the kind that is the cycle: the number of its first item in the view, and how many it has.
 * RP_NOT_FOUND: none is seen twice; RP_NO_MEMORY. Time: a sort of the generations, and one look at each item.
 */
enum rp_status rp_generation_choose(const struct rp_lane_view *view, size_t *first_out, size_t *length_out);

#endif
