/*
 * Freshness: whether a gather's content (fingerprint and size) is new, that is, not seen in the last `window` ops of
 * its lane. The window should span two cycles; a longer one does no harm but forgets later. After an optimizer step
 * the first gather of each unit is fresh, its later ones are not.
 *
 * Memory is bounded by the window: contents not seen within it are dropped.
 *
 * Threads: one at a time.
 */
#ifndef RP_FRESH_H
#define RP_FRESH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/op.h"
#include "core/status.h"

struct rp_freshness;

/* `window`: ops, at least 1 (RP_INVALID). The caller owns the set. RP_NO_MEMORY. */
enum rp_status rp_freshness_create(size_t window, struct rp_freshness **set_out);
void rp_freshness_destroy(struct rp_freshness *set);

/*
 * The next op of the lane. `fingerprint`: of what it sends, or NULL if not known. True if it is a gather whose
 * content is new. Call it for every counted op: the window is counted in calls.
 */
bool rp_freshness_see(struct rp_freshness *set, const struct rp_op *op, const uint64_t fingerprint[2]);

#endif
