/*
 * Do no harm: the time of a cycle plain and armed. Host times of this rank: what comes of them reaches the other ranks
 * as its vote.
 *
 *     learned        an arming is let go on while its cycles are far shorter than those that were learned from
 *        │           those are no measure of plain ones: learning reads all that gathers send, and a program that is
 *        │           warming up or compiling takes any time
 *        ▼
 *     compared       once, soon if the gain is not clear, else later, the lane rests for some cycles
 *        │
 *        ▼
 *     rested         and those, which passed untouched, are what armed cycles are measured by from then on
 *
 * Threads: by the thread whose turn it is on the lane.
 */
#include "core/replay/replay_private.h"

#define JUDGED_CYCLES 3u  /* a median of fewer is chance */
#define CLEAR_PERCENT 70u /* of a learned cycle: a shorter one is a clear gain, for a while */
#define CLEAR_CYCLES 64u  /* so long; what the rest then costs is little beside */

static uint64_t median(const uint64_t *values, uint32_t count)
{
    uint64_t sorted[RP_TRIAL_CYCLES];

    for (uint32_t i = 0; i < count; i++) {
        uint32_t place = i;
        for (; place > 0 && sorted[place - 1] > values[i]; place--)
            sorted[place] = sorted[place - 1];
        sorted[place] = values[i];
    }
    return count == 0 ? 0 : sorted[count / 2];
}

/* ---------------------------------------------------------------- plain */

/* Index of the first item of the cycle that ends before `end`, or SIZE_MAX if the items there are not one. */
static size_t cycle_before(const struct rp_replay *replay, size_t end)
{
    size_t entry = replay->plan.count, index = end;

    while (entry > 0) {
        if (index == 0)
            return SIZE_MAX;
        index--;
        if (rp_learned_is_small(&replay->items[index]))
            continue;
        if (replay->items[index].signature != replay->plan.entries[--entry].signature)
            return SIZE_MAX;
    }
    return index;
}

/* Position where the first of the last learned cycles begins that the ring still has. */
static uint64_t first_cycle(const struct rp_replay *replay)
{
    size_t start = replay->plan.first;

    for (uint32_t i = 0; i < RP_TRIAL_CYCLES; i++) {
        size_t earlier = cycle_before(replay, start);
        if (earlier == SIZE_MAX || !rp_past_has(replay, replay->from + earlier))
            break;
        start = earlier;
    }
    return replay->from + start;
}

/*
 * One more op of the plan has passed. Whole cycles are timed from any place, since behind a divergence the place may
 * stay unknown among equal microbatches.
 */
static void lap_move(struct rp_laps *laps, struct rp_cursor_mark mark, uint64_t moves, uint64_t now_ns)
{
    bool whole = laps->began_ns != 0 && mark.epoch == laps->mark.epoch && mark.moves - laps->mark.moves == moves;

    if (!whole && laps->began_ns != 0 && mark.epoch == laps->mark.epoch)
        return;
    if (whole && laps->skip > 0)
        laps->skip--;
    else if (whole)
        laps->span[laps->count++ % RP_TRIAL_CYCLES] = now_ns - laps->began_ns;
    laps->mark = mark;
    laps->began_ns = now_ns;
}

static uint64_t lap_median(const struct rp_laps *laps)
{
    return median(laps->span, laps->count < RP_TRIAL_CYCLES ? laps->count : RP_TRIAL_CYCLES);
}

static void take_plain(struct rp_replay *replay, enum rp_plain plain, const struct rp_laps *laps)
{
    replay->trial.plain = plain;
    replay->trial.plain_ns = replay->figures.plain_cycle_ns = lap_median(laps);
    rp_agree_set_cycle_ns(replay->agree, replay->trial.plain_ns);
}

/*
 * From the calls since, the latest cycles: the first ones of a program run ahead of the device until it is full, or
 * wait for what is made once. Leaves the cursor anywhere.
 */
