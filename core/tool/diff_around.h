/* Prints the neighbourhood of a difference: the ops of its lane before it, and the one at it, on both sides. */
#ifndef RP_TOOL_DIFF_AROUND_H
#define RP_TOOL_DIFF_AROUND_H

#include <stdio.h>

#include "core/compare/diff.h"

/* The ops are those of the point's rank. */
void rp_diff_around_print(FILE *out, const struct rp_diff_point *point, const struct rp_packed *left,
                          const struct rp_packed *right);

#endif
