/*
 * Our device code, built into a fat binary that is embedded in the library as data (kernels_image.c) and loaded
 * through the driver API. Names and parameters: fingerprint.h, compare.h.
 */
#include "shim/compare.h"
#include "shim/fingerprint.h"

/* Loads of a thread under way at once: 16-byte words of a fingerprint, pairs of them of a compare. With two blocks a
 * multiprocessor 8 reach 3.7 to 4.1 TB/s of an H200, 4 reach 3.0. */
#define UNROLL 8
#define UNROLL_PAIRS 4

static_assert(RP_FINGERPRINT_THREADS == RP_FINGERPRINT_PAGE_WORDS, "a thread takes a word of a page");

struct words {
    unsigned long long a, b;
};

/* Word `index` of a buffer that is not aligned to 16 bytes, or its last word: byte by byte, padded with zeros. */
__device__ static words load_bytes(const unsigned char *data, uint64_t bytes, uint64_t index)
{
    words word = {0, 0};
    uint64_t first = index * 16;
    for (int i = 0; i < 8; i++) {
        if (first + i < bytes)
            word.a |= (unsigned long long)data[first + i] << (8 * i);
        if (first + 8 + i < bytes)
            word.b |= (unsigned long long)data[first + 8 + i] << (8 * i);
    }
    return word;
}

/* The word that this thread takes of the page that is read of a group. */
__device__ static uint64_t word_of_thread(rp_fingerprint_pages pages, uint64_t group)
{
    return rp_fingerprint_page(pages, group) * RP_FINGERPRINT_PAGE_WORDS + threadIdx.x;
}

/*
 * A block takes a page at a time, a thread a word of it. Adds of the pages that are read what lies in the first `words`
 * words, which are aligned.
 */
__device__ static void add_aligned(const ulonglong2 *data, uint64_t words, rp_fingerprint_pages pages, uint64_t salt,
                                   uint64_t *low, uint64_t *high)
{
    ulonglong2 word[UNROLL]; /* loads stand together, to be under way at once */
    uint64_t index[UNROLL], step = gridDim.x, group = blockIdx.x;
    if (words == 0)
        return;
    /* only the last page may be short */
    for (; group + (UNROLL - 1) * step + 1 < pages.groups; group += UNROLL * step) {
        for (int k = 0; k < UNROLL; k++)
            index[k] = word_of_thread(pages, group + k * step);
        for (int k = 0; k < UNROLL; k++)
            word[k] = __ldcs(&data[index[k]]);
        for (int k = 0; k < UNROLL; k++)
            rp_fingerprint_word(word[k].x, word[k].y, index[k], salt, low, high);
    }
    for (int k = 0; k < UNROLL; k++) /* UNROLL groups are left at most */
        index[k] = group + k * step < pages.groups ? word_of_thread(pages, group + k * step) : words;
    for (int k = 0; k < UNROLL; k++) {
        if (index[k] < words)
            word[k] = __ldcs(&data[index[k]]);
    }
    for (int k = 0; k < UNROLL; k++) {
        if (index[k] < words)
            rp_fingerprint_word(word[k].x, word[k].y, index[k], salt, low, high);
    }
}

/* Likewise from word `from` on. If that is not the first it is the last one, which lies in the last page. */
__device__ static void add_bytes(const unsigned char *data, uint64_t bytes, uint64_t from, rp_fingerprint_pages pages,
                                 uint64_t salt, uint64_t *low, uint64_t *high)
{
    uint64_t end = (bytes + 15) / 16;
    uint64_t group = from == 0 ? blockIdx.x : pages.groups - 1 + blockIdx.x;
    for (; group < pages.groups; group += gridDim.x) {
        uint64_t index = word_of_thread(pages, group);
        if (index < from || index >= end)
            continue;
        words word = load_bytes(data, bytes, index);
        rp_fingerprint_word(word.a, word.b, index, salt, low, high);
    }
}

/* Sum over the block, valid in thread 0. */
__device__ static void block_sum(uint64_t *low, uint64_t *high)
{
    __shared__ uint64_t part[2][RP_FINGERPRINT_THREADS / 32];
    for (int offset = 16; offset > 0; offset /= 2) {
        *low += __shfl_down_sync(0xffffffffu, *low, offset);
        *high += __shfl_down_sync(0xffffffffu, *high, offset);
    }
    if (threadIdx.x % 32 == 0) {
        part[0][threadIdx.x / 32] = *low;
        part[1][threadIdx.x / 32] = *high;
    }
    __syncthreads();
    if (threadIdx.x != 0)
        return;
    for (unsigned i = 1; i < blockDim.x / 32; i++) {
        *low += part[0][i];
        *high += part[1][i];
    }
}

/* The last block: takes the sums, leaves zeros for the entry's next op, hands the value to the host. */
__device__ static void publish(rp_fingerprint_sums *sums, rp_fingerprint_entry *entry, uint64_t bytes, uint64_t every,
                               uint64_t tag)
{
    uint64_t value[2];
    uint64_t low = atomicExch(&sums->sum[0], 0ull), high = atomicExch(&sums->sum[1], 0ull);
    sums->blocks_done = 0;
    rp_fingerprint_finish(low, high, bytes, every, value);
    volatile rp_fingerprint_entry *out = entry;
    out->tag = 0; /* a reader of the entry's former op sees that it is gone before it sees a new value */
    __threadfence_system();
    out->value[0] = value[0];
    out->value[1] = value[1];
    __threadfence_system();
    out->tag = tag;
}

