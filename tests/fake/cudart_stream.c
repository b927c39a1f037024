/*
 * The runtime's streams and events: argument checks and names over the engine.
 */
#include "cudart_private.h"

#include <stdlib.h>

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    FAKE_ENTER();
    if (least)
        *least = 0;
    if (greatest)
        *greatest = FAKE_PRIORITY_GREATEST;
    return cudaSuccess;
}

cudaError_t cudaStreamCreate(cudaStream_t *stream)
{
    return cudaStreamCreateWithFlags(stream, cudaStreamDefault);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    return cudaStreamCreateWithPriority(stream, flags, 0);
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int priority)
{
    FAKE_ENTER();
    return fake_report(fake_stream_create(stream, flags, priority));
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    FAKE_ENTER();
    return fake_report(fake_stream_destroy(stream));
}

static cudaError_t wait_event(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    return flags & ~(unsigned)cudaEventWaitExternal ? cudaErrorInvalidValue : fake_stream_wait_event(stream, event);
}

static cudaError_t get_priority(cudaStream_t stream, int *priority)
{
    struct fake_stream_info info;
    cudaError_t error = priority ? fake_stream_info(stream, &info) : cudaErrorInvalidValue;
    if (error == cudaSuccess)
        *priority = info.priority;
    return error;
}

static cudaError_t get_flags(cudaStream_t stream, unsigned *flags)
{
    struct fake_stream_info info;
    cudaError_t error = flags ? fake_stream_info(stream, &info) : cudaErrorInvalidValue;
    if (error == cudaSuccess)
        *flags = info.flags;
    return error;
}

static cudaError_t get_id(cudaStream_t stream, unsigned long long *id)
{
    struct fake_stream_info info;
    cudaError_t error = id ? fake_stream_info(stream, &info) : cudaErrorInvalidValue;
    if (error == cudaSuccess)
        *id = info.id;
    return error;
}

static cudaError_t get_device(cudaStream_t stream, int *device)
{
    struct fake_stream_info info;
    cudaError_t error = device ? fake_stream_info(stream, &info) : cudaErrorInvalidValue;
    if (error == cudaSuccess)
        *device = info.device;
    return error;
}

FAKE_STREAM_ENTRY(cudaStreamSynchronize, fake_stream_synchronize, (cudaStream_t stream), (stream))
FAKE_STREAM_ENTRY(cudaStreamQuery, fake_stream_query, (cudaStream_t stream), (stream))
FAKE_STREAM_ENTRY(cudaStreamWaitEvent, wait_event, (cudaStream_t stream, cudaEvent_t event, unsigned flags),
                  (stream, event, flags))
FAKE_STREAM_ENTRY(cudaStreamGetPriority, get_priority, (cudaStream_t stream, int *priority), (stream, priority))
FAKE_STREAM_ENTRY(cudaStreamGetFlags, get_flags, (cudaStream_t stream, unsigned *flags), (stream, flags))
FAKE_STREAM_ENTRY(cudaStreamGetId, get_id, (cudaStream_t stream, unsigned long long *id), (stream, id))
FAKE_STREAM_ENTRY(cudaStreamGetDevice, get_device, (cudaStream_t stream, int *device), (stream, device))

struct callback {
    cudaStreamCallback_t function;
    cudaStream_t stream;
    void *data;
};

static void callback_run(void *payload)
{
    struct callback *callback = payload;
    callback->function(callback->stream, cudaSuccess, callback->data);
    free(callback);
}

static cudaError_t add_callback(cudaStream_t stream, cudaStreamCallback_t function, void *data, unsigned flags)
{
    if (!function || flags)
        return cudaErrorInvalidValue;
    struct callback *callback = malloc(sizeof *callback);
    if (!callback)
        return cudaErrorMemoryAllocation;
    *callback = (struct callback){function, stream, data};
    cudaError_t error = fake_host_function(callback_run, callback, stream);
    if (error != cudaSuccess)
        free(callback);
    return error;
}

FAKE_STREAM_ENTRY(cudaStreamAddCallback, add_callback,
                  (cudaStream_t stream, cudaStreamCallback_t function, void *data, unsigned flags),
                  (stream, function, data, flags))

cudaError_t cudaEventCreate(cudaEvent_t *event)
{
    return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    FAKE_ENTER();
    return fake_report(fake_event_create(event, flags));
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    FAKE_ENTER();
    return fake_report(fake_event_destroy(event));
}

static cudaError_t record_with_flags(cudaEvent_t event, cudaStream_t stream, unsigned flags)
{
    return flags & ~(unsigned)cudaEventRecordExternal ? cudaErrorInvalidValue : fake_event_record(event, stream);
}

FAKE_STREAM_ENTRY(cudaEventRecord, fake_event_record, (cudaEvent_t event, cudaStream_t stream), (event, stream))
FAKE_STREAM_ENTRY(cudaEventRecordWithFlags, record_with_flags, (cudaEvent_t event, cudaStream_t stream, unsigned flags),
                  (event, stream, flags))

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    FAKE_ENTER();
    cudaError_t error = fake_capture_unsafe();
    return fake_report(error == cudaSuccess ? fake_event_query(event) : error);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    FAKE_ENTER();
    cudaError_t error = fake_capture_unsafe();
    return fake_report(error == cudaSuccess ? fake_event_synchronize(event) : error);
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end)
{
    FAKE_ENTER();
    return fake_report(fake_event_elapsed(ms, start, end));
}
