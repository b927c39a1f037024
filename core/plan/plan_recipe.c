/*
 * Plans by recipe, each built in three passes:
 *   1. gathers are kept within a share of the budget: by rp_plan_keep(), or units for good;
 *   2. from the last gather of the cycle back to the first: each that is not kept is issued as late as the link's idle
 *      time before it allows, if there is a slot for so long and a snapshot to send from;
 *   3. what room is left keeps more, short links first; what compute still waits for is issued earlier.
 * plan_ahead.h has the threads.
 */
#include "core/plan/plan_ahead.h"

static bool consider(struct rp_search *search)
{
    search->score = rp_draft_score(&search->draft, &search->trace);
    bool better = rp_score_better(&search->score, &search->best.score);

    if (better)
        rp_search_take(search, &search->score);
    return better;
}

/* ---------------------------------------------------------------- pass 1 */

static void keep_unit(struct rp_search *search, size_t first, uint64_t share)
{
    size_t place = search->model.entries[first].after;
    bool kept = true;

    while (kept && place != RP_NO_PLACE) {
        kept = rp_draft_keep(&search->draft, place, share);
        place = place == first ? RP_NO_PLACE : search->model.entries[place].after;
    }
}

/* Units of several sizes: as many of each as fill the share best. */
static void keep_sizes(struct rp_search *search, uint64_t share)
{
    search->share.budget = share;
    if (search->share.count < 2 || rp_share_out(&search->share) != RP_OK)
        return;
    for (size_t i = 0; i < search->unit_count; i++) {
        size_t *left = &search->share.sizes[search->gain_size[i]].slots;
        if (*left == 0)
            continue;
        --*left;
        keep_unit(search, search->by_gain[i], share);
    }
}

/* Units for good, those that save most for their bytes first. */
static void keep_units(struct rp_search *search, uint64_t share)
{
    keep_sizes(search, share);
    for (size_t i = 0; i < search->unit_count && search->draft.slots.total < share; i++)
        keep_unit(search, search->by_gain[i], share);
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

/* ---------------------------------------------------------------- recipes */

#define SHARES 8u        /* the budget is shared out in as many */
#define SHORT_CYCLE 512u /* recipes of each kind are varied, and more than once */
#define VARIED_MOST 4u
#define EARLIER_MOST 3u

enum kept { NOTHING_AT_ALL, UNITS, LINKS, KINDS };

struct recipe {
    unsigned share;  /* of SHARES, for what is kept in pass 1 */
    unsigned window; /* slots for the rest, of the largest unit */
    enum kept kept;
    uint64_t enough; /* bytes of a window, with which and more than which it gives the same; UINT64_MAX: not known */
    struct rp_score score;
};

/* The best of each kind. */
struct book {
    struct recipe best[KINDS];
};

static uint64_t window_of(const struct rp_search *search, unsigned slots)
{
    return search->largest > UINT64_MAX / slots ? UINT64_MAX : search->largest * slots;
}

/* Followed, and remembered if it is the best of its kind. */
static void follow(struct rp_search *search, struct recipe recipe, struct book *book)
{
    uint64_t share = search->draft.budget / SHARES * recipe.share;

    rp_draft_clear(&search->draft);
    if (recipe.kept == UNITS)
        keep_units(search, share);
    if (recipe.kept == LINKS)
        keep_links(search, share);
    rp_search_fill(search, window_of(search, recipe.window));
    recipe.enough = search->window;
    recipe.score = search->score;
    if (rp_score_better(&recipe.score, &book->best[recipe.kept].score))
        book->best[recipe.kept] = recipe;
}

static void try_shares(struct rp_search *search, struct book *book)
{
    struct recipe recipe = {.window = 1, .kept = NOTHING_AT_ALL};

    follow(search, recipe, book);
    recipe.window = 2;
    follow(search, recipe, book);
    for (recipe.share = SHARES / 2; recipe.share <= SHARES; recipe.share += SHARES / 2) {
        recipe.kept = UNITS;
        follow(search, recipe, book);
        recipe.kept = LINKS;
        follow(search, recipe, book);
    }
}

/* True: it is the best of its kind. */
static bool follow_window(struct rp_search *search, unsigned window, enum kept kept, struct book *book)
{
    struct recipe recipe = book->best[kept];

    if (window == recipe.window || window_of(search, window) >= recipe.enough)
        return false;
    recipe.window = window;
    follow(search, recipe, book);
    return book->best[kept].window == window;
}

static bool follow_share(struct rp_search *search, int more, enum kept kept, struct book *book)
{
    struct recipe recipe = book->best[kept];
    int share = (int)recipe.share + more;

    if (share <= 0 || share > (int)SHARES || kept == NOTHING_AT_ALL)
        return false;
    recipe.share = (unsigned)share;
    follow(search, recipe, book);
    return book->best[kept].share == recipe.share;
}

/* The best of a kind with other windows, and with more or less of the budget. True: one of them is better. */
static bool vary(struct rp_search *search, enum kept kept, struct book *book)
{
    bool better = follow_window(search, 1, kept, book);

    if (!better && follow_window(search, 4, kept, book)) {
        follow_window(search, 16, kept, book);
        better = true;
    }
    for (int step = SHARES / 4; step > 0; step /= 2)
        better |= follow_share(search, -step, kept, book) || follow_share(search, step, kept, book);
    return better;
}

static void vary_all(struct rp_search *search, struct book *book)
{
    for (enum kept kept = NOTHING_AT_ALL; kept < KINDS; kept++) {
        for (unsigned i = 0; i < VARIED_MOST && vary(search, kept, book);)
            i++;
    }
}

static enum kept best_kind(const struct book *book)
{
    enum kept best = NOTHING_AT_ALL;
    for (enum kept kept = NOTHING_AT_ALL; kept < KINDS; kept++)
        best = rp_score_better(&book->best[kept].score, &book->best[best].score) ? kept : best;
    return best;
}

void rp_search_build(struct rp_search *search)
{
    struct book book;

    for (enum kept kept = NOTHING_AT_ALL; kept < KINDS; kept++)
        book.best[kept] = (struct recipe){.window = 1, .score = {.waits = UINT64_MAX}};
    try_shares(search, &book);
    if (search->model.count <= SHORT_CYCLE)
        vary_all(search, &book);
    else
        vary(search, best_kind(&book), &book);
    rp_search_back_to_best(search);
    rp_draft_score(&search->draft, &search->trace);
    for (unsigned i = 0; i < EARLIER_MOST && issue_earlier(search); i++)
        consider(search);
}
