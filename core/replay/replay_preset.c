/*
 * A preset order in the engine, from the lane's first call to the first arming; from then on its plan is as a learned
 * one, but that no times are known to it.
 *
 *     created ──► told ──► agreed ──► proposed ──► armed
 *       own content  │        │ rank 0:   │
 *       in the table │        │ the cycle │
 *                    └────────┴───────────┴──► dropped: learning begins
 *
 * told:    each rank has said in one word which recorded communicator it has the calls of, or why it has none. What
 *          comes of it is seen alike by all, without a proposal, once all have told.
 * agreed:  all have the same one. Rank 0 looks for the cycle in the calls that every rank has, and proposes as it does
 *          with a learned one, with the hash of the recorded calls: a rank that has others says no.
 * armed:   from the beginning of the second step, or later: before that the program has not allocated all that it
 * will, and the calls up to there must have been the recorded ones. That is checked by every rank, call by call; all
 *          find the same.
 *
 * The lane is not learned from meanwhile: table and fingerprints are free for the recorded contents. These are written
 * before the first call, and before the rank tells (release, agree.h); what is learned after a drop goes over them,
 * so a rank that still reads them then compiles another plan than the one that was proposed, and says no.
 *
 * Threads: by the thread whose turn it is on the lane.
 */
#include "core/replay/replay_private.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/plan/plan_private.h"
#include "core/steps/steps.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

/* Positions ahead of the first rank at which the arming may begin; where steps are short less, twice as many after each
 * try.
 */
#define LEAD_MOST 32u
#define TRIES_MOST 4u
#define KEYS_FROM ((uint64_t)1 << 32) /* words of `order` below it are enum rp_preset_lack */

_Static_assert(RP_PRESET_LACK_COUNT < (uint64_t)1 << 32, "a lack is no key");

static const char *const lack_texts[] = {
#define X(name, text) text,
    RP_PRESET_LACKS(X)
#undef X
};

/* ---------------------------------------------------------------- the beginning and the end */

static void write_contents(struct rp_replay *replay)
{
    const struct rp_preset *calls = replay->preset.calls;

    for (size_t i = 0; i < calls->count; i++) {
        if (calls->calls[i].kind == RP_OP_ALL_GATHER)
            rp_learn_put(replay->learn, i, calls->calls[i].content);
    }
}

void rp_preset_begin(struct rp_replay *replay)
{
    const struct rp_replay_options *options = &replay->options;
    struct rp_preset_follow *preset = &replay->preset;
    uint64_t order = options->preset_lack == RP_PRESET_UNTOLD ? RP_PRESET_NOT_ASKED : options->preset_lack;

    preset->calls = options->preset;
    preset->state = RP_PRESET_TOLD;
    preset->fits = true;
    if (options->preset_cause != NULL)
        snprintf(preset->why, sizeof(preset->why), "%s", options->preset_cause);
    if (preset->calls != NULL) {
        replay->feeding = false;
        write_contents(replay);
        rp_agree_set_recorded(replay->agree, preset->calls->count);
        order = preset->calls->key | KEYS_FROM;
    }
    rp_agree_set_order(replay->agree, order);
}

void rp_preset_free(struct rp_replay *replay)
{
    free(replay->preset.calls);
    free(replay->preset.steps);
    replay->preset.calls = NULL;
    replay->preset.steps = NULL;
    replay->preset.step_count = 0;
    replay->preset.state = RP_PRESET_OFF;
}

bool rp_preset_leads(const struct rp_replay *replay)
{
    return replay->preset.calls != NULL && replay->preset.state < RP_PRESET_ARMED;
}

/* Learning begins with the next call, if it had not begun. */
static void let_go(struct rp_replay *replay)
{
    struct rp_leader *leader = &replay->leader;

    rp_preset_free(replay);
    if (replay->feeding)
        return;
    rp_replay_drop_plan(replay);
    replay->feeding = true;
    leader->since = leader->tried_from = leader->tried_to = replay->next;
    leader->failed = 0;
}

