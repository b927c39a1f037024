/*
 * One rank of minitrain: its model, its streams and communicators, and the passes over it.
 *
 * The model is a root (embedding and head) and blocks, each sharded over the replicas of its pipeline stage (without
 * stages: over all ranks, or those of one copy of the model): a rank holds one float master shard of a module. A pass
 * gathers a module as bfloat16 into a slot, uses it and lets the slot go; backward reduce-scatters float gradients.
 * Work is ordered by streams and events only; the host waits for the device where a trainer would.
 *
 * Threads: the main thread drives everything; with --threads backward runs on a worker, never at the same time.
 */
#ifndef MINITRAIN_H
#define MINITRAIN_H

#include "minitrain_kernels.h"
#include "minitrain_options.h"
#include "minitrain_site.h"

#include <nccl.h>

/* So many slots that the addresses of one step are not those of the next. */
#define MT_ROOT_SLOTS 3
#define MT_BLOCK_SLOTS 5
#define MT_GRADIENT_SLOTS 2
/* Steps that the host may be ahead of the device. */
#define MT_STEPS_AHEAD 2
/* Bound of every wait of a rank for another on the host. */
#define MT_WAIT_SECONDS 30

/* In a pipeline the root is two modules, "embed" on the first stage and "head" on the last one. */
struct mt_module {
    char name[24];
    uint32_t index;  /* 0: root, 1 + i: layers.i */
    size_t params;   /* elements of the whole module; 0 where it is on another stage */
    size_t shard;    /* elements of each rank's shard, the last ones padded */
    size_t live;     /* elements of this rank's shard that are no padding */
    uint64_t first;  /* number of the shard's first element in the whole model, whatever the stages and ranks */
    float *master;   /* shard */
    float *gradient; /* shard: sum over the microbatches of what was reduced */
    uint16_t *sent;  /* shard, --gather persistent only: what is gathered */
};

/* A gathered module. */
struct mt_slot {
    uint16_t *gathered; /* ranks * shard: where the gather delivers */
    uint16_t *full;     /* what kernels read: a copy of `gathered`, or itself when it is gathered out of place */
    cudaEvent_t copied_in, filled, released;
    const struct mt_module *module;
};

/* Gradients of a module on their way to the shards. */
struct mt_gradient {
    float *full;    /* ranks * shard */
    float *reduced; /* shard */
    cudaEvent_t ready, released;
};

/* A ring of equal slots, taken in turn. */
struct mt_slots {
    struct mt_slot *slot;
    int count, next;
};

struct mt_gradients {
    struct mt_gradient *gradient;
    int count, next;
};

/* A microbatch in a chunk, from its forward to its backward. Each array is the words of an activation. */
struct mt_flight {
    uint32_t **activation; /* input of each block's execution, then the last output */
    uint32_t *words_in;    /* of the embedding */
    uint32_t *logits;      /* of the head */
};

/* Blocks that run one after the other on one stage. Without stages there is one chunk. */
struct mt_chunk {
    char name[24];         /* chunk.<number among all chunks> */
    bool embeds, heads;    /* the first and the last of all chunks */
    int first, executions; /* of blocks in a full pass, and the number of the first one among all */
    int blocks, *order;    /* executions of this step, and which block each is */
    struct mt_flight *flight;
    int flights; /* microbatch m is in flight[m % flights] */
};

struct mt_pass {
    int step, microbatch;
    bool eval; /* no backward follows */
    const struct mt_chunk *chunk;
    const struct mt_flight *flight;
    float *loss;
    int loss_parts;
};

/* Batches of a microbatch: of as many ranks. Stages share theirs, copies of the model do not. */
#define MT_BATCHES(t) ((t)->replicas * (t)->copies)

/* The phase in which the pass does what training does in `phase`. */
static inline enum mt_phase mt_phase_in(const struct mt_pass *pass, enum mt_phase phase)
{
    return pass->eval ? MT_EVAL : phase;
}

struct mt_deliveries; /* see minitrain_check.h */
struct mt_times;      /* see minitrain_times.h */

struct mt_trainer {
    const struct mt_options *options;
    int rank, world, device;
    int stage, replica, replicas; /* rank = stage * replicas + replica */
    int copy, copies;             /* --copies, without stages: rank = copy * replicas + replica */
    cudaStream_t compute, copy_in, gather, reduce, peer;
    ncclComm_t world_comm;     /* the loss; parent of the others */
    ncclComm_t comm;           /* the replicas of this stage: gathers, --sendrecv; without stages: world_comm */
    ncclComm_t reduce_comm;    /* reduce-scatters: comm, or its own with --two-comms */
    ncclComm_t copies_comm;    /* the ranks with this shard in all copies of the model, else NULL */
    ncclComm_t pipe_comm;      /* the stages of this replica, else NULL */
    ncclComm_t peer_comm;      /* --recv-first, else NULL */
    struct mt_module *modules; /* root, then the blocks */
    struct mt_slots root_slots, block_slots;
    struct mt_gradients root_gradients, block_gradients;
    struct mt_chunk *chunks; /* options->chunks */
    struct mt_schedule *training, *evaluation;
    size_t words; /* of an activation: tokens * dim */
    uint32_t *recomputed, *received, *from_peer;
    uint32_t *flow[2];   /* gradients of activations, the newest in flow[0] */
    uint32_t *from_next; /* the gradient that the next stage sent */
    cudaEvent_t compute_done, reduce_done, peer_done;
    float *losses, *mean_losses, *eval_losses; /* device, one a step */
    cudaEvent_t *step_marks;                   /* steps + 1 */
    size_t free_memory;                        /* bytes of the device that setup left */
    struct mt_deliveries *deliveries;
    struct mt_times *times;
};

