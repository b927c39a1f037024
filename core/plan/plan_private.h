/*
 * How a plan is compiled, in four parts: the cycle that is planned (plan_cycle.c), which of its gathers send the same
 * bytes (plan_units.c), what is kept of them in which slot (plan_keep.c), what is gathered ahead instead
 * (plan_ahead.c, with plan_model.h and plan_draft.h).
 *
 * A place is the number of an item in the cycle, SMALL items not counted.
 *
 * Threads: pure functions of their arguments.
 */
#ifndef RP_PLAN_PRIVATE_H
#define RP_PLAN_PRIVATE_H

#include "core/plan/plan.h"
#include "core/steps/cycle.h"

#define RP_NO_PLACE SIZE_MAX

/* The last two whole cycles of a lane, turned to their start. */
struct rp_plan_cycle {
    const struct rp_learned *items; /* the lane, not owned */
    struct rp_cycle_item *classes;  /* of each of the items */
    size_t *index;                  /* in the items, of those that are not SMALL */
    size_t count;                   /* of index */
    size_t period;
    size_t before, last; /* in index: where the last two whole cycles begin */
    size_t first, end;   /* as in struct rp_plan */
    size_t seen;         /* places, at the end of the lane, that repeat with the period */
    size_t stale;        /* gathers of the last cycle that are not fresh */
    enum rp_cycle_basis basis;
};

/* An item of the last cycle; of the one before, or with places from the period on, of the last. */
static inline const struct rp_learned *rp_plan_last(const struct rp_plan_cycle *cycle, size_t place)
{
    return &cycle->items[cycle->index[cycle->last + place]];
}

static inline const struct rp_learned *rp_plan_before(const struct rp_plan_cycle *cycle, size_t place)
{
    return &cycle->items[cycle->index[cycle->before + place]];
}

static inline enum rp_cycle_class rp_plan_class(const struct rp_plan_cycle *cycle, size_t place)
{
    return cycle->classes[cycle->index[cycle->last + place]].class;
}

/* The items as rp_cycle_find() wants them, each with its freshness over all before it. RP_NO_MEMORY. */
enum rp_status rp_plan_classify(const struct rp_learned *items, size_t count, struct rp_cycle_item *classes);

/* RP_NOT_FOUND: no cycle that has been shown often enough. RP_NO_MEMORY. */
enum rp_status rp_plan_cycle_find(const struct rp_learned *items, size_t count, struct rp_plan_cycle *cycle_out);
void rp_plan_cycle_free(struct rp_plan_cycle *cycle);

/*
 * Which gather sends again what a place sent: next[place] is the place of the next one, going round (itself: once a
 * cycle), or RP_NO_PLACE. No place is the next of two, and none is more than one cycle away. *repeats_out: gathers of
 * the last cycle whose content was seen at most one cycle before. RP_NO_MEMORY.
 */
enum rp_status rp_plan_link(const struct rp_plan_cycle *cycle, size_t *next, size_t *repeats_out);

/*
 * The cycle explains what repeats in it. If not it is a repetition inside one, as of layers that look alike: most of
 * what they gather again was gathered more than such a cycle before.
 */
bool rp_plan_cycle_explains(const struct rp_plan_cycle *cycle, const size_t *next, size_t repeats);

/* It was shown so often that a plan without anything to keep will not get better. */
bool rp_plan_cycle_settled(const struct rp_plan_cycle *cycle);

/* Numbers the units of the plan's entries: gathers that are linked; in the order of their first places. */
void rp_plan_number_units(const size_t *next, struct rp_plan *plan);

/* Actions and slots of the plan's entries, whose `packed` holds. RP_NO_MEMORY. */
enum rp_status rp_plan_keep(const size_t *next, uint32_t nranks, uint64_t budget, uint64_t granule,
                            struct rp_plan *plan);

/*
 * Puts gathers ahead, and other ones kept, in place of a plan of rp_plan_keep() if that is better; not where times, a
 * link or the memory of a prefetch are missing. RP_NO_MEMORY: the plan is as it was.
 */
enum rp_status rp_plan_look_ahead(const struct rp_plan_cycle *cycle, const size_t *next, uint32_t nranks,
                                  uint64_t budget, uint64_t granule, const struct rp_plan_ahead *ahead,
                                  struct rp_plan *plan);

/* `parts` times `bytes` in whole granules; UINT64_MAX: more than can be counted, or had. */
static inline uint64_t rp_plan_granules(uint64_t bytes, uint64_t parts, uint64_t granule)
{
    uint64_t most = UINT64_MAX - (granule - 1);
    return bytes > most / parts ? UINT64_MAX : (bytes * parts + granule - 1) / granule * granule;
}

/* Bytes that a rank receives by an op, times the ranks for what is reduced in whole; UINT64_MAX: more. */
uint64_t rp_plan_received(const struct rp_learned *item, uint32_t nranks);

/* What a gathered unit takes in a slot. */
uint64_t rp_plan_unit_bytes(uint64_t bytes, bool packed, uint32_t nranks, uint64_t granule);

/* Gathers by size, packed ones last, those of one size by place: the comparison is qsort()'s. */
struct rp_plan_sized {
    uint64_t bytes;
    bool packed;
    size_t place;
};

int rp_plan_compare_sized(const void *left, const void *right);

#endif
