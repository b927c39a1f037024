/*
 * Gathers of ours into slots: what is enqueued before and behind each. The gather itself may be enqueued later, by a
 * thread of NCCL's, so a slot is open from begin to end: nobody stores in it, serves from it or gives its memory back.
 *
 * A slot is somebody's again only when all of its fill was enqueued: its own part from a snapshot or a live buffer, and
 * behind the gather the serial; of a snapshot the device's own cell, so that it is the serial of what was sent.
 *
 * Threads: any; the set's lock is held while work is enqueued.
 */
#include "core/plan/plan.h"
#include "shim/slots_private.h"

/*
 * Where a fill goes: also a slot that may not be used, and where its memory was given back the largest that is left;
 * what is gathered there is nobody's then. NULL: no memory.
 */
static struct rp_slot *target(const struct rp_slots *slots, uint32_t number)
{
    if (number >= slots->table.count)
        return NULL;
    struct rp_slot *slot = slots->table.slots[number];
    return slot != NULL && slot->bytes > 0 ? slot : rp_slots_largest(slots);
}

/* The snapshot, if it holds `bytes` bytes of an op. */
static struct rp_slot *snapshot_of(const struct rp_slots *slots, uint32_t number, uint64_t bytes)
{
    struct rp_slot *snapshot = rp_slots_at(&slots->snapshots, number);
    return snapshot != NULL && snapshot->part == bytes ? snapshot : NULL;
}

/* `bytes` bytes of a snapshot, or of its serial's cell, to `to`. */
static bool snapshot_read(struct rp_slot *snapshot, CUstream stream, CUdeviceptr to, CUdeviceptr from, uint64_t bytes)
{
    if (!rp_slot_order_read(&snapshot->order, stream))
        return false;
    bool copied = rp_slots_copy(stream, to, from, bytes);
    return rp_slot_order_did_read(&snapshot->order, stream) && copied;
}

static CUdeviceptr own_part(const struct rp_slots *slots, const struct rp_slot *slot, uint64_t bytes)
{
    return slot->memory.base + bytes * slots->rank;
}

/* What this rank sends is in the slot's own part, behind what `stream` has. */
static bool own_part_fill(const struct rp_slots *slots, const struct rp_slot *slot, uint32_t number, CUstream stream,
                          uint64_t bytes)
{
    struct rp_slot *snapshot = snapshot_of(slots, number, bytes);
    return snapshot != NULL &&
           snapshot_read(snapshot, stream, own_part(slots, slot, bytes), snapshot->memory.base, bytes);
}

/* Without an order a gather could write while the slot is read: then there is no base for one. */
static bool begin(struct rp_slots *slots, uint32_t number, uint32_t snapshot, CUstream stream, uint64_t bytes,
                  void **base_out)
{
    struct rp_slot *slot = target(slots, number);
    if (slot == NULL || bytes == 0 || bytes > slot->bytes / slots->nranks)
        return false;
    bool gone = slot != slots->table.slots[number], sends = !gone && snapshot == RP_NO_SLOT && slot->live == bytes;
    slot->part = slot->live = slot->filling = 0;
    slot->filler = stream;
    if (!rp_slots_wait_zeroed(slots, stream) || !rp_slot_order_write(&slot->order, stream))
        return false;
    slot->order.open = stream;
    *base_out = (void *)(uintptr_t)slot->memory.base;
    if (!rp_slots_stamp_cell(slots, stream, slot->serial, RP_SERIAL_NONE))
        return false;
    sends = sends || (!gone && own_part_fill(slots, slot, snapshot, stream, bytes));
    slot->filling = sends ? bytes : 0;
    return sends;
}

bool rp_slots_fill_begin(struct rp_slots *slots, uint32_t slot, uint32_t snapshot, cudaStream_t stream, uint64_t bytes,
                         void **base_out)
{
    struct rp_gpu_scope scope;
    *base_out = NULL;
    if (!rp_gpu_enter(&scope, slots->device->context))
        return false;
    pthread_mutex_lock(&slots->lock);
    bool begun = begin(slots, slot, snapshot, (CUstream)stream, bytes, base_out);
    pthread_mutex_unlock(&slots->lock);
    rp_gpu_leave(&scope);
    return begun;
}

/* The snapshot's serial as the device has it, or `serial`. */
static bool stamp(const struct rp_slots *slots, const struct rp_slot *slot, uint32_t number, CUstream stream,
                  uint64_t serial)
{
    if (number == RP_NO_SLOT)
        return serial != RP_SERIAL_NONE && rp_slots_stamp_cell(slots, stream, slot->serial, serial);
    struct rp_slot *snapshot = snapshot_of(slots, number, slot->filling);
    return snapshot != NULL && snapshot_read(snapshot, stream, slot->serial, snapshot->serial, sizeof(uint64_t));
}

