/*
 * Devices and what is current on the calling thread. A context is the primary context of a device, written as
 * device + 1; 0 is none. The runtime's current device and the driver's current context are the same thing seen from
 * two sides: the runtime binds the context at its first call that needs one.
 */
#include "engine_internal.h"

#include <stdlib.h>

#define CONTEXTS_MAX 16

static _Thread_local struct {
    int device; /* what the runtime uses */
    bool bound; /* its context is current */
    int stack[CONTEXTS_MAX];
    int depth;
} current;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static atomic_bool started;
static atomic_bool forked;

static void in_child(void)
{
    if (atomic_load(&started))
        atomic_store(&forked, true);
}

static void start(void)
{
    fake_config();
    pthread_atfork(NULL, NULL, in_child);
    atomic_store(&started, true);
}

cudaError_t fake_start(void)
{
    if (atomic_load(&forked))
        return cudaErrorInitializationError;
    pthread_once(&once, start);
    return fake_config()->devices > 0 ? cudaSuccess : cudaErrorNoDevice;
}

cudaError_t fake_enter(void)
{
    cudaError_t error = fake_start();
    if (error == cudaSuccess)
        current.bound = true;
    return error;
}

int fake_device_current(void)
{
    return current.device;
}

cudaError_t fake_device_check(int device)
{
    cudaError_t error = fake_start();
    if (error != cudaSuccess)
        return error;
    return device >= 0 && device < fake_config()->devices ? cudaSuccess : cudaErrorInvalidDevice;
}

cudaError_t fake_device_select(int device)
{
    cudaError_t error = fake_device_check(device);
    if (error != cudaSuccess)
        return error;
    current.device = device;
    current.bound = true;
    return cudaSuccess;
}

int fake_context_current(void)
{
    return current.bound ? current.device + 1 : 0;
}

void fake_context_set(int context)
{
    current.bound = context != 0;
    if (context)
        current.device = context - 1;
}

cudaError_t fake_context_push(int context)
{
    if (current.depth == CONTEXTS_MAX)
        return cudaErrorInvalidValue;
    current.stack[current.depth++] = fake_context_current();
    fake_context_set(context);
    return cudaSuccess;
}

cudaError_t fake_context_pop(int *context_out)
{
    if (!current.bound)
        return cudaErrorDeviceUninitialized;
    *context_out = fake_context_current();
    fake_context_set(current.depth > 0 ? current.stack[--current.depth] : 0);
    return cudaSuccess;
}

/* An H200, as far as programs ask. */
int fake_device_attribute(int attribute)
{
    switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock:
    case cudaDevAttrMaxBlockDimX:
    case cudaDevAttrMaxBlockDimY:
        return 1024;
    case cudaDevAttrMaxBlockDimZ:
        return 64;
    case cudaDevAttrMaxGridDimX:
        return 0x7fffffff;
    case cudaDevAttrMaxGridDimY:
    case cudaDevAttrMaxGridDimZ:
        return 65535;
    case cudaDevAttrMaxSharedMemoryPerBlock:
        return 48 << 10;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
        return 227 << 10;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
        return 228 << 10;
    case cudaDevAttrWarpSize:
        return 32;
    case cudaDevAttrMaxRegistersPerBlock:
    case cudaDevAttrMaxRegistersPerMultiprocessor:
        return 65536;
    case cudaDevAttrMultiProcessorCount:
        return 132;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
        return 2048;
    case cudaDevAttrMaxBlocksPerMultiprocessor:
        return 32;
    case cudaDevAttrComputeCapabilityMajor:
        return 9;
    case cudaDevAttrAsyncEngineCount:
        return 3;
    case cudaDevAttrClockRate:
        return 1980000;
    case cudaDevAttrMemoryClockRate:
        return 3201000;
    case cudaDevAttrGlobalMemoryBusWidth:
        return 6144;
    case cudaDevAttrL2CacheSize:
        return 60 << 20;
    case cudaDevAttrConcurrentKernels:
    case cudaDevAttrCanMapHostMemory:
    case cudaDevAttrUnifiedAddressing:
    case cudaDevAttrManagedMemory:
    case cudaDevAttrCooperativeLaunch:
    case cudaDevAttrStreamPrioritiesSupported:
    case cudaDevAttrMemoryPoolsSupported:
    case cudaDevAttrCanUseHostPointerForRegisteredMem:
    case cudaDevAttrHostRegisterSupported:
        return 1;
    default:
        return 0;
    }
}

cudaError_t fake_device_synchronize(int device)
{
    struct fake_waits waits = {0};
    pthread_mutex_lock(&fake_lock);
    for (struct CUstream_st *stream = fake_streams; stream; stream = stream->next)
        if (stream->device == device)
            fake_waits_add(&waits, stream->last);
    pthread_mutex_unlock(&fake_lock);
    fake_host_time_raise(waits.ready);
    for (int i = 0; i < waits.count; i++)
        fake_host_time_raise(fake_mark_wait(waits.marks[i]));
    fake_waits_clear(&waits);
    return cudaSuccess;
}
