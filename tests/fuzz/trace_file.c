#include "tests/fuzz/trace_file.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "core/trace/trace_format.h"

/* The head of the block at `at`. 0: there is none. */
static int read_block(const unsigned char *file, size_t size, size_t at, struct rp_file_block *block_out)
{
    if (at > size || size - at < sizeof(*block_out))
        return 0;
    memcpy(block_out, file + at, sizeof(*block_out));
    return block_out->magic == RP_BLOCK_MAGIC;
}

static int is_whole(size_t size, size_t at, const struct rp_file_block *block)
{
    return block->bytes <= size - at - sizeof(*block);
}

static size_t first_block(const unsigned char *file, size_t size)
{
    struct rp_file_header header;
    if (size < sizeof(header))
        return size;
    memcpy(&header, file, sizeof(header));
    return header.header_bytes;
}

void fuzz_trace_seal(unsigned char *file, size_t size)
{
    struct rp_file_block block;
    const size_t hash_at = offsetof(struct rp_file_header, hash);
    if (size < sizeof(struct rp_file_header))
        return;
    const uint64_t hash = XXH64(file, hash_at, 0);
    memcpy(file + hash_at, &hash, sizeof(hash));
    uint32_t number = 0;
    for (size_t at = first_block(file, size); read_block(file, size, at, &block); at += sizeof(block) + block.bytes) {
        block.number = number++;
        if (is_whole(size, at, &block))
            block.hash = XXH64(file + at + sizeof(block), block.bytes, 0);
        block.check = (uint32_t)XXH64(&block, offsetof(struct rp_file_block, check), 0);
        memcpy(file + at, &block, sizeof(block));
        if (!is_whole(size, at, &block))
            return;
    }
}

size_t fuzz_trace_records(const unsigned char *file, size_t size, struct fuzz_record *records, size_t room)
{
    struct rp_file_block block;
    size_t count = 0;
    for (size_t at = first_block(file, size); read_block(file, size, at, &block) && is_whole(size, at, &block);
         at += sizeof(block) + block.bytes) {
        struct rp_file_record record;
        size_t end = at + sizeof(block) + block.bytes;
        for (size_t from = at + sizeof(block); end - from >= sizeof(record); from += record.bytes) {
            memcpy(&record, file + from, sizeof(record));
            if (count == room || record.bytes < sizeof(record) || record.bytes > end - from)
                return count;
            records[count++] = (struct fuzz_record){from, record.bytes, at};
        }
    }
    return count;
}
