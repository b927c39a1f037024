/*
 * The stand-in NCCL between processes: every collective against a plain reference, types, reductions, modelled time.
 */
#include "tests/fake/ranks.h"

#include <math.h>

#define COUNT 70001 /* several chunks, and an odd rest */

/* A tool's wrapper: the stand-in's ncclBcast must come through it, as the real one does. */
static int broadcasts;

__attribute__((visibility("default"))) ncclResult_t ncclBroadcast(const void *send, void *recv, size_t count,
                                                                  ncclDataType_t datatype, int root, ncclComm_t comm,
                                                                  cudaStream_t stream)
{
    broadcasts++;
    return pncclBroadcast(send, recv, count, datatype, root, comm, stream);
}

/* What rank `rank` puts at place i. */
static int value_of(int rank, size_t i)
{
    return (int)(i * 7 + (size_t)rank * 1000003);
}

static int *values_of(int rank, size_t count)
{
    int *values = malloc(count * sizeof *values);
    for (size_t i = 0; i < count; i++)
        values[i] = value_of(rank, i);
    return values;
}

static void all_gather(int rank, int ranks)
{
    ncclComm_t comm = comm_of(rank, ranks);
    int *mine = values_of(rank, COUNT);
    int *result = malloc((size_t)ranks * COUNT * sizeof *result);
    int *send = device_copy(mine, COUNT * sizeof *mine);
    int *recv = device_copy(NULL, (size_t)ranks * COUNT * sizeof *recv);
    NCCL(ncclAllGather(send, recv, COUNT, ncclInt32, comm, NULL));
    host_copy(result, recv, (size_t)ranks * COUNT * sizeof *result);
    for (int r = 0; r < ranks; r++)
        for (size_t i = 0; i < COUNT; i++)
            CHECK(result[(size_t)r * COUNT + i] == value_of(r, i));
    /* In place. */
    CUDA(cudaMemset(recv, 0, (size_t)ranks * COUNT * sizeof *recv));
    CUDA(cudaMemcpy(recv + (size_t)rank * COUNT, mine, COUNT * sizeof *mine, cudaMemcpyHostToDevice));
    NCCL(ncclAllGather(recv + (size_t)rank * COUNT, recv, COUNT, ncclInt32, comm, NULL));
    int *again = malloc((size_t)ranks * COUNT * sizeof *again);
    host_copy(again, recv, (size_t)ranks * COUNT * sizeof *again);
    CHECK(memcmp(again, result, (size_t)ranks * COUNT * sizeof *again) == 0);
    free(again);
    free(mine);
    free(result);
    NCCL(ncclCommDestroy(comm));
}

static int sum_of(int ranks, size_t i)
{
    int sum = 0;
    for (int r = 0; r < ranks; r++)
        sum += value_of(r, i);
    return sum;
}

static void reduces(int rank, int ranks)
{
    ncclComm_t comm = comm_of(rank, ranks);
    int *mine = values_of(rank, COUNT);
    int *result = malloc(COUNT * sizeof *result);
    int *send = device_copy(mine, COUNT * sizeof *mine);
    int *recv = device_copy(NULL, COUNT * sizeof *recv);
    NCCL(ncclAllReduce(send, recv, COUNT, ncclInt32, ncclSum, comm, NULL));
    host_copy(result, recv, COUNT * sizeof *result);
    for (size_t i = 0; i < COUNT; i++)
        CHECK(result[i] == sum_of(ranks, i));
    int root = ranks - 1;
    CUDA(cudaMemset(recv, 0, COUNT * sizeof *recv));
    NCCL(ncclReduce(send, recv, COUNT, ncclInt32, ncclSum, root, comm, NULL));
    host_copy(result, recv, COUNT * sizeof *result);
    for (size_t i = 0; i < COUNT; i++)
        CHECK(result[i] == (rank == root ? sum_of(ranks, i) : 0));
    size_t part = COUNT / (size_t)ranks;
    NCCL(ncclReduceScatter(send, recv, part, ncclInt32, ncclSum, comm, NULL));
    host_copy(result, recv, part * sizeof *result);
    for (size_t i = 0; i < part; i++)
        CHECK(result[i] == sum_of(ranks, (size_t)rank * part + i));
    /* In place. */
    NCCL(ncclReduceScatter(send, send + (size_t)rank * part, part, ncclInt32, ncclSum, comm, NULL));
    host_copy(result, send + (size_t)rank * part, part * sizeof *result);
    for (size_t i = 0; i < part; i++)
        CHECK(result[i] == sum_of(ranks, (size_t)rank * part + i));
    free(mine);
    free(result);
    NCCL(ncclCommDestroy(comm));
}

