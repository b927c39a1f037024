/* link: fake */
/* link: shim: child.c child_end.c child_watch.c gpu.c kernels_image.c */
/* link: shim: slots*.c */
/*
 * The child communicator on the stand-in, a process a rank: what is gathered ahead is what all ranks' snapshots hold,
 * under the serial of what was sent; whatever fails or never comes, the rest goes on.
 */
#include "tests/fake/ranks.h"

#include <pthread.h>
#include <stdatomic.h>

#include "shim/child.h"
#include "shim/compare.h"
#include "shim/gpu.h"
#include "shim/hook.h"
#include "shim/runtime.h"

#define LARGE 300007u
#define SMALL 4096u
#define TINY 1000u /* in the slot of LARGE */

_Thread_local struct rp_thread rp_thread __attribute__((tls_model("initial-exec")));

static uint64_t bound_ns = UINT64_C(60000000000);
static int joins;          /* of this process */
static _Atomic int aborts; /* that have come back */

static ncclResult_t abort_counted(ncclComm_t comm)
{
    CHECK(rp_thread.inside);
    ncclResult_t result = ncclCommAbort(comm);
    atomic_fetch_add(&aborts, 1);
    return result;
}

static struct rp_nccl real = {
    .ncclGetUniqueId = ncclGetUniqueId,
    .ncclCommInitRankConfig = ncclCommInitRankConfig,
    .ncclCommGetAsyncError = ncclCommGetAsyncError,
    .ncclCommAbort = abort_counted,
    .ncclAllGather = ncclAllGather,
};

/* One rank: two slots, two snapshots, and the application's stream and buffers. */
struct world {
    uint32_t rank, ranks;
    struct rp_slots *slots;
    struct rp_child *child;
    cudaStream_t stream;
    unsigned char *send, *receive, *host;
};

static struct rp_plan_entry entries[] = {
    {.action = RP_PLAN_NETWORK, .slot = 0, .bytes = 12345},  {.action = RP_PLAN_PREFETCH, .slot = 0, .bytes = LARGE},
    {.action = RP_PLAN_PREFETCH, .slot = 1, .bytes = SMALL}, {.action = RP_PLAN_PREFETCH, .slot = 0, .bytes = TINY},
    {.action = RP_PLAN_PREFETCH, .slot = 1, .bytes = LARGE}, /* a size that was had: the slot is too small for it */
};
static const struct rp_plan plan = {.entries = entries, .count = sizeof entries / sizeof entries[0], .prefetches = 4};

static unsigned char byte_of(uint32_t rank, uint64_t op, uint64_t i)
{
    return (unsigned char)((i * 31 + rank * 101 + op * 17) ^ i >> 8);
}

/* The shard that `rank` sends in an op. */
static void shard(unsigned char *to, uint32_t rank, uint64_t op, uint64_t bytes)
{
    for (uint64_t i = 0; i < bytes; i++)
        to[i] = byte_of(rank, op, i);
}

static void upload(const struct world *world, void *to, uint64_t op, uint64_t bytes)
{
    shard(world->host, world->rank, op, bytes);
    CUDA(cudaMemcpyAsync(to, world->host, bytes, cudaMemcpyHostToDevice, world->stream));
    CUDA(cudaStreamSynchronize(world->stream));
}

static struct world begin(int rank, int ranks)
{
    struct world world = {.rank = (uint32_t)rank, .ranks = (uint32_t)ranks};
    const uint64_t snapshots[] = {LARGE, SMALL},
                   units[] = {world.ranks * (uint64_t)LARGE, world.ranks * (uint64_t)SMALL};
    CUDA(cudaSetDevice(rank));
    CHECK(rp_slots_create(rank, world.ranks, world.rank, &world.slots) == RP_OK);
    CHECK(rp_slots_resize_ahead(world.slots, units, 2, snapshots, 2, true) == RP_OK);
    CUDA(cudaStreamCreateWithFlags(&world.stream, cudaStreamNonBlocking));
    CUDA(cudaMalloc((void **)&world.send, LARGE));
    CUDA(cudaMalloc((void **)&world.receive, units[0]));
    CHECK((world.host = malloc(units[0])) != NULL);
    return world;
}

