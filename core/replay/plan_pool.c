/*
 * Buffers as bits. plan_pool.h has the job and the threads.
 */
#include "core/replay/plan_pool.h"

#include <stdlib.h>
#include <string.h>

#include "core/replay/plan.h"

#define BLOCK 32u
#define WORD 64u

enum rp_status rp_pool_make(size_t most, size_t cycle, struct rp_pool *pool_out)
{
    struct rp_pool pool = {.most = most, .cycle = cycle, .words = most / WORD + 1};
    size_t blocks = cycle / BLOCK + 1;

    pool.used = calloc(cycle * pool.words, sizeof(*pool.used));
    pool.filled = calloc(blocks * pool.words, sizeof(*pool.filled));
    pool.touched = calloc(blocks * pool.words, sizeof(*pool.touched));
    pool.bytes = calloc(most + 1, sizeof(*pool.bytes));
    bool made = pool.used != NULL && pool.filled != NULL && pool.touched != NULL && pool.bytes != NULL;
    for (size_t i = 0; i < RP_POOL_FITS; i++) {
        pool.fits[i].bits = calloc(pool.words, sizeof(*pool.fits[i].bits));
        made &= pool.fits[i].bits != NULL;
    }
    *pool_out = pool;
    return made ? RP_OK : RP_NO_MEMORY;
}

void rp_pool_free(struct rp_pool *pool)
{
    free(pool->used);
    free(pool->filled);
    free(pool->touched);
    free(pool->bytes);
    for (size_t i = 0; i < RP_POOL_FITS; i++)
        free(pool->fits[i].bits);
}

static void clear_rows(const struct rp_pool *pool, uint64_t *rows, size_t count)
{
    size_t words = (pool->count + WORD - 1) / WORD;
    for (size_t row = 0; row < count && words > 0; row++)
        memset(rows + row * pool->words, 0, words * sizeof(*rows));
}

void rp_pool_clear(struct rp_pool *pool)
{
    clear_rows(pool, pool->used, pool->cycle);
    clear_rows(pool, pool->filled, pool->cycle / BLOCK + 1);
    clear_rows(pool, pool->touched, pool->cycle / BLOCK + 1);
    for (size_t i = 0; i < RP_POOL_FITS; i++)
        pool->fits[i].count = 0;
    pool->count = 0;
    pool->total = 0;
}

uint32_t rp_pool_grow(struct rp_pool *pool, uint64_t bytes)
{
    if (pool->count == pool->most)
        return RP_NO_SLOT;
    pool->bytes[pool->count] = bytes;
    pool->total += bytes;
    return (uint32_t)pool->count++;
}

/* ---------------------------------------------------------------- one word of buffers */

static bool is_block(size_t at, size_t end)
{
    return at % BLOCK == 0 && end - at >= BLOCK;
}

/* Those in use at an entry. */
static uint64_t used_at(const struct rp_pool *pool, size_t word, size_t entry)
{
    return pool->used[entry * pool->words + word] | pool->filled[entry / BLOCK * pool->words + word];
}

/* Of `free`, those in use nowhere in [at, end). */
static uint64_t free_in(const struct rp_pool *pool, size_t word, size_t at, size_t end, uint64_t free)
{
    while (at < end && free != 0) {
        bool block = is_block(at, end);
        free &= ~(block ? pool->touched[at / BLOCK * pool->words + word] : used_at(pool, word, at));
        at += block ? BLOCK : 1;
    }
    return free;
}

static uint64_t free_over(const struct rp_pool *pool, size_t word, struct rp_span span, uint64_t free)
{
    size_t end = span.first + span.length;

    if (end <= pool->cycle)
        return free_in(pool, word, span.first, end, free);
    free = free_in(pool, word, span.first, pool->cycle, free);
    return free_in(pool, word, 0, end - pool->cycle, free);
}

/* How long the last of `free` are, back from `last`; the ones that are in *free_out. */
static size_t free_back(const struct rp_pool *pool, size_t word, size_t last, size_t most, uint64_t free,
                        uint64_t *free_out)
{
    size_t length = 0, at = last;

    for (; length < most; length++) {
        uint64_t left = free & ~used_at(pool, word, at);
        if (left == 0)
            break;
        free = left;
        at = at == 0 ? pool->cycle - 1 : at - 1;
    }
    *free_out = free;
    return length;
}

