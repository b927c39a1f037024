#include "shim/child.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "shim/gpu.h"
#include "shim/hook.h"
#include "shim/pause.h"
#include "shim/runtime.h"

_Static_assert(sizeof(struct rp_replay_id) == sizeof(ncclUniqueId), "an id is NCCL's");

/* NCCL's thread enqueues a gather within microseconds; it takes longer only where the device's queue is full. */
#define ENQUEUE_NS UINT64_C(2000000000)
#define ENQUEUE_NAP_NS 10000
/* An abort frees memory, and some of NCCL's frees wait for the device: longer than this nobody waits for it. */
#define ABORT_SECONDS 1

/* The first gather of a size. */
struct first {
    uint32_t slot;
    uint64_t bytes;
};

struct rp_child {
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
    struct first *firsts;
    size_t first_count, first_next;
};

bool rp_child_id(const struct rp_nccl *real, struct rp_replay_id *id_out)
{
    ncclUniqueId id;
    if (real->ncclGetUniqueId == NULL || real->ncclGetUniqueId(&id) != ncclSuccess)
        return false;
    memcpy(id_out->bytes, &id, sizeof id);
    return true;
}

/* The environment's word is above the configuration's: then a join would wait for the other ranks. */
static bool always_blocking(void)
{
    const char *value = getenv("NCCL_COMM_BLOCKING");
    return value != NULL && strtol(value, NULL, 0) == 1;
}

static bool can_join(const struct rp_nccl *real)
{
    return real->ncclCommInitRankConfig != NULL && real->ncclCommGetAsyncError != NULL && real->ncclCommAbort != NULL &&
           real->ncclAllGather != NULL && !always_blocking();
}

/* In the device's context, as all that follows. */
static enum rp_status stream_make(struct rp_child *child)
{
    int least = 0, greatest = 0;
    RP_GPU_TRY(cuCtxGetStreamPriorityRange(&least, &greatest));
    RP_GPU_TRY(cuStreamCreateWithPriority(&child->stream, CU_STREAM_NON_BLOCKING, greatest));
    RP_GPU_TRY(cuEventCreate(&child->behind, CU_EVENT_DISABLE_TIMING));
    RP_GPU_TRY(cuEventCreate(&child->warm, CU_EVENT_DISABLE_TIMING));
    return RP_OK;
}

/* None of these waits: the driver lets go of them when their work has ended. */
static void stream_give(const struct rp_child *child)
{
    if (child->warm != NULL)
        rp_gpu_driver.p_cuEventDestroy(child->warm);
    if (child->behind != NULL)
        rp_gpu_driver.p_cuEventDestroy(child->behind);
    if (child->stream != NULL)
        rp_gpu_driver.p_cuStreamDestroy(child->stream);
}

static bool join(struct rp_child *child, uint32_t nranks, const struct rp_replay_id *id)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclUniqueId unique;
    memcpy(&unique, id->bytes, sizeof unique);
    config.blocking = 0;
#if NCCL_VERSION_CODE >= 21700
    config.minCTAs = 1;
    config.maxCTAs = RP_CHILD_CTAS;
#endif
    return stream_make(child) == RP_OK && rp_nccl_accepted(child->real->ncclCommInitRankConfig(
                                              &child->comm, (int)nranks, unique, (int)child->rank, &config));
}

struct rp_child *rp_child_join(const struct rp_nccl *real, int device, uint32_t nranks, uint32_t rank,
                               const struct rp_replay_id *id)
{
    struct rp_gpu_device *gpu = NULL;
    struct rp_gpu_scope scope;
    if (!can_join(real) || rp_gpu_device_get(device, &gpu) != RP_OK || rp_gpu_slots_missing() != NULL)
        return NULL;
    struct rp_child *child = calloc(1, sizeof *child);
    if (child == NULL || !rp_gpu_enter(&scope, gpu->context)) {
        free(child);
        return NULL;
    }
    child->real = real;
    child->device = gpu;
    child->rank = rank;
    child->state = RP_CHILD_JOINING;
    bool begun = join(child, nranks, id);
    if (!begun)
        stream_give(child);
    rp_gpu_leave(&scope);
    if (begun)
        return child;
    free(child);
    return NULL;
}

/* ncclInProgress: NCCL's own thread is not done. */
static ncclResult_t progress(const struct rp_child *child)
{
    ncclResult_t error = ncclInProgress, result = child->real->ncclCommGetAsyncError(child->comm, &error);
    return result == ncclSuccess ? error : result;
}

