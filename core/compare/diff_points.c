#include "core/compare/diff_points.h"

#include <stdlib.h>
#include <string.h>

#include "core/table.h"

/* ---------------------------------------------------------------- the sides of a point */

/* The number in `modules` of one of the trace's modules. */
static uint32_t copy_module(struct rp_modules *modules, const struct rp_trace *trace, uint32_t module)
{
    const char *name = rp_module_name(trace->modules, module);
    return rp_module_intern(modules, name, strlen(name));
}

static struct rp_op copy_op(struct rp_modules *modules, const struct rp_packed *packed, size_t index)
{
    struct rp_op op = rp_packed_op(packed, index).op;
    op.module = copy_module(modules, packed->trace, op.module);
    return op;
}

static void fill_side(struct rp_diff_side *side, struct rp_modules *modules, const struct rp_pair_part *part,
                      size_t index)
{
    const struct rp_trace_comm *comm = rp_trace_find_comm(part->trace, rp_packed_call_op(part->packed, index)->comm);
    *side = (struct rp_diff_side){.present = true,
                                  .op = copy_op(modules, part->packed, index),
                                  .index = index,
                                  .step = rp_timeline_step_of(part->timeline, index),
                                  .comm = comm == NULL ? RP_NO_COMM : comm->number};
}

/* Fills the side that lacks a partner of `has`: its place is behind `before`, of the last pair before in the lane. */
static void fill_missing(struct rp_diff_side *side, struct rp_modules *modules, const struct rp_pair_part *part,
                         const struct rp_diff_side *has, const struct rp_pair_part *has_part, const uint32_t *comm_of,
                         uint32_t before)
{
    const struct rp_trace_comm *comm = rp_trace_find_comm(has_part->trace, has->comm);
    uint32_t own = comm == NULL ? RP_PAIR_NONE : comm_of[comm - has_part->trace->comms];
    *side = (struct rp_diff_side){.index = part->from,
                                  .comm = own == RP_PAIR_NONE ? RP_NO_COMM : part->trace->comms[own].number};
    if (before != RP_PAIR_NONE) {
        side->index = (size_t)before + 1;
        side->op = copy_op(modules, part->packed, before);
    }
    side->step = rp_timeline_step_of(part->timeline, side->index);
}

/* ---------------------------------------------------------------- which is first */

/* Ranks come in order: a tie stays with the lower. */
static bool is_before(const struct rp_diff_place *place, const struct rp_diff_point *point)
{
    return place->step != point->step ? place->step < point->step : place->place < point->place;
}

/* The left step that a place is in: that of its op, or of the op that it is behind. */
static size_t step_of_place(const struct rp_diff_rank *rank, uint64_t place)
{
    return rp_timeline_step_of(rank->left.timeline, place == 0 ? 0 : (size_t)((place - 1) / 2));
}

static void fill_launches(struct rp_diff_point *point, struct rp_modules *modules, const struct rp_diff_rank *rank,
                          const struct rp_diff_place *place)
{
    struct rp_launch_difference difference =
        rp_launch_parts_compare(&rank->left_launches, place->i, &rank->right_launches, place->j);
    point->launches.event.module = copy_module(modules, difference.trace, difference.event.module);
    point->launches.event.phase = difference.event.phase;
    point->launches.left = difference.left;
    point->launches.right = difference.right;
}

static struct rp_diff_point complete(struct rp_modules *modules, const struct rp_diff_rank *rank,
                                     const struct rp_diff_place *place)
{
    struct rp_diff_point point = {.found = true,
                                  .classes = place->classes,
                                  .rank = rank->left.trace->identity.rank,
                                  .step = place->step,
                                  .place = place->place};
    if (place->i != RP_PAIR_NONE)
        fill_side(&point.left, modules, &rank->left, place->i);
    if (place->j != RP_PAIR_NONE)
        fill_side(&point.right, modules, &rank->right, place->j);
    if (place->i == RP_PAIR_NONE)
        fill_missing(&point.left, modules, &rank->left, &point.right, &rank->right, rank->pairs.left_comm_of,
                     place->before);
    if (place->j == RP_PAIR_NONE)
        fill_missing(&point.right, modules, &rank->right, &point.left, &rank->left, rank->pairs.right_comm_of,
                     place->before);
    if (place->classes & RP_DIFF_BIT(RP_DIFF_LAUNCHES))
        fill_launches(&point, modules, rank, place);
    return point;
}

