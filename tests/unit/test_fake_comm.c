/*
 * The stand-in NCCL between processes: groups, sends and receives, children, nonblocking communicators, errors,
 * dead ranks, faults.
 */
#include "tests/fake/ranks.h"

#include <pthread.h>
#include <stdbool.h>

#include "tests/fake/cudart_private.h"

static ncclComm_t comm_of(int rank, int ranks)
{
    ncclComm_t comm;
    CUDA(cudaSetDevice(rank));
    NCCL(ncclCommInitRank(&comm, ranks, ranks_id, rank));
    return comm;
}

static int *device_int(int value)
{
    return device_copy(&value, sizeof value);
}

static int host_int(const int *device)
{
    int value;
    host_copy(&value, device, sizeof value);
    return value;
}

/* One all-reduce of 1: how many ranks took part. */
static int count_ranks(ncclComm_t comm)
{
    int *value = device_int(1);
    NCCL(ncclAllReduce(value, value, 1, ncclInt32, ncclSum, comm, NULL));
    int sum = host_int(value);
    CUDA(cudaFree(value));
    return sum;
}

/* Sends and receives --------------------------------------------------------------------------------------------- */

#define LONG 50001 /* integers: several chunks */

static void ring(int rank, int ranks)
{
    ncclComm_t comm = comm_of(rank, ranks);
    int *host = malloc(LONG * sizeof *host), next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
    for (int i = 0; i < LONG; i++)
        host[i] = rank * LONG + i;
    int *send = device_copy(host, LONG * sizeof *host), *recv = device_copy(NULL, LONG * sizeof *host);
    int *first = device_int(rank), *second = device_int(rank + 100), *from[2] = {device_int(0), device_int(0)};
    cudaStream_t stream;
    CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CUDA(cudaDeviceSynchronize());
    /* Long and short messages between the same ranks keep their order, whatever the order on the other side. */
    NCCL(ncclGroupStart());
    NCCL(ncclRecv(recv, LONG, ncclInt32, before, comm, stream));
    NCCL(ncclRecv(from[0], 1, ncclInt32, before, comm, stream));
    NCCL(ncclRecv(from[1], 1, ncclInt32, before, comm, stream));
    NCCL(ncclSend(send, LONG, ncclInt32, next, comm, stream));
    NCCL(ncclSend(first, 1, ncclInt32, next, comm, stream));
    NCCL(ncclSend(second, 1, ncclInt32, next, comm, stream));
    NCCL(ncclGroupEnd());
    CUDA(cudaStreamSynchronize(stream));
    host_copy(host, recv, LONG * sizeof *host);
    for (int i = 0; i < LONG; i++)
        CHECK(host[i] == before * LONG + i);
    CHECK(host_int(from[0]) == before && host_int(from[1]) == before + 100);
    /* To itself. */
    NCCL(ncclGroupStart());
    NCCL(ncclSend(second, 1, ncclInt32, rank, comm, stream));
    NCCL(ncclRecv(first, 1, ncclInt32, rank, comm, stream));
    NCCL(ncclGroupEnd());
    CUDA(cudaStreamSynchronize(stream));
    CHECK(host_int(first) == rank + 100);
    free(host);
    NCCL(ncclCommDestroy(comm));
}

/* Rank 0 is ready after 100 us; 4000 bytes take 2 us at 2 GB/s, the latency is 7. */
static void send_time(int rank, int ranks)
{
    ncclComm_t comm = comm_of(rank, ranks);
    cudaStream_t stream;
    cudaEvent_t begin, end;
    char *data = device_copy(NULL, 100000);
    CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CUDA(cudaEventCreate(&begin));
    CUDA(cudaEventCreate(&end));
    CUDA(cudaEventRecord(begin, stream));
    if (rank == 0) {
        CUDA(cudaMemsetAsync(data, 0, 100000, stream));
        NCCL(ncclSend(data, 4000, ncclInt8, 1, comm, stream));
    } else {
        NCCL(ncclRecv(data, 4000, ncclInt8, 0, comm, stream));
    }
    CUDA(cudaEventRecord(end, stream));
    CUDA(cudaStreamSynchronize(stream));
    float ms;
    CUDA(cudaEventElapsedTime(&ms, begin, end));
    CHECK(ms == 0.109f);
    CUDA(cudaEventDestroy(begin));
    CUDA(cudaEventDestroy(end));
    NCCL(ncclCommDestroy(comm));
}

