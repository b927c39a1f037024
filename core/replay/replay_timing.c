/*
 * Do no harm: the time of a cycle plain, from what was learned, and armed. Host times of this rank: what comes of them
 * reaches the other ranks as its vote.
 *
 * Threads: by the thread whose turn it is on the lane.
 */
#include "core/replay/replay_private.h"

#include "core/steps/cycle.h"

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

static bool is_small(const struct rp_learned *item)
{
    return item->kind != RP_OP_ALL_GATHER && item->bytes <= RP_CYCLE_SMALL_BYTES;
}

/* Index of the first item of the cycle that ends before `end`, or SIZE_MAX if the items there are not one. */
static size_t cycle_before(const struct rp_replay *replay, size_t end)
{
    size_t entry = replay->plan.count, index = end;

    while (entry > 0) {
        if (index == 0)
            return SIZE_MAX;
        index--;
        if (is_small(&replay->items[index]))
            continue;
        if (replay->items[index].signature != replay->plan.entries[--entry].signature)
            return SIZE_MAX;
    }
    return index;
}

/* When the op at the learned index was called; 0 if that is not known. */
static uint64_t called_ns(const struct rp_replay *replay, size_t index)
{
    uint64_t position = replay->from + index;
    return rp_past_has(replay, position) ? rp_past_at(replay, position)->ns : 0;
}

void rp_trial_plain(struct rp_replay *replay)
{
    struct rp_trial *trial = &replay->trial;
    uint64_t spans[RP_TRIAL_CYCLES];
    uint32_t count = 0;
    size_t start = replay->plan.end; /* where the next cycle begins, if it has */
    uint64_t end_ns = called_ns(replay, start);

    if (end_ns == 0) {
        start = replay->plan.first;
        end_ns = called_ns(replay, start);
    }

    while (count < RP_TRIAL_CYCLES && end_ns != 0) {
        start = cycle_before(replay, start);
        uint64_t begin_ns = start == SIZE_MAX ? 0 : called_ns(replay, start);
        if (begin_ns == 0)
            break;
        spans[count++] = end_ns - begin_ns;
        end_ns = begin_ns;
    }
    *trial = (struct rp_trial){.plain_ns = median(spans, count)};
    replay->figures.plain_cycle_ns = trial->plain_ns;
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

void rp_trial_restart(struct rp_replay *replay)
{
    replay->trial = (struct rp_trial){.plain_ns = replay->trial.plain_ns};
}