static void end(struct world *world)
{
    rp_child_abort(world->child);
    while (atomic_load(&aborts) < joins) /* nobody waits for it for long, so it may come back later */
        usleep(100);
    CHECK(atomic_load(&aborts) == joins);
    CUDA(cudaDeviceSynchronize());
    rp_slots_destroy(world->slots);
    CHECK(rp_slots_held((int)world->rank) == 0);
    free(world->host);
}

static void join(struct world *world)
{
    struct rp_replay_id id;
    memcpy(id.bytes, &ranks_id, sizeof id);
    world->child = rp_child_join(&real, (int)world->rank, world->ranks, world->rank, &id, bound_ns);
    CHECK(world->child != NULL);
    joins++;
}

static void await_state(const struct world *world, enum rp_child_state wanted)
{
    enum rp_child_state state;
    while ((state = rp_child_poll(world->child)) != wanted) {
        CHECK(state != RP_CHILD_FAILED);
        usleep(100);
    }
}

static void join_and_warm(struct world *world)
{
    join(world);
    await_state(world, RP_CHILD_JOINED);
    rp_child_warm(world->child, world->slots, &plan, world->stream);
    await_state(world, RP_CHILD_READY);
}

/* As behind a real gather: this rank's part of an op is left in the snapshot. */
static bool keep(const struct world *world, uint32_t snapshot, uint64_t op, uint64_t bytes)
{
    upload(world, world->receive + world->rank * bytes, op, bytes);
    return rp_slots_snapshot(world->slots, snapshot, world->stream, world->receive, bytes, op);
}

static bool fill_when(const struct world *world, uint32_t slot, uint32_t snapshot, uint64_t bytes, bool behind)
{
    struct rp_replay_fill gather = {.slot = slot, .snapshot = snapshot, .bytes = bytes, .serial = RP_SERIAL_NONE};
    return rp_child_fill(world->child, world->slots, &gather, world->stream, behind);
}

static bool fill(const struct world *world, uint32_t slot, uint32_t snapshot, uint64_t bytes)
{
    return fill_when(world, slot, snapshot, bytes, true);
}

static void settle_slot(const struct world *world, uint32_t slot)
{
    while (!rp_slots_settled(world->slots, slot))
        usleep(50);
}

/* What a serve says; the parts that it delivers are those of `op`. Not served: PENDING. */
static enum rp_compare serve(const struct world *world, uint32_t slot, uint64_t op, uint64_t bytes, uint64_t expected)
{
    uint64_t ticket;
    upload(world, world->send, op, bytes);
    settle_slot(world, slot);
    if (!rp_slots_serve(world->slots, slot, world->stream, world->send, world->receive, bytes, expected, &ticket))
        return RP_COMPARE_PENDING;
    CUDA(cudaMemcpyAsync(world->host, world->receive, bytes * world->ranks, cudaMemcpyDeviceToHost, world->stream));
    CUDA(cudaStreamSynchronize(world->stream));
    for (uint32_t rank = 0; rank < world->ranks; rank++)
        for (uint64_t i = 0; i < bytes; i++)
            CHECK(world->host[rank * bytes + i] == byte_of(rank, op, i));
    return rp_slots_compared(world->slots, ticket);
}

/* Fills ------------------------------------------------------------------------------------------------------------ */

