/*
 * The contract of the engine: a call comes in (next), the shim acts, the call is done; between calls there is a turn.
 * Here are the lane's own records (positions, digest, the ring of past calls) and the states; what is decided stands in
 * the files that replay_private.h lists.
 *
 * Threads: by the thread whose turn it is on the lane; rp_replay_lost() by any.
 */
#include "core/replay/replay_private.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/lane.h"

#define BOUND_LEAST_NS UINT64_C(20000000)
#define BOUND_CYCLES 4

/* ---------------------------------------------------------------- life and states */

enum rp_status rp_replay_create(struct rp_agree *agree, void *table, const struct rp_replay_options *options,
                                rp_replay_tell *tell, void *context, struct rp_replay **replay_out)
{
    struct rp_replay *replay = calloc(1, sizeof(*replay));

    if (replay == NULL) {
        free(options->preset);
        return RP_NO_MEMORY;
    }
    replay->agree = agree;
    replay->options = *options;
    replay->tell = tell;
    replay->context = context;
    replay->state = replay->calm = RP_REPLAY_LEARNING;
    replay->feeding = true;
    replay->past_count = rp_learn_positions(agree->nranks);
    replay->past = calloc(replay->past_count, sizeof(*replay->past));
    enum rp_status status =
        replay->past == NULL ? RP_NO_MEMORY : rp_learn_create(table, agree->nranks, agree->rank, &replay->learn);
    if (status != RP_OK) {
        free(options->preset);
        rp_replay_destroy(replay);
        return status;
    }
    rp_preset_begin(replay);
    *replay_out = replay;
    return RP_OK;
}

void rp_replay_destroy(struct rp_replay *replay)
{
    if (replay == NULL)
        return;
    rp_replay_drop_plan(replay);
    rp_preset_free(replay);
    rp_learn_destroy(replay->learn);
    free(replay->past);
    free(replay);
}

static bool may_enter(enum rp_replay_state from, enum rp_replay_state to)
{
#define TO(name) (1u << RP_REPLAY_##name)
    static const unsigned allowed[] = {
        [RP_REPLAY_PASSIVE] = 0,
        [RP_REPLAY_LEARNING] = TO(LEARNING) | TO(ARMING) | TO(PASSIVE),
        [RP_REPLAY_ARMING] = TO(LEARNING) | TO(RESTING) | TO(ARMED) | TO(PASSIVE),
        [RP_REPLAY_ARMED] = TO(RESTING) | TO(PASSIVE),
        [RP_REPLAY_RESTING] = TO(RESTING) | TO(ARMING) | TO(LEARNING) | TO(PASSIVE),
    };
#undef TO
    return (allowed[from] & 1u << to) != 0;
}

bool rp_replay_enter(struct rp_replay *replay, enum rp_replay_state state, const char *format, ...)
{
    char text[256];
    va_list arguments;

    if (!may_enter(replay->state, state))
        return false;
    replay->state = state;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    replay->tell(replay->context, state, text);
    return true;
}

/* From here on the lane costs nothing. The plan stays: the shim may look at it. */
static void become_passive(struct rp_replay *replay, const char *why)
{
    if (replay->state == RP_REPLAY_ARMED || replay->state == RP_REPLAY_ARMING)
        rp_agree_kill(replay->agree, replay->arming, replay->next);
    if (!rp_replay_enter(replay, RP_REPLAY_PASSIVE, "passive: %s", why))
        return;
    replay->feeding = false;
    rp_preset_free(replay);
    rp_learn_destroy(replay->learn);
    free(replay->past);
    replay->learn = NULL;
    replay->past = NULL;
}

/* For good, and for all ranks. */
void rp_replay_give_up(struct rp_replay *replay, const char *why)
{
    rp_agree_give_up(replay->agree);
    become_passive(replay, why);
}

void rp_replay_end(struct rp_replay *replay)
{
    rp_ahead_stop(replay);
    rp_replay_give_up(replay, "the communicator ends");
}

enum rp_replay_state rp_replay_state(const struct rp_replay *replay)
{
    return replay->state;
}

/* ---------------------------------------------------------------- a call comes in */

static struct rp_replay_step plain_step(const struct rp_op *op)
{
    return (struct rp_replay_step){
        .serve = RP_SERVE_PASS,
        .slot = RP_NO_SLOT,
        .bytes = rp_op_bytes(op),
        .arming = RP_NO_ARMING,
        .position = op->position,
        .vote = RP_VERDICT_YES,
        .snapshot = RP_NO_SLOT,
        .unit = RP_NO_UNIT,
        .entry = RP_NO_ENTRY,
        .follow = RP_NO_ENTRY,
    };
}

