/*
 * The trace writer. Records are put into a block in memory; a full or flushed block goes to the file with one
 * write(2), so a killed process leaves whole blocks and at most one cut short.
 *
 * States: SPOOLING (no file yet) -> WRITING -> BROKEN. A broken writer says so once, cuts the file back to its last
 * whole block and does nothing more.
 *
 * Threads: one at a time; in the recorder the background thread, where all signals are blocked (SIGXFSZ).
 */
#include "core/trace/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "core/log.h"
#include "core/own_file.h"
#include "core/trace/run_directory.h"
#include "core/trace/trace_format.h"
#include "core/trace/trace_writer.h"

#define BLOCK_BYTES (64u * 1024u) /* with its header; the longest record is far shorter */

_Static_assert(BLOCK_BYTES <= RP_BLOCK_PAYLOAD_MAX, "a reader takes every block of ours");

struct block {
    struct block *next;
    size_t used; /* bytes, from the header on */
    _Alignas(8) unsigned char bytes[BLOCK_BYTES];
};

enum writer_state { SPOOLING, WRITING, BROKEN };

struct rp_trace_writer {
    enum writer_state state;
    struct block *block;            /* being filled */
    struct block *held, **held_end; /* full ones, while spooling */
    size_t held_bytes, limit;
    struct rp_own_file file;
    uint64_t offset; /* end of the last whole block in the file */
    uint32_t blocks; /* written */
    int32_t rank;
    char directory[RP_RUN_PATH_MAX];
    char path[PATH_MAX];
};

/* Cuts the file back to its last whole block; one that has not even a header goes. */
static void cut_back(struct rp_trace_writer *writer)
{
    if (!rp_own_file_valid(&writer->file))
        return;
    int result = writer->offset == 0 ? unlink(writer->path) : ftruncate(writer->file.descriptor, (off_t)writer->offset);
    if (result != 0)
        rp_log(RP_LOG_DEBUG, "trace", "%s: the block cut short stays", writer->path);
}

/* Where one rank cannot write, all often cannot: who is first says it. */
static enum rp_status writer_break(struct rp_trace_writer *writer, const char *what)
{
    int cause = errno;
    bool first = rp_run_directory_mark(writer->directory, writer->rank, strerrordesc_np(cause));
    rp_log(first ? RP_LOG_ERROR : RP_LOG_DEBUG, "trace", "%s: %s: %s; recording ends", writer->path, what,
           strerrordesc_np(cause));
    writer->state = BROKEN;
    cut_back(writer);
    errno = cause;
    return RP_IO;
}

static enum rp_status write_block(struct rp_trace_writer *writer, struct block *block)
{
    struct rp_file_block head = {.magic = RP_BLOCK_MAGIC};
    head.bytes = (uint32_t)(block->used - sizeof head);
    head.hash = XXH64(block->bytes + sizeof head, head.bytes, 0);
    head.number = writer->blocks;
    head.check = (uint32_t)XXH64(&head, offsetof(struct rp_file_block, check), 0);
    memcpy(block->bytes, &head, sizeof head);
    if (rp_own_file_write(&writer->file, block->bytes, block->used) != RP_OK)
        return writer_break(writer, "write failed");
    writer->offset += block->used;
    writer->blocks++;
    block->used = sizeof head;
    return RP_OK;
}

static struct block *block_make(void)
{
    struct block *block = malloc(sizeof *block);
    if (block != NULL) {
        block->next = NULL;
        block->used = sizeof(struct rp_file_block);
    }
    return block;
}

/* Puts the full block aside and begins another. */
static enum rp_status hold_block(struct rp_trace_writer *writer)
{
    struct block *fresh = block_make();
    if (fresh == NULL)
        return RP_NO_MEMORY;
    *writer->held_end = writer->block;
    writer->held_end = &writer->block->next;
    writer->held_bytes += BLOCK_BYTES;
    writer->block = fresh;
    return RP_OK;
}

static void free_held(struct rp_trace_writer *writer)
{
    while (writer->held != NULL) {
        struct block *next = writer->held->next;
        free(writer->held);
        writer->held = next;
    }
    writer->held_end = &writer->held;
    writer->held_bytes = 0;
}

static bool may_be_refused(enum rp_file_record_type type)
{
    return type == RP_FILE_OP || type == RP_FILE_LAUNCHES || type == RP_FILE_LAUNCH || type == RP_FILE_FINGERPRINT ||
           type == RP_FILE_LOSS || type == RP_FILE_SITE_COUNT || type == RP_FILE_ISSUE || type == RP_FILE_ISSUE_USE;
}

void *rp_trace_reserve(struct rp_trace_writer *writer, enum rp_file_record_type type, size_t bytes,
                       enum rp_status *status_out)
{
    bytes = (bytes + 7) & ~(size_t)7;
    *status_out = RP_OK;
    if (writer->state == BROKEN)
        *status_out = RP_IO;
    else if (writer->state == SPOOLING && writer->held_bytes >= writer->limit && may_be_refused(type))
        *status_out = RP_FULL;
    else if (writer->block->used + bytes > BLOCK_BYTES)
        *status_out = writer->state == SPOOLING ? hold_block(writer) : write_block(writer, writer->block);
    if (*status_out != RP_OK)
        return NULL;
    struct rp_file_record *record = (void *)(writer->block->bytes + writer->block->used);
    memset(record, 0, bytes);
    record->type = (uint16_t)type;
    record->bytes = (uint32_t)bytes;
    writer->block->used += bytes;
    return record;
}

