/* Where calls were issued: tables of what was seen, and how a rule for some of it is written. */
#ifndef RP_TOOL_SITES_VIEW_H
#define RP_TOOL_SITES_VIEW_H

#include <stdbool.h>
#include <stdio.h>

#include "core/trace/trace.h"

/* True if no rule gave a module or a phase there. */
bool rp_site_is_unmatched(const struct rp_trace_site *site);

/* A table per source, the most counted first. RP_NO_MEMORY. */
enum rp_status rp_sites_view_print(FILE *out, const struct rp_trace *trace, bool only_unmatched);

/* Everything, uncut, as comma-separated values. RP_NO_MEMORY. */
enum rp_status rp_sites_view_csv(FILE *out, const struct rp_trace *trace, bool only_unmatched);

/* How to write a rule, with a section for what is counted most and matched none, ready for a file; or that none lacks.
 */
void rp_sites_hint_print(FILE *out, const struct rp_trace *trace);

#endif
