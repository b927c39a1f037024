/*
 * The driver's devices and contexts: the primary context of each device and nothing else. A context's current
 * device is the runtime's current device (engine_device.c).
 */
#include "driver_private.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

struct CUctx_st {
    int device;
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct CUctx_st *contexts;

static void contexts_make(void)
{
    int count = fake_config()->devices;
    contexts = calloc((size_t)count + 1, sizeof *contexts);
    for (int i = 0; contexts && i < count; i++)
        contexts[i].device = i;
}

/* NULL for context 0. */
static CUcontext handle_of(int context)
{
    pthread_once(&once, contexts_make);
    return context ? &contexts[context - 1] : NULL;
}

/* -1 if it is not one of ours. */
static int number_of(CUcontext context)
{
    pthread_once(&once, contexts_make);
    if (!context)
        return 0;
    for (int i = 0; i < fake_config()->devices; i++)
        if (context == &contexts[i])
            return i + 1;
    return -1;
}

CUresult cuInit(unsigned flags)
{
    return flags ? CUDA_ERROR_INVALID_VALUE : (CUresult)fake_start();
}

CUresult cuDriverGetVersion(int *version)
{
    if (!version)
        return CUDA_ERROR_INVALID_VALUE;
    *version = CUDA_VERSION;
    return CUDA_SUCCESS;
}

static CUresult device_check(CUdevice device)
{
    return (CUresult)fake_device_check(device);
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    CUresult result = device ? device_check(ordinal) : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        *device = ordinal;
    return result;
}

CUresult cuDeviceGetCount(int *count)
{
    CUresult result = count ? (CUresult)fake_start() : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        *count = fake_config()->devices;
    return result;
}

CUresult cuDeviceGetName(char *name, int room, CUdevice device)
{
    CUresult result = name && room > 0 ? device_check(device) : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        snprintf(name, (size_t)room, "Stand-in device %d", device);
    return result;
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    CUresult result = value ? device_check(device) : CUDA_ERROR_INVALID_VALUE;
    if (result != CUDA_SUCCESS)
        return result;
    /* the runtime has no name for it */
    *value = attribute == CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED
                 ? 1
                 : fake_device_attribute((int)attribute);
    return result;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    CUresult result = context ? device_check(device) : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        *context = handle_of(device + 1);
    return result;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device)
{
    return device_check(device);
}

CUresult cuCtxGetCurrent(CUcontext *context)
{
    CUresult result = context ? (CUresult)fake_start() : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        *context = handle_of(fake_context_current());
    return result;
}

CUresult cuCtxSetCurrent(CUcontext context)
{
    int number = number_of(context);
    if (number < 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    fake_context_set(number);
    return (CUresult)fake_start();
}

CUresult cuCtxPushCurrent(CUcontext context)
{
    int number = number_of(context);
    return number > 0 ? (CUresult)fake_context_push(number) : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult cuCtxPopCurrent(CUcontext *context)
{
    int number;
    if (fake_context_pop(&number) != cudaSuccess)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (context)
        *context = handle_of(number);
    return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice *device)
{
    DRIVER_ENTER();
    if (!device)
        return CUDA_ERROR_INVALID_VALUE;
    *device = fake_device_current();
    return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize(void)
{
    DRIVER_ENTER();
    cudaError_t error = fake_capture_unsafe();
    return (CUresult)(error == cudaSuccess ? fake_device_synchronize(fake_device_current()) : error);
}

CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    DRIVER_ENTER();
    if (least)
        *least = 0;
    if (greatest)
        *greatest = FAKE_PRIORITY_GREATEST;
    return CUDA_SUCCESS;
}
