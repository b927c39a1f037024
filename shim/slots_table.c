/*
 * The slots of a set: made, given up, given back. Memory goes back only when no work uses it any more; until then a
 * slot that was given up lies in the graves, which every later call here looks at.
 *
 * Threads: with the set's lock held, in the device's context.
 */
#include <stdlib.h>

#include "shim/slots_private.h"

struct rp_slot *rp_slots_at(const struct rp_slot_table *table, uint32_t slot)
{
    if (slot >= table->count || table->slots[slot] == NULL)
        return NULL;
    struct rp_slot *found = table->slots[slot];
    return found->bytes > 0 && !found->order.lost && found->order.open == NULL ? found : NULL;
}

static void slot_give(struct rp_slots *slots, struct rp_slot *slot)
{
    rp_slot_memory_put(slots->ordinal, &slot->memory);
    slot->bytes = slot->part = slot->live = slot->filling = 0;
    slot->filler = NULL;
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

static void table_bury(struct rp_slots *slots, struct rp_slot_table *table)
{
    for (size_t i = 0; i < table->count; i++)
        if (table->slots[i] != NULL)
            slot_bury(slots, table->slots[i]);
    free(table->slots);
    *table = (struct rp_slot_table){0};
}

static void tables_bury(struct rp_slots *slots)
{
    table_bury(slots, &slots->table);
    table_bury(slots, &slots->snapshots);
    slots->fills = false;
}

bool rp_slots_sweep(struct rp_slots *slots)
{
    /* pairs with the release in rp_slots_destroy() */
    bool retired = atomic_load_explicit(&slots->state, memory_order_acquire) == RP_SLOTS_RETIRED;
    if (retired)
        tables_bury(slots);
    bool gave = graves_sweep(slots);
    if (retired && slots->graves == NULL)
        atomic_store_explicit(&slots->state, RP_SLOTS_FREE, memory_order_relaxed); /* seen under the lock */
    return gave;
}

struct rp_slot *rp_slots_largest(const struct rp_slots *slots)
{
    struct rp_slot *largest = NULL;
    for (size_t i = 0; i < slots->table.count; i++) {
        struct rp_slot *slot = slots->table.slots[i];
        if (slot != NULL && slot->bytes > (largest != NULL ? largest->bytes : 0))
            largest = slot;
    }
    return largest;
}

/* All but `kept`. */
static bool table_give(struct rp_slots *slots, const struct rp_slot_table *table, const struct rp_slot *kept)
{
    bool gave = false;
    for (uint32_t i = 0; i < table->count; i++) {
        struct rp_slot *slot = rp_slots_at(table, i);
        if (slot == NULL || slot == kept || !rp_slot_order_idle(&slot->order))
            continue;
        slot_give(slots, slot);
        gave = true;
    }
    return gave;
}

bool rp_slots_give(struct rp_slots *slots)
{
    const struct rp_slot *sink = slots->fills ? rp_slots_largest(slots) : NULL;
    bool gave = table_give(slots, &slots->table, sink);
    return table_give(slots, &slots->snapshots, NULL) || gave;
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
static enum rp_status slot_fill(struct rp_slots *slots, struct rp_slot_table *table, size_t index, uint64_t bytes)
{
    if (table->slots[index] != NULL)
        return RP_OK;
    struct rp_slot *slot = table->slots[index] = slot_new(slots);
    if (slot == NULL)
        return RP_NO_MEMORY;
    enum rp_status status = rp_slot_memory_get(slots->ordinal, bytes, &slot->memory);
    if (status == RP_OK)
        slot->bytes = bytes;
    return status;
}

/* A table of `count` places: what fits of the old one at the same places, the rest of it goes into the graves. */
static enum rp_status table_move(struct rp_slots *slots, struct rp_slot_table *table, const uint64_t *bytes,
                                 size_t count)
{
    struct rp_slot **places = calloc(count > 0 ? count : 1, sizeof(struct rp_slot *));
    if (places == NULL)
        return rp_gpu_fail(RP_NO_MEMORY, "no memory for slots", CUDA_SUCCESS);
    for (uint32_t i = 0; i < table->count && i < count; i++) {
        struct rp_slot *slot = rp_slots_at(table, i);
        if (slot == NULL || slot->bytes != bytes[i])
            continue;
        places[i] = slot;
        table->slots[i] = NULL;
    }
    table_bury(slots, table);
    *table = (struct rp_slot_table){places, count};
    return RP_OK;
}

static enum rp_status table_fill(struct rp_slots *slots, struct rp_slot_table *table, const uint64_t *bytes)
{
    enum rp_status status = RP_OK;
    for (size_t i = 0; i < table->count && status == RP_OK; i++)
        status = slot_fill(slots, table, i, bytes[i]);
    return status;
}

/* What is wanted of both tables: sizes of slots and of snapshots. */
struct sizes {
    const uint64_t *slots, *snapshots;
    size_t slot_count, snapshot_count;
};

/* Memory that is given up goes back before more is asked for. */
static enum rp_status resize(struct rp_slots *slots, const struct sizes *sizes)
{
    enum rp_status status = table_move(slots, &slots->table, sizes->slots, sizes->slot_count);
    if (status == RP_OK)
        status = table_move(slots, &slots->snapshots, sizes->snapshots, sizes->snapshot_count);
    graves_sweep(slots);
    if (status == RP_OK)
        status = table_fill(slots, &slots->table, sizes->slots);
    if (status == RP_OK)
        status = table_fill(slots, &slots->snapshots, sizes->snapshots);
    if (status == RP_OK)
        return RP_OK;
    tables_bury(slots);
    graves_sweep(slots);
    return status;
}

enum rp_status rp_slots_resize_ahead(struct rp_slots *slots, const uint64_t *bytes, size_t count,
                                     const uint64_t *snapshot_bytes, size_t snapshot_count, bool fills)
{
    struct sizes sizes = {bytes, snapshot_bytes, count, snapshot_count};
    struct rp_gpu_scope scope;
    if (!rp_gpu_enter(&scope, slots->device->context))
        return rp_gpu_fail(RP_NO_MEMORY, "the device's primary context can't be made current", CUDA_SUCCESS);
    pthread_mutex_lock(&slots->lock);
    enum rp_status status = resize(slots, &sizes);
    slots->fills = fills && status == RP_OK;
    pthread_mutex_unlock(&slots->lock);
    rp_gpu_leave(&scope);
    return status;
}

enum rp_status rp_slots_resize(struct rp_slots *slots, const uint64_t *bytes, size_t count)
{
    const uint64_t none = 0;
    return rp_slots_resize_ahead(slots, bytes, count, &none, 0, false);
}

bool rp_slots_present(struct rp_slots *slots, uint32_t slot)
{
    pthread_mutex_lock(&slots->lock);
    bool present = rp_slots_at(&slots->table, slot) != NULL;
    pthread_mutex_unlock(&slots->lock);
    return present;
}

bool rp_slots_settled(struct rp_slots *slots, uint32_t slot)
{
    struct rp_gpu_scope scope;
    if (!rp_gpu_enter(&scope, slots->device->context))
        return false;
    pthread_mutex_lock(&slots->lock);
    bool none = slot >= slots->table.count || slots->table.slots[slot] == NULL;
    bool settled = none || rp_slot_order_settled(&slots->table.slots[slot]->order);
    pthread_mutex_unlock(&slots->lock);
    rp_gpu_leave(&scope);
    return settled;
}

static uint64_t table_own(const struct rp_slot_table *table)
{
    uint64_t own = 0;
    for (size_t i = 0; i < table->count; i++)
        own += table->slots[i] != NULL ? table->slots[i]->memory.mapped : 0;
    return own;
}

uint64_t rp_slots_own(struct rp_slots *slots)
{
    pthread_mutex_lock(&slots->lock);
    uint64_t own = table_own(&slots->table) + table_own(&slots->snapshots);
    pthread_mutex_unlock(&slots->lock);
    return own;
}
