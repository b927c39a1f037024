/*
 * Gathers ahead: what of the plan is issued, and what is then believed of slots and snapshots.
 *
 * A gather that one rank issues and another does not stays on the device for ever, and who then waits for the whole
 * device never comes back. Ranks do not see the end of an arming at the same position, so issuing must not hang on it:
 *
 *     position   s           s + 1   s + 2      ...        next s
 *     a word     yes         -       -                     no
 *     issued     what hangs on each entry, on all ranks    nothing
 *                └─────────── while ops follow the plan ──┘
 *
 * Where a cycle begins all ranks vote. After a yes each one issues what the plan hangs on the entries of that cycle,
 * as long as its calls follow the plan op by op, armed or not; and which entries that is, is settled there. A yes at
 * a position says that nobody has read anything before it otherwise than the others, and calls are alike on all ranks.
 *
 *     WARM    every rank has joined the child: all warm it          COMMIT  it is ready: this cycle's are issued
 *
 * NCCL pairs the n-th gather of the child on one rank with the n-th on the others, whatever they hold. So the digest of
 * every vote covers all that was issued on the child: where sequences differ, the lane is broken before what was
 * gathered is served.
 *
 * Threads: by the thread whose turn it is on the lane.
 */
#include <string.h>

#include "core/lane.h"
#include "core/replay/replay_private.h"

/* Words in a row that were a no: a rank will never be ready. */
#define REFUSED_MOST 16u

static void forget(struct rp_slot_belief *beliefs, size_t count)
{
    for (size_t i = 0; i < count; i++)
        beliefs[i].unit = RP_NO_UNIT;
}

void rp_ahead_begin(struct rp_replay *replay)
{
    replay->ahead = (struct rp_ahead){0};
    forget(replay->snapshots, replay->plan.snapshot_count);
}

void rp_ahead_stop(struct rp_replay *replay)
{
    replay->ahead = (struct rp_ahead){0};
}

bool rp_ahead_busy(const struct rp_replay *replay)
{
    return replay->ahead.follows || replay->ahead.issue != replay->ahead.end;
}

bool rp_ahead_counts(const struct rp_replay *replay)
{
    return replay->plan.prefetches == 0 || replay->ahead.committed;
}

/* ---------------------------------------------------------------- which cycle */

void rp_ahead_see(struct rp_replay *replay, uint64_t signature, struct rp_replay_step *step)
{
    struct rp_ahead *ahead = &replay->ahead;

    if (!ahead->follows)
        return;
    if (signature == replay->plan.entries[ahead->next].signature) {
        step->follow = ahead->next++;
        ahead->follows = ahead->next < replay->plan.count;
    } else if (rp_cursor_knows(&replay->cursor, signature)) {
        ahead->follows = false;
    }
}

/*
 * Until the word is read the cycle is followed as if it were a yes: in a group other ops come before. Where misses have
 * moved the place, it may come here while the last cycle is still followed: only calls end that, not what ranks
 * believe.
 */
void rp_ahead_ask(struct rp_replay *replay, struct rp_replay_step *step)
{
    struct rp_ahead *ahead = &replay->ahead;

    if (replay->plan.prefetches == 0 || step->entry != 0 || ahead->follows)
        return;
    step->word = ahead->warmed ? RP_WORD_COMMIT : RP_WORD_WARM;
    step->follow = 0;
    ahead->follows = ahead->warmed && replay->plan.count > 1;
    ahead->next = 1;
    /* here, for between this and the word's end ranks may see the arming end at different calls of a group */
    for (size_t i = 0; i < replay->plan.count; i++)
        replay->issued[i] = replay->cursor.actions[i] == RP_PLAN_PREFETCH;
    if (step->serve == RP_SERVE_KEEP)
        return;
    step->arming = replay->arming;
    step->digest = rp_serve_digest(replay, step);
}

static void commit(struct rp_replay *replay, bool yes)
{
    struct rp_ahead *ahead = &replay->ahead;

    ahead->committed = yes;
    ahead->follows = ahead->follows && yes;
}

/* Slots hold nothing behind it. */
static void warm(struct rp_replay *replay, bool yes)
{
    replay->ahead.committed = false;
    replay->ahead.warmed = yes;
    if (yes)
        forget(replay->slots, replay->plan.slot_count);
}

/* A word of its own, not a KEEP's. */
static void obey_word(struct rp_replay *replay, const struct rp_replay_step *step, enum rp_verdict verdict)
{
    replay->armed.answered = true;
    if (verdict == RP_VERDICT_BROKEN)
        rp_replay_give_up(replay, rp_verdict_text(verdict));
    else if (verdict == RP_VERDICT_WITHDRAWN)
        rp_arming_end(replay, RP_REST_WITHDRAWN);
    else if (verdict != RP_VERDICT_YES && rp_agree_dead(replay->agree, step->arming, step->position))
        rp_arming_end(replay, RP_REST_ENDED);
}

