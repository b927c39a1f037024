/*
 * Keeps the first places at which two runs differ. Private to diff.c.
 *
 * Threads: pure.
 */
#ifndef RP_DIFF_POINTS_H
#define RP_DIFF_POINTS_H

#include "core/compare/diff_class.h"

/* Remembers the place where it is the first of its kind, and if it may be in the list of the first ones. RP_NO_MEMORY.
 */
enum rp_status rp_diff_note(struct rp_diff *diff, struct rp_diff_rank *rank, const struct rp_diff_place *noted);

/* After the last place of a rank: puts those into the list that are among the first ones. */
void rp_diff_list(struct rp_diff *diff, struct rp_diff_rank *rank);

#endif
