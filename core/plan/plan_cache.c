/*
 * The game: each member in turn, a heap of the links that are kept, a bit for each free slot. plan_cache.h has the rule
 * and the threads.
 */
#include "core/plan/plan_cache.h"

#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/plan/plan.h"

#define ROUNDS 4u /* a cycle is played so often until it repeats; else nothing is kept over its boundary */
#define WORD (sizeof(unsigned long) * CHAR_BIT)

enum rp_status rp_plan_cache_make(size_t most, struct rp_plan_cache *cache_out)
{
    struct rp_plan_cache cache = {0};

    cache.served = calloc(most, sizeof(*cache.served));
    cache.stored = calloc(most, sizeof(*cache.stored));
    cache.previous = calloc(most, sizeof(*cache.previous));
    cache.held = calloc(most, sizeof(*cache.held));
    cache.held_first = calloc(most, sizeof(*cache.held_first));
    cache.free = calloc(most / WORD + 1, sizeof(*cache.free));
    cache.heap = calloc(most * ROUNDS, sizeof(*cache.heap));
    *cache_out = cache;
    bool made = cache.served != NULL && cache.stored != NULL && cache.previous != NULL && cache.held != NULL &&
                cache.held_first != NULL && cache.free != NULL && cache.heap != NULL;
    return made ? RP_OK : RP_NO_MEMORY;
}

void rp_plan_cache_free(struct rp_plan_cache *cache)
{
    free(cache->served);
    free(cache->stored);
    free(cache->previous);
    free(cache->held);
    free(cache->held_first);
    free(cache->free);
    free(cache->heap);
}

/* ---------------------------------------------------------------- links that are kept */

static void heap_push(struct rp_plan_cache *cache, struct rp_plan_held held)
{
    size_t at = cache->heap_count++;

    for (; at > 0 && cache->heap[(at - 1) / 2].end < held.end; at = (at - 1) / 2)
        cache->heap[at] = cache->heap[(at - 1) / 2];
    cache->heap[at] = held;
}

static void heap_pop(struct rp_plan_cache *cache)
{
    struct rp_plan_held last = cache->heap[--cache->heap_count];
    size_t at = 0;

    for (size_t child = 1; child < cache->heap_count; child = 2 * at + 1) {
        if (child + 1 < cache->heap_count && cache->heap[child + 1].end > cache->heap[child].end)
            child++;
        if (cache->heap[child].end <= last.end)
            break;
        cache->heap[at] = cache->heap[child];
        at = child;
    }
    cache->heap[at] = last;
}

static uint32_t take_free(struct rp_plan_cache *cache)
{
    for (size_t word = 0; word * WORD < cache->slots; word++) {
        if (cache->free[word] != 0) {
            unsigned bit = (unsigned)__builtin_ctzl(cache->free[word]);
            cache->free[word] &= ~(1ul << bit);
            return (uint32_t)(word * WORD + bit);
        }
    }
    return RP_NO_SLOT;
}

static void give_free(struct rp_plan_cache *cache, uint32_t slot)
{
    cache->free[slot / WORD] |= 1ul << slot % WORD;
}

/* The slot of the kept link that ends furthest, if that is behind `end`; it is kept no longer. No slot is free. */
static uint32_t take_furthest(struct rp_plan_cache *cache, size_t end)
{
    if (cache->slots == 0 || cache->heap[0].end <= end)
        return RP_NO_SLOT;
    size_t furthest = cache->heap[0].member;
    uint32_t slot = cache->held[furthest];
    heap_pop(cache);
    cache->held[furthest] = RP_NO_SLOT;
    return slot;
}

/* ---------------------------------------------------------------- rounds */

/* The link that ends at the member: the slot that it is served from. */
static uint32_t end_link(struct rp_plan_cache *cache, size_t member)
{
    size_t before = cache->previous[member];
    if (before == RP_NO_MEMBER)
        return RP_NO_SLOT;
    uint32_t slot = cache->held[before];
    cache->held[before] = RP_NO_SLOT;
    return slot;
}

/* One member in its turn; links that end at `horizon` or later are not kept. */
static void play_member(struct rp_plan_cache *cache, size_t round, size_t member, size_t horizon)
{
    uint32_t slot = end_link(cache, member);
    size_t after = cache->next[member];
    size_t end = (after > member ? round : round + 1) * cache->count + after;

    cache->served[member] = slot;
    cache->stored[member] = RP_NO_SLOT;
    if (after == RP_NO_MEMBER || end >= horizon) {
        if (slot != RP_NO_SLOT)
            give_free(cache, slot);
        return;
    }
    if (slot == RP_NO_SLOT)
        slot = take_free(cache);
    if (slot == RP_NO_SLOT)
        slot = take_furthest(cache, end);
    if (slot == RP_NO_SLOT)
        return;
    cache->held[member] = cache->stored[member] = slot;
    heap_push(cache, (struct rp_plan_held){.end = end, .member = member});
}

static size_t play_round(struct rp_plan_cache *cache, size_t round, size_t horizon)
{
    size_t served = 0;

    memcpy(cache->held_first, cache->held, cache->count * sizeof(*cache->held));
    for (size_t member = 0; member < cache->count; member++) {
        play_member(cache, round, member, horizon);
        served += cache->served[member] != RP_NO_SLOT;
    }
    return served;
}

static void empty_slots(struct rp_plan_cache *cache)
{
    cache->heap_count = 0;
    for (size_t member = 0; member < cache->count; member++)
        cache->held[member] = RP_NO_SLOT;
    memset(cache->free, 0, (cache->count / WORD + 1) * sizeof(*cache->free));
    for (size_t slot = 0; slot < cache->slots; slot++)
        give_free(cache, (uint32_t)slot);
}

static void set_links(struct rp_plan_cache *cache, const size_t *next, size_t count)
{
    cache->next = next;
    cache->count = count;
    for (size_t member = 0; member < count; member++)
        cache->previous[member] = RP_NO_MEMBER;
    for (size_t member = 0; member < count; member++) {
        if (next[member] != RP_NO_MEMBER)
            cache->previous[next[member]] = member;
    }
}

size_t rp_plan_cache_slots(struct rp_plan_cache *cache, const size_t *next, size_t count)
{
    size_t slots = 0;

    set_links(cache, next, count);
    for (size_t member = 0; member < count; member++) {
        bool crosses = next[member] <= member;
        slots += next[member] != RP_NO_MEMBER && (crosses || cache->previous[member] == RP_NO_MEMBER);
    }
    return slots;
}

size_t rp_plan_cache_play(struct rp_plan_cache *cache, const size_t *next, size_t count, size_t slots)
{
    set_links(cache, next, count);
    cache->slots = slots < count ? slots : count;
    empty_slots(cache);
    for (size_t round = 0; round < ROUNDS; round++) {
        size_t served = play_round(cache, round, SIZE_MAX);
        if (memcmp(cache->held_first, cache->held, count * sizeof(*cache->held)) == 0)
            return served;
    }
    empty_slots(cache);
    return play_round(cache, 0, count);
}
