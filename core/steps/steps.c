/*
 * Cuts a lane into steps: generation.c says where generations begin and which sequence of signatures is the cycle; here
 * is where that sequence lies in the lane.
 */
#include "core/steps/steps.h"

#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "core/steps/generation.h"

/* The cycle: signatures, and for each how far to fall back on a mismatch (Knuth, Morris, Pratt). */
struct pattern {
    uint64_t *signatures;
    size_t *fallback;
    size_t length; /* 0: no cycle known */
};

struct cut {
    struct rp_step *steps;
    size_t count, capacity;
    size_t covered; /* items in WHOLE steps */
};

/* ---------------------------------------------------------------- the cycle */

static enum rp_status pattern_make(const struct rp_cycle_item *items, size_t first, size_t length,
                                   struct pattern *pattern_out)
{
    struct pattern pattern = {
        .signatures = calloc(length, sizeof(*pattern.signatures)),
        .fallback = calloc(length, sizeof(*pattern.fallback)),
        .length = length,
    };

    if (pattern.signatures == NULL || pattern.fallback == NULL) {
        free(pattern.signatures);
        free(pattern.fallback);
        return RP_NO_MEMORY;
    }
    for (size_t i = first, n = 0; n < length; i++) {
        if (items[i].class != RP_CYCLE_SMALL)
            pattern.signatures[n++] = items[i].signature;
    }
    for (size_t i = 1, k = 0; i < length; i++) {
        while (k > 0 && pattern.signatures[i] != pattern.signatures[k])
            k = pattern.fallback[k - 1];
        k += pattern.signatures[i] == pattern.signatures[k];
        pattern.fallback[i] = k;
    }
    *pattern_out = pattern;
    return RP_OK;
}

static void pattern_free(struct pattern *pattern)
{
    free(pattern->signatures);
    free(pattern->fallback);
    *pattern = (struct pattern){0};
}

static enum rp_status cycle_from_generations(const struct rp_lane_view *view, struct pattern *pattern_out)
{
    size_t first, length;
    enum rp_status status = rp_generation_choose(view, &first, &length);
    return status == RP_OK ? pattern_make(view->items, view->index[first], length, pattern_out) : status;
}

/* A step gathers every unit. Equal layers repeat too: one gather and one reduction, over and over. */
static bool has_every_unit(const struct rp_lane_view *view, const struct rp_cycle *cycle)
{
    size_t gathers = 0;
    for (size_t i = cycle->first; i < cycle->end; i++)
        gathers += view->items[i].class == RP_CYCLE_FRESH || view->items[i].class == RP_CYCLE_GATHER;
    return gathers >= view->units;
}

/* The period of the signatures that repeats over the most items, looked for at ends spread over the lane. */
static enum rp_status cycle_from_signatures(const struct rp_lane_view *view, struct pattern *pattern_out)
{
    enum { ENDS = 16 };
    struct rp_cycle best = {0}, cycle;

    for (size_t i = ENDS; i > 0; i--) {
        size_t places = view->count * i / ENDS;
        size_t end = places == 0 ? 0 : view->index[places - 1] + 1;
        enum rp_status status = rp_cycle_find(view->items, end, &cycle);
        if (status == RP_NO_MEMORY)
            return status;
        if (status == RP_OK && cycle.seen > best.seen && has_every_unit(view, &cycle))
            best = cycle;
    }
    if (best.seen == 0)
        return RP_NOT_FOUND;
    return pattern_make(view->items, best.first, best.period, pattern_out);
}

/* ---------------------------------------------------------------- cutting */

static enum rp_status append(struct cut *cut, size_t first, enum rp_step_kind kind)
{
    if (cut->count == cut->capacity) {
        size_t capacity = cut->capacity == 0 ? 64 : 2 * cut->capacity;
        struct rp_step *steps = realloc(cut->steps, capacity * sizeof(*steps));
        if (steps == NULL)
            return RP_NO_MEMORY;
        cut->steps = steps;
        cut->capacity = capacity;
    }
    cut->steps[cut->count++] = (struct rp_step){.first = first, .kind = kind};
    return RP_OK;
}