/* minitrain_setup.c: device, streams, memory and communicators; mt_teardown gives back what ranks must end together. */
void mt_setup(struct mt_trainer *t, const struct mt_options *options, int rank, int world);
void mt_teardown(struct mt_trainer *t);

/* minitrain_world.c: the communicators, and what became of a call on one: nonblocking ones answer "in progress", which
 * mt_settle waits for, and mt_queued takes inside a group. */
void mt_comms_open(struct mt_trainer *t);
void mt_comms_close(struct mt_trainer *t);
void mt_settle(ncclComm_t comm, ncclResult_t result, const char *call);
void mt_queued(ncclResult_t result, const char *call);

/* minitrain_comm.c: the collectives, each with its events, its site and its checksum. `phase` is that of training. */
struct mt_slot *mt_gather(struct mt_trainer *t, const struct mt_pass *pass, enum mt_phase phase,
                          const struct mt_module *module);
/* The same while another module is at work, for one that comes later. */
struct mt_slot *mt_gather_ahead(struct mt_trainer *t, const struct mt_pass *pass, enum mt_phase phase,
                                const struct mt_module *module);
/* Two modules in one NCCL group. */
void mt_gather_pair(struct mt_trainer *t, const struct mt_pass *pass, enum mt_phase phase,
                    const struct mt_module *const modules[2], struct mt_slot *slots_out[2]);
/* The gathered weights, valid for work put on the compute stream until mt_release. */
const uint16_t *mt_gathered(struct mt_trainer *t, const struct mt_slot *slot);
void mt_release(struct mt_trainer *t, const struct mt_slot *slot);
/* Gradients that may be written on the compute stream, and their way into the shard. */
struct mt_gradient *mt_gradient_take(struct mt_trainer *t, const struct mt_module *module);
void mt_reduce(struct mt_trainer *t, const struct mt_pass *pass, const struct mt_module *module,
               const struct mt_gradient *gradient);
void mt_loss_reduce(struct mt_trainer *t, int step);
/* --sendrecv: the previous rank's words come to t->received. */
void mt_ring_exchange(struct mt_trainer *t, const struct mt_pass *pass, const uint32_t *send);
/* --collect: the words of all replicas but the first come to it, and are mixed into `activation` there. */
void mt_collect(struct mt_trainer *t, const struct mt_pass *pass, uint32_t *activation);
/* --recv-first, from the second step on: odd ranks receive, on the gather stream once it follows the compute stream and
 * before the root's gather, what the rank before them sends after its own; mt_peer_join mixes it into `activation`. */
void mt_peer_receive(struct mt_trainer *t, const struct mt_pass *pass);
void mt_peer_send(struct mt_trainer *t, const struct mt_pass *pass);
void mt_peer_join(struct mt_trainer *t, const struct mt_pass *pass, uint32_t *activation);

/* minitrain_pipe.c: between two ticks of a schedule this rank sends what the last one made for another stage, and
 * receives what the next one needs. Nothing without stages. `step` and `eval` are of the passes. */
void mt_pipe_exchange(struct mt_trainer *t, int step, bool eval, const struct mt_tick *last,
                      const struct mt_tick *next);
/* The losses are on the last stage; rank 0 gets them when training has ended. */
void mt_pipe_losses(struct mt_trainer *t);

/* minitrain_pass.c: forward and backward of one microbatch in one chunk, as FSDP2 schedules them. */
void mt_pass_forward(struct mt_trainer *t, const struct mt_pass *pass);
void mt_pass_backward(struct mt_trainer *t, const struct mt_pass *pass);
/* Gathers from now on wait for all earlier work on the compute stream. */
void mt_pass_fence(struct mt_trainer *t);

/* minitrain_step.c: one step, with an evaluation behind it where one is due. */
struct mt_worker;
void mt_step(struct mt_trainer *t, struct mt_worker *worker, int step);
/* Whether something done every `every` steps (0: never) is done in `step`. */
bool mt_due(int every, int step);

/* minitrain_worker.c: with --threads, the thread of backward. mt_worker_run returns when mt_pass_backward has. */
struct mt_worker *mt_worker_start(struct mt_trainer *t);
void mt_worker_run(struct mt_worker *worker, const struct mt_pass *pass);
void mt_worker_stop(struct mt_worker *worker);

/* `later` goes on when `earlier` has done what is on it now. */
void mt_stream_follow(cudaStream_t later, cudaStream_t earlier, cudaEvent_t event);

#endif
