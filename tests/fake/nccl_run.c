/*
 * Running a collective, on the thread of a stream. The data goes through staging buffers in the shared segment, chunk
 * by chunk: every rank writes its chunk, steps (a barrier), and reads the others'. Buffers alternate with the step, so
 * one barrier a chunk is enough: who writes a buffer again has seen all ranks arrive at the step after it was read.
 *
 * The first step of a collective carries its description. If the ranks' descriptions differ, all of them see it, and
 * the communicator fails on all.
 *
 * Modelled time: it starts when the last rank is ready and ends for all ranks alike, latency + bytes / bandwidth by
 * the usual formulas of rings; n ranks, b bytes of one rank's part:
 *   all-gather, reduce-scatter, all-to-all, gather, scatter   (n - 1) b
 *   all-reduce                                                2 (n - 1) / n b
 *   broadcast, reduce                                         b
 * Later collectives of one group add no latency. With one rank it is a copy within the device.
 */
#include "nccl_private.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* How a kind moves data: who writes how many blocks of `count` elements. */
static const struct shape {
    const char *name;
    bool root_writes; /* only the root writes */
    bool root_reads;
    bool blocks; /* one block for each rank, else one */
} shapes[] = {
    [KIND_ALL_GATHER] = {"AllGather", false, false, false},
    [KIND_ALL_REDUCE] = {"AllReduce", false, false, false},
    [KIND_REDUCE_SCATTER] = {"ReduceScatter", false, false, true},
    [KIND_BROADCAST] = {"Broadcast", true, false, false},
    [KIND_REDUCE] = {"Reduce", false, true, false},
    [KIND_ALL_TO_ALL] = {"AlltoAll", false, false, true},
    [KIND_GATHER] = {"Gather", false, true, false},
    [KIND_SCATTER] = {"Scatter", true, false, true},
};

/* One chunk: `elements` elements of each block, at element `at`. */
struct chunk {
    const struct task *task;
    size_t at;
    size_t elements;
    size_t element_bytes;
    int parity;
};

bool task_is_p2p(const struct task *task)
{
    return task->kind == KIND_SEND || task->kind == KIND_RECV;
}

uint64_t task_cost_ns(const struct task *task, bool first)
{
    const struct fake_config *config = fake_config();
    uint64_t ranks = (uint64_t)task->comm->ranks;
    uint64_t bytes = task->count * datatype_bytes(task->datatype);
    if (ranks == 1)
        return fake_transfer_ns(2 * bytes, config->hbm_gbps);
    uint64_t moved = (ranks - 1) * bytes;
    if (task->kind == KIND_ALL_REDUCE)
        moved = 2 * (ranks - 1) * bytes / ranks;
    else if (task->kind == KIND_BROADCAST || task->kind == KIND_REDUCE || task_is_p2p(task))
        moved = bytes;
    return (first ? config->latency_ns : 0) + fake_transfer_ns(moved, config->link_gbps);
}

static bool all_stepped(struct ncclComm *comm)
{
    struct shared *shared = comm->segment.shared;
    for (;;) {
        uint32_t seen = atomic_load(&shared->bell);
        int arrived = 0;
        for (int i = 0; i < comm->ranks; i++)
            arrived += atomic_load_explicit(&shared->ranks[i].step, memory_order_acquire) >= comm->step;
        if (arrived == comm->ranks)
            return true;
        if (comm_halted(comm) || atomic_load(&shared->failed))
            return false;
        segment_sleep(&comm->segment, seen);
    }
}

/* Publishes what this rank wrote and waits for all. False: the communicator has ended. */
static bool step(struct ncclComm *comm)
{
    comm->step++;
    atomic_store_explicit(&comm->segment.shared->ranks[comm->rank].step, comm->step, memory_order_release);
    segment_ring(&comm->segment);
    return all_stepped(comm);
}

static bool alike(const struct description *a, const struct description *b)
{
    return a->kind == b->kind && a->datatype == b->datatype && a->op == b->op && a->root == b->root &&
           a->count == b->count;
}

static void describe_mismatch(struct ncclComm *comm, const struct description *mine, const struct description *other,
                              int rank)
{
    char why[256];
    snprintf(why, sizeof why,
             "mismatch: %s count %llu type %u op %u root %d here, %s count %llu type %u op %u root %d "
             "on rank %d",
             shapes[mine->kind].name, (unsigned long long)mine->count, mine->datatype, mine->op, mine->root,
             shapes[other->kind].name, (unsigned long long)other->count, other->datatype, other->op, other->root, rank);
    comm_fail(comm, why);
}

/* After the first step: the modelled start, or false if the ranks do not do the same. */
static bool descriptions_check(struct ncclComm *comm, int parity, uint64_t *start_out)
{
    const struct shared_rank *ranks = comm->segment.shared->ranks;
    const struct description *mine = &ranks[comm->rank].description[parity];
    uint64_t start = 0;
    for (int i = 0; i < comm->ranks; i++) {
        const struct description *other = &ranks[i].description[parity];
        if (!alike(mine, other)) {
            describe_mismatch(comm, mine, other, i);
            return false;
        }
        start = other->ready > start ? other->ready : start;
    }
    *start_out = start;
    return true;
}