void rp_preset_drop(struct rp_replay *replay, const char *why)
{
    if (replay->state == RP_REPLAY_ARMING)
        rp_agree_kill(replay->agree, replay->arming, replay->next);
    rp_replay_enter(replay, RP_REPLAY_LEARNING, "learning: the recorded order is not used: %s", why);
    let_go(replay);
}

/* ---------------------------------------------------------------- do all have the same? */

static void drop_by_word(struct rp_replay *replay, uint64_t least)
{
    char text[80];
    const char *why = text;

    if (least >= KEYS_FROM)
        why = "ranks have traces of different runs";
    else if (replay->options.preset_lack == least && replay->preset.why[0] != '\0')
        why = replay->preset.why;
    else
        snprintf(text, sizeof(text), "a rank %s", lack_texts[least]);
    rp_preset_drop(replay, why);
}

/* Once all have told: used by all or by none. */
static void settle(struct rp_replay *replay)
{
    uint64_t least = rp_agree_least_order(replay->agree), most = rp_agree_largest_order(replay->agree);

    if (least == RP_PRESET_UNTOLD)
        return;
    replay->preset.state = RP_PRESET_AGREED;
    if (least >= KEYS_FROM && least == most)
        return;
    if (least == RP_PRESET_SAID || most <= RP_PRESET_SAID)
        let_go(replay); /* nobody asked for one, or nobody need be told again */
    else
        drop_by_word(replay, least);
}

/* ---------------------------------------------------------------- do the calls fit? */

static bool call_is_small(const struct rp_preset_call *call)
{
    return rp_cycle_is_small((enum rp_op_kind)call->kind, call->bytes);
}

static void misfit(struct rp_replay *replay, const struct rp_op *op)
{
    const struct rp_preset_call *call = &replay->preset.calls->calls[replay->preset.at];
    char size[32], text[96];

    replay->preset.fits = false;
    snprintf(replay->preset.why, sizeof(replay->preset.why), "at position %llu it has %s %s, and the run %s",
             (unsigned long long)op->position, rp_op_kind_name((enum rp_op_kind)call->kind),
             rp_bytes_print(call->bytes, size, sizeof(size)), rp_op_print(op, text, sizeof(text)));
}

void rp_preset_see(struct rp_replay *replay, const struct rp_op *op, uint64_t signature, struct rp_replay_step *step)
{
    struct rp_preset_follow *preset = &replay->preset;

    if (!rp_preset_leads(replay) || !preset->fits)
        return;
    size_t at = preset->at, count = preset->calls->count;
    const struct rp_preset_call *calls = preset->calls->calls;
    while (at < count && calls[at].signature != signature && call_is_small(&calls[at]))
        at++;
    if (at < count && calls[at].signature == signature) {
        step->name = calls[at].name;
        preset->at = at + 1;
    } else if (at < count && !rp_cycle_is_small((enum rp_op_kind)op->kind, step->bytes)) {
        preset->at = at;
        misfit(replay, op);
    }
}

void rp_preset_fail(struct rp_replay *replay)
{
    if (!rp_preset_leads(replay) || !replay->preset.fits)
        return;
    replay->preset.fits = false;
    snprintf(replay->preset.why, sizeof(replay->preset.why), "a call has failed");
}

/* Rank 0, for all: the others see it at their next turn. */
static void drop_for_all(struct rp_replay *replay, const char *why)
{
    struct rp_proposal proposal = {.kind = RP_PROPOSE_DROP, .at = replay->next};

    if (rp_agree_propose(replay->agree, &proposal) != RP_NO_ARMING)
        rp_preset_drop(replay, why);
}

/* What does not fit here need not be seen by others, whose trace may be another. */
void rp_preset_turn(struct rp_replay *replay)
{
    if (replay->preset.state == RP_PRESET_TOLD)
        settle(replay);
    if (!rp_preset_leads(replay) || replay->preset.fits)
        return;
    if (replay->agree->rank == 0)
        drop_for_all(replay, replay->preset.why);
    else
        rp_preset_drop(replay, replay->preset.why);
}

