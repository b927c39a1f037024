/*
 * A cycle on one compute stream and one link: when each transfer runs, what compute waits for. The model is
 * rp_plan_compile_ahead()'s (plan.h).
 *
 * Threads: one at a time.
 */
#ifndef RP_PLAN_MODEL_H
#define RP_PLAN_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/plan/plan_private.h"

/* What is known of an entry, whatever is planned for it. */
struct rp_model_entry {
    uint64_t gap;      /* ns of compute before it */
    uint64_t transfer; /* ns that its transfer takes of the link */
    size_t before;     /* the place that it repeats, RP_NO_PLACE: none */
    size_t after;      /* the place that repeats it */
    size_t head;       /* the first of its generation; RP_NO_PLACE: its links go round */
    uint32_t reach;    /* a prefetch may be issued so many entries before it at most; 0: none may */
    bool gather;
    bool live;
    bool begins; /* a generation */
    bool winds;  /* its links take a cycle or more before they end, or more than one to go round: another content of
                    its unit is gathered among them */
    bool copied; /* a gather of its generation is not live: it is sent from a copy that the head leaves, if that comes
                    from the network */
};

#define RP_MODEL_END UINT32_MAX

struct rp_model {
    struct rp_model_entry *entries;
    size_t count;
    struct rp_plan_waits known; /* compute, plain */

    /* Of the last run. */
    uint32_t *first, *follows; /* what an entry issues: a list, by how soon it is used, up to RP_MODEL_END */
    uint64_t *ready;           /* when the prefetch of an entry ends */
};

/* What is done with an entry. */
struct rp_choice {
    uint8_t action; /* PASS: as NETWORK */
    uint32_t issue;
};

/* What compute waits for before each entry, and how long the link idles in the gap before it. */
struct rp_model_trace {
    uint64_t *waits, *idle;
};

/* RP_NO_MEMORY: to be freed all the same. */
enum rp_status rp_model_make(const struct rp_plan_cycle *cycle, const size_t *next, uint32_t nranks,
                             const struct rp_plan_ahead *ahead, struct rp_model *model_out);
void rp_model_free(struct rp_model *model);

/* ns that compute waits in a steady cycle. `trace` may be NULL. */
uint64_t rp_model_run(struct rp_model *model, const struct rp_choice *choices, struct rp_model_trace *trace);

/* From one entry on to another, going round: 1 up to a whole cycle. */
static inline size_t rp_model_distance(const struct rp_model *model, size_t from, size_t to)
{
    return to > from ? to - from : to + model->count - from;
}

/* So many entries before one. */
static inline size_t rp_model_back(const struct rp_model *model, size_t from, size_t length)
{
    return from >= length ? from - length : from + model->count - length;
}

/*
 * May a prefetch of `place` hang on the entry so many before it? What is live is copied on the stream of that entry's
 * op: a reduction's stands still for what is computed long after.
 */
static inline bool rp_model_may_issue(const struct rp_model *model, size_t place, size_t length)
{
    return !model->entries[place].live || model->entries[rp_model_back(model, place, length)].gather;
}

#endif
