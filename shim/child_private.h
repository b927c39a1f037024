/*
 * What the files of the child communicator share. Its lock is over all of it but for what the owner's end and the watch
 * hand to one another. Nothing is asked of NCCL once its end has begun.
 */
#ifndef RP_CHILD_PRIVATE_H
#define RP_CHILD_PRIVATE_H

#include <cuda.h>
#include <pthread.h>

#include "shim/child.h"
#include "shim/hook.h"

struct rp_gpu_device;

/* The first gather of a size. */
struct rp_child_first {
    uint32_t slot;
    uint64_t bytes;
};

struct rp_child {
    pthread_mutex_t lock;
    const struct rp_nccl *real;
    struct rp_gpu_device *device;
    ncclComm_t comm;
    enum rp_child_state state;
    uint32_t rank;
    CUstream stream;
    CUevent behind;         /* what the caller's stream had */
    CUevent warm;           /* recorded behind the last first gather */
    bool warmed;            /* it is */
    struct rp_slots *slots; /* where fills may be open; NULL: nowhere yet */
    struct rp_child_first *firsts;
    size_t first_count, first_next;
    /* child_watch.c */
    CUevent mark;          /* what was issued when it was looked at last */
    uint64_t since;        /* when it was recorded; 0: it has ended */
    uint64_t bound_ns;     /* REPRISE_TIMEOUT */
    struct rp_child *next; /* under the watch's lock */
    /* child_end.c */
    bool taken; /* its end has begun */
    bool given; /* all of it is given back but this */
    bool left;  /* by its owner: who comes second frees */
};

/* child_watch.c: from joining to the end. False: no thread. */
bool rp_child_watch(struct rp_child *child);
void rp_child_unwatch(struct rp_child *child); /* behind it the watch does not look at it any more */

/* child_end.c. In the device's context. */
void rp_child_stream_give(const struct rp_child *child);

/* True: the caller is the one to end it, with give. It may be freed behind that, by either of both. */
bool rp_child_take(struct rp_child *child);
void rp_child_give(struct rp_child *child);

/* The application's signals are not for a thread of ours. False: it was not started. */
bool rp_child_thread(pthread_t *thread_out, void *(*run)(void *argument), void *argument);
/* At most a second; then it is left alone. */
void rp_child_await(pthread_t thread);

#endif
