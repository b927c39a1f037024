/*
 * Kernels as work of a stream: the host twin runs on the stream's thread with a copy of the arguments that was made
 * at launch.
 */
#include "engine_internal.h"

#include <stdlib.h>
#include <string.h>

#define ARGUMENT_ALIGNMENT 16

struct kernel_work {
    struct fake_twin twin;
    dim3 grid;
    dim3 block;
    uint64_t ns;
    void **args; /* into `values` */
    char *values;
};

static uint64_t kernel_run(void *payload, uint64_t ready)
{
    struct kernel_work *work = payload;
    work->twin.run(work->grid, work->block, work->args);
    return ready + work->ns;
}

static void kernel_release(void *payload)
{
    struct kernel_work *work = payload;
    free(work->args);
    free(work->values);
    free(work);
}

static size_t padded(size_t size)
{
    return (size + ARGUMENT_ALIGNMENT - 1) / ARGUMENT_ALIGNMENT * ARGUMENT_ALIGNMENT;
}

static void arguments_copy(struct kernel_work *work, void **args)
{
    const size_t *sizes = work->twin.arg_sizes;
    size_t count = 0, bytes = 0;
    for (; sizes[count]; count++)
        bytes += padded(sizes[count]);
    work->args = fake_need(calloc(count + 1, sizeof *work->args));
    work->values = fake_need(aligned_alloc(ARGUMENT_ALIGNMENT, bytes + ARGUMENT_ALIGNMENT));
    char *value = work->values;
    for (size_t i = 0; i < count; i++) {
        work->args[i] = memcpy(value, args[i], sizes[i]);
        value += padded(sizes[i]);
    }
}

static bool shape_valid(dim3 grid, dim3 block)
{
    return grid.x && grid.y && grid.z && block.x && block.y && block.z &&
           block.z <= (unsigned)fake_device_attribute(cudaDevAttrMaxBlockDimZ) &&
           (uint64_t)block.x * block.y * block.z <= (uint64_t)fake_device_attribute(cudaDevAttrMaxThreadsPerBlock);
}

static uint64_t cost_ns(const struct kernel_work *work)
{
    if (!work->twin.cost_us)
        return fake_config()->kernel_ns;
    double us = work->twin.cost_us(work->grid, work->block, work->args);
    return us > 0 ? (uint64_t)(us * 1e3 + 0.5) : 0;
}

cudaError_t fake_kernel_launch(const struct fake_twin *twin, dim3 grid, dim3 block, void **args, cudaStream_t stream)
{
    cudaError_t error = fake_stream_check_device(stream);
    if (error != cudaSuccess)
        return error;
    if (!shape_valid(grid, block))
        return cudaErrorInvalidConfiguration;
    if (twin->arg_sizes[0] && !args)
        return cudaErrorInvalidValue;
    struct kernel_work *work = fake_need(calloc(1, sizeof *work));
    work->twin = *twin;
    work->grid = grid;
    work->block = block;
    arguments_copy(work, args);
    work->ns = cost_ns(work);
    return fake_submit(stream, &(struct fake_work){kernel_run, kernel_release, work, NULL}, NULL);
}
