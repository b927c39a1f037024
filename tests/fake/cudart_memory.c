/*
 * The runtime's allocations. Pools exist as far as the asynchronous calls: memory is taken at issue and given back
 * in stream order.
 */
#include "cudart_private.h"

#define PITCH 512

static cudaError_t device_memory(void **pointer, size_t bytes, enum fake_memory_kind kind)
{
    return fake_fault_next(FAKE_FAULT_MALLOC) ? cudaErrorMemoryAllocation : fake_memory_allocate(pointer, bytes, kind);
}

cudaError_t cudaMalloc(void **pointer, size_t bytes)
{
    FAKE_ENTER();
    return fake_report(device_memory(pointer, bytes, FAKE_MEMORY_DEVICE));
}

cudaError_t cudaMallocManaged(void **pointer, size_t bytes, unsigned flags)
{
    FAKE_ENTER();
    if (flags != cudaMemAttachGlobal && flags != cudaMemAttachHost)
        return fake_report(cudaErrorInvalidValue);
    return fake_report(device_memory(pointer, bytes, FAKE_MEMORY_MANAGED));
}

cudaError_t cudaMallocPitch(void **pointer, size_t *pitch, size_t width, size_t height)
{
    FAKE_ENTER();
    if (!pitch)
        return fake_report(cudaErrorInvalidValue);
    *pitch = (width + PITCH - 1) / PITCH * PITCH;
    return fake_report(device_memory(pointer, *pitch * height, FAKE_MEMORY_DEVICE));
}

cudaError_t cudaMalloc3D(struct cudaPitchedPtr *pitched, struct cudaExtent extent)
{
    if (!pitched)
        return fake_report(cudaErrorInvalidValue);
    pitched->xsize = extent.width;
    pitched->ysize = extent.height;
    return cudaMallocPitch(&pitched->ptr, &pitched->pitch, extent.width, extent.height * extent.depth);
}

cudaError_t cudaFree(void *pointer)
{
    FAKE_ENTER();
    return fake_report(fake_memory_free(pointer, FAKE_MEMORY_DEVICE));
}

static cudaError_t malloc_async(void **pointer, size_t bytes, cudaStream_t stream)
{
    cudaError_t error = fake_stream_check(stream);
    return error == cudaSuccess ? device_memory(pointer, bytes, FAKE_MEMORY_DEVICE) : error;
}

static cudaError_t malloc_from_pool(void **pointer, size_t bytes, cudaMemPool_t pool, cudaStream_t stream)
{
    return pool ? malloc_async(pointer, bytes, stream) : cudaErrorInvalidValue;
}

FAKE_STREAM_ENTRY(cudaMallocAsync, malloc_async, (void **pointer, size_t bytes, cudaStream_t stream),
                  (pointer, bytes, stream))
FAKE_STREAM_ENTRY(cudaMallocFromPoolAsync, malloc_from_pool,
                  (void **pointer, size_t bytes, cudaMemPool_t pool, cudaStream_t stream),
                  (pointer, bytes, pool, stream))
FAKE_STREAM_ENTRY(cudaFreeAsync, fake_memory_free_async, (void *pointer, cudaStream_t stream), (pointer, stream))

/* One pool for each device, known by an address only. */
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *pool, int device)
{
    static char pools[64];
    FAKE_ENTER();
    if (!pool || device < 0 || device >= fake_config()->devices || device >= (int)sizeof pools)
        return fake_report(pool ? cudaErrorInvalidDevice : cudaErrorInvalidValue);
    *pool = (cudaMemPool_t)(void *)&pools[device];
    return cudaSuccess;
}

cudaError_t cudaDeviceGetMemPool(cudaMemPool_t *pool, int device)
{
    return cudaDeviceGetDefaultMemPool(pool, device);
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *value)
{
    (void)attribute;
    return fake_report(pool && value ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t keep)
{
    (void)keep;
    return fake_report(pool ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaHostAlloc(void **pointer, size_t bytes, unsigned flags)
{
    FAKE_ENTER();
    (void)flags;
    return fake_report(fake_memory_allocate(pointer, bytes, FAKE_MEMORY_HOST));
}

cudaError_t cudaMallocHost(void **pointer, size_t bytes)
{
    return cudaHostAlloc(pointer, bytes, cudaHostAllocDefault);
}

cudaError_t cudaFreeHost(void *pointer)
{
    FAKE_ENTER();
    return fake_report(fake_memory_free(pointer, FAKE_MEMORY_HOST));
}

cudaError_t cudaHostRegister(void *pointer, size_t bytes, unsigned flags)
{
    FAKE_ENTER();
    (void)flags;
    return fake_report(fake_memory_register(pointer, bytes));
}

cudaError_t cudaHostUnregister(void *pointer)
{
    FAKE_ENTER();
    return fake_report(fake_memory_unregister(pointer));
}

cudaError_t cudaHostGetDevicePointer(void **device_pointer, void *host_pointer, unsigned flags)
{
    FAKE_ENTER();
    struct fake_memory memory;
    if (!device_pointer || flags || !fake_memory_find(host_pointer, &memory))
        return fake_report(cudaErrorInvalidValue);
    *device_pointer = host_pointer;
    return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes)
{
    FAKE_ENTER();
    size_t unused, total;
    fake_memory_info(&unused, &total);
    if (free_bytes)
        *free_bytes = unused;
    if (total_bytes)
        *total_bytes = total;
    return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *pointer)
{
    static const enum cudaMemoryType types[] = {
        [FAKE_MEMORY_DEVICE] = cudaMemoryTypeDevice,
        [FAKE_MEMORY_MANAGED] = cudaMemoryTypeManaged,
        [FAKE_MEMORY_HOST] = cudaMemoryTypeHost,
        [FAKE_MEMORY_REGISTERED] = cudaMemoryTypeHost,
    };
    FAKE_ENTER();
    struct fake_memory memory;
    if (!attributes)
        return fake_report(cudaErrorInvalidValue);
    *attributes = (struct cudaPointerAttributes){.type = cudaMemoryTypeUnregistered, .device = cudaInvalidDeviceId};
    attributes->hostPointer = (void *)(uintptr_t)pointer;
    if (!fake_memory_find(pointer, &memory))
        return cudaSuccess;
    attributes->type = types[memory.kind];
    attributes->device = memory.device;
    attributes->devicePointer = (void *)(uintptr_t)pointer;
    if (memory.kind == FAKE_MEMORY_DEVICE)
        attributes->hostPointer = NULL;
    return cudaSuccess;
}
