/*
 * Armed: what is done with an op of the lane, and what its verdict changes. Everything here follows from the lane's
 * signatures, the plan and the verdicts read, alike on all ranks, but for one thing: which vote this rank casts.
 *
 * Threads: by the thread whose turn it is on the lane.
 */
#include "core/replay/replay_private.h"

#include <stdio.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

/* So many cycles must have served half of what the plan keeps in one, else the order is not that of the program. */
#define LOOK_CYCLES 4u
/* In a row, and the waits before them are forgiven: the first one only fills slots, and is voted on nowhere. */
#define GOOD_CYCLES 2u
/* In a row: learning again costs a few cycles. */
#define PAID_CYCLES 32u

/* ---------------------------------------------------------------- misses */

/* A run of misses that was no place of the plan: the slots that it refilled hold units that nobody knows. */
static void forget_run(struct rp_replay *replay)
{
    struct rp_armed *armed = &replay->armed;

    for (size_t i = 0; i < armed->run_count; i++) {
        struct rp_slot_belief *slot = &replay->slots[replay->run[i].slot];
        uint32_t snapshot = replay->plan.entries[replay->run[i].entry].snapshot;
        if (slot->serial == replay->run[i].position)
            slot->unit = RP_NO_UNIT;
        if (snapshot != RP_NO_SLOT && replay->snapshots[snapshot].serial == replay->run[i].position)
            replay->snapshots[snapshot].unit = RP_NO_UNIT;
    }
    armed->run_count = 0;
}

/* Misses in two cycles running: its content is new each time. */
static void count_run(struct rp_replay *replay)
{
    struct rp_armed *armed = &replay->armed;

    for (size_t i = 0; i < armed->run_count; i++) {
        uint32_t entry = replay->run[i].entry;
        if (replay->missed_in[entry] + 1 == armed->cycle) {
            replay->cursor.actions[entry] = RP_PLAN_NETWORK;
            if (entry == replay->last_keep)
                rp_replay_find_last_keep(replay);
        }
        replay->missed_in[entry] = armed->cycle;
    }
    armed->misses += armed->run_count;
    armed->run_count = 0;
}

static void add_miss(struct rp_replay *replay, const struct rp_replay_step *step)
{
    struct rp_armed *armed = &replay->armed;

    if (step->entry == RP_NO_ENTRY || !step->expected_hit || armed->run_count == replay->plan.count)
        return;
    replay->run[armed->run_count++] =
        (struct rp_missed){.entry = step->entry, .slot = step->slot, .position = step->position};
}

/* ---------------------------------------------------------------- cycles */

static bool order_lost(const struct rp_replay *replay, struct rp_armed *armed, size_t keeps)
{
    if (!rp_ahead_counts(replay)) {
        armed->looked = armed->cycle;
        armed->looked_hits = 0;
    }
    if (armed->cycle - armed->looked < LOOK_CYCLES)
        return false;
    bool lost = armed->looked_hits < (keeps + 1) / 2;
    armed->looked = armed->cycle;
    armed->looked_hits = 0;
    return lost;
}

/* The op at hand is the first of a cycle, or the lane is lost and as many have passed. May end the arming. */
static void begin_cycle(struct rp_replay *replay)
{
    struct rp_armed *armed = &replay->armed;
    size_t keeps = replay->plan.keeps + replay->plan.prefetches;
    bool good = armed->ops >= replay->plan.count && armed->hits > 0;

    rp_trial_cycle(replay, armed->ops == replay->plan.count && !armed->diverged && rp_ahead_counts(replay));
    armed->good_cycles = good ? armed->good_cycles + 1 : 0;
    if (armed->good_cycles >= GOOD_CYCLES)
        replay->leader.withdrawals = 0;
    if (armed->good_cycles >= PAID_CYCLES)
        replay->leader.relearned = 0;
    count_run(replay);
    armed->bad_cycles = armed->misses * 10 > keeps ? armed->bad_cycles + 1 : 0;
    replay->leader.missed = armed->misses;
    armed->ops = 0;
    armed->looked_hits += armed->hits;
    armed->hits = 0;
    armed->misses = 0;
    armed->diverged = false;
    armed->cycle++;
    bool lost = order_lost(replay, armed, keeps);
    if (armed->end != RP_VERDICT_OPEN)
        rp_arming_end(replay, RP_REST_ENDED);
    else if (replay->agree->rank == 0 && replay->plan.prefetches > 0 &&
             rp_agree_largest_child(replay->agree) == RP_CHILD_OF_RANK_FAILED)
        rp_arming_end(replay, RP_REST_CHILD);
    else if (replay->agree->rank == 0 && (armed->bad_cycles >= 2 || lost))
        rp_arming_end(replay, lost ? RP_REST_ORDER : RP_REST_MISSES);
}

