/*
 * The stand-in NCCL between processes: sends and receives, groups, the order of one communicator.
 */
#include "tests/fake/ranks.h"

/* Sends and receives ------------------------------------------------------------------------------ */

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

/* Groups ------------------------------------------------------------------------------------------ */

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

/* Tests ------------------------------------------------------------------------------------------- */

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

int main(void)
{
    link_set();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_point_to_point),
        cmocka_unit_test(test_groups),
        cmocka_unit_test(test_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