static void keep_if_first(struct rp_diff *diff, const struct rp_diff_rank *rank, const struct rp_diff_place *place,
                          unsigned classes, struct rp_diff_point *first)
{
    if ((place->classes & classes) != 0 && (!first->found || is_before(place, first)))
        *first = complete(diff->modules, rank, place);
}

/* ---------------------------------------------------------------- the list */

/* Of the right ops at one place the earlier ones are first. */
static int by_place(const void *left, const void *right)
{
    const struct rp_diff_place *a = left, *b = right;
    if (a->step != b->step)
        return a->step < b->step ? -1 : 1;
    if (a->place != b->place)
        return a->place < b->place ? -1 : 1;
    return (a->j > b->j) - (a->j < b->j);
}

/* Sorts what may be listed, and drops what is behind the first ones. */
static void cut(const struct rp_diff *diff, struct rp_diff_rank *rank)
{
    if (rank->listed_count > 1)
        qsort(rank->listed, rank->listed_count, sizeof(*rank->listed), by_place);
    if (rank->listed_count > diff->options.top)
        rank->listed_count = diff->options.top;
}

/* False: `top` places, of this rank or of ranks before, are in front of it. The first `top` of this rank are sorted. */
static bool may_be_listed(const struct rp_diff *diff, const struct rp_diff_rank *rank,
                          const struct rp_diff_place *place)
{
    size_t top = diff->options.top;
    if (top == 0 || (rank->listed_count >= top && by_place(place, &rank->listed[top - 1]) > 0))
        return false;
    return diff->point_count < top || is_before(place, &diff->points[top - 1]);
}

enum rp_status rp_diff_note(struct rp_diff *diff, struct rp_diff_rank *rank, const struct rp_diff_place *noted)
{
    struct rp_diff_place place = *noted;
    place.step = step_of_place(rank, place.place);
    keep_if_first(diff, rank, &place, RP_DIFF_STRUCTURE, &diff->structure);
    keep_if_first(diff, rank, &place, RP_DIFF_BIT(RP_DIFF_LAUNCHES), &diff->launches);
    keep_if_first(diff, rank, &place, RP_DIFF_BIT(RP_DIFF_BYTES), &diff->bytes);
    if (!may_be_listed(diff, rank, &place))
        return RP_OK;
    struct rp_diff_place *listed = rp_table_grow(rank->listed, rank->listed_count, &rank->listed_room, sizeof(*listed));
    if (listed == NULL)
        return RP_NO_MEMORY;
    rank->listed = listed;
    listed[rank->listed_count++] = place;
    if (rank->listed_count == diff->options.top || rank->listed_count == 2 * diff->options.top)
        cut(diff, rank);
    return RP_OK;
}

/* How many of the points of ranks before stay in the list. */
static size_t count_kept(const struct rp_diff *diff, const struct rp_diff_rank *rank)
{
    size_t kept = 0, listed = 0;
    while (kept < diff->point_count && kept + listed < diff->options.top) {
        if (listed < rank->listed_count && is_before(&rank->listed[listed], &diff->points[kept]))
            listed++;
        else
            kept++;
    }
    return kept;
}

/* From the end, so that no point is written over before it has its new place. */
void rp_diff_list(struct rp_diff *diff, struct rp_diff_rank *rank)
{
    cut(diff, rank);
    size_t kept = count_kept(diff, rank), listed = diff->options.top - kept;
    listed = listed < rank->listed_count ? listed : rank->listed_count;
    diff->point_count = kept + listed;
    for (size_t at = diff->point_count; listed > 0;) {
        if (kept > 0 && is_before(&rank->listed[listed - 1], &diff->points[kept - 1]))
            diff->points[--at] = diff->points[--kept];
        else
            diff->points[--at] = complete(diff->modules, rank, &rank->listed[--listed]);
    }
}
