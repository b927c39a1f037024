/* Where the bytes of gathers came from when a run was replayed: one line a gather, totals, what became of replay. */
#ifndef RP_TOOL_PLAN_VIEW_H
#define RP_TOOL_PLAN_VIEW_H

#include <stdio.h>

#include "core/tool/filter.h"
#include "core/trace/trace.h"

/*
 * Prints the gathers of ops [from, to), which are called `title`, and the totals of these and of the run's, as far as
 * the filter has them; then what became of replay. RP_NO_MEMORY.
 */
enum rp_status rp_plan_view_print(FILE *out, const struct rp_trace *trace, size_t from, size_t to, const char *title,
                                  const struct rp_filter *filter);

#endif