/* Nobody's content, closed behind what the stream has. */
static bool close_nobodys(struct rp_slot *slot, CUstream stream)
{
    slot->filling = 0;
    slot->order.open = NULL;
    return rp_slot_order_wrote(&slot->order, stream);
}

static bool end(struct rp_slots *slots, uint32_t number, uint32_t snapshot, CUstream stream, uint64_t serial)
{
    struct rp_slot *slot = target(slots, number);
    if (slot == NULL || slot->order.open != stream)
        return false;
    uint64_t bytes = slot->filling;
    bool stamped = bytes > 0 && stamp(slots, slot, snapshot, stream, serial);
    bool filled = close_nobodys(slot, stream) && stamped;
    slot->part = filled ? bytes : 0;
    slot->packed = false;
    return filled;
}

bool rp_slots_fill_end(struct rp_slots *slots, uint32_t slot, uint32_t snapshot, cudaStream_t stream, uint64_t serial)
{
    struct rp_gpu_scope scope;
    if (!rp_gpu_enter(&scope, slots->device->context))
        return false;
    pthread_mutex_lock(&slots->lock);
    bool filled = end(slots, slot, snapshot, (CUstream)stream, serial);
    pthread_mutex_unlock(&slots->lock);
    rp_gpu_leave(&scope);
    return filled;
}

/* What `act` does to each slot of the set. Snapshots are never filled. */
static void each_slot(struct rp_slots *slots, CUstream stream, void (*act)(struct rp_slot *slot, CUstream stream))
{
    struct rp_gpu_scope scope;
    if (!rp_gpu_enter(&scope, slots->device->context))
        return;
    pthread_mutex_lock(&slots->lock);
    for (size_t i = 0; i < slots->table.count; i++)
        if (slots->table.slots[i] != NULL)
            act(slots->table.slots[i], stream);
    for (struct rp_slot *slot = slots->graves; slot != NULL; slot = slot->next)
        act(slot, stream);
    pthread_mutex_unlock(&slots->lock);
    rp_gpu_leave(&scope);
}

void rp_slots_fill_cut(struct rp_slots *slots, cudaStream_t stream)
{
    atomic_store(&slots->cut, (CUstream)stream);
}

static void drop(struct rp_slot *slot, CUstream stream)
{
    if (slot->filler == stream) {
        slot->part = 0;
        slot->filler = NULL;
    }
    if (slot->order.open == stream)
        close_nobodys(slot, stream);
}

void rp_slots_fill_drop(struct rp_slots *slots, cudaStream_t stream)
{
    CUstream cut = (CUstream)stream;
    each_slot(slots, (CUstream)stream, drop);
    atomic_compare_exchange_strong(&slots->cut, &cut, NULL); /* another child's may have the same handle */
}

static bool live(struct rp_slots *slots, uint32_t number, CUstream stream, CUdeviceptr send, uint64_t bytes)
{
    struct rp_slot *slot = rp_slots_at(&slots->table, number);
    if (slot == NULL)
        return false;
    slot->part = slot->live = 0;
    slot->filler = NULL;
    if (bytes == 0 || bytes > slot->bytes / slots->nranks || !rp_slots_on_device(slots, send) ||
        !rp_slots_on_device(slots, send + bytes - 1) || !rp_slots_wait_zeroed(slots, stream) ||
        !rp_slot_order_write(&slot->order, stream))
        return false;
    bool copied = rp_slots_stamp_cell(slots, stream, slot->serial, RP_SERIAL_NONE) &&
                  rp_slots_copy(stream, own_part(slots, slot, bytes), send, bytes);
    copied = rp_slot_order_wrote(&slot->order, stream) && copied;
    slot->live = copied ? bytes : 0;
    return copied;
}

bool rp_slots_live(struct rp_slots *slots, uint32_t slot, cudaStream_t stream, const void *send, uint64_t bytes)
{
    struct rp_gpu_scope scope;
    if (!rp_gpu_enter(&scope, slots->device->context))
        return false;
    pthread_mutex_lock(&slots->lock);
    bool copied = live(slots, slot, (CUstream)stream, (CUdeviceptr)(uintptr_t)send, bytes);
    pthread_mutex_unlock(&slots->lock);
    rp_gpu_leave(&scope);
    return copied;
}
