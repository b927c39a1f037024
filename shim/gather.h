/*
 * Serving one communicator: what the engine (core/replay/replay.h) says is done here, within the call. On the caller's
 * stream: compare, vote, then either the copy is the result or the real gather runs. On the child's (child.h), with
 * REPRISE_PREFETCH=1: gathers ahead, once all ranks have agreed to by a word.
 *
 *     announce ─► real creation ─► arrived ─► start ─► for each counted call ─► end ─► close
 *     channel      (a rendezvous)   name gone   engine, slots      │               child, engine, slots, channel go
 *                                                                  │
 *         before ── KEEP: offer, decide ── no: real call ── after ─┘   a word voted on, the child warmed, gathers ahead
 *                                                                      issued; outside any group: the child joined
 *
 * NULL stands for a communicator that is not replayed, everywhere.
 *
 * Waits on the host are polls with a bound, without a lock: for a slot's fill, a compare and a verdict
 * rp_replay_bound_ns(), for the first gathers of a child REPRISE_TIMEOUT; they end early when the communicator ends.
 * child.h has what it waits for itself. Nothing of ours is ever issued on the application's communicator.
 *
 * Threads: that of the call, as NCCL wants it; end by any, figures at the exit.
 */
#ifndef RP_GATHER_H
#define RP_GATHER_H

#include <cuda_runtime_api.h>
#include <nccl.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "core/replay/replay.h"
#include "core/trace/trace.h"

struct rp_call;
struct rp_gather;
struct rp_waits_op;

/* What replay needs to know of the options, and whom it tells what happens. Once, before any communicator. */
struct rp_gather_options {
    uint64_t budget; /* bytes a device; 0: auto */
    uint64_t timeout_ns;
    bool strict, trial, prefetch, pack;
    const struct rp_modules *modules; /* names of events; must stay valid */
};
void rp_gather_configure(const struct rp_gather_options *options);

/*
 * Before the real creation: joins the channel of `key` with at most `seats` ranks. NULL where replay is off. Where the
 * channel can't be had, and for a nonblocking one, whose creation is no rendezvous, the communicator will be passive,
 * and its other ranks see fewer than all.
 */
struct rp_gather *rp_gather_announce(uint64_t key, uint32_t seats, bool blocking);

/* The real creation has returned, with any result. */
void rp_gather_arrived(struct rp_gather *gather);

/* The communicator is complete. Passive from here on if not all ranks are here, or it can't be served (said once). */
void rp_gather_start(struct rp_gather *gather, const struct rp_trace_comm *about, int device, bool blocking);

/* True in replay mode. */
bool rp_gather_configured(void);

/* True if the names of its calls are to be found: when recording, and while a lane learns. */
bool rp_gather_names(const struct rp_gather *gather);

/* True if calls are to go through rp_gather_before(). */
bool rp_gather_follows(const struct rp_gather *gather);

/*
 * Before the real call of a counted op (call->op.position is where it will be): asks the engine, call->step is its
 * answer. The first of a group, or a single call, looks at proposals too.
 */
void rp_gather_before(struct rp_gather *gather, struct rp_call *call);

/* KEEP: enqueues the compare and the copies; in a group for all its gathers first. */
void rp_gather_offer(struct rp_gather *gather, struct rp_call *call, bool willing);

/* KEEP, offered: votes and waits for the verdict, bounded. True: it is served, the real call must not run. */
bool rp_gather_decide(struct rp_gather *gather, struct rp_call *call);

/* The real call is enqueued (or was not needed): stores what is to be kept, votes on a word of its own, tells the
 * engine, issues gathers ahead, looks after the child. `accepted`: the call has not failed. */
void rp_gather_after(struct rp_gather *gather, struct rp_call *call, bool accepted);

/*
 * WAIT or GO of an op that is timed, at the place in the stream which waits for it. For any thread, outside its lane;
 * nothing if that is no longer followed.
 *
 * The stamp is an operation of that stream right beside the wait, which is one itself: on a default stream, which other
 * streams are ordered by, it orders nothing that the wait does not.
 */
void rp_gather_waits(const struct rp_waits_op *op, cudaStream_t stream, enum rp_stamp_kind kind);

/* Strict: the text for ncclGetLastError() after a refused call of this thread; NULL if the last call was not refused.
 */
const char *rp_gather_refusal(void);

/*
 * The communicator is finalized, revoked, destroyed or (`aborted`) aborted: nothing more is served. Wakes who waits.
 */
void rp_gather_end(struct rp_gather *gather, bool aborted);

/* Nobody is inside any more, after rp_gather_end(): the child ends, memory goes back, the figures are written. */
void rp_gather_close(struct rp_gather *gather);

/* At the exit of the process: the line of figures over all communicators. */
void rp_gather_report(void);

/* In the child of a fork: forgets all. */
void rp_gather_forked(void);

#endif
