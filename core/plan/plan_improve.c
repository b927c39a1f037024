/*
 * Changes of single entries and of two at once: a gather is sent by the network, kept, or prefetched from another entry
 * on. First each gather alone; then what fits no more gives way, and what is left is filled up anew; then with any
 * change of another one. After a change that helps the simpler ones are tried again. Steps are counted, so that all
 * ranks stop at the same one. plan_ahead.h has the threads.
 */
#include "core/plan/plan_ahead.h"

/* Entries looked at, in all; an attempt looks at each of the cycle's a few times. */
#define EFFORT 500000u
#define LENGTHS 16u /* tried for a prefetch */

enum depth { ALONE, AROUND, TOGETHER };

struct improver {
    struct rp_search *search;
    uint64_t left, attempt; /* effort */
};

/* Is the draft, as its choices are now, better than the best? Then it is the best. */
static bool attempt(struct improver *improver)
{
    struct rp_search *search = improver->search;

    if (improver->left < improver->attempt)
        return false;
    improver->left -= improver->attempt;
    if (!rp_draft_pack(&search->draft))
        return false;
    struct rp_score score = rp_draft_score(&search->draft, NULL);
    if (!rp_score_better(&score, &search->best.score))
        return false;
    rp_search_take(search, &score);
    return true;
}

/* The choices that a gather has: 0 network, 1 keep, further ones prefetched so far ahead less 1. False: not this one.
 */
static bool choice_of(const struct rp_search *search, size_t place, size_t number, struct rp_choice *choice_out)
{
    const struct rp_model_entry *entry = &search->model.entries[place];

    *choice_out = (struct rp_choice){.action = RP_PLAN_NETWORK, .issue = RP_NO_ISSUE};
    if (number == 1)
        choice_out->action = RP_PLAN_KEEP;
    if (number > 1) {
        choice_out->action = RP_PLAN_PREFETCH;
        choice_out->issue = (uint32_t)rp_model_back(&search->model, place, number - 1);
    }
    const struct rp_choice *now = &search->draft.choices[place];
    if (number > 1 && !rp_model_may_issue(&search->model, place, number - 1))
        return false;
    return (number != 1 || entry->before != RP_NO_PLACE) &&
           (now->action != choice_out->action || now->issue != choice_out->issue);
}

static size_t count_choices(const struct rp_search *search, size_t place)
{
    size_t reach = search->model.entries[place].reach;
    return 2 + (reach < LENGTHS ? reach : LENGTHS);
}

/* The gather as it is now, and around it what fits, filled up anew. */
static bool attempt_around(struct improver *improver, size_t place)
{
    struct rp_search *search = improver->search;

    if (improver->left >= 2 * improver->attempt) {
        improver->left -= 2 * improver->attempt;
        if (rp_draft_pack_around(&search->draft, place) && rp_search_fill(search, UINT64_MAX))
            return true;
    }
    rp_search_back_to_best(search);
    return false;
}

static bool change_another(struct improver *improver, size_t place)
{
    struct rp_search *search = improver->search;

    for (size_t i = 0; i < search->draft.gathers; i++) {
        size_t other = search->draft.by_size[i], count = count_choices(search, other);
        struct rp_choice *now = &search->draft.choices[other], was = *now, choice;
        for (size_t number = 0; number < count && other != place; number++) {
            if (improver->left < improver->attempt)
                return false;
            if (!choice_of(search, other, number, &choice))
                continue;
            *now = choice;
            if (attempt(improver))
                return true;
            *now = was;
        }
    }
    return false;
}

static bool change_entry(struct improver *improver, size_t place, enum depth depth)
{
    struct rp_search *search = improver->search;
    struct rp_choice *now = &search->draft.choices[place], choice;
    size_t count = count_choices(search, place);
    bool improved = false;

    for (size_t number = 0; number < count && improver->left >= improver->attempt; number++) {
        struct rp_choice was = *now;
        if (!choice_of(search, place, number, &choice))
            continue;
        *now = choice;
        if (depth == ALONE    ? attempt(improver)
            : depth == AROUND ? attempt_around(improver, place)
                              : change_another(improver, place))
            improved = true;
        else
            *now = was;
    }
    return improved;
}

