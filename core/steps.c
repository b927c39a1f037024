/*
 * Cuts a lane into steps, in three passes: where generations begin; which sequence of signatures is the cycle;
 * where that sequence lies in the lane. Pure functions.
 */
#include "core/steps.h"

#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

/* The items that are not SMALL, and the generations in them. */
struct lane_view {
    const struct rp_cycle_item *items;
    size_t *index; /* of item number i, in `items` */
    size_t count;
    size_t *starts; /* item numbers where a generation begins; ascending */
    size_t start_count;
};

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

static const struct rp_cycle_item *at(const struct lane_view *view, size_t number)
{
    return &view->items[view->index[number]];
}

/* ---------------------------------------------------------------- generations */

/* Fresh gathers tell something only if others are not: a lane of activations is always fresh. */
static bool freshness_tells(const struct lane_view *view)
{
    size_t count[4] = {0};
    for (size_t i = 0; i < view->count; i++)
        count[at(view, i)->class]++;
    return count[RP_CYCLE_FRESH] > 0 && count[RP_CYCLE_FRESH] <= 8 * (count[RP_CYCLE_GATHER] + count[RP_CYCLE_REDUCE]);
}

/* The longest stretch of items without a fresh gather, after the first. */
static size_t longest_stretch(const struct lane_view *view)
{
    size_t longest = 0, stretch = 0;
    for (size_t i = 0; i < view->count; i++) {
        stretch = at(view, i)->class == RP_CYCLE_FRESH ? 0 : stretch + 1;
        longest = stretch > longest ? stretch : longest;
    }
    return longest;
}

static bool has_reductions(const struct lane_view *view)
{
    for (size_t i = 0; i < view->count; i++) {
        if (at(view, i)->class == RP_CYCLE_REDUCE)
            return true;
    }
    return false;
}

/*
 * Weights change after gradients were reduced: a fresh gather begins a generation if there was a reduction since
 * the one before. Where reductions run on another communicator, a long stretch without a fresh gather stands for it.
 */
static void find_generations(struct lane_view *view)
{
    bool by_reduction = has_reductions(view), reduced = true;
    size_t enough = longest_stretch(view) / 2 + 1, stretch = enough;

    if (!freshness_tells(view))
        return;
    for (size_t i = 0; i < view->count; i++) {
        enum rp_cycle_class class = at(view, i)->class;
        if (class != RP_CYCLE_FRESH) {
            reduced = reduced || class == RP_CYCLE_REDUCE;
            stretch++;
            continue;
        }
        if (by_reduction ? reduced : stretch >= enough)
            view->starts[view->start_count++] = i;
        reduced = false;
        stretch = 0;
    }
}

static enum rp_status view_make(const struct rp_cycle_item *items, size_t count, struct lane_view *view_out)
{
    struct lane_view view = {.items = items};

    view.index = calloc(count, sizeof(*view.index));
    view.starts = calloc(count, sizeof(*view.starts));
    if (view.index == NULL || view.starts == NULL) {
        free(view.index);
        free(view.starts);
        return RP_NO_MEMORY;
    }
    for (size_t i = 0; i < count; i++) {
        if (items[i].class != RP_CYCLE_SMALL)
            view.index[view.count++] = i;
    }
    find_generations(&view);
    *view_out = view;
    return RP_OK;
}

static void view_free(struct lane_view *view)
{
    free(view->index);
    free(view->starts);
}

/* ---------------------------------------------------------------- the cycle */

struct generation {
    uint64_t hash; /* of its signatures */
    size_t first, length;
};

static int compare_generations(const void *left, const void *right)
{
    const struct generation *a = left, *b = right;
    if (a->length != b->length)
        return a->length < b->length ? -1 : 1;
    if (a->hash != b->hash)
        return a->hash < b->hash ? -1 : 1;
    return (a->first > b->first) - (a->first < b->first);
}

static bool same_generation(const struct generation *a, const struct generation *b)
{
    return a->hash == b->hash && a->length == b->length;
}

static void measure_generations(const struct lane_view *view, struct generation *generations)
{
    for (size_t i = 0; i < view->start_count; i++) {
        size_t first = view->starts[i], end = i + 1 < view->start_count ? view->starts[i + 1] : view->count;
        uint64_t hash = 0;
        for (size_t j = first; j < end; j++) {
            uint64_t words[2] = {hash, at(view, j)->signature};
            hash = XXH3_64bits(words, sizeof(words));
        }
        generations[i] = (struct generation){.hash = hash, .first = first, .length = end - first};
    }
}

/* Of sorted generations: the length of the run of equal ones that begins at `from`. */
static size_t run_length(const struct generation *generations, size_t count, size_t from)
{
    size_t end = from + 1;
    while (end < count && same_generation(&generations[from], &generations[end]))
        end++;
    return end - from;
}