static void count_op(struct rp_replay *replay, enum rp_cursor_move move)
{
    struct rp_armed *armed = &replay->armed;
    bool first = move != RP_CURSOR_FOREIGN && rp_cursor_sole(&replay->cursor) == 0;

    if (move == RP_CURSOR_DIVERGED) {
        replay->figures.divergences++;
        armed->diverged = true;
        forget_run(replay);
    }
    if (first || armed->ops > replay->plan.count)
        begin_cycle(replay);
    armed->ops++;
}

/* ---------------------------------------------------------------- what to do */

uint64_t rp_serve_digest(const struct rp_replay *replay, const struct rp_replay_step *step)
{
    uint64_t words[] = {replay->folded, replay->plan.hash, step->slot, step->expected, replay->filled};
    return XXH3_64bits(words, sizeof(words));
}

static enum rp_verdict own_vote(struct rp_replay *replay, uint32_t entry)
{
    /* pairs with rp_replay_lost(); the memory itself is the shim's to look after */
    if (atomic_load_explicit(&replay->lost, memory_order_relaxed))
        return RP_VERDICT_DISARM_BUDGET;
    if (entry == replay->last_keep && rp_trial_ends(replay))
        return RP_VERDICT_DISARM_SLOWER;
    return RP_VERDICT_YES;
}

/*
 * Every entry that the op may be names the same unit in the same places. *keep_out: one of them has it in the slot by
 * then, or freshness has not been seen where the plan has it: the vote tells.
 */
static bool agree_on_slot(const struct rp_cursor *cursor, bool *keep_out)
{
    const struct rp_plan_entry *first = &cursor->entries[cursor->here.at[0]];
    bool keep = !cursor->confirmed;

    if (first->slot == RP_NO_SLOT && first->snapshot == RP_NO_SLOT)
        return false;
    for (uint32_t i = 0; i < cursor->here.count; i++) {
        const struct rp_plan_entry *entry = &cursor->entries[cursor->here.at[i]];
        if (entry->unit != first->unit || entry->slot != first->slot || entry->snapshot != first->snapshot)
            return false;
        keep |= rp_plan_serves(cursor->actions[cursor->here.at[i]]);
    }
    *keep_out = keep;
    return true;
}

static void choose(struct rp_replay *replay, struct rp_replay_step *step)
{
    const struct rp_cursor *cursor = &replay->cursor;
    const struct rp_plan_entry *entry = &cursor->entries[cursor->here.at[0]];
    struct rp_slot_belief *slot;
    bool keep;

    if (!agree_on_slot(cursor, &keep))
        return;
    slot = entry->slot == RP_NO_SLOT ? NULL : &replay->slots[entry->slot];
    if (slot != NULL && slot->busy > 0)
        return;
    step->slot = entry->slot;
    step->snapshot = entry->snapshot;
    step->packed = entry->packed;
    step->unit = entry->unit;
    step->serial = step->position;
    step->arming = replay->arming;
    step->serve = RP_SERVE_STORE;
    if (slot == NULL)
        return;
    slot->busy++;
    if (!keep || slot->unit != entry->unit || (entry->source == RP_PLAN_FROM_LIVE && slot->ahead == 0))
        return; /* what is gathered ahead from a live buffer may be new: what the slot has from before is not it */
    step->serve = RP_SERVE_KEEP;
    step->expected = slot->serial;
    step->ahead = slot->ahead;
    step->expected_hit = step->entry != RP_NO_ENTRY && rp_plan_serves(cursor->actions[step->entry]);
    step->digest = rp_serve_digest(replay, step);
    step->vote = own_vote(replay, step->entry);
}

static void refuse(struct rp_replay *replay, const struct rp_op *op, struct rp_replay_step *step)
{
    uint32_t next = (uint32_t)((rp_cursor_sole(&replay->cursor) + 1) % replay->plan.count);
    const struct rp_plan_entry *entry = &replay->plan.entries[next];
    char size[32], text[96];

    step->serve = RP_SERVE_REFUSE;
    replay->refused = replay->names[next].event;
    replay->figures.divergences++;
    snprintf(replay->refusal, sizeof(replay->refusal), "expected %s %s, observed %s",
             rp_op_kind_name((enum rp_op_kind)entry->kind), rp_bytes_print(entry->bytes, size, sizeof(size)),
             rp_op_print(op, text, sizeof(text)));
}

static void name_step(const struct rp_replay *replay, struct rp_replay_step *step)
{
    step->entry = rp_cursor_sole(&replay->cursor);
    if (step->entry != RP_NO_ENTRY)
        step->name = replay->names[step->entry];
}

