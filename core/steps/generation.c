/*
 * Where generations begin, and which kind of them is the cycle. A kind is a sequence of signatures, known by its length
 * and its hash.
 */
#include "core/steps/generation.h"

#include <stdlib.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

/* ---------------------------------------------------------------- where they begin */

/* Fresh gathers tell something only if others are not: a lane of activations is always fresh. */
static bool freshness_tells(const struct rp_lane_view *view)
{
    size_t count[4] = {0};
    for (size_t i = 0; i < view->count; i++)
        count[rp_lane_view_at(view, i)->class]++;
    return count[RP_CYCLE_FRESH] > 0 && count[RP_CYCLE_FRESH] <= 8 * (count[RP_CYCLE_GATHER] + count[RP_CYCLE_REDUCE]);
}

/* The longest stretch of items without a fresh gather, after the first. */
static size_t longest_stretch(const struct rp_lane_view *view)
{
    size_t longest = 0, stretch = 0;
    for (size_t i = 0; i < view->count; i++) {
        stretch = rp_lane_view_at(view, i)->class == RP_CYCLE_FRESH ? 0 : stretch + 1;
        longest = stretch > longest ? stretch : longest;
    }
    return longest;
}

static bool has_reductions(const struct rp_lane_view *view)
{
    for (size_t i = 0; i < view->count; i++) {
        if (rp_lane_view_at(view, i)->class == RP_CYCLE_REDUCE)
            return true;
    }
    return false;
}

/*
 * Weights change after gradients were reduced: a fresh gather begins a generation if there was a reduction since
 * the one before. Where reductions run on another communicator, a long stretch without a fresh gather stands for it.
 */
static void find_generations(struct rp_lane_view *view)
{
    bool by_reduction = has_reductions(view), reduced = true;
    size_t enough = longest_stretch(view) / 2 + 1, stretch = enough, fresh = 0;

    if (!freshness_tells(view))
        return;
    for (size_t i = 0; i < view->count; i++) {
        enum rp_cycle_class class = rp_lane_view_at(view, i)->class;
        if (class != RP_CYCLE_FRESH) {
            reduced = reduced || class == RP_CYCLE_REDUCE;
            stretch++;
            continue;
        }
        if (by_reduction ? reduced : stretch >= enough) {
            view->starts[view->start_count++] = i;
            fresh = 0;
        }
        view->units = ++fresh > view->units ? fresh : view->units;
        reduced = false;
        stretch = 0;
    }
}

