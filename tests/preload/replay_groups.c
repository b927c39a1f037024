/*
 * Groups of all kinds while gathers come from memory: replay_groups CASE. What a call returns, and where, is what NCCL
 * returns there: where a case prints, it prints the same with the library in front or without.
 */
#include "replay_world.h"

static void group_start(void)
{
    NCCL(ncclGroupStart());
}

static void group_end(void)
{
    NCCL(ncclGroupEnd());
}

/* All units in one group, and what `beside` puts between them. Then a reduction, and new shards. */
static void group_step(struct world *world, void (*beside)(struct world *world))
{
    for (int pass = 0; pass < 2; pass++) {
        group_start();
        for (int unit = 0; unit < UNITS; unit++) {
            NCCL(gather_call(world, unit));
            if (unit == 1 && beside != NULL)
                beside(world);
        }
        group_end();
        for (int unit = 0; unit < UNITS; unit++)
            gather_check(world, unit);
    }
    NCCL(ncclReduceScatter(world->full[0], world->reduced, COUNT, ncclUint32, ncclSum, world->comm, world->stream));
    CUDA(cudaStreamSynchronize(world->stream));
    shards_change(world);
}

static struct world trained(int rank, int ranks, int id, void (*beside)(struct world *world))
{
    struct world world = world_make(rank, ranks, comm_make(rank, ranks, id));
    for (int i = 0; i < ARMED; i++)
        group_step(&world, beside);
    return world;
}

static void several(int rank, int ranks)
{
    struct world world = trained(rank, ranks, 0, NULL);
    NCCL(ncclCommDestroy(world.comm));
}

static void ring(struct world *world)
{
    NCCL(ncclSend(world->shard[0], COUNT, ncclUint32, (world->rank + 1) % world->ranks, world->comm, world->stream));
    NCCL(ncclRecv(world->reduced, COUNT, ncclUint32, (world->rank + world->ranks - 1) % world->ranks, world->comm,
                  world->stream));
}

static void send_receive(int rank, int ranks)
{
    struct world world = trained(rank, ranks, 0, ring);
    NCCL(ncclCommDestroy(world.comm));
}

static void inner(struct world *world)
{
    group_start();
    group_start();
    ring(world);
    group_end();
    NCCL(ncclAllReduce(world->reduced, world->reduced, 0, ncclUint32, ncclSum, world->comm, world->stream));
    group_end();
}

static void nested(int rank, int ranks)
{
    struct world world = trained(rank, ranks, 0, inner);
    NCCL(ncclCommDestroy(world.comm));
}

/* A reduction of the user's own lives until the call that uses it has been made, not until the group ends. */
static void user_reduction(struct world *world)
{
    ncclRedOp_t twice;
    uint32_t two = 2;
    NCCL(ncclRedOpCreatePreMulSum(&twice, &two, ncclUint32, ncclScalarHostImmediate, world->comm));
    NCCL(ncclAllReduce(world->shard[0], world->reduced, 1, ncclUint32, twice, world->comm, world->stream));
    NCCL(ncclRedOpDestroy(twice, world->comm));
}

static void user_reductions(int rank, int ranks)
{
    struct world world = trained(rank, ranks, 0, user_reduction);
    uint32_t sum = 0, expected = 0;
    group_start();
    NCCL(gather_call(&world, 0));
    user_reduction(&world);
    group_end();
    gather_check(&world, 0);
    CUDA(cudaMemcpy(&sum, world.reduced, sizeof sum, cudaMemcpyDeviceToHost));
    for (int i = 0; i < ranks; i++)
        expected += 2 * word_of(world.generation, i, 0, 0);
    CHECK(sum == expected);
    NCCL(ncclCommDestroy(world.comm));
}

static void settle(ncclComm_t comm)
{
    ncclResult_t state = ncclInProgress;
    for (; state == ncclInProgress; moment(1))
        NCCL(ncclCommGetAsyncError(comm, &state));
    CHECK(state == ncclSuccess);
}

/* Its own part is in the buffer before the call, and the others' are not. */
static void in_place_call(struct world *world, int unit)
{
    uint32_t *own = world->full[unit] + (size_t)world->rank * COUNT;
    CUDA(cudaMemcpyAsync(own, world->shard[unit], COUNT * sizeof *own, cudaMemcpyDeviceToDevice, world->stream));
    NCCL(ncclAllGather(own, world->full[unit], COUNT, ncclUint32, world->comm, world->stream));
}

