/*
 * What is gathered ahead of its use, and what is kept beside it. Some plans are built, each in three passes:
 *   1. gathers are kept within a share of the budget: by rp_plan_keep(), or units for good;
 *   2. from the last gather of the cycle back to the first: each that is not kept is issued as late as the link's idle
 *      time before it allows, if there is a slot for so long and a snapshot to send from;
 *   3. what room is left keeps more, short links first; what compute still waits for is issued earlier.
 * The best of them is improved entry by entry. The plan without prefetches is the first of them.
 *
 * Threads: pure functions of their arguments.
 */
#include "core/replay/plan_ahead.h"

#include <stdlib.h>
#include <string.h>

/* A longer lane is not planned ahead: rows of bits would take too much memory. */
#define LONGEST_CYCLE 16384u

/* ---------------------------------------------------------------- the best so far */

enum rp_status rp_best_make(size_t count, struct rp_best *best_out)
{
    struct rp_best best = {0};

    best.choices = calloc(count, sizeof(*best.choices));
    best.slot = calloc(count, sizeof(*best.slot));
    best.snapshot = calloc(count, sizeof(*best.snapshot));
    *best_out = best;
    return best.choices != NULL && best.slot != NULL && best.snapshot != NULL ? RP_OK : RP_NO_MEMORY;
}

void rp_best_free(struct rp_best *best)
{
    free(best->choices);
    free(best->slot);
    free(best->snapshot);
}

void rp_best_copy(struct rp_best *to, const struct rp_best *from, size_t count)
{
    to->score = from->score;
    memcpy(to->choices, from->choices, count * sizeof(*to->choices));
    memcpy(to->slot, from->slot, count * sizeof(*to->slot));
    memcpy(to->snapshot, from->snapshot, count * sizeof(*to->snapshot));
}

void rp_search_take(struct rp_search *search, const struct rp_score *score)
{
    size_t count = search->model.count;

    search->best.score = *score;
    memcpy(search->best.choices, search->draft.choices, count * sizeof(*search->best.choices));
    memcpy(search->best.slot, search->draft.slot, count * sizeof(*search->best.slot));
    memcpy(search->best.snapshot, search->draft.snapshot, count * sizeof(*search->best.snapshot));
}

void rp_search_back_to_best(struct rp_search *search)
{
    memcpy(search->draft.choices, search->best.choices, search->model.count * sizeof(*search->best.choices));
}

static bool consider(struct rp_search *search)
{
    search->score = rp_draft_score(&search->draft, &search->trace);
    bool better = rp_score_better(&search->score, &search->best.score);

    if (better)
        rp_search_take(search, &search->score);
    return better;
}

/* ---------------------------------------------------------------- pass 1 */

/* Units for good, those that save most for their bytes first. */
static void keep_units(struct rp_search *search, uint64_t share)
{
    struct rp_draft *draft = &search->draft;

    for (size_t i = 0; i < search->unit_count && draft->slots.total < share; i++) {
        size_t first = search->by_gain[i], place = search->model.entries[first].after;
        bool kept = true;
        while (kept && place != RP_NO_PLACE) {
            kept = rp_draft_keep(draft, place, share);
            place = place == first ? RP_NO_PLACE : search->model.entries[place].after;
        }
    }
}

/* Short links first. */
static void keep_links(struct rp_search *search, uint64_t share)
{
    for (size_t i = 0; i < search->link_count; i++)
        rp_draft_keep(&search->draft, search->by_link[i], share);
}

/* ---------------------------------------------------------------- pass 2 */

#define BUSY_MOST 24u

/*
 * How far ahead a gather has to be issued for the idle time to hold it, or as much of it as there is before the link is
 * busy over BUSY_MOST entries; 0: nothing.
 */
