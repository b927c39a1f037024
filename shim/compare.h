/*
 * The kernels of slots: a shard compared with a slot's own part, and a slot's serial written. Names, parameters, and
 * what they compute on the host (the stand-in runtime and tests). Included by C, C++ and CUDA C.
 *
 * Bytes are compared as bytes: equal numbers of other bits (-0.0 and 0.0) are unlike, a NaN equals its own bits.
 */
#ifndef RP_COMPARE_H
#define RP_COMPARE_H

#include <stdint.h>
#include <string.h>

#ifdef __CUDACC__
#define RP_COMPARE_BOTH __host__ __device__ static inline
#else
#define RP_COMPARE_BOTH static inline
#endif

/* A serial that no op has: the slot holds nobody's content, or only half of it. */
#define RP_SERIAL_NONE UINT64_MAX

/*
 * One entry of a set of slots' ring in pinned host memory: a single word, so that whoever polls it never sees half of
 * it. 0: never written.
 */
struct rp_compare_entry {
    uint64_t word; /* rp_compare_word() */
};

/* `tag` is at least 1 and grows with every use of the entry. */
RP_COMPARE_BOTH uint64_t rp_compare_word(uint64_t tag, int equal)
{
    return tag * 2 + (equal != 0);
}

/* One entry of the ring of states in device memory; all zero between kernels. */
struct rp_compare_state {
    unsigned int unlike; /* some block found a difference */
    unsigned int blocks_done;
};

/*
 * RP_COMPARE_KERNEL, parameters in order (kernels.cu):
 *   const void *a                     any alignment; 16-byte loads if both are aligned to 16
 *   const void *b
 *   uint64_t bytes
 *   const uint64_t *serial            of the slot, device memory
 *   uint64_t expected                 what it must be
 *   struct rp_compare_state *state    the entry of this op, device memory
 *   struct rp_compare_entry *entry    the entry of this op, device address of pinned memory
 *   uint64_t tag
 * One-dimensional grid of any size, RP_COMPARE_THREADS threads a block, no shared memory.
 *
 * RP_STAMP_KERNEL: uint64_t *serial, uint64_t value. One thread.
 */
#define RP_COMPARE_KERNEL "rp_compare"
#define RP_COMPARE_THREADS 256
#define RP_STAMP_KERNEL "rp_stamp"

/* The same on the host: 1 if equal. */
static inline int rp_compare_host(const void *a, const void *b, uint64_t bytes, uint64_t serial, uint64_t expected)
{
    return (bytes == 0 || memcmp(a, b, bytes) == 0) && serial == expected;
}

#endif
