/*
 * Contents: words of a counter, mixed; then single bytes changed.
 */
#include "tests/chaos/chaos_content.h"

#include "tests/chaos/chaos_random.h"

#include <string.h>

static uint64_t start_of(const struct chaos_content *content, int rank)
{
    uint64_t who = content->key & CHAOS_KEY_ALIKE ? 0 : (uint64_t)rank + 1;
    return chaos_mix((uint64_t)content->key << 32 | content->major) + chaos_mix(who << 8);
}

/* Four of them: half near 1/64, each smaller exponent half as often. */
static uint64_t weights_of(uint64_t bits)
{
    uint64_t word = 0;
    for (int i = 0; i < 4; i++) {
        uint64_t half = bits >> (16 * i) & 0xffffu,
                 exponent = 121 - (uint64_t)__builtin_ctzll(chaos_mix(bits + (uint64_t)i) | 1u << 13);
        word |= ((half & 0x807fu) | exponent << 7) << (16 * i);
    }
    return word;
}

static uint64_t word_of(const struct chaos_content *content, uint64_t counter)
{
    if (content->key == CHAOS_KEY_ZEROS)
        return 0;
    uint64_t bits = chaos_mix(counter);
    return content->key & CHAOS_KEY_WEIGHTS ? weights_of(bits) : bits;
}

void chaos_content_write(void *to, size_t bytes, const struct chaos_content *content, int rank)
{
    unsigned char *out = to;
    uint64_t start = start_of(content, rank);
    for (size_t at = 0; at < bytes; at += sizeof start) {
        uint64_t word = word_of(content, start + at);
        memcpy(out + at, &word, bytes - at < sizeof word ? bytes - at : sizeof word);
    }
    if (content->minor && bytes > 0) {
        uint64_t where = chaos_mix((uint64_t)content->minor << 32 | content->key);
        out[where % bytes] ^= (unsigned char)(1 + content->minor % 255);
    }
    if (content->scribbled && bytes > 0)
        out[0] ^= 1;
}

size_t chaos_content_differs(const void *got, size_t bytes, const struct chaos_content *content, int rank)
{
    unsigned char expected[CHAOS_CONTENT_MAX];
    chaos_content_write(expected, bytes, content, rank);
    if (bytes == 0 || memcmp(got, expected, bytes) == 0)
        return bytes;
    size_t at = 0;
    while (((const unsigned char *)got)[at] == expected[at])
        at++;
    return at;
}

int32_t chaos_value(uint32_t serial, int rank, size_t index)
{
    uint64_t word = chaos_mix(chaos_mix((uint64_t)serial << 8 | (uint64_t)rank) + index);
    return (int32_t)(word % 33) - 16;
}
