/*
 * What the files of the stand-in driver share. Error codes are the runtime's, which have the same numbers.
 */
#ifndef FAKE_DRIVER_PRIVATE_H
#define FAKE_DRIVER_PRIVATE_H

#include <cuda.h>

#include "engine.h"

/* The start of every entry that needs a current context. */
#define DRIVER_ENTER()                         \
    do {                                       \
        cudaError_t started = fake_start();    \
        if (started != cudaSuccess)            \
            return (CUresult)started;          \
        if (!fake_context_current())           \
            return CUDA_ERROR_INVALID_CONTEXT; \
    } while (0)

/* Older versions of two entries, which cuda.h shows only to the driver itself. */
CUresult cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
                                   const CUgraphNode **nodes, size_t *count);
#undef cuEventElapsedTime
CUresult cuEventElapsedTime(float *ms, CUevent start, CUevent end);
CUresult cuEventElapsedTime_v2(float *ms, CUevent start, CUevent end);

#endif
