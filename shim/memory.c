#include "shim/memory.h"

#include "shim/gather.h"
#include "shim/slots.h"

bool rp_memory_error_clear(const struct rp_cudart *real)
{
    return rp_gather_configured() && real->cudaPeekAtLastError != NULL && real->cudaPeekAtLastError() == cudaSuccess;
}

bool rp_memory_give_back(const struct rp_cudart *real)
{
    int device;
    if (!rp_gather_configured() || real->cudaGetDevice == NULL || real->cudaGetDevice(&device) != cudaSuccess)
        return false;
    return rp_slots_reclaim(device);
}

void rp_memory_retried(const struct rp_cudart *real, cudaError_t result, bool clear)
{
    if (result == cudaSuccess && clear && real->cudaGetLastError != NULL)
        real->cudaGetLastError();
}