/* The unit of the gather, kept for good, and around it what fits. */
static bool keep_unit(struct improver *improver, size_t first)
{
    struct rp_search *search = improver->search;

    for (size_t place = search->model.entries[first].after; place != RP_NO_PLACE;
         place = search->model.entries[place].after) {
        search->draft.choices[place] = (struct rp_choice){.action = RP_PLAN_KEEP, .issue = RP_NO_ISSUE};
        if (place == first)
            break;
    }
    return attempt_around(improver, search->model.entries[first].after);
}

static bool change_all(struct improver *improver, enum depth depth)
{
    bool improved = false;

    for (size_t i = 0; i < improver->search->draft.gathers && improver->left >= improver->attempt; i++)
        improved |= change_entry(improver, improver->search->draft.by_size[i], depth);
    for (size_t i = 0; depth == AROUND && i < improver->search->unit_count && improver->left >= improver->attempt; i++)
        improved |= keep_unit(improver, improver->search->by_gain[i]);
    return improved;
}

static void climb(struct improver *improver, enum depth deepest)
{
    rp_search_back_to_best(improver->search);
    for (enum depth depth = ALONE; depth <= deepest && improver->left >= improver->attempt;)
        depth = change_all(improver, depth) ? ALONE : depth + 1;
}

/* ---------------------------------------------------------------- other beginnings */

enum rest { REST_OF_BEST, REST_NETWORK };

/* From the best with one gather changed, or from nothing but that. True: filled up and improved it is the best now. */
static bool begin_with(struct improver *improver, struct rp_best *overall, size_t place, size_t number, enum rest rest)
{
    struct rp_search *search = improver->search;
    struct rp_choice choice;

    rp_search_back_to_best(search);
    if (rest == REST_NETWORK)
        rp_draft_clear(&search->draft);
    if (!choice_of(search, place, number, &choice))
        return false;
    search->draft.choices[place] = choice;
    if (!rp_draft_pack_around(&search->draft, place))
        return false;
    rp_search_fill(search, UINT64_MAX);
    rp_search_take(search, &search->score);
    climb(improver, AROUND);
    bool better = rp_score_better(&search->best.score, &overall->score);
    rp_best_copy(better ? overall : &search->best, better ? &search->best : overall, search->model.count);
    return better;
}

static void begin_elsewhere(struct improver *improver, struct rp_best *overall)
{
    struct rp_search *search = improver->search;
    bool better = true;

    rp_best_copy(overall, &search->best, search->model.count);
    while (better) {
        better = false;
        for (size_t i = 0; i < search->draft.gathers; i++) {
            size_t place = search->draft.by_size[i];
            for (size_t number = 0; number < count_choices(search, place); number++) {
                if (improver->left < 4 * improver->attempt)
                    return;
                better |= begin_with(improver, overall, place, number, REST_OF_BEST);
                better |= begin_with(improver, overall, place, number, REST_NETWORK);
            }
        }
    }
}

/* In a long cycle single changes do not get far, so they cost more than what is looked at. */
static uint64_t attempt_cost(uint64_t count)
{
    return count * count / 16 + 3 * count + 64;
}

enum rp_status rp_search_improve(struct rp_search *search)
{
    struct improver improver = {.search = search, .left = EFFORT, .attempt = attempt_cost(search->model.count)};
    struct rp_best overall;
    enum rp_status status = rp_best_make(search->model.count, &overall);

    if (status == RP_OK) {
        climb(&improver, AROUND);
        begin_elsewhere(&improver, &overall);
        climb(&improver, TOGETHER);
    }
    rp_best_free(&overall);
    return status;
}
