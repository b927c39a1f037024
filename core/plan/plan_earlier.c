/*
 * Times are never exact, so what costs nothing is issued earlier than it has to be: each gather ahead while its slot is
 * free anyway, for about as long as its transfer takes. Slots, snapshots and the order of gathers ahead stay as they
 * are, and compute waits no longer by the model. First other ops are passed too, then for half as long, then none: a
 * link that carries the same in the same order, some of it sooner, ends nothing later. plan_ahead.h has the threads.
 */
#include "core/plan/plan_ahead.h"

#include <stdlib.h>
#include <string.h>

#define ENTRIES_MOST 4u /* that a gather is issued earlier */

/* How far to go: for a transfer's time over so much, and past other ops on the link? */
struct extent {
    unsigned divisor;
    enum { PAST_NONE, PAST_OTHERS } past;
};

static const struct extent extents[] = {{1, PAST_OTHERS}, {2, PAST_OTHERS}, {1, PAST_NONE}};

/* A gather ahead, in the order in which they are issued. */
struct issued {
    size_t place, issue;
};

/* In which entries the slots of the best are in use. */
static void mark_slots(struct rp_search *search)
{
    struct rp_draft *draft = &search->draft;
    const struct rp_best *best = &search->best;

    rp_pool_clear(&draft->slots);
    for (size_t place = 0; place < search->model.count; place++) {
        const struct rp_choice *choice = &best->choices[place];
        if (choice->action != RP_PLAN_KEEP && choice->action != RP_PLAN_PREFETCH)
            continue;
        size_t from = choice->action == RP_PLAN_KEEP ? search->model.entries[place].before : choice->issue;
        while (draft->slots.count <= best->slot[place])
            rp_pool_grow(&draft->slots, draft->unit_bytes[place]);
        rp_pool_take(&draft->slots, best->slot[place],
                     rp_draft_span_behind(draft, from, rp_model_distance(&search->model, from, place)));
    }
}

static bool comes_behind(const struct rp_model *model, size_t issue, size_t place, const struct issued *before)
{
    return issue != before->issue ||
           rp_model_distance(model, issue, place) > rp_model_distance(model, issue, before->place);
}

static bool is_sent(const struct rp_search *search, size_t place)
{
    uint8_t action = search->best.choices[place].action;
    return action != RP_PLAN_KEEP && action != RP_PLAN_PREFETCH;
}

/* By how many entries: so many that the time has gone by, or as many as can be had. */
static size_t earlier_by(struct rp_search *search, size_t place, struct extent extent, const struct issued *before)
{
    const struct rp_model *model = &search->model;
    size_t issue = search->best.choices[place].issue, length = rp_model_distance(model, issue, place), by = 0;
    size_t apart = before->issue == issue ? 0 : rp_model_distance(model, before->issue, issue);
    size_t most = rp_pool_free_before(&search->draft.slots, search->best.slot[place], issue, ENTRIES_MOST);
    uint64_t slack = model->entries[place].transfer / extent.divisor, gone = 0;

    for (size_t i = 1; i <= most && i <= apart && length + i <= model->entries[place].reach && gone < slack; i++) {
        size_t at = rp_model_back(model, issue, i), passed = rp_model_back(model, issue, i - 1);
        if (extent.past == PAST_NONE && is_sent(search, passed))
            break;
        gone += model->entries[passed].gap + search->trace.waits[passed];
        if (rp_model_may_issue(model, place, length + i) && comes_behind(model, at, place, before))
            by = i;
    }
    return by;
}

/* Into the draft's choices. True: some are issued earlier. */
static bool issue_all(struct rp_search *search, const struct issued *issued, size_t count, struct extent extent)
{
    struct issued before = issued[count - 1]; /* of the cycle before */
    bool changed = false;

    for (size_t i = 0; i < count; i++) {
        size_t place = issued[i].place, by = earlier_by(search, place, extent, &before);
        before = (struct issued){.place = place, .issue = rp_model_back(&search->model, issued[i].issue, by)};
        search->draft.choices[place].issue = (uint32_t)before.issue;
        changed |= by > 0;
    }
    return changed;
}

/* As the model's last run had them. */
static size_t list_issued(const struct rp_search *search, struct issued *issued)
{
    size_t count = 0;

    for (size_t issue = 0; issue < search->model.count; issue++) {
        for (uint32_t place = search->model.first[issue]; place != RP_MODEL_END; place = search->model.follows[place])
            issued[count++] = (struct issued){.place = place, .issue = issue};
    }
    return count;
}

enum rp_status rp_search_issue_earlier(struct rp_search *search)
{
    struct rp_best *best = &search->best;
    struct issued *issued = calloc(search->model.count, sizeof(*issued));

    if (issued == NULL)
        return RP_NO_MEMORY;
    rp_model_run(&search->model, best->choices, &search->trace);
    size_t count = list_issued(search, issued);
    mark_slots(search);
    for (size_t i = 0; count > 0 && i < sizeof(extents) / sizeof(extents[0]); i++) {
        rp_search_back_to_best(search);
        if (!issue_all(search, issued, count, extents[i]))
            break;
        uint64_t waits = rp_model_run(&search->model, search->draft.choices, NULL);
        if (waits > best->score.waits)
            continue;
        best->score.waits = waits;
        memcpy(best->choices, search->draft.choices, search->model.count * sizeof(*best->choices));
        break;
    }
    free(issued);
    return RP_OK;
}
