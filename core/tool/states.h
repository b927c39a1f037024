/* State changes of a trace, for people: what became of the process, its communicators and replay. */
#ifndef RP_TOOL_STATES_H
#define RP_TOOL_STATES_H

#include <stdio.h>

#include "core/trace/trace.h"

/* One line that names each state of the trace and how often it came; nothing if there is none. */
void rp_states_line(FILE *out, const struct rp_trace *trace);

/* What became of replay, in order of time, one line a change. RP_NO_MEMORY. */
enum rp_status rp_states_replay(FILE *out, const struct rp_trace *trace);

#endif
