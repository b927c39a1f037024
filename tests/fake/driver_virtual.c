/*
 * The driver's ranges of addresses and physical memory (cuMemAddressReserve, cuMemCreate): pinned memory of a device,
 * mapped whole.
 */
#include "driver_private.h"

static void *address_of(CUdeviceptr pointer)
{
    return (void *)(uintptr_t)pointer;
}

static CUresult location_check(CUmemLocation location)
{
    return location.type == CU_MEM_LOCATION_TYPE_DEVICE ? (CUresult)fake_device_check(location.id)
                                                        : CUDA_ERROR_INVALID_VALUE;
}

static CUresult properties_check(const CUmemAllocationProp *properties)
{
    if (!properties)
        return CUDA_ERROR_INVALID_VALUE;
    if (properties->type != CU_MEM_ALLOCATION_TYPE_PINNED || properties->requestedHandleTypes != 0)
        return CUDA_ERROR_NOT_SUPPORTED;
    return location_check(properties->location);
}

CUresult cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *properties,
                                       CUmemAllocationGranularity_flags option)
{
    CUresult result = granularity ? properties_check(properties) : CUDA_ERROR_INVALID_VALUE;
    (void)option; /* the least is what is recommended */
    if (result == CUDA_SUCCESS)
        *granularity = FAKE_GRANULARITY;
    return result;
}

CUresult cuMemAddressReserve(CUdeviceptr *base, size_t bytes, size_t alignment, CUdeviceptr wish,
                             unsigned long long flags)
{
    void *reserved;
    (void)wish;
    if (!base || flags || (alignment & (alignment - 1)) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (alignment > FAKE_GRANULARITY)
        return CUDA_ERROR_NOT_SUPPORTED;
    CUresult result = (CUresult)fake_start();
    if (result == CUDA_SUCCESS)
        result = (CUresult)fake_virtual_reserve(&reserved, bytes);
    if (result == CUDA_SUCCESS)
        *base = (CUdeviceptr)(uintptr_t)reserved;
    return result;
}

CUresult cuMemAddressFree(CUdeviceptr base, size_t bytes)
{
    return (CUresult)fake_virtual_free(address_of(base), bytes);
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes, const CUmemAllocationProp *properties,
                     unsigned long long flags)
{
    CUresult result = handle && !flags ? properties_check(properties) : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        result = (CUresult)fake_capture_unsafe();
    if (result != CUDA_SUCCESS)
        return result;
    struct fake_physical *physical;
    if (fake_fault_next(FAKE_FAULT_CUALLOC))
        return CUDA_ERROR_OUT_OF_MEMORY;
    result = (CUresult)fake_physical_create(&physical, bytes, properties->location.id);
    if (result == CUDA_SUCCESS)
        *handle = (CUmemGenericAllocationHandle)(uintptr_t)physical;
    return result;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
    return (CUresult)fake_physical_release((struct fake_physical *)(uintptr_t)handle);
}

CUresult cuMemMap(CUdeviceptr base, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags)
{
    if (offset || flags)
        return CUDA_ERROR_INVALID_VALUE;
    return (CUresult)fake_virtual_map(address_of(base), bytes, (struct fake_physical *)(uintptr_t)handle);
}

CUresult cuMemUnmap(CUdeviceptr base, size_t bytes)
{
    return (CUresult)fake_virtual_unmap(address_of(base), bytes);
}

/* Of one device: all threads of the process may touch it then. */
CUresult cuMemSetAccess(CUdeviceptr base, size_t bytes, const CUmemAccessDesc *access, size_t count)
{
    if (!access || count != 1 ||
        (access->flags != CU_MEM_ACCESS_FLAGS_PROT_NONE && access->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = location_check(access->location);
    if (result != CUDA_SUCCESS)
        return result;
    return (CUresult)fake_virtual_access(address_of(base), bytes, access->flags != CU_MEM_ACCESS_FLAGS_PROT_NONE);
}