/* Groups ----------------------------------------------------------------------------------------------------------- */

/* Two streams in one group: both wait before, both wait after. */
static void group_streams(int rank, int ranks)
{
    ncclComm_t comm = comm_of(rank, ranks);
    cudaStream_t left, right;
    cudaEvent_t begin, left_end, right_end;
    int *a = device_int(1), *b = device_int(2);
    char *data = device_copy(NULL, 50000);
    CUDA(cudaStreamCreateWithFlags(&left, cudaStreamNonBlocking));
    CUDA(cudaStreamCreateWithFlags(&right, cudaStreamNonBlocking));
    CUDA(cudaEventCreate(&begin));
    CUDA(cudaEventCreate(&left_end));
    CUDA(cudaEventCreate(&right_end));
    CUDA(cudaEventRecord(begin, left));
    CUDA(cudaStreamSynchronize(left));
    CUDA(cudaMemsetAsync(data, 0, 50000, right)); /* 50 us */
    NCCL(ncclGroupStart());
    NCCL(ncclAllReduce(a, a, 1, ncclInt32, ncclSum, comm, left));
    NCCL(ncclAllReduce(b, b, 1, ncclInt32, ncclSum, comm, right));
    CHECK(cudaStreamQuery(left) == cudaSuccess); /* nothing is issued yet */
    NCCL(ncclGroupEnd());
    CUDA(cudaEventRecord(left_end, left));
    CUDA(cudaEventRecord(right_end, right));
    CUDA(cudaDeviceSynchronize());
    CHECK(host_int(a) == ranks && host_int(b) == 2 * ranks);
    float ms;
    CUDA(cudaEventElapsedTime(&ms, left_end, right_end));
    CHECK(ms == 0);
    CUDA(cudaEventElapsedTime(&ms, begin, left_end));
    CHECK(ms == 57.004e-3f); /* 50, the latency once, 2 ns for each */
    CUDA(cudaEventDestroy(begin));
    CUDA(cudaEventDestroy(left_end));
    CUDA(cudaEventDestroy(right_end));
    NCCL(ncclCommDestroy(comm));
}

/* On one communicator over two streams, the host's order holds: the second all-reduce sees the first one's result
 * although nothing else orders the streams. */
static void serial(int rank, int ranks)
{
    ncclComm_t comm = comm_of(rank, ranks);
    cudaStream_t streams[2];
    int *value = device_int(1), expected = 1;
    for (int i = 0; i < 2; i++)
        CUDA(cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking));
    CUDA(cudaDeviceSynchronize());
    for (int i = 0; i < 10; i++) {
        NCCL(ncclAllReduce(value, value, 1, ncclInt32, ncclSum, comm, streams[i % 2]));
        expected *= ranks;
    }
    CUDA(cudaDeviceSynchronize());
    CHECK(host_int(value) == expected);
    NCCL(ncclCommDestroy(comm));
}

static void simulate(int rank, int ranks)
{
    ncclComm_t comm = comm_of(rank, ranks);
    int *value = device_int(1);
    ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
    NCCL(ncclGroupStart());
    NCCL(ncclAllReduce(value, value, 1, ncclInt32, ncclSum, comm, NULL));
    NCCL(ncclGroupSimulateEnd(&info));
    CHECK(info.estimatedTime == 7.002f);
    CHECK(host_int(value) == 1);
    CHECK(ncclGroupEnd() == ncclInvalidUsage);
    NCCL(ncclCommDestroy(comm));
}

