/*
 * Serving a call: what the engine says is done, within the call: on the caller's stream what is kept, compared and
 * copied, on the child's stream what is gathered ahead. In order: taking a turn (slots, the budget), waiting with a
 * bound, serving, words, warming and joining the child. The announcement of a communicator and its end stand in
 * gather_life.c.
 *
 * Threads: that of the call.
 */
#include <stdio.h>
#include <string.h>

#include "core/clock.h"
#include "core/record/recorder.h"
#include "shim/call.h"
#include "shim/comm.h"
#include "shim/gather_private.h"
#include "shim/gpu.h"
#include "shim/pause.h"
#include "shim/runtime.h"
#include "shim/site.h"
#include "shim/waits.h"

/*
 * A host that waits polls without sleeping this long: verdicts come in microseconds. One that comes behind a slow
 * transfer takes milliseconds, and a poll every few microseconds disturbs the transport's own threads: each sleep is a
 * share of what has been waited, so it adds little.
 */
#define SPIN_NS 50000u
#define SLEEP_SHARE 64u
#define SLEEP_LEAST_NS 20000u
#define SLEEP_MOST_NS 500000u

/* Asking the driver for free memory takes as long as several calls. */
#define BUDGET_TURNS 64u

/* The refusal of this thread's last call. */
static _Thread_local char refusal_text[512] __attribute__((tls_model("initial-exec")));

bool rp_gather_follows(const struct rp_gather *gather)
{
    return gather != NULL && atomic_load_explicit(&gather->following, memory_order_relaxed);
}

/* Fingerprints that have come since the last call. */
static void drain_fingerprints(struct rp_gather *gather)
{
    uint64_t position, value[2];
    while (rp_replay_due(gather->replay, &position)) {
        enum rp_fingerprint_state state = rp_comm_fingerprint_read(gather->number, position, value);
        if (state == RP_FINGERPRINT_PENDING)
            return;
        if (state == RP_FINGERPRINT_LOST) {
            rp_replay_fingerprint_lost(gather->replay);
            return;
        }
        rp_replay_fingerprint(gather->replay, position, value);
    }
}

/* Device times that have come since the last call. */
static void drain_stamps(struct rp_gather *gather)
{
    uint64_t name;
    int64_t ns;
    while (rp_slots_stamped(gather->slots, &name, &ns))
        rp_replay_stamp(gather->replay, name / RP_STAMP_KIND_COUNT, (enum rp_stamp_kind)(name % RP_STAMP_KIND_COUNT),
                        ns);
}

static void stamp(struct rp_gather *gather, uint64_t position, enum rp_stamp_kind kind, cudaStream_t stream)
{
    rp_slots_stamp(gather->slots, stream, position * RP_STAMP_KIND_COUNT + (uint64_t)kind);
}

/* The communicator may have ended meanwhile, and what is captured has no time. */
void rp_gather_waits(const struct rp_waits_op *op, cudaStream_t stream, enum rp_stamp_kind kind)
{
    struct rp_gather *gather = rp_comm_gather_enter(op->comm);
    if (gather == NULL)
        return;
    if (!rp_gpu_capturing(stream))
        stamp(gather, op->position, kind, stream);
    rp_comm_gather_leave(op->comm);
}

void rp_gather_watch(struct rp_gather *gather, bool watched)
{
    if (watched && !gather->watched)
        rp_waits_watch();
    else if (!watched && gather->watched)
        rp_waits_unwatch();
    gather->watched = watched;
}

static void ask_budget(struct rp_gather *gather)
{
    uint64_t most = rp_slots_budget(gather->device, rp_gather_options.budget), held = rp_slots_held(gather->device);
    uint64_t own = rp_slots_own(gather->slots), others = held > own ? held - own : 0;
    gather->budget = most > others ? most - others : 0;
}

/* What this lane could have: the device's budget less what other lanes hold. Asked now and then while it is not armed.
 */
static uint64_t budget_now(struct rp_gather *gather)
{
    if (rp_replay_state(gather->replay) == RP_REPLAY_ARMED || gather->turns++ % BUDGET_TURNS != 0)
        return gather->budget;
    ask_budget(gather);
    return gather->budget;
}

