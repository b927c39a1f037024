/*
 * Who waits for an op. A program records an event behind a collective and lets the stream that uses the result wait for
 * it: those two calls tell which stream computes with it, and when it has come to need it.
 *
 *     rp_waits_op()         on stream G            the last op there is at position p of a lane
 *     rp_waits_recorded()   event E on G           E stands for p, until it is recorded again
 *     rp_waits_first()      stream S waits for E   the first wait for p: its place on S is stamped (hook_event.c)
 *
 * Tables of fixed size: what is long ago is forgotten, and with it a time is not known. Nothing is noted while no lane
 * is watched; then a hook costs one load.
 *
 * Threads: any; a short lock inside, under which nothing else is called.
 */
#ifndef RP_WAITS_H
#define RP_WAITS_H

#include <cuda_runtime_api.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "shim/runtime.h"

struct rp_comm;

/* Lanes whose ops are timed. Relaxed everywhere: an event recorded a moment too early is of no lane's. */
extern _Atomic uint32_t rp_waits_watched;

static inline bool rp_waits_any(void)
{
    return __builtin_expect(atomic_load_explicit(&rp_waits_watched, memory_order_relaxed) != 0, 0);
}

/* One lane more, one less. */
void rp_waits_watch(void);
void rp_waits_unwatch(void);

/* A stream by a number of its own, as the calling thread means it: the default streams have several handles. */
static inline uintptr_t rp_waits_stream(cudaStream_t stream)
{
    if (stream == cudaStreamPerThread)
        return (uintptr_t)&rp_thread;
    return stream == NULL ? (uintptr_t)cudaStreamLegacy : (uintptr_t)stream;
}

struct rp_waits_op {
    struct rp_comm *comm; /* NULL: of a lane that is not timed */
    uint64_t position;
    bool gather; /* else it counts only where a gather of its lane was waited for by the same stream */
};

/* It is enqueued on the stream. */
void rp_waits_op(const struct rp_waits_op *op, uintptr_t stream);

/* The event was recorded on the stream. */
void rp_waits_recorded(cudaEvent_t event, uintptr_t stream);

/* The stream is to wait for the event. True if it is the first other one that does so for an op. */
bool rp_waits_first(cudaEvent_t event, uintptr_t stream, struct rp_waits_op *op_out);

/* In the child of a fork. */
void rp_waits_forked(void);

#endif
