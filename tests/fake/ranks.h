/*
 * For tests of the stand-in: runs a function in several processes, as ranks. A check that fails ends its process with
 * one line; the test then fails. The process that forks must not have used a device before.
 */
#ifndef FAKE_RANKS_H
#define FAKE_RANKS_H

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <nccl.h>

#define RANKS_MAX 8
#define RANKS_SECONDS 60 /* a rank that hangs */

#define CHECK(condition)                                                                             \
    do {                                                                                             \
        if (!(condition)) {                                                                          \
            fprintf(stderr, "%s:%d: rank %s: %s\n", __FILE__, __LINE__, getenv("RANK"), #condition); \
            exit(1);                                                                                 \
        }                                                                                            \
    } while (0)
#define CUDA(call) CHECK((call) == cudaSuccess)
#define NCCL(call) CHECK((call) == ncclSuccess)

/* Shared by the ranks of one run: made before they start. */
static ncclUniqueId ranks_id __attribute__((unused));
static int ranks_pipe[2];

/* Lets `count` waiting ranks of this run go on, and waits to be let. */
static inline void ranks_let(int count)
{
    for (int i = 0; i < count; i++)
        CHECK(write(ranks_pipe[1], "", 1) == 1);
}

static inline void ranks_await(void)
{
    char byte;
    CHECK(read(ranks_pipe[0], &byte, 1) == 1);
}

static inline pid_t rank_start(int rank, int ranks, void (*body)(int rank, int ranks))
{
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    char text[16];
    snprintf(text, sizeof text, "%d", rank);
    setenv("RANK", text, 1);
    alarm(RANKS_SECONDS);
    body(rank, ranks);
    exit(0);
}

/* Whether a rank ended as it should: by itself, or killed. */
static inline void rank_wait(pid_t pid, int by_signal)
{
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (by_signal)
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == by_signal);
    else
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* `killed`: the rank that must end by SIGKILL, or -1. */
static inline void ranks_run_killed(int ranks, void (*body)(int rank, int ranks), int killed)
{
    pid_t pids[RANKS_MAX];
    fflush(NULL);
    assert_int_equal(ncclGetUniqueId(&ranks_id), ncclSuccess);
    assert_int_equal(pipe(ranks_pipe), 0);
    for (int i = 0; i < ranks; i++)
        pids[i] = rank_start(i, ranks, body);
    for (int i = 0; i < ranks; i++)
        rank_wait(pids[i], i == killed ? SIGKILL : 0);
    close(ranks_pipe[0]);
    close(ranks_pipe[1]);
}

static inline void ranks_run(int ranks, void (*body)(int rank, int ranks))
{
    ranks_run_killed(ranks, body, -1);
}

/* Device memory of `bytes` with the bytes of `from` (may be NULL). */
static inline void *device_copy(const void *from, size_t bytes)
{
    void *device;
    CUDA(cudaMalloc(&device, bytes));
    if (from)
        CUDA(cudaMemcpy(device, from, bytes, cudaMemcpyHostToDevice));
    return device;
}

static inline void host_copy(void *to, const void *device, size_t bytes)
{
    CUDA(cudaMemcpy(to, device, bytes, cudaMemcpyDeviceToHost));
}

/* The communicator of all ranks, on the device of the rank's number. */
static inline ncclComm_t comm_of(int rank, int ranks)
{
    ncclComm_t comm;
    CUDA(cudaSetDevice(rank));
    NCCL(ncclCommInitRank(&comm, ranks, ranks_id, rank));
    return comm;
}

static inline int *device_int(int value)
{
    return device_copy(&value, sizeof value);
}

static inline int host_int(const int *device)
{
    int value;
    host_copy(&value, device, sizeof value);
    return value;
}

/* One all-reduce of 1: how many ranks took part. */
static inline int count_ranks(ncclComm_t comm)
{
    int *value = device_int(1);
    NCCL(ncclAllReduce(value, value, 1, ncclInt32, ncclSum, comm, NULL));
    int sum = host_int(value);
    CUDA(cudaFree(value));
    return sum;
}

/* Waits for the end of a nonblocking call. */
static inline void settle(ncclComm_t comm)
{
    ncclResult_t state = ncclInProgress;
    while (state == ncclInProgress) {
        NCCL(ncclCommGetAsyncError(comm, &state));
        usleep(1);
    }
    CHECK(state == ncclSuccess);
}

/* Costs that make modelled times easy to tell: 7 us and 2 GB/s between ranks, 1 GB/s within a device. */
static inline void link_set(void)
{
    setenv("FAKE_LINK_LATENCY_US", "7", 1);
    setenv("FAKE_LINK_GBPS", "2", 1);
    setenv("FAKE_HBM_GBPS", "1", 1);
}

#endif
