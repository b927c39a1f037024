/* Prints what two runs did per module and phase, and what is retimed. */
#ifndef RP_TOOL_DIFF_TOTALS_VIEW_H
#define RP_TOOL_DIFF_TOTALS_VIEW_H

#include <stdbool.h>
#include <stdio.h>

#include "core/compare/diff.h"

/* True if the step or an event is retimed. */
bool rp_diff_is_retimed(const struct rp_diff *diff);

/* True if both sides of the row have not the same ops and bytes, or it is retimed. */
bool rp_diff_total_differs(const struct rp_diff_total *total);

/* "a step takes 4.20 ms in A, 6.10 ms in B (host time, median of 12 and 12 steps)"; of the most changed event, if only
 * events are retimed. */
char *rp_diff_retimed_text(const struct rp_diff *diff, char *text, size_t size);

/* A table of the rows that differ, at most `most` of them, or of all; nothing if there are none. */
void rp_diff_totals_print(FILE *out, const struct rp_diff *diff, size_t most, bool all);

#endif
