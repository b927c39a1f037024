/*
 * What buffers hold: every byte is a function of a few numbers, so that what a collective must deliver is known without
 * another run.
 *
 * Threads: any; pure functions.
 */
#ifndef CHAOS_CONTENT_H
#define CHAOS_CONTENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CHAOS_CONTENT_MAX 65536 /* bytes of one content */

#define CHAOS_KEY_ZEROS 0u            /* zeros in every version: only `minor` changes them */
#define CHAOS_KEY_WEIGHTS 0x40000000u /* bfloat16 numbers as weights are, which have a packed form */
#define CHAOS_KEY_ALIKE 0x80000000u   /* the same on all ranks, as of layers that are made of ones */

/* `major` changes every byte, `minor` changes one byte; `scribbled`: the lowest bit of the first byte is flipped. */
struct chaos_content {
    uint32_t key;
    uint32_t major;
    uint32_t minor;
    bool scribbled;
};

void chaos_content_write(void *to, size_t bytes, const struct chaos_content *content, int rank);

/* Index of the first byte that differs; `bytes` if none does. `bytes` is at most CHAOS_CONTENT_MAX. */
size_t chaos_content_differs(const void *got, size_t bytes, const struct chaos_content *content, int rank);

/* What a rank puts into a reduction: small integers, so that sums are exact in any order. */
int32_t chaos_value(uint32_t serial, int rank, size_t index);

#endif