static void in_place_step(struct world *world, ncclComm_t other)
{
    for (int pass = 0; pass < 2; pass++) {
        group_start();
        for (int unit = 0; unit < UNITS; unit++)
            in_place_call(world, unit);
        if (other != NULL && pass == 0)
            NCCL(ncclAllReduce(world->reduced, world->reduced, 1, ncclUint32, ncclSum, other, world->stream));
        ncclResult_t result = ncclGroupEnd();
        CHECK(result == ncclSuccess || (other != NULL && result == ncclInProgress));
        if (other != NULL)
            settle(other);
        for (int unit = 0; unit < UNITS; unit++)
            gather_check(world, unit);
    }
    NCCL(ncclReduceScatter(world->full[0], world->reduced, COUNT, ncclUint32, ncclSum, world->comm, world->stream));
    CUDA(cudaStreamSynchronize(world->stream));
    shards_change(world);
}

/*
 * A nonblocking communicator in its group makes a whole group go on in the background: what it delivers is not there
 * when the group's end returns, so it must not be kept then.
 */
static void background(int rank, int ranks)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclComm_t other;
    struct world world = world_make(rank, ranks, comm_make(rank, ranks, 0));
    config.blocking = 0;
    ncclResult_t result = ncclCommInitRankConfig(&other, ranks, world_ids[1], rank, &config);
    CHECK(result == ncclInProgress || result == ncclSuccess);
    settle(other);
    for (int i = 0; i < 2 * ARMED; i++)
        in_place_step(&world, i > ARMED && i % 3 == 1 ? other : NULL);
    NCCL(ncclCommDestroy(world.comm));
    NCCL(ncclCommAbort(other));
}

/* ---------------------------------------------------------------- errors: what is returned where */

static void print(const struct world *world, const char *what, ncclResult_t result)
{
    if (world->rank == 0)
        printf("  %s = %d\n", what, (int)result);
}
#define PRINT(name, ...) print(world, #name, name(__VA_ARGS__))

static void none(struct world *world)
{
    (void)world;
}
static void no_communicator(struct world *world)
{
    PRINT(ncclAllGather, world->shard[0], world->full[0], COUNT, ncclUint32, NULL, world->stream);
}
static void no_buffers(struct world *world)
{
    PRINT(ncclAllGather, NULL, NULL, COUNT, ncclUint32, world->comm, world->stream);
}
static void no_receive(struct world *world)
{
    PRINT(ncclAllGather, world->shard[0], NULL, COUNT, ncclUint32, world->comm, world->stream);
}
static void bad_type(struct world *world)
{
    PRINT(ncclAllGather, world->shard[0], world->full[0], COUNT, (ncclDataType_t)99, world->comm, world->stream);
}
static void bad_root(struct world *world)
{
    PRINT(ncclBroadcast, world->shard[0], world->reduced, COUNT, ncclUint32, 77, world->comm, world->stream);
}
static void bad_peer(struct world *world)
{
    PRINT(ncclSend, world->shard[0], COUNT, ncclUint32, -1, world->comm, world->stream);
}
static void bad_reduction(struct world *world)
{
    PRINT(ncclAllReduce, world->shard[0], world->reduced, COUNT, ncclUint32, (ncclRedOp_t)4711, world->comm,
          world->stream);
}
static void too_much(struct world *world)
{
    PRINT(ncclAllGather, world->shard[0], world->full[0], SIZE_MAX / 16, ncclUint32, world->comm, world->stream);
}
static void nothing_at_all(struct world *world)
{
    PRINT(ncclAllGather, NULL, NULL, 0, ncclUint32, world->comm, world->stream);
}

static void group_with(struct world *world, void (*bad)(struct world *world), bool before)
{
    PRINT(ncclGroupStart, );
    if (before)
        bad(world);
    print(world, "first gather", gather_call(world, 0));
    print(world, "second gather", gather_call(world, 1));
    if (!before)
        bad(world);
    print(world, "third gather", gather_call(world, 2));
    PRINT(ncclGroupEnd, );
    CUDA(cudaStreamSynchronize(world->stream));
}