/* In place. What NCCL enqueues is there only when progress() says success. */
static bool gather(const struct rp_child *child, void *base, uint64_t bytes)
{
    const unsigned char *own = (const unsigned char *)base + child->rank * bytes;
    return rp_nccl_accepted(child->real->ncclAllGather(own, base, bytes, ncclUint8, child->comm, child->stream));
}

/* The child's stream waits for what the caller's has so far. */
static bool follow(const struct rp_child *child, cudaStream_t stream)
{
    return rp_gpu_driver.p_cuEventRecord(child->behind, (CUstream)stream) == CUDA_SUCCESS &&
           rp_gpu_driver.p_cuStreamWaitEvent(child->stream, child->behind, CU_EVENT_WAIT_DEFAULT) == CUDA_SUCCESS;
}

/* First gathers ---------------------------------------------------------------------------------------------------- */

/* One at a time: NCCL chooses for a group of them as if they were one, and then connects for that alone. */
static bool firsts_issue(struct rp_child *child)
{
    while (child->first_next < child->first_count && progress(child) == ncclSuccess) {
        const struct first *first = &child->firsts[child->first_next++];
        void *base;
        rp_slots_fill_drop(child->slots, child->stream);
        /* without anything to send: the slot is nobody's */
        rp_slots_fill_begin(child->slots, first->slot, RP_NO_SLOT, child->stream, first->bytes, &base);
        if (base == NULL || !gather(child, base, first->bytes))
            return false;
    }
    return true;
}

/* Once NCCL has enqueued the last. */
static bool warm_record(struct rp_child *child)
{
    rp_slots_fill_drop(child->slots, child->stream);
    child->warmed = rp_gpu_driver.p_cuEventRecord(child->warm, child->stream) == CUDA_SUCCESS;
    return child->warmed;
}

static enum rp_child_state warm_on(struct rp_child *child)
{
    if (!firsts_issue(child))
        return RP_CHILD_FAILED;
    if (child->first_next < child->first_count || progress(child) == ncclInProgress)
        return RP_CHILD_WARMING;
    if (progress(child) != ncclSuccess || (!child->warmed && !warm_record(child)))
        return RP_CHILD_FAILED;
    CUresult result = rp_gpu_driver.p_cuEventQuery(child->warm);
    if (result == CUDA_ERROR_NOT_READY)
        return RP_CHILD_WARMING;
    return result == CUDA_SUCCESS ? RP_CHILD_READY : RP_CHILD_FAILED;
}

static bool has_first(const struct rp_child *child, uint64_t bytes)
{
    for (size_t i = 0; i < child->first_count; i++)
        if (child->firsts[i].bytes == bytes)
            return true;
    return false;
}

static bool firsts_find(struct rp_child *child, const struct rp_plan *plan)
{
    child->firsts = calloc(plan->count > 0 ? plan->count : 1, sizeof *child->firsts);
    for (size_t i = 0; child->firsts != NULL && i < plan->count; i++) {
        const struct rp_plan_entry *entry = &plan->entries[i];
        if (entry->action == RP_PLAN_PREFETCH && !has_first(child, entry->bytes))
            child->firsts[child->first_count++] = (struct first){entry->slot, entry->bytes};
    }
    return child->firsts != NULL;
}

void rp_child_warm(struct rp_child *child, struct rp_slots *slots, const struct rp_plan *plan, cudaStream_t stream)
{
    struct rp_gpu_scope scope;
    if (child->state != RP_CHILD_JOINED && child->state != RP_CHILD_READY)
        return;
    child->slots = slots;
    child->state = RP_CHILD_FAILED;
    child->first_count = child->first_next = 0;
    child->warmed = false;
    free(child->firsts);
    if (!firsts_find(child, plan) || !rp_gpu_enter(&scope, child->device->context))
        return;
    if (follow(child, stream))
        child->state = warm_on(child);
    rp_gpu_leave(&scope);
}

enum rp_child_state rp_child_poll(struct rp_child *child)
{
    struct rp_gpu_scope scope;
    ncclResult_t error = child->state != RP_CHILD_FAILED ? progress(child) : ncclInProgress;
    if (error == ncclInProgress)
        return child->state;
    if (error != ncclSuccess) {
        child->state = RP_CHILD_FAILED;
    } else if (child->state == RP_CHILD_JOINING) {
        child->state = RP_CHILD_JOINED;
    } else if (child->state == RP_CHILD_WARMING && rp_gpu_enter(&scope, child->device->context)) {
        child->state = warm_on(child);
        rp_gpu_leave(&scope);
    }
    return child->state;
}

