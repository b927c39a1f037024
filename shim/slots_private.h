/*
 * What the files of slots share. A set of slots owns slot objects, for whole units and for snapshots alike; each has
 * for good a place in the set's array of serials and its events. An object is in exactly one of three places:
 *
 *     free ── resize gives it memory ──► table ── resize, destroy ──► graves ── its work has ended ──► free
 *                                        (memory comes and goes: reclaim)       (memory goes back)
 *
 * A set is never freed either: destroyed, and once all its work has ended, it serves a later communicator.
 */
#ifndef RP_SLOTS_PRIVATE_H
#define RP_SLOTS_PRIVATE_H

#include <cuda.h>
#include <pthread.h>
#include <stdatomic.h>

#include "shim/compare.h"
#include "shim/gpu.h"
#include "shim/slots.h"

/* Verdicts that may be under way or unread at once. */
#define RP_SLOTS_TICKETS 1024u
/* The entry behind theirs: its word is not zero once a unit could not be packed; by the device, or by the host. */
#define RP_SLOTS_PACK_FAILED RP_SLOTS_TICKETS
#define RP_SLOTS_ENTRIES (RP_SLOTS_TICKETS + 1u)
/* Slot objects of a set. */
#define RP_SLOTS_CELLS 32768u
/* Stamps that may be under way or not given out at once, and one before them. Few beside the thousand entries of a
 * device's queue: whoever enqueues more of them stands still until the device goes on. */
#define RP_SLOTS_STAMPS 256u
/* Streams that read a slot between two writes without waiting for one another. */
#define RP_SLOT_READERS 4u

/* Memory of one slot (slots_memory.c) ------------------------------------------------------------------------------ */

/* A range of addresses, and how much of it, from its start, has memory. All zero: none. */
struct rp_slot_memory {
    CUdeviceptr base;
    uint64_t reserved, mapped;
};

/* Memory is had in multiples of it; 0: of none that fits. */
uint64_t rp_slot_memory_granule(int ordinal);
/* At least `bytes`, all or nothing. RP_NO_MEMORY. In the device's context, as everything that follows. */
enum rp_status rp_slot_memory_get(int ordinal, uint64_t bytes, struct rp_slot_memory *memory_out);
/* In the child of a fork. */
void rp_slots_held_forget(void);
/* No work may use it any more. What the driver does not take back stays counted. */
void rp_slot_memory_put(int ordinal, struct rp_slot_memory *memory);

/* Order of work on one slot (slots_order.c) ------------------------------------------------------------------------ */

struct rp_slot_order {
    CUevent write;                    /* the last one */
    CUevent read[RP_SLOT_READERS];    /* since the last write, one a stream */
    CUstream reader[RP_SLOT_READERS]; /* only names: the stream may be gone, its handle another's */
    unsigned reads;                   /* entries in use */
    unsigned oldest;                  /* entry that a further stream takes over */
    bool written;                     /* `write` is recorded */
    CUstream open;                    /* a write goes on there whose end `write` does not tell yet; NULL: none */
    bool lost;                        /* work is under way that no event tells the end of: never touched again */
};

/* Makes the events. RP_UNSUPPORTED. */
enum rp_status rp_slot_order_make(struct rp_slot_order *order);
/* `stream` waits for what must be before a read or a write. False: not all of it. */
bool rp_slot_order_read(struct rp_slot_order *order, CUstream stream);
bool rp_slot_order_write(struct rp_slot_order *order, CUstream stream);
/* The work that was enqueued behind it ends here; also after an error half-way. False: lost. */
bool rp_slot_order_did_read(struct rp_slot_order *order, CUstream stream);
bool rp_slot_order_wrote(struct rp_slot_order *order, CUstream stream);
/* No write is under way or open. False also where that can't be told (lost). */
bool rp_slot_order_settled(const struct rp_slot_order *order);
/* All work has ended. */
bool rp_slot_order_idle(const struct rp_slot_order *order);

/* Slots (slots_table.c) -------------------------------------------------------------------------------------------- */

struct rp_slot {
    struct rp_slot_order order;
    struct rp_slot_memory memory;
    uint64_t bytes;     /* asked for; 0: no memory */
    bool packed;        /* what it holds is (pack.h); means something with `part` */
    uint64_t part;      /* of one rank, as the last store or fill has it; 0: nothing that may be served or sent */
    uint64_t live;      /* of the own part, left there to be sent by the fill that comes next; 0: nothing */
    CUstream filler;    /* whose fill the last write was; NULL: nobody's */
    uint64_t filling;   /* of one rank, while a fill is open; 0: its end leaves nobody's content */
    CUdeviceptr serial; /* its own for good */
    struct rp_slot *next;
};

