/*
 * What two runs did per event (module and phase), and how long it took.
 *
 * Time is host time: from a call to the rank's next call of any thread, so that the times of a step's events add up to
 * the step. It is summed over an event's ops in one step; of these sums, over all ranks and all pairs of whole steps,
 * median and quartiles are kept. A device that is late shows where the host waits for it.
 *
 * An event, or the whole step, is *retimed* if it has as many ops in both runs and its medians differ by more than both
 * runs' distances between the quartiles together, and by more than RP_RETIMED_LEAST_NS and RP_RETIMED_LEAST_SHARE of a
 * step, in at least two steps of each run.
 *
 * Threads: one at a time.
 */
#ifndef RP_DIFF_TOTALS_H
#define RP_DIFF_TOTALS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/compare/pair.h"
#include "core/event.h"
#include "core/status.h"

#define RP_RETIMED_LEAST_NS 10000.0
#define RP_RETIMED_LEAST_SHARE 0.01

enum rp_diff_which { RP_DIFF_A, RP_DIFF_B };

/* Times in ns. */
struct rp_diff_time {
    size_t samples;           /* steps, of all ranks; 0: the others are 0 */
    double median, low, high; /* low and high: quartiles, of less than four samples the least and the most */
};

struct rp_diff_total {
    struct rp_event event;     /* the module is a number of the diff's modules */
    uint64_t ops[2], bytes[2]; /* by enum rp_diff_which */
    uint64_t launches[2];      /* that belong to it, behind ops of this or of other events */
    struct rp_diff_time time[2];
    bool retimed;
};

struct rp_diff_totals {
    struct rp_diff_total *rows; /* in order of first use */
    size_t count;
    struct rp_diff_time step[2]; /* from a step's first call to that of the next step */
    bool step_retimed;
    struct rp_diff_samples *samples; /* private */
};

/* The caller frees it. RP_NO_MEMORY. */
enum rp_status rp_diff_totals_create(struct rp_diff_totals **totals_out);
void rp_diff_totals_free(struct rp_diff_totals *totals);

/*
 * Adds the parts of one rank. `modules` becomes the table of names of all ranks and both runs. Times are of whole steps
 * that are paired, and alike unless it is sure that steps differ (pair_steps.h). RP_NO_MEMORY.
 */
enum rp_status rp_diff_totals_add(struct rp_diff_totals *totals, struct rp_modules *modules,
                                  const struct rp_pair_part *left, const struct rp_pair_part *right,
                                  const struct rp_pairs *pairs);

/* After the last rank: medians, and how many events are retimed. RP_NO_MEMORY. */
enum rp_status rp_diff_totals_finish(struct rp_diff_totals *totals, size_t *retimed_out);

#endif