static void moves(int rank, int ranks)
{
    ncclComm_t comm = comm_of(rank, ranks);
    const size_t count = 30011;
    size_t all = (size_t)ranks * count;
    int *mine = values_of(rank, all);
    int *result = malloc(all * sizeof *result);
    int *send = device_copy(mine, all * sizeof *mine);
    int *recv = device_copy(NULL, all * sizeof *recv);
    int root = 1;
    NCCL(ncclBroadcast(send, recv, count, ncclInt32, root, comm, NULL));
    host_copy(result, recv, count * sizeof *result);
    for (size_t i = 0; i < count; i++)
        CHECK(result[i] == value_of(root, i));
    NCCL(ncclAlltoAll(send, recv, count, ncclInt32, comm, NULL));
    host_copy(result, recv, all * sizeof *result);
    for (size_t i = 0; i < all; i++)
        CHECK(result[i] == value_of((int)(i / count), (size_t)rank * count + i % count));
    CUDA(cudaMemset(recv, 0, all * sizeof *recv));
    NCCL(ncclGather(send, recv, count, ncclInt32, root, comm, NULL));
    host_copy(result, recv, all * sizeof *result);
    for (size_t i = 0; i < all; i++)
        CHECK(result[i] == (rank == root ? value_of((int)(i / count), i % count) : 0));
    NCCL(ncclScatter(rank == root ? send : NULL, recv, count, ncclInt32, root, comm, NULL));
    host_copy(result, recv, count * sizeof *result);
    for (size_t i = 0; i < count; i++)
        CHECK(result[i] == value_of(root, (size_t)rank * count + i));
    broadcasts = 0;
    NCCL(ncclBcast(send, count, ncclInt32, 0, comm, NULL));
    CHECK(broadcasts == 1);
    host_copy(result, send, count * sizeof *result);
    for (size_t i = 0; i < count; i++)
        CHECK(result[i] == value_of(0, i));
    free(mine);
    free(result);
    NCCL(ncclCommDestroy(comm));
}

static float from_bf16(uint16_t bits)
{
    uint32_t word = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &word, sizeof value);
    return value;
}

/* Small integers are exact in every type: codes of 1, 2, 3, 6 and of the sums of two ranks. */
static const struct exact {
    ncclDataType_t datatype;
    size_t bytes;
    uint64_t of1, of2, of3, of6;
} exacts[] = {
    {ncclInt8, 1, 1, 2, 3, 6},
    {ncclUint8, 1, 1, 2, 3, 6},
    {ncclInt32, 4, 1, 2, 3, 6},
    {ncclUint32, 4, 1, 2, 3, 6},
    {ncclInt64, 8, 1, 2, 3, 6},
    {ncclUint64, 8, 1, 2, 3, 6},
    {ncclFloat16, 2, 0x3c00, 0x4000, 0x4200, 0x4600},
    {ncclFloat32, 4, 0x3f800000, 0x40000000, 0x40400000, 0x40c00000},
    {ncclFloat64, 8, 0x3ff0000000000000, 0x4000000000000000, 0x4008000000000000, 0x4018000000000000},
    {ncclBfloat16, 2, 0x3f80, 0x4000, 0x4040, 0x40c0},
    {ncclFloat8e4m3, 1, 0x38, 0x40, 0x44, 0x4c},
    {ncclFloat8e5m2, 1, 0x3c, 0x40, 0x42, 0x46},
};

static uint64_t reduced(const struct exact *exact, const void *send, void *recv, ncclRedOp_t op, ncclComm_t comm)
{
    uint64_t result = 0;
    NCCL(ncclAllReduce(send, recv, 1, exact->datatype, op, comm, NULL));
    host_copy(&result, recv, exact->bytes);
    return result;
}

/* Rank 0 has 1, rank 1 has 3 (for the sum: 2 and 1). */
static void type_check(const struct exact *exact, int rank, ncclComm_t comm)
{
    uint64_t zero = 0;
    void *recv = device_copy(&zero, sizeof zero);
    void *odd = device_copy(rank == 0 ? &exact->of1 : &exact->of3, sizeof(uint64_t));
    void *low = device_copy(rank == 0 ? &exact->of2 : &exact->of1, sizeof(uint64_t));
    void *two = device_copy(rank == 0 ? &exact->of2 : &exact->of3, sizeof(uint64_t));
    CHECK(reduced(exact, low, recv, ncclSum, comm) == exact->of3);
    CHECK(reduced(exact, two, recv, ncclProd, comm) == exact->of6);
    CHECK(reduced(exact, odd, recv, ncclMax, comm) == exact->of3);
    CHECK(reduced(exact, odd, recv, ncclMin, comm) == exact->of1);
    CHECK(reduced(exact, odd, recv, ncclAvg, comm) == exact->of2);
    ncclRedOp_t scaled;
    uint64_t factor = exact->of2;
    NCCL(ncclRedOpCreatePreMulSum(&scaled, &factor, exact->datatype, ncclScalarHostImmediate, comm));
    factor = 0; /* read already */
    CHECK(reduced(exact, low, recv, scaled, comm) == exact->of6);
    NCCL(ncclRedOpDestroy(scaled, comm));
    CHECK(ncclAllReduce(low, recv, 1, exact->datatype, scaled, comm, NULL) == ncclInvalidArgument);
}