/* All ranks in one process: init in a group, then one group over all communicators. */
static void one_process(int rank, int ranks)
{
    (void)rank, (void)ranks;
    enum { DEVICES = 3 };
    ncclComm_t comms[DEVICES];
    int *values[DEVICES], devices[DEVICES] = {4, 0, 2}, number, twice[2] = {1, 1};
    NCCL(ncclCommInitAll(comms, DEVICES, devices));
    for (int i = 0; i < DEVICES; i++) {
        CUDA(cudaSetDevice(devices[i]));
        values[i] = device_int(i + 1);
        NCCL(ncclCommCuDevice(comms[i], &number));
        CHECK(number == devices[i]);
        NCCL(ncclCommUserRank(comms[i], &number));
        CHECK(number == i);
    }
    NCCL(ncclGroupStart());
    for (int i = 0; i < DEVICES; i++)
        NCCL(ncclAllReduce(values[i], values[i], 1, ncclInt32, ncclSum, comms[i], NULL));
    NCCL(ncclGroupEnd());
    for (int i = 0; i < DEVICES; i++) {
        CUDA(cudaSetDevice(devices[i]));
        CUDA(cudaDeviceSynchronize());
        CHECK(host_int(values[i]) == 6);
        NCCL(ncclCommDestroy(comms[i]));
    }
    CHECK(ncclCommInitAll(comms, 2, twice) == ncclInvalidUsage);
    /* Two ranks of one process on one device find out when they meet. */
    NCCL(ncclGroupStart());
    NCCL(ncclCommInitRank(&comms[0], 2, ranks_id, 0));
    NCCL(ncclCommInitRank(&comms[1], 2, ranks_id, 1));
    CHECK(ncclGroupEnd() == ncclInvalidUsage);
    NCCL(ncclCommAbort(comms[0]));
    NCCL(ncclCommAbort(comms[1]));
}