static void errors(int rank, int ranks)
{
    static void (*const bad[])(struct world * world) = {none,     no_communicator, no_buffers, no_receive,
                                                        bad_type, bad_root,        bad_peer,   bad_reduction,
                                                        too_much, nothing_at_all};
    for (int i = 0; i < 2 * (int)(sizeof bad / sizeof bad[0]); i++) {
        struct world world = trained(rank, ranks, i, NULL);
        if (rank == 0)
            printf("%d, %s a gather\n", i / 2, i % 2 ? "before" : "behind");
        group_with(&world, bad[i / 2], i % 2 != 0);
        group_step(&world, NULL);
        group_step(&world, NULL);
        NCCL(ncclCommDestroy(world.comm));
        world_free(&world);
    }
}

/* For REPRISE_STRICT=1: a group with a call that comes too early is refused at its end, which says what. */
static void strict(int rank, int ranks)
{
    struct world world = trained(rank, ranks, 0, NULL);
    group_start();
    NCCL(gather_call(&world, 0));
    NCCL(ncclReduceScatter(world.full[1], world.reduced, COUNT, ncclUint32, ncclSum, world.comm, world.stream));
    CHECK(ncclGroupEnd() == ncclInvalidUsage);
    CHECK(strstr(ncclGetLastError(world.comm), "expected all-gather") != NULL);
    gather_check(&world, 0);
    NCCL(ncclCommDestroy(world.comm));
}

/* ---------------------------------------------------------------- unusual ends */

static void simulated(int rank, int ranks)
{
    struct world world = trained(rank, ranks, 0, NULL);
    for (int i = 0; i < 6; i++) {
        ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
        group_start();
        for (int unit = 0; unit < UNITS; unit++)
            NCCL(gather_call(&world, unit));
        NCCL(ncclGroupSimulateEnd(&info));
        CHECK(info.estimatedTime > 0);
        group_step(&world, NULL);
    }
    NCCL(ncclCommDestroy(world.comm));
}

static void *leave_open(void *argument)
{
    struct world *world = argument;
    CUDA(cudaSetDevice(world->rank));
    group_start();
    NCCL(gather_call(world, 0));
    return NULL;
}

static void thread_ends(int rank, int ranks)
{
    struct world world = trained(rank, ranks, 0, NULL);
    pthread_t thread = thread_start(leave_open, &world);
    CHECK(pthread_join(thread, NULL) == 0);
    for (int i = 0; i < 4; i++)
        group_step(&world, NULL);
    NCCL(ncclCommAbort(world.comm));
}

/* One group over two streams, and one over two communicators. */
static void spread(int rank, int ranks)
{
    struct world world = trained(rank, ranks, 0, NULL), other = world_make(rank, ranks, comm_make(rank, ranks, 1));
    for (int i = 0; i < ARMED; i++) {
        for (int pass = 0; pass < 2; pass++) {
            cudaStream_t stream = world.stream;
            group_start();
            for (int unit = 0; unit < UNITS; unit++) {
                world.stream = unit % 2 == 0 ? stream : other.stream;
                NCCL(gather_call(&world, unit));
                if (i % 2 == 1)
                    NCCL(gather_call(&other, unit));
            }
            group_end();
            for (int unit = 0; unit < UNITS; unit++) {
                world.stream = unit % 2 == 0 ? stream : other.stream;
                gather_check(&world, unit);
                if (i % 2 == 1)
                    gather_check(&other, unit);
            }
            world.stream = stream;
        }
        NCCL(ncclReduceScatter(world.full[0], world.reduced, COUNT, ncclUint32, ncclSum, world.comm, world.stream));
        CUDA(cudaStreamSynchronize(world.stream));
        shards_change(&world);
        shards_change(&other);
    }
    NCCL(ncclCommDestroy(world.comm));
    NCCL(ncclCommDestroy(other.comm));
}

static const struct test_case cases[] = {
    {"several", 2, several, -1},         {"send-receive", 3, send_receive, -1},
    {"nested", 2, nested, -1},           {"user-reductions", 2, user_reductions, -1},
    {"background", 2, background, -1},   {"errors", 2, errors, -1},
    {"strict", 2, strict, -1},           {"simulated", 2, simulated, -1},
    {"thread-ends", 2, thread_ends, -1}, {"spread", 2, spread, -1},
};

int main(int argc, char **argv)
{
    return cases_main(cases, sizeof cases / sizeof cases[0], argc, argv);
}