static void word_done(struct rp_replay *replay, const struct rp_replay_step *step, enum rp_verdict verdict)
{
    struct rp_ahead *ahead = &replay->ahead;
    bool holds = replay->state == RP_REPLAY_ARMED && step->arming == replay->arming;

    if (step->word == RP_WORD_COMMIT)
        commit(replay, verdict == RP_VERDICT_YES);
    else
        warm(replay, verdict == RP_VERDICT_YES && holds);
    ahead->refused = verdict == RP_VERDICT_YES ? 0 : ahead->refused + 1;
    if (holds && step->serve != RP_SERVE_KEEP)
        obey_word(replay, step, verdict);
    if (replay->state == RP_REPLAY_ARMED && replay->agree->rank == 0 && ahead->refused == REFUSED_MOST)
        rp_arming_end(replay, RP_REST_CHILD);
}

/* ---------------------------------------------------------------- what is issued */

void rp_ahead_done(struct rp_replay *replay, const struct rp_replay_step *step, const struct rp_replay_result *result)
{
    struct rp_ahead *ahead = &replay->ahead;

    if (result->failed && step->follow != RP_NO_ENTRY && step->word == RP_WORD_NONE) {
        /* it is no part of the lane: what comes next may be the same again */
        ahead->next = step->follow < ahead->next ? step->follow : ahead->next;
        ahead->follows = ahead->committed;
        return;
    }
    if (step->word != RP_WORD_NONE)
        word_done(replay, step, result->failed ? RP_VERDICT_NO : result->verdict);
    if (step->follow == RP_NO_ENTRY || !ahead->committed)
        return;
    ahead->issue = replay->plan.issues_at[step->follow];
    ahead->end = replay->plan.issues_at[step->follow + 1];
    ahead->entry = step->follow;
    ahead->position = step->position;
}

/* The slot is the unit's from here on, if all know what is sent; of a live buffer the compare tells. */
static void believe(struct rp_replay *replay, const struct rp_plan_entry *entry)
{
    struct rp_slot_belief live = {.unit = entry->unit, .serial = replay->ahead.position};
    const struct rp_slot_belief *from =
        entry->source == RP_PLAN_FROM_LIVE ? &live : &replay->snapshots[entry->snapshot];
    struct rp_slot_belief *slot = &replay->slots[entry->slot];

    slot->unit = from->unit == entry->unit ? entry->unit : RP_NO_UNIT;
    slot->serial = from->serial;
    slot->ahead = replay->fills;
}

/* Of the next op that is the entry, if all ops up to it are the plan's. */
static uint64_t expected_position(const struct rp_replay *replay, uint32_t entry)
{
    uint32_t from = replay->ahead.entry;
    uint64_t cycle = entry > from ? 0 : replay->plan.count;

    return replay->ahead.position + cycle + entry - from;
}

bool rp_replay_fill(struct rp_replay *replay, struct rp_replay_fill *fill_out)
{
    struct rp_ahead *ahead = &replay->ahead;

    while (ahead->issue != ahead->end) {
        uint32_t number = replay->plan.issues[ahead->issue++];
        const struct rp_plan_entry *entry = &replay->plan.entries[number];
        if (replay->issued[number] == 0)
            continue;
        replay->fills++;
        believe(replay, entry);
        replay->filled = rp_lane_fold(rp_lane_fold(replay->filled, number), ahead->position);
        bool live = entry->source == RP_PLAN_FROM_LIVE;
        *fill_out = (struct rp_replay_fill){.entry = number,
                                            .slot = entry->slot,
                                            .snapshot = live ? RP_NO_SLOT : entry->snapshot,
                                            .bytes = entry->bytes,
                                            .serial = ahead->position,
                                            .position = expected_position(replay, number),
                                            .number = replay->fills};
        return true;
    }
    return false;
}

/* ---------------------------------------------------------------- beliefs */

void rp_ahead_stored(struct rp_replay *replay, const struct rp_replay_step *step)
{
    if (step->snapshot == RP_NO_SLOT)
        return;
    replay->snapshots[step->snapshot].unit = step->unit;
    replay->snapshots[step->snapshot].serial = step->serial;
}

/* What was gathered ahead of the unit before is of the generation before. */
void rp_ahead_missed(struct rp_replay *replay, const struct rp_replay_step *step)
{
    for (uint32_t i = 0; i < replay->plan.slot_count && replay->plan.prefetches > 0; i++) {
        if (i != step->slot && replay->slots[i].unit == step->unit)
            replay->slots[i].unit = RP_NO_UNIT;
    }
}
