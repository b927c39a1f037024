/*
 * A ring of 64-byte records from one thread (the producer: the application's thread, in a hook) to one other (the
 * consumer: the writer thread). All memory ordering between hooks and the writer lives here.
 *
 * When it is full the newest record is dropped and counted, the producer never waits. Others leave the last `kept`
 * slots to ops, so a storm of launches cannot push out a collective. Gathers ahead are numbered, and not counted.
 */
#ifndef RP_RING_H
#define RP_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "core/issue.h"
#include "core/op.h"
#include "core/status.h"

enum rp_record_type {
    RP_RECORD_EMPTY,
    RP_RECORD_LAUNCH,
    RP_RECORD_OP,
    RP_RECORD_PLACE,
    RP_RECORD_ISSUE,
    RP_RECORD_ISSUE_USE
};

/* One kernel launch, as the hook sees it. Filled in place, in the ring. */
struct rp_launch {
    uint16_t type; /* RP_RECORD_LAUNCH */
    uint16_t block[3];
    uint32_t grid[3];
    uint32_t shared_bytes; /* dynamic shared memory */
    uint64_t function;     /* what the call named: a host stub or a kernel handle */
    uint64_t stream;
    uint64_t ticks;
    uint64_t unused[2];
};

/* Where the thread goes on behind its last op, if not with that op's event: its launches belong there. */
struct rp_place {
    uint16_t type;   /* RP_RECORD_PLACE */
    uint16_t phase;  /* enum rp_phase */
    uint32_t module; /* interned (event.h) */
};

/* A gather ahead, and its use. */
struct rp_issue_record {
    uint16_t type;
    uint16_t unused[3];
    union {
        struct rp_issue issue;
        struct rp_issue_use use;
    };
};

#define RP_RING_AHEAD 8 /* slots */

union rp_record {
    struct rp_launch launch;
    struct rp_op op;
    struct rp_place place;
    struct rp_issue_record issue;
    uint16_t type;
};

_Static_assert(sizeof(struct rp_launch) == 64 && sizeof(struct rp_issue_record) == 64 && sizeof(union rp_record) == 64,
               "a record is one cache line");

struct rp_ring {
    /* the producer's line */
    _Alignas(64) _Atomic uint64_t head; /* next record to write; released to the consumer's acquire */
    uint64_t tail_seen;                 /* the producer's last look at tail */
    _Atomic uint64_t lost_launches;     /* written by the producer, read by the consumer, relaxed */
    _Atomic uint64_t lost_ops;
    uint64_t mask; /* slots - 1; constant */
    uint64_t kept; /* slots that only ops may use; constant */
    /* the consumer's line */
    _Alignas(64) _Atomic uint64_t tail; /* next record to read; released to the producer's acquire */
    _Alignas(64) union rp_record slots[];
};

/*
 * 2^slots_log2 records. Memory is mapped, zeroed, and touched on use; it stays: the application's threads may hold the
 * ring until the process ends. RP_NO_MEMORY.
 */
enum rp_status rp_ring_create(unsigned slots_log2, struct rp_ring **ring_out);

/* The counter of a type's losses, or NULL: without a place launches belong to their op. */
static inline _Atomic uint64_t *rp_ring_lost(struct rp_ring *ring, enum rp_record_type type)
{
    if (type == RP_RECORD_LAUNCH)
        return &ring->lost_launches;
    return type == RP_RECORD_OP ? &ring->lost_ops : NULL;
}

/* Producer: the slot for the next record, or NULL (counted as a loss of that type, if any is). Fill it, then
 * rp_ring_commit(). */
static inline union rp_record *rp_ring_reserve(struct rp_ring *ring, enum rp_record_type type)
{
    uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    uint64_t limit = ring->mask + 1 - (type == RP_RECORD_OP ? 0 : ring->kept);
    if (__builtin_expect(head - ring->tail_seen >= limit, 0)) {
        /* pairs with the release in rp_ring_consume(): a slot seen as free has been read */
        ring->tail_seen = atomic_load_explicit(&ring->tail, memory_order_acquire);
        if (head - ring->tail_seen >= limit) {
            _Atomic uint64_t *lost = rp_ring_lost(ring, type);
            if (lost != NULL)
                atomic_store_explicit(lost, atomic_load_explicit(lost, memory_order_relaxed) + 1, memory_order_relaxed);
            return NULL;
        }
    }
    /* the consumer's core holds the lines it has read: ask for the ones to come before they are written */
    __builtin_prefetch(&ring->slots[(head + RP_RING_AHEAD) & ring->mask], 1);
    return &ring->slots[head & ring->mask];
}

/* Producer: hands the reserved record over. */
static inline void rp_ring_commit(struct rp_ring *ring)
{
    uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    /* pairs with the acquire in rp_ring_peek(): a record seen is whole */
    atomic_store_explicit(&ring->head, head + 1, memory_order_release);
}

/* Producer: copies one op in. False if it was lost. */
static inline bool rp_ring_push_op(struct rp_ring *ring, const struct rp_op *op)
{
    union rp_record *slot = rp_ring_reserve(ring, RP_RECORD_OP);
    if (slot == NULL)
        return false;
    slot->op = *op;
    slot->op.type = RP_RECORD_OP;
    rp_ring_commit(ring);
    return true;
}

/* Producer: where the launches behind the op that was pushed last belong. */
static inline void rp_ring_push_place(struct rp_ring *ring, struct rp_event event)
{
    union rp_record *slot = rp_ring_reserve(ring, RP_RECORD_PLACE);
    if (slot == NULL)
        return;
    slot->place = (struct rp_place){.type = RP_RECORD_PLACE, .phase = (uint16_t)event.phase, .module = event.module};
    rp_ring_commit(ring);
}

/* Producer: a gather ahead; one that was served. Lost if there is no room. */
static inline void rp_ring_push_issue(struct rp_ring *ring, const struct rp_issue *issue)
{
    union rp_record *slot = rp_ring_reserve(ring, RP_RECORD_ISSUE);
    if (slot == NULL)
        return;
    slot->issue = (struct rp_issue_record){.type = RP_RECORD_ISSUE, .issue = *issue};
    rp_ring_commit(ring);
}

static inline void rp_ring_push_issue_use(struct rp_ring *ring, const struct rp_issue_use *use)
{
    union rp_record *slot = rp_ring_reserve(ring, RP_RECORD_ISSUE_USE);
    if (slot == NULL)
        return;
    slot->issue = (struct rp_issue_record){.type = RP_RECORD_ISSUE_USE, .use = *use};
    rp_ring_commit(ring);
}

/* Consumer: how many records are ready; they are at slots[(first + i) & mask], first in `*first_out`. */
static inline uint64_t rp_ring_peek(struct rp_ring *ring, uint64_t *first_out)
{
    uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    *first_out = tail;
    return atomic_load_explicit(&ring->head, memory_order_acquire) - tail;
}

/* Consumer: gives `count` records, peeked before, back to the producer. */
static inline void rp_ring_consume(struct rp_ring *ring, uint64_t count)
{
    uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    atomic_store_explicit(&ring->tail, tail + count, memory_order_release);
}

#endif