static void deliver(int rank, int ranks)
{
    struct world world = begin(rank, ranks);
    uint64_t op = 1;
    CHECK(keep(&world, 1, 100, SMALL));
    join_and_warm(&world);
    CHECK(serve(&world, 0, 1, TINY, RP_SERIAL_NONE) == RP_COMPARE_PENDING);
    for (int round = 0; round < 20; round++, op++) {
        CHECK(fill(&world, 1, 1, SMALL));
        CHECK(keep(&world, 0, op, LARGE));
        CHECK(fill(&world, 0, 0, LARGE));
        CHECK(serve(&world, 0, op, LARGE, op) == RP_COMPARE_EQUAL);
        CHECK(serve(&world, 0, op, LARGE, op - 1) == RP_COMPARE_UNLIKE);
        CHECK(serve(&world, 1, 100, SMALL, 100) == RP_COMPARE_EQUAL);
        op++;
        CHECK(serve(&world, 0, op, TINY, op) == RP_COMPARE_PENDING);
        CHECK(keep(&world, 0, op, TINY)); /* smaller than the snapshot, and than the slot */
        CHECK(fill(&world, 0, 0, TINY));
        CHECK(serve(&world, 0, op, TINY, op) == RP_COMPARE_EQUAL);
    }
    CHECK(rp_child_poll(world.child) == RP_CHILD_READY);
    end(&world);
}

static void test_all_parts_are_delivered(void **state)
{
    (void)state;
    ranks_run(2, deliver);
    ranks_run(4, deliver);
    ranks_run(1, deliver);
    setenv("FAKE_PRECONNECT", "1", 1); /* first gathers are a rendezvous */
    ranks_run(4, deliver);
    setenv("FAKE_JITTER_US", "300", 1);
    ranks_run(2, deliver);
    unsetenv("FAKE_JITTER_US");
    unsetenv("FAKE_PRECONNECT");
}

/* One rank's snapshot is of another op: the serial that goes with it says so. */
static void other_serial(int rank, int ranks)
{
    struct world world = begin(rank, ranks);
    join_and_warm(&world);
    CHECK(keep(&world, 0, 5, LARGE));
    CHECK(rp_slots_snapshot(world.slots, 0, world.stream, world.receive, LARGE, rank == 1 ? 6 : 5)); /* equal bytes */
    CHECK(fill(&world, 0, 0, LARGE));
    CHECK(serve(&world, 0, 5, LARGE, 5) == (rank == 1 ? RP_COMPARE_UNLIKE : RP_COMPARE_EQUAL));
    CHECK(serve(&world, 0, 5, LARGE, 6) == (rank == 1 ? RP_COMPARE_EQUAL : RP_COMPARE_UNLIKE));
    end(&world);
}

/* The live buffer is read within the call: what the application writes behind it does not go out. */
static void live(int rank, int ranks)
{
    struct world world = begin(rank, ranks);
    join_and_warm(&world);
    for (uint64_t op = 1; op < 20; op++) {
        struct rp_replay_fill gather = {.slot = 0, .snapshot = RP_NO_SLOT, .bytes = LARGE, .serial = 1000 + op};
        upload(&world, world.send, op, LARGE);
        CHECK(rp_slots_live(world.slots, 0, world.stream, world.send, LARGE));
        CHECK(rp_child_fill(world.child, world.slots, &gather, world.stream, true));
        CUDA(cudaMemsetAsync(world.send, 0, LARGE, world.stream));
        CHECK(serve(&world, 0, op, LARGE, 1000 + op) == RP_COMPARE_EQUAL);
    }
    struct rp_replay_fill pageable = {.slot = 0, .snapshot = RP_NO_SLOT, .bytes = LARGE, .serial = 7};
    upload(&world, world.send, 7, LARGE);
    CHECK(rp_slots_live(world.slots, 0, world.stream, rank == 0 ? world.host : world.send, LARGE) == (rank != 0));
    CHECK(rp_child_fill(world.child, world.slots, &pageable, world.stream, true));
    settle_slot(&world, 0);
    uint64_t ticket;
    CHECK(rp_slots_serve(world.slots, 0, world.stream, world.send, world.receive, LARGE, 7, &ticket) == (rank != 0));
    end(&world);
}

static _Atomic bool gate_open;

static void gate_pass(void *data)
{
    (void)data;
    while (!atomic_load(&gate_open))
        usleep(100);
}

/* A gather ahead comes behind all that the caller's stream has, unless it need not: then that stream may stand still.
 */
