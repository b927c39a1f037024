/*
 * Do no harm: the time of a cycle plain and armed. Host times of this rank: what comes of them reaches the other ranks
 * as its vote.
 *
 * A lane that learns reads all that its gathers send, and the program is often still warming up, so cycles from then
 * are slower than plain ones. Only a clear gain over them is believed; else the lane rests for some cycles, and they
 * are what it is judged by.
 *
 * Threads: by the thread whose turn it is on the lane.
 */
#include "core/replay/replay_private.h"

#define JUDGED_CYCLES 3u  /* a median of fewer is chance */
#define CLEAR_PERCENT 90u /* of a cycle that was learned from: a shorter one is a gain beyond doubt */

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

/* Times whole cycles among the calls from `position` on, the latest ones; returns how many. Leaves the cursor anywhere.
 */
static uint32_t time_cycles(struct rp_replay *replay, uint64_t position, uint64_t spans[RP_TRIAL_CYCLES])
{
    struct rp_cursor *cursor = &replay->cursor;
    struct rp_cursor_mark mark = {0};
    uint64_t begin_ns = 0;
    uint32_t count = 0;

    rp_cursor_reset(cursor, &replay->plan, true);
    for (; rp_past_has(replay, position); position++) {
        const struct rp_past *past = rp_past_at(replay, position);
        if (rp_cursor_see(cursor, past->signature) == RP_CURSOR_FOREIGN || rp_cursor_sole(cursor) != 0)
            continue;
        if (begin_ns != 0 && cursor->moves - mark.moves == replay->plan.count && cursor->epoch == mark.epoch)
            spans[count++ % RP_TRIAL_CYCLES] = past->ns - begin_ns;
        mark = rp_cursor_mark(cursor);
        begin_ns = past->ns;
    }
    return count < RP_TRIAL_CYCLES ? count : RP_TRIAL_CYCLES;
}

static void take_plain(struct rp_replay *replay, enum rp_plain plain, const uint64_t *spans, uint32_t count)
{
    replay->trial.plain = plain;
    replay->trial.plain_ns = replay->figures.plain_cycle_ns = median(spans, count);
}

/*
 * From the calls since, the latest cycles: the first ones of a program run ahead of the device until it is full, or
 * wait for what is made once.
 */
void rp_trial_plain(struct rp_replay *replay)
{
    uint64_t spans[RP_TRIAL_CYCLES];
    uint32_t count = time_cycles(replay, first_cycle(replay), spans);

    replay->trial = (struct rp_trial){0};
    take_plain(replay, RP_PLAIN_LEARNING, spans, count);
}

bool rp_trial_rested(struct rp_replay *replay)
{
    uint64_t spans[RP_TRIAL_CYCLES], position = replay->rested;

    if (position == RP_NO_POSITION)
        return false;
    if (position < replay->next && !rp_past_has(replay, position))
        position = replay->next - replay->past_count;
    uint32_t count = time_cycles(replay, position, spans);
    if (count < JUDGED_CYCLES)
        return false;
    take_plain(replay, RP_PLAIN_RESTED, spans, count);
    return true;
}

/* ---------------------------------------------------------------- armed */

bool rp_trial_slower(const struct rp_replay *replay)
{
    const struct rp_trial *trial = &replay->trial;
    uint64_t least = trial->plain == RP_PLAIN_RESTED ? trial->plain_ns : trial->plain_ns / 100 * CLEAR_PERCENT;

    return !trial->passed && trial->samples >= JUDGED_CYCLES && trial->plain_ns != 0 &&
           median(trial->sample, trial->samples) >= least;
}

/* The first whole cycle fills slots; it is not counted. */
void rp_trial_cycle(struct rp_replay *replay, uint64_t now_ns, bool whole)
{
    struct rp_trial *trial = &replay->trial;
    bool counts = whole && trial->began_ns != 0 && trial->whole++ > 0;

    if (counts && trial->samples < RP_TRIAL_CYCLES) {
        trial->sample[trial->samples++] = now_ns - trial->began_ns;
        replay->figures.replay_cycle_ns = median(trial->sample, trial->samples);
        trial->passed = trial->samples == RP_TRIAL_CYCLES && !rp_trial_slower(replay);
    }
    trial->began_ns = now_ns;
}

/* What passed since the first arming was not plain. */
void rp_trial_begin(struct rp_replay *replay)
{
    struct rp_trial *trial = &replay->trial;

    if (trial->plain == RP_PLAIN_LEARNING)
        rp_trial_plain(replay);
    if (!rp_trial_rested(replay) && trial->plain == RP_PLAIN_LEARNING)
        trial->plain = RP_PLAIN_LEARNED;
    *trial = (struct rp_trial){.plain_ns = trial->plain_ns, .plain = trial->plain};
}
