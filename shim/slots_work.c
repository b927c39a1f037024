/*
 * Work on slots, on the caller's stream: store a gather's result, serve one. Nothing here waits on the host.
 *
 * A slot's serial is no op's while a store is under way, and the host forgets what the slot holds before the first
 * piece of a store is enqueued: half a store is never taken for either op.
 *
 * Threads: any; the set's lock is held while work is enqueued.
 */
#include "shim/slots_private.h"

/* Bytes that a thread compares at least, so that small shards don't pay for many blocks. */
#define LEAST_BYTES 128u

static CUresult launch_stamp(const struct rp_slots *slots, CUstream stream, CUdeviceptr cell, uint64_t value)
{
    void *parameters[] = {&cell, &value};
    return rp_gpu_driver.p_cuLaunchKernel(slots->device->stamp, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL);
}

bool rp_slots_stamp_cell(const struct rp_slots *slots, CUstream stream, CUdeviceptr cell, uint64_t value)
{
    return launch_stamp(slots, stream, cell, value) == CUDA_SUCCESS;
}

/* What a compare is given. */
struct operands {
    CUdeviceptr a, b;
    uint64_t bytes;
    CUdeviceptr serial;
    uint64_t expected;
};

static CUresult launch_compare(const struct rp_slots *slots, CUstream stream, struct operands operands, uint64_t index,
                               uint64_t tag)
{
    CUdeviceptr state = slots->states + index * sizeof(struct rp_compare_state);
    CUdeviceptr entry = slots->entries_on_device + index * sizeof(struct rp_compare_entry);
    void *parameters[] = {&operands.a,        &operands.b, &operands.bytes, &operands.serial,
                          &operands.expected, &state,      &entry,          &tag};
    uint64_t blocks = operands.bytes / (RP_COMPARE_THREADS * LEAST_BYTES) + 1;
    if (blocks > slots->device->max_blocks)
        blocks = slots->device->max_blocks;
    return rp_gpu_driver.p_cuLaunchKernel(slots->device->compare, (unsigned)blocks, 1, 1, RP_COMPARE_THREADS, 1, 1, 0,
                                          stream, parameters, NULL);
}

bool rp_slots_copy(CUstream stream, CUdeviceptr to, CUdeviceptr from, uint64_t bytes)
{
    return bytes == 0 || rp_gpu_driver.p_cuMemcpyDtoDAsync(to, from, bytes, stream) == CUDA_SUCCESS;
}

enum rp_status rp_slots_warm(const struct rp_slots *slots)
{
    CUstream stream = slots->device->stream;
    struct operands operands = {slots->cells, slots->cells, 16, slots->cells, RP_SERIAL_NONE};
    CUresult result = launch_stamp(slots, stream, slots->cells, RP_SERIAL_NONE);
    if (result != CUDA_SUCCESS)
        return rp_gpu_fail(RP_UNSUPPORTED, "cuLaunchKernel(rp_stamp)", result);
    result = launch_compare(slots, stream, operands, 0, 0); /* its tag is no ticket's */
    if (result != CUDA_SUCCESS)
        return rp_gpu_fail(RP_UNSUPPORTED, "cuLaunchKernel(rp_compare)", result);
    if (!rp_slots_warm_packing(slots))
        return rp_gpu_fail(RP_UNSUPPORTED, "a kernel of packed slots can't be started", CUDA_SUCCESS);
    /* the driver copies by kernels of its own, chosen by alignment; all cells hold the same */
    RP_GPU_TRY(cuMemcpyDtoDAsync(slots->cells + (64 << 10), slots->cells, 64 << 10, stream));
    RP_GPU_TRY(cuMemcpyDtoDAsync(slots->cells + 1025, slots->cells, 999, stream));
    return RP_OK;
}

bool rp_slots_wait_zeroed(struct rp_slots *slots, CUstream stream)
{
    if (!slots->ready)
        slots->ready = rp_gpu_driver.p_cuEventQuery(slots->zeroed) == CUDA_SUCCESS;
    return slots->ready ||
           rp_gpu_driver.p_cuStreamWaitEvent(stream, slots->zeroed, CU_EVENT_WAIT_DEFAULT) == CUDA_SUCCESS;
}

bool rp_slots_on_device(const struct rp_slots *slots, CUdeviceptr address)
{
    CUmemorytype type = CU_MEMORYTYPE_HOST;
    int ordinal = -1;
    CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    void *values[] = {&type, &ordinal};
    return address != 0 && rp_gpu_driver.p_cuPointerGetAttributes(2, attributes, values, address) == CUDA_SUCCESS &&
           type == CU_MEMORYTYPE_DEVICE && ordinal == slots->ordinal;
}

