/*
 * Compiles a plan: the cycle, its units, what is kept of them (plan_private.h). plan.h has the job and the threads.
 */
#include "core/plan/plan.h"

#include <stdlib.h>

#include "core/plan/pack.h"
#include "core/plan/plan_private.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

/* Field by field: padding is no part of it. */
static uint64_t plan_hash(const struct rp_plan *plan)
{
    const uint64_t totals[] = {plan->count, plan->slot_count, plan->unit_count, plan->keeps, plan->saved};
    uint64_t hash = XXH3_64bits(totals, sizeof(totals));

    for (size_t i = 0; i < plan->count; i++) {
        const struct rp_plan_entry *entry = &plan->entries[i];
        const uint64_t words[] = {
            entry->signature,
            entry->bytes,
            (uint64_t)entry->unit << 32 | entry->slot,
            (uint64_t)entry->packed << 16 | (uint64_t)entry->action << 8 | entry->kind,
        };
        hash = XXH3_64bits_withSeed(words, sizeof(words), hash);
    }
    return XXH3_64bits_withSeed(plan->slot_bytes, plan->slot_count * sizeof(*plan->slot_bytes), hash);
}

/* What only a plan with prefetches has; entry->snapshot is set in none other. */
static uint64_t ahead_hash(const struct rp_plan *plan)
{
    const uint64_t totals[] = {plan->prefetches, plan->snapshot_count};
    uint64_t hash = XXH3_64bits_withSeed(totals, sizeof(totals), plan_hash(plan));

    for (size_t i = 0; i < plan->count; i++) {
        const struct rp_plan_entry *entry = &plan->entries[i];
        const uint64_t words[] = {(uint64_t)entry->issue << 32 | entry->snapshot, entry->source};
        hash = XXH3_64bits_withSeed(words, sizeof(words), hash);
    }
    return XXH3_64bits_withSeed(plan->snapshot_bytes, plan->snapshot_count * sizeof(*plan->snapshot_bytes), hash);
}

static enum rp_status make_entries(const struct rp_plan_cycle *cycle, struct rp_plan *plan)
{
    plan->entries = calloc(cycle->period, sizeof(*plan->entries));
    if (plan->entries == NULL)
        return RP_NO_MEMORY;
    plan->count = cycle->period;
    plan->first = cycle->first;
    plan->end = cycle->end;
    for (size_t place = 0; place < cycle->period; place++) {
        const struct rp_learned *item = rp_plan_last(cycle, place);
        plan->entries[place] = (struct rp_plan_entry){
            .signature = item->signature,
            .bytes = item->bytes,
            .unit = RP_NO_UNIT,
            .slot = RP_NO_SLOT,
            .snapshot = RP_NO_SLOT,
            .issue = RP_NO_ISSUE,
            .action = RP_PLAN_PASS,
            .kind = item->kind,
        };
    }
    return RP_OK;
}

/* Units of which all gathers can be packed, if they are smaller then: a slot holds a unit in one form. */
static enum rp_status choose_packed(const struct rp_plan_cycle *cycle, uint32_t nranks, uint64_t granule,
                                    struct rp_plan *plan)
{
    bool *as_is = calloc(plan->unit_count + 1, sizeof(*as_is));

    if (as_is == NULL)
        return RP_NO_MEMORY;
    for (size_t place = 0; place < plan->count; place++) {
        const struct rp_learned *item = rp_plan_last(cycle, place);
        if (plan->entries[place].unit != RP_NO_UNIT)
            as_is[plan->entries[place].unit] |=
                !item->packable || rp_plan_unit_bytes(item->bytes, true, nranks, granule) >=
                                       rp_plan_unit_bytes(item->bytes, false, nranks, granule);
    }
    for (size_t place = 0; place < plan->count; place++) {
        struct rp_plan_entry *entry = &plan->entries[place];
        entry->packed = entry->unit != RP_NO_UNIT && !as_is[entry->unit];
    }
    free(as_is);
    return RP_OK;
}

/* A plan without gathers ahead, of units as they are or, where `packs`, packed if they can be. RP_NO_MEMORY. */
static enum rp_status keep(const struct rp_plan_cycle *cycle, const size_t *next, uint32_t nranks, uint64_t budget,
                           uint64_t granule, bool packs, struct rp_plan *plan_out)
{
    enum rp_status status = make_entries(cycle, plan_out);

    if (status != RP_OK)
        return status;
    plan_out->packs = packs;
    rp_plan_number_units(next, plan_out);
    if (packs)
        status = choose_packed(cycle, nranks, granule, plan_out);
    return status == RP_OK ? rp_plan_keep(next, nranks, budget, granule, plan_out) : status;
}

