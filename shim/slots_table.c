/*
 * The slots of a set: made, given up, given back. Memory goes back only when no work uses it any more; until then a
 * slot that was given up lies in the graves, which every later call here looks at.
 *
 * Threads: with the set's lock held, in the device's context.
 */
#include <stdlib.h>

#include "shim/slots_private.h"

struct rp_slot *rp_slots_at(const struct rp_slots *slots, uint32_t slot)
{
    if (slot >= slots->count || slots->table[slot] == NULL)
        return NULL;
    struct rp_slot *found = slots->table[slot];
    return found->bytes > 0 && !found->order.lost ? found : NULL;
}

static void slot_give(struct rp_slots *slots, struct rp_slot *slot)
{
    rp_slot_memory_put(slots->ordinal, &slot->memory);
    slot->bytes = 0;
    slot->part = 0;
}

static void slot_bury(struct rp_slots *slots, struct rp_slot *slot)
{
    slot->next = slots->graves;
    slots->graves = slot;
}

/* True if memory went back. */
static bool graves_sweep(struct rp_slots *slots)
{
    bool gave = false;
    for (struct rp_slot **link = &slots->graves; *link != NULL;) {
        struct rp_slot *slot = *link;
        if (!rp_slot_order_idle(&slot->order)) {
            link = &slot->next;
            continue;
        }
        gave = gave || slot->bytes > 0;
        slot_give(slots, slot);
        *link = slot->next;
        slot->next = slots->free;
        slots->free = slot;
    }
    return gave;
}

static void table_bury(struct rp_slots *slots)
{
    for (size_t i = 0; i < slots->count; i++)
        if (slots->table[i] != NULL)
            slot_bury(slots, slots->table[i]);
    free(slots->table);
    slots->table = NULL;
    slots->count = 0;
}

bool rp_slots_sweep(struct rp_slots *slots)
{
    /* pairs with the release in rp_slots_destroy() */
    bool retired = atomic_load_explicit(&slots->state, memory_order_acquire) == RP_SLOTS_RETIRED;
    if (retired)
        table_bury(slots);
    bool gave = graves_sweep(slots);
    if (retired && slots->graves == NULL)
        atomic_store_explicit(&slots->state, RP_SLOTS_FREE, memory_order_relaxed); /* seen under the lock */
    return gave;
}

bool rp_slots_give(struct rp_slots *slots)
{
    bool gave = false;
    for (uint32_t i = 0; i < slots->count; i++) {
        struct rp_slot *slot = rp_slots_at(slots, i);
        if (slot == NULL || !rp_slot_order_idle(&slot->order))
            continue;
        slot_give(slots, slot);
        gave = true;
    }
    return gave;
}

/* An object without memory, or NULL: rp_gpu_error() says why. */
static struct rp_slot *slot_new(struct rp_slots *slots)
{
    struct rp_slot *slot = slots->free;
    if (slot != NULL) {
        slots->free = slot->next;
        return slot;
    }
    slot = slots->cells_used < RP_SLOTS_CELLS ? calloc(1, sizeof *slot) : NULL;
    if (slot == NULL) {
        rp_gpu_fail(RP_NO_MEMORY, "no memory for a further slot", CUDA_SUCCESS);
        return NULL;
    }
    if (rp_slot_order_make(&slot->order) != RP_OK) {
        free(slot); /* its events, if any, stay: the driver has just failed */
        return NULL;
    }
    slot->serial = slots->cells + slots->cells_used++ * sizeof(uint64_t);
    return slot;
}

/* A slot of that size at an index of the new table, unless there is one. */
static enum rp_status slot_fill(struct rp_slots *slots, size_t index, uint64_t bytes)
{
    if (slots->table[index] != NULL)
        return RP_OK;
    struct rp_slot *slot = slots->table[index] = slot_new(slots);
    if (slot == NULL)
        return RP_NO_MEMORY;
    enum rp_status status = rp_slot_memory_get(slots->ordinal, bytes, &slot->memory);
    if (status == RP_OK)
        slot->bytes = bytes;
    return status;
}

/* The slots of the old table that fit go to the same places of `table`, the others into the graves. */
static void table_move(struct rp_slots *slots, struct rp_slot **table, const uint64_t *bytes, size_t count)
{
    for (uint32_t i = 0; i < slots->count && i < count; i++) {
        struct rp_slot *slot = rp_slots_at(slots, i);
        if (slot == NULL || slot->bytes != bytes[i])
            continue;
        table[i] = slot;
        slots->table[i] = NULL;
    }
    table_bury(slots);
    slots->table = table;
    slots->count = count;
}

static enum rp_status resize(struct rp_slots *slots, const uint64_t *bytes, size_t count)
{
    struct rp_slot **table = calloc(count > 0 ? count : 1, sizeof(struct rp_slot *));
    if (table == NULL) {
        table_bury(slots);
        return rp_gpu_fail(RP_NO_MEMORY, "no memory for slots", CUDA_SUCCESS);
    }
    table_move(slots, table, bytes, count);
    graves_sweep(slots);
    for (size_t i = 0; i < count; i++) {
        enum rp_status status = slot_fill(slots, i, bytes[i]);
        if (status == RP_OK)
            continue;
        table_bury(slots);
        graves_sweep(slots);
        return status;
    }
    return RP_OK;
}

enum rp_status rp_slots_resize(struct rp_slots *slots, const uint64_t *bytes, size_t count)
{
    struct rp_gpu_scope scope;
    if (!rp_gpu_enter(&scope, slots->device->context))
        return rp_gpu_fail(RP_NO_MEMORY, "the device's primary context can't be made current", CUDA_SUCCESS);
    pthread_mutex_lock(&slots->lock);
    enum rp_status status = resize(slots, bytes, count);
    pthread_mutex_unlock(&slots->lock);
    rp_gpu_leave(&scope);
    return status;
}

bool rp_slots_present(struct rp_slots *slots, uint32_t slot)
{
    pthread_mutex_lock(&slots->lock);
    bool present = rp_slots_at(slots, slot) != NULL;
    pthread_mutex_unlock(&slots->lock);
    return present;
}

bool rp_slots_settled(struct rp_slots *slots, uint32_t slot)
{
    struct rp_gpu_scope scope;
    if (!rp_gpu_enter(&scope, slots->device->context))
        return false;
    pthread_mutex_lock(&slots->lock);
    bool none = slot >= slots->count || slots->table[slot] == NULL;
    bool settled = none || rp_slot_order_settled(&slots->table[slot]->order);
    pthread_mutex_unlock(&slots->lock);
    rp_gpu_leave(&scope);
    return settled;
}

uint64_t rp_slots_own(struct rp_slots *slots)
{
    uint64_t own = 0;
    pthread_mutex_lock(&slots->lock);
    for (size_t i = 0; i < slots->count; i++)
        own += slots->table[i] != NULL ? slots->table[i]->memory.mapped : 0;
    pthread_mutex_unlock(&slots->lock);
    return own;
}
