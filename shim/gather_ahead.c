/*
 * Gathers ahead of one communicator: its child (child.h) from the joining on, and what all ranks issue behind a call.
 * When, and what, is the engine's to say (core/replay/replay_ahead.c).
 *
 * One lane of a device has a child: no order over lanes is agreed, and of two gathers that wait for their peers in
 * different orders neither would come to its end.
 *
 * Threads: that of the call; the claims by any.
 */
#include <stdatomic.h>
#include <stdlib.h>

#include "core/clock.h"
#include "core/record/recorder.h"
#include "shim/call.h"
#include "shim/gather_private.h"
#include "shim/live.h"
#include "shim/pause.h"

#define WARM_NAP_NS 50000 /* the first gathers of a child take NCCL milliseconds */

/* By device: the lane whose gathers go ahead. Sequentially consistent: seldom used. */
#define CLAIMS 64
static _Atomic(const struct rp_gather *) claims[CLAIMS];

static bool claim(const struct rp_gather *gather)
{
    const struct rp_gather *nobody = NULL;
    return gather->device >= 0 && gather->device < CLAIMS &&
           atomic_compare_exchange_strong(&claims[gather->device], &nobody, gather);
}

static void unclaim(const struct rp_gather *gather)
{
    const struct rp_gather *owner = gather;
    if (gather->device >= 0 && gather->device < CLAIMS)
        atomic_compare_exchange_strong(&claims[gather->device], &owner, NULL);
}

/* The pointer is under its lock for who ends the communicator from another thread; this one reads it without. */
static void set_child(struct rp_gather *gather, struct rp_child *child)
{
    pthread_mutex_lock(&gather->child_lock);
    gather->child = child;
    pthread_mutex_unlock(&gather->child_lock);
}

static void end_child(struct rp_gather *gather)
{
    struct rp_child *child = gather->child;
    set_child(gather, NULL);
    rp_child_abort(child);
}

void rp_gather_cut_child(struct rp_gather *gather)
{
    pthread_mutex_lock(&gather->child_lock);
    if (gather->child != NULL)
        rp_child_cut(gather->child);
    pthread_mutex_unlock(&gather->child_lock);
}

static void join_child(struct rp_gather *gather, const struct rp_replay_id *id)
{
    const struct rp_agree *agree = rp_channel_agree(gather->channel);
    rp_gather_drop_child(gather); /* the last one, which all have left */
    gather->told = RP_CHILD_JOINING;
    gather->joined = true;
    if (claim(gather))
        set_child(gather, rp_child_join(gather->real, gather->device, agree->nranks, agree->rank, id,
                                        rp_gather_options.timeout_ns));
}

/* Nothing is issued there any more: it ends once what was issued has ended on all ranks. */
static void leave_child(struct rp_gather *gather)
{
    if (gather->child != NULL && !rp_child_idle(gather->child))
        return;
    gather->joined = !rp_replay_left(gather->replay);
    if (!gather->joined)
        rp_gather_drop_child(gather);
}

void rp_gather_look_after_child(struct rp_gather *gather)
{
    struct rp_replay_id id;
    if (rp_replay_joins(gather->replay, &id))
        join_child(gather, &id);
    if (!gather->joined)
        return;
    if (rp_replay_leaves(gather->replay)) {
        leave_child(gather);
        return;
    }
    enum rp_child_state state = gather->child == NULL ? RP_CHILD_FAILED : rp_child_poll(gather->child);
    if (state != gather->told && (state == RP_CHILD_JOINED || state == RP_CHILD_FAILED))
        rp_replay_child(gather->replay, state == RP_CHILD_JOINED);
    gather->told = state;
}

bool rp_gather_can(const struct rp_gather *gather, enum rp_word word)
{
    if (word == RP_WORD_NONE)
        return true;
    if (gather->child == NULL || atomic_load(&gather->ending))
        return false;
    enum rp_child_state state = rp_child_poll(gather->child);
    return state == RP_CHILD_READY || (word == RP_WORD_WARM && state == RP_CHILD_JOINED);
}

/*
 * All ranks are here, and none goes on before its child is ready or gone: first gathers that another rank does not
 * issue would stay on the device, and with them who waits for the whole device.
 */
static void warm_child(struct rp_gather *gather, cudaStream_t stream)
{
    uint64_t begin = rp_monotonic_ns();
    rp_child_warm(gather->child, gather->slots, rp_replay_plan(gather->replay), stream);
    while (rp_child_poll(gather->child) == RP_CHILD_WARMING && !atomic_load(&gather->ending) &&
           rp_monotonic_ns() - begin < rp_gather_options.timeout_ns)
        rp_pause_ns(WARM_NAP_NS);
    if (rp_child_poll(gather->child) == RP_CHILD_READY)
        return;
    end_child(gather);
}

