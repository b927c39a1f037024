/*
 * Memory of a ring; the ring itself is in ring.h, inline, because it runs inside hooks.
 */
#include "core/record/ring.h"

#include <sys/mman.h>

#define RING_LOG2_MIN 3u
#define RING_LOG2_MAX 24u
#define RING_KEPT_SHARE 8u /* one slot in so many is for ops only */

static size_t ring_bytes(uint64_t slots)
{
    return sizeof(struct rp_ring) + slots * sizeof(union rp_record);
}

enum rp_status rp_ring_create(unsigned slots_log2, struct rp_ring **ring_out)
{
    if (slots_log2 < RING_LOG2_MIN || slots_log2 > RING_LOG2_MAX)
        return RP_INVALID;
    uint64_t slots = UINT64_C(1) << slots_log2;
    struct rp_ring *ring = mmap(NULL, ring_bytes(slots), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (ring == MAP_FAILED)
        return RP_NO_MEMORY;
    ring->mask = slots - 1;
    ring->kept = slots / RING_KEPT_SHARE;
    *ring_out = ring;
    return RP_OK;
}
