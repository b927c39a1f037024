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
    free(replay->measured.gap_ns);
    free(replay->names);
    free(replay->slots);
    free(replay->snapshots);
    free(replay->issued);
    free(replay->missed_in);
    free(replay->run);
    replay->plan = (struct rp_plan){0};
    replay->items = NULL;
    replay->measured = (struct rp_measured){0};
    replay->names = NULL;
    replay->slots = replay->snapshots = NULL;
    replay->issued = NULL;
    replay->missed_in = NULL;
    replay->run = NULL;
    replay->from = replay->to = replay->recorded = 0;
}

/* What the calls of the last cycle were named. */
static void name_entries(struct rp_replay *replay)
{
    size_t entry = 0;

    for (size_t i = replay->plan.first; i < replay->plan.end && entry < replay->plan.count; i++) {
        const struct rp_learned *item = &replay->items[i];
        uint64_t position = replay->from + i;
        if (rp_learned_is_small(item))
            continue;
        if (replay->recorded != 0)
            replay->names[entry] = rp_preset_name(replay, position);
        else if (rp_past_has(replay, position))
            replay->names[entry] = rp_past_at(replay, position)->name;
        entry++;
    }
}

/* By the actions as they hold now. */
void rp_replay_find_last_keep(struct rp_replay *replay)
{
    replay->last_keep = RP_NO_ENTRY;
    for (uint32_t i = 0; i < replay->plan.count; i++) {
        if (rp_plan_serves(replay->cursor.actions[i]))
            replay->last_keep = i;
    }
}

/* What a plan is compiled from. */
struct basis {
    uint64_t from, to;
    uint64_t recorded; /* as in struct rp_replay; 1 until it is known */
    struct rp_learned *items;
    struct rp_measured measured;
};

static void basis_free(struct basis *basis)
{
    free(basis->items);
    free(basis->measured.gap_ns);
}

static bool is_at_hand(const struct rp_replay *replay, const struct basis *basis)
{
    return replay->items != NULL && basis->from == replay->from && basis->to == replay->to &&
           (basis->recorded != 0) == (replay->recorded != 0);
}

/* Takes over plan and basis, in any case. */
static enum rp_status adopt(struct rp_replay *replay, struct rp_plan *plan, const struct basis *basis)
{
    bool same = is_at_hand(replay, basis); /* another budget: what was measured holds */

    rp_replay_drop_plan(replay);
    replay->plan = *plan;
    replay->items = basis->items;
    replay->measured = basis->measured;
    replay->names = calloc(plan->count, sizeof(*replay->names));
    replay->slots = calloc(plan->slot_count + 1, sizeof(*replay->slots));
    replay->snapshots = calloc(plan->snapshot_count + 1, sizeof(*replay->snapshots));
    replay->issued = calloc(plan->count, sizeof(*replay->issued));
    replay->missed_in = calloc(plan->count, sizeof(*replay->missed_in));
    replay->run = calloc(plan->count, sizeof(*replay->run));
    if (replay->names == NULL || replay->slots == NULL || replay->snapshots == NULL || replay->issued == NULL ||
        replay->missed_in == NULL || replay->run == NULL || rp_cursor_create(&replay->plan, &replay->cursor) != RP_OK) {
        rp_replay_drop_plan(replay);
        return RP_NO_MEMORY;
    }
    replay->from = basis->from;
    replay->to = basis->to;
    replay->recorded = basis->recorded;
    name_entries(replay);
    rp_trial_rest(replay); /* the cursor is another */
    if (!same || replay->trial.plain == RP_PLAIN_LEARNING)
        rp_trial_plain(replay);
    return RP_OK;
}

/* The learned data of the range; those of the plan at hand are kept with it. */
static enum rp_status read_items(const struct rp_replay *replay, struct basis *basis)
{
    size_t count = (size_t)(basis->to - basis->from);