/* ---------------------------------------------------------------- live buffers */

void rp_gather_expect_sends(struct rp_gather *gather, const struct rp_plan *plan)
{
    free(gather->sends);
    gather->sends = plan->prefetches > 0 ? calloc(plan->count, sizeof *gather->sends) : NULL;
    gather->send_count = gather->sends != NULL ? plan->count : 0;
}

/* A framework that gathers in place builds its part right before the call. */
static bool sends_apart(const struct rp_gather *gather, const struct rp_call *call)
{
    uint64_t unit = rp_op_bytes(&call->op) * rp_channel_agree(gather->channel)->nranks;
    uintptr_t send = (uintptr_t)call->arguments.send, receive = (uintptr_t)call->arguments.receive;
    return send - receive >= unit; /* also where it is below */
}

void rp_gather_note_send(struct rp_gather *gather, const struct rp_call *call)
{
    uint64_t bytes = rp_op_bytes(&call->op);
    if (call->op.kind != RP_OP_ALL_GATHER || call->step.entry >= gather->send_count)
        return;
    gather->sends[call->step.entry] =
        (struct rp_gather_send){call->arguments.send, sends_apart(gather, call) ? bytes : 0};
}

uint64_t rp_gather_name_send(const struct rp_gather *gather, const struct rp_call *call)
{
    bool live = call->op.kind == RP_OP_ALL_GATHER && sends_apart(gather, call) &&
                rp_live_has(call->arguments.send, rp_op_bytes(&call->op));
    return live ? (uint64_t)(uintptr_t)call->arguments.send : 0;
}

/* Within the call, on its stream. What is not there is not sent: the slot is nobody's then. */
static void copy_live(struct rp_gather *gather, const struct rp_replay_fill *fill, cudaStream_t stream)
{
    if (fill->snapshot != RP_NO_SLOT || fill->entry >= gather->send_count)
        return;
    const struct rp_gather_send *send = &gather->sends[fill->entry];
    if (send->bytes != fill->bytes || !rp_live_enter(send->address, send->bytes))
        return;
    rp_slots_live(gather->slots, fill->slot, stream, send->address, send->bytes);
    rp_live_leave();
}

/* ---------------------------------------------------------------- what is issued */

/* For the trace: when that gather was issued, and what for. */
static void note_issue(const struct rp_gather *gather, const struct rp_replay_fill *fill, uint64_t begin)
{
    struct rp_ring *ring = rp_recorder_ring();
    const struct rp_issue issue = {.comm = gather->number,
                                   .source = fill->snapshot != RP_NO_SLOT ? RP_ISSUE_SNAPSHOT : RP_ISSUE_LIVE,
                                   .number = fill->number,
                                   .behind = fill->serial,
                                   .position = fill->position,
                                   .begin = begin,
                                   .end = rp_ticks(),
                                   .bytes = fill->bytes};
    if (ring != NULL)
        rp_ring_push_issue(ring, &issue);
}

void rp_gather_note_use(const struct rp_gather *gather, const struct rp_replay_step *step)
{
    struct rp_ring *ring = rp_recorder_ring();
    const struct rp_issue_use use = {.comm = gather->number, .number = step->ahead, .position = step->position};
    if (ring != NULL)
        rp_ring_push_issue_use(ring, &use);
}

/* Where a child has failed on one rank, the others end theirs too, and with it what that rank will never issue. */
static void issue(struct rp_gather *gather, const struct rp_replay_fill *fill, cudaStream_t stream, bool behind)
{
    uint64_t begin = rp_ticks();
    if (gather->child == NULL)
        return;
    if (rp_agree_largest_child(rp_channel_agree(gather->channel)) != RP_CHILD_OF_RANK_FAILED) {
        copy_live(gather, fill, stream);
        if (rp_child_fill(gather->child, gather->slots, fill, stream, behind)) {
            note_issue(gather, fill, begin);
            return;
        }
    }
    rp_replay_child(gather->replay, false);
    rp_gather_drop_child(gather);
}

void rp_gather_issue(struct rp_gather *gather, const struct rp_call *call)
{
    cudaStream_t stream = call->arguments.stream;
    bool gathers = call->op.kind == RP_OP_ALL_GATHER;
    struct rp_replay_fill fill;
    if (gather->child != NULL && call->step.word == RP_WORD_WARM && call->verdict == RP_VERDICT_YES)
        warm_child(gather, stream);
    while (rp_replay_fill(gather->replay, &fill))
        issue(gather, &fill, stream, gathers);
}

void rp_gather_drop_child(struct rp_gather *gather)
{
    end_child(gather);
    unclaim(gather);
}

void rp_gather_ahead_forked(void)
{
    for (int i = 0; i < CLAIMS; i++)
        atomic_store(&claims[i], NULL);
    rp_child_forked();
}