/* A step from item `number` of the view on; the first one has what is SMALL before it. */
static enum rp_status cut_at(struct cut *cut, const struct rp_lane_view *view, size_t number, enum rp_step_kind kind)
{
    return append(cut, cut->count == 0 ? 0 : view->index[number], kind);
}

/* How much of the pattern matches after one more item. */
static size_t match_next(const struct pattern *pattern, size_t matched, uint64_t signature)
{
    if (pattern->length == 0)
        return 0;
    while (matched > 0 && pattern->signatures[matched] != signature)
        matched = pattern->fallback[matched - 1];
    return matched + (pattern->signatures[matched] == signature);
}

/* Ends the stretch [*from, to) as OTHER if it is not empty. */
static enum rp_status close_stretch(struct cut *cut, const struct rp_lane_view *view, size_t *from, size_t to)
{
    enum rp_status status = *from < to ? cut_at(cut, view, *from, RP_STEP_OTHER) : RP_OK;
    *from = to;
    return status;
}

static enum rp_status cut_lane(const struct rp_lane_view *view, const struct pattern *pattern, struct cut *cut)
{
    size_t from = 0, matched = 0, next_start = 0;
    enum rp_status status = RP_OK;

    for (size_t i = 0; i < view->count && status == RP_OK; i++) {
        if (next_start < view->start_count && view->starts[next_start] == i) {
            status = close_stretch(cut, view, &from, i);
            matched = 0;
            next_start++;
        }
        matched = match_next(pattern, matched, rp_lane_view_at(view, i)->signature);
        if (status != RP_OK || pattern->length == 0 || matched < pattern->length)
            continue;
        status = close_stretch(cut, view, &from, i + 1 - matched);
        if (status == RP_OK)
            status = cut_at(cut, view, from, RP_STEP_WHOLE);
        cut->covered += matched;
        from = i + 1;
        matched = 0;
    }
    return status == RP_OK ? close_stretch(cut, view, &from, view->count) : status;
}

/* A cycle from signatures that leaves most of the lane unexplained was a chance repetition. */
static enum rp_status cut_by_signatures(const struct rp_lane_view *view, struct pattern *pattern, struct cut *cut)
{
    enum rp_status status = cycle_from_signatures(view, pattern);
    if (status == RP_NO_MEMORY)
        return status;
    status = cut_lane(view, pattern, cut);
    if (status != RP_OK || pattern->length == 0 || 2 * cut->covered >= view->count)
        return status;
    pattern_free(pattern);
    cut->count = cut->covered = 0;
    return cut_lane(view, pattern, cut);
}

static enum rp_status cut_unannotated(const struct rp_cycle_item *items, size_t count, struct cut *cut)
{
    struct rp_lane_view view;
    struct pattern pattern = {0};
    enum rp_status status = rp_lane_view_make(items, count, &view);
    if (status != RP_OK)
        return status;
    status = cycle_from_generations(&view, &pattern);
    if (status == RP_OK)
        status = cut_lane(&view, &pattern, cut);
    else if (status == RP_NOT_FOUND)
        status = cut_by_signatures(&view, &pattern, cut);
    if (status == RP_OK && view.count == 0)
        status = cut_at(cut, &view, 0, RP_STEP_OTHER);
    pattern_free(&pattern);
    rp_lane_view_free(&view);
    return status;
}

/* ---------------------------------------------------------------- annotated steps */

/* From one item that begins a step to the next, or to the end of the lane. */
struct told {
    uint64_t hash; /* of the signatures of its items that are not SMALL */
    size_t first, end, length;
};

static struct told told_step(const struct rp_cycle_item *items, size_t first, size_t count)
{
    struct told told = {.first = first, .end = first};
    do {
        const struct rp_cycle_item *item = &items[told.end++];
        if (item->class == RP_CYCLE_SMALL)
            continue;
        told.hash = XXH3_64bits_withSeed(&item->signature, sizeof(item->signature), told.hash);
        told.length++;
    } while (told.end < count && !items[told.end].step);
    return told;
}

static int compare_kinds(const void *left, const void *right)
{
    const struct told *a = left, *b = right;
    if (a->length != b->length)
        return a->length < b->length ? -1 : 1;
    return a->hash < b->hash ? -1 : a->hash > b->hash;
}

