/* The result of comparing a run's ranks, for people and for programs. */
#ifndef RP_TOOL_RANKS_REPORT_H
#define RP_TOOL_RANKS_REPORT_H

#include <stdio.h>

#include "core/compare/ranks.h"

/*
 * The verdict in one line, then the ranks, the communicators, and what does not fit. `failure`: what the run's
 * directory says of a recording that failed, or NULL.
 */
void rp_ranks_report(FILE *out, const struct rp_ranks *ranks, const char *path, const char *failure);

/* The same as one object of JSON, or the table of the ranks as CSV. */
void rp_ranks_report_json(FILE *out, const struct rp_ranks *ranks);
void rp_ranks_report_csv(FILE *out, const struct rp_ranks *ranks);

#endif
