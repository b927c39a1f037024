/*
 * The driver's streams, events and capture; the handles are the runtime's.
 */
#include "driver_private.h"

/* The flags and modes of both interfaces have the same values. */
_Static_assert((int)CU_STREAM_NON_BLOCKING == cudaStreamNonBlocking, "stream flags");
_Static_assert((int)CU_EVENT_DISABLE_TIMING == cudaEventDisableTiming, "event flags");
_Static_assert((int)CU_STREAM_CAPTURE_MODE_RELAXED == cudaStreamCaptureModeRelaxed, "capture modes");
_Static_assert((int)CU_STREAM_CAPTURE_STATUS_INVALIDATED == cudaStreamCaptureStatusInvalidated, "capture states");

CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned flags, int priority)
{
    DRIVER_ENTER();
    return (CUresult)fake_stream_create(stream, flags, priority);
}

CUresult cuStreamCreate(CUstream *stream, unsigned flags)
{
    return cuStreamCreateWithPriority(stream, flags, 0);
}

CUresult cuStreamDestroy(CUstream stream)
{
    DRIVER_ENTER();
    return (CUresult)fake_stream_destroy(stream);
}

CUresult cuStreamQuery(CUstream stream)
{
    DRIVER_ENTER();
    return (CUresult)fake_stream_query(stream);
}

CUresult cuStreamSynchronize(CUstream stream)
{
    DRIVER_ENTER();
    return (CUresult)fake_stream_synchronize(stream);
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags)
{
    DRIVER_ENTER();
    return flags & ~(unsigned)CU_EVENT_WAIT_EXTERNAL ? CUDA_ERROR_INVALID_VALUE
                                                     : (CUresult)fake_stream_wait_event(stream, event);
}

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void *data)
{
    DRIVER_ENTER();
    return (CUresult)fake_host_function(function, data, stream);
}

CUresult cuStreamGetCtx(CUstream stream, CUcontext *context)
{
    DRIVER_ENTER();
    struct fake_stream_info info;
    cudaError_t error = context ? fake_stream_info(stream, &info) : cudaErrorInvalidValue;
    return error == cudaSuccess ? cuDevicePrimaryCtxRetain(context, info.device) : (CUresult)error;
}

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status)
{
    DRIVER_ENTER();
    enum cudaStreamCaptureStatus found;
    cudaError_t error = status ? fake_capture_status(stream, &found, NULL, NULL) : cudaErrorInvalidValue;
    if (error == cudaSuccess)
        *status = (CUstreamCaptureStatus)found;
    return (CUresult)error;
}

/* Without dependencies: nodes have no handles here. */
CUresult cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
                                   const CUgraphNode **nodes, size_t *count)
{
    DRIVER_ENTER();
    if (!status || nodes)
        return nodes ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
    enum cudaStreamCaptureStatus found;
    unsigned long long number = 0;
    cudaError_t error = fake_capture_status(stream, &found, &number, graph);
    if (error != cudaSuccess)
        return (CUresult)error;
    *status = (CUstreamCaptureStatus)found;
    if (id && found != cudaStreamCaptureStatusNone)
        *id = number;
    if (count)
        *count = 0;
    return CUDA_SUCCESS;
}

CUresult cuStreamGetCaptureInfo(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
                                const CUgraphNode **nodes, const CUgraphEdgeData **edges, size_t *count)
{
    return edges ? CUDA_ERROR_NOT_SUPPORTED : cuStreamGetCaptureInfo_v2(stream, status, id, graph, nodes, count);
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    if (!mode)
        return CUDA_ERROR_INVALID_VALUE;
    enum cudaStreamCaptureMode exchanged = (enum cudaStreamCaptureMode) * mode;
    cudaError_t error = fake_capture_exchange_mode(&exchanged);
    if (error == cudaSuccess)
        *mode = (CUstreamCaptureMode)exchanged;
    return (CUresult)error;
}

CUresult cuEventCreate(CUevent *event, unsigned flags)
{
    DRIVER_ENTER();
    return (CUresult)fake_event_create(event, flags);
}

CUresult cuEventDestroy(CUevent event)
{
    DRIVER_ENTER();
    return (CUresult)fake_event_destroy(event);
}

CUresult cuEventRecord(CUevent event, CUstream stream)
{
    DRIVER_ENTER();
    return (CUresult)fake_event_record(event, stream);
}

CUresult cuEventQuery(CUevent event)
{
    DRIVER_ENTER();
    cudaError_t error = fake_capture_unsafe();
    return (CUresult)(error == cudaSuccess ? fake_event_query(event) : error);
}

CUresult cuEventSynchronize(CUevent event)
{
    DRIVER_ENTER();
    cudaError_t error = fake_capture_unsafe();
    return (CUresult)(error == cudaSuccess ? fake_event_synchronize(event) : error);
}

CUresult cuEventElapsedTime_v2(float *ms, CUevent start, CUevent end)
{
    DRIVER_ENTER();
    return (CUresult)fake_event_elapsed(ms, start, end);
}

CUresult cuEventElapsedTime(float *ms, CUevent start, CUevent end)
{
    return cuEventElapsedTime_v2(ms, start, end);
}