extern "C" __global__ void __launch_bounds__(RP_FINGERPRINT_THREADS)
    rp_fingerprint(const void *data, uint64_t bytes, uint64_t every, uint64_t salt, rp_fingerprint_sums *sums,
                   rp_fingerprint_entry *entry, uint64_t tag)
{
    uint64_t low = 0, high = 0;
    uint64_t aligned = (uintptr_t)data % 16 == 0 ? bytes / 16 : 0;
    rp_fingerprint_pages pages = rp_fingerprint_pages_of(bytes, every);
    add_aligned((const ulonglong2 *)data, aligned, pages, salt, &low, &high);
    add_bytes((const unsigned char *)data, bytes, aligned, pages, salt, &low, &high);
    block_sum(&low, &high);
    if (threadIdx.x != 0)
        return;
    atomicAdd(&sums->sum[0], (unsigned long long)low);
    atomicAdd(&sums->sum[1], (unsigned long long)high);
    __threadfence(); /* the sums are there before this block is counted */
    if (atomicAdd(&sums->blocks_done, 1u) + 1 == gridDim.x) {
        __threadfence();
        publish(sums, entry, bytes, every, tag);
    }
}

/* What differs in this thread's share of the 16-byte words: not zero if anything does. */
__device__ static unsigned long long unlike_aligned(const ulonglong2 *a, const ulonglong2 *b, uint64_t words)
{
    uint64_t step = (uint64_t)gridDim.x * blockDim.x;
    uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
    unsigned long long unlike = 0;
    for (; i + (UNROLL_PAIRS - 1) * step < words; i += UNROLL_PAIRS * step) {
        ulonglong2 left[UNROLL_PAIRS], right[UNROLL_PAIRS]; /* all loads are under way before the first is used */
        for (int k = 0; k < UNROLL_PAIRS; k++) {
            left[k] = __ldcs(&a[i + k * step]);
            right[k] = __ldcs(&b[i + k * step]);
        }
        for (int k = 0; k < UNROLL_PAIRS; k++)
            unlike |= (left[k].x ^ right[k].x) | (left[k].y ^ right[k].y);
    }
    for (; i < words; i += step) {
        ulonglong2 left = __ldcs(&a[i]), right = __ldcs(&b[i]);
        unlike |= (left.x ^ right.x) | (left.y ^ right.y);
    }
    return unlike;
}

__device__ static unsigned unlike_bytes(const unsigned char *a, const unsigned char *b, uint64_t from, uint64_t to)
{
    uint64_t step = (uint64_t)gridDim.x * blockDim.x;
    unsigned unlike = 0;
    for (uint64_t i = from + (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; i < to; i += step)
        unlike |= a[i] ^ b[i];
    return unlike;
}

/* The last block: takes the state, leaves zeros for the entry's next op, hands the verdict to the host. */
__device__ static void publish_verdict(rp_compare_state *state, rp_compare_entry *entry, bool serial_fits, uint64_t tag)
{
    bool equal = atomicExch(&state->unlike, 0u) == 0 && serial_fits;
    state->blocks_done = 0;
    __threadfence_system(); /* whoever sees the verdict may use the state again */
    *(volatile uint64_t *)&entry->word = rp_compare_word(tag, equal);
}

/* By all threads of all blocks: the last block publishes what they found. */
__device__ static void report_verdict(int unlike, rp_compare_state *state, rp_compare_entry *entry, bool serial_fits,
                                      uint64_t tag)
{
    unlike = __syncthreads_or(unlike);
    if (threadIdx.x != 0)
        return;
    if (unlike)
        atomicExch(&state->unlike, 1u);
    __threadfence(); /* the difference is there before this block is counted */
    if (atomicAdd(&state->blocks_done, 1u) + 1 == gridDim.x) {
        __threadfence();
        publish_verdict(state, entry, serial_fits, tag);
    }
}

extern "C" __global__ void __launch_bounds__(RP_COMPARE_THREADS)
    rp_compare(const void *a, const void *b, uint64_t bytes, const uint64_t *serial, uint64_t expected,
               rp_compare_state *state, rp_compare_entry *entry, uint64_t tag)
{
    uint64_t words = ((uintptr_t)a | (uintptr_t)b) % 16 == 0 ? bytes / 16 : 0;
    int unlike = unlike_aligned((const ulonglong2 *)a, (const ulonglong2 *)b, words) != 0;
    unlike |= unlike_bytes((const unsigned char *)a, (const unsigned char *)b, words * 16, bytes) != 0;
    report_verdict(unlike, state, entry, *serial == expected, tag);
}

extern "C" __global__ void rp_stamp(uint64_t *serial, uint64_t value)
{
    *serial = value;
}

#include "shim/kernels_pack.cuh"
