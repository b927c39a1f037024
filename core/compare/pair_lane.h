/*
 * Pairs the ops of one lane of two traces. Private to pair.c.
 *
 * Threads: pure.
 */
#ifndef RP_PAIR_LANE_H
#define RP_PAIR_LANE_H

#include "core/compare/pair_side.h"

/* Lanes of that number on each side; pairs->step_of is filled. Adds the pairs found to `pairs`. RP_NO_MEMORY. */
enum rp_status rp_pair_lane(const struct rp_pair_lanes *left, size_t left_lane, const struct rp_pair_lanes *right,
                            size_t right_lane, struct rp_pairs *pairs);

#endif
