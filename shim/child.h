/*
 * The child communicator of a lane: NCCL's own, of the same ranks, for gathers of ours ahead of the program's calls.
 * Nothing of ours is ever issued on the application's communicator.
 *
 *     join ─► JOINING ─► JOINED ── warm ─► WARMING ─► READY ── fill, fill, ... ── abort
 *                 └───────────┴───────────────┴───────────┴─► FAILED
 *
 * It is nonblocking: NCCL makes it in a thread of its own, and what needs a rendezvous of the hosts (joining; the first
 * gather of each size makes connections) goes on there, while the caller polls. Who waits on this host all the same:
 *
 *     rp_child_fill()    until NCCL's thread has enqueued the gather, for what comes behind it on the stream: for no
 *                        other rank, microseconds, at most 2 s (then FAILED). And, with 64 under way, until one has
 *                        ended, at most `bound_ns` (then FAILED)
 *     rp_child_abort()   until NCCL has aborted it, at most 1 s; then a thread of ours is left to that. Where no thread
 *                        can be started it is done in the call, however long NCCL takes
 *     the caller         from warm to READY: gather.c, at most REPRISE_TIMEOUT, then it aborts
 *
 * The ranks issue the same gathers in the same order: who decides what is issued sees to that (core/replay). A gather
 * that other ranks do not issue would stay on the device for ever, so whatever fails on this rank alone does not keep
 * it from issuing: its bytes are then nobody's (the slot's serial is none).
 *
 * Few CTAs, on a stream of its own: non-blocking, of the highest priority.
 *
 * What other ranks never issue would keep ours on the device: a thread of ours watches, and ends the child then.
 *
 * Threads: any, one after the other; abort by any thread when nobody else of its owner's is inside.
 */
#ifndef RP_CHILD_H
#define RP_CHILD_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/replay/replay.h"
#include "shim/slots.h"

struct rp_nccl;
struct rp_child;

enum rp_child_state { RP_CHILD_JOINING, RP_CHILD_JOINED, RP_CHILD_WARMING, RP_CHILD_READY, RP_CHILD_FAILED };

/* By rank 0: what all ranks must have to join. False: NCCL gives none. */
bool rp_child_id(const struct rp_nccl *real, struct rp_replay_id *id_out);

/*
 * Begins to join, on `device`; returns at once. NULL: it can't even begin (no memory, no thread, a function is
 * missing). What is issued later must end within some times `bound_ns`, else it is ended (child_watch.c).
 */
struct rp_child *rp_child_join(const struct rp_nccl *real, int device, uint32_t nranks, uint32_t rank,
                               const struct rp_replay_id *id, uint64_t bound_ns);

/* Where it stands now; asks NCCL, never waits. FAILED is final. */
enum rp_child_state rp_child_poll(struct rp_child *child);

/*
 * JOINED, or READY for another plan: runs one gather of each size that the plan gathers ahead, in slots that have it,
 * so that every connection is made; READY once all have ended on the device. What is in these slots then is nobody's.
 * Behind the work on `stream` so far.
 */
void rp_child_warm(struct rp_child *child, struct rp_slots *slots, const struct rp_plan *plan, cudaStream_t stream);

/*
 * READY: issues one; `behind`: to begin when `stream`, the caller's, has done what it has so far. False: NCCL has
 * refused it, or not enqueued it in time; FAILED then.
 */
bool rp_child_fill(struct rp_child *child, struct rp_slots *slots, const struct rp_replay_fill *gather,
                   cudaStream_t stream, bool behind);

/* What was issued has ended. */
bool rp_child_idle(struct rp_child *child);

/*
 * Waits at most `most_ns` for what was issued to end: peers that have not come to it yet need this rank. Only where the
 * communicator ends in order.
 */
void rp_child_finish(struct rp_child *child, uint64_t most_ns);

/* By any thread, the child being there: its end begins, it is FAILED from here on. Its owner aborts it all the same. */
void rp_child_cut(struct rp_child *child);

/* Its end, whatever is under way; frees, perhaps later in a thread of ours. NULL is allowed. */
void rp_child_abort(struct rp_child *child);

void rp_child_forked(void);

#endif
