/*
 * The plan of an engine and what hangs on it: the data it was compiled from, names and misses of its entries, beliefs
 * of its slots, the cursor. Replaced as a whole, never while armed.
 *
 * Threads: by the thread whose turn it is on the lane.
 */
#include "core/replay/replay_private.h"

#include <stdlib.h>
#include <string.h>

void rp_replay_drop_plan(struct rp_replay *replay)
{
    rp_plan_free(&replay->plan);
    rp_cursor_free(&replay->cursor);
    free(replay->items);
    free(replay->events);
    free(replay->slots);
    free(replay->missed_in);
    free(replay->run);
    replay->plan = (struct rp_plan){0};
    replay->items = NULL;
    replay->events = NULL;
    replay->slots = NULL;
    replay->missed_in = NULL;
    replay->run = NULL;
    replay->from = replay->to = 0;
}

/* What the last learned cycle's calls were named. */
static void name_entries(struct rp_replay *replay)
{
    size_t entry = 0;

    for (size_t i = replay->plan.first; i < replay->plan.end && entry < replay->plan.count; i++) {
        const struct rp_learned *item = &replay->items[i];
        uint64_t position = replay->from + i;
        if (rp_learned_is_small(item))
            continue;
        if (rp_past_has(replay, position))
            replay->events[entry] = rp_past_at(replay, position)->event;
        entry++;
    }
}

/* By the actions as they hold now. */
void rp_replay_find_last_keep(struct rp_replay *replay)
{
    replay->last_keep = RP_NO_ENTRY;
    for (uint32_t i = 0; i < replay->plan.count; i++) {
        if (replay->cursor.actions[i] == RP_PLAN_KEEP)
            replay->last_keep = i;
    }
}

/* Takes over plan and items, in any case. */
static enum rp_status adopt(struct rp_replay *replay, struct rp_plan *plan, struct rp_learned *items, uint64_t from,
                            uint64_t to)
{
    bool same = replay->from == from && replay->to == to; /* another budget: what was measured holds */

    rp_replay_drop_plan(replay);
    replay->plan = *plan;
    replay->items = items;
    replay->events = calloc(plan->count, sizeof(*replay->events));
    replay->slots = calloc(plan->slot_count, sizeof(*replay->slots));
    replay->missed_in = calloc(plan->count, sizeof(*replay->missed_in));
    replay->run = calloc(plan->count, sizeof(*replay->run));
    if (replay->events == NULL || replay->slots == NULL || replay->missed_in == NULL || replay->run == NULL ||
        rp_cursor_create(&replay->plan, &replay->cursor) != RP_OK) {
        rp_replay_drop_plan(replay);
        return RP_NO_MEMORY;
    }
    replay->from = from;
    replay->to = to;
    name_entries(replay);
    rp_trial_rest(replay); /* the cursor is another */
    if (!same || replay->trial.plain == RP_PLAIN_LEARNING)
        rp_trial_plain(replay);
    return RP_OK;
}

/* The learned data of the range; those of the plan at hand are kept with it. */
static enum rp_status read_items(const struct rp_replay *replay, uint64_t from, uint64_t to,
                                 struct rp_learned **items_out)
{
    bool kept = replay->items != NULL && from == replay->from && to == replay->to;
    struct rp_learned *items = malloc((size_t)(to - from) * sizeof(*items));
    enum rp_status status = RP_OK;

    if (items == NULL)
        return RP_NO_MEMORY;
    if (kept)
        memcpy(items, replay->items, (size_t)(to - from) * sizeof(*items));
    else
        status = rp_learn_read(replay->learn, replay->agree, from, to, items);
    if (status != RP_OK) {
        free(items);
        return status;
    }
    *items_out = items;
    return RP_OK;
}

/*
 * Makes the plan of the range and budget the engine's own, if it has the hash (NULL: any). RP_CORRUPT: it has another.
 * After an error there may be no plan.
 */
enum rp_status rp_replay_compile(struct rp_replay *replay, uint64_t from, uint64_t to, uint64_t budget,
                                 const uint64_t *hash)
{
    struct rp_learned *items = NULL;
    struct rp_plan plan;

    if (from >= to || to - from > replay->past_count)
        return RP_NOT_FOUND;
    enum rp_status status = read_items(replay, from, to, &items);
    if (status != RP_OK)
        return status;
    status = rp_plan_compile(items, (size_t)(to - from), replay->agree->nranks, budget, replay->options.granule, &plan);
    if (status != RP_OK) {
        free(items);
        return status;
    }
    if (hash != NULL && plan.hash != *hash) {
        rp_plan_free(&plan);
        free(items);
        return RP_CORRUPT;
    }
    return adopt(replay, &plan, items, from, to);
}

/*
 * Where the lane stands at the next position, from plan and calls alone: verdicts of an earlier arming were not seen
 * alike by all ranks at its end. Follows the calls from the end of the learned cycle, or from the oldest that the ring
 * has, which is the same on all ranks.
 */
void rp_replay_place(struct rp_replay *replay)
{
    uint64_t known = replay->from + replay->plan.end;
    bool at_end = known == replay->next || rp_past_has(replay, known);
    uint64_t position = at_end ? known : replay->next - replay->past_count;

    rp_cursor_reset(&replay->cursor, &replay->plan, at_end);
    rp_replay_find_last_keep(replay);
    for (; position < replay->next; position++)
        rp_cursor_see(&replay->cursor, rp_past_at(replay, position)->signature);
    for (size_t i = 0; i < replay->plan.count; i++)
        replay->missed_in[i] = 0;
    for (size_t i = 0; i < replay->plan.slot_count; i++)
        replay->slots[i] = (struct rp_slot_belief){.unit = RP_NO_UNIT};
}