/* ---------------------------------------------------------------- the recorded calls, as learned ones */

bool rp_preset_reads(const struct rp_replay *replay, uint64_t from, uint64_t to, const struct rp_proposal *proposal)
{
    if (proposal != NULL)
        return proposal->recorded != 0;
    return rp_preset_leads(replay) || (replay->recorded != 0 && from == replay->from && to == replay->to);
}

/* Of everything that a plan is compiled from; never 0. */
static uint64_t hash_items(const struct rp_replay *replay, const struct rp_learned *items, size_t count)
{
    uint64_t hash = replay->preset.calls->key;

    for (size_t i = 0; i < count; i++) {
        const uint64_t words[] = {items[i].signature, items[i].bytes, items[i].content[0], items[i].content[1],
                                  items[i].kind};
        hash = XXH3_64bits_withSeed(words, sizeof(words), hash);
    }
    return hash | 1;
}

enum rp_status rp_preset_read(const struct rp_replay *replay, uint64_t to, struct rp_learned *items, uint64_t *hash_out)
{
    if (replay->preset.calls == NULL || to > rp_agree_least_recorded(replay->agree))
        return RP_NOT_FOUND;
    for (size_t i = 0; i < to; i++) {
        const struct rp_preset_call *call = &replay->preset.calls->calls[i];
        items[i] = (struct rp_learned){
            .signature = call->signature, .bytes = call->bytes, .kind = call->kind, .packable = call->packable};
        if (call->kind == RP_OP_ALL_GATHER)
            rp_learn_sum(replay->learn, i, items[i].content);
    }
    *hash_out = hash_items(replay, items, (size_t)to);
    return RP_OK;
}

struct rp_name rp_preset_name(const struct rp_replay *replay, uint64_t position)
{
    const struct rp_preset *calls = replay->preset.calls;

    return calls != NULL && position < calls->count ? calls->calls[position].name : (struct rp_name){0};
}

/* ---------------------------------------------------------------- rank 0: the cycle */

/* Takes the steps over; *end_out: of the longest run of whole ones, the last of such; 0: there is none. */
static void take_steps(struct rp_preset_follow *preset, struct rp_step *steps, size_t step_count, size_t count,
                       size_t *end_out)
{
    size_t run = 0, longest = 0;

    for (size_t i = 0; i < step_count; i++) {
        run = steps[i].kind == RP_STEP_WHOLE ? run + 1 : 0;
        if (run == 0 || run < longest)
            continue;
        longest = run;
        *end_out = i + 1 < step_count ? steps[i + 1].first : count;
    }
    free(preset->steps);
    preset->steps = steps;
    preset->step_count = step_count;
}

static enum rp_status cut_steps(struct rp_preset_follow *preset, const struct rp_learned *items, size_t count,
                                size_t *end_out)
{
    struct rp_cycle_item *classes = calloc(count, sizeof(*classes));
    struct rp_step *steps = NULL;
    size_t step_count;
    enum rp_status status = classes == NULL ? RP_NO_MEMORY : rp_plan_classify(items, count, classes);

    if (status == RP_OK)
        status = rp_steps_cut(classes, count, &steps, &step_count);
    if (status == RP_OK)
        take_steps(preset, steps, step_count, count, end_out);
    free(classes);
    return status;
}

/* Where the first of the cycles begins that the plan's is the last of, without anything between. */
static size_t first_cycle(const struct rp_replay *replay)
{
    size_t start = replay->plan.first;

    for (size_t before = start; before != SIZE_MAX; before = rp_cycle_before(replay, start))
        start = before;
    return start;
}

static bool compiles(struct rp_replay *replay, size_t to, uint64_t budget)
{
    if (to == 0 || rp_replay_compile(replay, 0, to, budget, NULL) != RP_OK)
        return false;
    replay->preset.to = to;
    return true;
}