static void types(int rank, int ranks)
{
    ncclComm_t comm = comm_of(rank, ranks);
    for (size_t i = 0; i < sizeof exacts / sizeof *exacts; i++)
        type_check(&exacts[i], rank, comm);
    /* Rounding: 1 + 2^-8 is a tie in bf16 and goes to even; 3 * 2^-8 is not representable beside 1 and rounds up. */
    uint16_t one = rank == 0 ? 0x3f80 : 0x3b80, result;
    void *send = device_copy(&one, sizeof one), *recv = device_copy(NULL, sizeof one);
    NCCL(ncclAllReduce(send, recv, 1, ncclBfloat16, ncclSum, comm, NULL));
    host_copy(&result, recv, sizeof result);
    CHECK(from_bf16(result) == 1.0f);
    /* The largest e4m3 saturates, f16 overflows to infinity. */
    uint8_t large = 0x7e, small;
    CUDA(cudaMemcpy(send, &large, 1, cudaMemcpyHostToDevice));
    NCCL(ncclAllReduce(send, recv, 1, ncclFloat8e4m3, ncclSum, comm, NULL));
    host_copy(&small, recv, 1);
    CHECK(small == 0x7e);
    uint16_t half = 0x7bff;
    CUDA(cudaMemcpy(send, &half, sizeof half, cudaMemcpyHostToDevice));
    NCCL(ncclAllReduce(send, recv, 1, ncclFloat16, ncclSum, comm, NULL));
    host_copy(&half, recv, sizeof half);
    CHECK(half == 0x7c00);
    NCCL(ncclCommDestroy(comm));
}

/* A scalar in device memory is read when the collective runs. */
static void device_scalar(int rank, int ranks)
{
    ncclComm_t comm = comm_of(rank, ranks);
    float value = 3, factor = 1, result;
    float *send = device_copy(&value, sizeof value), *recv = device_copy(NULL, sizeof value);
    float *scalar = device_copy(&factor, sizeof factor);
    ncclRedOp_t op;
    NCCL(ncclRedOpCreatePreMulSum(&op, scalar, ncclFloat32, ncclScalarDevice, comm));
    factor = 0.5f;
    CUDA(cudaMemcpy(scalar, &factor, sizeof factor, cudaMemcpyHostToDevice));
    NCCL(ncclAllReduce(send, recv, 1, ncclFloat32, op, comm, NULL));
    host_copy(&result, recv, sizeof result);
    CHECK(result == 1.5f * (float)ranks);
    NCCL(ncclRedOpDestroy(op, comm));
    NCCL(ncclCommDestroy(comm));
}

/* The collective starts when the last rank is ready and ends for all alike. */
static void modelled_time(int rank, int ranks)
{
    ncclComm_t comm = comm_of(rank, ranks);
    cudaStream_t stream;
    cudaEvent_t begin, end;
    CUDA(cudaStreamCreate(&stream));
    CUDA(cudaEventCreate(&begin));
    CUDA(cudaEventCreate(&end));
    char *send = device_copy(NULL, 100000), *recv = device_copy(NULL, 400000);
    CUDA(cudaEventRecord(begin, stream));
    /* 50 us for each rank number: bytes at 1 GB/s. */
    if (rank > 0)
        CUDA(cudaMemsetAsync(recv, 0, (size_t)rank * 50000, stream));
    NCCL(ncclAllGather(send, recv, 100000, ncclInt8, comm, stream));
    CUDA(cudaEventRecord(end, stream));
    CUDA(cudaStreamSynchronize(stream));
    float ms;
    CUDA(cudaEventElapsedTime(&ms, begin, end));
    double us = 50.0 * (ranks - 1) + 7 + (ranks - 1) * 100000 / 2e3;
    CHECK(ms == (float)(us / 1e3));
    /* An all-reduce of 60000 bytes moves 2 (n - 1) / n of them. */
    CUDA(cudaEventRecord(begin, stream));
    NCCL(ncclAllReduce(send, recv, 60000, ncclInt8, ncclSum, comm, stream));
    CUDA(cudaEventRecord(end, stream));
    CUDA(cudaEventSynchronize(end));
    CUDA(cudaEventElapsedTime(&ms, begin, end));
    CHECK(ms == (float)((7 + 2.0 * (ranks - 1) * 60000 / ranks / 2e3) / 1e3));
    CUDA(cudaEventDestroy(begin));
    CUDA(cudaEventDestroy(end));
    NCCL(ncclCommDestroy(comm));
}

static void test_all_gather(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= 4; ranks++)
        ranks_run(ranks, all_gather);
}

static void test_reduces(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= 4; ranks++)
        ranks_run(ranks, reduces);
}

static void test_moves(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= 4; ranks++)
        ranks_run(ranks, moves);
}

static void test_types(void **state)
{
    (void)state;
    ranks_run(2, types);
    ranks_run(3, device_scalar);
}

static void test_modelled_time(void **state)
{
    (void)state;
    link_set();
    for (int ranks = 2; ranks <= 4; ranks++)
        ranks_run(ranks, modelled_time);
    unsetenv("FAKE_LINK_LATENCY_US");
    unsetenv("FAKE_LINK_GBPS");
    unsetenv("FAKE_HBM_GBPS");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_gather), cmocka_unit_test(test_reduces),       cmocka_unit_test(test_moves),
        cmocka_unit_test(test_types),      cmocka_unit_test(test_modelled_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
