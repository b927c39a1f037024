/*
 * Where a lane stands in its plan: the entries that its last op may have been. Normally one. After a divergence all
 * whose entries before it fit the last ops best; each further op and each verdict drops those that it contradicts.
 *
 *     op of the plan, expected         here moves on
 *     op of the plan, not expected     diverged: here = every entry that fits as well as any
 *     signature that no entry has      foreign: nothing moves
 *     a verdict                        was the content new? NETWORK says yes, KEEP and PREFETCH say no
 *
 * Microbatches look alike to NCCL, so a lane can follow the wrong one without ever diverging. Only verdicts show it: so
 * beside a single entry that missed, `others` that fit as well are followed, and a second miss in a row makes them the
 * entries to be. `confirmed` says that freshness has been seen where the plan has it since the last divergence; until
 * then an evaluation may have had the freshness of the step behind it.
 *
 * A function of the signatures seen and the verdicts told, so it is alike on all ranks. One entry that is expected: a
 * comparison; anything else: linear in the entries that are possible.
 *
 * Threads: by the thread whose turn it is on the lane.
 */
#ifndef RP_REPLAY_CURSOR_H
#define RP_REPLAY_CURSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/plan/plan.h"
#include "core/status.h"

#define RP_CURSOR_HISTORY 64u /* ops of the plan that are remembered, to find the place again */

/* Entries of a plan. */
struct rp_places {
    uint32_t *at;
    uint32_t count;
};

struct rp_cursor {
    const struct rp_plan_entry *entries;
    uint32_t count;
    uint8_t *actions;       /* of the entries, as they hold now (enum rp_plan_action) */
    struct rp_known *known; /* entries by signature */
    struct rp_places here;  /* what the last op may have been; empty: not known at all */
    struct rp_places others;
    uint32_t misses; /* in a row, of a single entry */
    bool confirmed;
    uint32_t epoch; /* divergences; a verdict from before one says nothing about the entries after it */
    uint64_t moves; /* ops of the plan seen */
    uint64_t history[RP_CURSOR_HISTORY];
};

enum rp_cursor_move { RP_CURSOR_FOREIGN, RP_CURSOR_FOLLOWED, RP_CURSOR_DIVERGED };

/* Of an op, so that its verdict finds its entry again after more ops. */
struct rp_cursor_mark {
    uint64_t moves;
    uint32_t epoch;
};

/* The plan must outlive the cursor, which stands nowhere. RP_NO_MEMORY. */
enum rp_status rp_cursor_create(const struct rp_plan *plan, struct rp_cursor *cursor_out);
void rp_cursor_free(struct rp_cursor *cursor);

/* As at first: nothing seen, the plan's own actions. `at_end`: the last op was the cycle's last, else nowhere. */
void rp_cursor_reset(struct rp_cursor *cursor, const struct rp_plan *plan, bool at_end);

/* True if an entry has the signature. */
bool rp_cursor_knows(const struct rp_cursor *cursor, uint64_t signature);

/* True unless the op would be a divergence from a single entry. */
bool rp_cursor_expects(const struct rp_cursor *cursor, uint64_t signature);
enum rp_cursor_move rp_cursor_see(struct rp_cursor *cursor, uint64_t signature);

static inline struct rp_cursor_mark rp_cursor_mark(const struct rp_cursor *cursor)
{
    return (struct rp_cursor_mark){.moves = cursor->moves, .epoch = cursor->epoch};
}

/* The single entry that the last op was, or RP_NO_ENTRY. */
#define RP_NO_ENTRY UINT32_MAX
static inline uint32_t rp_cursor_sole(const struct rp_cursor *cursor)
{
    return cursor->here.count == 1 ? cursor->here.at[0] : RP_NO_ENTRY;
}

/* The op at the mark was voted on: its content was the slot's (hit), or not (a plain no). */
void rp_cursor_hit(struct rp_cursor *cursor, struct rp_cursor_mark mark);
void rp_cursor_miss(struct rp_cursor *cursor, struct rp_cursor_mark mark);

#endif