/* Packing costs the device time, so the plan as it is stays unless more is saved. */
static enum rp_status try_packed(const struct rp_plan_cycle *cycle, const size_t *next, uint32_t nranks,
                                 uint64_t budget, uint64_t granule, struct rp_plan *plan)
{
    struct rp_plan packed = {0};
    enum rp_status status = keep(cycle, next, nranks, budget, granule, true, &packed);

    if (status == RP_OK && packed.saved > plan->saved) {
        struct rp_plan former = *plan;
        packed.waits = plan->waits;
        *plan = packed;
        packed = former;
    }
    rp_plan_free(&packed);
    return status;
}

static enum rp_status compile(const struct rp_plan_cycle *cycle, size_t *next, uint32_t nranks, uint64_t budget,
                              uint64_t granule, const struct rp_plan_ahead *ahead, struct rp_plan *plan)
{
    size_t repeats;
    enum rp_status status = rp_plan_link(cycle, next, &repeats);

    if (status == RP_OK && !rp_plan_cycle_explains(cycle, next, repeats))
        status = RP_NOT_FOUND;
    if (status == RP_OK)
        status = keep(cycle, next, nranks, budget, granule, false, plan);
    if (status == RP_OK)
        status = rp_plan_look_ahead(cycle, next, nranks, budget, granule, ahead, plan);
    if (status == RP_OK && ahead->packs && plan->prefetches == 0)
        status = try_packed(cycle, next, nranks, budget, granule, plan);
    if (status == RP_OK && plan->keeps + plan->prefetches == 0)
        status = rp_plan_cycle_settled(cycle) ? RP_UNSUPPORTED : RP_NOT_FOUND;
    if (status == RP_OK)
        plan->hash = plan->prefetches > 0 ? ahead_hash(plan) : plan_hash(plan);
    return status;
}

enum rp_status rp_plan_compile_ahead(const struct rp_learned *items, size_t count, uint32_t nranks, uint64_t budget,
                                     uint64_t granule, const struct rp_plan_ahead *ahead, struct rp_plan *plan_out)
{
    struct rp_plan_cycle cycle;
    struct rp_plan plan = {0};
    enum rp_status status = nranks == 0 || granule == 0 ? RP_INVALID : rp_plan_cycle_find(items, count, &cycle);

    if (status != RP_OK)
        return status;
    size_t *next = calloc(cycle.period, sizeof(*next));
    status = next == NULL ? RP_NO_MEMORY : compile(&cycle, next, nranks, budget, granule, ahead, &plan);
    free(next);
    rp_plan_cycle_free(&cycle);
    if (status == RP_OK)
        *plan_out = plan;
    else
        rp_plan_free(&plan);
    return status;
}

enum rp_status rp_plan_compile(const struct rp_learned *items, size_t count, uint32_t nranks, uint64_t budget,
                               uint64_t granule, struct rp_plan *plan_out)
{
    return rp_plan_compile_ahead(items, count, nranks, budget, granule, &(struct rp_plan_ahead){0}, plan_out);
}

uint64_t rp_plan_received(const struct rp_learned *item, uint32_t nranks)
{
    bool everywhere = item->kind == RP_OP_ALL_GATHER || item->kind == RP_OP_REDUCE_SCATTER ||
                      item->kind == RP_OP_ALL_TO_ALL || item->kind == RP_OP_GATHER || item->kind == RP_OP_SCATTER;
    uint64_t parts = everywhere ? nranks - 1 : item->kind == RP_OP_ALL_REDUCE ? 2 : 1;

    if (parts != 0 && item->bytes > UINT64_MAX / parts)
        return UINT64_MAX;
    return item->bytes * parts;
}

uint64_t rp_plan_unit_bytes(uint64_t bytes, bool packed, uint32_t nranks, uint64_t granule)
{
    return packed ? rp_plan_granules(rp_pack_unit(bytes, nranks), 1, granule)
                  : rp_plan_granules(bytes, nranks, granule);
}

int rp_plan_compare_sized(const void *left, const void *right)
{
    const struct rp_plan_sized *a = left, *b = right;
    if (a->bytes != b->bytes)
        return a->bytes < b->bytes ? -1 : 1;
    if (a->packed != b->packed)
        return a->packed ? 1 : -1;
    return (a->place > b->place) - (a->place < b->place);
}

uint64_t rp_plan_bytes(const struct rp_plan *plan)
{
    uint64_t bytes = 0;

    for (size_t i = 0; i < plan->slot_count; i++)
        bytes += plan->slot_bytes[i];
    for (size_t i = 0; i < plan->snapshot_count; i++)
        bytes += plan->snapshot_bytes[i];
    return bytes;
}

void rp_plan_free(struct rp_plan *plan)
{
    free(plan->entries);
    free(plan->slot_bytes);
    free(plan->issues);
    free(plan->issues_at);
    free(plan->snapshot_bytes);
    *plan = (struct rp_plan){0};
}
