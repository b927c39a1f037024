/*
 * Names and texts of the errors that the stand-in returns.
 */
#include "cudart_private.h"

#define ERRORS(X)                                                                                                     \
    X(cudaSuccess, "no error")                                                                                        \
    X(cudaErrorInvalidValue, "invalid argument")                                                                      \
    X(cudaErrorMemoryAllocation, "out of memory")                                                                     \
    X(cudaErrorInitializationError, "initialization error")                                                           \
    X(cudaErrorCudartUnloading, "driver shutting down")                                                               \
    X(cudaErrorInvalidConfiguration, "invalid configuration argument")                                                \
    X(cudaErrorInvalidPitchValue, "invalid pitch argument")                                                           \
    X(cudaErrorInvalidSymbol, "invalid device symbol")                                                                \
    X(cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy")                                           \
    X(cudaErrorMissingConfiguration, "__global__ function call is not configured")                                    \
    X(cudaErrorInvalidDeviceFunction, "invalid device function")                                                      \
    X(cudaErrorNoDevice, "no CUDA-capable device is detected")                                                        \
    X(cudaErrorInvalidDevice, "invalid device ordinal")                                                               \
    X(cudaErrorDeviceUninitialized, "invalid device context")                                                         \
    X(cudaErrorInvalidResourceHandle, "invalid resource handle")                                                      \
    X(cudaErrorIllegalState, "the operation cannot be performed in the present state")                                \
    X(cudaErrorSymbolNotFound, "named symbol not found")                                                              \
    X(cudaErrorNotReady, "device not ready")                                                                          \
    X(cudaErrorHostMemoryAlreadyRegistered, "part or all of the requested memory range is already mapped")            \
    X(cudaErrorHostMemoryNotRegistered, "pointer does not correspond to a registered memory region")                  \
    X(cudaErrorNotSupported, "operation not supported")                                                               \
    X(cudaErrorStreamCaptureUnsupported, "operation not permitted when stream is capturing")                          \
    X(cudaErrorStreamCaptureInvalidated, "operation failed due to a previous error during capture")                   \
    X(cudaErrorStreamCaptureMerge, "operation would result in a merge of separate capture sequences")                 \
    X(cudaErrorStreamCaptureUnmatched, "capture was not ended in the same stream as it began")                        \
    X(cudaErrorStreamCaptureUnjoined, "capturing stream has unjoined work")                                           \
    X(cudaErrorStreamCaptureIsolation, "dependency created on uncaptured work in another stream")                     \
    X(cudaErrorStreamCaptureImplicit, "operation would make the legacy stream depend on a capturing blocking stream") \
    X(cudaErrorCapturedEvent, "operation not permitted on an event last recorded in a capturing stream")              \
    X(cudaErrorStreamCaptureWrongThread, "attempt to terminate a thread-local capture sequence from another thread")  \
    X(cudaErrorUnknown, "unknown error")

const char *cudaGetErrorName(cudaError_t error)
{
    switch (error) {
#define CASE(code, text) \
    case code:           \
        return #code;
        ERRORS(CASE)
#undef CASE
    default:
        return "unrecognized error code";
    }
}

const char *cudaGetErrorString(cudaError_t error)
{
    switch (error) {
#define CASE(code, text) \
    case code:           \
        return text;
        ERRORS(CASE)
#undef CASE
    default:
        return "unrecognized error code";
    }
}
