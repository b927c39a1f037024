/*
 * Communicators and processes whose lives are out of the ordinary while gathers come from memory: replay_life CASE.
 * Prints nothing and returns 0 where all is well for the program.
 */
#include <sys/resource.h>

#include "replay_world.h"

/* ---------------------------------------------------------------- communicators */

static void end_by_turns(ncclComm_t comm, int turn)
{
    if (turn % 3 == 0)
        NCCL(ncclCommFinalize(comm));
    if (turn % 3 == 2)
        NCCL(ncclCommAbort(comm));
    else
        NCCL(ncclCommDestroy(comm));
}

static void remade(int rank, int ranks)
{
    for (int i = 0; i < 20; i++) {
        struct world world = world_make(rank, ranks, comm_make(rank, ranks, i));
        train(&world, i % 4 == 3 ? ARMED : 2);
        end_by_turns(world.comm, i);
        world_free(&world);
    }
}

static void *train_there(void *argument)
{
    struct world *world = argument;
    CUDA(cudaSetDevice(atoi(getenv("RANK"))));
    train(world, ARMED + 8);
    return NULL;
}

/* All ranks, and halves of them, at the same time. */
static void two_sizes(int rank, int ranks)
{
    ncclComm_t all = comm_make(rank, ranks, 0), half;
    NCCL(ncclCommSplit(all, rank / 2, rank, &half, NULL));
    struct world worlds[2] = {world_make(rank, ranks, all), world_make(rank % 2, 2, half)};
    pthread_t thread = thread_start(train_there, &worlds[1]);
    train_there(&worlds[0]);
    CHECK(pthread_join(thread, NULL) == 0);
    NCCL(ncclCommDestroy(half));
    NCCL(ncclCommDestroy(all));
}

/* Children of a communicator that is replayed, then of one that is revoked. */
static void children(int rank, int ranks)
{
    int excluded = ranks - 1;
    ncclComm_t comm = comm_make(rank, ranks, 0), child = NULL;
    struct world world = world_make(rank, ranks, comm);
    train(&world, ARMED);
    NCCL(ncclCommSplit(comm, 0, rank, &child, NULL));
    train(&world, 2);
    world.comm = child;
    train(&world, ARMED);
    NCCL(ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT));
    train(&world, 2);
    NCCL(ncclCommDestroy(comm));
    train(&world, 2);
    if (rank != excluded) {
        ncclComm_t less;
        NCCL(ncclCommShrink(child, &excluded, 1, &less, NULL, NCCL_SHRINK_ABORT));
        struct world smaller = world_make(rank, ranks - 1, less);
        train(&smaller, ARMED);
        NCCL(ncclCommDestroy(less));
    }
    NCCL(ncclCommAbort(child));
}

static _Atomic bool begun;

static void *gather_alone(void *argument)
{
    struct world *world = argument;
    CUDA(cudaSetDevice(world->rank));
    begun = true;
    if (world->generation % 2 == 0)
        gather_call(world, UNITS - 1);
    else if (ncclGroupStart() == ncclSuccess && gather_call(world, UNITS - 1) == ncclSuccess)
        ncclGroupEnd();
    return NULL;
}

/* A call waits for a vote that never comes, and another thread aborts. */
static void aborted(int rank, int ranks)
{
    for (int i = 0; i < 8; i++) {
        struct world world = world_make(rank, ranks, comm_make(rank, ranks, i));
        train(&world, ARMED + i % 2);
        for (int unit = 0; unit < UNITS; unit++)
            gather(&world, unit);
        if (rank == 0) {
            begun = false;
            pthread_t thread = thread_start(gather_alone, &world);
            while (!begun)
                moment(1);
            moment(5 + (unsigned)i); /* a call that comes behind the abort would use a handle that is gone */
            NCCL(ncclCommAbort(world.comm));
            CHECK(pthread_join(thread, NULL) == 0);
        } else {
            moment(20);
            NCCL(ncclCommAbort(world.comm));
        }
        CUDA(cudaStreamSynchronize(world.stream));
        world_free(&world);
    }
}

static _Atomic bool inside;

static void *gather_once(void *argument)
{
    inside = true;
    gather_call(argument, UNITS - 1);
    inside = false;
    pause();
    return NULL;
}

/* A gather is no place where a thread may be cancelled: neither is one that waits for a vote. */
static void cancelled(int rank, int ranks)
{
    struct world world = world_make(rank, ranks, comm_make(rank, ranks, 0));
    train(&world, ARMED);
    for (int unit = 0; unit < UNITS; unit++)
        gather(&world, unit);
    if (rank == 0) {
        pthread_t thread = thread_start(gather_once, &world);
        moment(5);
        CHECK(pthread_cancel(thread) == 0 && pthread_join(thread, NULL) == 0);
        CHECK(!inside);
    } else {
        moment(100);
        NCCL(gather_call(&world, UNITS - 1));
    }
    gather_check(&world, UNITS - 1);
    NCCL(ncclCommDestroy(world.comm));
}

