/*
 * Keeps the first places at which two runs differ. Private to diff.c.
 *
 * Threads: pure.
 */
#ifndef RP_DIFF_POINTS_H
#define RP_DIFF_POINTS_H

#include "core/compare/diff_class.h"

struct rp_diff_place {
    unsigned classes;
    uint64_t place; /* as in a point */
    uint32_t i, j;  /* the left and the right op; RP_PAIR_NONE on the side that has none */
};

/* Remembers the place where it is the first of its kind, and in the list of the first ones. */
void rp_diff_note(struct rp_diff *diff, const struct rp_diff_rank *rank, const struct rp_diff_place *place);

#endif
