/*
 * The part of a trace that tells of gathers ahead: its records, and which op each gather was served to. Private to
 * trace_read.c, trace_parse.c and trace_join.c.
 *
 * Threads: one at a time.
 */
#ifndef RP_TRACE_ISSUE_H
#define RP_TRACE_ISSUE_H

#include <stddef.h>

#include "core/issue.h"
#include "core/status.h"

struct rp_trace;
struct rp_file_record;

/* What is read before it can be put together. Begins all zero. */
struct rp_trace_issue_parse {
    struct rp_issue_use *uses;
    size_t uses_count, uses_room;
    size_t issues_room; /* of the trace's table */
};

/* A record of at least its kind's length. RP_NO_MEMORY; RP_CORRUPT: there are too many. */
enum rp_status rp_trace_issue_take(struct rp_trace_issue_parse *parse, struct rp_trace *trace,
                                   const struct rp_file_record *record);
enum rp_status rp_trace_issue_take_use(struct rp_trace_issue_parse *parse, const struct rp_file_record *record);

/* The ops are sorted: finds the one that each gather was served to. RP_NO_MEMORY. */
enum rp_status rp_trace_issue_join(const struct rp_trace_issue_parse *parse, struct rp_trace *trace);

void rp_trace_issue_free(struct rp_trace_issue_parse *parse);

#endif
