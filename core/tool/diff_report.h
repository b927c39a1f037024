/* Prints what diff.h found, for people. The first line is the verdict. */
#ifndef RP_TOOL_DIFF_REPORT_H
#define RP_TOOL_DIFF_REPORT_H

#include <stdio.h>

#include "core/compare/diff.h"
#include "core/tool/diff_input.h"

/* `all`: every row of the totals, not only those that differ. RP_NO_MEMORY; what reading a rank again may return. */
enum rp_status rp_diff_report(FILE *out, const struct rp_diff *diff, struct rp_diff_input inputs[2], bool all);

#endif
