/*
 * The runtime's capture and graphs, as far as captured work can be replayed.
 */
#include "cudart_private.h"

static cudaError_t is_capturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status)
{
    return status ? fake_capture_status(stream, status, NULL, NULL) : cudaErrorInvalidValue;
}

static cudaError_t capture_info(cudaStream_t stream, enum cudaStreamCaptureStatus *status, unsigned long long *id,
                                cudaGraph_t *graph, const cudaGraphNode_t **nodes, const cudaGraphEdgeData **edges,
                                size_t *count)
{
    if (!status)
        return cudaErrorInvalidValue;
    if (nodes || edges)
        return cudaErrorNotSupported; /* nodes have no handles here */
    if (count)
        *count = 0;
    return fake_capture_status(stream, status, id, graph);
}

static cudaError_t end_capture(cudaStream_t stream, cudaGraph_t *graph)
{
    return graph ? fake_capture_end(stream, graph) : cudaErrorInvalidValue;
}

static cudaError_t upload(cudaGraphExec_t exec, cudaStream_t stream)
{
    return exec ? fake_stream_check(stream) : cudaErrorInvalidValue;
}

FAKE_STREAM_ENTRY(cudaStreamIsCapturing, is_capturing, (cudaStream_t stream, enum cudaStreamCaptureStatus *status),
                  (stream, status))
FAKE_STREAM_ENTRY(cudaStreamBeginCapture, fake_capture_begin, (cudaStream_t stream, enum cudaStreamCaptureMode mode),
                  (stream, mode))
FAKE_STREAM_ENTRY(cudaStreamEndCapture, end_capture, (cudaStream_t stream, cudaGraph_t *graph), (stream, graph))
FAKE_STREAM_ENTRY(cudaStreamGetCaptureInfo, capture_info,
                  (cudaStream_t stream, enum cudaStreamCaptureStatus *status, unsigned long long *id,
                   cudaGraph_t *graph, const cudaGraphNode_t **nodes, const cudaGraphEdgeData **edges, size_t *count),
                  (stream, status, id, graph, nodes, edges, count))
FAKE_STREAM_ENTRY(cudaGraphLaunch, fake_graph_launch, (cudaGraphExec_t exec, cudaStream_t stream), (exec, stream))
FAKE_STREAM_ENTRY(cudaGraphUpload, upload, (cudaGraphExec_t exec, cudaStream_t stream), (exec, stream))

cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode)
{
    FAKE_ENTER();
    return fake_report(fake_capture_exchange_mode(mode));
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags)
{
    FAKE_ENTER();
    (void)flags;
    return fake_report(fake_graph_instantiate(exec, graph));
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags)
{
    return cudaGraphInstantiate(exec, graph, flags);
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    FAKE_ENTER();
    return fake_report(fake_graph_destroy(graph));
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    FAKE_ENTER();
    return fake_report(fake_graph_exec_destroy(exec));
}

/* Only the count: nodes have no handles here. */
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count)
{
    FAKE_ENTER();
    return fake_report(nodes ? cudaErrorNotSupported : fake_graph_nodes(graph, count));
}
