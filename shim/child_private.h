/*
 * What the files of the child communicator share. Its owner's calls hold `lock`, also while work is enqueued, which
 * stands still where the device's queue is full. So its end must not need the lock: who ends it takes it first, by one
 * atomic, and from there on its state is FAILED; NCCL's abort then waits a while for the owner to come out, and goes on
 * without.
 */
#ifndef RP_CHILD_PRIVATE_H
#define RP_CHILD_PRIVATE_H

#include <cuda.h>
#include <pthread.h>
#include <stdatomic.h>

#include "shim/child.h"
#include "shim/hook.h"

struct rp_gpu_device;

/* The first gather of a size. */
struct rp_child_first {
    uint32_t slot;
    uint64_t bytes;
};

/* Gathers ahead that may be under way. A thousand entries of the device's queue hold twice as many. */
#define RP_CHILD_OPEN 64u

struct rp_child {
    const struct rp_nccl *real;
    struct rp_gpu_device *device;
    ncclComm_t comm;
    uint32_t rank;
    CUstream stream;
    uint64_t bound_ns; /* REPRISE_TIMEOUT */
    /* Sequentially consistent: what is gathered after an abort ends later than `taken` is set. */
    _Atomic bool taken;           /* its end has begun */
    _Atomic uint64_t issued;      /* gathers ahead; behind the event of the last */
    CUevent ended[RP_CHILD_OPEN]; /* of gather n: n modulo RP_CHILD_OPEN */

    pthread_mutex_t lock; /* over what follows, of the owner's calls */
    enum rp_child_state state;
    CUevent behind; /* what the caller's stream had */
    CUevent warm;   /* recorded behind the last first gather */
    bool warmed;    /* it is */
    struct rp_child_first *firsts;
    size_t first_count, first_next;

    _Atomic(struct rp_slots *) slots; /* where fills may be open; NULL: nowhere yet */

    /* child_watch.c, under the watch's lock */
    struct rp_child *next;
    uint64_t seen;  /* gathers ahead that have ended */
    uint64_t since; /* when it was looked at first with the next one under way; 0: not yet */

    /* child_end.c: who comes second frees */
    _Atomic int ends; /* RP_CHILD_GIVEN, RP_CHILD_LEFT */
};

static inline bool rp_child_taken(struct rp_child *child)
{
    return atomic_load(&child->taken);
}

/* child_watch.c: from joining to the end. False: no thread. */
bool rp_child_watch(struct rp_child *child);
void rp_child_unwatch(struct rp_child *child); /* behind it the watch does not look at it any more */

/* child_end.c: nothing that was issued is under way; by whom the child can't be given back meanwhile. */
bool rp_child_ended(struct rp_child *child);

/* In the device's context. */
void rp_child_stream_give(const struct rp_child *child);

/* At most a second; then it is left alone. */
void rp_child_await(pthread_t thread);

#endif
