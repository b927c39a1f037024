/*
 * Running sends and receives, on the thread of a stream. All of one group go on at once: a pass moves what can be
 * moved without waiting, and a pass that moved nothing sleeps. Between two ranks messages keep the order of the calls.
 * A send ends when its receiver has taken the last chunk.
 *
 * Modelled time: the messages of a group start when this rank and all its peers there are ready, and last latency +
 * the larger of the bytes sent and the bytes received / bandwidth. What a rank sends to itself is a copy.
 */
#include "nccl_private.h"

#include <stdlib.h>
#include <string.h>

struct message {
    const struct task *task;
    size_t done; /* bytes written or read */
    bool begun;
    bool ended;
    uint64_t target; /* sender: mailbox->read when the last chunk has been taken; 0: not all written */
};

struct exchange {
    struct ncclComm *comm;
    struct message *messages;
    int count;
    uint64_t ready;
    uint64_t start;
};

static size_t bytes_of(const struct task *task)
{
    return task->count * datatype_bytes(task->datatype);
}

static void peer_ready(struct exchange *exchange, uint64_t time)
{
    if (exchange->start < time)
        exchange->start = time;
}

static size_t chunk_bytes(const struct message *message)
{
    size_t left = bytes_of(message->task) - message->done;
    return left < NCCL_MAIL_BYTES ? left : NCCL_MAIL_BYTES;
}

static bool send_chunk(struct exchange *exchange, struct message *message, struct mailbox *box)
{
    struct ncclComm *comm = exchange->comm;
    uint64_t written = atomic_load_explicit(&box->written, memory_order_relaxed);
    if (atomic_load_explicit(&box->read, memory_order_acquire) != written)
        return false;
    size_t bytes = chunk_bytes(message);
    if (!message->begun) {
        box->bytes = bytes_of(message->task);
        box->datatype = (uint32_t)message->task->datatype;
        box->sender_ready = exchange->ready;
        message->begun = true;
    }
    memcpy(segment_mail(&comm->segment, comm->rank, message->task->root),
           (const char *)message->task->send + message->done, bytes);
    message->done += bytes;
    atomic_store_explicit(&box->written, written + 1, memory_order_release);
    if (message->done == bytes_of(message->task))
        message->target = written + 1;
    return true;
}

static bool send_progress(struct exchange *exchange, struct message *message)
{
    struct ncclComm *comm = exchange->comm;
    struct mailbox *box = segment_mailbox(&comm->segment, comm->rank, message->task->root);
    if (!message->target)
        return send_chunk(exchange, message, box);
    if (atomic_load_explicit(&box->read, memory_order_acquire) < message->target)
        return false;
    peer_ready(exchange, box->receiver_ready);
    message->ended = true;
    return true;
}

static bool recv_progress(struct exchange *exchange, struct message *message)
{
    struct ncclComm *comm = exchange->comm;
    struct mailbox *box = segment_mailbox(&comm->segment, message->task->root, comm->rank);
    uint64_t read = atomic_load_explicit(&box->read, memory_order_relaxed);
    if (atomic_load_explicit(&box->written, memory_order_acquire) == read)
        return false;
    if (!message->begun) {
        if (box->bytes != bytes_of(message->task) || box->datatype != (uint32_t)message->task->datatype) {
            comm_fail(comm, "mismatch: a receive does not fit its send");
            return false;
        }
        peer_ready(exchange, box->sender_ready);
        box->receiver_ready = exchange->ready;
        message->begun = true;
    }
    size_t bytes = chunk_bytes(message);
    memcpy((char *)message->task->recv + message->done, segment_mail(&comm->segment, message->task->root, comm->rank),
           bytes);
    message->done += bytes;
    message->ended = message->done == bytes_of(message->task);
    atomic_store_explicit(&box->read, read + 1, memory_order_release);
    return true;
}

/* Whether an earlier message of the same direction and peer is unfinished. A send that only waits to be taken lets
 * no later one pass: there is one mailbox. */
static bool behind(const struct exchange *exchange, int index)
{
    const struct task *task = exchange->messages[index].task;
    for (int i = 0; i < index; i++) {
        const struct message *earlier = &exchange->messages[i];
        if (!earlier->ended && earlier->task->kind == task->kind && earlier->task->root == task->root)
            return true;
    }
    return false;
}

static bool pass(struct exchange *exchange, bool *all_ended)
{
    bool moved = false;
    *all_ended = true;
    for (int i = 0; i < exchange->count; i++) {
        struct message *message = &exchange->messages[i];
        if (!message->ended && !behind(exchange, i))
            moved |=
                message->task->kind == KIND_SEND ? send_progress(exchange, message) : recv_progress(exchange, message);
        *all_ended = *all_ended && message->ended;
    }
    return moved;
}

static bool exchange_run(struct exchange *exchange)
{
    struct ncclComm *comm = exchange->comm;
    struct shared *shared = comm->segment.shared;
    for (bool all_ended = false;;) {
        uint32_t seen = atomic_load(&shared->bell);
        bool moved = pass(exchange, &all_ended);
        if (moved)
            segment_ring(&comm->segment);
        if (all_ended)
            return true;
        if (comm_halted(comm) || atomic_load(&shared->failed))
            return false;
        if (!moved)
            segment_sleep(&comm->segment, seen);
    }
}

static uint64_t exchange_cost(const struct exchange *exchange)
{
    uint64_t sent = 0, received = 0, own = 0;
    for (int i = 0; i < exchange->count; i++) {
        const struct task *task = exchange->messages[i].task;
        uint64_t bytes = bytes_of(task);
        if (task->root == exchange->comm->rank)
            own += task->kind == KIND_SEND ? bytes : 0;
        else if (task->kind == KIND_SEND)
            sent += bytes;
        else
            received += bytes;
    }
    const struct fake_config *config = fake_config();
    uint64_t most = sent > received ? sent : received;
    uint64_t copied = fake_transfer_ns(2 * own, config->hbm_gbps);
    uint64_t moved = most ? config->latency_ns + fake_transfer_ns(most, config->link_gbps) : 0;
    return moved > copied ? moved : copied;
}

uint64_t p2p_run(const struct task *tasks, int count, uint64_t ready)
{
    struct exchange exchange = {.ready = ready, .start = ready};
    exchange.messages = calloc((size_t)count, sizeof *exchange.messages);
    for (int i = 0; exchange.messages && i < count; i++)
        if (task_is_p2p(&tasks[i])) {
            exchange.comm = tasks[i].comm;
            exchange.messages[exchange.count++].task = &tasks[i];
        }
    if (exchange.count > 0 && exchange_run(&exchange))
        ready = exchange.start + exchange_cost(&exchange);
    free(exchange.messages);
    return ready;
}
