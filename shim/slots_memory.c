/*
 * Memory of slots: ranges of addresses with physical memory in chunks behind them. A handle is released as soon as it
 * is mapped: the unmapping then gives the memory back, and nothing of it waits for the device as cuMemFree does.
 *
 * Threads: any; the counters are atomic, the rest belongs to the caller.
 */
#include <stdatomic.h>

#include "shim/slots_private.h"

#define CHUNK ((uint64_t)64 << 20)
#define DEVICES 64

/* Bytes mapped, by device: for figures and budgets only, so no order is needed. */
static _Atomic uint64_t held[DEVICES];

uint64_t rp_slots_held(int device)
{
    return device >= 0 && device < DEVICES ? atomic_load_explicit(&held[device], memory_order_relaxed) : 0;
}

void rp_slots_held_forget(void)
{
    for (int i = 0; i < DEVICES; i++)
        atomic_store_explicit(&held[i], 0, memory_order_relaxed);
}

static CUmemAllocationProp properties(int ordinal)
{
    CUmemAllocationProp of_device = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                     .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = ordinal}};
    return of_device;
}

static uint64_t chunk_bytes(const struct rp_slot_memory *memory, uint64_t offset)
{
    return memory->reserved - offset < CHUNK ? memory->reserved - offset : CHUNK;
}

/* One chunk behind what is mapped. */
static CUresult chunk_map(int ordinal, struct rp_slot_memory *memory)
{
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp of_device = properties(ordinal);
    uint64_t bytes = chunk_bytes(memory, memory->mapped);
    CUresult result = rp_gpu_driver.p_cuMemCreate(&handle, bytes, &of_device, 0);
    if (result != CUDA_SUCCESS)
        return result;
    result = rp_gpu_driver.p_cuMemMap(memory->base + memory->mapped, bytes, 0, handle, 0);
    rp_gpu_driver.p_cuMemRelease(handle);
    if (result != CUDA_SUCCESS)
        return result;
    memory->mapped += bytes;
    atomic_fetch_add_explicit(&held[ordinal], bytes, memory_order_relaxed);
    return CUDA_SUCCESS;
}

static CUresult chunks_map(int ordinal, struct rp_slot_memory *memory)
{
    CUmemAccessDesc access = {.location = properties(ordinal).location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    while (memory->mapped < memory->reserved) {
        CUresult result = chunk_map(ordinal, memory);
        if (result != CUDA_SUCCESS)
            return result;
    }
    return rp_gpu_driver.p_cuMemSetAccess(memory->base, memory->reserved, &access, 1);
}

uint64_t rp_slot_memory_granule(int ordinal)
{
    size_t granule = 0;
    CUmemAllocationProp of_device = properties(ordinal);
    CUresult result =
        rp_gpu_driver.p_cuMemGetAllocationGranularity(&granule, &of_device, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
    return result == CUDA_SUCCESS && granule > 0 && CHUNK % granule == 0 ? granule : 0;
}

/* `bytes` in whole granules; 0 if they can't be had in chunks. */
static uint64_t whole_granules(int ordinal, uint64_t bytes)
{
    uint64_t granule = rp_slot_memory_granule(ordinal);
    if (granule == 0 || bytes > UINT64_MAX - granule)
        return 0;
    return (bytes + granule - 1) / granule * granule;
}

enum rp_status rp_slot_memory_get(int ordinal, uint64_t bytes, struct rp_slot_memory *memory_out)
{
    struct rp_slot_memory memory = {.reserved = whole_granules(ordinal, bytes)};
    if (memory.reserved == 0)
        return rp_gpu_fail(RP_NO_MEMORY, "the device can't map a slot of that size", CUDA_SUCCESS);
    CUresult result = rp_gpu_driver.p_cuMemAddressReserve(&memory.base, memory.reserved, 0, 0, 0);
    if (result != CUDA_SUCCESS)
        return rp_gpu_fail(RP_NO_MEMORY, "cuMemAddressReserve", result);
    result = chunks_map(ordinal, &memory);
    if (result == CUDA_SUCCESS) {
        *memory_out = memory;
        return RP_OK;
    }
    rp_slot_memory_put(ordinal, &memory);
    return rp_gpu_fail(RP_NO_MEMORY, "memory of a slot", result);
}

void rp_slot_memory_put(int ordinal, struct rp_slot_memory *memory)
{
    bool all = true;
    for (uint64_t offset = 0; offset < memory->mapped; offset += CHUNK) {
        uint64_t bytes = chunk_bytes(memory, offset);
        if (rp_gpu_driver.p_cuMemUnmap(memory->base + offset, bytes) == CUDA_SUCCESS)
            atomic_fetch_sub_explicit(&held[ordinal], bytes, memory_order_relaxed);
        else
            all = false;
    }
    if (all && memory->reserved > 0)
        rp_gpu_driver.p_cuMemAddressFree(memory->base, memory->reserved);
    *memory = (struct rp_slot_memory){0};
}
