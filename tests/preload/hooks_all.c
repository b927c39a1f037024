/*
 * Calls every interposed function, right and wrong, on two devices in one process, and prints each call with its
 * result and what it delivered: the same with the library in front or without. Functions of arrays are those of
 * hooks_arrays.c, since the stand-in has none.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "shim/real.h"

#define EXPORT __attribute__((visibility("default")))
#define RANKS 2
#define COUNT 64

extern __typeof__(cudaLaunchKernel) cudaLaunchKernel_ptsz;
extern __typeof__(cudaLaunchCooperativeKernel) cudaLaunchCooperativeKernel_ptsz;
extern __typeof__(__cudaLaunchKernel) __cudaLaunchKernel_ptsz;
extern __typeof__(cudaLaunchKernelExC) cudaLaunchKernelExC_ptsz;
extern __typeof__(cudaGraphLaunch) cudaGraphLaunch_ptsz;
extern __typeof__(cudaEventRecord) cudaEventRecord_ptsz;
extern __typeof__(cudaEventRecordWithFlags) cudaEventRecordWithFlags_ptsz;
extern __typeof__(cudaStreamWaitEvent) cudaStreamWaitEvent_ptsz;
extern __typeof__(cudaMallocAsync) cudaMallocAsync_ptsz;
extern __typeof__(cudaMallocFromPoolAsync) cudaMallocFromPoolAsync_ptsz;
extern __typeof__(cudaFreeAsync) cudaFreeAsync_ptsz;
void **__cudaRegisterFatBinary(void *binary);
void __cudaRegisterFatBinaryEnd(void **handle);

/* Calls by name, prints the result. */
#define CALL(name, ...) printf(#name " = %d\n", (int)name(__VA_ARGS__))

static ncclComm_t comms[RANKS];
static cudaStream_t streams[RANKS];
static int *sends[RANKS], *receives[RANKS];

/* ---------------------------------------------------------------- a kernel and its host twin */

EXPORT void count_up_host(dim3 grid, dim3 block, void **args);
EXPORT extern const size_t count_up_arg_sizes[];
const size_t count_up_arg_sizes[] = {sizeof(int *), 0};
static char count_up;

void count_up_host(dim3 grid, dim3 block, void **args)
{
    (void)grid, (void)block;
    ++**(int **)args[0];
}

static void kernels_register(void)
{
    static int binary;
    void **handle = __cudaRegisterFatBinary(&binary);
    __cudaRegisterFunction(handle, &count_up, &count_up, "count_up", -1, NULL, NULL, NULL, NULL, NULL);
    __cudaRegisterFatBinaryEnd(handle);
    puts("__cudaRegisterFunction");
}

static void launches(void)
{
    static const dim3 one = {1, 1, 1};
    int *counter = sends[0], value;
    void *args[] = {&counter};
    cudaKernel_t kernel = NULL;
    cudaLaunchConfig_t config = {.gridDim = one, .blockDim = one, .stream = streams[0]};
    cudaMemsetAsync(counter, 0, sizeof value, streams[0]);
    CALL(__cudaGetKernel, &kernel, &count_up);
    CALL(__cudaGetKernel, &kernel, &kernel);
    CALL(cudaLaunchKernel, &count_up, one, one, args, 0, streams[0]);
    CALL(cudaLaunchKernel_ptsz, &count_up, one, one, args, 0, streams[0]);
    CALL(cudaLaunchCooperativeKernel, &count_up, one, one, args, 0, streams[0]);
    CALL(cudaLaunchCooperativeKernel_ptsz, &count_up, one, one, args, 0, streams[0]);
    CALL(__cudaLaunchKernel, kernel, one, one, args, 0, streams[0]);
    CALL(__cudaLaunchKernel_ptsz, kernel, one, one, args, 0, streams[0]);
    CALL(cudaLaunchKernelExC, &config, &count_up, args);
    CALL(cudaLaunchKernelExC_ptsz, &config, &count_up, args);
    CALL(cudaLaunchKernel, NULL, one, one, args, 0, streams[0]);
    CALL(cudaLaunchKernelExC, NULL, &count_up, args);
    CALL(cudaGetLastError, );
    cudaStreamSynchronize(streams[0]);
    cudaMemcpy(&value, counter, sizeof value, cudaMemcpyDeviceToHost);
    printf("launched %d\n", value);
}

