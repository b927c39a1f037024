/*
 * Units of packed slots on the caller's stream: packed from what a gather has delivered, unpacked to where one
 * delivers, compared with what is sent. The form: core/plan/pack.h; the kernels: pack.h.
 *
 * Threads: any; the set's lock is held.
 */
#include "shim/pack.h"
#include "shim/slots_private.h"

/* Exceptions are few: blocks for more of them at once are not worth their start. */
#define LIST_BLOCKS 32u

static bool launch(CUfunction kernel, unsigned blocks, unsigned threads, CUstream stream, void **parameters)
{
    return rp_gpu_driver.p_cuLaunchKernel(kernel, blocks, 1, 1, threads, 1, 1, 0, stream, parameters, NULL) ==
           CUDA_SUCCESS;
}

/* For `bytes` bytes of elements. These kernels keep less under way than a compare does, so they take more blocks. */
static unsigned blocks_for(const struct rp_slots *slots, uint64_t bytes)
{
    uint64_t blocks = bytes / (RP_PACK_THREADS * 16) + 1, most = 4 * (uint64_t)slots->device->max_blocks;
    return (unsigned)(blocks < most ? blocks : most);
}

/* An element is loaded and stored as one word. A program that has one elsewhere has it there in each step, and slots
 * that hold units as they are serve it. */
static bool take_address(const struct rp_slots *slots, CUdeviceptr address)
{
    if (address % 2 == 0)
        return true;
    __atomic_store_n(&slots->entries[RP_SLOTS_PACK_FAILED].word, 1, __ATOMIC_RELAXED);
    return false;
}

bool rp_slots_packable(const struct rp_slots *slots, const struct rp_slot *slot, CUdeviceptr receive, uint64_t bytes)
{
    return take_address(slots, receive) && rp_pack_unit(bytes, slots->nranks) <= slot->bytes;
}

bool rp_slots_pack(const struct rp_slots *slots, const struct rp_slot *slot, CUstream stream, CUdeviceptr from,
                   uint64_t bytes, uint64_t serial)
{
    uint32_t nranks = slots->nranks;
    CUdeviceptr unit = slot->memory.base, cell = slot->serial;
    CUdeviceptr failed = slots->entries_on_device + RP_SLOTS_PACK_FAILED * sizeof(struct rp_compare_entry);
    void *pack[] = {&from, &bytes, &unit, &nranks}, *stamp[] = {&unit, &bytes, &nranks, &cell, &serial, &failed};
    return rp_gpu_driver.p_cuMemsetD8Async(unit, 0, rp_pack_parts(nranks), stream) == CUDA_SUCCESS &&
           launch(slots->device->pack, blocks_for(slots, bytes * nranks), RP_PACK_THREADS, stream, pack) &&
           launch(slots->device->pack_stamp, 1, 1, stream, stamp);
}

bool rp_slots_unpack(const struct rp_slots *slots, const struct rp_slot *slot, CUstream stream, uint64_t bytes,
                     uint32_t first, uint32_t count, CUdeviceptr to)
{
    uint32_t nranks = slots->nranks;
    CUdeviceptr unit = slot->memory.base;
    void *parameters[] = {&unit, &bytes, &nranks, &first, &count, &to};
    return count == 0 ||
           (take_address(slots, to) &&
            launch(slots->device->unpack, blocks_for(slots, bytes * count), RP_PACK_THREADS, stream, parameters) &&
            launch(slots->device->unpack_list, LIST_BLOCKS, RP_PACK_THREADS, stream, parameters));
}

bool rp_slots_compare_packed(const struct rp_slots *slots, const struct rp_slot *slot, CUstream stream,
                             CUdeviceptr send, uint64_t bytes, uint64_t expected, uint64_t index, uint64_t tag)
{
    uint32_t nranks = slots->nranks, rank = slots->rank;
    CUdeviceptr state = slots->states + index * sizeof(struct rp_compare_state);
    CUdeviceptr entry = slots->entries_on_device + index * sizeof(struct rp_compare_entry);
    CUdeviceptr unit = slot->memory.base, cell = slot->serial;
    void *parameters[] = {&send, &unit, &bytes, &nranks, &rank, &cell, &expected, &state, &entry, &tag};
    return take_address(slots, send) &&
           launch(slots->device->compare_packed, blocks_for(slots, bytes), RP_PACK_THREADS, stream, parameters);
}

/* In the cells, of which all hold the same: nothing is packed or unpacked, and the compare's tag is no ticket's. The
 * driver sets few bytes by a kernel of its own. */
bool rp_slots_warm_packing(const struct rp_slots *slots)
{
    struct rp_slot slot = {.memory = {.base = slots->cells}, .serial = slots->cells};
    CUstream stream = slots->device->stream;
    CUdeviceptr cells = slots->cells, failed = slots->entries_on_device;
    uint64_t bytes = 2, serial = RP_SERIAL_NONE;
    uint32_t none = 0;
    void *pack[] = {&cells, &bytes, &cells, &none}, *stamp[] = {&cells, &bytes, &none, &cells, &serial, &failed};
    void *unpack[] = {&cells, &bytes, &none, &none, &none, &cells};
    return rp_gpu_driver.p_cuMemsetD8Async(cells, 0xff, rp_pack_parts(1), stream) == CUDA_SUCCESS &&
           launch(slots->device->pack, 1, RP_PACK_THREADS, stream, pack) &&
           launch(slots->device->pack_stamp, 1, 1, stream, stamp) &&
           launch(slots->device->unpack, 1, RP_PACK_THREADS, stream, unpack) &&
           launch(slots->device->unpack_list, 1, RP_PACK_THREADS, stream, unpack) &&
           rp_slots_compare_packed(slots, &slot, stream, cells, bytes, RP_SERIAL_NONE, 0, 0);
}
