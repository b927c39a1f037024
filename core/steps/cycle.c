/*
 * Finds the period of a lane. Pure functions.
 *
 * "The end repeats with period p" means that the last p items equal the p before them. Read backwards that is a
 * common prefix of the array and the array moved by p, so one Z-function over the reversed array answers for all p.
 */
#include "core/steps/cycle.h"

#include <stdlib.h>

/* The items that are not SMALL, by their index, and room for one number each. */
struct view {
    const struct rp_cycle_item *items;
    size_t *index;
    size_t *scratch;
    size_t count;
};

enum rp_cycle_class rp_cycle_class(const struct rp_op *op, bool fresh)
{
    if (op->kind == RP_OP_ALL_GATHER)
        return fresh ? RP_CYCLE_FRESH : RP_CYCLE_GATHER;
    return rp_cycle_is_small((enum rp_op_kind)op->kind, rp_op_bytes(op)) ? RP_CYCLE_SMALL : RP_CYCLE_REDUCE;
}

struct rp_cycle_item rp_cycle_item(const struct rp_op *op, bool fresh)
{
    return (struct rp_cycle_item){
        .signature = rp_op_signature(op), .class = rp_cycle_class(op, fresh), .step = (op->flags & RP_OP_STEP) != 0};
}

static enum rp_status view_make(const struct rp_cycle_item *items, size_t count, struct view *view_out)
{
    struct view view = {.items = items};

    if (count == 0)
        return RP_NOT_FOUND;
    view.index = calloc(count, sizeof(*view.index));
    view.scratch = calloc(count, sizeof(*view.scratch));
    if (view.index == NULL || view.scratch == NULL) {
        free(view.index);
        free(view.scratch);
        return RP_NO_MEMORY;
    }
    for (size_t i = 0; i < count; i++) {
        if (items[i].class != RP_CYCLE_SMALL)
            view.index[view.count++] = i;
    }
    *view_out = view;
    return RP_OK;
}

static void view_free(struct view *view)
{
    free(view->index);
    free(view->scratch);
}

static const struct rp_cycle_item *at(const struct view *view, size_t place)
{
    return &view->items[view->index[place]];
}

/* The two items so many places before the end are alike. */
static bool alike(const struct view *view, size_t back, size_t other_back)
{
    const struct rp_cycle_item *a = at(view, view->count - 1 - back), *b = at(view, view->count - 1 - other_back);
    return a->signature == b->signature && a->class == b->class;
}

/* scratch[p] = how many items before the last p, read backwards, equal those at the end (Z-function). */
static void match_end(struct view *view)
{
    size_t *match = view->scratch;
    size_t left = 0, right = 0; /* [left, right) equals [0, right - left), the rightmost such stretch known */

    for (size_t p = 1; p < view->count; p++) {
        size_t length = 0;
        if (p < right)
            length = match[p - left] < right - p ? match[p - left] : right - p;
        while (p + length < view->count && alike(view, p + length, length))
            length++;
        match[p] = length;
        if (p + length > right) {
            left = p;
            right = p + length;
        }
    }
}

/* Smallest count of last items that has all parts of a batch; SIZE_MAX if the array has not. */
static size_t batch_length(const struct view *view)
{
    unsigned missing = 1u << RP_CYCLE_FRESH | 1u << RP_CYCLE_GATHER | 1u << RP_CYCLE_REDUCE;

    for (size_t length = 1; length <= view->count; length++) {
        missing &= ~(1u << at(view, view->count - length)->class);
        if (missing == 0)
            return length;
    }
    return SIZE_MAX;
}

/* The period, and how many items it repeats over; 0 if there is none. Leaves match_end() in scratch. */
static size_t find_period(struct view *view, size_t *seen_out)
{
    size_t batch = batch_length(view), longest = 0;

    match_end(view);
    for (size_t p = 1; p <= view->count / 2; p++) {
        if (view->scratch[p] >= p)
            longest = p;
    }
    for (size_t p = 1; p <= longest; p++) {
        size_t seen = p + view->scratch[p];
        if (seen >= 2 * p && (seen >= longest || p >= batch)) {
            *seen_out = seen;
            return p;
        }
    }
    return 0;
}

