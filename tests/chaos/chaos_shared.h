/*
 * Memory that the ranks of one program and the runner share: what ranks tell one another beside NCCL, and how far they
 * are. All zero is its initial state.
 */
#ifndef CHAOS_SHARED_H
#define CHAOS_SHARED_H

#include <stdatomic.h>
#include <stdint.h>

#include "tests/chaos/chaos.h"

#define CHAOS_IDS_MAX 8
#define CHAOS_ID_BYTES 128 /* NCCL_UNIQUE_ID_BYTES */

/* Exit codes of a rank. */
enum { CHAOS_RIGHT = 0, CHAOS_FAILED = 1, CHAOS_USAGE = 2, CHAOS_EXPIRED = 3, CHAOS_WRONG = 5 };

/* Written by the rank, read by the runner. */
struct chaos_figures {
    _Atomic uint64_t operations;
    _Atomic uint64_t bytes;     /* compared */
    _Atomic uint64_t wrong;     /* buffers with a wrong byte */
    _Atomic uint64_t errors;    /* calls that failed by a fault and were made again */
    _Atomic uint64_t no_memory; /* allocations that failed and were made again */
    _Atomic uint32_t action;    /* where it is */
};

struct chaos_shared {
    _Atomic uint32_t ids; /* release by rank 0, acquire by the others: how many of `id` are there */
    char id[CHAOS_IDS_MAX][CHAOS_ID_BYTES];
    _Atomic uint32_t issued; /* release by rank 0, acquire by ranks that wait: its last action with host_wait, + 1 */
    struct chaos_figures ranks[CHAOS_RANKS_MAX];
};

#endif