/* Slots by number. */
struct rp_slot_table {
    struct rp_slot **slots;
    size_t count;
};

/* ACTIVE becomes RETIRED without the lock: whoever destroys must not wait for who is inside. */
enum rp_slots_state { RP_SLOTS_FREE, RP_SLOTS_ACTIVE, RP_SLOTS_RETIRED };

struct rp_slots {
    int ordinal;
    struct rp_gpu_device *device;
    uint32_t nranks, rank;
    _Atomic int state; /* enum rp_slots_state; release of rp_slots_destroy() pairs with acquire of rp_slots_sweep() */
    pthread_mutex_t lock; /* over all that follows */
    struct rp_slot_table table, snapshots;
    /* The stream whose fills are cut off; NULL: none. Sequentially consistent: set before the abort, and so before what
     * is filled by it looks as if it had ended. */
    _Atomic(CUstream) cut;
    bool fills; /* gathers of ours go there: when memory is given back the largest slot stays, for all of them */
    struct rp_slot *graves, *free;
    uint32_t cells_used;
    struct rp_compare_entry *entries; /* our own pages, pinned: they outlive the context */
    CUdeviceptr entries_on_device, states, cells;
    CUevent zeroed; /* states and cells have their first values from here on */
    bool ready;     /* `zeroed` has ended */
    uint64_t next_ticket;
    CUevent stamps[RP_SLOTS_STAMPS]; /* by number */
    uint64_t stamp_names[RP_SLOTS_STAMPS];
    uint64_t stamps_first, stamps_given, stamps_next; /* numbers: of this communicator; not given out; not taken */
    struct rp_slots *next;                            /* in the list of all sets; constant */
};

/* The slot if it is there and may be used, or NULL. With the lock held, as all that follows. */
struct rp_slot *rp_slots_at(const struct rp_slot_table *table, uint32_t slot);

/* Gives back what has ended: of graves, and the set itself if it is retired. True if memory went back. */
bool rp_slots_sweep(struct rp_slots *slots);

/* Of those that have memory; NULL: none has. */
struct rp_slot *rp_slots_largest(const struct rp_slots *slots);

/* Gives back the memory of slots whose work has ended. True if any went. */
bool rp_slots_give(struct rp_slots *slots);

/* Stamps (slots_stamps.c) ------------------------------------------------------------------------------------------ */

/* Makes the events. In the device's context. */
enum rp_status rp_slots_make_stamps(struct rp_slots *slots);

/* Work (slots_work.c) ---------------------------------------------------------------------------------------------- */

/* Each enqueues on `stream`. False: it did not. */
bool rp_slots_stamp_cell(const struct rp_slots *slots, CUstream stream, CUdeviceptr cell, uint64_t value);
/* Nothing to do for no bytes. */
bool rp_slots_copy(CUstream stream, CUdeviceptr to, CUdeviceptr from, uint64_t bytes);
/* `stream` waits for the first values of states and cells, until they are known to be there. */
bool rp_slots_wait_zeroed(struct rp_slots *slots, CUstream stream);
/* Memory of this device: a kernel of ours that touched anything else would be the application's end. */
bool rp_slots_on_device(const struct rp_slots *slots, CUdeviceptr address);

/* Packed units (slots_pack.c) -------------------------------------------------------------------------------------- */

/* Such a unit has a packed form that fits into the slot, and `receive` can be read by elements. */
bool rp_slots_packable(const struct rp_slots *slots, const struct rp_slot *slot, CUdeviceptr receive, uint64_t bytes);
/* Each enqueues on `stream`; `bytes` are of one part. False: not all of it. */
bool rp_slots_pack(const struct rp_slots *slots, const struct rp_slot *slot, CUstream stream, CUdeviceptr from,
                   uint64_t bytes, uint64_t serial);
bool rp_slots_unpack(const struct rp_slots *slots, const struct rp_slot *slot, CUstream stream, uint64_t bytes,
                     uint32_t first, uint32_t count, CUdeviceptr to);
bool rp_slots_compare_packed(const struct rp_slots *slots, const struct rp_slot *slot, CUstream stream,
                             CUdeviceptr send, uint64_t bytes, uint64_t expected, uint64_t index, uint64_t tag);

/* Each of its kernels once, on the device's own stream. */
bool rp_slots_warm_packing(const struct rp_slots *slots);

/* On the device's own stream: each kernel once, and copies, so that all their code is loaded. */
enum rp_status rp_slots_warm(const struct rp_slots *slots);

#endif
