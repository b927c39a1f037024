/* A library that holds the host: ncclAllGather returns when the gather has been delivered. Any thread. */
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <nccl.h>
#include <string.h>

ncclResult_t ncclAllGather(const void *send, void *receive, size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream)
{
    __typeof__(ncclAllGather) *real;
    void *found = dlsym(RTLD_NEXT, "ncclAllGather");
    memcpy(&real, &found, sizeof real);
    ncclResult_t result = real(send, receive, count, type, comm, stream);
    return cudaStreamSynchronize(stream) == cudaSuccess ? result : ncclUnhandledCudaError;
}