    basis->items = malloc(count * sizeof(*basis->items));
    if (basis->items == NULL)
        return RP_NO_MEMORY;
    if (!is_at_hand(replay, basis) && basis->recorded != 0)
        return rp_preset_read(replay, basis->to, basis->items, &basis->recorded);
    if (!is_at_hand(replay, basis))
        return rp_learn_read(replay->learn, replay->agree, basis->from, basis->to, basis->items);
    memcpy(basis->items, replay->items, count * sizeof(*basis->items));
    basis->recorded = replay->recorded;
    return RP_OK;
}

/* Rank 0 measures, once a range; what it proposed is what all compile with. Of a recorded lane no times are known. */
static enum rp_status read_measured(const struct rp_replay *replay, const struct rp_proposal *proposal,
                                    struct basis *basis)
{
    if (basis->recorded != 0)
        return RP_OK;
    if (proposal != NULL)
        return rp_measured_read(replay, proposal, &basis->measured);
    if (is_at_hand(replay, basis) && !replay->leader.alone)
        return rp_measured_copy(&replay->measured, (size_t)(basis->to - basis->from), &basis->measured);
    return rp_measured_make(replay, basis->items, basis->from, basis->to, &basis->measured);
}

bool rp_replay_may_pack(const struct rp_replay *replay)
{
    return replay->options.packs && rp_agree_largest_unpackable(replay->agree) == 0;
}

static enum rp_status compile(const struct rp_replay *replay, const struct basis *basis, uint64_t budget, bool packs,
                              struct rp_plan *plan_out)
{
    struct rp_plan_ahead ahead = {.gap_ns = basis->measured.gap_ns, .link = basis->measured.link, .packs = packs};

    return rp_plan_compile_ahead(basis->items, (size_t)(basis->to - basis->from), replay->agree->nranks, budget,
                                 replay->options.granule, &ahead, plan_out);
}

/*
 * Makes the plan of the range and budget the engine's own: rank 0's, with what it measured, or the one proposed, if it
 * has that hash, and the recorded calls theirs. RP_CORRUPT: it has another. After an error there may be no plan.
 */
enum rp_status rp_replay_compile(struct rp_replay *replay, uint64_t from, uint64_t to, uint64_t budget,
                                 const struct rp_proposal *proposal)
{
    struct basis basis = {.from = from, .to = to, .recorded = rp_preset_reads(replay, from, to, proposal)};
    struct rp_plan plan = {0};
    bool packs = proposal == NULL ? rp_replay_may_pack(replay) : proposal->packs != 0;

    if (from >= to || to - from > replay->past_count)
        return RP_NOT_FOUND;
    enum rp_status status = read_items(replay, &basis);
    if (status == RP_OK)
        status = read_measured(replay, proposal, &basis);
    if (status == RP_OK)
        status = compile(replay, &basis, budget, packs, &plan);
    if (status == RP_OK && proposal != NULL && (plan.hash != proposal->plan || basis.recorded != proposal->recorded))
        status = RP_CORRUPT;
    if (status == RP_OK)
        return adopt(replay, &plan, &basis);
    rp_plan_free(&plan);
    basis_free(&basis);
    return status;
}

/*
 * Where the lane stands at the next position, from plan and calls alone: verdicts of an earlier arming were not seen
 * alike by all ranks at its end. Follows the calls from the end of the learned cycle, or from where a recorded one
 * began, or from the oldest that the ring has, which is the same on all ranks.
 */
void rp_replay_place(struct rp_replay *replay)
{
    uint64_t known = replay->recorded != 0 ? replay->preset.began : replay->from + replay->plan.end;
    uint64_t oldest = replay->next > replay->past_count ? replay->next - replay->past_count : 0;
    bool at_end = known == replay->next || rp_past_has(replay, known);
    uint64_t position = at_end ? known : oldest;

    rp_cursor_reset(&replay->cursor, &replay->plan, at_end);
    rp_replay_find_last_keep(replay);
    for (; position < replay->next; position++)
        rp_cursor_see(&replay->cursor, rp_past_at(replay, position)->signature);
    for (size_t i = 0; i < replay->plan.count; i++)
        replay->missed_in[i] = 0;
    for (size_t i = 0; i < replay->plan.slot_count; i++)
        replay->slots[i] = (struct rp_slot_belief){.unit = RP_NO_UNIT};
}
