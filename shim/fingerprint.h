/*
 * Fingerprints: a 128-bit hash of the bytes of a buffer, alike on the device (kernels.cu) and on the host (the
 * stand-in runtime and tests). Included by C, C++ and CUDA C.
 *
 * The buffer is read as 16-byte words, the last one padded with zeros. Word i = (a, b) adds the two halves of the
 * 128-bit product (a ^ key(i)) * (b ^ key'(i)) to two 64-bit sums, so blocks may add in any order; keys differ by
 * place, so equal words in other places give another sum. A change of one word always changes the sums unless the
 * other half equals its key (2^-64). The idea is the NH hash of UMAC (Black, Halevi, Krawczyk, Krovetz, Rogaway 1999)
 * with wide products. Not cryptographic: it guards against chance, not against an adversary.
 *
 * A sampled one reads one page of 4 KiB out of each group of `every` pages in a row. Which one looks random, so that
 * rows whose length divides the group's do not always show the same columns, but hangs on the group's number alone:
 * equal bytes give equal values. Words keep their place in the buffer; `every` goes into the value.
 *
 *     every = 3    | page 0   1   2 | 3   4   5 | 6   7   8 | 9 10 |     the last group and the last page may be short
 *     read           ^                      ^     ^              ^
 *
 * With every = 1 all is read.
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
 *   uint64_t every                      1 or more
 *   uint64_t salt
 *   struct rp_fingerprint_sums *sums    the entry of this op, device memory
 *   struct rp_fingerprint_entry *entry  the entry of this op, device address of pinned memory
 *   uint64_t tag
 * One-dimensional grid of any size, RP_FINGERPRINT_THREADS threads a block, no shared memory.
 */
#define RP_FINGERPRINT_KERNEL "rp_fingerprint"
#define RP_FINGERPRINT_THREADS 256

#define RP_FINGERPRINT_PAGE 4096u
#define RP_FINGERPRINT_PAGE_WORDS 256u /* of 16 bytes */

/* The upper half of the product. */
RP_BOTH uint64_t rp_fingerprint_high(uint64_t x, uint64_t y)
{
#ifdef __CUDA_ARCH__
    return __umul64hi(x, y);
#else
    return (uint64_t)(((unsigned __int128)x * y) >> 64);
#endif
}

/* Adds word `index` to the sums. */
RP_BOTH void rp_fingerprint_word(uint64_t a, uint64_t b, uint64_t index, uint64_t salt, uint64_t *low, uint64_t *high)
{
    uint64_t x = a ^ (index * 0x9e3779b97f4a7c15u + 0xd1b54a32d192ed03u);
    uint64_t y = b ^ ((index + salt) * 0xc2b2ae3d27d4eb4fu + 0x8bb84b93962eacc9u);
    *low += x * y;
    *high += rp_fingerprint_high(x, y);
}

/* The finaliser of SplitMix64 (Steele, Lea, Flood 2014). */
RP_BOTH uint64_t rp_fingerprint_mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* The pages of a buffer and their groups. */
struct rp_fingerprint_pages {
    uint64_t every, count, groups;
};

RP_BOTH struct rp_fingerprint_pages rp_fingerprint_pages_of(uint64_t bytes, uint64_t every)
{
    struct rp_fingerprint_pages pages = {every, (bytes + RP_FINGERPRINT_PAGE - 1) / RP_FINGERPRINT_PAGE, 0};
    pages.groups = every == 1 || pages.count == 0 ? pages.count : (pages.count - 1) / every + 1;
    return pages;
}

/* The page of a group that is read; no division, since each thread of the device asks for each of its words. */
RP_BOTH uint64_t rp_fingerprint_page(struct rp_fingerprint_pages pages, uint64_t group)
{
    uint64_t first = group * pages.every, left = pages.count - first;
    if (pages.every == 1)
        return group;
    return first + rp_fingerprint_high(rp_fingerprint_mix(group), left < pages.every ? left : pages.every);
}

/* From the sums over all words read to the value. mix(0) is 0: of all pages it is that of the bytes alone. */
RP_BOTH void rp_fingerprint_finish(uint64_t low, uint64_t high, uint64_t bytes, uint64_t every, uint64_t value[2])
{
    value[0] = rp_fingerprint_mix(low ^ rp_fingerprint_mix(bytes ^ rp_fingerprint_mix(every - 1)));
    value[1] = rp_fingerprint_mix(high + value[0]);
}

/* The same on the host, one thread. */
RP_BOTH void rp_fingerprint_host(const void *data, uint64_t bytes, uint64_t every, uint64_t salt, uint64_t value[2])
{
    const unsigned char *from = (const unsigned char *)data;
    struct rp_fingerprint_pages pages = rp_fingerprint_pages_of(bytes, every);
    uint64_t low = 0, high = 0;
    for (uint64_t group = 0; group < pages.groups; group++) {
        uint64_t first = rp_fingerprint_page(pages, group) * RP_FINGERPRINT_PAGE_WORDS;
        for (uint64_t i = first; i < first + RP_FINGERPRINT_PAGE_WORDS && i * 16 < bytes; i++) {
            uint64_t word[2] = {0, 0};
            uint64_t left = bytes - i * 16;
            memcpy(word, from + i * 16, left < 16 ? left : 16);
            rp_fingerprint_word(word[0], word[1], i, salt, &low, &high);
        }
    }
    rp_fingerprint_finish(low, high, bytes, every, value);
}

#endif
