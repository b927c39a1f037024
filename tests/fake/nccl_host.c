/*
 * The host plane of a communicator: rendezvous of its ranks' host threads, one after another in the order of the
 * calls (tickets). Threads of one rank take turns by ticket.
 */
#include "nccl_private.h"

uint64_t host_ticket(struct ncclComm *comm)
{
    pthread_mutex_lock(&comm->lock);
    uint64_t ticket = ++comm->host_tickets;
    pthread_mutex_unlock(&comm->lock);
    return ticket;
}

static bool turn_wait(struct ncclComm *comm, uint64_t ticket)
{
    pthread_mutex_lock(&comm->lock);
    while (comm->host_done + 1 != ticket && !comm_stopped(comm))
        pthread_cond_wait(&comm->changed, &comm->lock);
    bool mine = comm->host_done + 1 == ticket;
    pthread_mutex_unlock(&comm->lock);
    return mine;
}

static void turn_end(struct ncclComm *comm, uint64_t ticket)
{
    pthread_mutex_lock(&comm->lock);
    comm->host_done = ticket;
    pthread_cond_broadcast(&comm->changed);
    pthread_mutex_unlock(&comm->lock);
}

static bool all_arrived(struct ncclComm *comm, uint64_t step)
{
    struct shared *shared = comm->segment.shared;
    for (;;) {
        uint32_t seen = atomic_load(&shared->bell);
        int arrived = 0;
        for (int i = 0; i < comm->ranks; i++)
            arrived += atomic_load_explicit(&shared->ranks[i].host_step, memory_order_acquire) >= step;
        if (arrived == comm->ranks)
            return true;
        if (comm_stopped(comm))
            return false;
        segment_sleep(&comm->segment, seen);
    }
}

ncclResult_t host_exchange(struct ncclComm *comm, uint64_t ticket, struct host_word word, struct host_word *words_out)
{
    if (!turn_wait(comm, ticket))
        return ncclInternalError;
    struct shared_rank *me = &comm->segment.shared->ranks[comm->rank];
    word.time = fake_host_time();
    me->host[ticket & 1] = word;
    atomic_store_explicit(&me->host_step, ticket, memory_order_release);
    segment_ring(&comm->segment);
    ncclResult_t result = all_arrived(comm, ticket) ? ncclSuccess : ncclInternalError;
    for (int i = 0; result == ncclSuccess && i < comm->ranks; i++) {
        words_out[i] = comm->segment.shared->ranks[i].host[ticket & 1];
        fake_host_time_raise(words_out[i].time);
        if (words_out[i].what != word.what)
            result = nccl_warn(ncclInvalidUsage, "ranks %d and %d do different things", comm->rank, i);
    }
    turn_end(comm, ticket);
    return result;
}
