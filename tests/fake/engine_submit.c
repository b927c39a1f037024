/*
 * Issuing work, and waiting for streams. All ordering that the CUDA model adds to the queues is decided here, at
 * issue: the legacy stream waits for the blocking streams of its device and they wait for it (CUDA Runtime API,
 * "Stream synchronization behavior"), chains, joins.
 */
#include "engine_internal.h"

#include <stdlib.h>

struct fake_issue {
    const struct fake_work *work;
    const struct CUgraph_st *graph; /* whose nodes `work` runs, or NULL */
    struct fake_mark **mark_out;    /* or NULL */
};

void fake_work_release(const struct fake_work *work)
{
    if (work->release)
        work->release(work->payload);
    fake_chain_drop(work->chain);
}

static bool blocking(const struct CUstream_st *stream)
{
    return stream->kind != FAKE_STREAM_LEGACY && !(stream->flags & cudaStreamNonBlocking);
}

/* What the default stream's rules add for new work on `stream`. */
static void legacy_waits(const struct CUstream_st *stream, struct fake_waits *waits)
{
    bool legacy = stream->kind == FAKE_STREAM_LEGACY;
    if (!legacy && !blocking(stream))
        return;
    for (struct CUstream_st *other = fake_streams; other; other = other->next)
        if (other->device == stream->device && (legacy ? blocking(other) : other->kind == FAKE_STREAM_LEGACY))
            fake_waits_add(waits, other->last);
}

static struct fake_op *op_new(const struct fake_work *work)
{
    struct fake_op *op = fake_need(calloc(1, sizeof *op));
    op->work = *work;
    op->mark = fake_mark_new();
    op->waits.ready = fake_host_time();
    return op;
}

/* Every chain once: the first join makes `mark` its newest. */
static void chains_join(const struct fake_issue *issue, struct fake_waits *waits, struct fake_mark *mark)
{
    if (issue->work->chain)
        fake_chain_join(issue->work->chain, waits, mark);
    for (int i = 0; issue->graph && i < issue->graph->count; i++) {
        struct fake_chain *chain = issue->graph->nodes[i].work.chain;
        if (chain && chain->last != mark)
            fake_chain_join(chain, waits, mark);
    }
}

static void enqueue(struct CUstream_st **streams, int count, const struct fake_issue *issue)
{
    struct fake_op *op = op_new(issue->work);
    struct fake_mark *mark = fake_mark_keep(op->mark);
    legacy_waits(streams[0], &op->waits);
    for (int i = 1; i < count; i++) {
        fake_waits_add(&op->waits, streams[i]->last);
        legacy_waits(streams[i], &op->waits);
    }
    chains_join(issue, &op->waits, mark);
    fake_stream_push(streams[0], op);
    for (int i = 1; i < count; i++) {
        struct fake_op *follower = op_new(&(struct fake_work){0});
        fake_waits_add(&follower->waits, mark);
        fake_stream_push(streams[i], follower);
    }
    if (issue->mark_out)
        *issue->mark_out = mark;
    else
        fake_mark_drop(mark);
}

void fake_stream_follow(struct CUstream_st *stream, struct fake_mark *mark)
{
    struct fake_op *op = op_new(&(struct fake_work){0});
    legacy_waits(stream, &op->waits);
    fake_waits_add(&op->waits, mark);
    fake_stream_push(stream, op);
}

/* The resolved streams without repeats. */
static cudaError_t resolve(const cudaStream_t *handles, int count, struct CUstream_st **streams, int *count_out)
{
    int distinct = 0;
    for (int i = 0; i < count; i++) {
        struct CUstream_st *stream;
        cudaError_t error = fake_stream_resolve(handles[i], &stream);
        if (error != cudaSuccess)
            return error;
        int known = 0;
        while (known < distinct && streams[known] != stream)
            known++;
        if (known == distinct)
            streams[distinct++] = stream;
    }
    *count_out = distinct;
    return cudaSuccess;
}

