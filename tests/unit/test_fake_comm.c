/*
 * The stand-in NCCL between processes: children, nonblocking communicators, errors.
 */
#include "tests/fake/ranks.h"

/* Children ---------------------------------------------------------------------------------------- */

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

/* Nonblocking ------------------------------------------------------------------------------------- */

static void nonblocking(int rank, int ranks)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclComm_t comm, child;
    ncclResult_t state;
    int *value = device_int(1);
    CUDA(cudaDeviceSynchronize());
    /* Rank 0 alone cannot be ready: the others come when it has looked. */
    CUDA(cudaSetDevice(rank));
    if (rank > 0)
        ranks_await();
    CHECK(ncclCommInitRankConfig(&comm, ranks, ranks_id, rank, &config) == ncclInProgress);
    if (rank == 0) {
        NCCL(ncclCommGetAsyncError(comm, &state));
        CHECK(state == ncclInProgress);
        CHECK(ncclAllReduce(value, value, 1, ncclInt32, ncclSum, comm, NULL) == ncclInvalidArgument);
        ranks_let(ranks - 1);
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

/* Errors ------------------------------------------------------------------------------------------ */

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

/* Tests ------------------------------------------------------------------------------------------- */

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

int main(void)
{
    link_set();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_children),
        cmocka_unit_test(test_nonblocking),
        cmocka_unit_test(test_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
