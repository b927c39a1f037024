#include "core/compare/diff_points.h"

#include <string.h>

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

static bool is_anchor(const struct rp_pairs *pairs, bool has_is_left, size_t index)
{
    uint32_t partner = has_is_left ? pairs->right_of[index] : pairs->left_of[index];
    return partner != RP_PAIR_NONE && !pairs->moved[has_is_left ? index : partner];
}

/* Fills the side that lacks a partner of `has`: its place is after the partner of the last op before in the lane. */
static void fill_missing(struct rp_diff_side *side, struct rp_modules *modules, const struct rp_pair_part *part,
                         const struct rp_diff_side *has, const struct rp_pair_part *has_part,
                         const struct rp_pairs *pairs, bool has_is_left)
{
    const struct rp_op *op = rp_packed_call_op(has_part->packed, has->index);
    const struct rp_trace_comm *comm = rp_trace_find_comm(has_part->trace, has->comm), *own = NULL;
    if (comm != NULL)
        own = rp_pair_comm(has_part->trace, comm, part->trace);
    *side = (struct rp_diff_side){.index = part->from, .comm = own == NULL ? RP_NO_COMM : own->number};
    for (size_t i = has->index; i-- > has_part->from;) {
        if (is_anchor(pairs, has_is_left, i) && rp_pair_same_lane(rp_packed_call_op(has_part->packed, i), op)) {
            uint32_t before = has_is_left ? pairs->right_of[i] : pairs->left_of[i];
            side->index = (size_t)before + 1;
            side->op = copy_op(modules, part->packed, before);
            break;
        }
    }
    side->step = rp_timeline_step_of(part->timeline, side->index);
}

/* ---------------------------------------------------------------- which is first */

static bool is_before(const struct rp_diff_point *a, const struct rp_diff_point *b)
{
    if (a->step != b->step)
        return a->step < b->step;
    return a->place < b->place; /* ranks come in order: a tie stays with the lower */
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

static void complete(struct rp_diff_point *point, struct rp_modules *modules, const struct rp_diff_rank *rank,
                     const struct rp_diff_place *place)
{
    if (place->i != RP_PAIR_NONE)
        fill_side(&point->left, modules, &rank->left, place->i);
    if (place->j != RP_PAIR_NONE)
        fill_side(&point->right, modules, &rank->right, place->j);
    if (place->i == RP_PAIR_NONE)
        fill_missing(&point->left, modules, &rank->left, &point->right, &rank->right, &rank->pairs, false);
    if (place->j == RP_PAIR_NONE)
        fill_missing(&point->right, modules, &rank->right, &point->left, &rank->left, &rank->pairs, true);
    if (place->classes & RP_DIFF_BIT(RP_DIFF_LAUNCHES))
        fill_launches(point, modules, rank, place);
}

/* It would become the first one of these classes. */
static bool is_wanted(const struct rp_diff_point *first, const struct rp_diff_point *point, unsigned classes)
{
    return (point->classes & classes) != 0 && (!first->found || is_before(point, first));
}

static void keep_if_first(struct rp_diff_point *first, const struct rp_diff_point *point, unsigned classes)
{
    if (is_wanted(first, point, classes))
        *first = *point;
}

/* Puts the point into the sorted list, and drops the last one if the list is full. */
static void list(struct rp_diff *diff, const struct rp_diff_point *point)
{
    size_t at = diff->point_count;
    while (at > 0 && is_before(point, &diff->points[at - 1]))
        at--;
    if (at >= diff->options.top)
        return;
    size_t count = diff->point_count < diff->options.top ? diff->point_count : diff->options.top - 1;
    memmove(&diff->points[at + 1], &diff->points[at], (count - at) * sizeof(*diff->points));
    diff->points[at] = *point;
    diff->point_count = count + 1;
}

void rp_diff_note(struct rp_diff *diff, const struct rp_diff_rank *rank, const struct rp_diff_place *place)
{
    struct rp_diff_point point = {.found = true,
                                  .classes = place->classes,
                                  .rank = rank->left.trace->identity.rank,
                                  .step = step_of_place(rank, place->place),
                                  .place = place->place};
    bool listed = diff->point_count < diff->options.top ||
                  (diff->point_count > 0 && is_before(&point, &diff->points[diff->point_count - 1]));
    if (!listed && !is_wanted(&diff->structure, &point, RP_DIFF_STRUCTURE) &&
        !is_wanted(&diff->launches, &point, RP_DIFF_BIT(RP_DIFF_LAUNCHES)) &&
        !is_wanted(&diff->bytes, &point, RP_DIFF_BIT(RP_DIFF_BYTES)))
        return;
    complete(&point, diff->modules, rank, place);
    keep_if_first(&diff->structure, &point, RP_DIFF_STRUCTURE);
    keep_if_first(&diff->launches, &point, RP_DIFF_BIT(RP_DIFF_LAUNCHES));
    keep_if_first(&diff->bytes, &point, RP_DIFF_BIT(RP_DIFF_BYTES));
    if (listed)
        list(diff, &point);
}
