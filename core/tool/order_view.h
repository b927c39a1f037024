/* The order as people read it: events (module, phase) in sequence, neighbours that are equal folded into one. */
#ifndef RP_TOOL_ORDER_VIEW_H
#define RP_TOOL_ORDER_VIEW_H

#include <stdio.h>

#include "core/tool/filter.h"
#include "core/trace/trace.h"

/*
 * Prints the events of those of ops [from, to) that the filter has: one paragraph per stretch of one phase, its modules
 * in order. Ops without module and phase, and allocations, are left out.
 */
void rp_order_view_print(FILE *out, const struct rp_trace *trace, size_t from, size_t to,
                         const struct rp_filter *filter);

/* Prints their number, bytes and launches per (module, phase), in order of first use. RP_NO_MEMORY. */
enum rp_status rp_order_view_modules(FILE *out, const struct rp_trace *trace, size_t from, size_t to,
                                     const struct rp_filter *filter);

#endif
