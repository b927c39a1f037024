/*
 * Communicators as objects: references, abort, end, and what can be asked of them. Called from any thread.
 */
#include "nccl_private.h"

#include <stdlib.h>

#define COMM_MAGIC 0x636f6d6du

static struct stop *stop_new(void)
{
    struct stop *stop = calloc(1, sizeof *stop);
    if (!stop)
        return NULL;
    atomic_init(&stop->references, 1);
    pthread_mutex_init(&stop->lock, NULL);
    return stop;
}

static struct stop *stop_watch(struct stop *stop, struct watch *watch, struct ncclComm *comm)
{
    atomic_fetch_add(&stop->references, 1);
    watch->comm = comm;
    pthread_mutex_lock(&stop->lock);
    watch->next = stop->watches;
    stop->watches = watch;
    pthread_mutex_unlock(&stop->lock);
    return stop;
}

static void stop_drop(struct stop *stop)
{
    if (atomic_fetch_sub(&stop->references, 1) != 1)
        return;
    pthread_mutex_destroy(&stop->lock);
    free(stop);
}

static void stop_unwatch(struct stop *stop, struct watch *watch)
{
    if (!stop)
        return;
    pthread_mutex_lock(&stop->lock);
    struct watch **link = &stop->watches;
    while (*link != watch)
        link = &(*link)->next;
    *link = watch->next;
    pthread_mutex_unlock(&stop->lock);
    stop_drop(stop);
}

struct ncclComm *comm_new(void)
{
    struct ncclComm *comm = calloc(1, sizeof *comm);
    if (!comm)
        return NULL;
    comm->magic = COMM_MAGIC;
    atomic_init(&comm->references, 1);
    atomic_init(&comm->async, ncclInProgress);
    pthread_mutex_init(&comm->lock, NULL);
    pthread_cond_init(&comm->changed, NULL);
    comm->device = fake_device_current();
    comm->blocking = true;
    comm->chain = fake_chain_new();
    struct stop *stop = stop_new();
    if (!stop) {
        comm_drop(comm);
        return NULL;
    }
    comm->stop = stop_watch(stop, &comm->watch, comm);
    stop_drop(stop);
    return comm;
}

void comm_follow(struct ncclComm *comm, struct ncclComm *parent, bool shared)
{
    if (!shared) {
        comm->parent_stop = stop_watch(parent->stop, &comm->parent_watch, comm);
        return;
    }
    stop_unwatch(comm->stop, &comm->watch);
    fake_chain_drop(comm->chain);
    comm->chain = fake_chain_keep(parent->chain);
    comm->stop = stop_watch(parent->stop, &comm->watch, comm);
}

struct ncclComm *comm_keep(struct ncclComm *comm)
{
    atomic_fetch_add(&comm->references, 1);
    return comm;
}

void comm_drop(struct ncclComm *comm)
{
    if (atomic_fetch_sub(&comm->references, 1) != 1)
        return;
    stop_unwatch(comm->stop, &comm->watch);
    stop_unwatch(comm->parent_stop, &comm->parent_watch);
    comm->magic = 0;
    segment_unmap(&comm->segment);
    fake_chain_drop(comm->chain);
    pthread_mutex_destroy(&comm->lock);
    pthread_cond_destroy(&comm->changed);
    free(comm);
}

ncclResult_t comm_check(const struct ncclComm *comm)
{
    if (!comm || comm->magic != COMM_MAGIC)
        return nccl_warn(ncclInvalidArgument, "not a communicator");
    return ncclSuccess;
}

ncclResult_t comm_check_ready(struct ncclComm *comm)
{
    ncclResult_t result = comm_check(comm);
    if (result != ncclSuccess)
        return result;
    int async = atomic_load(&comm->async);
    if (async == ncclInProgress)
        return nccl_warn(ncclInvalidArgument, "communicator used before the previous operation returned ncclSuccess");
    if (async == ncclSuccess && (atomic_load(&comm->finalized) || atomic_load(&comm->revoked)))
        return nccl_warn(ncclInvalidUsage, "communicator used after finalize or revoke");
    return (ncclResult_t)async;
}

bool comm_stopped(const struct ncclComm *comm)
{
    return atomic_load(&comm->stop->raised);
}

bool comm_halted(const struct ncclComm *comm)
{
    return comm_stopped(comm) || atomic_load(&comm->revoked);
}

void comm_ring(const struct ncclComm *comm)
{
    if (comm->segment.shared)
        segment_ring(&comm->segment);
}

void comm_fail(struct ncclComm *comm, const char *why)
{
    int none = ncclSuccess;
    atomic_store(&comm->segment.shared->failed, 1);
    if (atomic_compare_exchange_strong(&comm->async, &none, ncclInvalidUsage)) {
        fake_say("communicator %.8s rank %d: %s", comm->key, comm->rank, why);
        nccl_warn(ncclInvalidUsage, "%s", why);
    }
    comm_ring(comm);
}

/* Work that is inside the data plane leaves; work that comes later does not enter. */
static void leave_wait(struct ncclComm *comm)
{
    pthread_mutex_lock(&comm->lock);
    while (comm->running > 0)
        pthread_cond_wait(&comm->changed, &comm->lock);
    pthread_mutex_unlock(&comm->lock);
}