/* What learning would have found at the end of the recorded calls, or of their best part. */
static bool find_cycle(struct rp_replay *replay, uint64_t budget)
{
    size_t count = (size_t)rp_agree_least_recorded(replay->agree), end = 0;
    struct rp_learned *items = calloc(count + 1, sizeof(*items));
    uint64_t hash;
    enum rp_status status = items == NULL ? RP_NO_MEMORY : rp_preset_read(replay, count, items, &hash);

    if (status == RP_OK && count > 0)
        status = cut_steps(&replay->preset, items, count, &end);
    free(items);
    return status == RP_OK && (compiles(replay, end, budget) || compiles(replay, count, budget));
}

/* ---------------------------------------------------------------- rank 0: when */

/* The number of the first step that ends a whole one and does not begin before `least`; the last one + 1: none. */
static size_t step_from(const struct rp_preset_follow *preset, size_t least)
{
    size_t step = 1;

    while (step < preset->step_count && preset->steps[step - 1].kind != RP_STEP_WHOLE)
        step++;
    while (step < preset->step_count && preset->steps[step].first < least)
        step++;
    return step;
}

/*
 * How far ahead of the next position the arming begins: where a step does, the second at the earliest, since hosts
 * often wait for one another at its end; and so far ahead of the first rank that all can still answer. It is time once
 * all ranks have come half through the first one: slots are got then, from what the program has left.
 */
static bool is_time(const struct rp_replay *replay, uint64_t *ahead_out)
{
    const struct rp_preset_follow *preset = &replay->preset;
    uint64_t cycle = rp_cycle_positions(replay), farthest = rp_agree_largest_passed(replay->agree);
    uint64_t lead = (cycle / 4 < LEAD_MOST ? cycle / 4 + 1 : LEAD_MOST) << replay->leader.failed;
    uint64_t least = lead + (farthest > replay->next ? farthest - replay->next : 0);
    size_t second = step_from(preset, 0), step = step_from(preset, preset->at + least);
    uint64_t half = second < preset->step_count ? preset->steps[second].first / 2 : 0;

    *ahead_out = step < preset->step_count ? preset->steps[step].first - preset->at : least;
    return rp_agree_least_passed(replay->agree) >= half;
}

void rp_preset_lead(struct rp_replay *replay)
{
    struct rp_preset_follow *preset = &replay->preset;
    uint64_t budget, ahead;

    if (preset->state != RP_PRESET_AGREED || !rp_arming_budget(replay, &budget))
        return;
    if (preset->to == 0 && !find_cycle(replay, budget)) {
        drop_for_all(replay, "it shows no whole cycle, or nothing in it that could be kept");
        return;
    }
    if (replay->leader.failed == TRIES_MOST) {
        drop_for_all(replay, "a rank was not ready, or has other calls");
        return;
    }
    if (!is_time(replay, &ahead))
        return;
    if (compiles(replay, preset->to, budget))
        rp_arming_propose(replay, budget, replay->next + ahead);
    else
        drop_for_all(replay, "nothing of it fits into memory");
}

/* ---------------------------------------------------------------- the arming */

/* Where the lane came to the recorded call `index`, all before which it has made; small ones come and go. */
static uint64_t position_of(const struct rp_replay *replay, size_t index)
{
    const struct rp_preset_call *calls = replay->preset.calls->calls;
    uint64_t position = 0;

    for (size_t i = 0; i < index; i++) {
        if (call_is_small(&calls[i]))
            continue;
        while (position < replay->next && rp_past_at(replay, position)->signature != calls[i].signature)
            position++;
        if (position == replay->next)
            return UINT64_MAX;
        position++;
    }
    return position;
}

bool rp_preset_reached(struct rp_replay *replay)
{
    if (!rp_preset_leads(replay))
        return true;
    if (!replay->preset.fits || replay->recorded == 0) {
        rp_agree_kill(replay->agree, replay->arming, replay->next);
        return false;
    }
    replay->preset.began = UINT64_MAX;
    if (replay->next <= replay->past_count)
        replay->preset.began = position_of(replay, first_cycle(replay));
    replay->preset.state = RP_PRESET_ARMED;
    return true;
}
