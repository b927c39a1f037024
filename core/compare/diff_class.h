/*
 * What is said of one pair of ops. Private to diff.c.
 *
 * Most of it is said of their calls (trace_packed.h), and thousands of pairs have the same two: what was said last of a
 * left call is kept.
 *
 * Threads: pure.
 */
#ifndef RP_DIFF_CLASS_H
#define RP_DIFF_CLASS_H

#include "core/compare/diff.h"
#include "core/compare/launch_parts.h"
#include "core/compare/pair.h"

/* Two calls. */
struct rp_diff_calls {
    uint32_t right;   /* the number of the right call, or RP_PAIR_NONE: there was no pair with the left one yet */
    unsigned classes; /* of those that lie in the calls */
    bool hashed;      /* both have fingerprints, of the same signature */
    bool comparable;  /* and of all bytes or of a sample in both */
};

/* A place where the ranks differ. */
struct rp_diff_place {
    unsigned classes;
    uint32_t i, j;   /* the left and the right op; RP_PAIR_NONE on the side that has none */
    uint32_t before; /* where one has none: of the last pair before in the lane the op on that side, or RP_PAIR_NONE */
    uint64_t place;  /* as in a point */
    size_t step;     /* likewise */
};

/* Of each lane (pair_side.h) of one side the partner of the last op that has one and did not move. */
struct rp_diff_lanes {
    uint32_t *of_call; /* per call its lane */
    uint32_t *last;    /* per lane, or RP_PAIR_NONE: there was none so far */
};

/* One rank of both runs while it is compared. */
struct rp_diff_rank {
    struct rp_pair_part left, right;
    struct rp_pairs pairs;
    uint32_t *left_next, *right_next; /* per op the next compared one of its thread, or RP_PAIR_NONE */
    struct rp_diff_calls *calls;      /* per left call */
    struct rp_launch_parts left_launches, right_launches;
    struct rp_diff_lanes left_lanes, right_lanes;
    struct rp_diff_place *listed; /* those that may be among the first (diff_points.c) */
    size_t listed_count, listed_room;
};

/* Pairs the ops. The caller closes it. RP_NO_MEMORY; RP_UNSUPPORTED. */
enum rp_status rp_diff_rank_open(struct rp_pair_part left, struct rp_pair_part right, struct rp_diff_rank *rank_out);
void rp_diff_rank_close(struct rp_diff_rank *rank);

/* What is said of the calls of left op i and right op j. */
const struct rp_diff_calls *rp_diff_calls_of(const struct rp_diff_rank *rank, uint32_t i, uint32_t j);

/* The classes of that pair of ops. */
unsigned rp_diff_classify(const struct rp_diff_rank *rank, uint32_t i, uint32_t j);

#endif