/* As in the real library: after an abort nothing more is enqueued. */
static void background_wait(struct ncclComm *comm)
{
    pthread_mutex_lock(&comm->lock);
    while (comm->background > 0)
        pthread_cond_wait(&comm->changed, &comm->lock);
    pthread_mutex_unlock(&comm->lock);
}

/* Sleepers sit on the segment's bell (work, host plane, init) or on `changed` (turns of the host plane). */
static void wake(struct ncclComm *comm)
{
    comm_ring(comm);
    pthread_mutex_lock(&comm->lock);
    pthread_cond_broadcast(&comm->changed);
    pthread_mutex_unlock(&comm->lock);
}

static void stop_raise(struct stop *stop)
{
    atomic_store(&stop->raised, true);
    pthread_mutex_lock(&stop->lock);
    for (struct watch *watch = stop->watches; watch; watch = watch->next)
        wake(watch->comm);
    pthread_mutex_unlock(&stop->lock);
}

void comm_halt(struct ncclComm *comm)
{
    atomic_store(&comm->revoked, true);
    wake(comm);
    leave_wait(comm);
}

ncclResult_t pncclCommAbort(ncclComm_t comm)
{
    if (!comm)
        return ncclSuccess;
    ncclResult_t result = comm_check(comm);
    if (result != ncclSuccess)
        return result;
    stop_raise(comm->stop);
    background_wait(comm);
    leave_wait(comm);
    comm_drop(comm);
    return ncclSuccess;
}
NCCL_WEAK(CommAbort);

ncclResult_t pncclCommRevoke(ncclComm_t comm, int flags)
{
    ncclResult_t result = comm_check_ready(comm);
    if (result != ncclSuccess)
        return result;
    if (flags != NCCL_REVOKE_DEFAULT)
        return nccl_warn(ncclInvalidArgument, "CommRevoke: flags must be 0");
    comm_halt(comm);
    return ncclSuccess;
}
NCCL_WEAK(CommRevoke);

static void *flush(void *argument)
{
    struct ncclComm *comm = argument;
    fake_chain_wait(comm->chain);
    int busy = ncclInProgress;
    atomic_compare_exchange_strong(&comm->async, &busy, ncclSuccess);
    comm_drop(comm);
    return NULL;
}

ncclResult_t pncclCommFinalize(ncclComm_t comm)
{
    ncclResult_t result = comm_check_ready(comm);
    if (result != ncclSuccess)
        return result;
    atomic_store(&comm->finalized, true);
    if (comm->blocking) {
        fake_chain_wait(comm->chain);
        return ncclSuccess;
    }
    atomic_store(&comm->async, ncclInProgress);
    thread_detach(flush, comm_keep(comm));
    return ncclInProgress;
}
NCCL_WEAK(CommFinalize);

/* Ends what was issued first, unless finalize did. */
ncclResult_t pncclCommDestroy(ncclComm_t comm)
{
    if (!comm)
        return ncclSuccess;
    ncclResult_t result = comm_check(comm);
    if (result != ncclSuccess)
        return result;
    if (comm->blocking)
        fake_chain_wait(comm->chain);
    else
        thread_detach(flush, comm_keep(comm));
    comm_drop(comm);
    return ncclSuccess;
}
NCCL_WEAK(CommDestroy);

ncclResult_t pncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error)
{
    ncclResult_t result = comm_check(comm);
    if (result != ncclSuccess || !error)
        return result != ncclSuccess ? result : ncclInvalidArgument;
    *error = (ncclResult_t)atomic_load(&comm->async);
    if (*error == ncclSuccess)
        fake_host_time_raise(atomic_load(&comm->init_time));
    return ncclSuccess;
}
NCCL_WEAK(CommGetAsyncError);

/* The size of a communicator is known when its init has ended. */
static ncclResult_t known(const ncclComm_t comm, const int *value)
{
    ncclResult_t result = comm_check(comm);
    if (result != ncclSuccess || !value)
        return result != ncclSuccess ? result : ncclInvalidArgument;
    if (!comm->segment.shared || atomic_load(&comm->async) == ncclInProgress)
        return nccl_warn(ncclInvalidArgument, "communicator asked before its init has ended");
    return ncclSuccess;
}

ncclResult_t pncclCommCount(const ncclComm_t comm, int *count)
{
    ncclResult_t result = known(comm, count);
    if (result == ncclSuccess)
        *count = comm->ranks;
    return result;
}
NCCL_WEAK(CommCount);

ncclResult_t pncclCommCuDevice(const ncclComm_t comm, int *device)
{
    ncclResult_t result = known(comm, device);
    if (result == ncclSuccess)
        *device = comm->device;
    return result;
}
NCCL_WEAK(CommCuDevice);

ncclResult_t pncclCommUserRank(const ncclComm_t comm, int *rank)
{
    ncclResult_t result = known(comm, rank);
    if (result == ncclSuccess)
        *rank = comm->rank;
    return result;
}
NCCL_WEAK(CommUserRank);