/* One call, in addresses of the device. */
struct gather {
    CUstream stream;
    CUdeviceptr send, receive;
    uint64_t bytes;  /* of one rank's part */
    uint64_t serial; /* of the op, or expected */
    bool packs;      /* the slot is to hold it packed */
};

/* The bytes behind `receive` into the slot: `parts` parts. */
static bool store_enqueue(const struct rp_slots *slots, const struct rp_slot *slot, const struct gather *gather,
                          uint32_t parts)
{
    if (!rp_slots_stamp_cell(slots, gather->stream, slot->serial, RP_SERIAL_NONE))
        return false;
    if (gather->packs)
        return rp_slots_pack(slots, slot, gather->stream, gather->receive, gather->bytes, gather->serial);
    return rp_slots_copy(gather->stream, slot->memory.base, gather->receive, gather->bytes * parts) &&
           rp_slots_stamp_cell(slots, gather->stream, slot->serial, gather->serial);
}

static bool has_room(const struct rp_slots *slots, const struct rp_slot *slot, const struct gather *gather,
                     uint32_t parts)
{
    if (gather->packs)
        return rp_slots_packable(slots, slot, gather->receive, gather->bytes);
    return gather->bytes <= slot->bytes / parts;
}

static bool store(struct rp_slots *slots, struct rp_slot *slot, const struct gather *gather, uint32_t parts)
{
    slot->part = slot->live = 0;
    slot->filler = NULL;
    slot->packed = gather->packs;
    if (gather->bytes == 0 || !has_room(slots, slot, gather, parts) || gather->serial == RP_SERIAL_NONE ||
        !rp_slots_on_device(slots, gather->receive) || !rp_slots_wait_zeroed(slots, gather->stream) ||
        !rp_slot_order_write(&slot->order, gather->stream))
        return false;
    bool stored = store_enqueue(slots, slot, gather, parts);
    stored = rp_slot_order_wrote(&slot->order, gather->stream) && stored;
    if (stored)
        slot->part = gather->bytes;
    return stored;
}

static bool store_in(struct rp_slots *slots, const struct rp_slot_table *table, uint32_t number,
                     const struct gather *gather, uint32_t parts)
{
    struct rp_gpu_scope scope;
    bool entered = rp_gpu_enter(&scope, slots->device->context);
    pthread_mutex_lock(&slots->lock);
    struct rp_slot *slot = rp_slots_at(table, number);
    if (!entered && slot != NULL)
        slot->part = slot->live = 0;
    bool stored = entered && slot != NULL && store(slots, slot, gather, parts);
    pthread_mutex_unlock(&slots->lock);
    if (entered)
        rp_gpu_leave(&scope);
    return stored;
}

bool rp_slots_store(struct rp_slots *slots, uint32_t slot, cudaStream_t stream, const void *receive, uint64_t bytes,
                    uint64_t serial)
{
    struct gather gather = {(CUstream)stream, 0, (CUdeviceptr)(uintptr_t)receive, bytes, serial, false};
    return store_in(slots, &slots->table, slot, &gather, slots->nranks);
}

bool rp_slots_store_packed(struct rp_slots *slots, uint32_t slot, cudaStream_t stream, const void *receive,
                           uint64_t bytes, uint64_t serial)
{
    struct gather gather = {(CUstream)stream, 0, (CUdeviceptr)(uintptr_t)receive, bytes, serial, true};
    return store_in(slots, &slots->table, slot, &gather, slots->nranks);
}

bool rp_slots_pack_failed(const struct rp_slots *slots)
{
    return __atomic_load_n(&slots->entries[RP_SLOTS_PACK_FAILED].word, __ATOMIC_RELAXED) != 0;
}

bool rp_slots_snapshot(struct rp_slots *slots, uint32_t snapshot, cudaStream_t stream, const void *receive,
                       uint64_t bytes, uint64_t serial)
{
    CUdeviceptr own = (CUdeviceptr)(uintptr_t)receive + bytes * slots->rank;
    struct gather gather = {(CUstream)stream, 0, own, bytes, serial, false};
    return store_in(slots, &slots->snapshots, snapshot, &gather, 1);
}

/* Pairs with the system fence in publish_verdict() (kernels.cu): who sees the verdict may use its state again. */
static uint64_t word_of(const struct rp_slots *slots, uint64_t ticket)
{
    return __atomic_load_n(&slots->entries[ticket % RP_SLOTS_TICKETS].word, __ATOMIC_ACQUIRE);
}