/* ---------------------------------------------------------------- one buffer */

bool rp_pool_is_free(const struct rp_pool *pool, size_t buffer, struct rp_span span)
{
    return free_over(pool, buffer / WORD, span, UINT64_C(1) << buffer % WORD) != 0;
}

size_t rp_pool_free_before(const struct rp_pool *pool, size_t buffer, size_t last, size_t most)
{
    uint64_t free;
    return free_back(pool, buffer / WORD, last, most, UINT64_C(1) << buffer % WORD, &free);
}

static void take(struct rp_pool *pool, size_t buffer, size_t at, size_t end)
{
    uint64_t bit = UINT64_C(1) << buffer % WORD;
    size_t word = buffer / WORD;

    while (at < end) {
        bool block = is_block(at, end);
        pool->touched[at / BLOCK * pool->words + word] |= bit;
        if (block)
            pool->filled[at / BLOCK * pool->words + word] |= bit;
        else
            pool->used[at * pool->words + word] |= bit;
        at += block ? BLOCK : 1;
    }
}

void rp_pool_take(struct rp_pool *pool, size_t buffer, struct rp_span span)
{
    size_t end = span.first + span.length;

    take(pool, buffer, span.first, end < pool->cycle ? end : pool->cycle);
    if (end > pool->cycle)
        take(pool, buffer, 0, end - pool->cycle);
}

/* ---------------------------------------------------------------- any buffer */

static const uint64_t *find_fits(struct rp_pool *pool, uint64_t bytes)
{
    struct rp_pool_fit *fit = &pool->fits[bytes * UINT64_C(0x9e3779b97f4a7c15) >> 32 & (RP_POOL_FITS - 1)];

    if (fit->bytes != bytes)
        fit->count = 0;
    fit->bytes = bytes;
    for (; fit->count < pool->count; fit->count++) {
        uint64_t *word = &fit->bits[fit->count / WORD], bit = UINT64_C(1) << fit->count % WORD;
        *word = (fit->count % WORD == 0 ? 0 : *word) | (pool->bytes[fit->count] >= bytes ? bit : 0);
    }
    return fit->bits;
}

/* The smallest of some buffers of a word, which have `bytes` at least, and of one before them, or RP_NO_SLOT. */
static uint32_t smallest(const struct rp_pool *pool, size_t word, uint64_t bits, uint64_t bytes, uint32_t before)
{
    for (; bits != 0; bits &= bits - 1) {
        uint32_t buffer = (uint32_t)(word * WORD + (size_t)__builtin_ctzll(bits));
        if (before == RP_NO_SLOT || pool->bytes[buffer] < pool->bytes[before])
            before = buffer;
        if (pool->bytes[before] == bytes)
            break;
    }
    return before;
}

uint32_t rp_pool_find(struct rp_pool *pool, uint64_t bytes, struct rp_span span)
{
    const uint64_t *fits = find_fits(pool, bytes);
    uint32_t found = RP_NO_SLOT;

    for (size_t word = 0; word * WORD < pool->count; word++) {
        found = smallest(pool, word, free_over(pool, word, span, fits[word]), bytes, found);
        if (found != RP_NO_SLOT && pool->bytes[found] == bytes)
            break;
    }
    return found;
}

size_t rp_pool_find_before(struct rp_pool *pool, uint64_t bytes, size_t last, size_t most, uint32_t *buffer_out)
{
    const uint64_t *fits = find_fits(pool, bytes);
    size_t longest = 0;

    for (size_t word = 0; word * WORD < pool->count; word++) {
        uint64_t free;
        size_t length = free_back(pool, word, last, most, fits[word], &free);
        if (length == 0 || length < longest)
            continue;
        *buffer_out = smallest(pool, word, free, bytes, length > longest ? RP_NO_SLOT : *buffer_out);
        longest = length;
    }
    return longest;
}