void rp_trial_plain(struct rp_replay *replay)
{
    struct rp_laps laps = {0};
    uint64_t position = first_cycle(replay);

    rp_cursor_reset(&replay->cursor, &replay->plan, true);
    for (; rp_past_has(replay, position); position++) {
        const struct rp_past *past = rp_past_at(replay, position);
        if (rp_cursor_see(&replay->cursor, past->signature) != RP_CURSOR_FOREIGN)
            lap_move(&laps, rp_cursor_mark(&replay->cursor), replay->plan.count, past->ns);
    }
    replay->trial = (struct rp_trial){0};
    take_plain(replay, RP_PLAIN_LEARNING, &laps);
}

void rp_trial_rest(struct rp_replay *replay)
{
    replay->trial.rest =
        (struct rp_laps){.skip = 1}; /* the host may still feel the arming, or run ahead of the device */
}

void rp_trial_rest_see(struct rp_replay *replay, uint64_t signature, uint64_t now_ns)
{
    struct rp_laps *rest = &replay->trial.rest;

    if (replay->to == replay->from || rest->count >= RP_TRIAL_CYCLES)
        return;
    if (rp_cursor_see(&replay->cursor, signature) != RP_CURSOR_FOREIGN)
        lap_move(rest, rp_cursor_mark(&replay->cursor), replay->plan.count, now_ns);
}

bool rp_trial_take_rest(struct rp_replay *replay)
{
    if (replay->trial.rest.count < JUDGED_CYCLES)
        return false;
    take_plain(replay, RP_PLAIN_RESTED, &replay->trial.rest);
    return true;
}

/* ---------------------------------------------------------------- armed */

static uint64_t armed_median(const struct rp_trial *trial)
{
    return median(trial->sample, trial->samples < RP_TRIAL_CYCLES ? trial->samples : RP_TRIAL_CYCLES);
}

bool rp_trial_slower(const struct rp_replay *replay)
{
    const struct rp_trial *trial = &replay->trial;

    return trial->samples >= JUDGED_CYCLES && trial->plain_ns != 0 && armed_median(trial) >= trial->plain_ns;
}

/* Passed once, it is not judged again: a slow cycle now and then is the program's own. */
bool rp_trial_ends(const struct rp_replay *replay)
{
    const struct rp_trial *trial = &replay->trial;
    bool clear = armed_median(trial) < trial->plain_ns / 100 * CLEAR_PERCENT;

    if (!replay->options.trial || trial->samples < JUDGED_CYCLES || trial->plain_ns == 0)
        return false;
    if (trial->plain == RP_PLAIN_LEARNED)
        return !clear || trial->samples >= CLEAR_CYCLES;
    return !trial->passed && rp_trial_slower(replay);
}

/* The first whole cycle fills slots; it is not counted. */
void rp_trial_cycle(struct rp_replay *replay, uint64_t now_ns, bool whole)
{
    struct rp_trial *trial = &replay->trial;
    bool counts = whole && trial->began_ns != 0 && trial->whole++ > 0;

    if (counts) {
        trial->sample[trial->samples++ % RP_TRIAL_CYCLES] = now_ns - trial->began_ns;
        replay->figures.replay_cycle_ns = armed_median(trial);
        trial->passed |= trial->samples == RP_TRIAL_CYCLES && !rp_trial_slower(replay);
    }
    trial->began_ns = now_ns;
}

/* What passed since the first arming was not plain. A rest that could not be timed leaves what was learned. */
void rp_trial_begin(struct rp_replay *replay)
{
    struct rp_trial *trial = &replay->trial;

    if (trial->plain == RP_PLAIN_LEARNING)
        rp_trial_plain(replay);
    if (!rp_trial_take_rest(replay) && trial->plain == RP_PLAIN_LEARNED && replay->leader.rest == RP_REST_COMPARE)
        trial->plain = RP_PLAIN_UNKNOWN;
    else if (trial->plain == RP_PLAIN_LEARNING)
        trial->plain = RP_PLAIN_LEARNED;
    *trial = (struct rp_trial){.plain_ns = trial->plain_ns, .plain = trial->plain};
}
