/* Differences in words. The left run is called A, the right one B. */
#ifndef RP_TOOL_DIFF_TEXT_H
#define RP_TOOL_DIFF_TEXT_H

#include "core/compare/diff.h"

#define RP_DIFF_TEXT_MAX 1200

/* The side by which a difference is named: A, unless only B has the op. */
const struct rp_diff_side *rp_diff_named_side(const struct rp_diff_point *point);

/* "only in A", "other size": a class as it is called here. */
const char *rp_diff_class_text(enum rp_diff_class class);

/* "layers.1 forward, all-gather 2.0 KiB bfloat16" */
char *rp_diff_what(const struct rp_diff *diff, const struct rp_op *op, char *text, size_t size);

/*
 * "step 4, layers.1 forward, all-gather 2.0 KiB bfloat16, rank 0"; where only the launches behind the op differ they
 * are named by their own event: "step 4, layers.3 backward, launches behind all-gather 2.0 KiB bfloat16 of layers.2
 * backward, rank 0".
 */
char *rp_diff_where(const struct rp_diff *diff, const struct rp_diff_point *point, char *text, size_t size);

/* "communicator 0, position 25"; "" if the op has neither */
char *rp_diff_place_text(const struct rp_diff_point *point, char *text, size_t size);

/* All of it: "step 4, layers.1 forward, all-gather 2.0 KiB bfloat16, rank 0: only in A (communicator 0, position 25)"
 */
char *rp_diff_point_text(const struct rp_diff *diff, const struct rp_diff_point *point, char *text, size_t size);

#endif
