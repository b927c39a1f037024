/*
 * A plan in the making: what is done with each gather, and the memory that this takes. Memory is found as choices are
 * made (rp_draft_keep(), rp_draft_prefetch()) or for all of them at once (rp_draft_pack()), each within the budget.
 *
 * Threads: one at a time.
 */
#ifndef RP_PLAN_DRAFT_H
#define RP_PLAN_DRAFT_H

#include "core/plan/plan_model.h"
#include "core/plan/plan_pool.h"

/* Smaller is better, the first that differs counts. */
struct rp_score {
    uint64_t waits;  /* ns */
    uint64_t sent;   /* bytes of one rank's parts of gathers */
    uint64_t memory; /* bytes */
};

struct rp_draft {
    struct rp_model *model;             /* not owned */
    const struct rp_plan_entry *plan;   /* units and bytes of the entries; not owned */
    uint64_t *unit_bytes, *shard_bytes; /* of a place, in whole granules: the gathered unit, this rank's part */
    size_t *by_size;                    /* places of gathers, largest first, then the last in the cycle */
    size_t gathers;
    size_t units;
    uint64_t budget, extra;

    struct rp_choice *choices; /* of a place */
    uint32_t *slot;            /* of a place: what it leaves its unit in, or is served from */
    uint32_t *snapshot;        /* of a unit */
    struct rp_pool slots, snapshots;
    size_t prefetches;
    bool limited;    /* a slot was not had because of a limit below the budget */
    size_t *reached; /* of a unit: entries that its snapshot is there for, from its first gather on */
};

/* Everything from the network. RP_NO_MEMORY: to be freed all the same. */
enum rp_status rp_draft_make(struct rp_model *model, const struct rp_plan *plan, uint32_t nranks, uint64_t budget,
                             uint64_t granule, uint64_t extra, struct rp_draft *draft_out);
void rp_draft_free(struct rp_draft *draft);
void rp_draft_clear(struct rp_draft *draft);

/* Takes over what a plan without prefetches keeps, in its slots. False: it does not fit. */
bool rp_draft_adopt(struct rp_draft *draft, const struct rp_plan *plan);

/* Serves a gather from the slot of the one that it repeats, if a slot is free for so long. Slots grow up to `limit`. */
bool rp_draft_keep(struct rp_draft *draft, size_t place, uint64_t limit);

/*
 * Prefetches a gather `length` entries ahead, or less far if no slot is free for so long; that length, 0: not at all.
 */
size_t rp_draft_prefetch(struct rp_draft *draft, size_t place, size_t length, uint64_t limit);

/* Finds memory for the choices from nothing. False: it does not fit, and slots and snapshots are as far as it came. */
bool rp_draft_pack(struct rp_draft *draft);

/*
 * The same, the gather first, and with whatever it is served together with; what does not fit any more is left to the
 * network. False: the gather itself does not fit.
 */
bool rp_draft_pack_around(struct rp_draft *draft, size_t place);

/* Shared by the files of drafts. */
void rp_draft_forget_memory(struct rp_draft *draft);
/* `length` entries behind `from`. */
struct rp_span rp_draft_span_behind(const struct rp_draft *draft, size_t from, size_t length);
/* Where the snapshot of the gather's unit has to be, for a prefetch of it. */
struct rp_span rp_draft_snapshot_span(const struct rp_draft *draft, size_t place);
/* Is there so much more, whether gathers are prefetched or not? */
bool rp_draft_affords(const struct rp_draft *draft, uint64_t slot, uint64_t snapshot, bool prefetches);
/* The same, for a further slot, if slots may take up to `limit`. */
bool rp_draft_may_grow(struct rp_draft *draft, uint64_t slot, uint64_t snapshot, uint64_t limit, bool prefetches);

/* Runs the model. */
struct rp_score rp_draft_score(struct rp_draft *draft, struct rp_model_trace *trace);
bool rp_score_better(const struct rp_score *a, const struct rp_score *b);

#endif