/* A collective in a graph runs again with every launch, in turn with those outside. */
static void captured(int rank, int ranks)
{
    ncclComm_t comm = comm_of(rank, ranks);
    cudaStream_t stream, other;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    int *value = device_int(1), expected = 1;
    CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CUDA(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    CUDA(cudaDeviceSynchronize());
    CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    NCCL(ncclAllReduce(value, value, 1, ncclInt32, ncclSum, comm, stream));
    CUDA(cudaStreamEndCapture(stream, &graph));
    CUDA(cudaGraphInstantiate(&exec, graph, 0));
    for (int i = 0; i < 3; i++) {
        CUDA(cudaGraphLaunch(exec, stream));
        NCCL(ncclAllReduce(value, value, 1, ncclInt32, ncclSum, comm, other));
        expected *= ranks * ranks;
    }
    CUDA(cudaDeviceSynchronize());
    CHECK(host_int(value) == expected);
    CUDA(cudaGraphExecDestroy(exec));
    CUDA(cudaGraphDestroy(graph));
    NCCL(ncclCommDestroy(comm));
}

/* Children -----------------------------------------------------------------------------------------------------------
 */

static void split(int rank, int ranks)
{
    ncclComm_t comm = comm_of(rank, ranks), halves, none, reversed;
    int number;
    NCCL(ncclCommSplit(comm, rank % 2, rank, &halves, NULL));
    NCCL(ncclCommCount(halves, &number));
    CHECK(number == (ranks + 1 - rank % 2) / 2);
    NCCL(ncclCommUserRank(halves, &number));
    CHECK(number == rank / 2);
    CHECK(count_ranks(halves) == (ranks + 1 - rank % 2) / 2);
    /* Without a color there is no child; keys turn the order round. */
    NCCL(ncclCommSplit(comm, rank == 0 ? NCCL_SPLIT_NOCOLOR : 7, -rank, &none, NULL));
    CHECK((none == NULL) == (rank == 0));
    if (none) {
        NCCL(ncclCommUserRank(none, &number));
        CHECK(number == ranks - 1 - rank);
        NCCL(ncclCommDestroy(none));
    }
    /* Two in one group. */
    NCCL(ncclCommDestroy(halves));
    NCCL(ncclGroupStart());
    NCCL(ncclCommSplit(comm, 0, ranks - rank, &reversed, NULL));
    NCCL(ncclCommSplit(comm, rank % 2, 0, &halves, NULL));
    NCCL(ncclGroupEnd());
    CHECK(count_ranks(reversed) == ranks);
    NCCL(ncclCommUserRank(reversed, &number));
    CHECK(number == ranks - 1 - rank);
    CHECK(count_ranks(halves) == (ranks + 1 - rank % 2) / 2);
    NCCL(ncclCommDestroy(halves));
    NCCL(ncclCommDestroy(reversed));
    NCCL(ncclCommDestroy(comm));
}

static void shrink(int rank, int ranks)
{
    ncclComm_t comm = comm_of(rank, ranks), rest;
    int excluded[1] = {1}, number;
    if (rank != 1) {
        NCCL(ncclCommShrink(comm, excluded, 1, &rest, NULL, NCCL_SHRINK_DEFAULT));
        NCCL(ncclCommUserRank(rest, &number));
        CHECK(number == (rank == 0 ? 0 : rank - 1));
        CHECK(count_ranks(rest) == ranks - 1);
        NCCL(ncclCommDestroy(rest));
    } else {
        CHECK(ncclCommShrink(comm, excluded, 1, &rest, NULL, NCCL_SHRINK_DEFAULT) == ncclInvalidArgument);
    }
    NCCL(ncclCommDestroy(comm));
}

static void scalable(int rank, int ranks)
{
    ncclUniqueId ids[2] = {ranks_id, ranks_id};
    ids[1].internal[100] = 1;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.commName = "two ids";
    ncclComm_t comm;
    CUDA(cudaSetDevice(rank));
    NCCL(ncclCommInitRankScalable(&comm, ranks, rank, 2, ids, &config));
    CHECK(count_ranks(comm) == ranks);
    NCCL(ncclCommFinalize(comm));
    int *value = device_int(1);
    CHECK(ncclAllReduce(value, value, 1, ncclInt32, ncclSum, comm, NULL) == ncclInvalidUsage);
    NCCL(ncclCommDestroy(comm));
}

/* Nonblocking
 * ---------------------------------------------------------------------------------------------------------- */

static void settle(ncclComm_t comm)
{
    ncclResult_t state = ncclInProgress;
    while (state == ncclInProgress) {
        NCCL(ncclCommGetAsyncError(comm, &state));
        usleep(100);
    }
    CHECK(state == ncclSuccess);
}

static void nonblocking(int rank, int ranks)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclComm_t comm, child;
    ncclResult_t state;
    int *value = device_int(1);
    CUDA(cudaDeviceSynchronize());
    /* Rank 0 alone cannot be ready: the others look at their flag first. */
    CUDA(cudaSetDevice(rank));
    if (rank > 0)
        usleep(30000);
    CHECK(ncclCommInitRankConfig(&comm, ranks, ranks_id, rank, &config) == ncclInProgress);
    if (rank == 0) {
        NCCL(ncclCommGetAsyncError(comm, &state));
        CHECK(state == ncclInProgress);
        CHECK(ncclAllReduce(value, value, 1, ncclInt32, ncclSum, comm, NULL) == ncclInvalidArgument);
    }
    settle(comm);
    CHECK(ncclAllReduce(value, value, 1, ncclInt32, ncclSum, comm, NULL) == ncclInProgress);
    settle(comm);
    CUDA(cudaStreamSynchronize(NULL));
    CHECK(host_int(value) == ranks);
    CHECK(ncclCommSplit(comm, 0, rank, &child, NULL) == ncclInProgress);
    settle(child);
    CHECK(ncclCommFinalize(comm) == ncclInProgress);
    settle(comm);
    NCCL(ncclCommDestroy(comm));
    CHECK(ncclCommFinalize(child) == ncclInProgress);
    settle(child);
    NCCL(ncclCommDestroy(child));
}

/* A nonblocking init whose peer never comes ends by abort. */
static void init_abort(int rank, int ranks)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclComm_t comm;
    if (rank == 0)
        return;
    CHECK(ncclCommInitRankConfig(&comm, ranks, ranks_id, rank, &config) == ncclInProgress);
    usleep(20000);
    NCCL(ncclCommAbort(comm));
}

/* Errors
 * --------------------------------------------------------------------------------------------------------------- */

