/*
 * Buffers, streams, memory and captures that are out of the ordinary while gathers come from memory: replay_data CASE.
 * Prints nothing and returns 0 where every byte is right.
 */
#include "replay_world.h"

static struct world begin(int rank, int ranks)
{
    return world_make(rank, ranks, comm_make(rank, ranks, 0));
}

static void reduce(struct world *world)
{
    NCCL(ncclReduceScatter(world->full[0], world->reduced, COUNT, ncclUint32, ncclSum, world->comm, world->stream));
}

/* ---------------------------------------------------------------- addresses and sizes */

#define BYTES 1021

static void bytes_check(const struct world *world, const unsigned char *full, int unit)
{
    unsigned char bytes[RANKS_MAX * BYTES];
    CUDA(cudaMemcpyAsync(bytes, full, BYTES * (size_t)world->ranks, cudaMemcpyDeviceToHost, world->stream));
    CUDA(cudaStreamSynchronize(world->stream));
    for (int rank = 0; rank < world->ranks; rank++)
        for (size_t i = 0; i < BYTES; i++)
            CHECK(bytes[(size_t)rank * BYTES + i] == (unsigned char)(word_of(world->generation, rank, unit, i) >> 24));
}

static void bytes_send(const struct world *world, unsigned char *send, int unit)
{
    unsigned char bytes[BYTES];
    for (size_t i = 0; i < BYTES; i++)
        bytes[i] = (unsigned char)(word_of(world->generation, world->rank, unit, i) >> 24);
    CUDA(cudaMemcpyAsync(send, bytes, BYTES, cudaMemcpyHostToDevice, world->stream));
    CUDA(cudaStreamSynchronize(world->stream));
}

/* Odd sizes at odd addresses, other ones each time; gathers of nothing between. */
static void unaligned(int rank, int ranks)
{
    struct world world = begin(rank, ranks);
    unsigned char *sends, *fulls;
    CUDA(cudaMalloc((void **)&sends, UNITS * (BYTES + 64)));
    CUDA(cudaMalloc((void **)&fulls, RANKS_MAX * BYTES + 64));
    for (int i = 0; i < 2 * ARMED; i++) {
        for (int k = 0; k < 2 * UNITS; k++) {
            int unit = k < UNITS ? k : 2 * UNITS - 1 - k;
            unsigned char *send = sends + unit * (BYTES + 64) + (i * 7 + k) % 17, *full = fulls + (i * 5 + k) % 19;
            bytes_send(&world, send, unit);
            CUDA(cudaMemsetAsync(fulls, 0xaa, RANKS_MAX * BYTES + 64, world.stream));
            NCCL(ncclAllGather(send, full, BYTES, ncclInt8, world.comm, world.stream));
            NCCL(ncclAllGather(NULL, NULL, 0, ncclInt8, world.comm, world.stream));
            bytes_check(&world, full, unit);
        }
        reduce(&world);
        shards_change(&world);
    }
    NCCL(ncclCommDestroy(world.comm));
}

/* ---------------------------------------------------------------- one buffer for many calls */

/* What a gather delivers is what the next one sends, into the buffer that the one before delivered to; nothing is
 * waited for, and what comes is checked behind all of it. */
static void chained(int rank, int ranks)
{
    struct world world = begin(rank, ranks);
    size_t next = (size_t)((rank + 1) % ranks) * COUNT, bytes = COUNT * sizeof(uint32_t) * (size_t)ranks;
    uint32_t *second, words[RANKS_MAX * COUNT];
    CUDA(cudaMalloc((void **)&second, bytes));
    for (int i = 0; i < 2 * ARMED; i++) {
        for (int k = 0; k < 2 * UNITS; k++) {
            int unit = k < UNITS ? k : 2 * UNITS - 1 - k;
            NCCL(ncclAllGather(world.shard[unit], world.full[0], COUNT, ncclUint32, world.comm, world.stream));
            NCCL(ncclAllGather(world.full[0] + next, second, COUNT, ncclUint32, world.comm, world.stream));
            CUDA(cudaMemsetAsync(world.full[0], 0xaa, bytes, world.stream));
            CUDA(cudaMemcpyAsync(words, second, bytes, cudaMemcpyDeviceToHost, world.stream));
            CUDA(cudaStreamSynchronize(world.stream));
            for (int from = 0; from < ranks; from++)
                for (size_t w = 0; w < COUNT; w++)
                    CHECK(words[(size_t)from * COUNT + w] == word_of(world.generation, (from + 1) % ranks, unit, w));
        }
        reduce(&world);
        shards_change(&world);
    }
    NCCL(ncclCommDestroy(world.comm));
}