static void behind(int rank, int ranks)
{
    struct world world = begin(rank, ranks);
    join_and_warm(&world);
    CHECK(keep(&world, 0, 3, LARGE));
    CHECK(keep(&world, 1, 4, SMALL));
    CUDA(cudaLaunchHostFunc(world.stream, gate_pass, NULL));
    CHECK(fill_when(&world, 1, 1, SMALL, false));
    settle_slot(&world, 1);
    CHECK(fill_when(&world, 0, 0, LARGE, true));
    usleep(20000);
    CHECK(!rp_slots_settled(world.slots, 0));
    atomic_store(&gate_open, true);
    CHECK(serve(&world, 0, 3, LARGE, 3) == RP_COMPARE_EQUAL);
    CHECK(serve(&world, 1, 4, SMALL, 4) == RP_COMPARE_EQUAL);
    end(&world);
}

static void test_what_was_sent(void **state)
{
    (void)state;
    ranks_run(2, behind);
    ranks_run(2, other_serial);
    ranks_run(4, live);
}

/* Failures --------------------------------------------------------------------------------------------------------- */

static CUresult copy_fails(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    (void)to, (void)from, (void)bytes, (void)stream;
    return CUDA_ERROR_UNKNOWN;
}

/* Rank 0 has nothing good to send: it issues all the same, and serves nothing; so do the others, who can't know. */
static void lone_failure(int rank, int ranks)
{
    struct world world = begin(rank, ranks);
    uint64_t ticket;
    join_and_warm(&world);
    for (uint64_t op = 1; op <= 3; op++) {
        __typeof__(rp_gpu_driver.p_cuMemcpyDtoDAsync) kept = rp_gpu_driver.p_cuMemcpyDtoDAsync;
        bool fails = rank == 0 && op != 2;
        CHECK(keep(&world, 0, op, rank == 0 && op == 2 ? TINY : LARGE));
        rp_gpu_driver.p_cuMemcpyDtoDAsync = fails ? copy_fails : kept;
        if (op == 1)
            CHECK(keep(&world, 0, op, LARGE) == !fails); /* half a snapshot */
        if (op == 1)
            rp_gpu_driver.p_cuMemcpyDtoDAsync = kept;
        CHECK(fill(&world, 0, 0, LARGE)); /* op 2: of another size; op 3: the copy into the slot fails */
        rp_gpu_driver.p_cuMemcpyDtoDAsync = kept;
        settle_slot(&world, 0);
        upload(&world, world.send, op, LARGE);
        bool served = rp_slots_serve(world.slots, 0, world.stream, world.send, world.receive, LARGE, op, &ticket);
        CHECK(served == (rank != 0));
    }
    CHECK(keep(&world, 0, 9, LARGE));
    CHECK(fill(&world, 0, 0, LARGE));
    CHECK(serve(&world, 0, 9, LARGE, 9) == RP_COMPARE_EQUAL);
    end(&world);
}

static void test_a_failure_of_one_rank(void **state)
{
    (void)state;
    ranks_run(2, lone_failure);
    ranks_run(3, lone_failure);
}

static ncclResult_t gather_refused(const void *send, void *receive, size_t count, ncclDataType_t datatype,
                                   ncclComm_t comm, cudaStream_t stream)
{
    (void)send, (void)receive, (void)count, (void)datatype, (void)comm, (void)stream;
    return ncclInternalError;
}

