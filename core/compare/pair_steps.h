/*
 * Which step of one trace is which of another one: first those whose ops are alike, whatever their order; between
 * them whole ones with whole ones and others with others; then what is left, in order.
 *
 * Threads: pure.
 */
#ifndef RP_PAIR_STEPS_H
#define RP_PAIR_STEPS_H

#include "core/compare/pair_side.h"

/*
 * Fills pairs->step_of and step_alike, made with no partner for any step, and steps_differ: the steps of both were
 * found by content, or both by annotations, the n-th is paired with the n-th, and most pairs are not alike. Where lanes
 * match across these steps, they only seem to. RP_NO_MEMORY.
 */
enum rp_status rp_pair_steps(const struct rp_pair_lanes *left, const struct rp_pair_lanes *right,
                             struct rp_pairs *pairs);

#endif