/* ---------------------------------------------------------------- processes */

/* A rank that stands still for a while: the others withdraw, and go on. */
static void stopped_rank(int rank, int ranks)
{
    struct world world = world_make(rank, ranks, comm_make(rank, ranks, 0));
    train(&world, ARMED);
    for (int unit = 0; unit < UNITS; unit++)
        gather(&world, unit);
    if (rank == 1) {
        pid_t self = getpid(), child = fork();
        if (child == 0) {
            moment(500);
            kill(self, SIGCONT);
            _exit(0);
        }
        raise(SIGSTOP);
        CHECK(waitpid(child, NULL, 0) == child);
    }
    for (int unit = UNITS - 1; unit >= 0; unit--)
        gather(&world, unit);
    shards_change(&world);
    train(&world, 8);
    NCCL(ncclCommDestroy(world.comm));
}

static void not_destroyed(int rank, int ranks)
{
    struct world world = world_make(rank, ranks, comm_make(rank, ranks, 0));
    train(&world, ARMED + 4);
}

static void *gather_for_ever(void *argument)
{
    struct world *world = argument;
    CUDA(cudaSetDevice(world->rank));
    for (;;)
        if (gather_call(world, 0) != ncclSuccess)
            return NULL;
    return NULL;
}

/* exit() of rank 0 while a thread is inside a call; of the others when they have had enough. */
static void exit_at_work(int rank, int ranks)
{
    struct world *world = malloc(sizeof *world); /* lives as long as the thread */
    CHECK(world != NULL);
    *world = world_make(rank, ranks, comm_make(rank, ranks, 0));
    train(world, ARMED);
    thread_start(gather_for_ever, world);
    moment(rank == 0 ? 10 : 30);
    exit(0);
}

static void forked(int rank, int ranks)
{
    struct world world = world_make(rank, ranks, comm_make(rank, ranks, 0));
    train(&world, ARMED);
    for (int way = 0; way < 3; way++) {
        pid_t child = way == 2 ? _Fork() : fork();
        if (child == 0 && way == 1)
            execl("/bin/true", "true", (char *)NULL);
        if (child == 0)
            exit(0);
        int status;
        CHECK(waitpid(child, &status, 0) == child && status == 0);
        train(&world, 2);
    }
    NCCL(ncclCommDestroy(world.comm));
}

/* The child of each rank makes a communicator of its own. */
static void fork_trains(int rank, int ranks)
{
    pid_t child = fork();
    if (child == 0) {
        struct world world = world_make(rank, ranks, comm_make(rank, ranks, 0));
        train(&world, ARMED + 2);
        NCCL(ncclCommDestroy(world.comm));
        exit(0);
    }
    struct world world = world_make(rank, ranks, comm_make(rank, ranks, 1));
    train(&world, ARMED + 2);
    NCCL(ncclCommDestroy(world.comm));
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static void plain_life(int rank, int ranks)
{
    struct world world = world_make(rank, ranks, comm_make(rank, ranks, 0));
    train(&world, ARMED + 4);
    NCCL(ncclCommDestroy(world.comm));
}

static void limited(int rank, int ranks, int resource, rlim_t value)
{
    struct rlimit limit;
    CHECK(getrlimit(resource, &limit) == 0);
    limit.rlim_cur = value;
    CHECK(setrlimit(resource, &limit) == 0);
    struct world world = world_make(rank, ranks, comm_make(rank, ranks, 0));
    train(&world, ARMED + 4);
    NCCL(ncclCommDestroy(world.comm));
}

static void few_files(int rank, int ranks)
{
    limited(rank, ranks, RLIMIT_NOFILE, 64);
}

static void no_locked_memory(int rank, int ranks)
{
    limited(rank, ranks, RLIMIT_MEMLOCK, 0);
}

static void *make_alone(void *argument)
{
    comm_make(0, RANKS_MAX, *(int *)argument);
    return NULL;
}

/* The others never come. It ends when the test ends it. */
static void alone(int rank, int ranks)
{
    static int id;
    (void)rank, (void)ranks;
    thread_start(make_alone, &id);
    pause();
}

static const struct test_case cases[] = {
    {"plain", 2, plain_life, -1},
    {"remade", 2, remade, -1},
    {"two-sizes", 4, two_sizes, -1},
    {"children", 4, children, -1},
    {"aborted", 2, aborted, -1},
    {"cancelled", 2, cancelled, -1},
    {"stopped", 3, stopped_rank, -1},
    {"not-destroyed", 2, not_destroyed, -1},
    {"exit-at-work", 2, exit_at_work, -1},
    {"forked", 2, forked, -1},
    {"fork-trains", 2, fork_trains, -1},
    {"few-files", 2, few_files, -1},
    {"no-locked-memory", 2, no_locked_memory, -1},
    {"alone", 1, alone, 0},
};

int main(int argc, char **argv)
{
    return cases_main(cases, sizeof cases / sizeof cases[0], argc, argv);
}
