/*
 * Slots of one size as a cache, played by Belady's rule: a link from a gather to the next one of the same content is
 * kept, or not, from the one to the other; when no slot is free the link that ends furthest gives way, be it the new
 * one. The gathers of the cycle go round, so the cycle is played until it begins with the slots as it ends with them.
 *
 * Threads: one at a time.
 */
#ifndef RP_PLAN_CACHE_H
#define RP_PLAN_CACHE_H

#include <stddef.h>
#include <stdint.h>

#include "core/status.h"

#define RP_NO_MEMBER SIZE_MAX

/* A link that is kept, by where it ends, counted from the start of the first round. */
struct rp_plan_held {
    size_t end;
    size_t member;
};

/* A member is one of the gathers of one size, by its number in the cycle. */
struct rp_plan_cache {
    uint32_t *served; /* the slot that a member is served from, RP_NO_SLOT: none */
    uint32_t *stored; /* the slot that it leaves its content in; for nothing unless its next one is served */

    /* Internal to the game. */
    const size_t *next;
    size_t count, slots;
    size_t *previous;          /* whose link ends here */
    uint32_t *held;            /* the slot of the link that begins here */
    uint32_t *held_first;      /* the same when the round began */
    unsigned long *free;       /* a bit a slot */
    struct rp_plan_held *heap; /* furthest end first; with links that have ended, at the bottom */
    size_t heap_count;
};

/* For at most `most` members. RP_NO_MEMORY: to be freed all the same. */
enum rp_status rp_plan_cache_make(size_t most, struct rp_plan_cache *cache_out);
void rp_plan_cache_free(struct rp_plan_cache *cache);

/* More slots than these are of no use: every link finds one. */
size_t rp_plan_cache_slots(struct rp_plan_cache *cache, const size_t *next, size_t count);

/*
 * How many of the members are served, each cycle, with so many slots. `next` of a member: its link, RP_NO_MEMBER: none.
 * The members' `served` and `stored` hold until the next game.
 */
size_t rp_plan_cache_play(struct rp_plan_cache *cache, const size_t *next, size_t count, size_t slots);

#endif