static void graphs(void)
{
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cudaStreamBeginCapture(streams[0], cudaStreamCaptureModeGlobal);
    cudaStreamEndCapture(streams[0], &graph);
    cudaGraphInstantiate(&exec, graph, 0);
    CALL(cudaGraphLaunch, exec, streams[0]);
    CALL(cudaGraphLaunch_ptsz, exec, streams[0]);
    CALL(cudaGraphLaunch, NULL, streams[0]);
    CALL(cudaGetLastError, );
    cudaStreamSynchronize(streams[0]);
    cudaGraphExecDestroy(exec);
    cudaGraphDestroy(graph);
}

static void events(void)
{
    cudaStream_t other;
    cudaEvent_t event;
    cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
    cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
    CALL(cudaEventRecord, event, streams[0]);
    CALL(cudaStreamWaitEvent, other, event, 0);
    CALL(cudaEventRecord_ptsz, event, NULL);
    CALL(cudaStreamWaitEvent_ptsz, NULL, event, 0);
    CALL(cudaEventRecordWithFlags, event, streams[0], 0);
    CALL(cudaEventRecordWithFlags_ptsz, event, streams[0], 0);
    CALL(cudaEventRecord, NULL, streams[0]);
    CALL(cudaEventRecordWithFlags, event, streams[0], 77);
    CALL(cudaStreamWaitEvent, other, NULL, 0);
    CALL(cudaStreamWaitEvent, other, event, 77);
    CALL(cudaGetLastError, );
    cudaStreamSynchronize(other);
    cudaEventDestroy(event);
    cudaStreamDestroy(other);
}

/* ---------------------------------------------------------------- memory */

static void memory(void)
{
    void *memory;
    size_t pitch;
    struct cudaPitchedPtr pitched;
    cudaMemPool_t pool;
    CALL(cudaMalloc, &memory, 1000);
    CALL(cudaFree, memory);
    CALL(cudaMallocManaged, &memory, 1001, cudaMemAttachGlobal);
    CALL(cudaFree, memory);
    CALL(cudaMallocHost, &memory, 1002);
    CALL(cudaFreeHost, memory);
    CALL(cudaMallocPitch, &memory, &pitch, 10, 20);
    CALL(cudaFree, memory);
    CALL(cudaMalloc3D, &pitched, (struct cudaExtent){10, 20, 30});
    CALL(cudaFree, pitched.ptr);
    CALL(cudaMallocAsync, &memory, 1003, streams[0]);
    CALL(cudaFreeAsync, memory, streams[0]);
    CALL(cudaMallocAsync_ptsz, &memory, 1004, streams[0]);
    CALL(cudaFreeAsync_ptsz, memory, streams[0]);
    cudaDeviceGetDefaultMemPool(&pool, 0);
    CALL(cudaMallocFromPoolAsync, &memory, 1005, pool, streams[0]);
    CALL(cudaFreeAsync, memory, streams[0]);
    CALL(cudaMallocFromPoolAsync_ptsz, &memory, 1006, pool, streams[0]);
    CALL(cudaFreeAsync, memory, streams[0]);
    CALL(cudaFree, NULL);
    CALL(cudaMalloc, NULL, 1000);
    CALL(cudaMalloc, &memory, SIZE_MAX / 2);
    CALL(cudaFree, &memory);
    CALL(cudaGetLastError, );
}

