/*
 * Slots: device memory of ours that holds gathered units, and what is done with it on the caller's stream: store a
 * gather's result, compare a shard with the slot's own part, copy the other ranks' parts out. Through the driver API
 * (gpu.h).
 *
 * A slot is a whole gathered unit: nranks parts in rank order; its own part (place `rank`) is the snapshot of what this
 * rank sent. Its serial, in device memory, is written by the device behind each store: which op filled it.
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

/* Memory of slots is had in multiples of this: the granularity of device memory on all devices known. */
#define RP_SLOTS_GRANULE (UINT64_C(2) << 20)

struct rp_slots; /* of one communicator */

/* What our device work has cost on a device, for the budget: bytes held by all its slots. */
uint64_t rp_slots_held(int device);

/* The part of it that this set holds. */
uint64_t rp_slots_own(struct rp_slots *slots);

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

/* The slot's last store has ended on the device (or there was none). */
bool rp_slots_settled(struct rp_slots *slots, uint32_t slot);

/*
 * Enqueues on `stream`, behind the real gather into `receive`: the whole unit into the slot, and `serial`. `bytes`: of
 * one rank's part. False: not enqueued; the slot's serial is then no op's.
 */
bool rp_slots_store(struct rp_slots *slots, uint32_t slot, cudaStream_t stream, const void *receive, uint64_t bytes,
                    uint64_t serial);

/*
 * Enqueues on `stream`: compares `bytes` bytes at `send` with the slot's own part and the slot's serial with
 * `expected`; then copies the other ranks' parts to their places in `receive`, and, unless in place, `send` to its own.
 * *ticket_out names the compare. False: nothing useful is enqueued (vote no).
 */
bool rp_slots_serve(struct rp_slots *slots, uint32_t slot, cudaStream_t stream, const void *send, void *receive,
                    uint64_t bytes, uint64_t expected, uint64_t *ticket_out);

enum rp_compare { RP_COMPARE_PENDING, RP_COMPARE_EQUAL, RP_COMPARE_UNLIKE };

/* What the compare said. Never waits. */
enum rp_compare rp_slots_compared(const struct rp_slots *slots, uint64_t ticket);

/*
 * The device's time at a place in `stream`, in the name of `position`. False: not taken, or too many are under way.
 * A new communicator's first one has none before it.
 */
bool rp_slots_stamp(struct rp_slots *slots, cudaStream_t stream, uint64_t position);

/* The oldest stamp that was not given out yet, if the device has come to it: its position, and the nanoseconds since
 * the one before it (0: none). Never waits. */
bool rp_slots_stamped(struct rp_slots *slots, uint64_t *position_out, uint64_t *ns_out);

/*
 * The application's allocation on `device` failed: gives back the memory of every slot there whose work has ended, of
 * all communicators. True if anything was. Those slots are no longer present.
 */
bool rp_slots_reclaim(int device);

/* In the child of a fork: the parent's memory does not exist here. */
void rp_slots_forked(void);

#endif
