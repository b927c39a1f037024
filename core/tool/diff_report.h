/* Prints what diff.h found, for people. The first line is the verdict. */
#ifndef RP_TOOL_DIFF_REPORT_H
#define RP_TOOL_DIFF_REPORT_H

#include <stdio.h>

#include "core/compare/diff.h"

struct rp_diff_paths {
    const char *left, *right;
};

/* RP_NO_MEMORY. */
enum rp_status rp_diff_report(FILE *out, const struct rp_diff *diff, const struct rp_trace_run *left,
                              const struct rp_trace_run *right, struct rp_diff_paths paths);

#endif
