/*
 * The tracks of a rank's streams: what the host put on each, as instants at the time when it did. A trace knows the
 * order of a stream's work, and no time of the device; so nothing here has a length.
 *
 * Threads: one at a time.
 */
#include <inttypes.h>
#include <stdlib.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "core/tool/export_walk.h"

struct stream {
    UT_hash_handle hh;
    uint64_t handle;
    struct rp_export_track track;
    char name[80];
};

/* NULL: memory is out. A new stream's track is told of. */
static struct stream *find_stream(struct rp_export_walk *walk, struct stream **streams, uint64_t handle)
{
    struct stream *stream;
    HASH_FIND(hh, *streams, &handle, sizeof(handle), stream);
    if (stream != NULL)
        return stream;
    stream = calloc(1, sizeof(*stream));
    if (stream == NULL)
        return NULL;
    stream->handle = handle;
    snprintf(stream->name, sizeof(stream->name), "stream 0x%" PRIx64 " (put on it by the host; no device times)",
             handle);
    stream->track =
        (struct rp_export_track){walk->process, RP_EXPORT_STREAMS, HASH_COUNT(*streams), stream->name, NULL};
    size_t before = HASH_COUNT(*streams);
    HASH_ADD(hh, *streams, handle, sizeof(handle), stream);
    if (HASH_COUNT(*streams) == before) {
        free(stream);
        return NULL;
    }
    walk->export->format->track(walk->export, &stream->track);
    return stream;
}

static void put_instant(const struct rp_export_walk *walk, const struct stream *stream, uint32_t name, uint64_t ticks,
                        const struct rp_export_arguments *arguments)
{
    int64_t at = rp_export_time(walk, ticks);
    walk->export->format->instant(
        walk->export, &(struct rp_export_slice){&stream->track, RP_EXPORT_STREAM, name, at, at, arguments, 0});
}

/* A call that did not reach its stream, or went into a graph, is not on it. */
static bool is_on_stream(const struct rp_op *op)
{
    return !rp_op_kind_is_allocation((enum rp_op_kind)op->kind) &&
           (op->flags & (RP_OP_FAILED | RP_OP_SIMULATED | RP_OP_CAPTURED)) == 0;
}

static enum rp_status put_ops(struct rp_export_walk *walk, struct stream **streams)
{
    for (size_t i = walk->from; i < walk->to; i++) {
        const struct rp_op *op = &walk->trace->ops[i].op;
        struct rp_export_arguments arguments = {0};
        if (!is_on_stream(op))
            continue;
        struct stream *stream = find_stream(walk, streams, op->stream);
        if (stream == NULL)
            return RP_NO_MEMORY;
        rp_export_put_number(&arguments, RP_EXPORT_ARGUMENT_OP, i);
        put_instant(walk, stream, rp_export_name_op(walk->export->names, op), op->begin, &arguments);
    }
    return RP_OK;
}

static enum rp_status put_launches(struct rp_export_walk *walk, struct stream **streams)
{
    char grid[40], block[24];
    for (size_t i = 0; i < walk->trace->launch_count; i++) {
        const struct rp_trace_launch *launch = &walk->trace->launches[i];
        struct rp_export_arguments arguments = {0};
        if (!rp_export_is_shown(walk, launch->ticks))
            continue;
        struct stream *stream = find_stream(walk, streams, launch->stream);
        if (stream == NULL)
            return RP_NO_MEMORY;
        snprintf(grid, sizeof(grid), "%" PRIu32 "x%" PRIu32 "x%" PRIu32, launch->grid[0], launch->grid[1],
                 launch->grid[2]);
        snprintf(block, sizeof(block), "%ux%ux%u", launch->block[0], launch->block[1], launch->block[2]);
        rp_export_put_text(&arguments, RP_EXPORT_ARGUMENT_GRID, grid);
        rp_export_put_text(&arguments, RP_EXPORT_ARGUMENT_BLOCK, block);
        rp_export_put_number(&arguments, RP_EXPORT_ARGUMENT_SHARED_BYTES, launch->shared_bytes);
        put_instant(walk, stream, rp_export_name_kernel(walk->export->names, launch->kernel), launch->ticks,
                    &arguments);
    }
    return RP_OK;
}

enum rp_status rp_export_streams(struct rp_export_walk *walk)
{
    struct stream *streams = NULL, *stream, *next;
    enum rp_status status = put_ops(walk, &streams);
    if (status == RP_OK)
        status = put_launches(walk, &streams);
    HASH_ITER(hh, streams, stream, next)
    {
        HASH_DEL(streams, stream);
        free(stream);
    }
    return status;
}
