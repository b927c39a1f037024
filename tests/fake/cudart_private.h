/*
 * What the files of the stand-in CUDA runtime share, and the runtime's entries that have no C declaration.
 * Those are as in CUDA 13.0: crt/host_runtime.h and crt/device_functions.h.
 */
#ifndef FAKE_CUDART_PRIVATE_H
#define FAKE_CUDART_PRIVATE_H

#include "engine.h"

void **__cudaRegisterFatBinary(void *fat_binary);
void __cudaRegisterFatBinaryEnd(void **handle);
void __cudaUnregisterFatBinary(void **handle);
void __cudaRegisterFunction(void **handle, const char *host_function, char *device_function, const char *name,
                            int thread_limit, uint3 *thread, uint3 *block, dim3 *block_shape, dim3 *grid_shape,
                            int *warp_size);
void __cudaRegisterVar(void **handle, char *host_var, char *device_address, const char *name, int external, size_t size,
                       int constant, int global);
void __cudaRegisterManagedVar(void **handle, void **host_var, char *device_address, const char *name, int external,
                              size_t size, int constant, int global);
char __cudaInitModule(void **handle);
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes, struct CUstream_st *stream);
cudaError_t __cudaPopCallConfiguration(dim3 *grid_out, dim3 *block_out, size_t *shared_bytes_out, void *stream_out);
cudaError_t __cudaGetKernel(cudaKernel_t *kernel_out, const void *host_function);
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **args, size_t shared_bytes,
                               cudaStream_t stream);
cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t kernel, dim3 grid, dim3 block, void **args, size_t shared_bytes,
                                    cudaStream_t stream);

/* Keeps an error for cudaGetLastError of this thread, and returns it. */
cudaError_t fake_report(cudaError_t error);

/* The start of every entry that needs a device. */
#define FAKE_ENTER()                        \
    do {                                    \
        cudaError_t entered = fake_enter(); \
        if (entered != cudaSuccess)         \
            return fake_report(entered);    \
    } while (0)

/* The default stream of programs compiled for per-thread streams. */
static inline cudaStream_t fake_ptsz(cudaStream_t stream)
{
    return stream ? stream : cudaStreamPerThread;
}

/* The two names of an entry that takes `stream`: `body` is a function with the same parameters. */
#define FAKE_STREAM_ENTRY(name, body, parameters, arguments) \
    __typeof__(name) name##_ptsz;                            \
    cudaError_t name parameters                              \
    {                                                        \
        FAKE_ENTER();                                        \
        return fake_report(body arguments);                  \
    }                                                        \
    cudaError_t name##_ptsz parameters                       \
    {                                                        \
        FAKE_ENTER();                                        \
        stream = fake_ptsz(stream);                          \
        return fake_report(body arguments);                  \
    }

/* The twin of a kernel, by stub address or handle; NULL if it is not registered or has no twin. */
const struct fake_twin *fake_kernel_twin(const void *function);
const char *fake_kernel_name(const void *function);

#endif
