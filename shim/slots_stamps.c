/*
 * Stamps: events with a time, recorded where the engine wants to know how long its cycles take on the device. A ring;
 * the one that was given out last stays, since the next one's time counts from there.
 *
 * Threads: any; the set's lock is held.
 */
#include "shim/slots_private.h"

enum rp_status rp_slots_make_stamps(struct rp_slots *slots)
{
    for (unsigned i = 0; i < RP_SLOTS_STAMPS; i++)
        RP_GPU_TRY(cuEventCreate(&slots->stamps[i], CU_EVENT_DEFAULT));
    return RP_OK;
}

static bool stamp(struct rp_slots *slots, CUstream stream, uint64_t name)
{
    uint64_t number = slots->stamps_next;
    if (number - slots->stamps_given >= RP_SLOTS_STAMPS - 1 ||
        rp_gpu_driver.p_cuEventRecord(slots->stamps[number % RP_SLOTS_STAMPS], stream) != CUDA_SUCCESS)
        return false;
    slots->stamp_names[number % RP_SLOTS_STAMPS] = name;
    slots->stamps_next++;
    return true;
}

static bool is_default(cudaStream_t stream)
{
    return stream == NULL || stream == cudaStreamLegacy || stream == cudaStreamPerThread;
}

bool rp_slots_stamp(struct rp_slots *slots, cudaStream_t stream, uint64_t name)
{
    struct rp_gpu_scope scope;
    if (!rp_gpu_enter(&scope, slots->device->context))
        return false;
    pthread_mutex_lock(&slots->lock);
    bool other = scope.pushed != NULL && is_default(stream); /* means one of another device */
    bool stamped = !other && stamp(slots, (CUstream)stream, name);
    pthread_mutex_unlock(&slots->lock);
    rp_gpu_leave(&scope);
    return stamped;
}

/* Milliseconds are how the driver has it. */
static int64_t ns_before(const struct rp_slots *slots, uint64_t number)
{
    float ms = 0;
    CUevent before = slots->stamps[(number - 1) % RP_SLOTS_STAMPS], here = slots->stamps[number % RP_SLOTS_STAMPS];
    if (number == slots->stamps_first || rp_gpu_driver.p_cuEventElapsedTime(&ms, before, here) != CUDA_SUCCESS)
        return 0;
    return (int64_t)((double)ms * 1e6);
}

static bool stamped(struct rp_slots *slots, uint64_t *name_out, int64_t *ns_out)
{
    uint64_t number = slots->stamps_given;
    if (rp_gpu_driver.p_cuEventQuery(slots->stamps[number % RP_SLOTS_STAMPS]) == CUDA_ERROR_NOT_READY)
        return false; /* any other error is one of the time, too */
    *name_out = slots->stamp_names[number % RP_SLOTS_STAMPS];
    *ns_out = ns_before(slots, number);
    slots->stamps_given++;
    return true;
}

bool rp_slots_stamped(struct rp_slots *slots, uint64_t *name_out, int64_t *ns_out)
{
    struct rp_gpu_scope scope;
    bool given = false;
    pthread_mutex_lock(&slots->lock);
    if (slots->stamps_given != slots->stamps_next && rp_gpu_enter(&scope, slots->device->context)) {
        given = stamped(slots, name_out, ns_out);
        rp_gpu_leave(&scope);
    }
    pthread_mutex_unlock(&slots->lock);
    return given;
}