/*
 * The shortest kind of generation that is at least half as common as the commonest, and seen twice: with an
 * evaluation in every second generation, the one without. False if none is seen twice.
 */
static bool choose_generation(const struct generation *sorted, size_t count, struct generation *chosen_out)
{
    size_t most = 0;
    for (size_t i = 0, run; i < count; i += run) {
        run = run_length(sorted, count, i);
        most = run > most ? run : most;
    }
    for (size_t i = 0, run; most >= 2 && i < count; i += run) {
        run = run_length(sorted, count, i);
        if (run >= 2 && 2 * run >= most) {
            *chosen_out = sorted[i];
            return true;
        }
    }
    return false;
}

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

static enum rp_status cycle_from_generations(const struct lane_view *view, struct pattern *pattern_out)
{
    enum rp_status status = RP_NOT_FOUND;
    struct generation chosen, *generations;

    if (view->start_count < 2)
        return RP_NOT_FOUND;
    generations = calloc(view->start_count, sizeof(*generations));
    if (generations == NULL)
        return RP_NO_MEMORY;
    measure_generations(view, generations);
    qsort(generations, view->start_count, sizeof(*generations), compare_generations);
    if (choose_generation(generations, view->start_count, &chosen))
        status = pattern_make(view->items, view->index[chosen.first], chosen.length, pattern_out);
    free(generations);
    return status;
}

/* The period of the signatures that repeats over the most items, looked for at ends spread over the lane. */
static enum rp_status cycle_from_signatures(const struct lane_view *view, struct pattern *pattern_out)
{
    enum { ENDS = 16 };
    struct rp_cycle best = {0}, cycle;

    for (size_t i = ENDS; i > 0; i--) {
        size_t places = view->count * i / ENDS;
        size_t end = places == 0 ? 0 : view->index[places - 1] + 1;
        enum rp_status status = rp_cycle_find(view->items, end, &cycle);
        if (status == RP_NO_MEMORY)
            return status;
        if (status == RP_OK && cycle.seen > best.seen)
            best = cycle;
    }
    if (best.seen == 0)
        return RP_NOT_FOUND;
    return pattern_make(view->items, best.first, best.period, pattern_out);
}

/* ---------------------------------------------------------------- cutting */

static enum rp_status cut_at(struct cut *cut, const struct lane_view *view, size_t number, enum rp_step_kind kind)
{
    if (cut->count == cut->capacity) {
        size_t capacity = cut->capacity == 0 ? 64 : 2 * cut->capacity;
        struct rp_step *steps = realloc(cut->steps, capacity * sizeof(*steps));
        if (steps == NULL)
            return RP_NO_MEMORY;
        cut->steps = steps;
        cut->capacity = capacity;
    }
    size_t first = cut->count == 0 ? 0 : view->index[number];
    cut->steps[cut->count++] = (struct rp_step){.first = first, .kind = kind};
    return RP_OK;
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
static enum rp_status close_stretch(struct cut *cut, const struct lane_view *view, size_t *from, size_t to)
{
    enum rp_status status = *from < to ? cut_at(cut, view, *from, RP_STEP_OTHER) : RP_OK;
    *from = to;
    return status;
}

static enum rp_status cut_lane(const struct lane_view *view, const struct pattern *pattern, struct cut *cut)
{
    size_t from = 0, matched = 0, next_start = 0;
    enum rp_status status = RP_OK;

    for (size_t i = 0; i < view->count && status == RP_OK; i++) {
        if (next_start < view->start_count && view->starts[next_start] == i) {
            status = close_stretch(cut, view, &from, i);
            matched = 0;
            next_start++;
        }
        matched = match_next(pattern, matched, at(view, i)->signature);
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
static enum rp_status cut_by_signatures(const struct lane_view *view, struct pattern *pattern, struct cut *cut)
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

enum rp_status rp_steps_cut(const struct rp_cycle_item *items, size_t count, struct rp_step **steps_out,
                            size_t *count_out)
{
    struct lane_view view;
    struct pattern pattern = {0};
    struct cut cut = {0};
    enum rp_status status = RP_OK;

    if (count > 0) {
        status = view_make(items, count, &view);
        if (status != RP_OK)
            return status;
        status = cycle_from_generations(&view, &pattern);
        if (status == RP_OK)
            status = cut_lane(&view, &pattern, &cut);
        else if (status == RP_NOT_FOUND)
            status = cut_by_signatures(&view, &pattern, &cut);
        if (status == RP_OK && view.count == 0)
            status = cut_at(&cut, &view, 0, RP_STEP_OTHER);
        pattern_free(&pattern);
        view_free(&view);
    }
    if (status != RP_OK) {
        free(cut.steps);
        return status;
    }
    *steps_out = cut.steps;
    *count_out = cut.count;
    return RP_OK;
}