static cudaError_t route(struct CUstream_st **streams, int count, const struct fake_issue *issue)
{
    int capturing = 0;
    for (int i = 0; i < count; i++) {
        capturing += streams[i]->capture != NULL;
        if (streams[i]->kind == FAKE_STREAM_LEGACY && fake_capture_blocks_legacy(streams[i]->device))
            return cudaErrorStreamCaptureImplicit;
    }
    if (capturing == 0) {
        enqueue(streams, count, issue);
        return cudaSuccess;
    }
    if (issue->mark_out)
        *issue->mark_out = NULL;
    if (issue->graph)
        return cudaErrorNotSupported; /* a graph inside a graph */
    return capturing == count ? fake_capture_add(streams, count, issue->work) : cudaErrorStreamCaptureIsolation;
}

/* Whether all of them have room for more; else waits until it might be so. */
static bool room(struct CUstream_st **streams, int count)
{
    for (int i = 0; i < count; i++)
        if (!fake_stream_room(streams[i]))
            return false;
    return true;
}

static cudaError_t submit(const cudaStream_t *handles, int count, const struct fake_issue *issue)
{
    struct CUstream_st **streams = fake_need(calloc((size_t)count, sizeof(struct CUstream_st *)));
    int distinct = 0;
    pthread_mutex_lock(&fake_lock);
    cudaError_t error;
    do
        error = resolve(handles, count, streams, &distinct);
    while (error == cudaSuccess && !room(streams, distinct));
    if (error == cudaSuccess)
        error = route(streams, distinct, issue);
    pthread_mutex_unlock(&fake_lock);
    free(streams);
    if (error != cudaSuccess)
        fake_work_release(issue->work);
    return error;
}

cudaError_t fake_submit(cudaStream_t stream, const struct fake_work *work, struct fake_mark **mark_out)
{
    return submit(&stream, 1, &(struct fake_issue){work, NULL, mark_out});
}

cudaError_t fake_submit_graph(cudaStream_t stream, const struct CUgraph_st *graph, const struct fake_work *work)
{
    return submit(&stream, 1, &(struct fake_issue){work, graph, NULL});
}

cudaError_t fake_submit_joined(const cudaStream_t *streams, int count, const struct fake_work *work)
{
    return submit(streams, count, &(struct fake_issue){work, NULL, NULL});
}

/* With the lock held. Who asks a capturing stream breaks its capture. */
static cudaError_t resolve_idle(cudaStream_t handle, struct CUstream_st **stream_out)
{
    cudaError_t error = fake_stream_resolve(handle, stream_out);
    if (error != cudaSuccess || !(*stream_out)->capture)
        return error;
    (*stream_out)->capture->broken = true;
    return cudaErrorStreamCaptureUnsupported;
}

/* The newest work of a stream. The legacy stream's own end says nothing of the streams it waits for: a marker does. */
static cudaError_t newest(cudaStream_t handle, struct fake_mark **mark_out)
{
    struct CUstream_st *stream;
    pthread_mutex_lock(&fake_lock);
    cudaError_t error = resolve_idle(handle, &stream);
    if (error == cudaSuccess && stream->kind == FAKE_STREAM_LEGACY)
        error = route(&stream, 1, &(struct fake_issue){&(struct fake_work){0}, NULL, mark_out});
    else if (error == cudaSuccess)
        *mark_out = fake_mark_keep(stream->last);
    pthread_mutex_unlock(&fake_lock);
    return error;
}

cudaError_t fake_stream_query(cudaStream_t handle)
{
    struct fake_waits waits = {0};
    struct CUstream_st *stream;
    pthread_mutex_lock(&fake_lock);
    cudaError_t error = resolve_idle(handle, &stream);
    if (error == cudaSuccess) {
        fake_waits_add(&waits, stream->last);
        if (stream->kind == FAKE_STREAM_LEGACY)
            legacy_waits(stream, &waits);
    }
    pthread_mutex_unlock(&fake_lock);
    if (error == cudaSuccess && waits.count > 0)
        error = cudaErrorNotReady;
    else if (error == cudaSuccess)
        fake_host_time_raise(waits.ready);
    fake_waits_clear(&waits);
    return error;
}

cudaError_t fake_stream_synchronize(cudaStream_t handle)
{
    struct fake_mark *mark = NULL;
    cudaError_t error = newest(handle, &mark);
    if (error == cudaSuccess && mark)
        fake_host_time_raise(fake_mark_wait(mark));
    fake_mark_drop(mark);
    return error;
}
