/*
 * Communicators: made together by all ranks, ended in several ways.
 */
#include "tests/chaos/chaos_rank.h"

#include <string.h>
#include <unistd.h>

#define NAP_US 50

_Static_assert(CHAOS_ID_BYTES == NCCL_UNIQUE_ID_BYTES, "the size of an id");

ncclResult_t chaos_comm_settle(struct chaos_rank *me, ncclComm_t comm, ncclResult_t result)
{
    while (result == ncclInProgress) {
        CHAOS_NCCL(me, ncclCommGetAsyncError(comm, &result));
        if (result == ncclInProgress)
            usleep(NAP_US);
    }
    return result;
}

/* Every init of the program has an id of its own. */
static ncclUniqueId id_get(struct chaos_rank *me)
{
    struct chaos_shared *shared = me->shared;
    uint32_t index = me->ids_used++;
    ncclUniqueId id;
    if (index >= CHAOS_IDS_MAX)
        chaos_die(me, "more communicators than ids");
    if (me->rank == 0) {
        CHAOS_NCCL(me, ncclGetUniqueId(&id));
        memcpy(shared->id[index], &id, sizeof id);
        atomic_store_explicit(&shared->ids, index + 1, memory_order_release);
    }
    while (atomic_load_explicit(&shared->ids, memory_order_acquire) <= index)
        usleep(NAP_US);
    memcpy(&id, shared->id[index], sizeof id);
    return id;
}

/* A nonblocking split returns before there is a handle; a thread of NCCL writes it. */
static void split(struct chaos_rank *me, int kind, ncclConfig_t *config, ncclComm_t *comm_out)
{
    int color = kind == CHAOS_COMM_PARITY ? me->rank % 2 : 0;
    int key = kind == CHAOS_COMM_REVERSED ? me->program->ranks - me->rank : me->rank;
    ncclResult_t result = ncclCommSplit(me->comms[0], color, key, comm_out, config);
    chaos_nccl(me, chaos_comm_settle(me, me->comms[0], result), "ncclCommSplit");
    while (!__atomic_load_n(comm_out, __ATOMIC_ACQUIRE))
        usleep(NAP_US);
}

void chaos_comm_make(struct chaos_rank *me, int comm)
{
    const struct chaos_program *program = me->program;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = !program->nonblocking;
    pthread_mutex_lock(&me->comms_lock);
    ncclComm_t *made = &me->comms[comm];
    *made = NULL;
    if (program->comms[comm] == CHAOS_COMM_INIT) {
        ncclResult_t result = ncclCommInitRankConfig(made, program->ranks, id_get(me), me->rank, &config);
        chaos_nccl(me, chaos_comm_settle(me, *made, result), "ncclCommInitRankConfig");
    } else {
        split(me, program->comms[comm], &config, made);
        chaos_nccl(me, chaos_comm_settle(me, *made, ncclInProgress), "ncclCommSplit");
    }
    pthread_mutex_unlock(&me->comms_lock);
}

void chaos_comm_end(struct chaos_rank *me, int comm, bool finalize)
{
    pthread_mutex_lock(&me->comms_lock);
    ncclComm_t ended = me->comms[comm];
    if (ended && finalize)
        chaos_nccl(me, chaos_comm_settle(me, ended, ncclCommFinalize(ended)), "ncclCommFinalize");
    if (ended)
        CHAOS_NCCL(me, ncclCommDestroy(ended));
    me->comms[comm] = NULL;
    pthread_mutex_unlock(&me->comms_lock);
}

void chaos_comm_abort(struct chaos_rank *me, int comm)
{
    pthread_mutex_lock(&me->comms_lock);
    if (me->comms[comm])
        CHAOS_NCCL(me, ncclCommAbort(me->comms[comm]));
    me->comms[comm] = NULL;
    pthread_mutex_unlock(&me->comms_lock);
}