static size_t wanted_length(const struct rp_search *search, size_t place)
{
    const struct rp_model_entry *entry = &search->model.entries[place];
    size_t length = 0, at = place;
    uint64_t found = 0;

    for (size_t i = 1; i <= entry->reach && found < entry->transfer && i <= length + BUSY_MOST; i++) {
        found += search->trace.idle[at];
        length = search->trace.idle[at] > 0 ? i : length;
        at = at == 0 ? search->model.count - 1 : at - 1;
    }
    while (length > 0 && length < entry->reach && !rp_model_may_issue(&search->model, place, length))
        length++;
    return length;
}

static void use_idle(struct rp_search *search, size_t place, size_t length)
{
    uint64_t left = search->model.entries[place].transfer;

    for (size_t i = 0; i < length && left > 0; i++) {
        uint64_t *idle = &search->trace.idle[rp_model_back(&search->model, place, i)];
        uint64_t used = *idle < left ? *idle : left;
        *idle -= used;
        left -= used;
    }
}

static void prefetch_rest(struct rp_search *search, uint64_t limit)
{
    for (size_t place = search->model.count; place-- > 0;) {
        if (!search->model.entries[place].gather || search->draft.choices[place].action != RP_PLAN_NETWORK)
            continue;
        size_t length = wanted_length(search, place);
        if (length > 0)
            use_idle(search, place, rp_draft_prefetch(&search->draft, place, length, limit));
    }
}

/* ---------------------------------------------------------------- pass 3 */

/* Everything that is waited for one entry earlier. */
static bool issue_earlier(struct rp_search *search)
{
    struct rp_draft *draft = &search->draft;
    bool changed = false;

    for (size_t place = 0; place < search->model.count; place++) {
        struct rp_choice *choice = &draft->choices[place];
        if (choice->action != RP_PLAN_PREFETCH || search->trace.waits[place] == 0)
            continue;
        size_t length = rp_model_distance(&search->model, choice->issue, place) + 1;
        while (length < search->model.entries[place].reach && !rp_model_may_issue(&search->model, place, length))
            length++;
        if (length > search->model.entries[place].reach || !rp_model_may_issue(&search->model, place, length))
            continue;
        choice->issue = (uint32_t)rp_model_back(&search->model, place, length);
        changed = true;
    }
    return changed && rp_draft_pack(draft);
}

bool rp_search_fill(struct rp_search *search, uint64_t window)
{
    uint64_t slots = search->draft.slots.total;

    rp_draft_score(&search->draft, &search->trace);
    search->draft.limited = false;
    prefetch_rest(search, window < UINT64_MAX - slots ? slots + window : UINT64_MAX);
    search->window = search->draft.limited ? UINT64_MAX : search->draft.slots.total - slots;
    keep_links(search, UINT64_MAX);
    return consider(search);
}

/* ---------------------------------------------------------------- candidates */

#define SHARES 8u        /* the budget is shared out in as many */
#define SHORT_CYCLE 512u /* recipes are varied more than once */

struct recipe {
    unsigned share;  /* of SHARES, for what is kept in pass 1 */
    unsigned window; /* slots for the rest, of the largest unit */
    enum { NOTHING_AT_ALL, UNITS, LINKS } kept;
    uint64_t enough; /* bytes of a window, with which and more than which it gives the same; UINT64_MAX: not known */
};

static uint64_t window_of(const struct rp_search *search, unsigned slots)
{
    return search->largest > UINT64_MAX / slots ? UINT64_MAX : search->largest * slots;
}

/* Followed, and remembered if it is the best of the recipes. */
static void follow(struct rp_search *search, struct recipe recipe, struct recipe *best, struct rp_score *score)
{
    uint64_t share = search->draft.budget / SHARES * recipe.share, window = window_of(search, recipe.window);

    rp_draft_clear(&search->draft);
    if (recipe.kept == UNITS)
        keep_units(search, share);
    if (recipe.kept == LINKS)
        keep_links(search, share);
    rp_search_fill(search, window);
    uint64_t enough = search->window;
    if (rp_score_better(&search->score, score)) {
        *best = recipe;
        best->enough = enough;
        *score = search->score;
    }
}