static void refused(int rank, int ranks)
{
    struct world world = begin(rank, ranks);
    uint64_t ticket;
    join(&world);
    CHECK(!fill(&world, 0, 0, LARGE)); /* not ready */
    await_state(&world, RP_CHILD_JOINED);
    rp_child_warm(world.child, world.slots, &plan, world.stream);
    await_state(&world, RP_CHILD_READY);
    CHECK(keep(&world, 0, 1, LARGE));
    real.ncclAllGather = gather_refused;
    CHECK(!fill(&world, 0, 0, LARGE));
    CHECK(rp_child_poll(world.child) == RP_CHILD_FAILED);
    CHECK(!rp_slots_present(world.slots, 0) && rp_slots_present(world.slots, 1)); /* what is there is not known */
    CHECK(!rp_slots_store(world.slots, 0, world.stream, world.receive, LARGE, 1));
    real.ncclAllGather = ncclAllGather;
    CHECK(!fill(&world, 0, 0, LARGE));
    rp_child_abort(world.child);
    world.child = NULL;
    CHECK(rp_slots_present(world.slots, 0));
    settle_slot(&world, 0);
    CHECK(!rp_slots_serve(world.slots, 0, world.stream, world.send, world.receive, LARGE, 1, &ticket));
    end(&world);
}

static ncclResult_t async_fails(ncclComm_t comm, ncclResult_t *error)
{
    (void)comm;
    *error = ncclRemoteError;
    return ncclSuccess;
}

/* In whichever state NCCL reports an error: it is the end. */
static void async_error(int rank, int ranks)
{
    static const enum rp_child_state reached[] = {RP_CHILD_JOINING, RP_CHILD_JOINED, RP_CHILD_WARMING, RP_CHILD_READY};
    struct world world = begin(rank, ranks);
    for (size_t i = 0; i < sizeof reached / sizeof reached[0]; i++) {
        CHECK(ncclGetUniqueId(&ranks_id) == ncclSuccess);
        join(&world);
        if (reached[i] >= RP_CHILD_JOINED)
            await_state(&world, RP_CHILD_JOINED);
        if (reached[i] >= RP_CHILD_WARMING)
            rp_child_warm(world.child, world.slots, &plan, world.stream);
        if (reached[i] == RP_CHILD_READY)
            await_state(&world, RP_CHILD_READY);
        real.ncclCommGetAsyncError = async_fails;
        CHECK(rp_child_poll(world.child) == RP_CHILD_FAILED);
        real.ncclCommGetAsyncError = ncclCommGetAsyncError;
        CHECK(rp_child_poll(world.child) == RP_CHILD_FAILED);
        CHECK(!fill(&world, 0, 0, LARGE));
        rp_child_abort(world.child);
    }
    world.child = NULL;
    end(&world);
}

static void cannot_join(int rank, int ranks)
{
    struct world world = begin(rank, ranks);
    struct rp_replay_id id, other;
    CHECK(rp_child_id(&real, &id) && rp_child_id(&real, &other) && memcmp(&id, &other, sizeof id) != 0);
    setenv("NCCL_COMM_BLOCKING", "1", 1);
    CHECK(rp_child_join(&real, rank, 2, 0, &id, bound_ns) == NULL);
    setenv("NCCL_COMM_BLOCKING", "0", 1);
    real.ncclCommInitRankConfig = NULL;
    CHECK(rp_child_join(&real, rank, 2, 0, &id, bound_ns) == NULL);
    real.ncclCommInitRankConfig = ncclCommInitRankConfig;
    CHECK(rp_child_join(&real, rank, 2, 2, &id, bound_ns) == NULL);
    CHECK(rp_child_join(&real, 1000, 2, 0, &id, bound_ns) == NULL);
    real.ncclGetUniqueId = NULL;
    CHECK(!rp_child_id(&real, &id));
    end(&world);
}

static void test_what_can_not_be(void **state)
{
    (void)state;
    ranks_run(1, refused);
    ranks_run(1, async_error);
    ranks_run(1, cannot_join);
}

/* What was let by each of the other ranks. */
static void await_others(int ranks)
{
    for (int i = 0; i < ranks - 1; i++)
        ranks_await();
}

/* Aborts ----------------------------------------------------------------------------------------------------------- */

/* The last rank never joins. */
static void never_joins(int rank, int ranks)
{
    struct world world = begin(rank, ranks);
    if (rank < ranks - 1) {
        join(&world);
        usleep(30000);
        CHECK(rp_child_poll(world.child) == RP_CHILD_JOINING);
    }
    end(&world);
}