/* Fills ------------------------------------------------------------------------------------------------------------ */

/*
 * Waits for NCCL's own thread on this host, which enqueues the gather: what comes behind it can't come before. No rank
 * is waited for, since the connections are made.
 */
static bool enqueued(const struct rp_child *child)
{
    uint64_t until = rp_monotonic_ns() + ENQUEUE_NS;
    ncclResult_t result = progress(child);
    while (result == ncclInProgress && rp_monotonic_ns() < until) {
        rp_pause_ns(ENQUEUE_NAP_NS);
        result = progress(child);
    }
    return result == ncclSuccess;
}

/* What fails on this rank alone leaves the slot nobody's, and the gather is issued. */
static bool fill_issue(struct rp_child *child, struct rp_slots *slots, const struct rp_replay_fill *fill,
                       cudaStream_t stream, bool behind)
{
    void *base;
    if (fill->snapshot == RP_NO_SLOT)
        rp_slots_live(slots, fill->slot, stream, fill->live, fill->bytes);
    if (behind && !follow(child, stream))
        return false;
    rp_slots_fill_begin(slots, fill->slot, fill->snapshot, child->stream, fill->bytes, &base);
    if (base == NULL || !gather(child, base, fill->bytes) || !enqueued(child))
        return false;
    rp_slots_fill_end(slots, fill->slot, fill->snapshot, child->stream, fill->serial);
    return true;
}

bool rp_child_fill(struct rp_child *child, struct rp_slots *slots, const struct rp_replay_fill *fill,
                   cudaStream_t stream, bool behind)
{
    struct rp_gpu_scope scope;
    if (child->state != RP_CHILD_READY)
        return false;
    child->slots = slots;
    bool issued = false;
    if (rp_gpu_enter(&scope, child->device->context)) {
        issued = fill_issue(child, slots, fill, stream, behind);
        rp_gpu_leave(&scope);
    }
    if (!issued)
        child->state = RP_CHILD_FAILED;
    return issued;
}

/* The end ---------------------------------------------------------------------------------------------------------- */

void rp_child_finish(struct rp_child *child, uint64_t most_ns)
{
    uint64_t begin = rp_monotonic_ns();
    struct rp_gpu_scope scope;
    if (child->state != RP_CHILD_READY || !rp_gpu_enter(&scope, child->device->context))
        return;
    bool recorded = rp_gpu_driver.p_cuEventRecord(child->behind, child->stream) == CUDA_SUCCESS;
    while (recorded && rp_gpu_driver.p_cuEventQuery(child->behind) == CUDA_ERROR_NOT_READY &&
           rp_monotonic_ns() - begin < most_ns)
        rp_pause_ns(ENQUEUE_NAP_NS);
    rp_gpu_leave(&scope);
}

/* Behind an abort NCCL enqueues nothing more: fills that are still open end with what the stream has. */
static void give(struct rp_child *child)
{
    struct rp_gpu_scope scope;
    if (child->slots != NULL)
        rp_slots_fill_cut(child->slots, child->stream);
    child->real->ncclCommAbort(child->comm);
    if (rp_gpu_enter(&scope, child->device->context)) {
        if (child->slots != NULL)
            rp_slots_fill_drop(child->slots, child->stream);
        stream_give(child);
        rp_gpu_leave(&scope);
    }
    free(child->firsts);
    free(child);
}

static void *give_main(void *argument)
{
    rp_thread.inside = true; /* what NCCL calls is no call of the application */
    give(argument);
    return NULL;
}

/* The application's signals are not for a thread of ours. */
static bool give_start(struct rp_child *child, pthread_t *thread_out)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = pthread_create(thread_out, NULL, give_main, child) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

/* Normally there is nothing to wait for, and nothing of it is left at the end of the process. */
static void give_await(pthread_t thread)
{
    struct timespec until;
    int cancel;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += ABORT_SECONDS;
    if (pthread_timedjoin_np(thread, NULL, &until) != 0)
        pthread_detach(thread);
    pthread_setcancelstate(cancel, NULL);
}

void rp_child_abort(struct rp_child *child)
{
    pthread_t thread;
    if (child == NULL)
        return;
    if (give_start(child, &thread))
        give_await(thread);
    else
        give(child);
}