static void try_shares(struct rp_search *search, struct recipe *best, struct rp_score *score)
{
    struct recipe recipe = {.window = 1, .kept = NOTHING_AT_ALL};

    follow(search, recipe, best, score);
    recipe.window = 2;
    follow(search, recipe, best, score);
    for (recipe.share = SHARES / 2; recipe.share <= SHARES; recipe.share += SHARES / 2) {
        recipe.kept = UNITS;
        follow(search, recipe, best, score);
        recipe.kept = LINKS;
        follow(search, recipe, best, score);
    }
}

/* True: it is the best of the recipes. */
static bool follow_window(struct rp_search *search, unsigned window, struct recipe *best, struct rp_score *score)
{
    struct recipe recipe = *best;

    if (window == best->window || window_of(search, window) >= best->enough)
        return false;
    recipe.window = window;
    follow(search, recipe, best, score);
    return best->window == window;
}

static void follow_share(struct rp_search *search, int more, struct recipe *best, struct rp_score *score)
{
    struct recipe recipe = *best;
    int share = (int)best->share + more;

    if (share <= 0 || share > (int)SHARES || best->kept == NOTHING_AT_ALL)
        return;
    recipe.share = (unsigned)share;
    follow(search, recipe, best, score);
}

/* The best of them with other windows, and with more or less of the budget. */
static void vary(struct rp_search *search, struct recipe *best, struct rp_score *score)
{
    if (!follow_window(search, 1, best, score) && follow_window(search, 4, best, score))
        follow_window(search, 16, best, score);
    for (int step = SHARES / 4; step > 0; step /= 2) {
        unsigned share = best->share;
        follow_share(search, -step, best, score);
        if (best->share == share)
            follow_share(search, step, best, score);
    }
}

#define EARLIER_MOST 3u

static void try_recipes(struct rp_search *search)
{
    struct recipe best = {.window = 2, .kept = NOTHING_AT_ALL};
    struct rp_score score = {.waits = UINT64_MAX};

    try_shares(search, &best, &score);
    for (unsigned i = 0; i < (search->model.count <= SHORT_CYCLE ? 4u : 1u); i++)
        vary(search, &best, &score);
    rp_search_back_to_best(search);
    rp_draft_score(&search->draft, &search->trace);
    for (unsigned i = 0; i < EARLIER_MOST && issue_earlier(search); i++)
        consider(search);
}

/* ---------------------------------------------------------------- preparation */

static uint64_t gain_of(const struct rp_search *search, size_t first)
{
    const struct rp_model_entry *entries = search->model.entries;
    uint64_t gain = 0;

    for (size_t place = entries[first].after; place != RP_NO_PLACE; place = entries[place].after) {
        gain += entries[place].transfer;
        if (place == first)
            break;
    }
    return gain;
}

struct ranked {
    uint64_t key; /* the largest first */
    size_t place;
};

static int compare_ranked(const void *left, const void *right)
{
    const struct ranked *a = left, *b = right;
    if (a->key != b->key)
        return a->key > b->key ? -1 : 1;
    return (a->place > b->place) - (a->place < b->place);
}

static void rank(struct ranked *ranked, size_t count, size_t *places)
{
    qsort(ranked, count, sizeof(*ranked), compare_ranked);
    for (size_t i = 0; i < count; i++)
        places[i] = ranked[i].place;
}

/* Units by what they save for a MiB, by their first gathers in the cycle; links by their length. */
static enum rp_status rank_all(struct rp_search *search)
{
    size_t count = search->model.count;
    struct ranked *units = calloc(count, sizeof(*units)), *links = calloc(count, sizeof(*links));
    bool *seen = calloc(search->draft.units + 1, sizeof(*seen));

