/*
 * Sets of slots: made once, handed on from communicator to communicator, known in a list that only grows, so that
 * reclaim and budget can walk it without a lock. There a set's lock is only tried: whoever holds it is at work on the
 * set, perhaps inside a launch that ends no sooner than an abort, and the next walk finds what this one left.
 *
 * Threads: any.
 */
#include "shim/slots.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "shim/slots_private.h"

#define RESERVE_LEAST ((uint64_t)4 << 30)

/* Newest first. Release of set_publish() pairs with the acquires of whoever walks. */
static _Atomic(struct rp_slots *) sets;

static struct rp_slots *sets_first(void)
{
    return atomic_load_explicit(&sets, memory_order_acquire);
}

static void set_publish(struct rp_slots *slots)
{
    slots->next = atomic_load_explicit(&sets, memory_order_relaxed);
    while (
        !atomic_compare_exchange_weak_explicit(&sets, &slots->next, slots, memory_order_release, memory_order_relaxed))
        ;
}

/* Pinned entries, states and cells with their first values, everything loaded. In the device's context. */
static enum rp_status set_fill(struct rp_slots *slots)
{
    CUstream stream = slots->device->stream;
    size_t states = RP_SLOTS_TICKETS * sizeof(struct rp_compare_state), cells = RP_SLOTS_CELLS * sizeof(uint64_t);
    RP_GPU_TRY(cuMemHostRegister(slots->entries, RP_SLOTS_ENTRIES * sizeof(struct rp_compare_entry),
                                 CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP));
    RP_GPU_TRY(cuMemHostGetDevicePointer(&slots->entries_on_device, slots->entries, 0));
    RP_GPU_TRY(cuMemAlloc(&slots->cells, cells + states));
    slots->states = slots->cells + cells;
    RP_GPU_TRY(cuMemsetD8Async(slots->cells, 0xff, cells, stream)); /* RP_SERIAL_NONE */
    RP_GPU_TRY(cuMemsetD8Async(slots->states, 0, states, stream));
    enum rp_status status = rp_slots_warm(slots);
    if (status != RP_OK)
        return status;
    RP_GPU_TRY(cuEventCreate(&slots->zeroed, CU_EVENT_DISABLE_TIMING));
    RP_GPU_TRY(cuEventRecord(slots->zeroed, stream));
    return rp_slots_make_stamps(slots);
}

/* A new set. What it made before it failed stays: a free could wait for the device. */
static enum rp_status set_make(int ordinal, struct rp_gpu_device *device, struct rp_slots **slots_out)
{
    struct rp_slots *slots = calloc(1, sizeof *slots);
    if (slots == NULL)
        return rp_gpu_fail(RP_NO_MEMORY, "no memory for slots", CUDA_SUCCESS);
    void *pages = mmap(NULL, RP_SLOTS_ENTRIES * sizeof(struct rp_compare_entry), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) {
        free(slots);
        return rp_gpu_fail(RP_NO_MEMORY, "no memory for slots", CUDA_SUCCESS);
    }
    slots->ordinal = ordinal;
    slots->device = device;
    slots->entries = pages;
    pthread_mutex_init(&slots->lock, NULL);
    atomic_init(&slots->state, RP_SLOTS_ACTIVE);
    enum rp_status status = set_fill(slots);
    if (status != RP_OK) {
        free(slots);
        return status;
    }
    set_publish(slots);
    *slots_out = slots;
    return RP_OK;
}

/* Takes a set for its new owner if it is free. */
static bool set_take(struct rp_slots *slots)
{
    if (pthread_mutex_trylock(&slots->lock) != 0)
        return false;
    rp_slots_sweep(slots);
    bool is_free = atomic_load_explicit(&slots->state, memory_order_relaxed) == RP_SLOTS_FREE;
    if (is_free) {
        slots->entries[RP_SLOTS_PACK_FAILED].word = 0;
        atomic_store_explicit(&slots->state, RP_SLOTS_ACTIVE, memory_order_relaxed);
    }
    pthread_mutex_unlock(&slots->lock);
    return is_free;
}

static enum rp_status set_get(int ordinal, struct rp_gpu_device *device, struct rp_slots **slots_out)
{
    for (struct rp_slots *each = sets_first(); each != NULL; each = each->next)
        if (each->ordinal == ordinal && set_take(each)) {
            *slots_out = each;
            return RP_OK;
        }
    return set_make(ordinal, device, slots_out);
}

