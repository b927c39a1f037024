/*
 * Functions that nvcc's generated code calls and no public header declares for C.
 * Source: crt/host_runtime.h and crt/device_functions.h of CUDA 13.0 (__cudaRegisterFunction is the same in 11 and 12);
 * tests/unit/cuda_private_check.cu compiles these against the toolkit's own declarations.
 */
#ifndef RP_CUDA_PRIVATE_H
#define RP_CUDA_PRIVATE_H

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

cudaError_t CUDARTAPI __cudaGetKernel(cudaKernel_t *kernel, const void *entry);
cudaError_t CUDARTAPI __cudaLaunchKernel(cudaKernel_t kernel, dim3 gridDim, dim3 blockDim, void **args,
                                         size_t sharedMem, cudaStream_t stream);
void CUDARTAPI __cudaRegisterFunction(void **fatCubinHandle, const char *hostFun, char *deviceFun,
                                      const char *deviceName, int thread_limit, uint3 *tid, uint3 *bid, dim3 *bDim,
                                      dim3 *gDim, int *wSize);

#ifdef __cplusplus
}
#endif

#endif
