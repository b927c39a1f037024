/*
 * What is gathered ahead of its use, and what is kept beside it: what is known is prepared, plans are built, the best
 * of them is improved entry by entry. The plan without prefetches is the first of them.
 *
 * Threads: pure functions of their arguments.
 */
#include "core/plan/plan_ahead.h"

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
    const struct rp_draft *draft = &search->draft;
    struct rp_best found = {
        .score = *score, .choices = draft->choices, .slot = draft->slot, .snapshot = draft->snapshot};

    rp_best_copy(&search->best, &found, search->model.count);
}

void rp_search_back_to_best(struct rp_search *search)
{
    memcpy(search->draft.choices, search->best.choices, search->model.count * sizeof(*search->best.choices));
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
            bool first =
                entry->before == RP_NO_PLACE || (entry->head == RP_NO_PLACE && !seen[search->draft.plan[place].unit]);
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

#define SIZES_MOST 16u

/* The sizes of gathers, the smallest first; none if there are too many. */
static void find_sizes(struct rp_search *search)
{
    struct rp_share *share = &search->share;

    for (size_t i = search->draft.gathers; i-- > 0;) {
        uint64_t bytes = search->draft.unit_bytes[search->draft.by_size[i]];
        if (share->count > 0 && share->sizes[share->count - 1].bytes == bytes)
            continue;
        if (share->count == SIZES_MOST) {
            share->count = 0;
            return;
        }
        share->sizes[share->count++] = (struct rp_share_size){.bytes = bytes};
    }
}

/* Units of one size, in the order of `by_gain`; those that save as much are a run. */
static void find_runs(struct rp_search *search, size_t number)
{
    struct rp_share *share = &search->share;
    struct rp_share_size *size = &share->sizes[number];

    size->first = share->run_count;
    for (size_t i = 0; i < search->unit_count; i++) {
        if (search->draft.unit_bytes[search->by_gain[i]] != size->bytes)
            continue;
        uint64_t gain = gain_of(search, search->by_gain[i]);
        search->gain_size[i] = number;
        if (size->count == 0 || search->runs[share->run_count - 1].value != gain) {
            search->runs[share->run_count++] = (struct rp_share_run){.size = number, .value = gain};
            size->count++;
        }
        search->runs[share->run_count - 1].slots++;
    }
}

static enum rp_status value_units(struct rp_search *search)
{
    search->share.sizes = calloc(SIZES_MOST, sizeof(*search->share.sizes));
    search->runs = calloc(search->unit_count + 1, sizeof(*search->runs));
    search->gain_size = calloc(search->unit_count + 1, sizeof(*search->gain_size));
    if (search->share.sizes == NULL || search->runs == NULL || search->gain_size == NULL)
        return RP_NO_MEMORY;
    search->share.runs = search->runs;
    find_sizes(search);
    for (size_t number = 0; number < search->share.count; number++)
        find_runs(search, number);
    return RP_OK;
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
    if (status == RP_OK)
        status = rank_all(search);
    return status == RP_OK ? value_units(search) : status;
}

static void search_free(struct rp_search *search)
{
    rp_draft_free(&search->draft);
    rp_model_free(&search->model);
    free(search->trace.waits);
    free(search->trace.idle);
    free(search->by_gain);
    free(search->by_link);
    free(search->gain_size);
    free(search->share.sizes);
    free(search->runs);
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
        rp_search_build(&search);
        status = rp_search_improve(&search);
        if (status == RP_OK)
            status = rp_search_issue_earlier(&search);
        if (status == RP_OK && rp_score_better(&search.best.score, &score))
            status = rp_search_write(&search, plan);
    }
    search_free(&search);
    return status;
}
