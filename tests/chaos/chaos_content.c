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

void chaos_content_write(void *to, size_t bytes, const struct chaos_content *content, int rank)
{
    unsigned char *out = to;
    uint64_t start = start_of(content, rank);
    for (size_t at = 0; at < bytes; at += sizeof start) {
        uint64_t word = content->key == CHAOS_KEY_ZEROS ? 0 : chaos_mix(start + at);
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
