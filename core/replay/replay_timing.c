/*
 * Do no harm: the time of a cycle plain and armed. Each rank's own times: what comes of them reaches the other ranks as
 * its vote.
 *
 *     learned ──► compared ──► rested
 *
 * learned:  an arming goes on while its cycles are far shorter than those that were learned from. Those are no measure
 *           of plain ones: learning reads all that gathers send, and a program that is warming up takes any time.
 * compared: once, soon if the gain is not clear, else later, the lane rests for some cycles,
 * rested:   and those, which passed untouched, are what armed cycles are measured by from then on.
 *
 * Times are of the device, between two places in the caller's stream (stamps), since a host may run any way ahead.
 * While it learns, each gather is a place: where cycles begin is not known yet. The stamps behind gathers, which
 * replay_times.c wants, move the same clock.
 *
 * Threads: by the thread whose turn it is on the lane.
 */
#include "core/replay/replay_private.h"

#define JUDGED_CYCLES 3u  /* a median of fewer is chance */
#define HASTY_CYCLES 2u   /* but so many are enough if none of them is shorter */
#define CLEAR_PERCENT 70u /* of a learned cycle: a shorter one is a clear gain, for a while */
#define CLEAR_CYCLES 64u  /* so long; what the rest then costs is little beside */

/* Of the device's clock here; streams that are behind one another make it go back, too. */
#define CLOCK_BEGIN (UINT64_C(1) << 62)

static void add_time(struct rp_times *times, uint64_t ns)
{
    times->ns[times->count++ % RP_TRIAL_CYCLES] = ns;
}

static uint32_t known_times(const struct rp_times *times)
{
    return times->count < RP_TRIAL_CYCLES ? times->count : RP_TRIAL_CYCLES;
}

/* 0: none. */
static uint64_t median(const struct rp_times *times)
{
    uint64_t sorted[RP_TRIAL_CYCLES];
    uint32_t count = known_times(times);

    for (uint32_t i = 0; i < count; i++) {
        uint32_t place = i;
        for (; place > 0 && sorted[place - 1] > times->ns[i]; place--)
            sorted[place] = sorted[place - 1];
        sorted[place] = times->ns[i];
    }
    return count == 0 ? 0 : sorted[count / 2];
}

/* ---------------------------------------------------------------- laps */

enum lap_move { LAP_RUNS, LAP_BEGINS, LAP_ENDS /* and the next begins */ };

/*
 * One more op of the plan has passed. A lap is a whole cycle from any place on, since behind a divergence the place may
 * stay unknown among equal microbatches.
 */
static enum lap_move lap_move(struct rp_lap *lap, const struct rp_replay *replay)
{
    struct rp_cursor_mark mark = rp_cursor_mark(&replay->cursor);
    bool same = lap->runs && mark.epoch == lap->mark.epoch;
    bool whole = same && mark.moves - lap->mark.moves == replay->plan.count;

    if (same && !whole)
        return LAP_RUNS;
    *lap = (struct rp_lap){.runs = true, .mark = mark};
    return whole ? LAP_ENDS : LAP_BEGINS;
}

/* ---------------------------------------------------------------- stamps */

/* The device's time at the op at hand; there a span of that kind ends, which began where it was asked for last. */
static void ask_stamp(struct rp_replay *replay, enum rp_span span)
{
    struct rp_stamps *stamps = &replay->stamps;

    if (stamps->asked - stamps->come == RP_STAMPS)
        stamps->come++; /* the oldest will not come any more */
    stamps->ring[stamps->asked++ % RP_STAMPS] = (struct rp_stamp){
        .position = replay->next, .from = stamps->last_asked, .stretch = stamps->stretch, .span = span};
    stamps->wanted = true;
    stamps->last_asked = replay->next;
}

bool rp_trial_stamp_wanted(struct rp_replay *replay)
{
    bool wanted = replay->stamps.wanted;

    replay->stamps.wanted = false;
    return wanted;
}

