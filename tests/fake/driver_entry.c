/*
 * How the driver is found: cuGetProcAddress_v2 by plain name and version, and the names of its errors.
 */
#include "driver_private.h"

#include <string.h>

/* Names, and the function that a caller of that CUDA version gets; newest first where there are several. */
/* The argument of # is not expanded: "cuMemAlloc" and cuMemAlloc_v2. */
#define SAME(name)             \
    {                          \
#name, (void *)name, 0 \
    }

static const struct entry {
    const char *name;
    void *function;
    int since;
} entries[] = {
    SAME(cuInit),
    SAME(cuDriverGetVersion),
    SAME(cuGetProcAddress),
    SAME(cuGetErrorName),
    SAME(cuGetErrorString),
    SAME(cuDeviceGet),
    SAME(cuDeviceGetCount),
    SAME(cuDeviceGetName),
    SAME(cuDeviceGetAttribute),
    SAME(cuDevicePrimaryCtxRetain),
    SAME(cuDevicePrimaryCtxRelease),
    SAME(cuCtxGetCurrent),
    SAME(cuCtxSetCurrent),
    SAME(cuCtxPushCurrent),
    SAME(cuCtxPopCurrent),
    SAME(cuCtxGetDevice),
    SAME(cuCtxSynchronize),
    SAME(cuCtxGetStreamPriorityRange),
    SAME(cuModuleLoadData),
    SAME(cuModuleUnload),
    SAME(cuModuleGetFunction),
    SAME(cuFuncGetAttribute),
    SAME(cuFuncSetAttribute),
    SAME(cuLaunchKernel),
    SAME(cuLaunchHostFunc),
    SAME(cuMemAlloc),
    SAME(cuMemFree),
    SAME(cuMemGetInfo),
    SAME(cuMemGetAddressRange),
    SAME(cuPointerGetAttributes),
    SAME(cuMemGetAllocationGranularity),
    SAME(cuMemAddressReserve),
    SAME(cuMemAddressFree),
    SAME(cuMemCreate),
    SAME(cuMemRelease),
    SAME(cuMemMap),
    SAME(cuMemUnmap),
    SAME(cuMemSetAccess),
    SAME(cuMemHostAlloc),
    SAME(cuMemFreeHost),
    SAME(cuMemHostRegister),
    SAME(cuMemHostUnregister),
    SAME(cuMemHostGetDevicePointer),
    SAME(cuMemsetD8Async),
    SAME(cuMemcpyAsync),
    SAME(cuMemcpyDtoDAsync),
    SAME(cuMemcpyDtoHAsync),
    SAME(cuMemcpyHtoDAsync),
    SAME(cuStreamCreate),
    SAME(cuStreamCreateWithPriority),
    SAME(cuStreamDestroy),
    SAME(cuStreamQuery),
    SAME(cuStreamSynchronize),
    SAME(cuStreamWaitEvent),
    SAME(cuStreamGetCtx),
    SAME(cuStreamIsCapturing),
    {"cuStreamGetCaptureInfo", (void *)cuStreamGetCaptureInfo, 12030},
    {"cuStreamGetCaptureInfo", (void *)cuStreamGetCaptureInfo_v2, 11030},
    SAME(cuThreadExchangeStreamCaptureMode),
    SAME(cuEventCreate),
    SAME(cuEventDestroy),
    SAME(cuEventRecord),
    SAME(cuEventQuery),
    SAME(cuEventSynchronize),
    {"cuEventElapsedTime", (void *)cuEventElapsedTime_v2, 12080},
    SAME(cuEventElapsedTime),
};

CUresult cuGetProcAddress(const char *symbol, void **function, int version, cuuint64_t flags,
                          CUdriverProcAddressQueryResult *status)
{
    if (!symbol || !function)
        return CUDA_ERROR_INVALID_VALUE;
    *function = NULL;
    CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    bool per_thread = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
    for (size_t i = 0; !per_thread && !*function && i < sizeof entries / sizeof *entries; i++) {
        if (strcmp(entries[i].name, symbol) != 0)
            continue;
        found = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
        if (version >= entries[i].since)
            *function = entries[i].function;
    }
    if (*function)
        found = CU_GET_PROC_ADDRESS_SUCCESS;
    if (status)
        *status = found;
    return *function ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

#define ERRORS(X)                                                                                               \
    X(CUDA_SUCCESS, "no error")                                                                                 \
    X(CUDA_ERROR_INVALID_VALUE, "invalid argument")                                                             \
    X(CUDA_ERROR_OUT_OF_MEMORY, "out of memory")                                                                \
    X(CUDA_ERROR_NOT_INITIALIZED, "initialization error")                                                       \
    X(CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected")                                               \
    X(CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal")                                                      \
    X(CUDA_ERROR_INVALID_CONTEXT, "invalid device context")                                                     \
    X(CUDA_ERROR_INVALID_HANDLE, "invalid resource handle")                                                     \
    X(CUDA_ERROR_NOT_FOUND, "named symbol not found")                                                           \
    X(CUDA_ERROR_NOT_READY, "device not ready")                                                                 \
    X(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "part or all of the requested memory range is already mapped") \
    X(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, "pointer does not correspond to a registered memory region")       \
    X(CUDA_ERROR_NOT_SUPPORTED, "operation not supported")                                                      \
    X(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "operation not permitted when stream is capturing")                \
    X(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "operation failed due to a previous error during capture")         \
    X(CUDA_ERROR_STREAM_CAPTURE_MERGE, "operation would result in a merge of separate capture sequences")       \
    X(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, "dependency created on uncaptured work in another stream")           \
    X(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, "operation would make the legacy stream depend on a capturing one")   \
    X(CUDA_ERROR_CAPTURED_EVENT, "operation not permitted on an event last recorded in a capturing stream")     \
    X(CUDA_ERROR_UNKNOWN, "unknown error")

#define COUNT_OF(table) (sizeof(table) / sizeof *(table))

static const struct error {
    CUresult code;
    const char *name;
    const char *text;
} errors[] = {
#define ROW(code, text) {code, #code, text},
    ERRORS(ROW)
#undef ROW
};

static const struct error *error_find(CUresult code)
{
    for (size_t i = 0; i < COUNT_OF(errors); i++)
        if (errors[i].code == code)
            return &errors[i];
    return NULL;
}

CUresult cuGetErrorName(CUresult code, const char **name)
{
    const struct error *error = error_find(code);
    *name = error ? error->name : NULL;
    return error ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult code, const char **text)
{
    const struct error *error = error_find(code);
    *text = error ? error->text : NULL;
    return error ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