/* States that end or begin at this position. */
static void come_to(struct rp_replay *replay)
{
    if (replay->state == RP_REPLAY_ARMED && rp_agree_dead(replay->agree, replay->arming, replay->next))
        rp_arming_end(replay, RP_REST_ENDED);
    else if (replay->state == RP_REPLAY_ARMING && replay->next >= replay->proposal.at)
        rp_arming_reached(replay);
}

/* No plan holds: calls pass untouched, and are not learned from. */
static bool rests(const struct rp_replay *replay)
{
    return replay->state == RP_REPLAY_RESTING ||
           (replay->state == RP_REPLAY_ARMING && replay->calm == RP_REPLAY_RESTING);
}

void rp_replay_next(struct rp_replay *replay, const struct rp_op *op, struct rp_replay_step *step_out)
{
    struct rp_replay_step step = plain_step(op);
    bool captured = (op->flags & RP_OP_CAPTURED) != 0;
    uint64_t signature = rp_op_signature(op);

    replay->pending++;
    if (!captured)
        rp_ahead_see(replay, signature, &step);
    *step_out = step;
    if (replay->state == RP_REPLAY_PASSIVE)
        return;
    replay->next = op->position;
    come_to(replay);
    uint64_t before = replay->folded;
    replay->folded = rp_lane_fold(before, signature);
    if (replay->state == RP_REPLAY_ARMED)
        rp_serve_step(replay, op, signature, &step);
    else if (rests(replay) && !captured)
        rp_trial_rest_see(replay, signature);
    else if (!captured)
        rp_preset_see(replay, op, signature, &step);
    step.fingerprint = replay->feeding && op->kind == RP_OP_ALL_GATHER && !captured;
    step.stamp = rp_trial_stamp_wanted(replay) || step.fingerprint;
    step.stamp_end = step.fingerprint && rp_measured_wanted(replay);
    step.stamp_waits = replay->feeding && !captured && rp_measured_wanted(replay);
    *step_out = step;
    if (step.serve == RP_SERVE_REFUSE)
        replay->folded = before;
    if (step.serve == RP_SERVE_REFUSE || replay->state == RP_REPLAY_PASSIVE)
        return;
    *rp_past_at(replay, op->position) = (struct rp_past){.signature = signature};
    replay->next = op->position + 1;
}

/* ---------------------------------------------------------------- a call is done */

/* What was captured into a graph has no content that could be learned: what was learned has a gap. */
static void learn(struct rp_replay *replay, const struct rp_op *op, const struct rp_replay_result *result)
{
    rp_past_at(replay, op->position)->name = result->name;
    if ((op->flags & RP_OP_CAPTURED) != 0)
        rp_learn_restart(replay->learn);
    else
        rp_learn_see(replay->learn, op, result->send);
}

static void count_done(struct rp_replay *replay, const struct rp_op *op, const struct rp_replay_result *result)
{
    replay->digest = rp_lane_fold(replay->digest, rp_op_signature(op));
    replay->passed = op->position + 1;
    rp_agree_set_passed(replay->agree, replay->passed);
    if (replay->feeding)
        learn(replay, op, result);
}

/* Positions behind a failed call are not what was said: all that hangs on them ends. */
static void count_failed(struct rp_replay *replay)
{
    rp_preset_fail(replay);
    if (replay->state == RP_REPLAY_ARMED)
        rp_arming_end(replay, RP_REST_FAILED);
}

void rp_replay_done(struct rp_replay *replay, const struct rp_op *op, const struct rp_replay_step *step,
                    const struct rp_replay_result *result)
{
    replay->pending--;
    rp_serve_done(replay, step, result);
    rp_ahead_done(replay, step, result);
    if (replay->state == RP_REPLAY_PASSIVE)
        return;
    if (step->serve != RP_SERVE_REFUSE && result->failed)
        count_failed(replay);
    else if (step->serve != RP_SERVE_REFUSE)
        count_done(replay, op, result);
    if (replay->pending == 0) {
        replay->folded = replay->digest;
        replay->next = replay->passed;
    }
}

/* ---------------------------------------------------------------- learning */

bool rp_replay_due(const struct rp_replay *replay, uint64_t *position_out)
{
    return replay->feeding && rp_learn_due(replay->learn, position_out);
}

