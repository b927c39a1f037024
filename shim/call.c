#include "shim/call.h"

#include <stdlib.h>

#include "core/clock.h"
#include "core/record/recorder.h"
#include "shim/comm.h"
#include "shim/gather.h"
#include "shim/gpu.h"
#include "shim/group.h"
#include "shim/hook.h"
#include "shim/runtime.h"
#include "shim/site.h"
#include "shim/waits.h"

/* The numbers of our enums are the vendor's. */
_Static_assert((int)RP_DTYPE_INT8 == ncclInt8 && (int)RP_DTYPE_BFLOAT16 == ncclBfloat16, "data types agree");
_Static_assert((int)RP_DTYPE_FLOAT64 == ncclFloat64 && (int)RP_DTYPE_FLOAT16 == ncclFloat16, "data types agree");
_Static_assert((int)RP_REDOP_SUM == ncclSum && (int)RP_REDOP_AVG == ncclAvg, "reductions agree");
_Static_assert((int)RP_REDOP_USER == ncclNumOps, "user reductions follow the built-in ones");

/* Ticks for `begin`: larger than any before in this thread, so that it names the op there. */
static uint64_t begin_ticks(void)
{
    uint64_t now = rp_ticks();
    if (now <= rp_thread.last_begin)
        now = rp_thread.last_begin + 1;
    rp_thread.last_begin = now;
    return now;
}

static enum rp_redop redop_of(int redop)
{
    if (redop < 0)
        return RP_REDOP_NONE;
    return redop < (int)ncclNumOps ? (enum rp_redop)redop : RP_REDOP_USER;
}

static bool in_place(const struct rp_call_arguments *a, const struct rp_comm *comm, uint64_t bytes)
{
    if (a->send == NULL || a->receive == NULL)
        return false;
    uint64_t offset = comm != NULL ? (uint64_t)rp_comm_rank(comm) * bytes : 0;
    if (a->kind == RP_OP_ALL_GATHER)
        return (const char *)a->send == (const char *)a->receive + offset;
    if (a->kind == RP_OP_REDUCE_SCATTER)
        return (const char *)a->receive == (const char *)a->send + offset;
    return a->send == a->receive;
}

/* The buffer whose bytes tell runs and generations apart: what a gather sends, what a reduction delivers to all. */
static const void *content_of(const struct rp_call_arguments *a)
{
    if (a->kind == RP_OP_ALL_GATHER)
        return a->send;
    if (a->kind == RP_OP_REDUCE_SCATTER || a->kind == RP_OP_ALL_REDUCE)
        return a->receive;
    return NULL;
}

/* Names cost a look at the stack: a lane that is replayed or passive has learned them, or needs none. */
static struct rp_site_events events_of(const struct rp_gather *gather, void *caller)
{
    if (rp_gather_names(gather))
        return rp_site_here(caller);
    rp_site_not_asked();
    return (struct rp_site_events){0};
}

/* The call, and its lane entered (rp_comm_gather_leave()) if replay follows it. */
static struct rp_call describe(const struct rp_nccl *real, const struct rp_call_arguments *a)
{
    uint64_t begin = begin_ticks();
    struct rp_comm *comm = rp_comm_find(a->comm);
    struct rp_gather *gather = rp_comm_gather_enter(comm);
    struct rp_site_events events = events_of(gather, a->caller);
    struct rp_call call = {
        .op = {.type = RP_RECORD_OP,
               .kind = (uint8_t)a->kind,
               .dtype = (uint8_t)((unsigned)a->dtype < RP_DTYPE_UNKNOWN ? (unsigned)a->dtype : RP_DTYPE_UNKNOWN),
               .redop = (uint8_t)redop_of(a->redop),
               .phase = (uint8_t)events.call.phase,
               .root = a->root,
               .comm = comm != NULL ? rp_comm_number(comm) : RP_NO_COMM,
               .position = RP_NO_POSITION,
               .begin = begin,
               .count = a->count,
               .stream = (uintptr_t)a->stream,
               .module = events.call.module},
        .launches = events.launches,
        .comm = comm,
        .arguments = *a,
        .content = content_of(a),
        .gather = gather,
        .verdict = RP_VERDICT_YES,
        .real = real,
    };
    call.content_bytes = rp_op_bytes(&call.op);
    if (in_place(a, comm, call.content_bytes))
        call.op.flags |= RP_OP_IN_PLACE;
    if (comm != NULL && rp_op_kind_on_lane(a->kind) && rp_comm_takes_step(comm, rp_site_steps()))
        call.op.flags |= RP_OP_STEP;
    return call;
}

