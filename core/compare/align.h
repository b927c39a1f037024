/*
 * Aligns two sequences of keys, or of keys with names: which element of the left one is which of the right one (Myers,
 * "An O(ND) difference algorithm and its variations", 1986). Minimal while the distance is at most RP_ALIGN_WINDOW;
 * beyond that in windows of that distance, each from where the furthest path of the one before ended: always ends, in
 * at most O((left + right) * RP_ALIGN_WINDOW) steps.
 *
 * Of equally short ways the one that matches early and drops late is taken: a run that ends early loses its tail,
 * not a cycle in its middle. But where one element among equal ones is another, it alone stays without a partner;
 * those behind it are not shifted by one.
 *
 * Threads: pure.
 */
#ifndef RP_ALIGN_H
#define RP_ALIGN_H

#include <stddef.h>
#include <stdint.h>

#include "core/status.h"

#define RP_ALIGN_WINDOW 2048
#define RP_ALIGN_NONE UINT32_MAX

/*
 * Part of a sequence: keys[0..count), count < 2^30. A name has two parts, one in its RP_ALIGN_PART bits and one above
 * them; a part that is 0 is not known. Two elements match if their keys are equal and no part that both know differs:
 * that is not transitive, and nothing here takes it to be.
 */
struct rp_align_keys {
    const uint64_t *keys;
    size_t count;
    const uint64_t *names; /* one per key, or NULL: keys alone count */
};

#define RP_ALIGN_PART UINT64_C(0xff)

/*
 * match[i] becomes the number of the right element with which left element i is paired (they match, and it grows with
 * i), or RP_ALIGN_NONE. `match` has left.count places. RP_NO_MEMORY leaves some pairs out.
 */
enum rp_status rp_align(struct rp_align_keys left, struct rp_align_keys right, uint32_t *match);

/* How many elements match from the beginning on. */
size_t rp_align_head(struct rp_align_keys left, struct rp_align_keys right);

#endif