/* An op captured into a graph does not run now, and where it runs later is not seen: it is passed over. */
void rp_serve_step(struct rp_replay *replay, const struct rp_op *op, uint64_t signature, struct rp_replay_step *step)
{
    bool gather = op->kind == RP_OP_ALL_GATHER;

    if ((op->flags & RP_OP_CAPTURED) != 0)
        return;
    if (replay->options.strict && !rp_cursor_expects(&replay->cursor, signature)) {
        refuse(replay, op, step);
        return;
    }
    enum rp_cursor_move move = rp_cursor_see(&replay->cursor, signature);
    if (move != RP_CURSOR_FOREIGN || gather)
        count_op(replay, move);
    if (replay->state != RP_REPLAY_ARMED)
        return;
    if (move != RP_CURSOR_FOREIGN) {
        struct rp_cursor_mark mark = rp_cursor_mark(&replay->cursor);
        step->epoch = mark.epoch;
        step->moves = mark.moves;
        name_step(replay, step);
        choose(replay, step);
        rp_ahead_ask(replay, step);
    }
    if (gather && step->serve == RP_SERVE_PASS)
        replay->figures.passed++;
}

/* ---------------------------------------------------------------- what came of it */

static struct rp_cursor_mark mark_of(const struct rp_replay_step *step)
{
    return (struct rp_cursor_mark){.epoch = step->epoch, .moves = step->moves};
}

/* A real gather has left its result there. */
static void fill_slot(struct rp_replay *replay, const struct rp_replay_step *step)
{
    rp_ahead_stored(replay, step);
    if (step->slot == RP_NO_SLOT)
        return;
    replay->slots[step->slot].unit = step->unit;
    replay->slots[step->slot].serial = step->serial;
    replay->slots[step->slot].ahead = 0;
}

static void hit(struct rp_replay *replay, const struct rp_replay_step *step)
{
    replay->armed.hits++;
    replay->slots[step->slot].ahead = 0; /* served again it is kept */
    rp_cursor_hit(&replay->cursor, mark_of(step));
    count_run(replay);
}

static void miss(struct rp_replay *replay, const struct rp_replay_step *step)
{
    bool confirmed = replay->cursor.confirmed;

    fill_slot(replay, step);
    rp_ahead_missed(replay, step);
    add_miss(replay, step);
    rp_cursor_miss(&replay->cursor, mark_of(step));
    if (!confirmed && replay->cursor.confirmed)
        replay->armed.run_count = 0; /* new content where the plan has it: the misses before it were the same */
}

static void count_verdict(struct rp_replay_figures *figures, const struct rp_replay_step *step, enum rp_verdict verdict)
{
    if (verdict == RP_VERDICT_YES) {
        figures->hits++;
        figures->ahead += step->ahead != 0;
        figures->packed += step->packed;
        figures->bytes_kept += step->ahead != 0 ? 0 : step->bytes;
    } else if (verdict == RP_VERDICT_WITHDRAWN) {
        figures->withdrawn++;
    } else {
        figures->misses++;
    }
}

/* A no that came because the arming is over says nothing of the content, and not the same on all ranks. */
static void obey(struct rp_replay *replay, const struct rp_replay_step *step, enum rp_verdict verdict)
{
    bool dead = rp_agree_dead(replay->agree, step->arming, step->position);

    replay->armed.answered = true;
    if (verdict == RP_VERDICT_BROKEN) {
        rp_replay_give_up(replay, rp_verdict_text(verdict));
    } else if (verdict == RP_VERDICT_YES) {
        hit(replay, step);
    } else if (rp_verdict_disarms(verdict)) {
        fill_slot(replay, step);
        replay->armed.end = verdict;
    } else if (verdict == RP_VERDICT_WITHDRAWN || dead) {
        rp_arming_end(replay, verdict == RP_VERDICT_WITHDRAWN ? RP_REST_WITHDRAWN : RP_REST_ENDED);
    } else {
        miss(replay, step);
    }
}

void rp_serve_done(struct rp_replay *replay, const struct rp_replay_step *step, const struct rp_replay_result *result)
{
    if (step->serve != RP_SERVE_STORE && step->serve != RP_SERVE_KEEP)
        return;
    if (step->slot != RP_NO_SLOT)
        replay->slots[step->slot].busy--;
    if (result->failed)
        return;
    if (step->serve == RP_SERVE_STORE)
        replay->figures.stored++;
    else
        count_verdict(&replay->figures, step, result->verdict);
    if (replay->state != RP_REPLAY_ARMED || step->arming != replay->arming)
        return;
    if (step->serve == RP_SERVE_STORE)
        fill_slot(replay, step);
    else
        obey(replay, step, result->verdict);
}
