/*
 * Events. A record is an empty piece of work whose mark the event keeps; a stream that waits for the event follows
 * the mark of the newest record at that time. Inside a capture an event holds node numbers instead.
 */
#include "engine_internal.h"

#include <stdlib.h>

static bool valid(cudaEvent_t event)
{
    return event && event->magic == FAKE_EVENT_MAGIC;
}

static void forget(cudaEvent_t event)
{
    fake_mark_drop(event->mark);
    event->mark = NULL;
    fake_frontier_clear(&event->frontier);
    if (event->capture)
        fake_capture_drop(event->capture);
    event->capture = NULL;
}

cudaError_t fake_event_create(cudaEvent_t *event_out, unsigned flags)
{
    const unsigned known = cudaEventBlockingSync | cudaEventDisableTiming | cudaEventInterprocess;
    if (!event_out || (flags & ~known))
        return cudaErrorInvalidValue;
    struct CUevent_st *event = fake_need(calloc(1, sizeof *event));
    event->magic = FAKE_EVENT_MAGIC;
    event->device = fake_device_current();
    event->flags = flags;
    *event_out = event;
    return cudaSuccess;
}

cudaError_t fake_event_destroy(cudaEvent_t event)
{
    if (!valid(event))
        return cudaErrorInvalidResourceHandle;
    pthread_mutex_lock(&fake_lock);
    forget(event);
    event->magic = 0;
    pthread_mutex_unlock(&fake_lock);
    free(event);
    return cudaSuccess;
}

cudaError_t fake_event_record(cudaEvent_t event, cudaStream_t handle)
{
    if (!valid(event))
        return cudaErrorInvalidResourceHandle;
    struct CUstream_st *stream;
    pthread_mutex_lock(&fake_lock);
    cudaError_t error = fake_stream_resolve(handle, &stream);
    if (error == cudaSuccess && stream->device != event->device)
        error = cudaErrorInvalidResourceHandle;
    bool captured = error == cudaSuccess && stream->capture;
    if (captured) {
        forget(event);
        fake_capture_record(event, stream);
    }
    pthread_mutex_unlock(&fake_lock);
    if (error != cudaSuccess || captured)
        return error;
    struct fake_mark *mark;
    error = fake_submit(handle, &(struct fake_work){0}, &mark);
    if (error != cudaSuccess)
        return error;
    pthread_mutex_lock(&fake_lock);
    forget(event);
    event->mark = mark;
    pthread_mutex_unlock(&fake_lock);
    return cudaSuccess;
}

cudaError_t fake_stream_wait_event(cudaStream_t handle, cudaEvent_t event)
{
    if (!valid(event))
        return cudaErrorInvalidResourceHandle;
    struct CUstream_st *stream;
    pthread_mutex_lock(&fake_lock);
    cudaError_t error;
    do
        error = fake_stream_resolve(handle, &stream);
    while (error == cudaSuccess && !fake_stream_room(stream));
    if (error == cudaSuccess && (event->capture || stream->capture))
        error = fake_capture_wait(stream, event);
    else if (error == cudaSuccess && event->mark)
        fake_stream_follow(stream, event->mark);
    pthread_mutex_unlock(&fake_lock);
    return error;
}

/* The mark of the newest record; NULL if there is none. */
static cudaError_t recorded(cudaEvent_t event, struct fake_mark **mark_out)
{
    if (!valid(event))
        return cudaErrorInvalidResourceHandle;
    pthread_mutex_lock(&fake_lock);
    cudaError_t error = event->capture ? cudaErrorCapturedEvent : cudaSuccess;
    if (error == cudaSuccess)
        *mark_out = fake_mark_keep(event->mark);
    pthread_mutex_unlock(&fake_lock);
    return error;
}

cudaError_t fake_event_query(cudaEvent_t event)
{
    struct fake_mark *mark = NULL;
    uint64_t end;
    cudaError_t error = recorded(event, &mark);
    if (error == cudaSuccess && mark && !fake_mark_done(mark, &end))
        error = cudaErrorNotReady;
    else if (error == cudaSuccess && mark)
        fake_host_time_raise(end);
    fake_mark_drop(mark);
    return error;
}

cudaError_t fake_event_synchronize(cudaEvent_t event)
{
    struct fake_mark *mark = NULL;
    cudaError_t error = recorded(event, &mark);
    if (error == cudaSuccess && mark)
        fake_host_time_raise(fake_mark_wait(mark));
    fake_mark_drop(mark);
    return error;
}

static cudaError_t time_of(cudaEvent_t event, uint64_t *end_out)
{
    struct fake_mark *mark = NULL;
    cudaError_t error = recorded(event, &mark);
    if (error == cudaSuccess && (!mark || (event->flags & cudaEventDisableTiming)))
        error = cudaErrorInvalidResourceHandle;
    else if (error == cudaSuccess && !fake_mark_done(mark, end_out))
        error = cudaErrorNotReady;
    fake_mark_drop(mark);
    return error;
}

cudaError_t fake_event_elapsed(float *ms_out, cudaEvent_t start, cudaEvent_t end)
{
    uint64_t from, to;
    if (!ms_out)
        return cudaErrorInvalidValue;
    cudaError_t error = time_of(start, &from);
    if (error == cudaSuccess)
        error = time_of(end, &to);
    if (error == cudaSuccess)
        *ms_out = (float)(((double)to - (double)from) / 1e6);
    return error;
}
