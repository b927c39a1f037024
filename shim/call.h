/*
 * One intercepted call on its way: described before the real call, reported after. Inside a group the report waits
 * for the outermost end, where NCCL enqueues it.
 *
 * Threads: a call belongs to the thread that makes it; groups are per thread, as NCCL's are.
 */
#ifndef RP_CALL_H
#define RP_CALL_H

#include <cuda_runtime_api.h>
#include <nccl.h>

#include "core/op.h"

struct rp_comm;

struct rp_call {
    struct rp_op op;
    struct rp_comm *comm; /* or NULL: a communicator that we do not know */
    /* What a fingerprint reads after the call: what a gather sent, what a reduction delivered. */
    const void *content; /* or NULL */
    uint64_t content_bytes;
};

/* What a hook knows of a collective or point-to-point call. `root`: root or peer, -1: none; `redop`: -1: none. */
struct rp_call_arguments {
    enum rp_op_kind kind;
    const void *send;
    void *receive;
    size_t count;
    ncclDataType_t dtype;
    int redop;
    int root;
    ncclComm_t comm;
    cudaStream_t stream;
    void *caller; /* return address of the hook */
};

/* Describes: kind, sizes, site, communicator. Call it inside rp_hook_enter(), before the real call. */
struct rp_call rp_call_begin(const struct rp_call_arguments *arguments);

/* Reports with the real call's result: now, or at the end of the thread's group. */
void rp_call_end(struct rp_call *call, ncclResult_t result);

/* The report itself, for group.c: position, fingerprint, record. */
void rp_call_report(struct rp_call *call, ncclResult_t result);

/* An op without a communicator (graph launch, malloc, free): begin now, end after the real call. */
struct rp_op rp_op_local(enum rp_op_kind kind, uint64_t count, cudaStream_t stream);
void rp_op_local_end(struct rp_op *op, bool succeeded);

#endif