static void arguments(int rank, int ranks)
{
    ncclComm_t comm = comm_of(rank, ranks), wrong;
    int *value = device_int(1), host = 1, number;
    ncclConfig_t config;
    memset(&config, 0, sizeof config);
    CHECK(ncclAllReduce(value, value, 1, ncclInt32, ncclSum, NULL, NULL) == ncclInvalidArgument);
    CHECK(ncclAllReduce(value, value, 1, (ncclDataType_t)12, ncclSum, comm, NULL) == ncclInvalidArgument);
    CHECK(ncclAllReduce(value, value, 1, ncclInt32, (ncclRedOp_t)5, comm, NULL) == ncclInvalidArgument);
    CHECK(ncclBroadcast(value, value, 1, ncclInt32, ranks, comm, NULL) == ncclInvalidArgument);
    CHECK(ncclBroadcast(value, value, 1, ncclInt32, -1, comm, NULL) == ncclInvalidArgument);
    CHECK(ncclSend(value, 1, ncclInt32, ranks, comm, NULL) == ncclInvalidArgument);
    CHECK(ncclAllGather(value, value, 1, ncclInt32, comm, NULL) == ncclInvalidArgument); /* too small */
    CHECK(ncclAllReduce(&host, &host, 1, ncclInt32, ncclSum, comm, NULL) == ncclInvalidArgument);
    CHECK(strstr(ncclGetLastError(comm), "device memory") != NULL);
    CHECK(ncclCommCount(comm, NULL) == ncclInvalidArgument);
    CHECK(ncclCommInitRank(&wrong, 2, ranks_id, 2) == ncclInvalidArgument);
    CHECK(ncclCommInitRankConfig(&wrong, 1, ranks_id, 0, &config) == ncclInvalidArgument);
    /* Nothing of it was issued; a count of 0 does nothing, alone. */
    if (rank == 0)
        NCCL(ncclAllReduce(NULL, NULL, 0, ncclInt32, ncclSum, comm, NULL));
    /* An error inside a group is the group's. */
    NCCL(ncclGroupStart());
    CHECK(ncclBroadcast(value, value, 1, ncclInt32, -1, comm, NULL) == ncclInvalidArgument);
    NCCL(ncclAllReduce(value, value, 1, ncclInt32, ncclSum, comm, NULL));
    CHECK(ncclGroupEnd() == ncclInvalidArgument);
    CHECK(count_ranks(comm) == ranks);
    void *memory, *handle;
    ncclWindow_t window;
    NCCL(ncclMemAlloc(&memory, 10000));
    NCCL(ncclCommRegister(comm, memory, 10000, &handle));
    NCCL(ncclCommDeregister(comm, handle));
    NCCL(ncclCommWindowRegister(comm, memory, 10000, &window, NCCL_WIN_COLL_SYMMETRIC));
    NCCL(ncclCommWindowDeregister(comm, window));
    NCCL(ncclMemFree(memory));
    NCCL(ncclGetVersion(&number));
    CHECK(number == NCCL_VERSION_CODE);
    CHECK(strcmp(ncclGetErrorString(ncclSuccess), "no error") == 0);
    NCCL(ncclCommDestroy(comm));
}

/* Ranks that do not do the same: all find out, nobody hangs, nothing more is done on the communicator. */
static void mismatch(int rank, int ranks)
{
    ncclComm_t comm = comm_of(rank, ranks);
    int values[2] = {1, 1}, *data = device_copy(values, sizeof values);
    NCCL(ncclAllReduce(data, data, rank == 1 ? 2 : 1, ncclInt32, ncclSum, comm, NULL));
    CUDA(cudaStreamSynchronize(NULL));
    ncclResult_t state;
    NCCL(ncclCommGetAsyncError(comm, &state));
    CHECK(state == ncclInvalidUsage);
    CHECK(ncclAllReduce(data, data, 1, ncclInt32, ncclSum, comm, NULL) == ncclInvalidUsage);
    NCCL(ncclCommAbort(comm));
}

static void mismatched_kind(int rank, int ranks)
{
    ncclComm_t comm = comm_of(rank, ranks);
    int *data = device_copy(NULL, sizeof(int) * (size_t)ranks);
    if (rank == 0)
        NCCL(ncclAllGather(data, data, 1, ncclInt32, comm, NULL));
    else
        NCCL(ncclBroadcast(data, data, 1, ncclInt32, 0, comm, NULL));
    CUDA(cudaStreamSynchronize(NULL));
    ncclResult_t state;
    NCCL(ncclCommGetAsyncError(comm, &state));
    CHECK(state == ncclInvalidUsage);
    NCCL(ncclCommAbort(comm));
}

