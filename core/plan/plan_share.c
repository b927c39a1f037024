/*
 * Greedy, then branch and bound: the largest size is decided first, from the number of slots on that it has when the
 * last slot may be had in part; that is also the bound. plan_share.h has the job and the threads.
 */
#include "core/plan/plan_share.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define EFFORT 20000u /* runs looked at */
#define RUNS_MOST 256u

__extension__ typedef unsigned __int128 wide;

struct search {
    struct rp_share *share;
    struct rp_share_run *by_worth; /* the most for its bytes first */
    size_t *slots, *best;          /* of a size */
    uint64_t best_value;
    size_t left; /* effort */
};

static uint64_t bytes_of(const struct rp_share *share, const struct rp_share_run *run)
{
    return share->sizes[run->size].bytes;
}

static size_t fitting(const struct rp_share *share, const struct rp_share_run *run, uint64_t budget)
{
    uint64_t fit = budget / bytes_of(share, run);
    return fit < run->slots ? (size_t)fit : run->slots;
}

/* Is a worth more than b for its bytes? */
static bool worth_more(const struct rp_share *share, const struct rp_share_run *a, const struct rp_share_run *b)
{
    return (wide)a->value * bytes_of(share, b) > (wide)b->value * bytes_of(share, a);
}

/* ---------------------------------------------------------------- greedy */

/* The run that is next of its size, worth most for its bytes, and fits. NULL: none. */
static const struct rp_share_run *best_run(const struct rp_share *share, const size_t *taken, uint64_t budget)
{
    const struct rp_share_run *best = NULL;

    for (size_t i = 0; i < share->count; i++) {
        const struct rp_share_size *size = &share->sizes[i];
        const struct rp_share_run *run = &share->runs[size->first + taken[i]];
        if (taken[i] < size->count && size->bytes <= budget && (best == NULL || worth_more(share, run, best)))
            best = run;
    }
    return best;
}

/* The value of all that is had. `taken`: zero, runs of each size. */
static uint64_t share_greedily(struct rp_share *share, size_t *taken)
{
    const struct rp_share_run *run;
    uint64_t budget = share->budget, value = 0;

    for (size_t i = 0; i < share->count; i++)
        share->sizes[i].slots = 0;
    while ((run = best_run(share, taken, budget)) != NULL) {
        size_t slots = fitting(share, run, budget);
        share->sizes[run->size].slots += slots;
        budget -= slots * bytes_of(share, run);
        value += slots * run->value;
        taken[run->size]++;
    }
    return value;
}

/* ---------------------------------------------------------------- the bound */

static void sort_by_worth(struct search *search)
{
    const struct rp_share *share = search->share;

    for (size_t i = 0; i < share->run_count; i++) {
        size_t at = i;
        for (; at > 0 && worth_more(share, &share->runs[i], &search->by_worth[at - 1]); at--)
            search->by_worth[at] = search->by_worth[at - 1];
        search->by_worth[at] = share->runs[i];
    }
}

/* The most that the first `sizes` sizes may add, the last slot in part; how many whole ones the last of them has. */
static uint64_t most_value(struct search *search, size_t sizes, uint64_t budget, size_t *slots_out)
{
    uint64_t value = 0;

    *slots_out = 0;
    for (size_t i = 0; i < search->share->run_count; i++) {
        const struct rp_share_run *run = &search->by_worth[i];
        search->left -= search->left > 0;
        if (run->size >= sizes)
            continue;
        uint64_t bytes = bytes_of(search->share, run);
        size_t slots = fitting(search->share, run, budget);
        *slots_out += run->size == sizes - 1 ? slots : 0;
        value += slots * run->value;
        budget -= slots * bytes;
        if (slots < run->slots)
            return value + (uint64_t)(((wide)run->value * budget + bytes - 1) / bytes);
    }
    return value;
}

/* ---------------------------------------------------------------- branches */

static size_t slots_of(const struct rp_share *share, size_t size)
{
    size_t slots = 0;
    for (size_t i = 0; i < share->sizes[size].count; i++)
        slots += share->runs[share->sizes[size].first + i].slots;
    return slots;
}

static uint64_t value_of(const struct rp_share *share, size_t size, size_t slots)
{
    uint64_t value = 0;
    for (size_t i = 0; slots > 0 && i < share->sizes[size].count; i++) {
        const struct rp_share_run *run = &share->runs[share->sizes[size].first + i];
        size_t some = slots < run->slots ? slots : run->slots;
        value += some * run->value;
        slots -= some;
    }
    return value;
}

static void branch(struct search *search, size_t sizes, uint64_t budget, uint64_t value);

/* With so many slots for the last of the sizes. False: that is not better, nor can it be for what lies behind it. */
static bool decide(struct search *search, size_t sizes, size_t slots, uint64_t budget, uint64_t value)
{
    const struct rp_share_size *size = &search->share->sizes[sizes - 1];
    size_t ignored;

    if (search->left == 0 || slots > budget / size->bytes)
        return false;
    budget -= slots * size->bytes;
    value += value_of(search->share, sizes - 1, slots);
    if (value + most_value(search, sizes - 1, budget, &ignored) <= search->best_value)
        return false;
    search->slots[sizes - 1] = slots;
    branch(search, sizes - 1, budget, value);
    return true;
}

/* As deep as there are sizes with runs, which are few: the thread is the application's, with what stack that has. */
static void branch(struct search *search, size_t sizes, uint64_t budget, uint64_t value)
{
    while (sizes > 0 && search->share->sizes[sizes - 1].count == 0)
        search->slots[--sizes] = 0;
    if (sizes == 0) {
        search->best_value = value;
        memcpy(search->best, search->slots, search->share->count * sizeof(*search->best));
        return;
    }
    size_t most = slots_of(search->share, sizes - 1), likely;
    most_value(search, sizes, budget, &likely);
    size_t slots = likely + 1; /* the bound is largest between these two */
    decide(search, sizes, likely, budget, value);
    while (slots <= most && decide(search, sizes, slots, budget, value))
        slots++;
    for (slots = likely; slots > 0 && decide(search, sizes, slots - 1, budget, value);)
        slots--;
}

static bool is_exact(const struct rp_share *share)
{
    for (size_t i = 0; i < share->count; i++) {
        if (share->sizes[i].values != RP_SHARE_EXACT)
            return false;
    }
    return share->count > 1;
}

enum rp_status rp_share_out(struct rp_share *share)
{
    struct search search = {.share = share, .left = EFFORT};
    enum rp_status status = RP_NO_MEMORY;

    search.slots = calloc(share->count + 1, sizeof(*search.slots));
    search.best = calloc(share->count + 1, sizeof(*search.best));
    search.by_worth = calloc(share->run_count + 1, sizeof(*search.by_worth));
    if (search.slots != NULL && search.best != NULL && search.by_worth != NULL) {
        status = RP_OK;
        search.best_value = share_greedily(share, search.slots);
        for (size_t i = 0; i < share->count; i++)
            search.best[i] = share->sizes[i].slots;
        if (is_exact(share) && share->run_count <= RUNS_MOST) {
            sort_by_worth(&search);
            branch(&search, share->count, share->budget, 0);
        }
        for (size_t i = 0; i < share->count; i++)
            share->sizes[i].slots = search.best[i];
    }
    free(search.slots);
    free(search.best);
    free(search.by_worth);
    return status;
}
