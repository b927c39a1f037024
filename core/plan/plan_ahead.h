/*
 * The search for a plan with gathers ahead: plan_ahead.c prepares it, plan_recipe.c builds plans, plan_improve.c
 * changes single entries, plan_write.c makes the plan of the best.
 *
 * Threads: one at a time.
 */
#ifndef RP_PLAN_AHEAD_H
#define RP_PLAN_AHEAD_H

#include "core/plan/plan_draft.h"
#include "core/plan/plan_share.h"

/* A draft without what it is worked out with. */
struct rp_best {
    struct rp_score score;
    struct rp_choice *choices;
    uint32_t *slot, *snapshot; /* as in struct rp_draft */
};

struct rp_search {
    const struct rp_plan *plan; /* without prefetches; not owned */
    struct rp_model model;
    struct rp_draft draft;
    struct rp_model_trace trace;
    size_t *by_gain, unit_count; /* first gathers of units that repeat */
    size_t *gain_size;           /* of a unit of by_gain: its size in `share` */
    struct rp_share share;       /* what units are worth that are kept for good: ns of transfers */
    struct rp_share_run *runs;   /* the share's */
    size_t *by_link, link_count; /* gathers that repeat one */
    struct rp_score score;       /* of what was considered last */
    uint64_t largest;            /* bytes of the largest unit that may be prefetched */
    uint64_t window;             /* bytes of new slots for the last fill's prefetches; UINT64_MAX: it had no more */
    struct rp_best best;
};

/* Makes the draft, with its score, the best; the best's choices the draft's, whose memory is then to be packed. */
void rp_search_take(struct rp_search *search, const struct rp_score *score);
void rp_search_back_to_best(struct rp_search *search);

/* Builds plans; the best of them and of what was the best before is it now. */
void rp_search_build(struct rp_search *search);

/* Prefetches what the draft does not keep, keeps what fits then; slots may take `window` bytes more. True: the best. */
bool rp_search_fill(struct rp_search *search, uint64_t window);

/* RP_NO_MEMORY: to be freed all the same. */
enum rp_status rp_best_make(size_t count, struct rp_best *best_out);
void rp_best_free(struct rp_best *best);
void rp_best_copy(struct rp_best *to, const struct rp_best *from, size_t count);

/* Makes the search's best better, or leaves it. RP_NO_MEMORY. */
enum rp_status rp_search_improve(struct rp_search *search);

/* What costs nothing by the model is issued earlier in the best. RP_NO_MEMORY: it is as it was. */
enum rp_status rp_search_issue_earlier(struct rp_search *search);

/* Makes the best the plan. RP_NO_MEMORY: the plan is as it was. */
enum rp_status rp_search_write(const struct rp_search *search, struct rp_plan *plan);

#endif
