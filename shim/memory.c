#include "shim/memory.h"

#include "shim/gather.h"
#include "shim/pause.h"
#include "shim/slots.h"

/* Two milliseconds. */
#define TRIES 20
#define MOMENT_NS 100000

bool rp_memory_error_clear(const struct rp_cudart *real)
{
    return rp_gather_configured() && real->cudaPeekAtLastError != NULL && real->cudaPeekAtLastError() == cudaSuccess;
}

bool rp_memory_give_back(const struct rp_cudart *real)
{
    int device;
    if (!rp_gather_configured() || real->cudaGetDevice == NULL || real->cudaGetDevice(&device) != cudaSuccess)
        return false;
    /* a set of slots that is at work just now is passed over: it will not be for long */
    for (int i = 0; i < TRIES && rp_slots_held(device) > 0; i++) {
        if (rp_slots_reclaim(device))
            return true;
        rp_pause_ns(MOMENT_NS);
    }
    return false;
}

void rp_memory_retried(const struct rp_cudart *real, cudaError_t result, bool clear)
{
    if (result == cudaSuccess && clear && real->cudaGetLastError != NULL)
        real->cudaGetLastError();
}