enum rp_status rp_lane_view_make(const struct rp_cycle_item *items, size_t count, struct rp_lane_view *view_out)
{
    struct rp_lane_view view = {.items = items};

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

void rp_lane_view_free(struct rp_lane_view *view)
{
    free(view->index);
    free(view->starts);
}

/* ---------------------------------------------------------------- kinds */

struct generation {
    uint64_t hash; /* of its signatures, from the last to the first: so the hash of an end of it is made on the way */
    size_t first, length;
};

struct generations {
    struct generation *sorted; /* by kind: equal ones are neighbours */
    size_t *behind_evaluation; /* at the first of a kind: how often the kind comes at the end of another one */
    size_t count;
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

/* The hash of an item and what comes after it. */
static uint64_t hash_before(const struct rp_lane_view *view, size_t number, uint64_t after)
{
    uint64_t words[2] = {after, rp_lane_view_at(view, number)->signature};
    return XXH3_64bits(words, sizeof(words));
}

static void measure_generations(const struct rp_lane_view *view, struct generation *generations)
{
    for (size_t i = 0; i < view->start_count; i++) {
        size_t first = view->starts[i], end = i + 1 < view->start_count ? view->starts[i + 1] : view->count;
        uint64_t hash = 0;
        for (size_t j = end; j-- > first;)
            hash = hash_before(view, j, hash);
        generations[i] = (struct generation){.hash = hash, .first = first, .length = end - first};
    }
}

/* The first of that kind (`wanted.first` is 0), or `count` if there is none. */
static size_t find_kind(const struct generations *generations, const struct generation *wanted)
{
    size_t low = 0, high = generations->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare_generations(&generations->sorted[middle], wanted) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    bool found = low < generations->count && same_generation(&generations->sorted[low], wanted);
    return found ? low : generations->count;
}

/* Where an evaluation can end that a generation begins with: it takes all the fresh gathers, and reduces nothing. */
struct lead {
    size_t least, most; /* items */
};

/* False if there is no reduction behind. */
static bool measure_lead(const struct rp_lane_view *view, const struct generation *generation, struct lead *lead_out)
{
    struct lead lead = {0};
    for (size_t i = 0; i < generation->length; i++) {
        enum rp_cycle_class class = rp_lane_view_at(view, generation->first + i)->class;
        if (class == RP_CYCLE_FRESH)
            lead.least = i + 1;
        if (class == RP_CYCLE_REDUCE && lead.most == 0)
            lead.most = i;
    }
    *lead_out = lead;
    return lead.most > 0;
}

/* Counts the shortest kind that the generation is with an evaluation before it. */
static void count_behind_evaluation(const struct rp_lane_view *view, const struct generation *generation,
                                    struct generations *generations)
{
    struct lead lead;
    struct generation end = {0};
    if (!measure_lead(view, generation, &lead))
        return;
    for (size_t i = generation->length; i-- > lead.least;) {
        end.hash = hash_before(view, generation->first + i, end.hash);
        end.length++;
        size_t kind = i <= lead.most ? find_kind(generations, &end) : generations->count;
        if (kind < generations->count) {
            generations->behind_evaluation[kind]++;
            return;
        }
    }
}

/* Of sorted generations: the length of the run of equal ones that begins at `from`. */
static size_t run_length(const struct generations *generations, size_t from)
{
    size_t end = from + 1;
    while (end < generations->count && same_generation(&generations->sorted[from], &generations->sorted[end]))
        end++;
    return end - from;
}

/*
 * The shortest kind of generation that is at least half as common as the commonest, and seen twice, alone or behind an
 * evaluation: so the one without. False if none is seen twice.
 */
static bool choose_generation(const struct generations *generations, struct generation *chosen_out)
{
    size_t most = 0;
    for (size_t i = 0, run; i < generations->count; i += run) {
        run = run_length(generations, i);
        size_t seen = run + generations->behind_evaluation[i];
        most = seen > most ? seen : most;
    }
    for (size_t i = 0, run; most >= 2 && i < generations->count; i += run) {
        run = run_length(generations, i);
        size_t seen = run + generations->behind_evaluation[i];
        if (seen >= 2 && 2 * seen >= most) {
            *chosen_out = generations->sorted[i];
            return true;
        }
    }
    return false;
}

enum rp_status rp_generation_choose(const struct rp_lane_view *view, size_t *first_out, size_t *length_out)
{
    enum rp_status status = RP_NO_MEMORY;
    struct generation chosen;
    struct generations generations = {.count = view->start_count};

    if (view->start_count < 2)
        return RP_NOT_FOUND;
    generations.sorted = calloc(generations.count, sizeof(*generations.sorted));
    generations.behind_evaluation = calloc(generations.count, sizeof(*generations.behind_evaluation));
    if (generations.sorted == NULL || generations.behind_evaluation == NULL)
        goto out;
    measure_generations(view, generations.sorted);
    qsort(generations.sorted, generations.count, sizeof(*generations.sorted), compare_generations);
    for (size_t i = 0; i < generations.count; i++)
        count_behind_evaluation(view, &generations.sorted[i], &generations);
    status = RP_NOT_FOUND;
    if (choose_generation(&generations, &chosen)) {
        *first_out = chosen.first;
        *length_out = chosen.length;
        status = RP_OK;
    }
out:
    free(generations.sorted);
    free(generations.behind_evaluation);
    return status;
}