static void take_span(struct rp_replay *replay, enum rp_span span, uint64_t ns)
{
    struct rp_trial *trial = &replay->trial;

    if (span == RP_SPAN_REST) {
        add_time(&trial->rest, ns);
        if (replay->state == RP_REPLAY_ARMED && trial->plain != RP_PLAIN_RESTED)
            rp_trial_take_rest(replay);
        return;
    }
    add_time(&trial->armed, ns);
    replay->figures.replay_cycle_ns = median(&trial->armed);
    trial->passed |= trial->armed.count == RP_TRIAL_CYCLES && !rp_trial_slower(replay);
}

/* One in front of an op; others than those asked for say nothing here. What was asked for before and has not come never
 * will. */
static void take_front(struct rp_replay *replay, uint64_t position)
{
    struct rp_stamps *stamps = &replay->stamps;

    while (stamps->come != stamps->asked && stamps->ring[stamps->come % RP_STAMPS].position < position)
        stamps->come++;
    if (stamps->come == stamps->asked || stamps->ring[stamps->come % RP_STAMPS].position != position)
        return;
    const struct rp_stamp *stamp = &stamps->ring[stamps->come++ % RP_STAMPS];
    uint64_t last = stamps->last_come;
    uint64_t ns = stamps->clock_ns > stamps->front_ns ? stamps->clock_ns - stamps->front_ns : 0;
    stamps->last_come = position;
    stamps->front_ns = stamps->clock_ns;
    /* a time of the rest may come when the next arming has begun */
    bool late = stamp->span == RP_SPAN_REST && stamp->stretch + 1 == stamps->stretch;
    if (stamp->span != RP_SPAN_NONE && stamp->from == last && ns != 0 && (stamp->stretch == stamps->stretch || late))
        take_span(replay, stamp->span, ns);
}

void rp_trial_stamp(struct rp_replay *replay, uint64_t position, enum rp_stamp_kind kind, int64_t ns)
{
    struct rp_stamps *stamps = &replay->stamps;

    if (stamps->clock_ns == 0)
        stamps->clock_ns = stamps->front_ns = CLOCK_BEGIN;
    else
        stamps->clock_ns += (uint64_t)ns;
    if (replay->past != NULL && rp_past_has(replay, position))
        rp_past_at(replay, position)->ns[kind] = stamps->clock_ns;
    if (kind == RP_STAMP_BEGIN)
        take_front(replay, position);
}

/* ---------------------------------------------------------------- plain */

size_t rp_cycle_before(const struct rp_replay *replay, size_t end)
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
        size_t earlier = rp_cycle_before(replay, start);
        if (earlier == SIZE_MAX || !rp_past_has(replay, replay->from + earlier))
            break;
        start = earlier;
    }
    return replay->from + start;
}

static void take_plain(struct rp_replay *replay, enum rp_plain plain, const struct rp_times *times)
{
    replay->trial.plain = plain;
    replay->trial.plain_ns = replay->figures.plain_cycle_ns = median(times);
    rp_agree_set_cycle_ns(replay->agree, replay->trial.plain_ns);
}

/* From the calls since, the latest cycles. Leaves the cursor anywhere. */
void rp_trial_plain(struct rp_replay *replay)
{
    struct rp_times times = {0};
    struct rp_lap lap = {0};
    uint64_t began_ns = 0, position = first_cycle(replay);

    rp_cursor_reset(&replay->cursor, &replay->plan, true);
    for (; rp_past_has(replay, position); position++) {
        const struct rp_past *past = rp_past_at(replay, position);
        if (rp_cursor_see(&replay->cursor, past->signature) == RP_CURSOR_FOREIGN)
            continue;
        enum lap_move move = lap_move(&lap, replay);
        uint64_t ns = past->ns[RP_STAMP_BEGIN];
        if (move == LAP_ENDS && began_ns != 0 && ns > began_ns)
            add_time(&times, ns - began_ns);
        if (move != LAP_RUNS)
            began_ns = ns;
    }
    replay->trial = (struct rp_trial){0};
    take_plain(replay, RP_PLAIN_LEARNING, &times);
}

