/* Arrays, which the stand-in runtime lacks: as much of them as shows who was called. */
#include <cuda_runtime_api.h>
#include <stdlib.h>

static cudaError_t make(void *array_out)
{
    if (array_out == NULL)
        return cudaErrorInvalidValue;
    *(void **)array_out = malloc(1);
    return cudaSuccess;
}

static cudaError_t end(void *array)
{
    free(array);
    return cudaSuccess;
}

cudaError_t cudaMallocArray(cudaArray_t *array, const struct cudaChannelFormatDesc *format, size_t width, size_t height,
                            unsigned flags)
{
    (void)format, (void)width, (void)height, (void)flags;
    return make(array);
}

cudaError_t cudaMalloc3DArray(cudaArray_t *array, const struct cudaChannelFormatDesc *format, struct cudaExtent extent,
                              unsigned flags)
{
    (void)format, (void)extent, (void)flags;
    return make(array);
}

cudaError_t cudaMallocMipmappedArray(cudaMipmappedArray_t *array, const struct cudaChannelFormatDesc *format,
                                     struct cudaExtent extent, unsigned levels, unsigned flags)
{
    (void)format, (void)extent, (void)levels, (void)flags;
    return make(array);
}

cudaError_t cudaFreeArray(cudaArray_t array)
{
    return end(array);
}

cudaError_t cudaFreeMipmappedArray(cudaMipmappedArray_t array)
{
    return end(array);
}