static void describe(const struct task *task, uint64_t ready, int parity)
{
    struct ncclComm *comm = task->comm;
    bool user = (int)task->op >= ncclNumOps; /* its handle is local */
    comm->segment.shared->ranks[comm->rank].description[parity] =
        (struct description){(uint32_t)task->kind,
                             (uint32_t)task->datatype,
                             user ? ncclNumOps : (uint32_t)task->op,
                             task->root,
                             task->count,
                             ready};
}

static const void *scalar_of(const struct user_op *op)
{
    return op->device ? op->device : op->value;
}

/* In a slot, block k of a chunk begins at k times the chunk's size. */
static void chunk_write(const struct chunk *chunk)
{
    const struct task *task = chunk->task;
    const struct shape *shape = &shapes[task->kind];
    struct ncclComm *comm = task->comm;
    if (shape->root_writes && comm->rank != task->root)
        return;
    char *slot = segment_slot(&comm->segment, comm->rank, chunk->parity);
    size_t bytes = chunk->elements * chunk->element_bytes;
    for (int block = 0; block < (shape->blocks ? comm->ranks : 1); block++) {
        size_t from = ((size_t)block * task->count + chunk->at) * chunk->element_bytes;
        const char *source = (const char *)task->send + from;
        if (task->user_op.used)
            reduce_scale(slot + (size_t)block * bytes, source, chunk->elements, task->datatype,
                         scalar_of(&task->user_op));
        else
            memcpy(slot + (size_t)block * bytes, source, bytes);
    }
}

static const char *block_of(const struct chunk *chunk, int rank)
{
    const struct task *task = chunk->task;
    size_t block = shapes[task->kind].blocks ? (size_t)task->comm->rank : 0;
    return segment_slot(&task->comm->segment, rank, chunk->parity) + block * chunk->elements * chunk->element_bytes;
}

static void chunk_reduce(const struct chunk *chunk, char *to)
{
    const struct task *task = chunk->task;
    const void *blocks[NCCL_RANKS_MAX];
    for (int i = 0; i < task->comm->ranks; i++)
        blocks[i] = block_of(chunk, i);
    ncclRedOp_t op = task->user_op.used ? ncclSum : task->op;
    reduce_run(to, blocks, task->comm->ranks, chunk->elements, task->datatype, op);
}

static void chunk_read(const struct chunk *chunk)
{
    const struct task *task = chunk->task;
    struct ncclComm *comm = task->comm;
    if (shapes[task->kind].root_reads && comm->rank != task->root)
        return;
    size_t bytes = chunk->elements * chunk->element_bytes;
    char *to = (char *)task->recv + chunk->at * chunk->element_bytes;
    switch (task->kind) {
    case KIND_ALL_REDUCE:
    case KIND_REDUCE_SCATTER:
    case KIND_REDUCE:
        chunk_reduce(chunk, to);
        break;
    case KIND_BROADCAST:
    case KIND_SCATTER:
        memcpy(to, block_of(chunk, task->root), bytes);
        break;
    default:
        for (int i = 0; i < comm->ranks; i++)
            memcpy(to + (size_t)i * task->count * chunk->element_bytes, block_of(chunk, i), bytes);
    }
}

static size_t chunk_elements(const struct task *task)
{
    size_t blocks = shapes[task->kind].blocks ? (size_t)task->comm->ranks : 1;
    return NCCL_SLOT_BYTES / blocks / datatype_bytes(task->datatype);
}

/* Faults of this rank that strike while the collective runs. */
static uint64_t faults_apply(const struct task *task, uint64_t ready)
{
    uint64_t us;
    if (fake_fault(FAKE_FAULT_LAG, task->number, &us)) {
        fake_say("fault: collective %llu starts %llu us late", (unsigned long long)task->number,
                 (unsigned long long)us);
        usleep((useconds_t)us);
        ready += us * 1000;
    }
    if (task->send && fake_fault(FAKE_FAULT_SCRIBBLE, task->number, NULL)) {
        fake_say("fault: a bit of the send buffer of collective %llu flips", (unsigned long long)task->number);
        *(unsigned char *)(uintptr_t)task->send ^= 1;
    }
    return ready;
}

uint64_t collective_run(const struct task *task, uint64_t ready, bool first)
{
    struct ncclComm *comm = task->comm;
    uint64_t start = ready;
    ready = faults_apply(task, ready);
    struct chunk chunk = {.task = task, .element_bytes = datatype_bytes(task->datatype)};
    for (size_t room = chunk_elements(task); chunk.at < task->count; chunk.at += chunk.elements) {
        size_t left = task->count - chunk.at;
        chunk.elements = left < room ? left : room;
        chunk.parity = (int)((comm->step + 1) & 1);
        chunk_write(&chunk);
        if (chunk.at == 0)
            describe(task, ready, chunk.parity);
        if (!step(comm) || (chunk.at == 0 && !descriptions_check(comm, chunk.parity, &start)))
            return ready;
        chunk_read(&chunk);
    }
    return start + task_cost_ns(task, first);
}
