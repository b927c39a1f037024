/*
 * Stream capture. Work issued to a capturing stream becomes a node of the capture's graph. A stream holds its
 * frontier: the nodes that its next node follows. An event recorded in a capture takes the stream's frontier along,
 * and a stream that waits for it joins the capture. All state is guarded by the engine's lock.
 */
#include "engine_internal.h"

#include <stdlib.h>
#include <string.h>

struct fake_capture *fake_captures;
static unsigned long long next_id = 1;
static _Thread_local enum cudaStreamCaptureMode thread_mode = cudaStreamCaptureModeGlobal;

void fake_frontier_clear(struct fake_frontier *frontier)
{
    free(frontier->nodes);
    *frontier = (struct fake_frontier){0};
}

static bool holds(const struct fake_frontier *frontier, int node)
{
    for (int i = 0; i < frontier->count; i++)
        if (frontier->nodes[i] == node)
            return true;
    return false;
}

void fake_frontier_add(struct fake_frontier *frontier, const struct fake_frontier *more)
{
    if (more->count == 0)
        return;
    size_t room = (size_t)(frontier->count + more->count);
    frontier->nodes = fake_need(realloc(frontier->nodes, room * sizeof *frontier->nodes));
    for (int i = 0; i < more->count; i++)
        if (!holds(frontier, more->nodes[i]))
            frontier->nodes[frontier->count++] = more->nodes[i];
}

void fake_capture_drop(struct fake_capture *capture)
{
    if (--capture->references > 0)
        return;
    fake_graph_drop(capture->graph);
    free(capture);
}

static void leave(struct CUstream_st *stream)
{
    fake_capture_drop(stream->capture);
    stream->capture = NULL;
    fake_frontier_clear(&stream->frontier);
}

static void join(struct CUstream_st *stream, struct fake_capture *capture)
{
    stream->capture = capture;
    capture->references++;
}

bool fake_capture_blocks_legacy(int device)
{
    bool blocked = false;
    for (struct fake_capture *capture = fake_captures; capture; capture = capture->next)
        if (capture->origin->device == device && !(capture->origin->flags & cudaStreamNonBlocking)) {
            capture->broken = true;
            blocked = true;
        }
    return blocked;
}

cudaError_t fake_capture_begin(cudaStream_t handle, enum cudaStreamCaptureMode mode)
{
    if (mode < cudaStreamCaptureModeGlobal || mode > cudaStreamCaptureModeRelaxed)
        return cudaErrorInvalidValue;
    struct CUstream_st *stream;
    pthread_mutex_lock(&fake_lock);
    cudaError_t error = fake_stream_resolve(handle, &stream);
    if (error == cudaSuccess && stream->kind == FAKE_STREAM_LEGACY)
        error = cudaErrorStreamCaptureUnsupported;
    if (error == cudaSuccess && stream->capture)
        error = cudaErrorIllegalState;
    if (error == cudaSuccess) {
        struct fake_capture *capture = fake_need(calloc(1, sizeof *capture));
        *capture = (struct fake_capture){1, next_id++, mode, stream, pthread_self(), true, false, NULL, fake_captures};
        capture->graph = fake_need(calloc(1, sizeof *capture->graph));
        atomic_init(&capture->graph->references, 1);
        fake_captures = capture;
        join(stream, capture);
    }
    pthread_mutex_unlock(&fake_lock);
    return error;
}

/* Nodes that nothing follows and that the origin stream does not know: work of a stream that never came back. */
static bool unjoined(const struct fake_capture *capture)
{
    for (int node = 0; node < capture->graph->count; node++) {
        bool followed = holds(&capture->origin->frontier, node);
        for (int later = node + 1; later < capture->graph->count && !followed; later++)
            followed = holds(&capture->graph->nodes[later].after, node);
        if (!followed)
            return true;
    }
    return false;
}

static cudaError_t verdict(const struct fake_capture *capture)
{
    if (capture->broken)
        return cudaErrorStreamCaptureInvalidated;
    return unjoined(capture) ? cudaErrorStreamCaptureUnjoined : cudaSuccess;
}

static void finish(struct fake_capture *capture)
{
    struct fake_capture **link = &fake_captures;
    while (*link != capture)
        link = &(*link)->next;
    *link = capture->next;
    capture->active = false;
    for (struct CUstream_st *stream = fake_streams; stream; stream = stream->next)
        if (stream->capture == capture)
            leave(stream);
    fake_capture_drop(capture);
}

