/* Prints what diff.h found as one JSON object; core/compare/README.md describes it. */
#ifndef RP_TOOL_DIFF_JSON_H
#define RP_TOOL_DIFF_JSON_H

#include <stdio.h>

#include "core/compare/diff.h"
#include "core/tool/diff_input.h"

void rp_diff_json(FILE *out, const struct rp_diff *diff, const struct rp_diff_input inputs[2]);

#endif
