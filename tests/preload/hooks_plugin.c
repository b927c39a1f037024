/* A library linked with one vendor (hooks_vendor.c): says whom its calls reach. Loaded privately by hooks_two.c. */
#include "tests/preload/hooks_plugin.h"

#include "shim/real.h"

int plugin_cuda(void)
{
    static const dim3 one = {1, 1, 1};
    int malloc_mark = (int)cudaMalloc(NULL, 1), launch_mark = (int)cudaLaunchKernel(NULL, one, one, NULL, 0, NULL);
    return malloc_mark == launch_mark ? malloc_mark : -1;
}

static ncclResult_t use(ncclComm_t comm)
{
    ncclComm_t child;
    ncclResult_t result = ncclAllGather(NULL, NULL, 0, ncclInt8, comm, NULL);
    if (result == ncclSuccess)
        result = ncclCommSplit(comm, 0, 0, &child, NULL);
    if (result == ncclSuccess)
        result = ncclAllReduce(NULL, NULL, 0, ncclInt8, ncclSum, child, NULL);
    return result == ncclSuccess ? ncclCommDestroy(child) : result;
}

int plugin_nccl(void)
{
    ncclUniqueId id;
    ncclComm_t comm;
    if (ncclGroupStart() != ncclSuccess || ncclGroupEnd() != ncclSuccess || ncclGetUniqueId(&id) != ncclSuccess)
        return -1;
    if (ncclCommInitRank(&comm, 1, id, 0) != ncclSuccess || use(comm) != ncclSuccess)
        return -2;
    return ncclCommDestroy(comm) == ncclSuccess ? id.internal[0] : -3;
}

int plugin_group_start(void)
{
    return (int)ncclGroupStart();
}

int plugin_group_end(void)
{
    return (int)ncclGroupEnd();
}

void *plugin_vendor(void)
{
    return (void *)ncclCommCount; /* not interposed */
}
