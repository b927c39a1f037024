/*
 * The trace reader: header, blocks, and what is missing at the end. A file is read block by block, never mapped: it
 * may still be written to, or be cut while it is read.
 *
 * A block that is not all there ends a good trace that is not complete. A block that is there and wrong is an error:
 * what its hash does not vouch for is not looked at.
 *
 * Threads: one at a time a trace.
 */
#include "core/trace/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "core/log.h"
#include "core/trace/trace_parse.h"

struct reader {
    const char *path;
    int descriptor;
    uint64_t offset; /* of the next byte */
    uint64_t most;   /* blocks that begin at it or behind it are left out */
    uint32_t blocks; /* read */
    char *cause;     /* an error's, instead of a line; NULL: it is logged */
    size_t cause_size;
    unsigned char *payload; /* RP_BLOCK_PAYLOAD_MAX bytes */
    struct rp_trace_parse parse;
};

static enum rp_status say(const struct reader *reader, enum rp_status status, uint64_t offset, const char *cause)
{
    if (reader->cause != NULL)
        snprintf(reader->cause, reader->cause_size, "byte %" PRIu64 ": %s", offset, cause);
    else
        rp_log(RP_LOG_ERROR, "trace", "%s: byte %" PRIu64 ": %s", reader->path, offset, cause);
    return status;
}

/* Of the file as a whole. */
static enum rp_status say_file(const struct reader *reader, enum rp_status status, const char *cause)
{
    if (reader->cause != NULL)
        snprintf(reader->cause, reader->cause_size, "%s", cause);
    else
        rp_log(RP_LOG_ERROR, "trace", "%s: %s", reader->path, cause);
    return status;
}

