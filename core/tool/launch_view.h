/*
 * Kernel launches: how many belong to an event (module, phase), and each by itself under the op that it followed, with
 * its kernel's name as the source spells it.
 */
#ifndef RP_TOOL_LAUNCH_VIEW_H
#define RP_TOOL_LAUNCH_VIEW_H

#include <stdio.h>

#include "core/tool/filter.h"
#include "core/trace/trace.h"

struct rp_launch_figures {
    uint64_t all;
    uint64_t named;  /* belong to an event with a module or a phase */
    uint64_t early;  /* do not: before the first op of their thread, or behind one that was lost */
    uint64_t behind; /* do not: behind an op without a name */
};

/*
 * Of the launches behind ops [from, to), and of those of threads without an op yet that came in between them; those
 * before the first op count if `from` is 0 and `to` the number of ops.
 */
struct rp_launch_figures rp_launch_figures(const struct rp_trace *trace, size_t from, size_t to);

/* Of each op's launches those that belong to a named event; the caller frees it. NULL: no memory. */
uint64_t *rp_launch_named(const struct rp_trace *trace);

/* A table of them: its head, and a row for ops [from, to). */
void rp_launch_view_figures_head(FILE *out);
void rp_launch_view_figures(FILE *out, const struct rp_trace *trace, size_t from, size_t to, const char *title);

/*
 * Ops [from, to), each with its launches below it: those launches that the filter has, and the ops that it has or that
 * such a launch is behind. RP_NO_MEMORY.
 */
enum rp_status rp_launch_view_print(FILE *out, const struct rp_trace *trace, size_t from, size_t to,
                                    const struct rp_filter *filter);

#endif
