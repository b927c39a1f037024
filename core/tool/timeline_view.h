/*
 * The calls of a step over host time: when each came in, how long the host was in it, and how much of the step the host
 * spent in gathers, by where their bytes came from. A trace has no times of the device.
 */
#ifndef RP_TOOL_TIMELINE_VIEW_H
#define RP_TOOL_TIMELINE_VIEW_H

#include <stdio.h>

#include "core/tool/filter.h"
#include "core/trace/trace.h"

/*
 * Prints those of ops [from, to), at least one, that the filter has. The time runs from the first of them to the op
 * behind the last, so that it holds what the host did after its last call; without one, to the end of the last call.
 */
void rp_timeline_view_print(FILE *out, const struct rp_trace *trace, size_t from, size_t to,
                            const struct rp_filter *filter);

#endif
