/*
 * Modules of the driver. Any image loads; a function is looked up by name among the kernels that the stand-in can
 * run itself, which are those of libreprise. Their modelled cost is one pass over what they read.
 */
#include "driver_private.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "shim/fingerprint.h"
#include "shim/pack.h"

struct CUfunc_st {
    const char *name;
    struct fake_twin twin;
};

struct CUmod_st {
    const void *image;
};

static const size_t fingerprint_sizes[] = {sizeof(void *), sizeof(uint64_t), sizeof(uint64_t), sizeof(uint64_t),
                                           sizeof(void *), sizeof(void *),   sizeof(uint64_t), 0};

static void fingerprint_run(dim3 grid, dim3 block, void **args)
{
    (void)grid, (void)block;
    const void *data = *(const void **)args[0];
    struct rp_fingerprint_entry *entry = *(struct rp_fingerprint_entry **)args[5];
    rp_fingerprint_host(data, *(uint64_t *)args[1], *(uint64_t *)args[2], *(uint64_t *)args[3], entry->value);
    /* The host polls the tag with acquire. */
    __atomic_store_n(&entry->tag, *(uint64_t *)args[6], __ATOMIC_RELEASE);
}

static double fingerprint_cost_us(dim3 grid, dim3 block, void **args)
{
    (void)grid, (void)block;
    uint64_t bytes = *(uint64_t *)args[1];
    uint64_t read = rp_fingerprint_pages_of(bytes, *(uint64_t *)args[2]).groups * RP_FINGERPRINT_PAGE;
    return (double)fake_transfer_ns(read < bytes ? read : bytes, fake_config()->hbm_gbps) / 1e3;
}

static const size_t compare_sizes[] = {sizeof(void *), sizeof(void *),   sizeof(uint64_t),
                                       sizeof(void *), sizeof(uint64_t), sizeof(void *),
                                       sizeof(void *), sizeof(uint64_t), 0};

static void compare_run(dim3 grid, dim3 block, void **args)
{
    (void)grid, (void)block;
    const uint64_t *serial = *(const uint64_t **)args[3];
    struct rp_compare_entry *entry = *(struct rp_compare_entry **)args[6];
    int equal = rp_compare_host(*(const void **)args[0], *(const void **)args[1], *(uint64_t *)args[2], *serial,
                                *(uint64_t *)args[4]);
    /* The host polls the word with acquire. */
    __atomic_store_n(&entry->word, rp_compare_word(*(uint64_t *)args[7], equal), __ATOMIC_RELEASE);
}

static double compare_cost_us(dim3 grid, dim3 block, void **args)
{
    (void)grid, (void)block;
    return (double)fake_transfer_ns(2 * *(uint64_t *)args[2], fake_config()->hbm_gbps) / 1e3;
}

static const size_t stamp_sizes[] = {sizeof(void *), sizeof(uint64_t), 0};

static void stamp_run(dim3 grid, dim3 block, void **args)
{
    (void)grid, (void)block;
    **(uint64_t **)args[0] = *(uint64_t *)args[1];
}

static double stamp_cost_us(dim3 grid, dim3 block, void **args)
{
    (void)grid, (void)block, (void)args;
    return (double)fake_transfer_ns(sizeof(uint64_t), fake_config()->hbm_gbps) / 1e3;
}

/* ---------------------------------------------------------------- packed units */

static const size_t pack_sizes[] = {sizeof(void *), sizeof(uint64_t), sizeof(void *), sizeof(uint32_t), 0};

static void pack_run(dim3 grid, dim3 block, void **args)
{
    (void)grid, (void)block;
    rp_pack_host(*(const void **)args[0], *(uint64_t *)args[1], *(void **)args[2], *(uint32_t *)args[3]);
}

static double pack_cost_us(dim3 grid, dim3 block, void **args)
{
    (void)grid, (void)block;
    return (double)fake_transfer_ns(2 * *(uint64_t *)args[1] * *(uint32_t *)args[3], fake_config()->hbm_gbps) / 1e3;
}

static const size_t pack_stamp_sizes[] = {
    sizeof(void *), sizeof(uint64_t), sizeof(uint32_t), sizeof(void *), sizeof(uint64_t), sizeof(void *), 0};

static void pack_stamp_run(dim3 grid, dim3 block, void **args)
{
    (void)grid, (void)block;
    int fits = rp_packed_fits(*(const void **)args[0], *(uint64_t *)args[1], *(uint32_t *)args[2]);
    **(uint64_t **)args[3] = fits ? *(uint64_t *)args[4] : RP_SERIAL_NONE;
    /* The host polls it, and orders nothing by it. */
    if (!fits)
        __atomic_store_n(*(uint64_t **)args[5], 1, __ATOMIC_RELAXED);
}

