/*
 * Every access of the agreement to memory that other ranks change goes through these four: load, store, add, swap. The
 * explorer puts its own in their place (it defines this file's guard first) and schedules the ranks between them.
 * agree.h argues the orders.
 *
 * Threads: any.
 */
#ifndef RP_AGREE_ATOMIC_H
#define RP_AGREE_ATOMIC_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

static inline uint64_t rp_shared_load(const _Atomic uint64_t *word)
{
    return atomic_load_explicit(word, memory_order_acquire);
}

static inline void rp_shared_store(_Atomic uint64_t *word, uint64_t value)
{
    atomic_store_explicit(word, value, memory_order_release);
}

/* What it was before. */
static inline uint64_t rp_shared_add(_Atomic uint64_t *word, uint64_t value)
{
    return atomic_fetch_add_explicit(word, value, memory_order_acq_rel);
}

/* If the word is *seen it becomes `next`: true. Else *seen becomes what it is. */
static inline bool rp_shared_swap(_Atomic uint64_t *word, uint64_t *seen, uint64_t next)
{
    return atomic_compare_exchange_strong_explicit(word, seen, next, memory_order_acq_rel, memory_order_acquire);
}

#endif
