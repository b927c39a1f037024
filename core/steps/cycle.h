/*
 * The period of a lane: how many ops one global batch has, and where it begins.
 *
 * Input is one item an op, of consecutive positions of one lane: its signature and a class. Microbatches of one
 * batch look alike at NCCL; only freshness (fresh.h) shows which of them follows an optimizer step. SMALL items
 * (loss logging, barriers) come and go: they are passed over everywhere.
 *
 * Lanes with two orders, odd steps or a prefix are split by steps.h, which builds on this.
 *
 * Threads: pure functions of their arguments.
 */
#ifndef RP_CYCLE_H
#define RP_CYCLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/op.h"
#include "core/status.h"

/* X(enumerator). REDUCE stands for every op that is neither a gather nor small. */
#define RP_CYCLE_CLASSES(X) \
    X(SMALL)                \
    X(REDUCE)               \
    X(GATHER)               \
    X(FRESH)

enum rp_cycle_class {
#define X(name) RP_CYCLE_##name,
    RP_CYCLE_CLASSES(X)
#undef X
};

struct rp_cycle_item {
    uint64_t signature;
    enum rp_cycle_class class; /* FRESH: a gather whose content is new */
    bool step;                 /* a step begins here, as an annotation says (RP_OP_STEP); for steps.h alone */
};

/* Largest op that is SMALL if it is no gather, in bytes: losses, gradient norms, barriers, a few counters. */
#define RP_CYCLE_SMALL_BYTES 4096u

static inline bool rp_cycle_is_small(enum rp_op_kind kind, uint64_t bytes)
{
    return kind != RP_OP_ALL_GATHER && bytes <= RP_CYCLE_SMALL_BYTES;
}

/* `fresh` is what rp_freshness_see() said, and ignored for what is no gather. */
enum rp_cycle_class rp_cycle_class(const struct rp_op *op, bool fresh);

/* The item of an op; `fresh` as above. */
struct rp_cycle_item rp_cycle_item(const struct rp_op *op, bool fresh);

/*
 * How the cycle is known. FRESHNESS: something in it is fresh and something is not. SIGNATURES: no freshness tells its
 * start, so it may be one microbatch of an endless generation, or less.
 */
enum rp_cycle_basis { RP_CYCLE_BY_SIGNATURES, RP_CYCLE_BY_FRESHNESS };

struct rp_cycle {
    size_t period; /* items that are not SMALL in one cycle */
    size_t first;  /* index of the first item of the last whole cycle, turned to its start */
    size_t end;    /* index behind its last item; SMALL items may lie between and are not counted in `period` */
    size_t seen;   /* items, not SMALL, at the end of the array that repeat with the period: at least 2 * period */
    enum rp_cycle_basis basis;
};

/*
 * The shortest period of (signature, class) that the end of the array shows at least twice. A repetition inside a
 * cycle (equal layers one after the other) is none: a period counts if its repetition is at least as long as every
 * other period that the end shows, or if it has the parts of a whole batch: a fresh gather, a gather that is not
 * fresh, and a reduction. An array shorter than two cycles can show only repetitions inside one: trust a cycle by
 * freshness, or wait.
 *
 * The cycle starts at the fresh gather that follows the longest stretch without one, else at the gather that follows
 * the longest stretch without a gather; of several such, at the one whose continuation is least, so that the end of
 * the array does not decide. Without gathers it starts where the repetition does.
 *
 * RP_NOT_FOUND: no period yet. RP_NO_MEMORY. Linear time; 16 bytes of memory an item while it runs.
 */
enum rp_status rp_cycle_find(const struct rp_cycle_item *items, size_t count, struct rp_cycle *cycle_out);

#endif
