/*
 * What is said of one pair of ops. Private to diff.c.
 *
 * Threads: pure.
 */
#ifndef RP_DIFF_CLASS_H
#define RP_DIFF_CLASS_H

#include "core/compare/diff.h"
#include "core/compare/launch_parts.h"
#include "core/compare/pair.h"

/* One rank of both runs while it is compared. */
struct rp_diff_rank {
    struct rp_pair_part left, right;
    struct rp_pairs pairs;
    uint32_t *left_next, *right_next; /* per op the next compared one of its thread, or RP_PAIR_NONE */
    struct rp_launch_parts left_launches, right_launches;
};

/* Pairs the ops. The caller closes it. RP_NO_MEMORY; RP_UNSUPPORTED. */
enum rp_status rp_diff_rank_open(struct rp_pair_part left, struct rp_pair_part right, struct rp_diff_rank *rank_out);
void rp_diff_rank_close(struct rp_diff_rank *rank);

/* The classes of the pair of left op i and right op j. */
unsigned rp_diff_classify(const struct rp_diff_rank *rank, uint32_t i, uint32_t j);

/* Both have fingerprints, of the same signature; `comparable`: and of all bytes or of a sample in both. */
bool rp_diff_both_hashed(const struct rp_trace_op *left, const struct rp_trace_op *right);
bool rp_diff_bytes_comparable(const struct rp_trace_op *left, const struct rp_trace_op *right);

#endif