/* Another lane may have got what was told of as free. */
static bool get_slots(struct rp_gather *gather, const struct rp_plan *plan)
{
    ask_budget(gather);
    gather->has_slots = true; /* also where it has fewer than it wants */
    rp_gather_expect_sends(gather, plan);
    return rp_plan_bytes(plan) <= gather->budget &&
           rp_slots_resize_ahead(gather->slots, plan->slot_bytes, plan->slot_count, plan->snapshot_bytes,
                                 plan->snapshot_count, plan->prefetches > 0) == RP_OK;
}

static void drop_slots(struct rp_gather *gather)
{
    rp_slots_resize(gather->slots, NULL, 0);
    gather->has_slots = false;
}

static void take_turn(struct rp_gather *gather, const struct rp_nccl *real)
{
    const struct rp_plan *wants = NULL;
    gather->real = real;
    drain_fingerprints(gather);
    drain_stamps(gather);
    if (rp_slots_pack_failed(gather->slots))
        rp_replay_unpackable(gather->replay);
    rp_replay_turn(gather->replay, budget_now(gather), &wants);
    if (wants != NULL)
        rp_replay_prepared(gather->replay, get_slots(gather, wants));
    else if (gather->has_slots && rp_replay_idle(gather->replay))
        drop_slots(gather);
}

/* The lane is followed no longer; nobody waits for this rank. */
static void stop(struct rp_gather *gather)
{
    atomic_store(&gather->following, false);
    rp_gather_watch(gather, false);
    if (gather->joined)
        rp_replay_child(gather->replay, false); /* it issues nothing more: the others need not wait for it */
    rp_replay_end(gather->replay);
}

static uint64_t position_ahead(const struct rp_gather *gather, const struct rp_call *call)
{
    /* relaxed: the application hands the communicator from thread to thread in order */
    return atomic_load_explicit(&rp_comm_lane(call->comm)->next, memory_order_relaxed) + gather->ahead;
}

/* "reprise: layers.2 backward expected, layers.3 backward observed: expected all-gather 4.0 KiB, observed ..." */
static void note_refusal(const struct rp_gather *gather, const struct rp_call *call)
{
    struct rp_event expected = rp_replay_refused(gather->replay), observed = rp_site_here(call->arguments.caller).call;
    snprintf(refusal_text, sizeof refusal_text, "reprise: %s %s expected, %s %s observed: %s",
             rp_module_name(rp_gather_options.modules, expected.module), rp_phase_name(expected.phase),
             rp_module_name(rp_gather_options.modules, observed.module), rp_phase_name(observed.phase),
             rp_replay_refusal(gather->replay));
}

/* A position that was not asked about (memory was out) would put the engine behind its lane. */
void rp_gather_before(struct rp_gather *gather, struct rp_call *call)
{
    call->op.position = position_ahead(gather, call);
    if (call->op.position != gather->expected)
        stop(gather);
    gather->expected = call->op.position + 1;
    if (gather->ahead++ == 0)
        take_turn(gather, call->real);
    rp_replay_next(gather->replay, &call->op, &call->step);
    rp_gather_note_send(gather, call);
    if (call->step.stamp)
        stamp(gather, call->step.position, RP_STAMP_BEGIN, call->arguments.stream);
    call->verdict = RP_VERDICT_YES;
    refusal_text[0] = '\0';
    if (call->step.serve == RP_SERVE_REFUSE)
        note_refusal(gather, call);
}

const char *rp_gather_refusal(void)
{
    return refusal_text[0] != '\0' ? refusal_text : NULL;
}

/* ---------------------------------------------------------------- waiting */

struct wait {
    uint64_t begin, until;
};

static struct wait wait_begin(const struct rp_gather *gather)
{
    uint64_t now = rp_monotonic_ns();
    return (struct wait){.begin = now, .until = now + rp_replay_bound_ns(gather->replay)};
}

static long sleep_ns(uint64_t waited_ns)
{
    uint64_t ns = waited_ns / SLEEP_SHARE;
    return ns < SLEEP_LEAST_NS ? SLEEP_LEAST_NS : ns > SLEEP_MOST_NS ? SLEEP_MOST_NS : (long)ns;
}

/* False: the bound is reached, or the communicator ends, here or on another rank. */
static bool wait_on(const struct rp_gather *gather, const struct wait *wait)
{
    uint64_t now = rp_monotonic_ns();
    if (now >= wait->until || atomic_load(&gather->ending) || rp_agree_given_up(rp_channel_agree(gather->channel)))
        return false;
    if (now - wait->begin > SPIN_NS)
        rp_pause_ns(sleep_ns(now - wait->begin));
    return true;
}