/* The last rank never warms, or warms and never fills: what the others have issued stands still until they abort. */
static void never_warms(int rank, int ranks)
{
    struct world world = begin(rank, ranks);
    join(&world);
    await_state(&world, RP_CHILD_JOINED);
    if (rank == ranks - 1) {
        ranks_await();
    } else {
        rp_child_warm(world.child, world.slots, &plan, world.stream);
        for (int i = 0; i < 20; i++, usleep(1000))
            CHECK(rp_child_poll(world.child) == RP_CHILD_WARMING);
        ranks_let(rank == 0);
    }
    end(&world);
}

static void never_fills(int rank, int ranks)
{
    struct world world = begin(rank, ranks);
    uint64_t ticket;
    CHECK(keep(&world, 0, 1, LARGE));
    join_and_warm(&world);
    if (rank == ranks - 1) {
        ranks_await();
        end(&world);
        return;
    }
    CHECK(fill(&world, 0, 0, LARGE));
    CHECK(fill(&world, 1, 1, SMALL)); /* behind it */
    usleep(20000);
    CHECK(!rp_slots_settled(world.slots, 0));
    ranks_let(rank == 0);
    rp_child_abort(world.child);
    world.child = NULL;
    settle_slot(&world, 0);
    settle_slot(&world, 1);
    upload(&world, world.send, 1, LARGE); /* as it was sent; what came back is half of a unit */
    CHECK(!rp_slots_serve(world.slots, 0, world.stream, world.send, world.receive, LARGE, 1, &ticket));
    end(&world);
}

/* Who ends in order stays until the last has what it gathers: it would never end without this rank. */
static void ends_in_order(int rank, int ranks)
{
    struct world world = begin(rank, ranks);
    CHECK(keep(&world, 0, 1, LARGE));
    join_and_warm(&world);
    if (rank == ranks - 1)
        usleep(100000);
    CHECK(fill(&world, 0, 0, LARGE));
    rp_child_finish(world.child, UINT64_C(60000000000));
    CHECK(rp_slots_settled(world.slots, 0));
    end(&world);
}

/* Who just exits does, too: its exit handler waits, and the bytes are right. */
static void exits(int rank, int ranks)
{
    struct world world = begin(rank, ranks);
    CHECK(keep(&world, 0, 1, LARGE));
    join_and_warm(&world);
    if (rank == ranks - 1)
        usleep(100000);
    CHECK(fill(&world, 0, 0, LARGE));
    if (rank < ranks - 1)
        exit(0);
    CHECK(serve(&world, 0, 1, LARGE, 1) == RP_COMPARE_EQUAL);
    end(&world);
}

static void test_an_end_in_order(void **state)
{
    (void)state;
    ranks_run(2, ends_in_order);
    ranks_run(4, ends_in_order);
    ranks_run(2, exits);
    ranks_run(4, exits);
}

/* The last rank never fills, and lives on: who waits for the whole device comes back all the same. */
static void is_watched(int rank, int ranks)
{
    bound_ns = 20000000;
    struct world world = begin(rank, ranks);
    CHECK(keep(&world, 0, 1, LARGE));
    join_and_warm(&world);
    if (rank == ranks - 1) {
        await_others(ranks);
    } else {
        CHECK(fill(&world, 0, 0, LARGE));
        CUDA(cudaDeviceSynchronize());
        CHECK(rp_child_poll(world.child) == RP_CHILD_FAILED);
        CHECK(!fill(&world, 1, 0, LARGE));
        CHECK(serve(&world, 0, 1, LARGE, 1) == RP_COMPARE_PENDING);
        ranks_let(1);
    }
    end(&world);
}

/* The same, but its owner ends it meanwhile. */
static void is_watched_and_ended(int rank, int ranks)
{
    bound_ns = 20000000;
    struct world world = begin(rank, ranks);
    CHECK(keep(&world, 0, 1, LARGE));
    join_and_warm(&world);
    if (rank < ranks - 1) {
        CHECK(fill(&world, 0, 0, LARGE));
        usleep(100000 + (useconds_t)rank * 5000);
        ranks_let(1);
    } else {
        await_others(ranks);
    }
    end(&world);
}

