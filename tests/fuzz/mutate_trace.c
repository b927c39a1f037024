/*
 * How libFuzzer changes a trace: by records, so that what it makes still is a file of blocks of records, with every
 * length right but those it means to be wrong. One time in eight it changes bytes anywhere, as it does by itself.
 *
 * Threads: one.
 */
#include <stdlib.h>
#include <string.h>

#include "core/trace/trace_format.h"
#include "tests/fuzz/trace_file.h"

#define RECORDS 1024u

/* By libFuzzer's interface. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed);
size_t LLVMFuzzerCustomCrossOver(const uint8_t *left, size_t left_size, const uint8_t *right, size_t right_size,
                                 uint8_t *out, size_t most, unsigned seed);

struct file {
    uint8_t *data;
    size_t size, most;
    struct fuzz_record records[RECORDS];
    size_t count;
};

/* `more` bytes at `at` are new, or, if negative, gone; the block at `block` grows or shrinks with them. */
static void resize(struct file *file, size_t at, ptrdiff_t more, size_t block)
{
    uint8_t *bytes = file->data + block + offsetof(struct rp_file_block, bytes);
    uint32_t length;
    size_t from = more < 0 ? at + (size_t)-more : at;
    memmove(file->data + (ptrdiff_t)from + more, file->data + from, file->size - from);
    file->size = (size_t)((ptrdiff_t)file->size + more);
    memcpy(&length, bytes, sizeof(length));
    length = (uint32_t)((ptrdiff_t)length + more);
    memcpy(bytes, &length, sizeof(length));
}

static struct fuzz_record pick(const struct file *file)
{
    return file->records[(size_t)rand() % file->count];
}

static size_t round_up(size_t bytes)
{
    return (bytes + 7) / 8 * 8;
}

/* What is in a record, its length as it was. */
static void change_fields(struct file *file)
{
    struct fuzz_record record = pick(file);
    size_t head = sizeof(struct rp_file_record), body = record.bytes - head;
    if (body > 0)
        LLVMFuzzerMutate(file->data + record.offset + head, body, body);
}

/* One aligned field, as another record has it: keys that join records are rarely found by chance. */
static void copy_field(struct file *file)
{
    struct fuzz_record to = pick(file), from = pick(file);
    size_t bytes = (rand() & 1) != 0 ? 8 : 4;
    if (to.bytes < 16 || from.bytes < 16)
        return;
    size_t to_at = 8 + (size_t)rand() % ((to.bytes - 8) / bytes) * bytes;
    size_t from_at = 8 + (size_t)rand() % ((from.bytes - 8) / bytes) * bytes;
    memmove(file->data + to.offset + to_at, file->data + from.offset + from_at, bytes);
}

static void change_length(struct file *file)
{
    struct fuzz_record record = pick(file);
    uint32_t bytes = (uint32_t)(record.bytes + 8 * (size_t)(1 + rand() % 8));
    if (file->size + 64 > file->most)
        return;
    resize(file, record.offset + record.bytes, (ptrdiff_t)(bytes - record.bytes), record.block);
    memset(file->data + record.offset + record.bytes, 0, bytes - record.bytes);
    memcpy(file->data + record.offset + offsetof(struct rp_file_record, bytes), &bytes, sizeof(bytes));
    LLVMFuzzerMutate(file->data + record.offset + 8, bytes - 8, bytes - 8);
}

static void remove_record(struct file *file)
{
    struct fuzz_record record = pick(file);
    resize(file, record.offset, -(ptrdiff_t)record.bytes, record.block);
}

/* `bytes` of a record, before one of the file's. */
static void insert(struct file *file, const uint8_t *record, size_t bytes)
{
    struct fuzz_record before = pick(file);
    if (bytes != round_up(bytes) || file->size + bytes > file->most)
        return;
    uint8_t *copy = malloc(bytes);
    if (copy == NULL)
        return;
    memcpy(copy, record, bytes);
    resize(file, before.offset, (ptrdiff_t)bytes, before.block);
    memcpy(file->data + before.offset, copy, bytes);
    free(copy);
}

static void copy_record(struct file *file)
{
    struct fuzz_record record = pick(file);
    insert(file, file->data + record.offset, record.bytes);
}

static void change_kind(struct file *file)
{
    uint16_t type = (uint16_t)(rand() % (RP_FILE_ISSUE_USE + 2));
    memcpy(file->data + pick(file).offset, &type, sizeof(type));
}

static void change_header(struct file *file)
{
    size_t from = offsetof(struct rp_file_header, major), to = offsetof(struct rp_file_header, hash);
    LLVMFuzzerMutate(file->data + from, to - from, to - from);
}

static void load(struct file *file, uint8_t *data, size_t size, size_t most)
{
    file->data = data;
    file->size = size;
    file->most = most;
    file->count = fuzz_trace_records(data, size, file->records, RECORDS);
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed)
{
    static void (*const changes[])(struct file *) = {change_fields, copy_field,  copy_field,  change_length,
                                                     remove_record, copy_record, change_kind, change_header};
    static struct file file;
    srand(seed);
    load(&file, data, size, most);
    if (file.count == 0 || rand() % 8 == 0)
        return LLVMFuzzerMutate(data, size, most);
    changes[(size_t)rand() % (sizeof(changes) / sizeof(changes[0]))](&file);
    return file.size;
}

/* The left one with some records of the right one. */
size_t LLVMFuzzerCustomCrossOver(const uint8_t *left, size_t left_size, const uint8_t *right, size_t right_size,
                                 uint8_t *out, size_t most, unsigned seed)
{
    static struct file file;
    static struct fuzz_record others[RECORDS];
    size_t count = fuzz_trace_records(right, right_size, others, RECORDS);
    size_t size = left_size < most ? left_size : most;
    srand(seed);
    memcpy(out, left, size);
    for (int i = rand() % 8; i >= 0 && count > 0; i--) {
        const struct fuzz_record *record = &others[(size_t)rand() % count];
        load(&file, out, size, most);
        if (file.count > 0)
            insert(&file, right + record->offset, record->bytes);
        size = file.size;
    }
    return size;
}
