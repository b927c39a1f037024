/* What a trace is of: program, ranks, communicators, sizes, losses. */
#ifndef RP_TOOL_SUMMARY_H
#define RP_TOOL_SUMMARY_H

#include <stdio.h>

#include "core/compare/timeline.h"
#include "core/trace/trace.h"

/* A line about the run and a table of its ranks. */
void rp_summary_run(FILE *out, const char *path, const struct rp_trace_run *run);

/* One rank: its steps, state changes and communicators. */
void rp_summary_rank(FILE *out, const struct rp_trace *trace, const struct rp_timeline *timeline);

/* "cut short (120 bytes of an unfinished block), lost 3 ops", or "complete"; text of `size` bytes. Returns it. */
char *rp_summary_state(const struct rp_trace *trace, char *text, size_t size);

#endif