static void mismatched_send(int rank, int ranks)
{
    ncclComm_t comm = comm_of(rank, ranks);
    int *data = device_copy(NULL, 2 * sizeof(int));
    if (rank == 0)
        NCCL(ncclSend(data, 2, ncclInt32, 1, comm, NULL));
    else
        NCCL(ncclRecv(data, 1, ncclInt32, 0, comm, NULL));
    CUDA(cudaStreamSynchronize(NULL));
    ncclResult_t state;
    NCCL(ncclCommGetAsyncError(comm, &state));
    CHECK(state == ncclInvalidUsage);
    NCCL(ncclCommAbort(comm));
}

/* Death
 * ---------------------------------------------------------------------------------------------------------------- */

/* Rank 1 is killed in its second collective (a fault); the others wait until they abort, then shrink goes on. */
static void dead_rank(int rank, int ranks)
{
    ncclComm_t comm = comm_of(rank, ranks), rest;
    CHECK(count_ranks(comm) == ranks);
    int *value = device_int(1), excluded[1] = {1};
    cudaStream_t stream;
    CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    NCCL(ncclAllReduce(value, value, 1, ncclInt32, ncclSum, comm, stream));
    CHECK(rank != 1);
    usleep(50000);
    CHECK(cudaStreamQuery(stream) == cudaErrorNotReady);
    ncclResult_t state;
    NCCL(ncclCommGetAsyncError(comm, &state));
    CHECK(state == ncclSuccess);
    NCCL(ncclCommShrink(comm, excluded, 1, &rest, NULL, NCCL_SHRINK_ABORT));
    CUDA(cudaStreamSynchronize(stream));
    NCCL(ncclCommAbort(comm));
    CHECK(count_ranks(rest) == ranks - 1);
    NCCL(ncclCommDestroy(rest));
}

/* Abort wakes work of every kind: a collective, a receive, a split. */
struct splitter {
    ncclComm_t comm;
    ncclResult_t result;
};

static void *splitter_main(void *argument)
{
    struct splitter *splitter = argument;
    ncclComm_t child;
    splitter->result = ncclCommSplit(splitter->comm, 0, 0, &child, NULL);
    if (child)
        ncclCommAbort(child);
    return NULL;
}

static void abort_wakes(int rank, int ranks)
{
    ncclComm_t collective = comm_of(rank, ranks), receive, host;
    NCCL(ncclCommSplit(collective, 0, rank, &receive, NULL));
    NCCL(ncclCommSplit(collective, 0, rank, &host, NULL));
    if (rank == 1)
        raise(SIGKILL);
    int *value = device_int(1);
    cudaStream_t first, second;
    CUDA(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
    CUDA(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
    NCCL(ncclAllReduce(value, value, 1, ncclInt32, ncclSum, collective, first));
    NCCL(ncclRecv(value, 1, ncclInt32, 1, receive, second));
    struct splitter splitter = {host, ncclSuccess};
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, splitter_main, &splitter) == 0);
    usleep(30000);
    CHECK(cudaStreamQuery(first) == cudaErrorNotReady && cudaStreamQuery(second) == cudaErrorNotReady);
    NCCL(ncclCommAbort(collective));
    CUDA(cudaStreamSynchronize(first));
    NCCL(ncclCommAbort(receive));
    CUDA(cudaStreamSynchronize(second));
    NCCL(ncclCommAbort(host));
    pthread_join(thread, NULL);
    CHECK(splitter.result != ncclSuccess);
}

