/*
 * Steps as trees (tree.h): phases and modules in the order in which they ran, with ops, bytes, launches and host time.
 *
 * An op's host time is that from its call to the next call of any thread, so that a step's lines add up to the step.
 * Launches that belong to another event than the op before them (an optimizer's) have a line of their own behind it.
 */
#ifndef RP_TOOL_TREE_VIEW_H
#define RP_TOOL_TREE_VIEW_H

#include <stdio.h>

#include "core/compare/timeline.h"
#include "core/tool/filter.h"
#include "core/trace/trace.h"

/* Prints the steps of those of ops [from, to) that the filter has. Steps in a row that are alike are one. RP_NO_MEMORY.
 */
enum rp_status rp_tree_view_print(FILE *out, const struct rp_trace *trace, const struct rp_timeline *timeline,
                                  size_t from, size_t to, const struct rp_filter *filter);

#endif
