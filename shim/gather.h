/*
 * Serving the gathers of one communicator: what the engine (core/replay/replay.h) says is done here, on the caller's
 * stream, within the call. Compare, vote, then either the copy is the result or the real gather runs.
 *
 *     announce ─► real creation ─► arrived ─► start ─► (before, gather | after) for each counted call ─► end
 *     channel      (a rendezvous)   name gone   engine, slots
 *
 * NULL stands for a communicator that is not replayed, everywhere.
 *
 * Waits on the host are polls with a bound (rp_replay_bound_ns()), without a lock; they end early when the
 * communicator ends. Nothing of ours is ever issued on the application's communicator.
 *
 * Threads: that of the call, as NCCL wants it; end by any, figures at the exit.
 */
#ifndef RP_GATHER_H
#define RP_GATHER_H

#include <nccl.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "core/replay/replay.h"
#include "core/trace/trace.h"

struct rp_call;
struct rp_gather;

/* What replay needs to know of the options, and whom it tells what happens. Once, before any communicator. */
struct rp_gather_options {
    uint64_t budget; /* bytes a device; 0: auto */
    uint64_t timeout_ns;
    bool strict, trial;
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

/* The real call is enqueued (or was not needed): stores what is to be kept, tells the engine. `accepted`: it has not
 * failed. */
void rp_gather_after(struct rp_gather *gather, struct rp_call *call, bool accepted);

/* Strict: the text for ncclGetLastError() after a refused call of this thread; NULL if the last call was not refused.
 */
const char *rp_gather_refusal(void);

/* The communicator is finalized, revoked, destroyed or aborted: nothing more is served. Wakes who waits. */
void rp_gather_end(struct rp_gather *gather);

/* Nobody is inside any more, after rp_gather_end(): memory goes back, the figures are written. */
void rp_gather_close(struct rp_gather *gather);

/* At the exit of the process: the line of figures over all communicators. */
void rp_gather_report(void);

/* In the child of a fork: forgets all. */
void rp_gather_forked(void);

#endif