static void arrays(void)
{
    cudaArray_t array;
    cudaMipmappedArray_t mipmapped;
    struct cudaChannelFormatDesc format = {.x = 32};
    CALL(cudaMallocArray, &array, &format, 8, 4, 0);
    CALL(cudaFreeArray, array);
    CALL(cudaMalloc3DArray, &array, &format, (struct cudaExtent){8, 4, 2}, 0);
    CALL(cudaFreeArray, array);
    CALL(cudaMallocMipmappedArray, &mipmapped, &format, (struct cudaExtent){8, 4, 2}, 1, 0);
    CALL(cudaFreeMipmappedArray, mipmapped);
    CALL(cudaMallocArray, NULL, &format, 8, 4, 0);
}

/* ---------------------------------------------------------------- collectives */

/* The call on both ranks, in a group. `i` is the rank. */
#define BOTH(name, ...)                 \
    do {                                \
        CALL(ncclGroupStart, );         \
        for (int i = 0; i < RANKS; i++) \
            CALL(name, __VA_ARGS__);    \
        CALL(ncclGroupEnd, );           \
        show(#name);                    \
    } while (0)

/* What the last call delivered; then buffers as before. */
static void show(const char *name)
{
    int values[RANKS * COUNT];
    for (int i = 0; i < RANKS; i++) {
        cudaStreamSynchronize(streams[i]);
        cudaMemcpy(values, receives[i], sizeof values, cudaMemcpyDeviceToHost);
        unsigned sum = 0;
        for (int k = 0; k < RANKS * COUNT; k++)
            sum = sum * 31 + (unsigned)values[k];
        printf("%s delivers %08x to rank %d\n", name, sum, i);
        for (int k = 0; k < RANKS * COUNT; k++)
            values[k] = i * 1000 + k;
        cudaMemcpy(sends[i], values, sizeof values, cudaMemcpyHostToDevice);
        cudaMemsetAsync(receives[i], 0, sizeof values, streams[i]);
    }
}

static void collectives(void)
{
    show("nothing");
    BOTH(ncclAllGather, sends[i], receives[i], COUNT, ncclInt32, comms[i], streams[i]);
    BOTH(ncclReduceScatter, sends[i], receives[i], COUNT, ncclInt32, ncclSum, comms[i], streams[i]);
    BOTH(ncclReduceScatter, receives[i], receives[i] + i * COUNT, COUNT, ncclInt32, ncclMax, comms[i], streams[i]);
    BOTH(ncclAllReduce, sends[i], receives[i], COUNT, ncclInt32, ncclMin, comms[i], streams[i]);
    BOTH(ncclBroadcast, sends[i], receives[i], COUNT, ncclInt32, 1, comms[i], streams[i]);
    BOTH(ncclBcast, receives[i], COUNT, ncclInt32, 0, comms[i], streams[i]);
    BOTH(ncclReduce, sends[i], receives[i], COUNT, ncclInt32, ncclProd, 1, comms[i], streams[i]);
    BOTH(ncclAlltoAll, sends[i], receives[i], COUNT, ncclInt32, comms[i], streams[i]);
    BOTH(ncclGather, sends[i], receives[i], COUNT, ncclInt32, 0, comms[i], streams[i]);
    BOTH(ncclScatter, sends[i], receives[i], COUNT, ncclInt32, 1, comms[i], streams[i]);
    BOTH(ncclAllReduce, sends[i], receives[i], 0, ncclInt32, ncclSum, comms[i], streams[i]);
    CALL(ncclGroupStart, );
    CALL(ncclSend, sends[0], COUNT, ncclInt32, 1, comms[0], streams[0]);
    CALL(ncclRecv, receives[1], COUNT, ncclInt32, 0, comms[1], streams[1]);
    CALL(ncclGroupEnd, );
    show("ncclRecv");
}

static void groups(void)
{
    ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
    CALL(ncclGroupStart, );
    for (int i = 0; i < RANKS; i++)
        CALL(ncclAllGather, sends[i], receives[i], COUNT, ncclInt32, comms[i], streams[i]);
    CALL(ncclGroupSimulateEnd, &info);
    show("ncclGroupSimulateEnd");
    CALL(ncclGroupEnd, );
    CALL(ncclGroupStart, );
    CALL(ncclGroupStart, );
    for (int i = 0; i < RANKS; i++)
        CALL(ncclAllReduce, sends[i], receives[i], 1, ncclInt32, ncclSum, comms[i], streams[i]);
    CALL(ncclGroupEnd, );
    CALL(ncclGroupEnd, );
    show("nested groups");
}

static void failures(void)
{
    CALL(ncclAllGather, sends[0], receives[0], COUNT, ncclInt32, NULL, streams[0]);
    CALL(ncclAllGather, NULL, NULL, COUNT, ncclInt32, comms[0], streams[0]);
    CALL(ncclAllReduce, sends[0], receives[0], COUNT, (ncclDataType_t)99, ncclSum, comms[0], streams[0]);
    CALL(ncclAllReduce, sends[0], receives[0], SIZE_MAX / 2, ncclInt32, ncclSum, comms[0], streams[0]);
    CALL(ncclBroadcast, sends[0], receives[0], COUNT, ncclInt32, 7, comms[0], streams[0]);
    CALL(ncclSend, sends[0], COUNT, ncclInt32, -1, comms[0], streams[0]);
    CALL(ncclGroupStart, );
    CALL(ncclAllReduce, sends[0], receives[0], COUNT, ncclInt32, ncclSum, comms[0], streams[0]);
    CALL(ncclReduce, sends[1], receives[1], COUNT, ncclInt32, ncclSum, 9, comms[1], streams[1]);
    CALL(ncclGroupEnd, );
    CALL(ncclGroupSimulateEnd, NULL);
    printf("last error: %s\n", ncclGetLastError(NULL));
    puts("ncclGetLastError");
}

/* ---------------------------------------------------------------- communicators */

static void registrations(void)
{
    void *handle = NULL, *page = NULL;
    ncclWindow_t window = NULL;
    cudaMalloc(&page, 1 << 16);
    CALL(ncclCommRegister, comms[0], page, 1 << 16, &handle);
    CALL(ncclCommDeregister, comms[0], handle);
    CALL(ncclCommWindowRegister, comms[0], page, 1 << 16, &window, NCCL_WIN_COLL_SYMMETRIC);
    CALL(ncclCommWindowDeregister, comms[0], window);
    CALL(ncclCommRegister, comms[0], page, 1 << 16, NULL);
    CALL(ncclCommWindowRegister, comms[0], page, 1 << 16, NULL, 0);
    cudaFree(page);
}

static void check_sizes(ncclComm_t comm, const char *name)
{
    int count = -1, rank = -1, device = -1;
    ncclResult_t error = ncclInternalError;
    CALL(ncclCommGetAsyncError, comm, &error);
    ncclCommCount(comm, &count);
    ncclCommUserRank(comm, &rank);
    ncclCommCuDevice(comm, &device);
    printf("%s: rank %d of %d on device %d, state %d\n", name, rank, count, device, (int)error);
}

static void children(void)
{
    ncclComm_t child[RANKS] = {NULL, NULL};
    int one = 1;
    CALL(ncclGroupStart, );
    for (int i = 0; i < RANKS; i++)
        CALL(ncclCommSplit, comms[i], 0, RANKS - i, &child[i], NULL);
    CALL(ncclGroupEnd, );
    for (int i = 0; i < RANKS; i++)
        check_sizes(child[i], "split");
    CALL(ncclCommRevoke, child[0], NCCL_REVOKE_DEFAULT);
    CALL(ncclCommAbort, child[0]);
    CALL(ncclCommAbort, child[1]);
    child[0] = child[1] = NULL;
    CALL(ncclGroupStart, );
    for (int i = 0; i < RANKS; i++)
        CALL(ncclCommSplit, comms[i], i == 0 ? 3 : NCCL_SPLIT_NOCOLOR, 0, &child[i], NULL);
    CALL(ncclGroupEnd, );
    printf("without a color: %d\n", child[1] == NULL);
    check_sizes(child[0], "split");
    CALL(ncclCommDestroy, child[0]);
    CALL(ncclCommShrink, comms[0], &one, 1, &child[0], NULL, NCCL_SHRINK_DEFAULT);
    check_sizes(child[0], "shrink");
    CALL(ncclCommDestroy, child[0]);
}

static void creation(void)
{
    ncclComm_t comm = NULL;
    ncclUniqueId ids[2];
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.commName = "pipeline";
    for (int i = 0; i < 2; i++)
        CALL(ncclGetUniqueId, &ids[i]);
    CALL(ncclCommInitRank, &comm, 1, ids[0], 0);
    check_sizes(comm, "init");
    CALL(ncclCommFinalize, comm);
    CALL(ncclCommDestroy, comm);
    CALL(ncclGetUniqueId, &ids[0]);
    CALL(ncclCommInitRankConfig, &comm, 1, ids[0], 0, &config);
    check_sizes(comm, "config");
    CALL(ncclCommDestroy, comm);
    CALL(ncclCommInitRankScalable, &comm, 1, 0, 1, &ids[1], NULL);
    check_sizes(comm, "scalable");
    CALL(ncclCommDestroy, comm);
}

/* Arguments that only the real function may judge: nothing they point to is there. */
static void bad_creation(void)
{
    ncclComm_t comm = NULL;
    ncclUniqueId id;
    ncclResult_t error;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    memset(&id, 0, sizeof id);
    memset(&config, 0xee, sizeof config);
    int *nowhere = (int *)8;
    CALL(ncclGetUniqueId, NULL);
    CALL(ncclCommInitRank, NULL, 1, id, 0);
    CALL(ncclCommInitRank, &comm, 0, id, 0);
    CALL(ncclCommInitRank, &comm, 2, id, 2);
    CALL(ncclCommInitRankConfig, &comm, 1, id, 0, &config);
    CALL(ncclCommInitRankConfig, NULL, 1, id, 0, NULL);
    CALL(ncclCommInitRankScalable, &comm, 1, 0, 1, NULL, NULL);
    CALL(ncclCommInitRankScalable, &comm, -1, 0, 1 << 30, (ncclUniqueId *)nowhere, NULL);
    CALL(ncclCommInitAll, NULL, 2, NULL);
    CALL(ncclCommInitAll, &comm, 0, NULL);
    CALL(ncclCommInitAll, &comm, 1, (const int[]){999});
    CALL(ncclCommSplit, NULL, 0, 0, &comm, &config);
    CALL(ncclCommSplit, comms[0], 0, 0, NULL, NULL);
    CALL(ncclCommSplit, comms[0], 0, 0, &comm, &config);
    CALL(ncclCommShrink, NULL, nowhere, 1 << 20, &comm, NULL, 0);
    CALL(ncclCommShrink, comms[0], nowhere, 1 << 20, &comm, &config, 0);
    CALL(ncclCommGetAsyncError, NULL, &error);
    CALL(ncclCommGetAsyncError, comms[0], NULL);
    CALL(ncclCommDestroy, NULL);
    CALL(ncclCommFinalize, NULL);
    CALL(ncclCommAbort, NULL);
    CALL(ncclCommRevoke, NULL, 0);
}

int main(void)
{
    kernels_register();
    CALL(ncclCommInitAll, comms, RANKS, NULL);
    for (int i = 0; i < RANKS; i++) {
        cudaSetDevice(i);
        cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking);
        cudaMalloc((void **)&sends[i], RANKS * COUNT * sizeof(int));
        cudaMalloc((void **)&receives[i], RANKS * COUNT * sizeof(int));
    }
    cudaSetDevice(0);
    graphs();
    events();
    memory();
    arrays();
    collectives();
    launches();
    groups();
    failures();
    registrations();
    children();
    creation();
    bad_creation();
    for (int i = 0; i < RANKS; i++)
        CALL(ncclCommDestroy, comms[i]);
    printf("cuda: %d\n", cudaGetLastError());
    return 0;
}
