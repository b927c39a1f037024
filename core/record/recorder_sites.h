/*
 * What was seen at collectives, from the table of it into the trace: each site once when it is new, and how often it
 * was counted now and then.
 *
 * Threads: the background thread.
 */
#ifndef RP_RECORDER_SITES_H
#define RP_RECORDER_SITES_H

#include "core/record/seen.h"
#include "core/trace/trace.h"

struct rp_sites {                 /* zero-initialised but for `seen`: nothing is in the trace yet */
    struct rp_seen *seen;         /* or NULL */
    uint32_t written;             /* numbers below it are in the trace */
    uint64_t counts[RP_SEEN_MAX]; /* that the trace has */
};

/* Writes what is new. RP_IO, RP_NO_MEMORY: the rest is tried again next time. */
enum rp_status rp_sites_write(struct rp_sites *sites, struct rp_trace_writer *writer);

/* Writes the counts that have changed, of what has been written. RP_IO, RP_FULL, RP_NO_MEMORY likewise. */
enum rp_status rp_sites_write_counts(struct rp_sites *sites, struct rp_trace_writer *writer);

#endif
