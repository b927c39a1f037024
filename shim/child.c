/* Joining, first gathers, gathers ahead. Its end stands in child_end.c, its bound in child_watch.c. */
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "shim/child_private.h"
#include "shim/gpu.h"
#include "shim/pause.h"

_Static_assert(sizeof(struct rp_replay_id) == sizeof(ncclUniqueId), "an id is NCCL's");

/* NCCL's thread enqueues a gather within microseconds; it takes longer only where the device's queue is full. */
#define ENQUEUE_NS UINT64_C(2000000000)
#define ENQUEUE_NAP_NS 10000
#define CTAS_MOST 8

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
    for (size_t i = 0; i < RP_CHILD_OPEN; i++)
        RP_GPU_TRY(cuEventCreate(&child->ended[i], CU_EVENT_DISABLE_TIMING));
    return RP_OK;
}

static bool join(struct rp_child *child, uint32_t nranks, const struct rp_replay_id *id)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclUniqueId unique;
    memcpy(&unique, id->bytes, sizeof unique);
    config.blocking = 0;
#if NCCL_VERSION_CODE >= 21700
    config.minCTAs = 1;
    config.maxCTAs = CTAS_MOST;
#endif
    return stream_make(child) == RP_OK && rp_nccl_accepted(child->real->ncclCommInitRankConfig(
                                              &child->comm, (int)nranks, unique, (int)child->rank, &config));
}

/* All or nothing. Watched already: while nothing is issued the watch asks for no event. */
static bool begin(struct rp_child *child, uint32_t nranks, const struct rp_replay_id *id)
{
    struct rp_gpu_scope scope;
    if (!rp_gpu_enter(&scope, child->device->context))
        return false;
    bool begun = join(child, nranks, id);
    if (!begun && child->comm != NULL)
        child->real->ncclCommAbort(child->comm);
    if (!begun)
        rp_child_stream_give(child);
    rp_gpu_leave(&scope);
    return begun;
}

struct rp_child *rp_child_join(const struct rp_nccl *real, int device, uint32_t nranks, uint32_t rank,
                               const struct rp_replay_id *id, uint64_t bound_ns)
{
    struct rp_gpu_device *gpu = NULL;
    if (!can_join(real) || rp_gpu_device_get(device, &gpu) != RP_OK || rp_gpu_slots_missing() != NULL)
        return NULL;
    struct rp_child *child = calloc(1, sizeof *child);
    if (child == NULL)
        return NULL;
    pthread_mutex_init(&child->lock, NULL);
    child->real = real;
    child->device = gpu;
    child->rank = rank;
    child->bound_ns = bound_ns;
    child->state = RP_CHILD_JOINING;
    if (rp_child_watch(child) && begin(child, nranks, id))
        return child;
    rp_child_unwatch(child);
    pthread_mutex_destroy(&child->lock);
    free(child);
    return NULL;
}

/* ncclInProgress: NCCL's own thread is not done. */
static ncclResult_t progress(struct rp_child *child)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    ncclResult_t error = ncclInProgress;
    if (rp_child_taken(child))
        return ncclInternalError;
    rp_gpu_driver.p_cuThreadExchangeStreamCaptureMode(&mode);
    ncclResult_t result = child->real->ncclCommGetAsyncError(child->comm, &error);
    rp_gpu_driver.p_cuThreadExchangeStreamCaptureMode(&mode);
    return result == ncclSuccess ? error : result;
}

/* In place. What NCCL enqueues is there only when progress() says success. */
static bool gather_into(struct rp_child *child, void *base, uint64_t bytes)
{
    if (rp_child_taken(child))
        return false;
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
        const struct rp_child_first *first = &child->firsts[child->first_next++];
        void *base;
        rp_slots_fill_drop(atomic_load(&child->slots), child->stream);
        /* without anything to send: the slot is nobody's */
        rp_slots_fill_begin(atomic_load(&child->slots), first->slot, RP_NO_SLOT, child->stream, first->bytes, &base);
        if (base == NULL || !gather_into(child, base, first->bytes))
            return false;
    }
    return true;
}

/* Once NCCL has enqueued the last. */
static bool warm_record(struct rp_child *child)
{
    rp_slots_fill_drop(atomic_load(&child->slots), child->stream);
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
            child->firsts[child->first_count++] = (struct rp_child_first){entry->slot, entry->bytes};
    }
    return child->firsts != NULL;
}

