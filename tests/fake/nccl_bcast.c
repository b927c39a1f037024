/*
 * ncclBcast, apart from ncclBroadcast, which it calls by its public name as the real one does: a tool that wraps
 * ncclBroadcast sees the inner call.
 */
#include "nccl_private.h"

ncclResult_t pncclBcast(void *buffer, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
                        cudaStream_t stream)
{
    return ncclBroadcast(buffer, buffer, count, datatype, root, comm, stream);
}
NCCL_WEAK(Bcast);