/* As many as may be under way are issued, and then no more: nobody stands still at a full queue. */
static void piles_up(int rank, int ranks)
{
    bound_ns = 20000000;
    struct world world = begin(rank, ranks);
    CHECK(keep(&world, 1, 1, SMALL));
    join_and_warm(&world);
    if (rank < ranks - 1) {
        unsigned count = 0;
        while (count < 400 && fill(&world, 1, 1, SMALL))
            count++;
        CHECK(count == 64);
        CHECK(rp_child_poll(world.child) == RP_CHILD_FAILED);
        ranks_let(1);
    } else {
        await_others(ranks);
    }
    end(&world);
}

/* Where they end there may be any number. */
static void goes_on(int rank, int ranks)
{
    struct world world = begin(rank, ranks);
    CHECK(keep(&world, 1, 1, SMALL));
    join_and_warm(&world);
    for (int i = 0; i < 200; i++) {
        CHECK(fill(&world, 1, 1, SMALL));
        settle_slot(&world, 1);
    }
    CHECK(serve(&world, 1, 1, SMALL, 1) == RP_COMPARE_EQUAL);
    end(&world);
}

static void *cut_main(void *child)
{
    rp_thread.inside = true;
    rp_child_cut(child);
    return NULL;
}

/* Another thread ends it while the owner waits for the device. */
static void is_cut(int rank, int ranks)
{
    pthread_t thread;
    struct world world = begin(rank, ranks);
    CHECK(keep(&world, 0, 1, LARGE));
    join_and_warm(&world);
    if (rank < ranks - 1) {
        CHECK(fill(&world, 0, 0, LARGE));
        CHECK(pthread_create(&thread, NULL, cut_main, world.child) == 0);
        CUDA(cudaDeviceSynchronize());
        CHECK(pthread_join(thread, NULL) == 0);
        CHECK(rp_child_poll(world.child) == RP_CHILD_FAILED);
        CHECK(serve(&world, 0, 1, LARGE, 1) == RP_COMPARE_PENDING);
        ranks_let(1);
    } else {
        await_others(ranks);
    }
    end(&world);
}

/* Who exits waits for what never comes no longer than the bound. */
static void exits_all_the_same(int rank, int ranks)
{
    bound_ns = 20000000;
    struct world world = begin(rank, ranks);
    CHECK(keep(&world, 0, 1, LARGE));
    join_and_warm(&world);
    if (rank < ranks - 1) {
        CHECK(fill(&world, 0, 0, LARGE));
        ranks_let(1);
        exit(0);
    }
    await_others(ranks);
    end(&world);
}

static void test_a_bound(void **state)
{
    (void)state;
    ranks_run(2, piles_up);
    ranks_run(3, piles_up);
    ranks_run(2, goes_on);
    ranks_run(2, is_cut);
    ranks_run(4, is_cut);
    ranks_run(3, exits_all_the_same);
    ranks_run(2, is_watched);
    ranks_run(4, is_watched);
    ranks_run(8, is_watched_and_ended);
}

static void test_abort(void **state)
{
    (void)state;
    rp_child_abort(NULL);
    ranks_run(2, never_joins);
    ranks_run(4, never_joins);
    ranks_run(2, never_warms);
    ranks_run(3, never_fills);
    setenv("FAKE_PRECONNECT", "1", 1); /* then the first gather is not even enqueued */
    ranks_run(2, never_warms);
    ranks_run(3, never_warms);
    unsetenv("FAKE_PRECONNECT");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_parts_are_delivered),
        cmocka_unit_test(test_what_was_sent),
        cmocka_unit_test(test_a_failure_of_one_rank),
        cmocka_unit_test(test_what_can_not_be),
        cmocka_unit_test(test_an_end_in_order),
        cmocka_unit_test(test_a_bound),
        cmocka_unit_test(test_abort),
    };
    setenv("FAKE_MEMORY_MB", "512", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
