/*
 * Producers: the application's threads as the recorder sees them, each with its ring and with what was read from it.
 * A thread's last act marks its producer ended; when the ring is empty it is free for another thread, which then
 * carries on its number. Nothing here is ever unmapped: a thread may hold its ring until the process ends.
 *
 * Threads: rp_producer_take() under the caller's lock; rp_producer_end() by the application's thread; the list is
 * walked by the background thread without a lock.
 */
#ifndef RP_PRODUCER_H
#define RP_PRODUCER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/record/ring.h"
#include "core/status.h"

/* FREE -> LIVE (taken) -> ENDED (its thread ended) -> FREE (the background thread has read everything) */
enum rp_producer_state { RP_PRODUCER_FREE, RP_PRODUCER_LIVE, RP_PRODUCER_ENDED };

struct rp_stretch {        /* the launches after one op of a thread and before its next */
    uint64_t after_begin;  /* the op's begin; 0: before the thread's first op */
    struct rp_event event; /* the op's */
    struct rp_event place; /* of the launches that no rule names: the op's, or where its thread goes on */
    uint64_t count;
    uint64_t digest;
    uint64_t written; /* count that the trace has */
    struct {          /* the last part of it: launches that belong to one event */
        struct rp_event event;
        uint64_t before; /* count before its first launch */
        uint64_t first;  /* ticks of its first launch */
    } part;
};

struct rp_producer {
    struct rp_ring *ring;     /* constant */
    uint32_t number;          /* constant: the thread's number in the trace */
    struct rp_producer *next; /* constant once listed */
    _Atomic int state;        /* enum rp_producer_state */
    /* the background thread's own */
    struct rp_stretch stretch;
    uint64_t lost_launches_seen, lost_ops_seen;     /* of the ring's counters */
    uint64_t lost_launches_unsaid, lost_ops_unsaid; /* not in the trace yet */
    bool lossy;                                     /* something was lost among the records being read */
};

struct rp_producers {
    _Atomic(struct rp_producer *) first;
    uint32_t count;
};

/* A free producer, or a new one. RP_NO_MEMORY, RP_FULL. */
enum rp_status rp_producer_take(struct rp_producers *producers, struct rp_producer **producer_out);

/* The thread will push no more. */
void rp_producer_end(struct rp_producer *producer);

/* First of the list, or NULL; go on by `next`. */
struct rp_producer *rp_producer_first(const struct rp_producers *producers);

#endif