    if (units != NULL && links != NULL && seen != NULL) {
        for (size_t place = 0; place < count; place++) {
            const struct rp_model_entry *entry = &search->model.entries[place];
            uint64_t bytes = search->draft.unit_bytes[place], mib = (bytes >> 20) + 1;
            if (!entry->gather)
                continue;
            if (bytes > search->largest && entry->reach > 0)
                search->largest = bytes;
            if (entry->before != RP_NO_PLACE)
                links[search->link_count++] = (struct ranked){
                    .key = count - rp_model_distance(&search->model, entry->before, place), .place = place};
            bool first = entry->before == RP_NO_PLACE ||
                         (search->draft.head[place] == RP_NO_PLACE && !seen[search->draft.plan[place].unit]);
            seen[search->draft.plan[place].unit] = true;
            if (first && entry->after != RP_NO_PLACE)
                units[search->unit_count++] = (struct ranked){.key = gain_of(search, place) / mib, .place = place};
        }
        rank(units, search->unit_count, search->by_gain);
        rank(links, search->link_count, search->by_link);
    }
    bool made = units != NULL && links != NULL && seen != NULL;
    free(units);
    free(links);
    free(seen);
    return made ? RP_OK : RP_NO_MEMORY;
}

/* With its model and draft already. */
static enum rp_status search_make(struct rp_search *search)
{
    size_t count = search->model.count;

    search->trace.waits = calloc(count, sizeof(*search->trace.waits));
    search->trace.idle = calloc(count, sizeof(*search->trace.idle));
    search->by_gain = calloc(count, sizeof(*search->by_gain));
    search->by_link = calloc(count, sizeof(*search->by_link));
    enum rp_status status = rp_best_make(count, &search->best);
    if (search->trace.waits == NULL || search->trace.idle == NULL || search->by_gain == NULL || search->by_link == NULL)
        return RP_NO_MEMORY;
    return status == RP_OK ? rank_all(search) : status;
}

static void search_free(struct rp_search *search)
{
    rp_draft_free(&search->draft);
    rp_model_free(&search->model);
    free(search->trace.waits);
    free(search->trace.idle);
    free(search->by_gain);
    free(search->by_link);
    rp_best_free(&search->best);
}

/* ---------------------------------------------------------------- all of it */

static bool is_known(const struct rp_plan_cycle *cycle, const struct rp_plan_ahead *ahead)
{
    if (ahead->gap_ns == NULL || (ahead->link.latency_ns == 0 && ahead->link.ns_per_mib == 0))
        return false;
    for (size_t i = cycle->first; i < cycle->end; i++) {
        if (ahead->gap_ns[i] != 0)
            return cycle->period <= LONGEST_CYCLE;
    }
    return false;
}

enum rp_status rp_plan_look_ahead(const struct rp_plan_cycle *cycle, const size_t *next, uint32_t nranks,
                                  uint64_t budget, uint64_t granule, const struct rp_plan_ahead *ahead,
                                  struct rp_plan *plan)
{
    struct rp_search search = {.plan = plan};

    if (!is_known(cycle, ahead))
        return RP_OK;
    enum rp_status status = rp_model_make(cycle, next, nranks, ahead, &search.model);
    if (status == RP_OK)
        status = rp_draft_make(&search.model, plan, nranks, budget, granule, ahead->extra, &search.draft);
    if (status == RP_OK)
        status = search_make(&search);
    if (status == RP_OK && rp_draft_adopt(&search.draft, plan)) {
        struct rp_score score = rp_draft_score(&search.draft, &search.trace);
        rp_search_take(&search, &score);
        plan->waits = search.model.known;
        plan->waits.kept = plan->waits.planned = score.waits;
        try_recipes(&search);
        status = rp_search_improve(&search);
        if (status == RP_OK && rp_score_better(&search.best.score, &score))
            status = rp_search_write(&search, plan);
    }
    search_free(&search);
    return status;
}
