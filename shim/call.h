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
#include "core/replay/replay.h"

struct rp_comm;
struct rp_gather;
struct rp_nccl;

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
    void *caller;       /* return address of the hook */
    bool in_place_name; /* ncclBcast, which has one buffer */
};

/* How far an early copy has come. NONE: not tried; LATE: the slot was still being filled at the bound; MADE: enqueued.
 */
enum rp_offer { RP_OFFER_NONE, RP_OFFER_LATE, RP_OFFER_MADE };

struct rp_call {
    struct rp_op op;
    struct rp_event launches; /* of the thread's launches behind it (site.h) */
    struct rp_comm *comm;     /* or NULL: a communicator that we do not know */
    struct rp_call_arguments arguments;
    /* What a fingerprint reads after the call: what a gather sent, what a reduction delivered. */
    const void *content; /* or NULL */
    uint64_t content_bytes;
    /* Replay (gather.h); NULL: this call is not followed. */
    struct rp_gather *gather;
    struct rp_replay_step step;
    enum rp_offer offer;
    uint64_t ticket;         /* of the offer's compare */
    enum rp_verdict verdict; /* YES where nothing was voted */
    bool held;               /* in a group: the real call waits for the group's end */
    bool background;         /* it goes on in a thread of NCCL's: behind its return nothing is enqueued yet */
    const struct rp_nccl *real;
    ncclResult_t result; /* once held: what the real call said, or success where it was served */
};

/*
 * A hook's whole work, inside rp_hook_enter(): describes the call (kind, sizes, site, communicator), makes the real
 * call through the caller's `real` table, or serves it instead, and reports. Returns what the application gets: the
 * real call's result; `missing` where that library lacks the function. In a group the report, and where replay may
 * serve a gather the real call too, wait for the outermost end.
 */
ncclResult_t rp_call_run(const struct rp_nccl *real, const struct rp_call_arguments *arguments);

/*
 * For group.c, before the group's real end, each for all calls in their order: asks replay, enqueues early copies
 * (`simple`: the group is on one stream and one communicator, else nothing is served), votes, and makes the held real
 * calls that were not served: so the group that NCCL sees is the application's, less what all ranks have served.
 */
void rp_call_prepare(struct rp_call *call);
void rp_call_offer(struct rp_call *call, bool simple);
void rp_call_settle(struct rp_call *call);

/* The real call of one that is held, now. */
void rp_call_release(struct rp_call *call);

/* REPRISE_STRICT: it is not allowed. */
bool rp_call_refused(const struct rp_call *call);

/* The report: position, what is kept, fingerprint, record. */
void rp_call_report(struct rp_call *call, ncclResult_t result);

/* An op without a communicator (graph launch, malloc, free): begin now, end after the real call. */
struct rp_op rp_op_local(enum rp_op_kind kind, uint64_t count, cudaStream_t stream);
void rp_op_local_end(struct rp_op *op, bool succeeded);

#endif