/* One of the commonest kind; of several such kinds, of the longest. `steps`, at least one, are sorted by kind. */
static struct told commonest(const struct told *steps, size_t count)
{
    size_t best = 0, most = 0, alike = 0;
    for (size_t i = 0; i < count; i++) {
        alike = i > 0 && compare_kinds(&steps[i - 1], &steps[i]) == 0 ? alike + 1 : 1;
        best = alike >= most ? i : best;
        most = alike > most ? alike : most;
    }
    return steps[best];
}

/* The last annotated step, which goes on to the end of the lane: what most steps are may be in it more than once. */
static enum rp_status cut_tail(const struct rp_cycle_item *items, size_t count, const struct told *kind,
                               const struct rp_cycle_item *kind_items, struct cut *cut)
{
    struct pattern pattern = {0};
    struct rp_lane_view view;
    enum rp_status status = rp_lane_view_make(items, count, &view);
    if (status != RP_OK)
        return status;
    view.start_count = 0;
    if (kind->length > 0)
        status = pattern_make(kind_items, kind->first, kind->length, &pattern);
    if (status == RP_OK)
        status = view.count > 0 ? cut_lane(&view, &pattern, cut) : cut_at(cut, &view, 0, RP_STEP_OTHER);
    pattern_free(&pattern);
    rp_lane_view_free(&view);
    return status;
}

static enum rp_status append_tail(const struct rp_cycle_item *items, size_t count, size_t first,
                                  const struct told *kind, struct cut *cut)
{
    struct cut tail = {0};
    enum rp_status status = cut_tail(items + first, count - first, kind, items, &tail);
    for (size_t i = 0; i < tail.count && status == RP_OK; i++)
        status = append(cut, first + tail.steps[i].first, tail.steps[i].kind);
    free(tail.steps);
    return status;
}

/* `told`: the steps in order, the last one goes to the end; `sorted`: room for as many. */
static enum rp_status cut_told(const struct rp_cycle_item *items, size_t count, const struct told *told,
                               struct told *sorted, size_t told_count, struct cut *cut)
{
    size_t ended = told_count - 1; /* of the last one nobody says whether it is all there */
    struct told kind = {0};
    enum rp_status status = told[0].first > 0 ? append(cut, 0, RP_STEP_OTHER) : RP_OK;
    if (ended > 0) {
        memcpy(sorted, told, ended * sizeof(*told));
        qsort(sorted, ended, sizeof(*sorted), compare_kinds);
        kind = commonest(sorted, ended);
    }
    for (size_t i = 0; i < ended && status == RP_OK; i++) {
        bool whole = told[i].length > 0 && compare_kinds(&told[i], &kind) == 0;
        status = append(cut, told[i].first, whole ? RP_STEP_WHOLE : RP_STEP_OTHER);
    }
    return status == RP_OK ? append_tail(items, count, told[ended].first, &kind, cut) : status;
}

static size_t count_annotations(const struct rp_cycle_item *items, size_t count)
{
    size_t steps = 0;
    for (size_t i = 0; i < count; i++)
        steps += items[i].step;
    return steps;
}

static enum rp_status cut_annotated(const struct rp_cycle_item *items, size_t count, size_t step_count, struct cut *cut)
{
    struct told *told = calloc(2 * step_count, sizeof(*told));
    size_t found = 0;
    if (told == NULL)
        return RP_NO_MEMORY;
    for (size_t i = 0; i < count; i++) {
        if (items[i].step)
            told[found++] = told_step(items, i, count);
    }
    enum rp_status status = cut_told(items, count, told, told + step_count, step_count, cut);
    free(told);
    return status;
}

enum rp_status rp_steps_cut(const struct rp_cycle_item *items, size_t count, struct rp_step **steps_out,
                            size_t *count_out)
{
    struct cut cut = {0};
    size_t annotations = count_annotations(items, count);
    enum rp_status status = RP_OK;

    if (annotations > 0)
        status = cut_annotated(items, count, annotations, &cut);
    else if (count > 0)
        status = cut_unannotated(items, count, &cut);
    if (status != RP_OK) {
        free(cut.steps);
        return status;
    }
    *steps_out = cut.steps;
    *count_out = cut.count;
    return RP_OK;
}