static bool await_settled(struct rp_gather *gather, uint32_t slot, const struct wait *wait)
{
    while (!rp_slots_settled(gather->slots, slot))
        if (!wait_on(gather, wait))
            return false;
    return true;
}

static enum rp_compare await_compare(struct rp_gather *gather, uint64_t ticket, const struct wait *wait)
{
    enum rp_compare compare;
    while ((compare = rp_slots_compared(gather->slots, ticket)) == RP_COMPARE_PENDING)
        if (!wait_on(gather, wait))
            return RP_COMPARE_PENDING;
    return compare;
}

static enum rp_verdict await_verdict(struct rp_gather *gather, const struct rp_replay_step *step,
                                     enum rp_verdict verdict, const struct wait *wait)
{
    struct rp_agree *agree = rp_channel_agree(gather->channel);
    while (verdict == RP_VERDICT_OPEN) {
        if (!wait_on(gather, wait))
            return rp_agree_withdraw(agree, step->arming, step->position);
        verdict = rp_agree_read(agree, step->arming, step->position);
    }
    return verdict;
}

/* ---------------------------------------------------------------- serving */

/*
 * The slot's fill is seen to have ended before anything of ours waits for it on the caller's stream: behind a
 * collective that waits for a peer it would stop work that the application never ordered behind it.
 */
void rp_gather_offer(struct rp_gather *gather, struct rp_call *call, bool willing)
{
    const struct rp_replay_step *step = &call->step;
    struct wait wait = wait_begin(gather);
    call->offer = RP_OFFER_NONE;
    if (!willing || step->vote != RP_VERDICT_YES || !rp_comm_healthy(call->comm))
        return;
    if (!rp_slots_present(gather->slots, step->slot)) {
        rp_replay_lost(gather->replay);
        return;
    }
    if (gather->late)
        wait.until = wait.begin;
    gather->late = !await_settled(gather, step->slot, &wait);
    if (gather->late) {
        call->offer = RP_OFFER_LATE;
        return;
    }
    const struct rp_call_arguments *a = &call->arguments;
    if (rp_slots_serve(gather->slots, step->slot, a->stream, a->send, a->receive, step->bytes, step->expected,
                       &call->ticket))
        call->offer = RP_OFFER_MADE;
}

/* What a gather of ours that was aborted has left is nobody's. */
static bool filled_well(const struct rp_gather *gather, const struct rp_replay_step *step)
{
    return step->ahead == 0 || (gather->child != NULL && rp_child_poll(gather->child) != RP_CHILD_FAILED);
}

/* What this rank votes, once its compare has spoken. */
static enum rp_verdict own_vote(struct rp_gather *gather, struct rp_call *call, const struct wait *wait)
{
    const struct rp_replay_step *step = &call->step;
    if (step->vote != RP_VERDICT_YES)
        return step->vote;
    if (rp_agree_dead(rp_channel_agree(gather->channel), step->arming, step->position))
        return RP_VERDICT_NO; /* a withdrawal before it in the group: no wait of its own */
    if (call->offer == RP_OFFER_LATE)
        return RP_VERDICT_WITHDRAWN;
    if (call->offer != RP_OFFER_MADE || !rp_gather_can(gather, step->word))
        return RP_VERDICT_NO;
    enum rp_compare compare = await_compare(gather, call->ticket, wait);
    if (compare == RP_COMPARE_PENDING)
        return RP_VERDICT_WITHDRAWN;
    return compare == RP_COMPARE_EQUAL && filled_well(gather, step) ? RP_VERDICT_YES : RP_VERDICT_NO;
}

bool rp_gather_decide(struct rp_gather *gather, struct rp_call *call)
{
    const struct rp_replay_step *step = &call->step;
    struct wait wait = wait_begin(gather);
    enum rp_verdict vote = own_vote(gather, call, &wait);
    struct rp_agree *agree = rp_channel_agree(gather->channel);
    call->verdict = rp_agree_vote(agree, step->arming, step->position, step->digest, vote);
    call->verdict = await_verdict(gather, step, call->verdict, &wait);
    /* one bound is paid, though another rank's no came first: that is not to go on from gather to gather */
    if (vote == RP_VERDICT_WITHDRAWN && call->verdict != RP_VERDICT_WITHDRAWN)
        rp_agree_kill(agree, step->arming, step->position + 1);
    call->op.flags |= RP_OP_VOTED;
    if (call->verdict == RP_VERDICT_YES)
        call->op.flags |= RP_OP_HIT | (step->ahead != 0 ? RP_OP_AHEAD : 0);
    else if (call->verdict == RP_VERDICT_WITHDRAWN)
        call->op.flags |= RP_OP_WITHDRAWN;
    if (call->verdict == RP_VERDICT_YES && step->ahead != 0)
        rp_gather_note_use(gather, step);
    /* ended by another thread meanwhile: the communicator may be gone at any moment, and delivers nothing any more */
    return call->verdict == RP_VERDICT_YES || atomic_load(&gather->ending);
}

