/*
 * The runtime's devices, versions and errors. The last error is kept for each thread.
 */
#include "cudart_private.h"

#include <cuda_profiler_api.h>

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static _Thread_local cudaError_t last_error;

/* The vendor's runtime is linked to no driver either and loads it by name, where preloads look for it. */
__attribute__((constructor)) static void load_driver(void)
{
    if (!dlopen("libcuda.so.1", RTLD_LAZY))
        fake_say("no libcuda.so.1 beside libcudart.so.13: %s", dlerror());
}

cudaError_t fake_report(cudaError_t error)
{
    if (error != cudaSuccess)
        last_error = error;
    return error;
}

cudaError_t cudaGetLastError(void)
{
    cudaError_t error = last_error;
    last_error = cudaSuccess;
    return error;
}

cudaError_t cudaPeekAtLastError(void)
{
    return last_error;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    if (!version)
        return fake_report(cudaErrorInvalidValue);
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version)
{
    if (!version)
        return fake_report(cudaErrorInvalidValue);
    *version = CUDART_VERSION; /* the driver is of the same release */
    return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *count)
{
    if (!count)
        return fake_report(cudaErrorInvalidValue);
    *count = 0;
    cudaError_t error = fake_start();
    if (error == cudaSuccess)
        *count = fake_config()->devices;
    return fake_report(error);
}

cudaError_t cudaGetDevice(int *device)
{
    cudaError_t error = device ? fake_start() : cudaErrorInvalidValue;
    if (error == cudaSuccess)
        *device = fake_device_current();
    return fake_report(error);
}

cudaError_t cudaSetDevice(int device)
{
    return fake_report(fake_device_select(device));
}

cudaError_t cudaInitDevice(int device, unsigned device_flags, unsigned flags)
{
    (void)device_flags, (void)flags;
    return fake_report(fake_device_check(device));
}

cudaError_t cudaSetDeviceFlags(unsigned flags)
{
    (void)flags;
    return fake_report(fake_start());
}

cudaError_t cudaGetDeviceFlags(unsigned *flags)
{
    FAKE_ENTER();
    if (!flags)
        return fake_report(cudaErrorInvalidValue);
    *flags = cudaDeviceMapHost;
    return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize(void)
{
    FAKE_ENTER();
    cudaError_t error = fake_capture_unsafe();
    return fake_report(error == cudaSuccess ? fake_device_synchronize(fake_device_current()) : error);
}

/* Memory, streams and events stay: a program that goes on after it is outside. */
cudaError_t cudaDeviceReset(void)
{
    return cudaDeviceSynchronize();
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device)
{
    cudaError_t error = value ? fake_device_check(device) : cudaErrorInvalidValue;
    if (error == cudaSuccess)
        *value = fake_device_attribute((int)attribute);
    return fake_report(error);
}

/* Properties that are attributes too: X(member, attribute) */
#define PROPERTIES(X)                                                                  \
    X(warpSize, cudaDevAttrWarpSize)                                                   \
    X(maxThreadsPerBlock, cudaDevAttrMaxThreadsPerBlock)                               \
    X(maxThreadsDim[0], cudaDevAttrMaxBlockDimX)                                       \
    X(maxThreadsDim[1], cudaDevAttrMaxBlockDimY)                                       \
    X(maxThreadsDim[2], cudaDevAttrMaxBlockDimZ)                                       \
    X(maxGridSize[0], cudaDevAttrMaxGridDimX)                                          \
    X(maxGridSize[1], cudaDevAttrMaxGridDimY)                                          \
    X(maxGridSize[2], cudaDevAttrMaxGridDimZ)                                          \
    X(sharedMemPerBlock, cudaDevAttrMaxSharedMemoryPerBlock)                           \
    X(sharedMemPerBlockOptin, cudaDevAttrMaxSharedMemoryPerBlockOptin)                 \
    X(sharedMemPerMultiprocessor, cudaDevAttrMaxSharedMemoryPerMultiprocessor)         \
    X(regsPerBlock, cudaDevAttrMaxRegistersPerBlock)                                   \
    X(regsPerMultiprocessor, cudaDevAttrMaxRegistersPerMultiprocessor)                 \
    X(maxThreadsPerMultiProcessor, cudaDevAttrMaxThreadsPerMultiProcessor)             \
    X(maxBlocksPerMultiProcessor, cudaDevAttrMaxBlocksPerMultiprocessor)               \
    X(major, cudaDevAttrComputeCapabilityMajor)                                        \
    X(multiProcessorCount, cudaDevAttrMultiProcessorCount)                             \
    X(asyncEngineCount, cudaDevAttrAsyncEngineCount)                                   \
    X(memoryBusWidth, cudaDevAttrGlobalMemoryBusWidth)                                 \
    X(l2CacheSize, cudaDevAttrL2CacheSize)                                             \
    X(concurrentKernels, cudaDevAttrConcurrentKernels)                                 \
    X(canMapHostMemory, cudaDevAttrCanMapHostMemory)                                   \
    X(unifiedAddressing, cudaDevAttrUnifiedAddressing)                                 \
    X(managedMemory, cudaDevAttrManagedMemory)                                         \
    X(cooperativeLaunch, cudaDevAttrCooperativeLaunch)                                 \
    X(streamPrioritiesSupported, cudaDevAttrStreamPrioritiesSupported)                 \
    X(memoryPoolsSupported, cudaDevAttrMemoryPoolsSupported)                           \
    X(canUseHostPointerForRegisteredMem, cudaDevAttrCanUseHostPointerForRegisteredMem) \
    X(hostRegisterSupported, cudaDevAttrHostRegisterSupported)

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device)
{
    cudaError_t error = prop ? fake_device_check(device) : cudaErrorInvalidValue;
    if (error != cudaSuccess)
        return fake_report(error);
    memset(prop, 0, sizeof *prop);
    snprintf(prop->name, sizeof prop->name, "Stand-in device %d", device);
    memcpy(prop->uuid.bytes, "stand-in", 8);
    prop->uuid.bytes[15] = (char)device;
    prop->totalGlobalMem = fake_config()->memory_bytes;
    prop->totalConstMem = 64 << 10;
    prop->pciBusID = device + 1;
    prop->memPitch = 0x7fffffff;
    prop->textureAlignment = 512;
    prop->texturePitchAlignment = 32;
#define X(member, attribute) prop->member = (__typeof__(prop->member))fake_device_attribute(attribute);
    PROPERTIES(X)
#undef X
    return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
    cudaError_t error = can ? fake_device_check(device) : cudaErrorInvalidValue;
    if (error == cudaSuccess)
        error = fake_device_check(peer);
    if (error == cudaSuccess)
        *can = device != peer;
    return fake_report(error);
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags)
{
    return fake_report(flags ? cudaErrorInvalidValue : fake_device_check(peer));
}

cudaError_t cudaDeviceGetPCIBusId(char *text, int room, int device)
{
    cudaError_t error = text && room > 0 ? fake_device_check(device) : cudaErrorInvalidValue;
    if (error == cudaSuccess)
        snprintf(text, (size_t)room, "0000:%02x:00.0", (unsigned)(device + 1) & 0xff);
    return fake_report(error);
}

cudaError_t cudaProfilerStart(void)
{
    return cudaSuccess;
}

cudaError_t cudaProfilerStop(void)
{
    return cudaSuccess;
}