cudaError_t fake_capture_end(cudaStream_t handle, cudaGraph_t *graph_out)
{
    struct CUstream_st *stream;
    *graph_out = NULL;
    pthread_mutex_lock(&fake_lock);
    cudaError_t error = fake_stream_resolve(handle, &stream);
    if (error == cudaSuccess && (!stream->capture || stream->capture->origin != stream))
        error = stream->capture ? cudaErrorStreamCaptureUnmatched : cudaErrorIllegalState;
    else if (error == cudaSuccess) {
        struct fake_capture *capture = stream->capture;
        error = verdict(capture);
        if (error == cudaSuccess) {
            *graph_out = capture->graph;
            atomic_fetch_add(&capture->graph->references, 1);
        }
        finish(capture);
    }
    pthread_mutex_unlock(&fake_lock);
    return error;
}

cudaError_t fake_capture_status(cudaStream_t handle, enum cudaStreamCaptureStatus *status_out,
                                unsigned long long *id_out, cudaGraph_t *graph_out)
{
    struct CUstream_st *stream;
    pthread_mutex_lock(&fake_lock);
    cudaError_t error = fake_stream_resolve(handle, &stream);
    if (error == cudaSuccess) {
        const struct fake_capture *capture = stream->capture;
        *status_out = !capture          ? cudaStreamCaptureStatusNone
                      : capture->broken ? cudaStreamCaptureStatusInvalidated
                                        : cudaStreamCaptureStatusActive;
        if (capture && id_out)
            *id_out = capture->id;
        if (capture && graph_out)
            *graph_out = capture->graph;
    }
    pthread_mutex_unlock(&fake_lock);
    return error;
}

cudaError_t fake_capture_exchange_mode(enum cudaStreamCaptureMode *mode)
{
    if (!mode || *mode < cudaStreamCaptureModeGlobal || *mode > cudaStreamCaptureModeRelaxed)
        return cudaErrorInvalidValue;
    enum cudaStreamCaptureMode before = thread_mode;
    thread_mode = *mode;
    *mode = before;
    return cudaSuccess;
}

/* The rules of cudaThreadExchangeStreamCaptureMode. */
cudaError_t fake_capture_unsafe(void)
{
    cudaError_t error = cudaSuccess;
    if (thread_mode == cudaStreamCaptureModeRelaxed)
        return cudaSuccess;
    pthread_mutex_lock(&fake_lock);
    for (struct fake_capture *capture = fake_captures; capture; capture = capture->next) {
        bool mine = pthread_equal(capture->thread, pthread_self()) != 0;
        bool forbids = mine
                           ? capture->mode != cudaStreamCaptureModeRelaxed
                           : capture->mode == cudaStreamCaptureModeGlobal && thread_mode == cudaStreamCaptureModeGlobal;
        if (forbids) {
            capture->broken = true;
            error = cudaErrorStreamCaptureUnsupported;
        }
    }
    pthread_mutex_unlock(&fake_lock);
    return error;
}

static int node_add(struct CUgraph_st *graph, const struct fake_work *work)
{
    if (graph->count == graph->room) {
        graph->room = graph->room ? graph->room * 2 : 16;
        graph->nodes = fake_need(realloc(graph->nodes, (size_t)graph->room * sizeof *graph->nodes));
    }
    graph->nodes[graph->count] = (struct fake_node){.work = *work};
    return graph->count++;
}

cudaError_t fake_capture_add(struct CUstream_st **streams, int count, const struct fake_work *work)
{
    struct fake_capture *capture = streams[0]->capture;
    for (int i = 1; i < count; i++)
        if (streams[i]->capture != capture)
            return cudaErrorStreamCaptureMerge;
    if (capture->broken)
        return cudaErrorStreamCaptureInvalidated;
    int number = node_add(capture->graph, work);
    struct fake_node *node = &capture->graph->nodes[number];
    for (int i = 0; i < count; i++) {
        fake_frontier_add(&node->after, &streams[i]->frontier);
        fake_frontier_clear(&streams[i]->frontier);
        fake_frontier_add(&streams[i]->frontier, &(struct fake_frontier){&number, 1});
    }
    return cudaSuccess;
}

void fake_capture_record(struct CUevent_st *event, struct CUstream_st *stream)
{
    event->capture = stream->capture;
    event->capture->references++;
    fake_frontier_add(&event->frontier, &stream->frontier);
}

cudaError_t fake_capture_wait(struct CUstream_st *stream, struct CUevent_st *event)
{
    if (!event->capture) {
        stream->capture->broken = true;
        return cudaErrorStreamCaptureIsolation;
    }
    if (!event->capture->active)
        return cudaErrorInvalidValue;
    if (stream->capture && stream->capture != event->capture)
        return cudaErrorStreamCaptureMerge;
    if (stream->kind == FAKE_STREAM_LEGACY)
        return cudaErrorStreamCaptureImplicit;
    if (!stream->capture)
        join(stream, event->capture);
    fake_frontier_add(&stream->frontier, &event->frontier);
    return cudaSuccess;
}
