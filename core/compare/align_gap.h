/*
 * Aligns what has no partner yet between the pairs of two sequences, so that they can be aligned by one key after
 * another.
 *
 * Threads: pure.
 */
#ifndef RP_ALIGN_GAP_H
#define RP_ALIGN_GAP_H

#include <stdbool.h>

#include "core/compare/align.h"

/* Elements left [i, i_end) and right [j, j_end). */
struct rp_align_range {
    size_t i, i_end, j, j_end;
};

/*
 * Takes the next gap off the front of `rest`: elements on both sides between two of its pairs, or between one and an
 * end. `match` has the pairs, in order. False: there is no further one.
 */
bool rp_align_gap_next(const uint32_t *match, struct rp_align_range *rest, struct rp_align_range *gap_out);

/* rp_align() of a gap: `left` and `right` are its keys, `match` is that of the whole. RP_NO_MEMORY. */
enum rp_status rp_align_gap_fill(struct rp_align_keys left, struct rp_align_keys right, struct rp_align_range gap,
                                 uint32_t *match);

#endif
