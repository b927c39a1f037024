/*
 * Launches. All names lead to launch(); the configuration of <<<>>> waits on a stack of the calling thread.
 */
#include "cudart_private.h"

#include <string.h>

#define CONFIGURATIONS_MAX 8

static _Thread_local struct {
    dim3 grid, block;
    size_t shared_bytes;
    cudaStream_t stream;
} configurations[CONFIGURATIONS_MAX];
static _Thread_local int configuration_count;

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes, struct CUstream_st *stream)
{
    if (configuration_count == CONFIGURATIONS_MAX)
        return 1;
    configurations[configuration_count].grid = grid;
    configurations[configuration_count].block = block;
    configurations[configuration_count].shared_bytes = shared_bytes;
    configurations[configuration_count++].stream = stream;
    return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3 *grid_out, dim3 *block_out, size_t *shared_bytes_out, void *stream_out)
{
    if (configuration_count == 0)
        return fake_report(cudaErrorMissingConfiguration);
    configuration_count--;
    *grid_out = configurations[configuration_count].grid;
    *block_out = configurations[configuration_count].block;
    *shared_bytes_out = configurations[configuration_count].shared_bytes;
    *(cudaStream_t *)stream_out = configurations[configuration_count].stream;
    return cudaSuccess;
}

static cudaError_t launch(const void *function, dim3 grid, dim3 block, void **args, size_t shared_bytes,
                          cudaStream_t stream)
{
    const struct fake_twin *twin = fake_kernel_twin(function);
    if (!twin)
        return cudaErrorInvalidDeviceFunction;
    if (shared_bytes > (size_t)fake_device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin))
        return cudaErrorInvalidValue;
    return fake_kernel_launch(twin, grid, block, args, stream);
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **args, size_t shared_bytes,
                               cudaStream_t stream)
{
    FAKE_ENTER();
    return fake_report(launch(kernel, grid, block, args, shared_bytes, stream));
}

cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t kernel, dim3 grid, dim3 block, void **args, size_t shared_bytes,
                                    cudaStream_t stream)
{
    FAKE_ENTER();
    return fake_report(launch(kernel, grid, block, args, shared_bytes, fake_ptsz(stream)));
}

FAKE_STREAM_ENTRY(cudaLaunchKernel, launch,
                  (const void *function, dim3 grid, dim3 block, void **args, size_t shared_bytes, cudaStream_t stream),
                  (function, grid, block, args, shared_bytes, stream))
FAKE_STREAM_ENTRY(cudaLaunchCooperativeKernel, launch,
                  (const void *function, dim3 grid, dim3 block, void **args, size_t shared_bytes, cudaStream_t stream),
                  (function, grid, block, args, shared_bytes, stream))

__typeof__(cudaLaunchKernelExC) cudaLaunchKernelExC_ptsz;

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *function, void **args)
{
    FAKE_ENTER();
    if (!config)
        return fake_report(cudaErrorInvalidValue);
    return fake_report(
        launch(function, config->gridDim, config->blockDim, args, config->dynamicSmemBytes, config->stream));
}

cudaError_t cudaLaunchKernelExC_ptsz(const cudaLaunchConfig_t *config, const void *function, void **args)
{
    if (!config)
        return fake_report(cudaErrorInvalidValue);
    cudaLaunchConfig_t mapped = *config;
    mapped.stream = fake_ptsz(config->stream);
    return cudaLaunchKernelExC(&mapped, function, args);
}

FAKE_STREAM_ENTRY(cudaLaunchHostFunc, fake_host_function, (cudaStream_t stream, cudaHostFn_t function, void *data),
                  (function, data, stream))

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attributes, const void *function)
{
    FAKE_ENTER();
    if (!attributes)
        return fake_report(cudaErrorInvalidValue);
    if (!fake_kernel_name(function))
        return fake_report(cudaErrorInvalidDeviceFunction);
    memset(attributes, 0, sizeof *attributes);
    attributes->maxThreadsPerBlock = fake_device_attribute(cudaDevAttrMaxThreadsPerBlock);
    attributes->numRegs = 32;
    attributes->ptxVersion = attributes->binaryVersion = 90;
    attributes->maxDynamicSharedSizeBytes = fake_device_attribute(cudaDevAttrMaxSharedMemoryPerBlock);
    return cudaSuccess;
}

cudaError_t cudaFuncGetName(const char **name, const void *function)
{
    FAKE_ENTER();
    const char *found = fake_kernel_name(function);
    if (!name || !found)
        return fake_report(name ? cudaErrorInvalidDeviceFunction : cudaErrorInvalidValue);
    *name = found;
    return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void *function, enum cudaFuncAttribute attribute, int value)
{
    FAKE_ENTER();
    (void)attribute, (void)value;
    return fake_report(fake_kernel_name(function) ? cudaSuccess : cudaErrorInvalidDeviceFunction);
}

cudaError_t cudaFuncSetCacheConfig(const void *function, enum cudaFuncCache config)
{
    (void)config;
    return cudaFuncSetAttribute(function, cudaFuncAttributePreferredSharedMemoryCarveout, 0);
}

/* The vendor declares it only where cuda_runtime.h is compiled as C++, as a template beside this one. */
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *function, int block_size,
                                                          size_t shared_bytes)
{
    FAKE_ENTER();
    (void)shared_bytes;
    if (!blocks || block_size <= 0)
        return fake_report(cudaErrorInvalidValue);
    if (!fake_kernel_name(function))
        return fake_report(cudaErrorInvalidDeviceFunction);
    int by_threads = fake_device_attribute(cudaDevAttrMaxThreadsPerMultiProcessor) / block_size;
    int most = fake_device_attribute(cudaDevAttrMaxBlocksPerMultiprocessor);
    *blocks = by_threads < most ? by_threads : most;
    return cudaSuccess;
}