/* ---------------------------------------------------------------- life */

enum rp_status rp_trace_spool_create(size_t limit, struct rp_trace_writer **writer_out)
{
    struct rp_trace_writer *writer = calloc(1, sizeof *writer);
    struct block *block = block_make();
    if (writer == NULL || block == NULL) {
        free(writer);
        free(block);
        return RP_NO_MEMORY;
    }
    writer->state = SPOOLING;
    writer->block = block;
    writer->held_end = &writer->held;
    writer->limit = limit;
    writer->file = RP_OWN_FILE_NONE;
    *writer_out = writer;
    return RP_OK;
}

static enum rp_status write_header(struct rp_trace_writer *writer, const struct rp_trace_identity *identity)
{
    struct rp_file_header header = {
        .major = RP_TRACE_VERSION,
        .minor = RP_FILE_MINOR,
        .header_bytes = sizeof header,
        .byte_order = RP_FILE_BYTE_ORDER,
        .rank = identity->rank,
        .nranks = identity->nranks,
        .pid = identity->pid,
        .start_wall_ns = identity->start_wall_ns,
        .start_ticks = identity->start_ticks,
    };
    memcpy(header.magic, RP_FILE_MAGIC, sizeof header.magic);
    header.hash = XXH64(&header, offsetof(struct rp_file_header, hash), 0);
    if (rp_own_file_write(&writer->file, &header, sizeof header) != RP_OK)
        return writer_break(writer, "write failed");
    writer->offset = sizeof header;
    return RP_OK;
}

/* The PROCESS record goes first, in a block of its own, whatever was put before. */
static enum rp_status write_process(struct rp_trace_writer *writer, const struct rp_trace_identity *identity)
{
    struct block *held_back = writer->block;
    struct block *block = block_make();
    if (block == NULL)
        return writer_break(writer, "write failed");
    writer->block = block;
    enum rp_status status;
    struct rp_file_process *process = rp_trace_reserve(writer, RP_FILE_PROCESS, sizeof *process, &status);
    if (process != NULL) {
        process->ticks_per_second = identity->ticks_per_second;
        memcpy(process->host, identity->host, sizeof process->host - 1);
        memcpy(process->program, identity->program, sizeof process->program - 1);
        status = write_block(writer, block);
    }
    writer->block = held_back;
    free(block);
    return status;
}

static enum rp_status write_held(struct rp_trace_writer *writer)
{
    for (struct block *block = writer->held; block != NULL; block = block->next) {
        enum rp_status status = write_block(writer, block);
        if (status != RP_OK)
            return status;
    }
    free_held(writer);
    return RP_OK;
}

static enum rp_status open_file(struct rp_trace_writer *writer, const char *directory, int32_t rank)
{
    writer->rank = rank;
    snprintf(writer->directory, sizeof writer->directory, "%s", directory);
    int length = snprintf(writer->path, sizeof writer->path, "%s/rank-%d.rpt", directory, rank);
    if (length < 0 || (size_t)length >= sizeof writer->path) {
        errno = ENAMETOOLONG;
        return writer_break(writer, "cannot be made");
    }
    enum rp_status status = rp_own_file_open(writer->path, O_CREAT | O_EXCL, &writer->file);
    if (status != RP_OK)
        writer_break(writer, "cannot be made");
    return status;
}

enum rp_status rp_trace_spool_attach(struct rp_trace_writer *writer, const char *directory,
                                     const struct rp_trace_identity *identity)
{
    enum rp_status status = open_file(writer, directory, identity->rank);
    if (status != RP_OK)
        return status;
    writer->state = WRITING;
    status = write_header(writer, identity);
    if (status == RP_OK)
        status = write_process(writer, identity);
    if (status == RP_OK)
        status = write_held(writer);
    return status;
}

static void writer_free(struct rp_trace_writer *writer)
{
    rp_own_file_close(&writer->file);
    free_held(writer);
    free(writer->block);
    free(writer);
}

enum rp_status rp_trace_flush(struct rp_trace_writer *writer)
{
    if (writer->state == BROKEN)
        return RP_IO;
    if (writer->state == SPOOLING || rp_trace_pending(writer) == 0)
        return RP_OK;
    return write_block(writer, writer->block);
}

size_t rp_trace_pending(const struct rp_trace_writer *writer)
{
    if (writer->state == BROKEN)
        return 0;
    size_t in_block = writer->block->used - sizeof(struct rp_file_block);
    return writer->held_bytes + (in_block > 0 ? writer->block->used : 0);
}

enum rp_status rp_trace_finish(struct rp_trace_writer *writer)
{
    if (writer == NULL)
        return RP_OK;
    enum rp_status status = RP_IO;
    if (writer->state == WRITING) {
        if (rp_trace_reserve(writer, RP_FILE_END, sizeof(struct rp_file_record), &status) != NULL)
            status = rp_trace_flush(writer);
    }
    writer_free(writer);
    return status;
}

void rp_trace_abandon(struct rp_trace_writer *writer)
{
    if (writer != NULL)
        rp_own_file_close(&writer->file);
}
