/*
 * The plan: for every op of one cycle of a lane what is done with it, and in which slot its unit is kept. Compiled from
 * learning data alone, so that all ranks compile the same one.
 *
 * Threads: pure functions of their arguments; a plan is constant once compiled.
 */
#ifndef RP_PLAN_H
#define RP_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/op.h"
#include "core/status.h"

/* One lane position as all ranks know it. */
struct rp_learned {
    uint64_t signature;  /* rp_op_signature() */
    uint64_t bytes;      /* rp_op_bytes(): of one rank's part */
    uint64_t content[2]; /* of a gather: the salted sum of all ranks' fingerprints */
    uint8_t kind;        /* enum rp_op_kind */
};

/* X(enumerator, name) */
#define RP_PLAN_ACTIONS(X)                                                \
    X(PASS, "pass")       /* no gather, or one that nothing is kept of */ \
    X(NETWORK, "network") /* the real gather, then kept in `slot` */      \
    X(KEEP, "keep")       /* served from `slot`, which then still holds it */

enum rp_plan_action {
#define X(name, text) RP_PLAN_##name,
    RP_PLAN_ACTIONS(X)
#undef X
};

#define RP_NO_UNIT UINT32_MAX
#define RP_NO_SLOT UINT32_MAX

struct rp_plan_entry {
    uint64_t signature;
    uint64_t bytes;
    uint32_t unit;  /* gathers of the same bytes, see rp_plan_compile(); RP_NO_UNIT: no gather */
    uint32_t slot;  /* RP_NO_SLOT: PASS */
    uint8_t action; /* enum rp_plan_action */
    uint8_t kind;   /* enum rp_op_kind */
};

/* One cycle, beginning at its first fresh gather, going round by itself. SMALL ops (cycle.h) are not in it. */
struct rp_plan {
    struct rp_plan_entry *entries;
    size_t count;
    uint64_t *slot_bytes; /* that the whole gathered unit (nranks times its part) takes, in whole granules */
    size_t slot_count;
    size_t unit_count;
    size_t keeps;      /* entries that are KEEP */
    uint64_t saved;    /* bytes of one rank's parts that KEEP entries do not send, a cycle */
    uint64_t hash;     /* of all of the above */
    size_t first, end; /* index in the learned items of the last whole cycle: [first, end) */
};

/*
 * Finds the cycle at the end of `items` (freshness over the whole array, then rp_cycle_find()), the units, and what to
 * keep within `budget` bytes, memory being had in multiples of `granule` bytes (at least 1): furthest next use leaves
 * first (Belady 1966), per size of unit; the slots are shared out over sizes by the bytes that one more slot saves for
 * its own. Deterministic, integers only.
 *
 * A cycle counts if two whole ones are shown, and if it is by freshness over at least RP_PLAN_GENERATIONS generations,
 * each up to its first reduction; or by signatures alone (nothing is fresh: frozen weights) over at least
 * RP_PLAN_REPEATS periods: as many microbatches of one batch look like that too. What repeats in it must do so within a
 * cycle. Units: two gathers of a cycle with equal content and size, in each of the last two cycles; also the last one
 * of a content in a cycle and the first one of the next, if that content is older.
 *
 * RP_NOT_FOUND: no cycle yet, or nothing to keep in it yet. RP_UNSUPPORTED: nothing to keep in a cycle that was shown
 * over RP_PLAN_SETTLED periods (RP_PLAN_REPEATS if nothing in it repeats): never worth arming. RP_NO_MEMORY;
 * RP_INVALID: no ranks, no granule. The caller frees the plan with rp_plan_free().
 */
#define RP_PLAN_GENERATIONS 3u
#define RP_PLAN_REPEATS 32u
#define RP_PLAN_SETTLED 6u
enum rp_status rp_plan_compile(const struct rp_learned *items, size_t count, uint32_t nranks, uint64_t budget,
                               uint64_t granule, struct rp_plan *plan_out);
void rp_plan_free(struct rp_plan *plan);

#endif
