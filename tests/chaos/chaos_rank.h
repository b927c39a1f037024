/*
 * One rank of a random program. It is written against the CUDA runtime and NCCL alone.
 *
 * Threads: thread 0 is the main one, thread 1 (if the program has it) runs actions while or after thread 0 does. Each
 * has its own record of what was delivered; units, buffers and streams belong to one of them at a time. The watchdog
 * touches communicators only, under `comms_lock`.
 */
#ifndef CHAOS_RANK_H
#define CHAOS_RANK_H

#include <pthread.h>
#include <stdatomic.h>

#include <cuda_runtime_api.h>
#include <nccl.h>

#include "tests/chaos/chaos.h"
#include "tests/chaos/chaos_shared.h"

#define CHAOS_THREADS 2
#define CHAOS_GUARD 64 /* bytes on either side of a buffer that nobody may write */
#define CHAOS_GRAPHS_MAX 512

/* Something delivered: a copy of `bytes` at `device` is made into `host`, and compared when the device is idle. */
struct chaos_delivery {
    const struct chaos_action *action; /* NULL: the guards of a buffer */
    const char *device;
    char *host;
    size_t bytes;
};

/* Device memory with guards; all uses are ordered by `event`. */
struct chaos_buffer {
    char *base;
    size_t bytes; /* without the guards */
    cudaEvent_t event;
    bool used;
    struct chaos_delivery *pending; /* to be copied before the next use */
    cudaStream_t pending_stream;    /* where it was delivered */
};

struct chaos_thread {
    struct chaos_delivery *deliveries;
    size_t delivery_count, delivery_room;
    char *arena; /* pinned, where the copies go */
    size_t arena_used, arena_room;
    char *staging; /* contents on their way to the device */
    cudaGraphExec_t graphs[CHAOS_GRAPHS_MAX];
    int graph_count;
};

struct chaos_rank {
    const struct chaos_program *program;
    struct chaos_shared *shared;
    int rank;
    ncclComm_t comms[CHAOS_COMMS_MAX];
    pthread_mutex_t comms_lock;
    uint32_t ids_used;
    cudaStream_t streams[CHAOS_STREAMS_MAX], peer_stream;
    struct chaos_buffer shards[CHAOS_UNITS_MAX], staged[CHAOS_UNITS_MAX];
    struct chaos_buffer slots[CHAOS_COMMS_MAX][CHAOS_SLOTS_MAX];
    struct chaos_buffer scratch[CHAOS_COMMS_MAX][CHAOS_SCRATCHES];
    struct chaos_buffer spare, balloon;
    cudaEvent_t peer_done;
    struct chaos_thread threads[CHAOS_THREADS];
    atomic_bool expired; /* set by the watchdog before it aborts; from then on the others only park */
};

/* chaos_rank.c: errors end the rank with one line. */
_Noreturn void chaos_die(struct chaos_rank *me, const char *format, ...) __attribute__((format(printf, 2, 3)));
void chaos_cuda(struct chaos_rank *me, cudaError_t error, const char *call);
void chaos_nccl(struct chaos_rank *me, ncclResult_t result, const char *call);
#define CHAOS_CUDA(me, call) chaos_cuda(me, call, #call)
#define CHAOS_NCCL(me, call) chaos_nccl(me, call, #call)
void chaos_park_if_expired(struct chaos_rank *me);
struct chaos_figures *chaos_figures_of(struct chaos_rank *me);

/* chaos_buffer.c */
void chaos_buffer_make(struct chaos_rank *me, struct chaos_buffer *buffer, size_t bytes);
void chaos_buffer_end(struct chaos_rank *me, struct chaos_buffer *buffer);
/* `stream` waits for the last use; what was delivered there and not looked at is copied first. */
void chaos_buffer_use(struct chaos_rank *me, struct chaos_buffer *buffer, cudaStream_t stream);
void chaos_buffer_used(struct chaos_rank *me, struct chaos_buffer *buffer, cudaStream_t stream);
/* Enqueues the copies of what was delivered and not looked at yet, and of the guards if asked. */
void chaos_buffer_flush(struct chaos_rank *me, struct chaos_buffer *buffer, bool guards);
void chaos_buffer_renew(struct chaos_rank *me, const struct chaos_action *action);
void chaos_balloon(struct chaos_rank *me);
char *chaos_buffer_data(const struct chaos_buffer *buffer);
void chaos_buffers_make(struct chaos_rank *me);
void chaos_buffers_flush(struct chaos_rank *me, bool guards);
void chaos_buffers_end(struct chaos_rank *me);

/* chaos_check.c */
void chaos_check_start(struct chaos_rank *me);
void chaos_check_end(struct chaos_rank *me);
/* Something was delivered on `stream`. `buffer`: not NULL if it is to be looked at only before its next use. */
void chaos_delivered(struct chaos_rank *me, const struct chaos_delivery *what, int thread, cudaStream_t stream,
                     struct chaos_buffer *buffer);
void chaos_delivery_copy(struct chaos_rank *me, const struct chaos_delivery *delivery, cudaStream_t stream);
/* With an idle device: compares everything that was delivered since the last call. */
void chaos_check_all(struct chaos_rank *me);
/* What the buffers of transfers are filled with. */
struct chaos_content chaos_transfer_content(const struct chaos_action *action);
int chaos_pair(int from, int to);
size_t chaos_uneven_offset(const struct chaos_action *action, int root, int place);

/* chaos_comm.c */
void chaos_comm_make(struct chaos_rank *me, int comm);
void chaos_comm_end(struct chaos_rank *me, int comm, bool finalize);
void chaos_comm_abort(struct chaos_rank *me, int comm);
/* Waits until a nonblocking communicator has done what it was told. */
ncclResult_t chaos_comm_settle(struct chaos_rank *me, ncclComm_t comm, ncclResult_t result);

/* chaos_issue.c: one action, or the actions of one bracket. */
void chaos_issue(struct chaos_rank *me, const struct chaos_action *actions, int count);
/* Gathers that nobody waits for or looks at. */
void chaos_issue_careless(struct chaos_rank *me, const struct chaos_action *action);

/* chaos_operation.c: what one operation does before, in and after its call. */
void chaos_operation_before(struct chaos_rank *me, const struct chaos_action *action);
ncclResult_t chaos_operation_call(struct chaos_rank *me, const struct chaos_action *action);
void chaos_operation_after(struct chaos_rank *me, const struct chaos_action *action);
cudaStream_t chaos_stream_of(const struct chaos_rank *me, const struct chaos_action *action);

#endif