/* A call that replay still follows has been asked about, and is not. */
static bool captured(const struct rp_call *call)
{
    return call->gather == NULL && rp_gpu_capturing(call->arguments.stream);
}

static void leave(struct rp_call *call)
{
    if (call->gather != NULL)
        rp_comm_gather_leave(call->comm);
    call->gather = NULL;
}

/* Not counted by the lane, or captured: the engine does not see it. */
static void leave_unfollowed(struct rp_call *call)
{
    if (call->gather != NULL && (!rp_lane_counts(&call->op) || rp_gpu_capturing(call->arguments.stream)))
        leave(call);
}

#define ISSUE(name, ...) (real->name != NULL ? real->name(__VA_ARGS__) : RP_MISSING_nccl)

/* The real call. */
static ncclResult_t issue(const struct rp_call *call)
{
    const struct rp_nccl *real = call->real;
    const struct rp_call_arguments *a = &call->arguments;
    ncclRedOp_t redop = (ncclRedOp_t)a->redop;
    switch (a->kind) {
    case RP_OP_ALL_GATHER:
        return ISSUE(ncclAllGather, a->send, a->receive, a->count, a->dtype, a->comm, a->stream);
    case RP_OP_REDUCE_SCATTER:
        return ISSUE(ncclReduceScatter, a->send, a->receive, a->count, a->dtype, redop, a->comm, a->stream);
    case RP_OP_ALL_REDUCE:
        return ISSUE(ncclAllReduce, a->send, a->receive, a->count, a->dtype, redop, a->comm, a->stream);
    case RP_OP_BROADCAST:
        if (a->in_place_name)
            return ISSUE(ncclBcast, a->receive, a->count, a->dtype, a->root, a->comm, a->stream);
        return ISSUE(ncclBroadcast, a->send, a->receive, a->count, a->dtype, a->root, a->comm, a->stream);
    case RP_OP_REDUCE:
        return ISSUE(ncclReduce, a->send, a->receive, a->count, a->dtype, redop, a->root, a->comm, a->stream);
    case RP_OP_SEND:
        return ISSUE(ncclSend, a->send, a->count, a->dtype, a->root, a->comm, a->stream);
    case RP_OP_RECV:
        return ISSUE(ncclRecv, a->receive, a->count, a->dtype, a->root, a->comm, a->stream);
#if NCCL_VERSION_CODE >= 22800
    case RP_OP_ALL_TO_ALL:
        return ISSUE(ncclAlltoAll, a->send, a->receive, a->count, a->dtype, a->comm, a->stream);
    case RP_OP_GATHER:
        return ISSUE(ncclGather, a->send, a->receive, a->count, a->dtype, a->root, a->comm, a->stream);
    case RP_OP_SCATTER:
        return ISSUE(ncclScatter, a->send, a->receive, a->count, a->dtype, a->root, a->comm, a->stream);
#endif
    default:
        return RP_MISSING_nccl;
    }
}

static void push(const struct rp_op *op, struct rp_event launches)
{
    struct rp_ring *ring = rp_recorder_ring();
    struct rp_event own = {op->module, (enum rp_phase)op->phase};
    if (ring != NULL && rp_ring_push_op(ring, op) && !rp_event_is_same(launches, own))
        rp_ring_push_place(ring, launches);
}

/* What a reduction delivers is there only once NCCL has enqueued it: not so while it goes on in another thread. */
static bool content_settled(const struct rp_call *call, ncclResult_t result)
{
    return call->content != NULL && (result == ncclSuccess || call->op.kind == RP_OP_ALL_GATHER);
}

/* Recording wants those of all; replay of the gathers that it learns from. */
static bool fingerprint_wanted(const struct rp_call *call)
{
    return call->gather != NULL ? call->step.fingerprint : !rp_gather_configured();
}

/*
 * The fingerprint of an op that has been counted, enqueued behind it on the caller's stream and within the call: so
 * whatever the application orders behind the collective comes behind it too. A gather leaves what it sent as it was,
 * also in place.
 */