/* A shard is written by another stream right after the call that sends it: ordered behind it, and before the next. */
static void rewritten(int rank, int ranks)
{
    struct world world = begin(rank, ranks);
    cudaStream_t writer;
    cudaEvent_t sent, written;
    uint32_t *values[2], words[COUNT];
    CUDA(cudaStreamCreateWithFlags(&writer, cudaStreamNonBlocking));
    CUDA(cudaEventCreate(&sent));
    CUDA(cudaEventCreate(&written));
    for (int k = 0; k < 2; k++)
        CUDA(cudaMalloc((void **)&values[k], sizeof words));
    for (int i = 0; i < 3 * ARMED; i++) {
        bool changes = i > ARMED && i % 5 == 0;
        for (int k = 0; k < 2; k++) {
            for (size_t w = 0; w < COUNT; w++)
                words[w] = word_of(world.generation + (unsigned)k, rank, 0, w);
            CUDA(cudaMemcpy(values[k], words, sizeof words, cudaMemcpyHostToDevice));
        }
        for (int unit = 0; unit < UNITS; unit++)
            gather(&world, unit);
        for (int unit = UNITS - 1; unit > 0; unit--)
            gather(&world, unit);
        gather(&world, 0);
        for (int k = 0; k < 2; k++) {
            NCCL(gather_call(&world, 0));
            CUDA(cudaEventRecord(sent, world.stream));
            CUDA(cudaStreamWaitEvent(writer, sent, 0));
            CUDA(cudaMemcpyAsync(world.shard[0], values[changes && k == 0], sizeof words, cudaMemcpyDeviceToDevice,
                                 writer));
            CUDA(cudaEventRecord(written, writer));
            CUDA(cudaStreamWaitEvent(world.stream, written, 0));
            if (k == 1)
                world.generation += changes;
            gather_check(&world, 0);
            if (k == 1)
                world.generation -= changes;
        }
        reduce(&world);
        shards_change(&world);
    }
    NCCL(ncclCommDestroy(world.comm));
}

/* ---------------------------------------------------------------- streams */

/* A stream that is made anew for each step, then the default ones. */
static void streams(int rank, int ranks)
{
    struct world world = begin(rank, ranks);
    for (int i = 0; i < 3 * ARMED; i++) {
        CUDA(cudaStreamDestroy(world.stream));
        CUDA(cudaStreamCreateWithFlags(&world.stream, cudaStreamNonBlocking));
        cudaStream_t made = world.stream;
        if (i % 4 == 2)
            world.stream = NULL;
        else if (i % 4 == 3)
            world.stream = i % 8 == 3 ? cudaStreamPerThread : cudaStreamLegacy;
        step(&world);
        CUDA(cudaDeviceSynchronize());
        world.stream = made;
    }
    NCCL(ncclCommDestroy(world.comm));
}

/* Gathers that are captured, alone and in a group, and run when the graph is launched, with the shards of then. */
static void captured(int rank, int ranks)
{
    struct world world = begin(rank, ranks);
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    for (int i = 0; i < 3 * ARMED; i++) {
        train(&world, 1);
        if (i < ARMED || i % 3 != 0)
            continue;
        gather(&world, 0);
        CUDA(cudaStreamBeginCapture(world.stream, cudaStreamCaptureModeGlobal));
        NCCL(gather_call(&world, 0));
        NCCL(ncclGroupStart());
        NCCL(gather_call(&world, 1));
        NCCL(gather_call(&world, 2));
        NCCL(ncclGroupEnd());
        CUDA(cudaStreamEndCapture(world.stream, &graph));
        CUDA(cudaGraphInstantiate(&exec, graph, 0));
        for (int k = 0; k < 2; k++) {
            shards_change(&world);
            CUDA(cudaGraphLaunch(exec, world.stream));
            for (int unit = 0; unit < 3; unit++)
                gather_check(&world, unit);
        }
        CUDA(cudaGraphExecDestroy(exec));
        CUDA(cudaGraphDestroy(graph));
    }
    NCCL(ncclCommDestroy(world.comm));
}

/* ---------------------------------------------------------------- memory */

static _Atomic bool enough;

/* Takes all memory of the device, and gives it back. */
static void *allocate(void *argument)
{
    struct world *world = argument;
    CUDA(cudaSetDevice(world->rank));
    while (!enough) {
        void *taken[64];
        int count = 0;
        while (count < 64 && cudaMalloc(&taken[count], 1 << 20) == cudaSuccess)
            count++;
        CHECK(count > 0 && cudaGetLastError() != cudaErrorIllegalAddress);
        moment(3);
        while (count > 0)
            CUDA(cudaFree(taken[--count]));
        moment(20);
    }
    return NULL;
}

/* The memory of the device is taken by another thread again and again. */
static void starved(int rank, int ranks)
{
    struct world world = begin(rank, ranks);
    train(&world, ARMED);
    pthread_t thread = thread_start(allocate, &world);
    train(&world, 5 * ARMED);
    enough = true;
    CHECK(pthread_join(thread, NULL) == 0);
    train(&world, 2 * ARMED);
    NCCL(ncclCommDestroy(world.comm));
}

/* There is none when the gathers would be kept for the first time. */
static void none_left(int rank, int ranks)
{
    struct world world = begin(rank, ranks);
    void *taken[64];
    int count = 0;
    while (rank == 1 && count < 64 && cudaMalloc(&taken[count], 1 << 20) == cudaSuccess)
        count++;
    cudaGetLastError();
    train(&world, 2 * ARMED);
    CHECK(cudaGetLastError() == cudaSuccess);
    while (count > 0)
        CUDA(cudaFree(taken[--count]));
    train(&world, 2 * ARMED);
    NCCL(ncclCommDestroy(world.comm));
}

static const struct test_case cases[] = {
    {"unaligned", 3, unaligned, -1}, {"chained", 3, chained, -1},   {"rewritten", 2, rewritten, -1},
    {"streams", 2, streams, -1},     {"captured", 2, captured, -1}, {"starved", 2, starved, -1},
    {"none-left", 2, none_left, -1},
};

int main(int argc, char **argv)
{
    return cases_main(cases, sizeof cases / sizeof cases[0], argc, argv);
}
