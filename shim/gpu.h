/*
 * Our way to the device: the driver API only, found at run time (libcuda.so.1, already loaded by the application), so
 * that programs with a static CUDA runtime are served, and processes without CUDA stay free of it.
 *
 * Everything that may load code or map memory is done in the hook of communicator creation; nothing ever waits for
 * the device: lazy loading waits for an idle device, and a collective that waits for a peer then never ends.
 *
 * Threads: any; a short lock inside, under which neither the driver nor the loader is called.
 */
#ifndef RP_GPU_H
#define RP_GPU_H

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <stdbool.h>

#include "core/status.h"

/*
 * The driver functions we call: X(name), the header's name. cuda.h maps many to a versioned symbol by a macro, so
 * both type and symbol come out right by expansion.
 */
#define RP_GPU_FUNCTIONS(X)      \
    X(cuGetErrorName)            \
    X(cuDeviceGet)               \
    X(cuDeviceGetAttribute)      \
    X(cuDevicePrimaryCtxRetain)  \
    X(cuCtxGetCurrent)           \
    X(cuCtxPushCurrent)          \
    X(cuCtxPopCurrent)           \
    X(cuModuleLoadData)          \
    X(cuModuleGetFunction)       \
    X(cuLaunchKernel)            \
    X(cuMemAlloc)                \
    X(cuMemHostRegister)         \
    X(cuMemHostGetDevicePointer) \
    X(cuMemsetD8Async)           \
    X(cuStreamCreate)            \
    X(cuStreamIsCapturing)       \
    X(cuStreamWaitEvent)         \
    X(cuEventCreate)             \
    X(cuEventRecord)             \
    X(cuEventQuery)              \
    X(cuThreadExchangeStreamCaptureMode)

/* What only slots and gathers into them use; NULL where the driver is too old to have it. */
#define RP_GPU_SLOT_FUNCTIONS(X)     \
    X(cuMemGetInfo)                  \
    X(cuMemGetAllocationGranularity) \
    X(cuMemAddressReserve)           \
    X(cuMemAddressFree)              \
    X(cuMemCreate)                   \
    X(cuMemRelease)                  \
    X(cuMemMap)                      \
    X(cuMemUnmap)                    \
    X(cuMemSetAccess)                \
    X(cuMemcpyDtoDAsync)             \
    X(cuCtxGetStreamPriorityRange)   \
    X(cuStreamCreateWithPriority)    \
    X(cuStreamDestroy)               \
    X(cuEventDestroy)                \
    X(cuEventElapsedTime)            \
    X(cuPointerGetAttributes)

struct rp_gpu_driver {
#define X(name) __typeof__(name) *p_##name;
    RP_GPU_FUNCTIONS(X)
    RP_GPU_SLOT_FUNCTIONS(X)
#undef X
};

/* Filled by rp_gpu_device_get(), and constant then. */
extern struct rp_gpu_driver rp_gpu_driver;

/* The first function of slots that the driver does not have, or NULL. After rp_gpu_device_get(). */
const char *rp_gpu_slots_missing(void);

/* What we keep in a device's primary context. */
struct rp_gpu_device {
    CUcontext context;
    CUmodule module;
    CUfunction fingerprint, compare, stamp;
    CUfunction pack, pack_stamp, unpack, unpack_list, compare_packed;
    CUdevice handle;
    CUstream stream;     /* our own, non-blocking: what is set up there waits for nobody */
    unsigned max_blocks; /* that one of our kernels is started with: enough for the memory's full rate */
};

/*
 * The device of that ordinal. The first call loads our kernels into its primary context. RP_UNSUPPORTED: no driver, or
 * one that is too old for our code; rp_gpu_error() says which.
 */
enum rp_status rp_gpu_device_get(int ordinal, struct rp_gpu_device **device_out);

/* Why the last call of this thread failed, as text: "cuModuleLoadData: no kernel image (209)". Static per thread. */
const char *rp_gpu_error(void);

/* Sets rp_gpu_error(): `what` alone, or with the name of `result` if that is an error. Returns `status`. */
enum rp_status rp_gpu_fail(enum rp_status status, const char *what, CUresult result);

/* A driver call; its failure returns RP_UNSUPPORTED from the caller. */
#define RP_GPU_TRY(call)                                        \
    do {                                                        \
        CUresult result_ = rp_gpu_driver.p_##call;              \
        if (result_ != CUDA_SUCCESS)                            \
            return rp_gpu_fail(RP_UNSUPPORTED, #call, result_); \
    } while (0)

/* A stretch in which a context is current, and our calls are legal while the application captures a stream. */
struct rp_gpu_scope {
    CUcontext pushed;
    CUstreamCaptureMode mode;
};

/* False: the context can't be made current; nothing is to be left then. */
bool rp_gpu_enter(struct rp_gpu_scope *scope, CUcontext context);
void rp_gpu_leave(struct rp_gpu_scope *scope);

/* True if the stream is being captured into a graph. False where there is no driver. */
bool rp_gpu_capturing(cudaStream_t stream);

/* In the child of a fork: the parent's contexts do not exist here. */
void rp_gpu_forked(void);

#endif
