/*
 * Slots: device memory of ours that holds gathered units, and what is done with it on the caller's stream: store a
 * gather's result, compare a shard with the slot's own part, copy the other ranks' parts out. Through the driver API
 * (gpu.h).
 *
 * A slot is a whole gathered unit: nranks parts in rank order; its own part (place `rank`) is the snapshot of what this
 * rank sent. Its serial, in device memory, is written by the device behind each store: which op filled it. A unit may
 * be smaller than its slot.
 *
 * Order: each slot has a last-write event and last-read events, one a stream; a writer waits for all of them, a reader
 * for the last write. Nothing here waits on the host.
 *
 * Memory: one range of addresses a slot, physical memory in chunks behind it (cuMemCreate, cuMemMap), so that it can be
 * given back without a cuMemFree that waits for the device.
 *
 * Threads: any; a lock a set of slots is held while work is enqueued, never while a host waits.
 */
#ifndef RP_SLOTS_H
#define RP_SLOTS_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/status.h"

struct rp_slots; /* of one communicator */

/* What our device work has cost on a device, for the budget: bytes held by all its slots. */
uint64_t rp_slots_held(int device);

/* The part of it that this set holds, snapshots included. */
uint64_t rp_slots_own(struct rp_slots *slots);

/* Memory of slots is had in multiples of this: the granularity of the device's memory (2 MiB on all known). */
uint64_t rp_slots_granule(const struct rp_slots *slots);

/*
 * Bytes that slots on the device may take at most now, what they hold included: `budget`, but never more than there is;
 * or, with 0, free memory plus what is held, less a reserve (the larger of a tenth of the device and 4 GiB). 0 if
 * nothing is left. A slot takes whole granules of the device (2 MiB).
 */
uint64_t rp_slots_budget(int device, uint64_t budget);

/*
 * For a communicator on `device`: verdict entries (pinned), events, no memory yet. In the hook of its creation: loads
 * what must be loaded and launches each kernel once. RP_UNSUPPORTED, RP_NO_MEMORY: rp_gpu_error() says why.
 */
enum rp_status rp_slots_create(int device, uint32_t nranks, uint32_t rank, struct rp_slots **slots_out);

/*
 * Gives back what is idle; memory whose last use is still under way is given back at a later create, destroy, resize,
 * budget or reclaim. Never waits for a call that is still inside; none may begin.
 */
void rp_slots_destroy(struct rp_slots *slots);

/*
 * Gets `count` slots of these sizes (bytes, the whole unit, at least 1), giving up those before; a slot of the same
 * size at the same index stays, content and all. All or none: RP_NO_MEMORY, and the set has no slots then.
 */
enum rp_status rp_slots_resize(struct rp_slots *slots, const uint64_t *bytes, size_t count);

/* True if the slot's memory is there. */
bool rp_slots_present(struct rp_slots *slots, uint32_t slot);

/* The slot's last store or fill has ended on the device (or there was none). */
bool rp_slots_settled(struct rp_slots *slots, uint32_t slot);

/*
 * Enqueues on `stream`, behind the real gather into `receive`: the whole unit into the slot, and `serial`. `bytes`: of
 * one rank's part. False: not enqueued; the slot's serial is then no op's.
 */
bool rp_slots_store(struct rp_slots *slots, uint32_t slot, cudaStream_t stream, const void *receive, uint64_t bytes,
                    uint64_t serial);

/*
 * The same, packed (core/plan/pack.h), for units of bfloat16. One whose bytes don't fit into that form is nobody's: the
 * device finds out, and rp_slots_pack_failed() is true from then on, for this set of slots; also once an address was
 * given, here or to rp_slots_serve(), that is no element's.
 */
bool rp_slots_store_packed(struct rp_slots *slots, uint32_t slot, cudaStream_t stream, const void *receive,
                           uint64_t bytes, uint64_t serial);
bool rp_slots_pack_failed(const struct rp_slots *slots);

