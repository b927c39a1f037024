/*
 * Do no harm: the time of a cycle plain, from what was learned, and armed. Host times of this rank: what comes of them
 * reaches the other ranks as its vote.
 *
 * Threads: by the thread whose turn it is on the lane.
 */
#include "core/replay/replay_private.h"

#define JUDGED_CYCLES 3u /* a median of fewer is chance */

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
 * From the calls since, the latest cycles: the first ones of a program run ahead of the device until it is full, or
 * wait for what is made once. Leaves the cursor anywhere.
 */
void rp_trial_plain(struct rp_replay *replay)
{
    struct rp_cursor *cursor = &replay->cursor;
    struct rp_cursor_mark mark = {0};
    uint64_t spans[RP_TRIAL_CYCLES], begin_ns = 0, position = first_cycle(replay);
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
    replay->trial = (struct rp_trial){.plain_ns = median(spans, count < RP_TRIAL_CYCLES ? count : RP_TRIAL_CYCLES)};
    replay->figures.plain_cycle_ns = replay->trial.plain_ns;
}

/* ---------------------------------------------------------------- armed */

bool rp_trial_slower(const struct rp_replay *replay)
{
    const struct rp_trial *trial = &replay->trial;

    return !trial->passed && trial->samples >= JUDGED_CYCLES && trial->plain_ns != 0 &&
           median(trial->sample, trial->samples) >= trial->plain_ns;
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
    if (!replay->trial.measured)
        rp_trial_plain(replay);
    replay->trial = (struct rp_trial){.plain_ns = replay->trial.plain_ns, .measured = true};
}
