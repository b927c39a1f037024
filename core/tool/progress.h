/*
 * How far long work has come, as one line on a terminal's standard error that is written over and at the end removed.
 * Where standard error is no terminal nothing is ever printed, and nothing for work that is done within half a second.
 *
 * Threads: one at a time.
 */
#ifndef RP_TOOL_PROGRESS_H
#define RP_TOOL_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct rp_progress {
    const char *what; /* "reprise export: writing" */
    uint64_t total;
    uint64_t due_ns; /* monotonic time of the next line; UINT64_MAX: there is no terminal */
    bool shown;
};

/* `what` must outlive it. `total`: what there is to do, in units of the caller's. */
void rp_progress_begin(struct rp_progress *progress, const char *what, uint64_t total);

/* `done` of it is done. Reads the clock: to be called some thousand times a second at most. */
void rp_progress_at(struct rp_progress *progress, uint64_t done);

void rp_progress_end(struct rp_progress *progress);

#endif
