/*
 * The two runs that are compared, one rank at a time in memory.
 *
 * Threads: the command line's one; while a rank is loaded, another one reads the other run's.
 */
#ifndef RP_TOOL_DIFF_INPUT_H
#define RP_TOOL_DIFF_INPUT_H

#include <stdbool.h>

#include "core/compare/timeline.h"
#include "core/trace/trace.h"

/* A rank of which something is known to be missing, or all. */
struct rp_diff_gap {
    int32_t rank;
    bool unread;                         /* the file cannot be read */
    char state[RP_TRACE_CAUSE_MAX + 20]; /* as rp_summary_state() says it, or "unreadable: " and why */
};

struct rp_diff_input {
    const char *path;
    char name; /* 'A' or 'B' */
    struct rp_trace_files files;
    struct rp_diff_gap *gaps; /* of the ranks that were loaded, in order */
    size_t gap_count;
    int32_t loaded_last;    /* the highest rank that was ever loaded; at first below all */
    struct rp_trace *trace; /* what is in memory, or NULL; without its ops */
    struct rp_packed packed;
    struct rp_timeline timeline;
};

/* Finds the files of `path`. The caller closes it. Errors are logged. */
enum rp_status rp_diff_input_open(const char *path, char name, struct rp_diff_input *input_out);
void rp_diff_input_close(struct rp_diff_input *input);

/* How many files of ranks, of those that were to be loaded, could not be read. */
size_t rp_diff_input_unread(const struct rp_diff_input *input);
size_t rp_diff_inputs_unread(const struct rp_diff_input inputs[2]);

/* True if there is a file of that rank. */
bool rp_diff_input_has(const struct rp_diff_input *input, int32_t rank);

/*
 * Brings that rank of both runs into memory, in place of another one, and says how it went on each side. RP_NOT_FOUND:
 * it has no file; RP_NO_MEMORY. With all others the file cannot be read: that has been logged, and is a gap.
 */
void rp_diff_inputs_load(struct rp_diff_input inputs[2], int32_t rank, enum rp_status status_out[2]);

#endif
