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

/* ---------------------------------------------------------------- bfloat16, kept packed where memory is short */

#define HALVES 20011

/* What weights look like; or, where `any`, all bits alike often: that has no packed form. */
static uint16_t half_of(const struct world *world, int rank, int unit, size_t index, bool any)
{
    uint32_t word = word_of(world->generation, rank, unit, index);
    unsigned exponent = 121 - (unsigned)__builtin_ctz((word >> 16) | 1u << 15);
    return any ? (uint16_t)word : (uint16_t)((word & 0x8000u) | exponent << 7 | (word & 0x7fu));
}

static void halves_gather(const struct world *world, uint16_t *send, uint16_t *full, int unit, bool any)
{
    static uint16_t halves[RANKS_MAX * HALVES];
    for (size_t i = 0; i < HALVES; i++)
        halves[i] = half_of(world, world->rank, unit, i, any);
    CUDA(cudaMemcpyAsync(send, halves, HALVES * 2, cudaMemcpyHostToDevice, world->stream));
    CUDA(cudaMemsetAsync(full, 0xaa, HALVES * 2 * (size_t)world->ranks, world->stream));
    NCCL(ncclAllGather(send, full, HALVES, ncclBfloat16, world->comm, world->stream));
    CUDA(cudaMemcpyAsync(halves, full, HALVES * 2 * (size_t)world->ranks, cudaMemcpyDeviceToHost, world->stream));
    CUDA(cudaStreamSynchronize(world->stream));
    for (int rank = 0; rank < world->ranks; rank++)
        for (size_t i = 0; i < HALVES; i++)
            CHECK(halves[(size_t)rank * HALVES + i] == half_of(world, rank, unit, i, any));
}

/* From step `any_from` on unit 1 holds any bits. */
static void halves_train(int rank, int ranks, int steps, int any_from)
{
    struct world world = begin(rank, ranks);
    uint16_t *sends, *fulls;
    CUDA(cudaMalloc((void **)&sends, HALVES * 2 + 64));
    CUDA(cudaMalloc((void **)&fulls, RANKS_MAX * HALVES * 2 + 64));
    for (int i = 0; i < steps; i++) {
        for (int k = 0; k < 2 * UNITS; k++) {
            int unit = k < UNITS ? k : 2 * UNITS - 1 - k;
            halves_gather(&world, sends + (i * 7 + k) % 17, fulls + (i * 5 + k) % 19, unit, unit == 1 && i >= any_from);
        }
        reduce(&world);
        shards_change(&world);
    }
    NCCL(ncclCommDestroy(world.comm));
}

static void halves(int rank, int ranks)
{
    halves_train(rank, ranks, 3 * ARMED, 3 * ARMED);
}

static void halves_of_any_bits(int rank, int ranks)
{
    halves_train(rank, ranks, 5 * ARMED, 2 * ARMED);
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
    {"none-left", 2, none_left, -1}, {"halves", 3, halves, -1},     {"halves-of-any-bits", 2, halves_of_any_bits, -1},
};

int main(int argc, char **argv)
{
    return cases_main(cases, sizeof cases / sizeof cases[0], argc, argv);
}