static void take_fingerprint(struct rp_call *call, ncclResult_t result)
{
    struct rp_op *op = &call->op;
    cudaStream_t stream = (cudaStream_t)(uintptr_t)op->stream;
    uint64_t every = rp_fingerprints_every(call->content_bytes);
    if (op->position == RP_NO_POSITION || !fingerprint_wanted(call) || !content_settled(call, result) ||
        !rp_comm_fingerprint_take(call->comm, stream, call->content, call->content_bytes, every, op->position))
        return;
    op->flags |= every == 1 ? RP_OP_FINGERPRINTED : RP_OP_FINGERPRINTED | RP_OP_SAMPLED;
}

/*
 * The beginning of a step, where nobody looked at the frames that tell it. It is one of all communicators, as those
 * that are seen: unless another one has told it before, the others' next collectives are to hear of it.
 */
static void take_learned_step(struct rp_call *call)
{
    if ((call->op.flags & RP_OP_STEP) != 0 || !rp_site_frames_begin_steps())
        return;
    if (!rp_comm_takes_step(call->comm, rp_site_steps())) {
        rp_site_step();
        rp_comm_takes_step(call->comm, rp_site_steps());
    }
    call->op.flags |= RP_OP_STEP;
}

/* The name that the lane has learned for this place. */
static void take_name(struct rp_call *call)
{
    const struct rp_name *name = &call->step.name;
    if (call->gather == NULL || !rp_name_is_known(*name))
        return;
    if (name->begins_step)
        take_learned_step(call);
    if (call->op.module != RP_MODULE_UNKNOWN)
        return;
    call->op.module = name->event.module;
    call->op.phase = (uint8_t)name->event.phase;
    call->launches = rp_event_filled(name->launches, name->event);
}

/* For who waits for it. Another lane's op on the same stream is no longer the one that an event stands for. */
static void note_for_waits(const struct rp_call *call)
{
    bool timed = call->gather != NULL && call->step.stamp_waits && call->op.position == call->step.position;
    struct rp_waits_op op = {.comm = timed && !call->background ? call->comm : NULL,
                             .position = call->op.position,
                             .gather = call->op.kind == RP_OP_ALL_GATHER};
    if (rp_waits_any())
        rp_waits_op(&op, rp_waits_stream(call->arguments.stream));
}

void rp_call_report(struct rp_call *call, ncclResult_t result)
{
    struct rp_op *op = &call->op;
    if (!rp_nccl_accepted(result))
        op->flags |= RP_OP_FAILED;
    call->background = result == ncclInProgress;
    if (captured(call))
        op->flags |= RP_OP_CAPTURED;
    else if (call->comm != NULL)
        rp_lane_take(rp_comm_lane(call->comm), op);
    take_name(call);
    if (call->gather != NULL)
        rp_gather_after(call->gather, call, op->position != RP_NO_POSITION);
    note_for_waits(call);
    take_fingerprint(call, result);
    push(op, call->launches);
    leave(call);
    rp_comm_identify();
}

/* ---------------------------------------------------------------- one call */

static ncclResult_t run_now(struct rp_call *call)
{
    ncclResult_t result = ncclSuccess;
    bool served = false;
    leave_unfollowed(call);
    if (call->gather != NULL) {
        rp_gather_before(call->gather, call);
        if (call->step.serve == RP_SERVE_KEEP) {
            rp_gather_offer(call->gather, call, true);
            served = rp_gather_decide(call->gather, call);
        }
    }
    if (rp_call_refused(call))
        result = ncclInvalidUsage;
    else if (!served)
        result = issue(call);
    call->op.end = rp_ticks();
    rp_call_report(call, result);
    return result;
}

/* ---------------------------------------------------------------- in a group */

static bool has_root(enum rp_op_kind kind)
{
    return kind != RP_OP_ALL_GATHER && kind != RP_OP_REDUCE_SCATTER && kind != RP_OP_ALL_REDUCE &&
           kind != RP_OP_ALL_TO_ALL;
}

static bool root_good(const struct rp_call *call)
{
    int root = call->arguments.root;
    return !has_root(call->arguments.kind) || (root >= 0 && root < rp_comm_size(call->comm));
}

