/*
 * Which step of one trace is which of another one: first those whose ops are alike, whatever their order; between
 * them whole ones with whole ones and others with others; then what is left, in order.
 *
 * Threads: pure.
 */
#ifndef RP_PAIR_STEPS_H
#define RP_PAIR_STEPS_H

#include "core/compare/pair.h"

/*
 * step_of[i], for each step of the left part, becomes the number of its partner; other places are not touched.
 * *differ_out: the steps of both were found by content, or both by annotations, the n-th is paired with the n-th, and
 * the ops of most pairs are not alike: where lanes match across these steps, they only seem to. RP_NO_MEMORY.
 */
enum rp_status rp_pair_steps(const struct rp_pair_part *left, const struct rp_pair_part *right, uint32_t *step_of,
                             bool *differ_out);

#endif