/* As many of `bytes` as there are. RP_IO is said. */
static enum rp_status read_bytes(struct reader *reader, void *to, size_t bytes, size_t *read_out)
{
    size_t done = 0;
    while (done < bytes) {
        ssize_t got = read(reader->descriptor, (char *)to + done, bytes - done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return say(reader, RP_IO, reader->offset + done, strerrordesc_np(errno));
        if (got == 0)
            break;
        done += (size_t)got;
    }
    *read_out = done;
    return RP_OK;
}

/* ---------------------------------------------------------------- header */

static enum rp_status say_version(const struct reader *reader, const struct rp_file_header *header)
{
    char cause[160];
    snprintf(cause, sizeof cause,
             "the trace has another version, %u.%u, than this reprise, which reads %u.x; read it with the reprise that "
             "wrote it",
             header->major, header->minor, RP_TRACE_VERSION);
    return say(reader, RP_VERSION, offsetof(struct rp_file_header, major), cause);
}

static enum rp_status check_header(const struct reader *reader, const struct rp_file_header *header)
{
    if (memcmp(header->magic, RP_FILE_MAGIC, sizeof header->magic) != 0)
        return say(reader, RP_CORRUPT, 0, "not a trace");
    if (header->byte_order == __builtin_bswap32(RP_FILE_BYTE_ORDER))
        return say(reader, RP_CORRUPT, offsetof(struct rp_file_header, byte_order),
                   "written on a machine of the other byte order");
    if (header->byte_order != RP_FILE_BYTE_ORDER)
        return say(reader, RP_CORRUPT, offsetof(struct rp_file_header, byte_order), "the byte order mark is wrong");
    if (header->major != RP_TRACE_VERSION)
        return say_version(reader, header);
    if (header->hash != XXH64(header, offsetof(struct rp_file_header, hash), 0))
        return say(reader, RP_CORRUPT, 0, "the hash of the header is wrong");
    if (header->header_bytes < sizeof *header || header->header_bytes % 8 != 0)
        return say(reader, RP_CORRUPT, offsetof(struct rp_file_header, header_bytes),
                   "the length of the header is out of range");
    return RP_OK;
}

static enum rp_status read_header(struct reader *reader)
{
    struct rp_file_header header;
    size_t got;
    enum rp_status status = read_bytes(reader, &header, sizeof header, &got);
    if (status != RP_OK)
        return status;
    if (got < sizeof header)
        return say(reader, RP_TRUNCATED, got, "the file ends inside its header");
    status = check_header(reader, &header);
    if (status != RP_OK)
        return status;
    if (lseek(reader->descriptor, header.header_bytes, SEEK_SET) < 0)
        return say(reader, RP_IO, 0, strerrordesc_np(errno));
    reader->offset = header.header_bytes;
    struct rp_trace_identity *identity = &reader->parse.trace->identity;
    identity->rank = header.rank;
    identity->nranks = header.nranks;
    identity->pid = header.pid;
    identity->start_wall_ns = header.start_wall_ns;
    identity->start_ticks = header.start_ticks;
    return RP_OK;
}

/* ---------------------------------------------------------------- blocks */

static enum rp_status check_block(const struct reader *reader, const struct rp_file_block *head)
{
    const char *cause = NULL;
    if (head->magic != RP_BLOCK_MAGIC)
        cause = "no block begins here";
    else if (head->check != (uint32_t)XXH64(head, offsetof(struct rp_file_block, check), 0))
        cause = "the header of a block is damaged";
    else if (head->bytes > RP_BLOCK_PAYLOAD_MAX || head->bytes % 8 != 0)
        cause = "the length of a block is out of range";
    else if (head->number != reader->blocks)
        cause = "a block is missing or out of its place";
    return cause == NULL ? RP_OK : say(reader, RP_CORRUPT, reader->offset, cause);
}

static enum rp_status take_payload(struct reader *reader, const struct rp_file_block *head)
{
    if (XXH64(reader->payload, head->bytes, 0) != head->hash)
        return say(reader, RP_CORRUPT, reader->offset, "the hash of a block is wrong");
    size_t at = 0;
    const char *cause = "";
    enum rp_status status = rp_trace_parse_block(&reader->parse, reader->payload, head->bytes, &at, &cause);
    if (status == RP_CORRUPT)
        return say(reader, status, reader->offset + sizeof *head + at, cause);
    if (status != RP_OK)
        return say(reader, status, reader->offset, rp_status_text(status));
    reader->offset += sizeof *head + head->bytes;
    reader->blocks++;
    return RP_OK;
}

/* RP_TRUNCATED, not said: there is no whole block any more. `dropped_bytes` is then set. */
static enum rp_status read_block(struct reader *reader)
{
    struct rp_file_block head;
    size_t got_head, got_payload;
    enum rp_status status = read_bytes(reader, &head, sizeof head, &got_head);
    if (status != RP_OK)
        return status;
    if (got_head < sizeof head) {
        reader->parse.trace->dropped_bytes = got_head;
        return RP_TRUNCATED;
    }
    status = check_block(reader, &head);
    if (status != RP_OK)
        return status;
    status = read_bytes(reader, reader->payload, head.bytes, &got_payload);
    if (status != RP_OK)
        return status;
    if (got_payload < head.bytes) {
        reader->parse.trace->dropped_bytes = got_head + got_payload;
        return RP_TRUNCATED;
    }
    return take_payload(reader, &head);
}

/* ---------------------------------------------------------------- a file */

static enum rp_status read_open_file(struct reader *reader)
{
    enum rp_status status = read_header(reader);
    while (status == RP_OK && reader->offset < reader->most)
        status = read_block(reader);
    if ((status != RP_OK && status != RP_TRUNCATED) || reader->offset == 0)
        return status;
    status = rp_trace_parse_finish(&reader->parse);
    return status == RP_OK ? RP_OK : say(reader, status, reader->offset, rp_status_text(status));
}

static enum rp_status open_trace(struct reader *reader)
{
    char cause[120];
    struct stat info;
    reader->descriptor = open(reader->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* no wait for a pipe's writer */
    if (reader->descriptor < 0 || fstat(reader->descriptor, &info) != 0) {
        enum rp_status status = errno == ENOENT && reader->cause != NULL ? RP_NOT_FOUND : RP_IO;
        snprintf(cause, sizeof cause, "cannot be opened: %s", strerrordesc_np(errno));
        return say_file(reader, status, cause);
    }
    return S_ISREG(info.st_mode) ? RP_OK : say_file(reader, RP_IO, "not a regular file");
}

static enum rp_status make_tables(struct reader *reader)
{
    struct rp_trace_parse *parse = &reader->parse;
    reader->payload = malloc(RP_BLOCK_PAYLOAD_MAX);
    parse->last_op = calloc(RP_THREAD_MAX + 1, sizeof *parse->last_op);
    parse->last_call = calloc(RP_THREAD_MAX + 1, sizeof *parse->last_call);
    parse->last_stretch = calloc(RP_THREAD_MAX + 1, sizeof *parse->last_stretch);
    parse->trace = calloc(1, sizeof *parse->trace);
    bool made = reader->payload != NULL && parse->last_op != NULL && parse->last_call != NULL &&
                parse->last_stretch != NULL && parse->trace != NULL &&
                rp_modules_create(&parse->trace->modules) == RP_OK;
    return made ? RP_OK : say(reader, RP_NO_MEMORY, 0, rp_status_text(RP_NO_MEMORY));
}

static enum rp_status read_trace(struct reader *reader, struct rp_trace **trace_out)
{
    reader->descriptor = -1;
    enum rp_status status = open_trace(reader);
    if (status == RP_OK)
        status = make_tables(reader);
    if (status == RP_OK)
        status = read_open_file(reader);
    if (status == RP_OK)
        *trace_out = reader->parse.trace;
    else
        rp_trace_free(reader->parse.trace);
    rp_trace_parse_free(&reader->parse);
    free(reader->payload);
    if (reader->descriptor >= 0)
        close(reader->descriptor);
    return status;
}

enum rp_status rp_trace_read(const char *file, struct rp_trace **trace_out)
{
    struct reader reader = {.path = file, .most = UINT64_MAX};
    return read_trace(&reader, trace_out);
}

/* Logged, and left in `reader->cause`. */
static enum rp_status read_and_say(struct reader *reader, struct rp_trace **trace_out)
{
    enum rp_status status = read_trace(reader, trace_out);
    if (status != RP_OK)
        rp_log(RP_LOG_ERROR, "trace", "%s: %s", reader->path, reader->cause);
    return status == RP_NOT_FOUND ? RP_IO : status; /* it was there when it was listed */
}

enum rp_status rp_trace_read_cause(const char *file, char *cause, size_t size, struct rp_trace **trace_out)
{
    struct reader reader = {.path = file, .most = UINT64_MAX, .cause = cause, .cause_size = size};
    return read_and_say(&reader, trace_out);
}

enum rp_status rp_trace_read_lean(const char *file, char *cause, size_t size, struct rp_trace **trace_out)
{
    struct reader reader = {.path = file, .most = UINT64_MAX, .cause = cause, .cause_size = size, .parse.lean = true};
    return read_and_say(&reader, trace_out);
}

enum rp_status rp_trace_read_head(const char *file, uint64_t most, char *cause, size_t size,
                                  struct rp_trace **trace_out)
{
    struct reader reader = {.path = file, .most = most, .cause = cause, .cause_size = size};
    return read_trace(&reader, trace_out);
}

void rp_trace_free(struct rp_trace *trace)
{
    if (trace == NULL)
        return;
    for (size_t i = 0; i < trace->state_count; i++)
        free(trace->states[i].text);
    free(trace->states);
    for (size_t i = 0; i < trace->site_count; i++)
        free((char *)trace->sites[i].text);
    free(trace->sites);
    for (size_t i = 0; i < trace->kernel_count; i++)
        free(trace->kernels[i].name);
    free(trace->kernels);
    free(trace->parts);
    free(trace->launches);
    free(trace->issues);
    free(trace->used);
    free(trace->ops);
    free(trace->comms);
    if (trace->modules != NULL)
        rp_modules_destroy(trace->modules);
    free(trace);
}

const struct rp_trace_comm *rp_trace_find_comm(const struct rp_trace *trace, uint32_t number)
{
    size_t low = 0, high = trace->comm_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (trace->comms[middle].number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low < trace->comm_count && trace->comms[low].number == number ? &trace->comms[low] : NULL;
}

double rp_trace_ns(const struct rp_trace *trace, uint64_t ticks)
{
    return (double)(int64_t)(ticks - trace->identity.start_ticks) * trace->ns_per_tick;
}
