/*
 * Buffers of several sizes, and at which entries of a cycle each is in use. Entries go round.
 *
 * A span is cut into the largest blocks that it covers, and marked and looked up by them:
 *
 *   level 0    |0|1|2|3|4|5|6|7|8|9|...     single entries
 *   level 1    |0              |1   ...     8 entries
 *   level 2    |0                   ...     64 entries
 *
 * Each block of each level has a bit for each buffer of each of these, 64 buffers a word:
 *
 *   filled     marked as a whole: in use at all of its entries
 *   touched    marked, or a block in it is: where it is not, nor a block around it filled, the buffer
 *              is in use at none of its entries. Of level 0 it is filled
 *
 * Threads: one at a time.
 */
#ifndef RP_PLAN_POOL_H
#define RP_PLAN_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/status.h"

/* Entries first, first + 1, ... of a cycle; at most all of them. */
struct rp_span {
    size_t first, length;
};

/* Which of the first `count` buffers have at least so many bytes. */
struct rp_pool_fit {
    uint64_t bytes;
    size_t count;
    uint64_t *bits;
};
#define RP_POOL_FITS 16u

#define RP_POOL_LEVELS 3u

struct rp_pool {
    uint64_t *rows;                                             /* `blocks` for each 64 buffers */
    uint64_t *filled[RP_POOL_LEVELS], *touched[RP_POOL_LEVELS]; /* in the first of them, by block */
    uint64_t *bytes;                                            /* of a buffer */
    size_t count, most, words, blocks, cycle;
    uint64_t total; /* bytes of all buffers */

    struct rp_pool_fit fits[RP_POOL_FITS]; /* by a hash of the bytes, which are 0 where there are none */
};

/* For at most `most` buffers. RP_NO_MEMORY: to be freed all the same. */
enum rp_status rp_pool_make(size_t most, size_t cycle, struct rp_pool *pool_out);
void rp_pool_free(struct rp_pool *pool);
void rp_pool_clear(struct rp_pool *pool);

bool rp_pool_is_free(const struct rp_pool *pool, size_t buffer, struct rp_span span);
void rp_pool_take(struct rp_pool *pool, size_t buffer, struct rp_span span);

/* At how many entries in a row, the last one `last`, the buffer is free; counted up to `most`. */
size_t rp_pool_free_before(const struct rp_pool *pool, size_t buffer, size_t last, size_t most);

/* The buffer of at least so many bytes for which that is the most; of those the smallest. 0: there is none. */
size_t rp_pool_find_before(struct rp_pool *pool, uint64_t bytes, size_t last, size_t most, uint32_t *buffer_out);

/* The smallest buffer of at least so many bytes that is free there; RP_NO_SLOT: none. */
uint32_t rp_pool_find(struct rp_pool *pool, uint64_t bytes, struct rp_span span);

/* One more, of so many bytes, in use nowhere. RP_NO_SLOT: there are `most`. */
uint32_t rp_pool_grow(struct rp_pool *pool, uint64_t bytes);

#endif