static const size_t unpack_sizes[] = {
    sizeof(void *), sizeof(uint64_t), sizeof(uint32_t), sizeof(uint32_t), sizeof(uint32_t), sizeof(void *), 0};

static void unpack(void **args, int list)
{
    rp_unpack_host(*(const void **)args[0], *(uint64_t *)args[1], *(uint32_t *)args[2], *(uint32_t *)args[3],
                   *(uint32_t *)args[4], *(void **)args[5], list);
}

static void unpack_run(dim3 grid, dim3 block, void **args)
{
    (void)grid, (void)block;
    unpack(args, 0);
}

static void unpack_list_run(dim3 grid, dim3 block, void **args)
{
    (void)grid, (void)block;
    unpack(args, 1);
}

static double unpack_cost_us(dim3 grid, dim3 block, void **args)
{
    (void)grid, (void)block;
    return (double)fake_transfer_ns(2 * *(uint64_t *)args[1] * *(uint32_t *)args[4], fake_config()->hbm_gbps) / 1e3;
}

static const size_t compare_packed_sizes[] = {sizeof(void *),
                                              sizeof(void *),
                                              sizeof(uint64_t),
                                              sizeof(uint32_t),
                                              sizeof(uint32_t),
                                              sizeof(void *),
                                              sizeof(uint64_t),
                                              sizeof(void *),
                                              sizeof(void *),
                                              sizeof(uint64_t),
                                              0};

static void compare_packed_run(dim3 grid, dim3 block, void **args)
{
    (void)grid, (void)block;
    struct rp_compare_entry *entry = *(struct rp_compare_entry **)args[8];
    int equal = rp_compare_packed_host(*(const void **)args[0], *(const void **)args[1], *(uint64_t *)args[2],
                                       *(uint32_t *)args[3], *(uint32_t *)args[4], **(const uint64_t **)args[5],
                                       *(uint64_t *)args[6]);
    /* The host polls the word with acquire. */
    __atomic_store_n(&entry->word, rp_compare_word(*(uint64_t *)args[9], equal), __ATOMIC_RELEASE);
}

static struct CUfunc_st functions[] = {
    {RP_FINGERPRINT_KERNEL, {fingerprint_run, fingerprint_cost_us, fingerprint_sizes}},
    {RP_COMPARE_KERNEL, {compare_run, compare_cost_us, compare_sizes}},
    {RP_STAMP_KERNEL, {stamp_run, stamp_cost_us, stamp_sizes}},
    {RP_PACK_KERNEL, {pack_run, pack_cost_us, pack_sizes}},
    {RP_PACK_STAMP_KERNEL, {pack_stamp_run, stamp_cost_us, pack_stamp_sizes}},
    {RP_UNPACK_KERNEL, {unpack_run, unpack_cost_us, unpack_sizes}},
    {RP_UNPACK_LIST_KERNEL, {unpack_list_run, stamp_cost_us, unpack_sizes}},
    {RP_COMPARE_PACKED_KERNEL, {compare_packed_run, compare_cost_us, compare_packed_sizes}},
};

CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
    DRIVER_ENTER();
    if (!module || !image)
        return CUDA_ERROR_INVALID_VALUE;
    struct CUmod_st *loaded = malloc(sizeof *loaded);
    if (!loaded)
        return CUDA_ERROR_OUT_OF_MEMORY;
    loaded->image = image;
    *module = loaded;
    return CUDA_SUCCESS;
}

CUresult cuModuleUnload(CUmodule module)
{
    DRIVER_ENTER();
    if (!module)
        return CUDA_ERROR_INVALID_HANDLE;
    free(module);
    return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    DRIVER_ENTER();
    if (!function || !module || !name)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (strcmp(functions[i].name, name) == 0) {
            *function = &functions[i];
            return CUDA_SUCCESS;
        }
    return CUDA_ERROR_NOT_FOUND;
}

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction function)
{
    DRIVER_ENTER();
    if (!value || !function)
        return CUDA_ERROR_INVALID_VALUE;
    switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        *value = fake_device_attribute(cudaDevAttrMaxThreadsPerBlock);
        break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
        *value = 32;
        break;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
        *value = 90;
        break;
    default:
        *value = 0;
    }
    return CUDA_SUCCESS;
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value)
{
    DRIVER_ENTER();
    (void)attribute, (void)value;
    return function ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                        unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream stream, void **args,
                        void **extra)
{
    DRIVER_ENTER();
    if (!function)
        return CUDA_ERROR_INVALID_HANDLE;
    if (extra || shared_bytes > (unsigned)fake_device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin))
        return CUDA_ERROR_INVALID_VALUE;
    cudaError_t error = fake_kernel_launch(&function->twin, (dim3){grid_x, grid_y, grid_z},
                                           (dim3){block_x, block_y, block_z}, args, stream);
    return error == cudaErrorInvalidConfiguration ? CUDA_ERROR_INVALID_VALUE : (CUresult)error;
}
