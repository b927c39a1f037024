/*
 * The driver's memory, copies and fills.
 */
#include "driver_private.h"

static void *address_of(CUdeviceptr pointer)
{
    return (void *)(uintptr_t)pointer;
}

static CUresult allocate(void **pointer, size_t bytes, enum fake_memory_kind kind)
{
    DRIVER_ENTER();
    if (!pointer || bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (fake_fault_next(FAKE_FAULT_CUALLOC))
        return CUDA_ERROR_OUT_OF_MEMORY;
    return (CUresult)fake_memory_allocate(pointer, bytes, kind);
}

CUresult cuMemAlloc(CUdeviceptr *pointer, size_t bytes)
{
    void *memory = NULL;
    CUresult result = pointer ? allocate(&memory, bytes, FAKE_MEMORY_DEVICE) : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        *pointer = (CUdeviceptr)(uintptr_t)memory;
    return result;
}

CUresult cuMemFree(CUdeviceptr pointer)
{
    DRIVER_ENTER();
    return (CUresult)fake_memory_free(address_of(pointer), FAKE_MEMORY_DEVICE);
}

CUresult cuMemGetInfo(size_t *free_bytes, size_t *total_bytes)
{
    DRIVER_ENTER();
    if (!free_bytes || !total_bytes)
        return CUDA_ERROR_INVALID_VALUE;
    fake_memory_info(free_bytes, total_bytes);
    return CUDA_SUCCESS;
}

CUresult cuMemGetAddressRange(CUdeviceptr *base, size_t *bytes, CUdeviceptr pointer)
{
    DRIVER_ENTER();
    struct fake_memory memory;
    if (!fake_memory_find(address_of(pointer), &memory))
        return CUDA_ERROR_NOT_FOUND;
    if (base)
        *base = (CUdeviceptr)(uintptr_t)memory.base;
    if (bytes)
        *bytes = memory.bytes;
    return CUDA_SUCCESS;
}

/* The attributes of memory that is none of ours are zero, as the real ones are. */
static CUresult attribute(CUpointer_attribute which, const struct fake_memory *memory, void *out)
{
    bool host = memory && (memory->kind == FAKE_MEMORY_HOST || memory->kind == FAKE_MEMORY_REGISTERED);
    switch (which) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *(CUmemorytype *)out = !memory ? (CUmemorytype)0 : host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *(int *)out = memory ? memory->device : -2;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}

CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute *attributes, void **data, CUdeviceptr pointer)
{
    DRIVER_ENTER();
    struct fake_memory memory;
    if (!attributes || !data)
        return CUDA_ERROR_INVALID_VALUE;
    bool found = fake_memory_find(address_of(pointer), &memory);
    CUresult result = CUDA_SUCCESS;
    for (unsigned i = 0; i < count && result == CUDA_SUCCESS; i++)
        result = attribute(attributes[i], found ? &memory : NULL, data[i]);
    return result;
}

CUresult cuMemHostAlloc(void **pointer, size_t bytes, unsigned flags)
{
    const unsigned known = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
    return flags & ~known ? CUDA_ERROR_INVALID_VALUE : allocate(pointer, bytes, FAKE_MEMORY_HOST);
}

CUresult cuMemFreeHost(void *pointer)
{
    DRIVER_ENTER();
    return (CUresult)fake_memory_free(pointer, FAKE_MEMORY_HOST);
}

CUresult cuMemHostRegister(void *pointer, size_t bytes, unsigned flags)
{
    DRIVER_ENTER();
    (void)flags;
    return (CUresult)fake_memory_register(pointer, bytes);
}

CUresult cuMemHostUnregister(void *pointer)
{
    DRIVER_ENTER();
    return (CUresult)fake_memory_unregister(pointer);
}

CUresult cuMemHostGetDevicePointer(CUdeviceptr *device_pointer, void *pointer, unsigned flags)
{
    DRIVER_ENTER();
    struct fake_memory memory;
    if (!device_pointer || flags || !fake_memory_find(pointer, &memory))
        return CUDA_ERROR_INVALID_VALUE;
    *device_pointer = (CUdeviceptr)(uintptr_t)pointer;
    return CUDA_SUCCESS;
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t bytes, CUstream stream)
{
    DRIVER_ENTER();
    return (CUresult)fake_fill(address_of(to), bytes, value, bytes, 1, stream);
}

static CUresult copy(CUdeviceptr to, CUdeviceptr from, size_t bytes, enum cudaMemcpyKind kind, CUstream stream)
{
    DRIVER_ENTER();
    const struct fake_copy plain = {address_of(to), address_of(from), bytes, 1, bytes, bytes};
    return (CUresult)fake_copy(&plain, kind, stream, false);
}

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    return copy(to, from, bytes, cudaMemcpyDefault, stream);
}

CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    return copy(to, from, bytes, cudaMemcpyDeviceToDevice, stream);
}

CUresult cuMemcpyDtoHAsync(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    return copy((CUdeviceptr)(uintptr_t)to, from, bytes, cudaMemcpyDeviceToHost, stream);
}

CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
    return copy(to, (CUdeviceptr)(uintptr_t)from, bytes, cudaMemcpyHostToDevice, stream);
}