/* The device, if it and its driver can do what slots need. */
static enum rp_status device_get(int ordinal, struct rp_gpu_device **device_out)
{
    char text[96];
    int maps = 0;
    enum rp_status status = rp_gpu_device_get(ordinal, device_out);
    if (status != RP_OK)
        return status;
    const char *missing = rp_gpu_slots_missing();
    if (missing != NULL) {
        snprintf(text, sizeof text, "the driver has no %s", missing);
        return rp_gpu_fail(RP_UNSUPPORTED, text, CUDA_SUCCESS);
    }
    RP_GPU_TRY(
        cuDeviceGetAttribute(&maps, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, (*device_out)->handle));
    return maps ? RP_OK : rp_gpu_fail(RP_UNSUPPORTED, "the device can't map memory", CUDA_SUCCESS);
}

enum rp_status rp_slots_create(int device, uint32_t nranks, uint32_t rank, struct rp_slots **slots_out)
{
    struct rp_gpu_device *gpu;
    struct rp_gpu_scope scope;
    struct rp_slots *slots = NULL;
    if (rank >= nranks)
        return rp_gpu_fail(RP_INVALID, "a rank outside its communicator", CUDA_SUCCESS);
    enum rp_status status = device_get(device, &gpu);
    if (status != RP_OK)
        return status;
    if (!rp_gpu_enter(&scope, gpu->context))
        return rp_gpu_fail(RP_UNSUPPORTED, "the device's primary context can't be made current", CUDA_SUCCESS);
    status = set_get(device, gpu, &slots);
    rp_gpu_leave(&scope);
    if (slots == NULL)
        return status;
    slots->nranks = nranks;
    slots->rank = rank;
    slots->stamps_first = slots->stamps_given = slots->stamps_next;
    *slots_out = slots;
    return RP_OK;
}

uint64_t rp_slots_granule(const struct rp_slots *slots)
{
    uint64_t granule = rp_slot_memory_granule(slots->ordinal);
    return granule > 0 ? granule : 1;
}

/* What `visit` did to the sets of a device: true if it gave back memory anywhere. Sets at work are left out. */
static bool sets_visit(int ordinal, bool (*visit)(struct rp_slots *slots))
{
    bool any = false;
    for (struct rp_slots *each = sets_first(); each != NULL; each = each->next) {
        struct rp_gpu_scope scope;
        if (each->ordinal != ordinal || pthread_mutex_trylock(&each->lock) != 0)
            continue;
        if (rp_gpu_enter(&scope, each->device->context)) {
            any = visit(each) || any;
            rp_gpu_leave(&scope);
        }
        pthread_mutex_unlock(&each->lock);
    }
    return any;
}

static bool sweep_and_give(struct rp_slots *slots)
{
    bool swept = rp_slots_sweep(slots);
    return rp_slots_give(slots) || swept;
}

bool rp_slots_reclaim(int device)
{
    return sets_visit(device, sweep_and_give);
}

void rp_slots_destroy(struct rp_slots *slots)
{
    int ordinal = slots->ordinal;
    /* pairs with the acquire in rp_slots_sweep() */
    atomic_store_explicit(&slots->state, RP_SLOTS_RETIRED, memory_order_release);
    sets_visit(ordinal, rp_slots_sweep);
}

uint64_t rp_slots_budget(int device, uint64_t budget)
{
    struct rp_gpu_device *gpu;
    struct rp_gpu_scope scope;
    size_t unused = 0, total = 0;
    if (device_get(device, &gpu) != RP_OK || !rp_gpu_enter(&scope, gpu->context))
        return 0;
    sets_visit(device, rp_slots_sweep);
    CUresult result = rp_gpu_driver.p_cuMemGetInfo(&unused, &total);
    rp_gpu_leave(&scope);
    if (result != CUDA_SUCCESS)
        return 0;
    uint64_t most = unused + rp_slots_held(device);
    if (budget > 0)
        return budget < most ? budget : most;
    uint64_t reserve = total / 10 > RESERVE_LEAST ? total / 10 : RESERVE_LEAST;
    return most > reserve ? most - reserve : 0;
}

void rp_slots_forked(void)
{
    atomic_store(&sets, NULL);
    rp_slots_held_forget();
}
