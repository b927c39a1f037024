#include "shim/call.h"

#include <stdlib.h>

#include "core/clock.h"
#include "core/record/recorder.h"
#include "shim/comm.h"
#include "shim/gpu.h"
#include "shim/group.h"
#include "shim/hook.h"
#include "shim/runtime.h"
#include "shim/site.h"

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

struct rp_call rp_call_begin(const struct rp_call_arguments *a)
{
    uint64_t begin = begin_ticks();
    struct rp_event event = rp_site_here(a->caller);
    struct rp_comm *comm = rp_comm_find(a->comm);
    struct rp_call call = {
        .op = {.type = RP_RECORD_OP,
               .kind = (uint8_t)a->kind,
               .dtype = (uint8_t)((unsigned)a->dtype < RP_DTYPE_UNKNOWN ? (unsigned)a->dtype : RP_DTYPE_UNKNOWN),
               .redop = (uint8_t)redop_of(a->redop),
               .phase = (uint8_t)event.phase,
               .root = a->root,
               .comm = comm != NULL ? rp_comm_number(comm) : RP_NO_COMM,
               .position = RP_NO_POSITION,
               .begin = begin,
               .count = a->count,
               .stream = (uintptr_t)a->stream,
               .module = event.module},
        .comm = comm,
        .content = content_of(a),
    };
    call.content_bytes = rp_op_bytes(&call.op);
    if (in_place(a, comm, call.content_bytes))
        call.op.flags |= RP_OP_IN_PLACE;
    return call;
}

static void push(const struct rp_op *op)
{
    struct rp_ring *ring = rp_recorder_ring();
    if (ring != NULL)
        rp_ring_push_op(ring, op);
}

/* What a reduction delivers is there only once NCCL has enqueued it: not so while it goes on in another thread. */
static bool content_settled(const struct rp_call *call, ncclResult_t result)
{
    return call->content != NULL && (result == ncclSuccess || call->op.kind == RP_OP_ALL_GATHER);
}

/*
 * The fingerprint of an op that has been counted, enqueued behind it on the caller's stream and within the call: so
 * whatever the application orders behind the collective comes behind it too. A gather leaves what it sent as it was,
 * also in place. True if there is one.
 */
static bool take_fingerprint(const struct rp_call *call, ncclResult_t result)
{
    const struct rp_op *op = &call->op;
    return op->position != RP_NO_POSITION && content_settled(call, result) &&
           rp_comm_fingerprint_take(call->comm, (cudaStream_t)(uintptr_t)op->stream, call->content, call->content_bytes,
                                    op->position);
}

/* After the real call: the op's position, its fingerprint, its record. */
void rp_call_report(struct rp_call *call, ncclResult_t result)
{
    struct rp_op *op = &call->op;
    if (!rp_nccl_accepted(result))
        op->flags |= RP_OP_FAILED;
    if (rp_gpu_capturing((cudaStream_t)(uintptr_t)op->stream))
        op->flags |= RP_OP_CAPTURED;
    else if (call->comm != NULL)
        rp_lane_take(rp_comm_lane(call->comm), op);
    if (take_fingerprint(call, result))
        op->flags |= RP_OP_FINGERPRINTED;
    push(op);
    rp_comm_identify();
}

void rp_call_end(struct rp_call *call, ncclResult_t result)
{
    call->op.end = rp_ticks();
    if (rp_thread.group_depth == 0) {
        rp_call_report(call, result);
        return;
    }
    call->op.flags |= RP_OP_IN_GROUP;
    call->op.group = rp_thread.groups;
    if (!rp_nccl_accepted(result) || !rp_group_add_call(call))
        rp_call_report(call, rp_nccl_accepted(result) ? ncclInternalError : result);
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
    push(op);
    rp_hook_leave();
}
