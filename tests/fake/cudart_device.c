/*
 * The runtime's devices, versions and errors. The last error is kept for each thread.
 */
#include "cudart_private.h"

#include <cuda_profiler_api.h>

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#define DRIVER_VERSION 13000

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
    *version = DRIVER_VERSION;
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
    cudaError_t error = fake_start();
    if (error == cudaSuccess && (device < 0 || device >= fake_config()->devices))
        error = cudaErrorInvalidDevice;
    return fake_report(error);
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

static cudaError_t device_check(int device)
{
    cudaError_t error = fake_start();
    if (error == cudaSuccess && (device < 0 || device >= fake_config()->devices))
        error = cudaErrorInvalidDevice;
    return error;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device)
{
    cudaError_t error = value ? device_check(device) : cudaErrorInvalidValue;
    if (error == cudaSuccess)
        *value = fake_device_attribute((int)attribute);
    return fake_report(error);
}

static void shape_fill(struct cudaDeviceProp *prop)
{
    prop->warpSize = 32;
    prop->maxThreadsPerBlock = prop->maxThreadsDim[0] = prop->maxThreadsDim[1] = 1024;
    prop->maxThreadsDim[2] = 64;
    prop->maxGridSize[0] = fake_device_attribute(cudaDevAttrMaxGridDimX);
    prop->maxGridSize[1] = prop->maxGridSize[2] = 65535;
    prop->sharedMemPerBlock = 48 << 10;
    prop->sharedMemPerBlockOptin = 227 << 10;
    prop->sharedMemPerMultiprocessor = 228 << 10;
    prop->regsPerBlock = prop->regsPerMultiprocessor = 65536;
    prop->maxThreadsPerMultiProcessor = 2048;
    prop->maxBlocksPerMultiProcessor = 32;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device)
{
    cudaError_t error = prop ? device_check(device) : cudaErrorInvalidValue;
    if (error != cudaSuccess)
        return fake_report(error);
    memset(prop, 0, sizeof *prop);
    snprintf(prop->name, sizeof prop->name, "Stand-in device %d", device);
    memcpy(prop->uuid.bytes, "stand-in", 8);
    prop->uuid.bytes[15] = (char)device;
    prop->major = 9;
    prop->multiProcessorCount = 132;
    prop->totalGlobalMem = fake_config()->memory_bytes;
    prop->totalConstMem = 64 << 10;
    prop->l2CacheSize = 60 << 20;
    prop->memoryBusWidth = 6144;
    prop->asyncEngineCount = 3;
    prop->pciBusID = device + 1;
    prop->memPitch = 0x7fffffff;
    prop->textureAlignment = 512;
    prop->texturePitchAlignment = 32;
    prop->canMapHostMemory = prop->unifiedAddressing = prop->managedMemory = prop->concurrentKernels = 1;
    prop->cooperativeLaunch = prop->streamPrioritiesSupported = prop->memoryPoolsSupported = 1;
    prop->hostRegisterSupported = prop->canUseHostPointerForRegisteredMem = 1;
    shape_fill(prop);
    return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
    cudaError_t error = can ? device_check(device) : cudaErrorInvalidValue;
    if (error == cudaSuccess)
        error = device_check(peer);
    if (error == cudaSuccess)
        *can = device != peer;
    return fake_report(error);
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags)
{
    return fake_report(flags ? cudaErrorInvalidValue : device_check(peer));
}

cudaError_t cudaDeviceGetPCIBusId(char *text, int room, int device)
{
    cudaError_t error = text && room > 0 ? device_check(device) : cudaErrorInvalidValue;
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