static bool buffers_good(const struct rp_call_arguments *a)
{
    return (a->send != NULL || a->kind == RP_OP_RECV) && (a->receive != NULL || a->kind == RP_OP_SEND);
}

/*
 * False: NCCL may refuse the call, and tells so at once; or it uses a reduction of the user's own, which may be
 * destroyed as soon as the call has been made.
 */
static bool may_wait(const struct rp_call *call)
{
    const struct rp_op *op = &call->op;
    return call->comm != NULL && rp_comm_healthy(call->comm) && op->dtype < RP_DTYPE_UNKNOWN &&
           op->redop != RP_REDOP_USER && call->arguments.redop < (int)ncclNumOps && root_good(call) &&
           buffers_good(&call->arguments) && op->count < RP_OP_BYTES_MOST && call->content_bytes < RP_OP_BYTES_MOST;
}

/*
 * A gather that may be served waits for the group's end, and with it all calls behind it, so that their order stays the
 * application's. One that must not wait is made at once, behind all that have waited.
 */
static bool hold(struct rp_call *call)
{
    bool may_serve = call->gather != NULL && call->op.kind == RP_OP_ALL_GATHER && rp_group_may_hold();
    leave(call); /* entered again at the group's end */
    if (!may_serve && !rp_group_holds())
        return false;
    if (!may_wait(call)) {
        rp_group_release();
        return false;
    }
    call->held = true;
    if (rp_group_add_call(call))
        return true;
    call->held = false;
    return false;
}

static ncclResult_t run_in_group(struct rp_call *call)
{
    call->op.flags |= RP_OP_IN_GROUP;
    call->op.group = rp_thread.groups;
    if (hold(call))
        return ncclSuccess;
    ncclResult_t result = issue(call);
    call->op.end = rp_ticks();
    if (!rp_nccl_accepted(result) || !rp_group_add_call(call))
        rp_call_report(call, rp_nccl_accepted(result) ? ncclInternalError : result);
    return result;
}

ncclResult_t rp_call_run(const struct rp_nccl *real, const struct rp_call_arguments *arguments)
{
    struct rp_call call = describe(real, arguments);
    if (rp_thread.group_depth == 0)
        return run_now(&call);
    if (rp_group_library() == real)
        return run_in_group(&call);
    leave(&call); /* of another library than the group: whether that has one open too is not known */
    return run_now(&call);
}

void rp_call_prepare(struct rp_call *call)
{
    call->gather = rp_comm_gather_enter(call->comm);
    leave_unfollowed(call);
    if (call->gather != NULL)
        rp_gather_before(call->gather, call);
}

static bool keeps(const struct rp_call *call)
{
    return call->gather != NULL && call->step.serve == RP_SERVE_KEEP;
}

void rp_call_offer(struct rp_call *call, bool simple)
{
    if (keeps(call))
        rp_gather_offer(call->gather, call, simple && call->held);
}

void rp_call_settle(struct rp_call *call)
{
    bool served = keeps(call) && rp_gather_decide(call->gather, call);
    if (rp_call_refused(call) && call->held)
        call->result = ncclInvalidUsage;
    else if (!served)
        rp_call_release(call);
}

bool rp_call_refused(const struct rp_call *call)
{
    return call->gather != NULL && call->step.serve == RP_SERVE_REFUSE;
}

void rp_call_release(struct rp_call *call)
{
    if (!call->held)
        return;
    call->held = false;
    call->result = issue(call);
    call->op.end = rp_ticks();
}

struct rp_op rp_op_local(enum rp_op_kind kind, uint64_t count, cudaStream_t stream)
{
    return (struct rp_op){.type = RP_RECORD_OP,
                          .kind = (uint8_t)kind,
                          .dtype = RP_DTYPE_UINT8,
                          .redop = RP_REDOP_NONE,
                          .root = -1,
                          .comm = RP_NO_COMM,
                          .position = RP_NO_POSITION,
                          .begin = begin_ticks(),
                          .count = count,
                          .stream = (uintptr_t)stream};
}

void rp_op_local_end(struct rp_op *op, bool success)
{
    op->end = rp_ticks();
    if (!success)
        op->flags |= RP_OP_FAILED;
    push(op, (struct rp_event){op->module, (enum rp_phase)op->phase});
    rp_hook_leave();
}