/*
 * True if the real call's result is to go into the slot. One that was late is still being filled: it stays as it is.
 * What goes on in the background is not enqueued yet, and a copy would come before it.
 */
static bool stores(const struct rp_call *call)
{
    if (call->background)
        return false;
    if (call->step.serve == RP_SERVE_STORE)
        return true;
    return call->step.serve == RP_SERVE_KEEP && call->verdict != RP_VERDICT_YES && call->offer != RP_OFFER_LATE;
}

static bool store(struct rp_gather *gather, const struct rp_replay_step *step, const struct rp_call_arguments *a)
{
    return step->packed
               ? rp_slots_store_packed(gather->slots, step->slot, a->stream, a->receive, step->bytes, step->serial)
               : rp_slots_store(gather->slots, step->slot, a->stream, a->receive, step->bytes, step->serial);
}

/* The real call's result is kept: all of it, or this rank's part, or both. */
static void keep(struct rp_gather *gather, struct rp_call *call)
{
    const struct rp_call_arguments *a = &call->arguments;
    const struct rp_replay_step *step = &call->step;
    if (step->slot != RP_NO_SLOT && rp_slots_present(gather->slots, step->slot) && store(gather, step, a))
        call->op.flags |= RP_OP_STORED;
    if (step->snapshot != RP_NO_SLOT)
        rp_slots_snapshot(gather->slots, step->snapshot, a->stream, a->receive, step->bytes, step->serial);
}

/* A word of its own: it waits for the other ranks' hosts to come here, never for a device. */
static void vote_word(struct rp_gather *gather, struct rp_call *call, bool accepted)
{
    const struct rp_replay_step *step = &call->step;
    struct wait wait = wait_begin(gather);
    bool can = accepted && rp_gather_can(gather, step->word);
    call->verdict = rp_agree_vote(rp_channel_agree(gather->channel), step->arming, step->position, step->digest,
                                  can ? RP_VERDICT_YES : RP_VERDICT_NO);
    call->verdict = await_verdict(gather, step, call->verdict, &wait);
}

void rp_gather_after(struct rp_gather *gather, struct rp_call *call, bool accepted)
{
    const struct rp_replay_step *step = &call->step;
    if (accepted && step->stamp_end && !call->background)
        stamp(gather, step->position, RP_STAMP_END, call->arguments.stream);
    rp_gather_watch(gather, step->stamp_waits);
    if (accepted && stores(call))
        keep(gather, call);
    if (step->word != RP_WORD_NONE && step->serve != RP_SERVE_KEEP)
        vote_word(gather, call, accepted);
    struct rp_replay_result result = {.verdict = call->verdict,
                                      .failed = !accepted,
                                      .name = {.event = {call->op.module, (enum rp_phase)call->op.phase},
                                               .launches = call->launches,
                                               .begins_step = (call->op.flags & RP_OP_STEP) != 0},
                                      .send = step->fingerprint ? rp_gather_name_send(gather, call) : 0};
    rp_replay_done(gather->replay, &call->op, step, &result);
    rp_gather_issue(gather, call);
    gather->ahead--;
    gather->late = gather->late && gather->ahead > 0;
    if (accepted ? call->op.position != step->position : gather->ahead > 0)
        stop(gather); /* part of a group failed: positions are no longer what was asked about */
    gather->expected = position_ahead(gather, call);
    if (gather->ahead == 0 && rp_thread.group_depth == 0)
        rp_gather_look_after_child(gather);
    if (rp_replay_state(gather->replay) == RP_REPLAY_PASSIVE && rp_replay_idle(gather->replay) && !gather->joined) {
        drop_slots(gather);
        rp_channel_table_drop(gather->channel);
        rp_gather_watch(gather, false);
        atomic_store(&gather->following, false);
    }
}
