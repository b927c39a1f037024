#include "replay_world.h"

ncclUniqueId world_ids[IDS];

void moment(unsigned milliseconds)
{
    struct timespec left = {.tv_sec = milliseconds / 1000, .tv_nsec = (long)(milliseconds % 1000) * 1000000};
    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        ;
}

pthread_t thread_start(void *(*body)(void *), void *argument)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, body, argument) == 0);
    return thread;
}

/* ---------------------------------------------------------------- ranks */

static pid_t rank_start(int rank, int ranks, void (*body)(int rank, int ranks))
{
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    char text[16];
    snprintf(text, sizeof text, "%d", rank);
    setenv("RANK", text, 1);
    setenv("LOCAL_RANK", text, 1);
    snprintf(text, sizeof text, "%d", ranks);
    setenv("WORLD_SIZE", text, 1);
    alarm(SECONDS);
    body(rank, ranks);
    exit(0);
}

static bool rank_ended_well(pid_t pid, bool killed)
{
    int status;
    if (pid <= 0 || waitpid(pid, &status, 0) != pid)
        return false;
    bool well = killed ? WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL : status == 0;
    if (!well)
        fprintf(stderr, "a rank ends by status 0x%x\n", (unsigned)status);
    return well;
}

int world_run(int ranks, void (*body)(int rank, int ranks), int killed)
{
    pid_t pids[RANKS_MAX];
    int failed = 0;
    for (int i = 0; i < IDS; i++)
        if (ncclGetUniqueId(&world_ids[i]) != ncclSuccess)
            return ranks;
    for (int i = 0; i < ranks; i++)
        pids[i] = rank_start(i, ranks, body);
    for (int i = 0; i < ranks; i++)
        failed += !rank_ended_well(pids[i], i == killed);
    return failed;
}

/* ---------------------------------------------------------------- the trainer */

uint32_t word_of(unsigned generation, int rank, int unit, size_t index)
{
    uint32_t word = (uint32_t)(index * 2654435761u) ^ (uint32_t)(rank * 97 + unit * 8191) ^ (generation << 20);
    return word * 2246822519u + 1;
}

void shards_change(struct world *world)
{
    uint32_t words[COUNT];
    world->generation++;
    for (int unit = 0; unit < UNITS; unit++) {
        for (size_t i = 0; i < COUNT; i++)
            words[i] = word_of(world->generation, world->rank, unit, i);
        CUDA(cudaMemcpyAsync(world->shard[unit], words, sizeof words, cudaMemcpyHostToDevice, world->stream));
        CUDA(cudaStreamSynchronize(world->stream));
    }
}

struct world world_make(int rank, int ranks, ncclComm_t comm)
{
    struct world world = {.rank = rank, .ranks = ranks, .comm = comm};
    size_t bytes = COUNT * sizeof(uint32_t);
    CUDA(cudaStreamCreateWithFlags(&world.stream, cudaStreamNonBlocking));
    for (int unit = 0; unit < UNITS; unit++) {
        CUDA(cudaMalloc((void **)&world.shard[unit], bytes));
        CUDA(cudaMalloc((void **)&world.full[unit], bytes * (size_t)ranks));
    }
    CUDA(cudaMalloc((void **)&world.reduced, bytes));
    shards_change(&world);
    return world;
}

void world_free(struct world *world)
{
    for (int unit = 0; unit < UNITS; unit++) {
        CUDA(cudaFree(world->shard[unit]));
        CUDA(cudaFree(world->full[unit]));
    }
    CUDA(cudaFree(world->reduced));
    CUDA(cudaStreamDestroy(world->stream));
}

ncclComm_t comm_make(int rank, int ranks, int id)
{
    ncclComm_t comm;
    CUDA(cudaSetDevice(rank));
    NCCL(ncclCommInitRank(&comm, ranks, world_ids[id], rank));
    return comm;
}

ncclResult_t gather_call(struct world *world, int unit)
{
    return ncclAllGather(world->shard[unit], world->full[unit], COUNT, ncclUint32, world->comm, world->stream);
}

void gather_check(struct world *world, int unit)
{
    uint32_t words[RANKS_MAX * COUNT];
    size_t bytes = COUNT * sizeof(uint32_t) * (size_t)world->ranks;
    CUDA(cudaMemcpyAsync(words, world->full[unit], bytes, cudaMemcpyDeviceToHost, world->stream));
    CUDA(cudaMemsetAsync(world->full[unit], 0xaa, bytes, world->stream));
    CUDA(cudaStreamSynchronize(world->stream));
    for (int rank = 0; rank < world->ranks; rank++)
        for (size_t i = 0; i < COUNT; i++)
            CHECK(words[(size_t)rank * COUNT + i] == word_of(world->generation, rank, unit, i));
}

void gather(struct world *world, int unit)
{
    NCCL(gather_call(world, unit));
    gather_check(world, unit);
}

void step(struct world *world)
{
    for (int unit = 0; unit < UNITS; unit++)
        gather(world, unit);
    for (int unit = UNITS - 1; unit >= 0; unit--) {
        gather(world, unit);
        NCCL(ncclReduceScatter(world->full[unit], world->reduced, COUNT, ncclUint32, ncclSum, world->comm,
                               world->stream));
    }
    CUDA(cudaStreamSynchronize(world->stream));
    shards_change(world);
}

void train(struct world *world, int steps)
{
    for (int i = 0; i < steps; i++)
        step(world);
}

/* ---------------------------------------------------------------- the program */

int cases_main(const struct test_case *cases, size_t count, int argc, char **argv)
{
    for (size_t i = 0; argc == 2 && i < count; i++)
        if (strcmp(argv[1], cases[i].name) == 0)
            return world_run(cases[i].ranks, cases[i].body, cases[i].killed) == 0 ? 0 : 1;
    fprintf(stderr, "%s: which case?\n", argv[0]);
    return 2;
}
