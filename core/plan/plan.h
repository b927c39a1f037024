/*
 * The plan: for every op of one cycle of a lane what is done with it, in which slot its unit is kept or gathered ahead
 * of its use, and where in the cycle a gather ahead is issued. Compiled from agreed integers alone, so that all ranks
 * compile the same one.
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
    uint64_t send;       /* of a gather: a hash of where each rank sends from; 0: one of them has no such place */
    uint8_t kind;        /* enum rp_op_kind */
    bool packable;       /* rp_learned_packable() */
};

/* Of a gather whose elements have a packed form (pack.h). */
static inline bool rp_learned_packable(enum rp_op_kind kind, enum rp_dtype dtype)
{
    return kind == RP_OP_ALL_GATHER && dtype == RP_DTYPE_BFLOAT16;
}

/* X(enumerator, name) */
#define RP_PLAN_ACTIONS(X)                                                         \
    X(PASS, "pass")         /* no gather, or one that nothing is kept of */        \
    X(NETWORK, "network")   /* the real gather, then kept in `slot`, `snapshot` */ \
    X(KEEP, "keep")         /* served from `slot`, which then still holds it */    \
    X(PREFETCH, "prefetch") /* the same; the slot was filled by a gather of ours, issued at `issue` */

enum rp_plan_action {
#define X(name, text) RP_PLAN_##name,
    RP_PLAN_ACTIONS(X)
#undef X
};

/* True of an entry that is voted on: its unit is in the slot by then. */
static inline bool rp_plan_serves(uint8_t action)
{
    return action == RP_PLAN_KEEP || action == RP_PLAN_PREFETCH;
}

/* What a prefetch sends. */
enum rp_plan_source {
    RP_PLAN_FROM_NOTHING,  /* no prefetch */
    RP_PLAN_FROM_SNAPSHOT, /* the copy of this rank's part that the unit's snapshot holds */
    RP_PLAN_FROM_LIVE      /* the send buffer of the app, which it always sends from */
};

#define RP_NO_UNIT UINT32_MAX
#define RP_NO_SLOT UINT32_MAX
#define RP_NO_ISSUE UINT32_MAX

struct rp_plan_entry {
    uint64_t signature;
    uint64_t bytes;
    uint32_t unit;     /* gathers of the same bytes, see rp_plan_compile(); RP_NO_UNIT: no gather */
    uint32_t slot;     /* RP_NO_SLOT: nothing of the gather is left in one */
    uint32_t snapshot; /* the unit's: a gather from the network leaves its part there; RP_NO_SLOT: it has none now */
    uint32_t issue;    /* PREFETCH: the entry at which it is issued, after that entry's own op; else RP_NO_ISSUE */
    uint8_t action;    /* enum rp_plan_action */
    uint8_t source;    /* enum rp_plan_source */
    uint8_t kind;      /* enum rp_op_kind */
    bool packed;       /* its slot holds the unit packed (pack.h) */
};

/* What compute waits for, in ns a steady cycle, by the model of rp_plan_compile_ahead(); of a plan that packs, as if it
 * did not. All zero without times. */
struct rp_plan_waits {
    uint64_t planned, kept, plain; /* by this plan; by the one without prefetches; with everything from the network */
    uint64_t compute;              /* the sum of the times between */
};

/* One cycle, beginning at its first fresh gather, going round by itself. SMALL ops (cycle.h) are not in it. */
struct rp_plan {
    struct rp_plan_entry *entries;
    size_t count;
    uint64_t *slot_bytes; /* that the whole gathered unit (nranks times its part, or packed) takes, in whole granules */
    size_t slot_count;
    size_t unit_count;
    size_t keeps;   /* entries that are KEEP */
    uint64_t saved; /* bytes of one rank's parts that KEEP entries do not send, a cycle */
    bool packs;     /* slots of units that can be packed hold them so; never with gathers ahead */

    /* Gathers ahead; all zero in a plan without any. A slot may then be larger than a unit that is in it. */
    size_t prefetches;   /* entries that are PREFETCH */
    uint32_t *issues;    /* those entries, by where they are issued, then by how soon they are used */
    uint32_t *issues_at; /* entry p issues issues[issues_at[p]] up to issues[issues_at[p + 1]]; count + 1 of them */
    uint64_t *snapshot_bytes; /* of one rank's part, in whole granules */
    size_t snapshot_count;
    struct rp_plan_waits waits; /* not in the hash */

    uint64_t hash;     /* of all of the above */
    size_t first, end; /* index in the learned items of the last whole cycle: [first, end) */
};

/*
 * Finds the cycle at the end of `items` (freshness over the whole array, then rp_cycle_find()), the units, and what to
 * keep within `budget` bytes, memory being had in multiples of `granule` bytes (at least 1): furthest next use leaves
 * first (Belady 1966), per size of unit; the slots are shared out over sizes by the bytes that one more slot saves for
 * its own, as well as they fill the budget. Deterministic, integers only.
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

/* A transfer takes latency_ns + ns_per_mib for each MiB that one rank receives. All zero: not known. */
struct rp_plan_link_model {
    uint64_t latency_ns, ns_per_mib;
};