void rp_trial_rest(struct rp_replay *replay)
{
    replay->stamps.stretch++;
    replay->trial.rest = (struct rp_times){0};
    replay->trial.lap = (struct rp_lap){0};
    replay->trial.rested = false;
}

/* The first cycle may still feel the arming. */
void rp_trial_rest_see(struct rp_replay *replay, uint64_t signature)
{
    struct rp_trial *trial = &replay->trial;

    if (replay->to == replay->from || trial->rest.count >= RP_TRIAL_CYCLES)
        return;
    if (rp_cursor_see(&replay->cursor, signature) == RP_CURSOR_FOREIGN)
        return;
    enum lap_move move = lap_move(&trial->lap, replay);
    if (move != LAP_RUNS)
        ask_stamp(replay, move == LAP_ENDS && trial->rested ? RP_SPAN_REST : RP_SPAN_NONE);
    trial->rested |= move == LAP_ENDS;
}

bool rp_trial_take_rest(struct rp_replay *replay)
{
    if (replay->trial.rest.count < JUDGED_CYCLES)
        return false;
    take_plain(replay, RP_PLAIN_RESTED, &replay->trial.rest);
    return true;
}

/* ---------------------------------------------------------------- armed */

/* No armed cycle is shorter than `ns`. */
static bool all_longer(const struct rp_times *times, uint64_t ns)
{
    uint32_t count = known_times(times);

    for (uint32_t i = 0; i < count; i++) {
        if (times->ns[i] < ns)
            return false;
    }
    return ns != 0 && count >= HASTY_CYCLES;
}

bool rp_trial_slower(const struct rp_replay *replay)
{
    const struct rp_trial *trial = &replay->trial;

    if (trial->armed.count < JUDGED_CYCLES)
        return all_longer(&trial->armed, trial->plain_ns);
    return trial->plain_ns != 0 && median(&trial->armed) >= trial->plain_ns;
}

/* Passed once, it is not judged again: a slow cycle now and then is the program's own. */
bool rp_trial_ends(const struct rp_replay *replay)
{
    const struct rp_trial *trial = &replay->trial;

    if (!replay->options.trial)
        return false;
    if (trial->plain == RP_PLAIN_LEARNED && all_longer(&trial->armed, trial->plain_ns))
        return true; /* longer than cycles that were read for fingerprints, too */
    if (trial->armed.count < JUDGED_CYCLES)
        return false;
    if (trial->plain == RP_PLAIN_LEARNED)
        return trial->armed.count >= CLEAR_CYCLES || median(&trial->armed) >= trial->plain_ns / 100 * CLEAR_PERCENT;
    return trial->plain == RP_PLAIN_RESTED && !trial->passed && rp_trial_slower(replay);
}

/* The first whole cycle fills slots; it is not counted. */
void rp_trial_cycle(struct rp_replay *replay, bool whole)
{
    struct rp_trial *trial = &replay->trial;
    bool counts = whole && trial->began && trial->whole++ > 0;

    trial->began = true;
    ask_stamp(replay, counts ? RP_SPAN_ARMED : RP_SPAN_NONE);
}

/* What passed since the first arming was not plain. A rest that could not be timed leaves the gain unknown. */
void rp_trial_begin(struct rp_replay *replay)
{
    struct rp_trial *trial = &replay->trial;

    if (trial->plain == RP_PLAIN_LEARNING)
        rp_trial_plain(replay);
    if (!rp_trial_take_rest(replay) && trial->plain == RP_PLAIN_LEARNED && replay->leader.rest == RP_REST_COMPARE)
        trial->plain = RP_PLAIN_UNKNOWN;
    else if (trial->plain == RP_PLAIN_LEARNING)
        trial->plain = RP_PLAIN_LEARNED;
    *trial = (struct rp_trial){.plain_ns = trial->plain_ns, .plain = trial->plain, .rest = trial->rest};
    replay->stamps.stretch++;
}