/* A child that shares its parent's resources ends with it; a child's init in progress too. */
static void parent_abort(int rank, int ranks)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.splitShare = 1;
    config.blocking = 0;
    ncclComm_t comm, sharing, starting;
    CUDA(cudaSetDevice(rank));
    CHECK(ncclCommInitRankConfig(&comm, ranks, ranks_id, rank, &config) == ncclInProgress);
    settle(comm);
    CHECK(ncclCommSplit(comm, 0, rank, &sharing, NULL) == ncclInProgress);
    settle(sharing);
    if (rank == 1)
        raise(SIGKILL);
    int *value = device_int(1), excluded[1] = {1};
    cudaStream_t stream;
    CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(ncclAllReduce(value, value, 1, ncclInt32, ncclSum, sharing, stream) == ncclInProgress);
    /* Rank 2 never comes to this one. */
    if (rank == 0)
        CHECK(ncclCommShrink(comm, excluded, 1, &starting, NULL, NCCL_SHRINK_DEFAULT) == ncclInProgress);
    usleep(30000);
    CHECK(cudaStreamQuery(stream) == cudaErrorNotReady);
    NCCL(ncclCommAbort(comm));
    CUDA(cudaStreamSynchronize(stream));
    ncclResult_t state = ncclInProgress;
    while (rank == 0 && state == ncclInProgress) {
        usleep(1000);
        NCCL(ncclCommGetAsyncError(starting, &state));
    }
    CHECK(state != ncclSuccess);
    if (rank == 0)
        NCCL(ncclCommAbort(starting));
    NCCL(ncclCommAbort(sharing));
}

static void revoked(int rank, int ranks)
{
    ncclComm_t comm = comm_of(rank, ranks), child;
    int *value = device_int(1);
    cudaStream_t stream;
    CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    if (rank == 0)
        NCCL(ncclAllReduce(value, value, 1, ncclInt32, ncclSum, comm, stream));
    NCCL(ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT));
    CUDA(cudaStreamSynchronize(stream));
    CHECK(ncclAllReduce(value, value, 1, ncclInt32, ncclSum, comm, stream) == ncclInvalidUsage);
    NCCL(ncclCommSplit(comm, 0, rank, &child, NULL));
    CHECK(count_ranks(child) == ranks);
    NCCL(ncclCommDestroy(child));
    NCCL(ncclCommDestroy(comm));
}

/* Faults
 * --------------------------------------------------------------------------------------------------------------- */

static float reduce_time(ncclComm_t comm, int *value)
{
    cudaEvent_t begin, end;
    float ms;
    CUDA(cudaEventCreate(&begin));
    CUDA(cudaEventCreate(&end));
    CUDA(cudaEventRecord(begin, NULL));
    NCCL(ncclAllReduce(value, value, 1, ncclInt32, ncclSum, comm, NULL));
    CUDA(cudaEventRecord(end, NULL));
    CUDA(cudaEventSynchronize(end));
    CUDA(cudaEventElapsedTime(&ms, begin, end));
    CUDA(cudaEventDestroy(begin));
    CUDA(cudaEventDestroy(end));
    return ms;
}

/* lag: rank 1 is 500 us late in its second collective, and all end later. */
static void lag(int rank, int ranks)
{
    ncclComm_t comm = comm_of(rank, ranks);
    int *value = device_int(0);
    CHECK(reduce_time(comm, value) == 7.002e-3f);
    CHECK(reduce_time(comm, value) == 507.002e-3f);
    CHECK(reduce_time(comm, value) == 7.002e-3f);
    NCCL(ncclCommDestroy(comm));
}

/* error: rank 0's second collective returns an error and is not issued. */
static void error(int rank, int ranks)
{
    ncclComm_t comm = comm_of(rank, ranks);
    int *value = device_int(1);
    NCCL(ncclAllReduce(value, value, 1, ncclInt32, ncclSum, comm, NULL));
    if (rank == 0)
        CHECK(ncclAllReduce(value, value, 1, ncclInt32, ncclSum, comm, NULL) == ncclSystemError);
    NCCL(ncclAllReduce(value, value, 1, ncclInt32, ncclSum, comm, NULL));
    CHECK(host_int(value) == ranks * ranks);
    NCCL(ncclCommDestroy(comm));
}

/* scribble: rank 1 sends 10 and all receive 11. */
static void scribble(int rank, int ranks)
{
    ncclComm_t comm = comm_of(rank, ranks);
    int *value = device_int(10), *all = device_copy(NULL, (size_t)ranks * sizeof(int));
    NCCL(ncclAllGather(value, all, 1, ncclInt32, comm, NULL));
    CHECK(host_int(all) == 10 && host_int(all + 1) == 11);
    CHECK(host_int(value) == (rank == 1 ? 11 : 10));
    NCCL(ncclCommDestroy(comm));
}

