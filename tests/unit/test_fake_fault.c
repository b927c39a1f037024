/*
 * The stand-in NCCL between processes: dead ranks, aborts, and every fault that can be asked for.
 */
#include "tests/fake/ranks.h"

#include <pthread.h>

/* Death ------------------------------------------------------------------------------------------- */

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

/* Faults ------------------------------------------------------------------------------------------ */

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
        ranks_await();
    NCCL(ncclAllReduce(value, value, 1, ncclInt32, ncclSum, comm, stream));
    CHECK(rank == 1 || cudaStreamQuery(stream) == cudaErrorNotReady);
    if (rank == 0)
        ranks_let(1);
    CUDA(cudaStreamSynchronize(stream));
    NCCL(ncclBroadcast(value, value, 1, ncclInt32, 0, comm, stream));
    CUDA(cudaStreamSynchronize(stream));
    CHECK(host_int(value) == ranks);
    NCCL(ncclCommDestroy(comm));
}

static ncclComm_t nonblocking_of(int rank, int ranks)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclComm_t comm;
    CHECK(ncclCommInitRankConfig(&comm, ranks, ranks_id, rank, &config) == ncclInProgress);
    return comm;
}

static ncclResult_t state_of(ncclComm_t comm)
{
    ncclResult_t state;
    NCCL(ncclCommGetAsyncError(comm, &state));
    return state;
}

/* The end of a long group is said once: it never passes for the end of the call behind it. */
static void long_group(int rank, int ranks)
{
    enum { TASKS = 20000, LOOKS = 2000 };
    ncclComm_t comm = nonblocking_of(rank, ranks);
    settle(comm);
    int *value = device_int(1);
    cudaStream_t stream;
    CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    NCCL(ncclGroupStart());
    for (int i = 0; i < TASKS; i++)
        NCCL(ncclAllReduce(value, value, 1, ncclInt32, ncclMax, comm, stream));
    CHECK(ncclGroupEnd() == ncclInProgress);
    settle(comm);
    if (rank == 1)
        ranks_await();
    CHECK(ncclBroadcast(value, value, 1, ncclInt32, 0, comm, stream) == ncclInProgress);
    for (int i = 0; i < LOOKS && rank == 0; i++, usleep(1))
        CHECK(state_of(comm) == ncclInProgress); /* the other one has not come yet */
    if (rank == 0)
        ranks_let(1);
    settle(comm);
    CUDA(cudaStreamSynchronize(stream));
    NCCL(ncclCommDestroy(comm));
}

/* Tests ------------------------------------------------------------------------------------------- */

static void fault_run(const char *fault, int ranks, void (*body)(int rank, int ranks), int killed)
{
    setenv("FAKE_FAULT", fault, 1);
    ranks_run_killed(ranks, body, killed);
    unsetenv("FAKE_FAULT");
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
    ranks_run(2, long_group);
    unsetenv("FAKE_PRECONNECT");
}

int main(void)
{
    link_set();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_death),
        cmocka_unit_test(test_faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