/*
 * Enqueues on `stream`: compares `bytes` bytes at `send` with the slot's own part and the slot's serial with
 * `expected`; then copies the other ranks' parts to their places in `receive`, and, unless in place, `send` to its own.
 * *ticket_out names the compare. False: nothing useful is enqueued (vote no).
 */
bool rp_slots_serve(struct rp_slots *slots, uint32_t slot, cudaStream_t stream, const void *send, void *receive,
                    uint64_t bytes, uint64_t expected, uint64_t *ticket_out);

/*
 * A set may also have snapshots: slots of one part each, kept apart. As rp_slots_resize(), for both at once. `fills`:
 * gathers that all ranks issue go there, so rp_slots_reclaim() leaves the largest slot, and what was to fill one that
 * is gone goes there instead, and is nobody's.
 */
enum rp_status rp_slots_resize_ahead(struct rp_slots *slots, const uint64_t *bytes, size_t count,
                                     const uint64_t *snapshot_bytes, size_t snapshot_count, bool fills);

/* Enqueues on `stream`, behind the real gather into `receive`: this rank's part into the snapshot, and `serial`. */
bool rp_slots_snapshot(struct rp_slots *slots, uint32_t snapshot, cudaStream_t stream, const void *receive,
                       uint64_t bytes, uint64_t serial);

/*
 * A gather of ours into a slot, on `stream` (of the child). Begin: `stream` waits for all work on the slot; its own
 * part is copied from the snapshot, or, with RP_NO_SLOT, was left there by rp_slots_live(). *base_out: where the unit
 * begins, also if false is returned (something failed: the slot is nobody's, but the gather must be issued). NULL: no
 * such memory, or what is at work there can't be waited for. In between nobody else uses the slot. End: behind the
 * gather, stamps it with the snapshot's serial, or with `serial`.
 */
bool rp_slots_fill_begin(struct rp_slots *slots, uint32_t slot, uint32_t snapshot, cudaStream_t stream, uint64_t bytes,
                         void **base_out);
bool rp_slots_fill_end(struct rp_slots *slots, uint32_t slot, uint32_t snapshot, cudaStream_t stream, uint64_t serial);

/*
 * The child on whose stream fills go is aborted. Before: what was filled there is not served any more, since an aborted
 * gather ends as if it were done; takes no lock, for the one who holds it may stand still until the abort. Behind it,
 * when nothing more comes on the stream: what was filled there is nobody's, also where the set was resized since.
 */
void rp_slots_fill_cut(struct rp_slots *slots, cudaStream_t stream);
void rp_slots_fill_drop(struct rp_slots *slots, cudaStream_t stream);

/* Enqueues on the caller's stream: the live send buffer into the slot's own part. */
bool rp_slots_live(struct rp_slots *slots, uint32_t slot, cudaStream_t stream, const void *send, uint64_t bytes);

enum rp_compare { RP_COMPARE_PENDING, RP_COMPARE_EQUAL, RP_COMPARE_UNLIKE };

/* What the compare said. Never waits. */
enum rp_compare rp_slots_compared(const struct rp_slots *slots, uint64_t ticket);

/*
 * The device's time at a place in `stream`, under a name of the caller's. False: not taken, or too many are under way.
 * A new communicator's first one has none before it.
 */
bool rp_slots_stamp(struct rp_slots *slots, cudaStream_t stream, uint64_t name);

/* The oldest stamp that was not given out yet, if the device has come to it: its name, and the nanoseconds since the
 * one before it (0: none, or not known; between streams it may be earlier). Never waits. */
bool rp_slots_stamped(struct rp_slots *slots, uint64_t *name_out, int64_t *ns_out);

/*
 * The application's allocation on `device` failed: gives back the memory of every slot there whose work has ended, of
 * all communicators. True if anything was. Those slots are no longer present.
 */
bool rp_slots_reclaim(int device);

/* In the child of a fork: the parent's memory does not exist here. */
void rp_slots_forked(void);

#endif