/* The next ticket's entry is nobody's: the compare before it there has ended. Two at once would share their state. */
static bool entry_free(const struct rp_slots *slots)
{
    uint64_t ticket = slots->next_ticket;
    return ticket < RP_SLOTS_TICKETS || word_of(slots, ticket) / 2 == ticket - RP_SLOTS_TICKETS + 1;
}

/* `send` is apart from `receive`, or this rank's part of it. */
static bool places_fit(const struct rp_slots *slots, const struct gather *gather)
{
    uint64_t end = gather->receive + gather->bytes * slots->nranks;
    return gather->send == gather->receive + gather->bytes * slots->rank || gather->send >= end ||
           gather->send + gather->bytes <= gather->receive;
}

static bool compare(struct rp_slots *slots, const struct rp_slot *slot, const struct gather *gather,
                    uint64_t *ticket_out)
{
    uint64_t ticket = slots->next_ticket, index = ticket % RP_SLOTS_TICKETS;
    struct operands operands = {gather->send, slot->memory.base + gather->bytes * slots->rank, gather->bytes,
                                slot->serial, gather->serial};
    bool enqueued = slot->packed ? rp_slots_compare_packed(slots, slot, gather->stream, gather->send, gather->bytes,
                                                           gather->serial, index, ticket + 1)
                                 : launch_compare(slots, gather->stream, operands, index, ticket + 1) == CUDA_SUCCESS;
    if (!enqueued)
        return false;
    slots->next_ticket++;
    *ticket_out = ticket;
    return true;
}

/* Parts of the slot to their places. */
static bool parts_copy(const struct rp_slots *slots, const struct rp_slot *slot, const struct gather *gather,
                       uint32_t first, uint32_t count)
{
    CUdeviceptr to = gather->receive + gather->bytes * first;
    if (slot->packed)
        return rp_slots_unpack(slots, slot, gather->stream, gather->bytes, first, count, to);
    return rp_slots_copy(gather->stream, to, slot->memory.base + gather->bytes * first, gather->bytes * count);
}

/* The parts before and behind the own one from the slot, the own one from the live shard. */
static bool deliver(const struct rp_slots *slots, const struct rp_slot *slot, const struct gather *gather)
{
    uint64_t own = gather->bytes * slots->rank;
    bool in_place = gather->send == gather->receive + own;
    return parts_copy(slots, slot, gather, 0, slots->rank) &&
           parts_copy(slots, slot, gather, slots->rank + 1, slots->nranks - slots->rank - 1) &&
           rp_slots_copy(gather->stream, gather->receive + own, gather->send, in_place ? 0 : gather->bytes);
}

static bool serve(struct rp_slots *slots, uint32_t number, const struct gather *gather, uint64_t *ticket_out)
{
    struct rp_slot *slot = rp_slots_at(&slots->table, number);
    if (slot == NULL || (slot->filler != NULL && slot->filler == atomic_load(&slots->cut)))
        return false;
    if (gather->bytes == 0 || gather->bytes != slot->part || gather->serial == RP_SERIAL_NONE || !entry_free(slots) ||
        !places_fit(slots, gather) || !rp_slots_on_device(slots, gather->send) ||
        !rp_slots_on_device(slots, gather->receive) || !rp_slots_wait_zeroed(slots, gather->stream) ||
        !rp_slot_order_read(&slot->order, gather->stream))
        return false;
    uint64_t ticket = 0;
    bool served = compare(slots, slot, gather, &ticket) && deliver(slots, slot, gather);
    served = rp_slot_order_did_read(&slot->order, gather->stream) && served;
    if (served)
        *ticket_out = ticket;
    return served;
}

bool rp_slots_serve(struct rp_slots *slots, uint32_t slot, cudaStream_t stream, const void *send, void *receive,
                    uint64_t bytes, uint64_t expected, uint64_t *ticket_out)
{
    struct gather gather = {
        (CUstream)stream, (CUdeviceptr)(uintptr_t)send, (CUdeviceptr)(uintptr_t)receive, bytes, expected, false};
    struct rp_gpu_scope scope;
    if (!rp_gpu_enter(&scope, slots->device->context))
        return false;
    pthread_mutex_lock(&slots->lock);
    bool served = serve(slots, slot, &gather, ticket_out);
    pthread_mutex_unlock(&slots->lock);
    rp_gpu_leave(&scope);
    return served;
}

enum rp_compare rp_slots_compared(const struct rp_slots *slots, uint64_t ticket)
{
    uint64_t word = word_of(slots, ticket), tag = ticket + 1;
    if (word / 2 < tag)
        return RP_COMPARE_PENDING;
    return word == rp_compare_word(tag, 1) ? RP_COMPARE_EQUAL : RP_COMPARE_UNLIKE;
}