/* What is known beside the items; the same integers on all ranks. */
struct rp_plan_ahead {
    const uint64_t *gap_ns; /* of each item: the time that compute takes between the item before and this one; 0: not
                               known. NULL: none is */
    struct rp_plan_link_model link;
    bool packs;     /* units may be packed, where more bytes are saved so and nothing is gathered ahead */
    uint64_t extra; /* bytes that prefetching takes beside slots and snapshots; the engine gives 0 (the child
                       communicator's memory is NCCL's, beside the budget) */
};

/*
 * rp_plan_compile(), and gathers ahead of their use: integrated prefetching and caching with a known cyclic future
 * (Cao, Felten, Karlin, Li 1995), for units of several sizes. Without times or a link the plan is rp_plan_compile()'s.
 *
 * Model. One compute stream and one link, both in order. At each entry compute has first worked for its gap. A gather
 * from the network then goes on the link, behind what is there, and compute waits for its end. Other ops go on the link
 * too, and compute waits for them where a generation begins (at its first fresh gather, before that one's gap, which
 * has the optimizer; at the cycle's first entry in any case). A KEEP takes no time. A PREFETCH goes on the link at
 * entry `issue`, behind that entry's op and prefetches that are used sooner, and compute waits at its own entry for
 * what is left. (If that op is no gather the shim lets it begin as soon as it is issued: the stream of a reduction
 * stands still for what is computed long after.) The link is fed until a cycle is like the one before it (at most
 * RP_PLAN_ROUNDS). Not in the model: the time of compares and copies, of votes, transfers that slow compute or one
 * another, gathers that the app issues ahead itself (their gaps are short, and their waits are counted here), small
 * ops, and that the host is held in the call of a PREFETCH until its slot is filled: what it would have issued
 * meanwhile comes later.
 *
 * What may be issued when. A live buffer: that of a gather which sent from the same place (`send`) in both of the last
 * cycles. A gather that repeats one of its generation: behind the one that it repeats (before, KEEP
 * does the same without sending), over the cycle's end where the unit does not change there; from the live buffer if it
 * has one, else from the unit's snapshot, which is there from the first gather of the generation to the last prefetch.
 * From a live buffer it hangs on another gather: it is copied on that one's stream.
 * A gather that repeats nothing: only from a live buffer, from the first fresh gather of its generation on. At most
 * RP_PLAN_LOOKAHEAD entries ahead; and not if another gather of its generation is not live, since only what comes from
 * the network leaves a snapshot. Nothing of a unit whose contents are swapped in turn, so that the links of one take
 * more than a cycle to end or to go round: another one comes in between, in the same buffers.
 *
 * Memory. A slot is in use behind the entry that stores or issues, up to the one that is served last; a slot or
 * snapshot takes its bytes all the time. Slots, snapshots and, if anything is prefetched, `extra` are within the
 * budget.
 *
 * Goal: the least time that compute waits, then the fewest bytes sent, then the least memory. For blocks of one size
 * and one fetch time Cao et al. show that some best plan fetches what is missing next, in place of what is wanted last
 * (Belady 1966), and that doing so as early as possible takes at most min(1 + F/k, 2) times the best elapsed time (F:
 * blocks used during a fetch, k: slots). With several sizes already the choice of what to keep is NP-hard, and here a
 * gather may also be left to the network, and early fetches take the memory of snapshots and other units. So this is a
 * heuristic: some plans are built (units kept for good, short links kept, for several shares of the budget; the rest
 * prefetched as late as the link's idle time allows), and the best is improved by changing gathers, for a number of
 * steps that does not depend on the machine; at last, as times are never exact, what costs nothing by the model is
 * issued earlier. Guaranteed: within the budget, and never worse by the model than the plan
 * of rp_plan_compile() at the same budget. Measured: against exhaustive search on small cycles; on large ones against
 * the largest of three bounds: compute and each gather that nothing can send early; what the link has to carry when as
 * much is kept as Belady's rule, or the budget's area (bytes times entries), allows; and what that area can hide at
 * all.
 *
 * Status as rp_plan_compile().
 */
#define RP_PLAN_ROUNDS 4u
#define RP_PLAN_LOOKAHEAD 64u
enum rp_status rp_plan_compile_ahead(const struct rp_learned *items, size_t count, uint32_t nranks, uint64_t budget,
                                     uint64_t granule, const struct rp_plan_ahead *ahead, struct rp_plan *plan_out);

/* Memory that the plan takes on a rank: slots and snapshots. */
uint64_t rp_plan_bytes(const struct rp_plan *plan);

void rp_plan_free(struct rp_plan *plan);

#endif