static void no_memory(int rank, int ranks)
{
    (void)ranks;
    void *memory;
    CUDA(cudaMalloc(&memory, 8));
    CHECK(cudaMalloc(&memory, 8) == (rank == 1 ? cudaErrorMemoryAllocation : cudaSuccess));
    CUDA(cudaMallocAsync(&memory, 8, NULL));
}

/* With FAKE_PRECONNECT the first collective of a kind waits for the other host thread, the second does not. */
static void preconnect(int rank, int ranks)
{
    ncclComm_t comm = comm_of(rank, ranks);
    int *value = device_int(1);
    CHECK(count_ranks(comm) == ranks);
    cudaStream_t stream;
    CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    if (rank == 1)
        usleep(30000);
    NCCL(ncclAllReduce(value, value, 1, ncclInt32, ncclSum, comm, stream));
    CHECK(rank == 1 || cudaStreamQuery(stream) == cudaErrorNotReady);
    CUDA(cudaStreamSynchronize(stream));
    NCCL(ncclBroadcast(value, value, 1, ncclInt32, 0, comm, stream));
    CUDA(cudaStreamSynchronize(stream));
    CHECK(host_int(value) == ranks);
    NCCL(ncclCommDestroy(comm));
}

/* --------------------------------------------------------------------------------------------------------------------
 */

static void link_set(void)
{
    setenv("FAKE_LINK_LATENCY_US", "7", 1);
    setenv("FAKE_LINK_GBPS", "2", 1);
    setenv("FAKE_HBM_GBPS", "1", 1);
}

static void fault_run(const char *fault, int ranks, void (*body)(int rank, int ranks), int killed)
{
    setenv("FAKE_FAULT", fault, 1);
    ranks_run_killed(ranks, body, killed);
    unsetenv("FAKE_FAULT");
}

static void test_point_to_point(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= 4; ranks++)
        ranks_run(ranks, ring);
    ranks_run(2, send_time);
}

static void test_groups(void **state)
{
    (void)state;
    ranks_run(2, group_streams);
    ranks_run(2, simulate);
    ranks_run(1, one_process);
}

static void test_order(void **state)
{
    (void)state;
    ranks_run(3, serial);
    ranks_run(2, captured);
}

static void test_children(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= 4; ranks++) {
        ranks_run(ranks, split);
        ranks_run(ranks, shrink);
    }
    ranks_run(3, scalable);
}

static void test_nonblocking(void **state)
{
    (void)state;
    ranks_run(3, nonblocking);
    ranks_run(2, init_abort);
}

static void test_errors(void **state)
{
    (void)state;
    ranks_run(2, arguments);
    ranks_run(3, mismatch);
    ranks_run(2, mismatched_kind);
    ranks_run(2, mismatched_send);
}

static void test_death(void **state)
{
    (void)state;
    fault_run("kill:rank=1,op=2", 3, dead_rank, 1);
    ranks_run_killed(2, abort_wakes, 1);
    ranks_run_killed(3, parent_abort, 1);
    ranks_run(2, revoked);
}

static void test_faults(void **state)
{
    (void)state;
    fault_run("lag:rank=1,op=2,us=500", 2, lag, -1);
    fault_run("error:rank=0:op=2", 2, error, -1);
    fault_run("kill:rank=7,op=1,scribble:rank=1,op=1", 3, scribble, -1);
    fault_run("malloc:rank=1,n=2", 2, no_memory, -1);
    setenv("FAKE_PRECONNECT", "1", 1);
    ranks_run(2, preconnect);
    unsetenv("FAKE_PRECONNECT");
}

int main(void)
{
    link_set();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_point_to_point), cmocka_unit_test(test_groups),      cmocka_unit_test(test_order),
        cmocka_unit_test(test_children),       cmocka_unit_test(test_nonblocking), cmocka_unit_test(test_errors),
        cmocka_unit_test(test_death),          cmocka_unit_test(test_faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