static bool has_class(const struct view *view, size_t from, enum rp_cycle_class class)
{
    for (size_t i = from; i < view->count; i++) {
        if (at(view, i)->class == class)
            return true;
    }
    return false;
}

static bool is_mark(const struct rp_cycle_item *item, enum rp_cycle_class mark)
{
    return item->class == mark || (item->class == RP_CYCLE_FRESH && mark == RP_CYCLE_GATHER);
}

/* scratch[i] for the cycle's item i: 1 + the items since the last mark, going round; 0 if it is no mark. */
static void measure_gaps(struct view *view, size_t period, enum rp_cycle_class mark)
{
    size_t from = view->count - period, gap = 0;

    for (size_t i = 0; i < 2 * period; i++) {
        size_t place = i % period;
        gap++;
        view->scratch[place] = 0;
        if (is_mark(at(view, from + place), mark)) {
            view->scratch[place] = gap;
            gap = 0;
        }
    }
}

/* Order of the cycle's items a and b as starts: the longer gap first. */
static int compare_items(const struct view *view, size_t period, size_t a, size_t b)
{
    size_t from = view->count - period;
    uint64_t sign_a = at(view, from + a)->signature, sign_b = at(view, from + b)->signature;

    if (view->scratch[a] != view->scratch[b])
        return view->scratch[a] > view->scratch[b] ? -1 : 1;
    return (sign_a > sign_b) - (sign_a < sign_b);
}

/*
 * The turn of the cycle that compares least (two candidates that run against each other: a turn that begins inside
 * the stretch where the loser was equal loses too, so it is skipped).
 */
static size_t least_turn(const struct view *view, size_t period)
{
    size_t best = 0, rival = 1, equal = 0;

    while (best < period && rival < period && equal < period) {
        int order = compare_items(view, period, (best + equal) % period, (rival + equal) % period);
        if (order == 0) {
            equal++;
            continue;
        }
        if (order > 0)
            best += equal + 1;
        else
            rival += equal + 1;
        if (best == rival)
            rival++;
        equal = 0;
    }
    return best < rival ? best : rival;
}

/* Where, in the last `period` items, the cycle starts. */
static size_t find_turn(struct view *view, size_t period, size_t seen)
{
    size_t from = view->count - period;

    if (has_class(view, from, RP_CYCLE_FRESH))
        measure_gaps(view, period, RP_CYCLE_FRESH);
    else if (has_class(view, from, RP_CYCLE_GATHER))
        measure_gaps(view, period, RP_CYCLE_GATHER);
    else
        return (period - seen % period) % period;
    return least_turn(view, period);
}

enum rp_status rp_cycle_find(const struct rp_cycle_item *items, size_t count, struct rp_cycle *cycle_out)
{
    struct view view;
    size_t seen = 0;
    enum rp_status status = view_make(items, count, &view);

    if (status != RP_OK)
        return status;
    size_t period = find_period(&view, &seen);
    if (period == 0) {
        view_free(&view);
        return RP_NOT_FOUND;
    }
    size_t from = view.count - period, turn = find_turn(&view, period, seen);
    bool fresh = has_class(&view, from, RP_CYCLE_FRESH);
    bool stale = has_class(&view, from, RP_CYCLE_GATHER) || has_class(&view, from, RP_CYCLE_REDUCE);
    size_t first = turn == 0 ? from : from + turn - period;

    *cycle_out = (struct rp_cycle){
        .period = period,
        .first = view.index[first],
        .end = view.index[first + period - 1] + 1,
        .seen = seen,
        .basis = fresh && stale ? RP_CYCLE_BY_FRESHNESS : RP_CYCLE_BY_SIGNATURES,
    };
    view_free(&view);
    return RP_OK;
}
