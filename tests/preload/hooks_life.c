/*
 * Lives of processes and communicators that are out of the ordinary, one a run: hooks_life CASE. Prints nothing and
 * returns 0 where all is well for the program; hooks.bats looks at the trace.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "shim/real.h"

#define RANKS 2
#define COUNT 64
#define THREADS 8

#define CHECK(condition)                                                    \
    do {                                                                    \
        if (!(condition)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            exit(1);                                                        \
        }                                                                   \
    } while (0)
#define CUDA(call) CHECK((call) == cudaSuccess)
#define NCCL(call) CHECK((call) == ncclSuccess)

static ncclComm_t comms[RANKS];
static cudaStream_t streams[RANKS];
static int *sends[RANKS], *receives[RANKS];

static void buffers_make(void)
{
    for (int i = 0; i < RANKS; i++) {
        CUDA(cudaSetDevice(i));
        CUDA(cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking));
        CUDA(cudaMalloc((void **)&sends[i], RANKS * COUNT * sizeof(int)));
        CUDA(cudaMalloc((void **)&receives[i], RANKS * COUNT * sizeof(int)));
    }
}

static void settle(ncclComm_t comm)
{
    static const struct timespec moment = {.tv_nsec = 100000};
    ncclResult_t state = ncclInProgress;
    while (state == ncclInProgress) {
        NCCL(ncclCommGetAsyncError(comm, &state));
        nanosleep(&moment, NULL);
    }
    CHECK(state == ncclSuccess);
}

/* A gather, a reduce-scatter and an all-reduce, each in a group of both ranks that returns `result`. */
static void train(ncclResult_t result)
{
    for (int op = 0; op < 3; op++) {
        NCCL(ncclGroupStart());
        for (int i = 0; i < RANKS; i++) {
            if (op == 0)
                ncclAllGather(sends[i], receives[i], COUNT, ncclInt32, comms[i], streams[i]);
            else if (op == 1)
                ncclReduceScatter(sends[i], receives[i], COUNT, ncclInt32, ncclSum, comms[i], streams[i]);
            else
                ncclAllReduce(sends[i], receives[i], COUNT, ncclInt32, ncclSum, comms[i], streams[i]);
        }
        CHECK(ncclGroupEnd() == result);
        for (int i = 0; i < RANKS; i++) {
            settle(comms[i]);
            CUDA(cudaStreamSynchronize(streams[i]));
        }
    }
}

static void comms_destroy(void)
{
    for (int i = 0; i < RANKS; i++)
        NCCL(ncclCommDestroy(comms[i]));
}

/* ---------------------------------------------------------------- cases */

static void all_in_group(void)
{
    buffers_make();
    NCCL(ncclGroupStart());
    NCCL(ncclCommInitAll(comms, RANKS, NULL));
    NCCL(ncclGroupEnd());
    train(ncclSuccess);
    comms_destroy();
}

static void nonblocking(void)
{
    ncclUniqueId id;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    buffers_make();
    NCCL(ncclGetUniqueId(&id));
    NCCL(ncclGroupStart());
    for (int i = 0; i < RANKS; i++) {
        CUDA(cudaSetDevice(i));
        ncclCommInitRankConfig(&comms[i], RANKS, id, i, &config);
    }
    CHECK(ncclGroupEnd() == ncclInProgress);
    for (int i = 0; i < RANKS; i++)
        settle(comms[i]);
    train(ncclInProgress);
    comms_destroy();
}

static pthread_barrier_t together;

static void *first_thread(void *argument)
{
    ncclComm_t comm;
    ncclUniqueId id;
    (void)argument;
    NCCL(ncclGetUniqueId(&id));
    pthread_barrier_wait(&together);
    NCCL(ncclCommInitRank(&comm, 1, id, 0));
    NCCL(ncclAllReduce(sends[0], sends[0], 0, ncclInt32, ncclSum, comm, NULL));
    NCCL(ncclCommDestroy(comm));
    return NULL;
}

/* The first hook of the process is entered by many threads at once. */
static void first_together(void)
{
    pthread_t threads[THREADS];
    pthread_barrier_init(&together, NULL, THREADS);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, first_thread, NULL) == 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

static void wait_for(pid_t child)
{
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* A child that no handler of pthread_atfork() knows of, and that ends by exit(). */
static void silent_fork(void)
{
    buffers_make();
    NCCL(ncclCommInitAll(comms, RANKS, NULL));
    train(ncclSuccess);
    pid_t child = _Fork();
    if (child == 0)
        exit(0);
    wait_for(child);
    train(ncclSuccess);
    comms_destroy();
}

static _Atomic bool enough;

static void *allocate_often(void *argument)
{
    (void)argument;
    for (void *memory; !enough;) {
        cudaMalloc(&memory, 100);
        cudaFree(memory);
        pthread_barrier_wait(&together);
    }
    return NULL;
}

/* The process ends while threads are in hooks, and a handler of exit() uses the device once more. */
static void late(void)
{
    void *memory;
    CHECK(cudaMalloc(&memory, 100) == cudaSuccess && cudaFree(memory) == cudaSuccess);
}

static void exit_in_use(void)
{
    pthread_t thread;
    atexit(late);
    buffers_make();
    pthread_barrier_init(&together, NULL, THREADS);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&thread, NULL, allocate_often, NULL) == 0);
    NCCL(ncclCommInitAll(comms, RANKS, NULL));
    train(ncclSuccess);
    exit(0);
}

/* On one rank a gather of more than 64 MiB and a reduction of 64 MiB, of zeros but for one byte. */
static void large(size_t where)
{
    size_t most = ((size_t)64 << 20) + 4096;
    ncclComm_t comm;
    ncclUniqueId id;
    char *data;
    NCCL(ncclGetUniqueId(&id));
    NCCL(ncclCommInitRank(&comm, 1, id, 0));
    CUDA(cudaMalloc((void **)&data, most));
    CUDA(cudaMemset(data, 0, most));
    CUDA(cudaMemset(data + where, 1, 1));
    NCCL(ncclAllGather(data, data, most, ncclInt8, comm, NULL));
    NCCL(ncclAllReduce(data, data, most - 4096, ncclInt8, ncclSum, comm, NULL));
    CUDA(cudaDeviceSynchronize());
    NCCL(ncclCommDestroy(comm));
    CUDA(cudaFree(data));
}

/* Both in the second page: of the first two a sample has the first. */
static void large_one(void)
{
    large(4096);
}

static void large_other(void)
{
    large(4097);
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {{"all-in-group", all_in_group}, {"nonblocking", nonblocking}, {"first-together", first_together},
             {"silent-fork", silent_fork},   {"exit-in-use", exit_in_use}, {"large", large_one},
             {"large-other", large_other}};

int main(int argc, char **argv)
{
    for (size_t i = 0; argc == 2 && i < sizeof cases / sizeof cases[0]; i++) {
        if (strcmp(argv[1], cases[i].name) != 0)
            continue;
        cases[i].run();
        return 0;
    }
    fprintf(stderr, "hooks_life: which case?\n");
    return 2;
}
