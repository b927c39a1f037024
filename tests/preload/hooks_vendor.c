/*
 * A CUDA runtime and an NCCL in small, built twice: MARK says which it is. Each knows its own communicators only.
 */
#ifndef MARK
#define MARK 1
#endif

#include <cuda_runtime_api.h>
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef VENDOR_CUDART

cudaError_t cudaLaunchKernel(const void *function, dim3 grid, dim3 block, void **args, size_t shared_bytes,
                             cudaStream_t stream)
{
    (void)function, (void)grid, (void)block, (void)args, (void)shared_bytes, (void)stream;
    return (cudaError_t)MARK;
}

cudaError_t cudaMalloc(void **memory, size_t size)
{
    (void)memory, (void)size;
    return (cudaError_t)MARK;
}

#else

ncclResult_t ncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);

struct ncclComm {
    int mark;
};

static ncclResult_t check(ncclComm_t comm, const char *function)
{
    if (comm != NULL && comm->mark == MARK)
        return ncclSuccess;
    printf("library %d: %s of a foreign communicator\n", MARK, function);
    return ncclInternalError;
}

static _Thread_local int depth; /* of the group: each thread has its own, as in NCCL */

ncclResult_t ncclGroupStart(void)
{
    depth++;
    return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void)
{
    return depth-- > 0 ? ncclSuccess : ncclInvalidUsage;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    memset(id, MARK, sizeof *id);
    return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t *comm, int nranks, ncclUniqueId id, int rank)
{
    if (nranks != 1 || rank != 0 || id.internal[0] != MARK)
        return ncclInvalidArgument;
    *comm = malloc(sizeof **comm);
    (*comm)->mark = MARK;
    return ncclSuccess;
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *child, ncclConfig_t *config)
{
    ncclUniqueId id;
    (void)color, (void)key, (void)config;
    memset(&id, MARK, sizeof id);
    ncclResult_t result = check(comm, "ncclCommSplit");
    return result == ncclSuccess ? ncclCommInitRank(child, 1, id, 0) : result;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    ncclResult_t result = check(comm, "ncclCommDestroy");
    free(comm);
    return result;
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int *count)
{
    *count = 1;
    return check(comm, "ncclCommCount");
}

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int *rank)
{
    *rank = 0;
    return check(comm, "ncclCommUserRank");
}

ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int *device)
{
    *device = 0;
    return check(comm, "ncclCommCuDevice");
}

#define COLLECTIVE(name, ...)                    \
    ncclResult_t name(__VA_ARGS__)               \
    {                                            \
        (void)send, (void)receive, (void)stream; \
        (void)count, (void)type;                 \
        return check(comm, #name);               \
    }

COLLECTIVE(ncclAllGather, const void *send, void *receive, size_t count, ncclDataType_t type, ncclComm_t comm,
           cudaStream_t stream)
COLLECTIVE(ncclReduceScatter, const void *send, void *receive, size_t count, ncclDataType_t type,
           ncclRedOp_t __attribute__((unused)) redop, ncclComm_t comm, cudaStream_t stream)
COLLECTIVE(ncclAllReduce, const void *send, void *receive, size_t count, ncclDataType_t type,
           ncclRedOp_t __attribute__((unused)) redop, ncclComm_t comm, cudaStream_t stream)

#endif
