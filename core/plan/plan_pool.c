/*
 * Buffers as bits. plan_pool.h has the job and the threads.
 */
#include "core/plan/plan_pool.h"

#include <stdlib.h>
#include <string.h>

#include "core/plan/plan.h"

#define WORD 64u
#define LEVEL_BITS 3u /* a block has so many of the level below, as a power of 2 */

static size_t blocks_of(size_t cycle, unsigned level)
{
    return (cycle >> LEVEL_BITS * level) + 1;
}

static void place_rows(struct rp_pool *pool)
{
    uint64_t *rows = pool->rows;

    for (unsigned level = 0; level < RP_POOL_LEVELS; level++) {
        size_t blocks = blocks_of(pool->cycle, level);
        pool->filled[level] = rows;
        pool->touched[level] = level == 0 ? rows : rows + blocks;
        rows += level == 0 ? blocks : 2 * blocks;
    }
}

enum rp_status rp_pool_make(size_t most, size_t cycle, struct rp_pool *pool_out)
{
    struct rp_pool pool = {.most = most, .cycle = cycle, .words = most / WORD + 1};

    for (unsigned level = 0; level < RP_POOL_LEVELS; level++)
        pool.blocks += blocks_of(cycle, level) * (level == 0 ? 1 : 2);
    pool.rows = calloc(pool.blocks * pool.words, sizeof(*pool.rows));
    pool.bytes = calloc(most + 1, sizeof(*pool.bytes));
    bool made = pool.rows != NULL && pool.bytes != NULL;
    if (made)
        place_rows(&pool);
    for (size_t i = 0; i < RP_POOL_FITS; i++) {
        pool.fits[i].bits = calloc(pool.words, sizeof(*pool.fits[i].bits));
        made &= pool.fits[i].bits != NULL;
    }
    *pool_out = pool;
    return made ? RP_OK : RP_NO_MEMORY;
}

void rp_pool_free(struct rp_pool *pool)
{
    free(pool->rows);
    free(pool->bytes);
    for (size_t i = 0; i < RP_POOL_FITS; i++)
        free(pool->fits[i].bits);
}

void rp_pool_clear(struct rp_pool *pool)
{
    size_t words = (pool->count + WORD - 1) / WORD;

    if (words > 0)
        memset(pool->rows, 0, pool->blocks * words * sizeof(*pool->rows));
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

#define BLOCK ((size_t)1 << LEVEL_BITS)

/* Of the blocks [first, end) of a level, those that make no whole block of the one above: [first, left), [right, end).
 */
struct cut {
    size_t left, right;
};

static struct cut cut_at(unsigned level, size_t first, size_t end)
{
    if (level + 1 == RP_POOL_LEVELS)
        return (struct cut){.left = end, .right = end};
    size_t left = (first + BLOCK - 1) / BLOCK * BLOCK, right = end / BLOCK * BLOCK;
    return left < right ? (struct cut){.left = left, .right = right} : (struct cut){.left = end, .right = end};
}

static uint64_t *word_of(const struct rp_pool *pool, uint64_t *rows, size_t block, size_t word)
{
    return &rows[word * pool->blocks + block];
}

/* Those in use at an entry because a block that it is in is marked. */
static uint64_t filled_above(const struct rp_pool *pool, size_t word, size_t entry)
{
    uint64_t filled = 0;

    for (unsigned level = 1; level < RP_POOL_LEVELS; level++)
        filled |= *word_of(pool, pool->filled[level], entry >> LEVEL_BITS * level, word);
    return filled;
}

static uint64_t touched_in(const struct rp_pool *pool, size_t word, unsigned level, size_t first, size_t end)
{
    uint64_t touched = 0;

    for (size_t block = first; block < end; block++)
        touched |= *word_of(pool, pool->touched[level], block, word);
    return touched;
}

/* Of `free`, those in use nowhere in [first, end), which has an entry. */
static uint64_t free_in(const struct rp_pool *pool, size_t word, size_t first, size_t end, uint64_t free)
{
    free &= ~(filled_above(pool, word, first) | filled_above(pool, word, end - 1));
    for (unsigned level = 0; first < end && free != 0; level++) {
        struct cut cut = cut_at(level, first, end);
        free &= ~touched_in(pool, word, level, first, cut.left);
        free &= ~touched_in(pool, word, level, cut.right, end);
        first = cut.left >> LEVEL_BITS;
        end = cut.right >> LEVEL_BITS;
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
        uint64_t left = free & ~(*word_of(pool, pool->touched[0], at, word) | filled_above(pool, word, at));
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

static void mark(const struct rp_pool *pool, uint64_t *rows, size_t buffer, size_t first, size_t end)
{
    for (size_t block = first; block < end; block++)
        *word_of(pool, rows, block, buffer / WORD) |= UINT64_C(1) << buffer % WORD;
}

/* Blocks inside of one that is filled need not say so too. */
static void take(struct rp_pool *pool, size_t buffer, size_t first, size_t end)
{
    size_t last = end - 1;

    for (unsigned level = 1; level < RP_POOL_LEVELS; level++) {
        size_t left = first >> LEVEL_BITS * level, right = last >> LEVEL_BITS * level;
        mark(pool, pool->touched[level], buffer, left, left + 1);
        mark(pool, pool->touched[level], buffer, right, right + 1);
    }
    for (unsigned level = 0; first < end; level++) {
        struct cut cut = cut_at(level, first, end);
        mark(pool, pool->filled[level], buffer, first, cut.left);
        mark(pool, pool->filled[level], buffer, cut.right, end);
        mark(pool, pool->touched[level], buffer, first, cut.left);
        mark(pool, pool->touched[level], buffer, cut.right, end);
        first = cut.left >> LEVEL_BITS;
        end = cut.right >> LEVEL_BITS;
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

/* Where the fits of a size are, or are to be: by its hash, or behind that if another size is there. */
static struct rp_pool_fit *fit_of(struct rp_pool *pool, uint64_t bytes)
{
    size_t at = bytes * UINT64_C(0x9e3779b97f4a7c15) >> 32;

    for (size_t i = 0; i < RP_POOL_FITS; i++) {
        struct rp_pool_fit *fit = &pool->fits[(at + i) % RP_POOL_FITS];
        if (fit->bytes == bytes || fit->bytes == 0)
            return fit;
    }
    return &pool->fits[at % RP_POOL_FITS];
}

static const uint64_t *find_fits(struct rp_pool *pool, uint64_t bytes)
{
    struct rp_pool_fit *fit = fit_of(pool, bytes);

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