static void warm(struct rp_child *child, struct rp_slots *slots, const struct rp_plan *plan, cudaStream_t stream)
{
    struct rp_gpu_scope scope;
    if (rp_child_taken(child) || (child->state != RP_CHILD_JOINED && child->state != RP_CHILD_READY))
        return;
    atomic_store(&child->slots, slots);
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

void rp_child_warm(struct rp_child *child, struct rp_slots *slots, const struct rp_plan *plan, cudaStream_t stream)
{
    pthread_mutex_lock(&child->lock);
    warm(child, slots, plan, stream);
    pthread_mutex_unlock(&child->lock);
}

static void poll(struct rp_child *child)
{
    struct rp_gpu_scope scope;
    ncclResult_t error = child->state != RP_CHILD_FAILED ? progress(child) : ncclInProgress;
    if (error == ncclInProgress)
        return;
    if (error != ncclSuccess) {
        child->state = RP_CHILD_FAILED;
    } else if (child->state == RP_CHILD_JOINING) {
        child->state = RP_CHILD_JOINED;
    } else if (child->state == RP_CHILD_WARMING && rp_gpu_enter(&scope, child->device->context)) {
        child->state = warm_on(child);
        rp_gpu_leave(&scope);
    }
}

enum rp_child_state rp_child_poll(struct rp_child *child)
{
    pthread_mutex_lock(&child->lock);
    poll(child);
    enum rp_child_state state = child->state;
    pthread_mutex_unlock(&child->lock);
    return state;
}

/* Fills ------------------------------------------------------------------------------------------------------------ */

/*
 * Waits for NCCL's own thread on this host, which enqueues the gather: what comes behind it can't come before. No rank
 * is waited for, since the connections are made.
 */
static bool enqueued(struct rp_child *child)
{
    uint64_t until = rp_monotonic_ns() + ENQUEUE_NS;
    ncclResult_t result = progress(child);
    while (result == ncclInProgress && rp_monotonic_ns() < until) {
        rp_pause_ns(ENQUEUE_NAP_NS);
        result = progress(child);
    }
    return result == ncclSuccess;
}

/*
 * The gather that was issued RP_CHILD_OPEN before this one has ended, or does so within the bound. Else peers stand
 * still: soon the device's queue would, and who enqueues in it.
 */
static bool has_room(struct rp_child *child, uint64_t number)
{
    uint64_t begin = rp_monotonic_ns();
    CUresult result = CUDA_SUCCESS;
    while (number >= RP_CHILD_OPEN &&
           (result = rp_gpu_driver.p_cuEventQuery(child->ended[number % RP_CHILD_OPEN])) == CUDA_ERROR_NOT_READY &&
           !rp_child_taken(child) && rp_monotonic_ns() - begin < child->bound_ns)
        rp_pause_ns(ENQUEUE_NAP_NS);
    return result == CUDA_SUCCESS && !rp_child_taken(child);
}

/* What fails on this rank alone leaves the slot nobody's, and the gather is issued. */
static bool fill_issue(struct rp_child *child, struct rp_slots *slots, const struct rp_replay_fill *fill,
                       cudaStream_t stream, bool behind)
{
    uint64_t number = atomic_load(&child->issued);
    void *base;
    if (!has_room(child, number))
        return false;
    if (behind && !follow(child, stream))
        return false;
    rp_slots_fill_begin(slots, fill->slot, fill->snapshot, child->stream, fill->bytes, &base);
    if (base == NULL || !gather_into(child, base, fill->bytes) || !enqueued(child))
        return false;
    rp_slots_fill_end(slots, fill->slot, fill->snapshot, child->stream, fill->serial);
    if (rp_gpu_driver.p_cuEventRecord(child->ended[number % RP_CHILD_OPEN], child->stream) != CUDA_SUCCESS)
        return false;
    atomic_store(&child->issued, number + 1);
    return true;
}

static bool fill(struct rp_child *child, struct rp_slots *slots, const struct rp_replay_fill *gather,
                 cudaStream_t stream, bool behind)
{
    struct rp_gpu_scope scope;
    if (child->state != RP_CHILD_READY || rp_child_taken(child))
        return false;
    atomic_store(&child->slots, slots);
    bool issued = false;
    if (rp_gpu_enter(&scope, child->device->context)) {
        issued = fill_issue(child, slots, gather, stream, behind);
        rp_gpu_leave(&scope);
    }
    if (!issued)
        child->state = RP_CHILD_FAILED;
    return issued;
}

bool rp_child_fill(struct rp_child *child, struct rp_slots *slots, const struct rp_replay_fill *gather,
                   cudaStream_t stream, bool behind)
{
    pthread_mutex_lock(&child->lock);
    bool issued = fill(child, slots, gather, stream, behind);
    pthread_mutex_unlock(&child->lock);
    return issued;
}
