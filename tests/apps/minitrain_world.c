/*
 * The communicators of one rank: that of the world, and what is split from it.
 *
 * A stage of a pipeline, or a copy of the model, has one of its own for its shards; each replica has one that joins its
 * stages, or the copies of its shard. All are splits of the world's, as PyTorch makes its groups where the device is
 * known at init.
 *
 * Main thread only, but for mt_settle and mt_queued: the thread that issues.
 */
#include "minitrain.h"

#include "minitrain_calls.h"
#include "minitrain_host.h"

#include <time.h>

#define NAP_NS 20000

/* A nonblocking communicator answers "in progress"; nothing else may be called on it until it is done. */
void mt_settle(ncclComm_t comm, ncclResult_t result, const char *call)
{
    struct timespec nap = {.tv_nsec = NAP_NS};
    while (result == ncclInProgress) {
        ncclResult_t asked = ncclCommGetAsyncError(comm, &result);
        mt_nccl_check(asked, "ncclCommGetAsyncError");
        if (result == ncclInProgress)
            nanosleep(&nap, NULL);
    }
    mt_nccl_check(result, call);
}

/* Inside a group a call of a nonblocking communicator may answer "in progress" and be followed by others. */
void mt_queued(ncclResult_t result, const char *call)
{
    if (result != ncclInProgress)
        mt_nccl_check(result, call);
}

static ncclConfig_t config_of(const struct mt_trainer *t)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = t->options->nonblocking ? 0 : 1;
    return config;
}

/* Of the ranks of `parent` with this color, in order of `key`. A nonblocking split returns before there is a handle; a
 * thread of NCCL writes it (2.28: commInitRankFunc). */
static ncclComm_t split(const struct mt_trainer *t, ncclComm_t parent, int color, int key)
{
    ncclComm_t comm = NULL;
    ncclConfig_t config = config_of(t);
    struct timespec nap = {.tv_nsec = NAP_NS};
    ncclResult_t result = ncclCommSplit(parent, color, key, &comm, &config);
    mt_settle(parent, result, "ncclCommSplit");
    while (!__atomic_load_n(&comm, __ATOMIC_ACQUIRE))
        nanosleep(&nap, NULL);
    mt_settle(comm, t->options->nonblocking ? ncclInProgress : ncclSuccess, "ncclCommSplit");
    mt_watchdog_know(comm);
    return comm;
}

static void connect_peers(void *trainer)
{
    struct mt_trainer *t = trainer;
    int peer = t->rank ^ 1;
    mt_called("peer", MT_OTHER, t->rank % 2 ? "recv" : "send");
    if (t->rank % 2)
        mt_settle(t->peer_comm, ncclRecv(t->from_peer, t->words, ncclUint32, peer, t->peer_comm, t->peer), "ncclRecv");
    else
        mt_settle(t->peer_comm, ncclSend(t->received, t->words, ncclUint32, peer, t->peer_comm, t->peer), "ncclSend");
    MT_CUDA(cudaStreamSynchronize(t->peer));
}

static ncclComm_t world_open(const struct mt_trainer *t)
{
    ncclUniqueId id;
    ncclComm_t comm = NULL;
    ncclConfig_t config = config_of(t);
    if (t->rank == 0) {
        MT_NCCL(ncclGetUniqueId(&id));
        mt_post("", &id, sizeof id);
    } else {
        mt_peek("", &id, sizeof id, MT_WAIT_SECONDS);
    }
    ncclResult_t result = ncclCommInitRankConfig(&comm, t->world, id, t->rank, &config);
    mt_settle(comm, result, "ncclCommInitRankConfig");
    mt_watchdog_know(comm);
    return comm;
}

void mt_comms_open(struct mt_trainer *t)
{
    t->world_comm = world_open(t);
    t->comm = t->world_comm;
    if (t->options->stages > 1) {
        t->comm = split(t, t->world_comm, t->stage, t->replica);
        t->pipe_comm = split(t, t->world_comm, t->replica, t->stage);
    }
    if (t->copies > 1) {
        t->comm = split(t, t->world_comm, t->copy, t->replica);
        t->copies_comm = split(t, t->world_comm, t->replica, t->copy);
    }
    t->reduce_comm = t->options->two_comms ? split(t, t->comm, 0, t->replica) : t->comm;
    if (!t->options->recv_first)
        return;
    t->peer_comm = split(t, t->comm, 0, t->replica);
    /* The first use of a connection is a rendezvous on the host: here both sides are at the same place. */
    if ((t->rank ^ 1) < t->world)
        mt_at(MT_OTHER, "peer", connect_peers, t);
}

static void close_comm(ncclComm_t comm)
{
    mt_settle(comm, ncclCommFinalize(comm), "ncclCommFinalize");
    MT_NCCL(ncclCommDestroy(comm));
}

/* Children before their parents. */
void mt_comms_close(struct mt_trainer *t)
{
    if (t->peer_comm)
        close_comm(t->peer_comm);
    if (t->reduce_comm != t->comm)
        close_comm(t->reduce_comm);
    if (t->copies_comm)
        close_comm(t->copies_comm);
    if (t->pipe_comm)
        close_comm(t->pipe_comm);
    if (t->comm != t->world_comm)
        close_comm(t->comm);
    close_comm(t->world_comm);
}
