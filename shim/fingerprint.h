/*
 * Fingerprints: a 128-bit hash of the bytes of a buffer, alike on the device (kernels.cu) and on the host (the
 * stand-in runtime and tests). Included by C, C++ and CUDA C.
 *
 * The buffer is read as 16-byte words, the last one padded with zeros. Word i = (a, b) adds the two halves of the
 * 128-bit product (a ^ key(i)) * (b ^ key'(i)) to two 64-bit sums, so blocks may add in any order; keys differ by
 * place, so equal words in other places give another sum. A change of one word always changes the sums unless the
 * other half equals its key (2^-64). The idea is the NH hash of UMAC (Black, Halevi, Krawczyk, Krovetz, Rogaway 1999)
 * with wide products. Not cryptographic: it guards against chance, not against an adversary.
 */
#ifndef RP_FINGERPRINT_H
#define RP_FINGERPRINT_H

#include <stdint.h>
#include <string.h>

#ifdef __CUDACC__
#define RP_BOTH __host__ __device__ static inline
#else
#define RP_BOTH static inline
#endif

/* One entry of a communicator's ring in pinned host memory. */
struct rp_fingerprint_entry {
    uint64_t value[2];
    uint64_t tag; /* written last, after a system fence: lane position + 1; 0: never written */
    uint64_t unused;
};

/* One entry of the ring of sums in device memory; all zero between kernels. */
struct rp_fingerprint_sums {
    unsigned long long sum[2];
    unsigned int blocks_done;
    unsigned int unused[3];
};

/*
 * Name and parameters of the kernel, in order (kernels.cu):
 *   const void *data                    any alignment
 *   uint64_t bytes
 *   uint64_t salt
 *   struct rp_fingerprint_sums *sums    the entry of this op, device memory
 *   struct rp_fingerprint_entry *entry  the entry of this op, device address of pinned memory
 *   uint64_t tag
 * One-dimensional grid of any size, RP_FINGERPRINT_THREADS threads a block, no shared memory.
 */
#define RP_FINGERPRINT_KERNEL "rp_fingerprint"
#define RP_FINGERPRINT_THREADS 256

/* Adds word `index` to the sums. */
RP_BOTH void rp_fingerprint_word(uint64_t a, uint64_t b, uint64_t index, uint64_t salt, uint64_t *low, uint64_t *high)
{
    uint64_t x = a ^ (index * 0x9e3779b97f4a7c15u + 0xd1b54a32d192ed03u);
    uint64_t y = b ^ ((index + salt) * 0xc2b2ae3d27d4eb4fu + 0x8bb84b93962eacc9u);
#ifdef __CUDA_ARCH__
    *low += x * y;
    *high += __umul64hi(x, y);
#else
    unsigned __int128 product = (unsigned __int128)x * y;
    *low += (uint64_t)product;
    *high += (uint64_t)(product >> 64);
#endif
}

/* The finaliser of SplitMix64 (Steele, Lea, Flood 2014). */
RP_BOTH uint64_t rp_fingerprint_mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* From the sums over all words to the value. */
RP_BOTH void rp_fingerprint_finish(uint64_t low, uint64_t high, uint64_t bytes, uint64_t value[2])
{
    value[0] = rp_fingerprint_mix(low ^ rp_fingerprint_mix(bytes));
    value[1] = rp_fingerprint_mix(high + value[0]);
}

/* The same on the host, one thread. */
RP_BOTH void rp_fingerprint_host(const void *data, uint64_t bytes, uint64_t salt, uint64_t value[2])
{
    const unsigned char *from = (const unsigned char *)data;
    uint64_t low = 0, high = 0;
    for (uint64_t i = 0; i * 16 < bytes; i++) {
        uint64_t word[2] = {0, 0};
        uint64_t left = bytes - i * 16;
        memcpy(word, from + i * 16, left < 16 ? left : 16);
        rp_fingerprint_word(word[0], word[1], i, salt, &low, &high);
    }
    rp_fingerprint_finish(low, high, bytes, value);
}

#endif