void rp_replay_fingerprint(struct rp_replay *replay, uint64_t position, const uint64_t value[2])
{
    if (replay->feeding)
        rp_learn_fingerprint(replay->learn, replay->agree, position, value);
}

void rp_replay_stamp(struct rp_replay *replay, uint64_t position, enum rp_stamp_kind kind, int64_t ns)
{
    if (replay->state != RP_REPLAY_PASSIVE)
        rp_trial_stamp(replay, position, kind, ns);
}

void rp_replay_fingerprint_lost(struct rp_replay *replay)
{
    if (replay->feeding)
        rp_learn_restart(replay->learn);
}

/* ---------------------------------------------------------------- between calls */

void rp_replay_turn(struct rp_replay *replay, uint64_t budget, const struct rp_plan **wants_out)
{
    *wants_out = NULL;
    if (replay->state == RP_REPLAY_PASSIVE)
        return;
    if (rp_agree_given_up(replay->agree)) {
        become_passive(replay, "given up by another rank");
        return;
    }
    if (replay->told_budget != budget + 1) {
        replay->told_budget = budget + 1;
        rp_agree_set_budget(replay->agree, replay->told_budget);
    }
    rp_preset_turn(replay);
    rp_arming_turn(replay, wants_out);
}

bool rp_replay_joins(struct rp_replay *replay, struct rp_replay_id *id_out)
{
    if (!replay->joins || replay->learn == NULL)
        return false;
    replay->joins = false;
    replay->filled = 0;
    rp_learn_id(replay->learn, id_out);
    return true;
}

void rp_replay_child(struct rp_replay *replay, bool joined)
{
    rp_agree_set_child(replay->agree, joined ? RP_CHILD_OF_RANK_JOINED : RP_CHILD_OF_RANK_FAILED);
}

bool rp_replay_leaves(const struct rp_replay *replay)
{
    bool plain = replay->state == RP_REPLAY_PASSIVE ||
                 (replay->state == RP_REPLAY_ARMED && replay->plan.prefetches == 0 && !replay->joins);
    return plain && !rp_ahead_busy(replay);
}

bool rp_replay_left(struct rp_replay *replay)
{
    rp_agree_set_child(replay->agree, RP_CHILD_OF_RANK_IDLE);
    return rp_agree_largest_child(replay->agree) != RP_CHILD_OF_RANK_JOINED; /* NONE: it has issued nothing */
}

void rp_replay_prepared(struct rp_replay *replay, bool ready)
{
    rp_arming_prepared(replay, ready);
}

const struct rp_plan *rp_replay_plan(const struct rp_replay *replay)
{
    return replay->to > replay->from ? &replay->plan : NULL;
}

/*
 * The host runs ahead of the device, so the time of a plain gather would be too small a bound: by up to a cycle where
 * it votes, since each vote waits for the device; before its first vote by as much as the program lets it, which nobody
 * knows. What a lane waits for may come from ranks of another one that are in their first vote then (pipeline stages),
 * and issue nothing meanwhile: some cycles more, or the lanes interrupt one another in turn until all are passive.
 */
uint64_t rp_replay_bound_ns(const struct rp_replay *replay)
{
    uint64_t cycle = replay->proposal.cycle_ns, timeout = replay->options.timeout_ns;
    uint64_t cycles = BOUND_CYCLES * cycle, bound = cycles > BOUND_LEAST_NS ? cycles : BOUND_LEAST_NS;

    return cycle != 0 && replay->armed.answered && bound < timeout ? bound : timeout;
}

bool rp_replay_idle(const struct rp_replay *replay)
{
    return replay->pending == 0 && replay->state != RP_REPLAY_ARMED && replay->state != RP_REPLAY_ARMING &&
           !rp_ahead_busy(replay);
}

void rp_replay_lost(struct rp_replay *replay)
{
    /* pairs with the engine's own thread, which casts its next votes by it; nothing else is ordered by it */
    atomic_store_explicit(&replay->lost, true, memory_order_relaxed);
}

void rp_replay_unpackable(struct rp_replay *replay)
{
    rp_agree_set_unpackable(replay->agree, 1);
    if (replay->plan.packs) /* also one that was proposed before rank 0 knew */
        rp_replay_lost(replay);
}

const char *rp_replay_refusal(const struct rp_replay *replay)
{
    return replay->refusal;
}

struct rp_event rp_replay_refused(const struct rp_replay *replay)
{
    return replay->refused;
}

void rp_replay_figures(const struct rp_replay *replay, struct rp_replay_figures *figures_out)
{
    *figures_out = replay->figures;
}
