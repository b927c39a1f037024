/*
 * The steps of one rank's trace, in its unified order. They are found on the lane with the most gathers (steps.h)
 * and cut the whole order: an op of another lane belongs to the step in which it began.
 */
#ifndef RP_TIMELINE_H
#define RP_TIMELINE_H

#include "core/steps/steps.h"
#include "core/trace/trace.h"
#include "core/trace/trace_packed.h"

/* By what the steps were found. REPETITION: calls that repeat; a step may then be a microbatch. */
enum rp_timeline_basis { RP_TIMELINE_REPETITION, RP_TIMELINE_CONTENT, RP_TIMELINE_ANNOTATION };

struct rp_timeline {
    struct rp_step *steps; /* `first` is an index in the ops; the first step begins at 0 */
    size_t count;          /* 0 only if there are no ops */
    size_t whole;          /* how many are RP_STEP_WHOLE */
    size_t op_count;       /* end of the last one */
    enum rp_timeline_basis basis;
};

/* The caller frees it. RP_NO_MEMORY. */
enum rp_status rp_timeline_create(const struct rp_trace *trace, struct rp_timeline *timeline_out);
enum rp_status rp_timeline_create_packed(const struct rp_packed *packed, struct rp_timeline *timeline_out);
void rp_timeline_free(struct rp_timeline *timeline);

/* The step that op `index` belongs to; the last one for an index past the end. */
size_t rp_timeline_step_of(const struct rp_timeline *timeline, size_t index);

/* One past the last op of a step. */
size_t rp_timeline_end(const struct rp_timeline *timeline, size_t step);

/* The second-last whole step (the last one may hold the end of training), else the only one, else the last of all. */
size_t rp_timeline_representative(const struct rp_timeline *timeline);

#endif
