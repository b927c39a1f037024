/*
 * Communicators as the hooks see them, from the real creation to the real end. A `struct rp_comm` is never freed: the
 * writer thread and later ops may still name it; a handle that NCCL gives out again is a new communicator.
 *
 * Threads: any; lookups take a read lock, creation and end a write lock. No lock is held across a real call.
 */
#ifndef RP_COMM_H
#define RP_COMM_H

#include <nccl.h>
#include <stdatomic.h>

#include "core/lane.h"
#include "core/record/recorder.h"
#include "core/trace/trace.h"
#include "shim/fingerprints.h"

struct rp_comm;
struct rp_gather;
struct rp_nccl;

struct rp_lane *rp_comm_lane(struct rp_comm *comm);
uint32_t rp_comm_number(const struct rp_comm *comm);

/* True for one call after each change of `steps`, which counts the steps that annotations have told (site.h). */
bool rp_comm_takes_step(struct rp_comm *comm, uint64_t steps);

int rp_comm_rank(const struct rp_comm *comm); /* of this process; -1: not known yet */

/*
 * Enqueues the fingerprint of the op at `position` (fingerprints.h), before the op is in its thread's ring. False: this
 * communicator has none (said once, if not asked for), or has ended.
 */
bool rp_comm_fingerprint_take(struct rp_comm *comm, cudaStream_t stream, const void *data, uint64_t bytes,
                              uint64_t every, uint64_t position);

/*
 * Its serving (gather.h), if calls are to follow it, and not NULL only until rp_comm_gather_leave(), which must follow:
 * an end that comes meanwhile from another thread waits a moment for it. NULL is allowed: NULL.
 */
struct rp_gather *rp_comm_gather_enter(struct rp_comm *comm);
void rp_comm_gather_leave(struct rp_comm *comm);

/* False: NCCL has found an error on it, and will refuse calls. */
bool rp_comm_healthy(const struct rp_comm *comm);

/* The live communicator of that handle, or NULL. */
struct rp_comm *rp_comm_find(ncclComm_t handle);

/* How a communicator comes to be: filled by the hook. */
struct rp_comm_birth {
    const struct rp_nccl *real; /* of the library that makes it */
    ncclComm_t *handle;         /* where NCCL puts it; read when the creation has succeeded */
    enum rp_comm_origin origin;
    uint64_t key;    /* the same on all its ranks */
    uint32_t parent; /* number, or RP_NO_COMM */
    int nranks;      /* told by the call; 0: ask NCCL */
    int rank;        /* -1: ask NCCL */
    bool nonblocking;
    struct rp_gather *gather; /* what rp_comm_announce() made, or NULL */
    char name[RP_COMM_NAME_MAX];
};

/*
 * Before the real creation, which is a rendezvous: tells the other ranks that this one is here. `seats`: at most so
 * many ranks, alike on all. rp_comm_born() or rp_comm_unborn() must follow.
 */
void rp_comm_announce(struct rp_comm_birth *birth, int seats);

/* The real creation has failed. */
void rp_comm_unborn(struct rp_comm_birth *birth);

/* The number of ranks of a communicator; 0: not known. */
int rp_comm_size(const struct rp_comm *comm);

/*
 * The keys of creations. They are made before the real call has found the arguments good: NULL and numbers that no
 * communicator has are seen, and what a pointer beside them points to is not read.
 */
uint64_t rp_comm_key_init(const ncclUniqueId *ids, int id_count, int nranks);

/* Of ncclCommInitAll(), which has no id: all ranks are in this process. Another one each time. */
uint64_t rp_comm_key_all(int nranks);

/* Key of a child; counts the children made so of the parent, which all its ranks make in the same order. */
uint64_t rp_comm_key_split(struct rp_comm *parent, int color);
uint64_t rp_comm_key_shrink(struct rp_comm *parent, const int *excluded, int excluded_count);

/* Copies out of a configuration, whose size depends on the version that the caller was built with: before the real call
 * whether it blocks, after its success the name. */
void rp_comm_birth_blocking(struct rp_comm_birth *birth, const ncclConfig_t *config);
void rp_comm_birth_child_blocking(struct rp_comm_birth *birth, const struct rp_comm *parent,
                                  const ncclConfig_t *config); /* without a configuration it blocks as its parent */
void rp_comm_birth_name(struct rp_comm_birth *birth, const ncclConfig_t *config);

/* The real creation returned `result`: success, in progress for a nonblocking one, or an error (of its group). */
void rp_comm_born(const struct rp_comm_birth *birth, ncclResult_t result);

/* ncclCommGetAsyncError() said `error`: success makes a nonblocking communicator ready. */
void rp_comm_async(ncclComm_t handle, ncclResult_t error);

/* Its end, before the real call: COMM_FINALIZED, COMM_REVOKED keep the handle; COMM_DESTROYED, COMM_ABORTED drop it. */
void rp_comm_ended(ncclComm_t handle, enum rp_trace_state how);

/* After an op: the first one with a communicator that we know says to the recorder who we are, by the largest one. */
void rp_comm_identify(void);

/* For the recorder: the fingerprint of an op. */
enum rp_fingerprint_state rp_comm_fingerprint_read(uint32_t number, uint64_t position, uint64_t value_out[2]);

/* In the child of a fork: forgets all. */
void rp_comm_forked(void);

#endif
