/*
 * The collectives of one rank.
 *
 * Gathers run on the gather stream after a copy-in on a stream of its own, reduce-scatters on the reduce stream, as in
 * FSDP2; the compute stream waits for a gather's event where it needs the weights. A slot is written again only after
 * its `released` event, recorded on the compute stream after the last use.
 *
 * Called by the thread that issues; never by two at a time.
 */
#include "minitrain.h"

#include "minitrain_calls.h"
#include "minitrain_check.h"
#include "minitrain_host.h"
#include "minitrain_times.h"

#include <stdio.h>

void mt_stream_follow(cudaStream_t later, cudaStream_t earlier, cudaEvent_t event)
{
    MT_CUDA(cudaEventRecord(event, earlier));
    MT_CUDA(cudaStreamWaitEvent(later, event, 0));
}

/* Gathers --------------------------------------------------------------------------------------------------------- */

static struct mt_slot *take_slot(struct mt_trainer *t, const struct mt_module *module)
{
    struct mt_slots *slots = module->index == 0 ? &t->root_slots : &t->block_slots;
    struct mt_slot *slot = &slots->slot[slots->next];
    slots->next = (slots->next + 1) % slots->count;
    slot->module = module;
    return slot;
}

/* Returns what this rank sends. In place it is the rank's part of the receive buffer, filled by a copy-in. */
static const uint16_t *prepare_gather(struct mt_trainer *t, const struct mt_slot *slot)
{
    const struct mt_module *m = slot->module;
    if (t->options->late_gathers)
        mt_pass_fence(t);
    if (t->options->gather == MT_GATHER_PERSISTENT) {
        MT_CUDA(cudaStreamWaitEvent(t->gather, slot->released, 0));
        return m->sent;
    }
    uint16_t *own = slot->gathered + (size_t)t->replica * m->shard;
    MT_CUDA(cudaStreamWaitEvent(t->copy_in, slot->released, 0));
    mt_copy_in_launch(t->copy_in, own, m->master, m->shard);
    mt_stream_follow(t->gather, t->copy_in, slot->copied_in);
    return own;
}

struct gather {
    struct mt_trainer *t;
    const struct mt_slot *slot;
    enum mt_phase phase;
    const uint16_t *own; /* prepared before, in a group */
};

static ncclResult_t issue_gather(const struct gather *gather, const uint16_t *own)
{
    const struct mt_slot *slot = gather->slot;
    const struct mt_trainer *t = gather->t;
    mt_called(slot->module->name, gather->phase, "all-gather");
    return ncclAllGather(own, slot->gathered, slot->module->shard, ncclBfloat16, t->comm, t->gather);
}

static void gather_alone(void *argument)
{
    const struct gather *gather = argument;
    ncclResult_t result = issue_gather(gather, prepare_gather(gather->t, gather->slot));
    mt_settle(gather->t->comm, result, "ncclAllGather");
}

static void gather_in_group(void *argument)
{
    const struct gather *gather = argument;
    mt_queued(issue_gather(gather, gather->own), "ncclAllGather");
}

static void finish_gather(struct mt_trainer *t, const struct mt_pass *pass, enum mt_phase phase,
                          const struct mt_slot *slot)
{
    size_t bytes = (size_t)t->replicas * slot->module->shard * sizeof(uint16_t);
    mt_delivered(t, t->gather, pass, phase, "all-gather", slot->module->name, slot->gathered, bytes);
    MT_CUDA(cudaEventRecord(slot->filled, t->gather));
}

typedef void place(enum mt_phase phase, const char *module, mt_work *work, void *argument);

static struct mt_slot *gather_at(place *at, struct mt_trainer *t, const struct mt_pass *pass, enum mt_phase phase,
                                 const struct mt_module *module)
{
    struct mt_slot *slot = take_slot(t, module);
    struct gather gather = {.t = t, .slot = slot, .phase = mt_phase_in(pass, phase)};
    mt_times_called(t);
    at(gather.phase, module->name, gather_alone, &gather);
    finish_gather(t, pass, phase, slot);
    return slot;
}

struct mt_slot *mt_gather(struct mt_trainer *t, const struct mt_pass *pass, enum mt_phase phase,
                          const struct mt_module *module)
{
    return gather_at(mt_at, t, pass, phase, module);
}

struct mt_slot *mt_gather_ahead(struct mt_trainer *t, const struct mt_pass *pass, enum mt_phase phase,
                                const struct mt_module *module)
{
    return gather_at(mt_at_ahead, t, pass, phase, module);
}

void mt_gather_pair(struct mt_trainer *t, const struct mt_pass *pass, enum mt_phase phase,
                    const struct mt_module *const modules[2], struct mt_slot *slots_out[2])
{
    struct gather gathers[2];
    mt_times_called(t);
    for (int i = 0; i < 2; i++) {
        slots_out[i] = take_slot(t, modules[i]);
        gathers[i] = (struct gather){t, slots_out[i], mt_phase_in(pass, phase), prepare_gather(t, slots_out[i])};
    }
    MT_NCCL(ncclGroupStart());
    for (int i = 0; i < 2; i++)
        mt_at(gathers[i].phase, modules[i]->name, gather_in_group, &gathers[i]);
    mt_settle(t->comm, ncclGroupEnd(), "ncclGroupEnd");
    for (int i = 0; i < 2; i++)
        finish_gather(t, pass, phase, slots_out[i]);
}

const uint16_t *mt_gathered(struct mt_trainer *t, const struct mt_slot *slot)
{
    mt_compute_wait(t, MT_WAIT_GATHER, slot->filled);
    if (slot->full != slot->gathered)
        mt_copy_out_launch(t->compute, slot->full, slot->gathered, (size_t)t->replicas * slot->module->shard);
    return slot->full;
}

void mt_release(struct mt_trainer *t, const struct mt_slot *slot)
{
    MT_CUDA(cudaEventRecord(slot->released, t->compute));
}

/* Reductions ------------------------------------------------------------------------------------------------------ */

struct mt_gradient *mt_gradient_take(struct mt_trainer *t, const struct mt_module *module)
{
    struct mt_gradients *all = module->index == 0 ? &t->root_gradients : &t->block_gradients;
    struct mt_gradient *gradient = &all->gradient[all->next];
    all->next = (all->next + 1) % all->count;
    mt_compute_wait(t, MT_WAIT_REDUCTION, gradient->released);
    return gradient;
}

struct reduction {
    struct mt_trainer *t;
    const struct mt_pass *pass;
    const struct mt_module *module;
    const struct mt_gradient *gradient;
};

/* Between the copies of the model, once a copy has reduced. */
static void reduce_copies(const struct reduction *reduction)
{
    struct mt_trainer *t = reduction->t;
    const struct mt_module *module = reduction->module;
    float *reduced = reduction->gradient->reduced;
    mt_called(module->name, MT_BACKWARD, "all-reduce");
    mt_settle(t->copies_comm,
              ncclAllReduce(reduced, reduced, module->shard, ncclFloat, ncclSum, t->copies_comm, t->reduce),
              "ncclAllReduce");
    mt_delivered(t, t->reduce, reduction->pass, MT_BACKWARD, "all-reduce", module->name, reduced,
                 module->shard * sizeof(float));
}

static void reduce(void *argument)
{
    const struct reduction *reduction = argument;
    struct mt_trainer *t = reduction->t;
    const struct mt_module *module = reduction->module;
    const struct mt_gradient *gradient = reduction->gradient;
    mt_called(module->name, MT_BACKWARD, "reduce-scatter");
    mt_stream_follow(t->reduce, t->compute, gradient->ready);
    mt_settle(t->reduce_comm,
              ncclReduceScatter(gradient->full, gradient->reduced, module->shard, ncclFloat, ncclSum, t->reduce_comm,
                                t->reduce),
              "ncclReduceScatter");
    mt_delivered(t, t->reduce, reduction->pass, MT_BACKWARD, "reduce-scatter", module->name, gradient->reduced,
                 module->shard * sizeof(float));
    if (t->copies_comm)
        reduce_copies(reduction);
    mt_accumulate_launch(t->reduce, module->gradient, gradient->reduced, module->shard);
    MT_CUDA(cudaEventRecord(gradient->released, t->reduce));
}

void mt_reduce(struct mt_trainer *t, const struct mt_pass *pass, const struct mt_module *module,
               const struct mt_gradient *gradient)
{
    struct reduction reduction = {t, pass, module, gradient};
    mt_at(MT_BACKWARD, module->name, reduce, &reduction);
}

struct loss {
    struct mt_trainer *t;
    const float *own;
    float *mean;
};

static void reduce_loss(void *argument)
{
    const struct loss *loss = argument;
    const struct mt_trainer *t = loss->t;
    mt_called("loss", MT_OTHER, "all-reduce");
    ncclResult_t result = ncclAllReduce(loss->own, loss->mean, 1, ncclFloat, ncclSum, t->world_comm, t->compute);
    mt_settle(t->world_comm, result, "ncclAllReduce");
}

/* A trainer that logs the loss waits for it. Stages but the last add 0. */
void mt_loss_reduce(struct mt_trainer *t, int step)
{
    struct mt_pass pass = {.step = step, .microbatch = t->options->microbatches};
    float *mean = &t->mean_losses[step - 1], value;
    struct loss loss = {t, &t->losses[step - 1], mean};
    mt_at(MT_OTHER, "loss", reduce_loss, &loss);
    mt_delivered(t, t->compute, &pass, MT_OTHER, "all-reduce", "loss", mean, sizeof *mean);
    MT_CUDA(cudaMemcpyAsync(&value, mean, sizeof value, cudaMemcpyDeviceToHost, t->compute));
    MT_CUDA(cudaStreamSynchronize(t->compute));
    if (t->rank == 0)
        fprintf(stderr, "minitrain: step %d loss %g\n", step, (double)value / MT_BATCHES(t));
}

/* Point to point -------------------------------------------------------------------------------------------------- */

/* A message to or from another rank. */
struct message {
    struct mt_trainer *t;
    const uint32_t *send;
    enum mt_phase phase;
};

static void exchange_in_ring(void *argument)
{
    const struct message *message = argument;
    const struct mt_trainer *t = message->t;
    int next = (t->replica + 1) % t->replicas;
    int previous = (t->replica + t->replicas - 1) % t->replicas;
    MT_NCCL(ncclGroupStart());
    mt_called("ring", message->phase, "send");
    mt_queued(ncclSend(message->send, t->words, ncclUint32, next, t->comm, t->compute), "ncclSend");
    mt_called("ring", message->phase, "recv");
    mt_queued(ncclRecv(t->received, t->words, ncclUint32, previous, t->comm, t->compute), "ncclRecv");
    mt_settle(t->comm, ncclGroupEnd(), "ncclGroupEnd");
}

void mt_ring_exchange(struct mt_trainer *t, const struct mt_pass *pass, const uint32_t *send)
{
    struct message message = {t, send, mt_phase_in(pass, MT_FORWARD)};
    mt_at(message.phase, "ring", exchange_in_ring, &message);
    mt_delivered(t, t->compute, pass, MT_FORWARD, "recv", "ring", t->received, t->words * sizeof(uint32_t));
}

/* As PyTorch's gather to one rank: one group, a receive there for each of the others, a send on each of those. */
static void collect(void *argument)
{
    const struct message *message = argument;
    const struct mt_trainer *t = message->t;
    MT_NCCL(ncclGroupStart());
    if (t->replica > 0) {
        mt_called("collect", message->phase, "send");
        mt_queued(ncclSend(message->send, t->words, ncclUint32, 0, t->comm, t->compute), "ncclSend");
    }
    for (int from = 1; t->replica == 0 && from < t->replicas; from++) {
        uint32_t *words = t->received + (size_t)from * t->words;
        mt_called("collect", message->phase, "recv");
        mt_queued(ncclRecv(words, t->words, ncclUint32, from, t->comm, t->compute), "ncclRecv");
    }
    mt_settle(t->comm, ncclGroupEnd(), "ncclGroupEnd");
}

void mt_collect(struct mt_trainer *t, const struct mt_pass *pass, uint32_t *activation)
{
    struct message message = {t, activation, mt_phase_in(pass, MT_FORWARD)};
    mt_at(message.phase, "collect", collect, &message);
    for (int from = 1; t->replica == 0 && from < t->replicas; from++) {
        const uint32_t *words = t->received + (size_t)from * t->words;
        mt_delivered(t, t->compute, pass, MT_FORWARD, "recv", "collect", words, t->words * sizeof(uint32_t));
        mt_mix_launch(t->compute, activation, words, t->words);
    }
}

/* Not in the first step: connections and kernels are loaded in it, which waits for an idle device. */
static bool has_peer(const struct mt_trainer *t, const struct mt_pass *pass, int odd)
{
    return t->peer_comm && pass->step > 1 && !pass->eval && t->rank % 2 == odd && (t->rank ^ 1) < t->world;
}

static void receive_from_peer(void *argument)
{
    const struct message *message = argument;
    const struct mt_trainer *t = message->t;
    mt_called("peer", message->phase, "recv");
    mt_settle(t->peer_comm, ncclRecv(t->from_peer, t->words, ncclUint32, t->rank - 1, t->peer_comm, t->gather),
              "ncclRecv");
}

static void send_to_peer(void *argument)
{
    const struct message *message = argument;
    const struct mt_trainer *t = message->t;
    mt_called("peer", message->phase, "send");
    mt_settle(t->peer_comm, ncclSend(message->send, t->words, ncclUint32, t->rank + 1, t->peer_comm, t->peer),
              "ncclSend");
}

void mt_peer_receive(struct mt_trainer *t, const struct mt_pass *pass)
{
    struct message message = {t, NULL, mt_phase_in(pass, MT_FORWARD)};
    if (!has_peer(t, pass, 1))
        return;
    mt_at(message.phase, "peer", receive_from_peer, &message);
    mt_delivered(t, t->gather, pass, MT_FORWARD, "recv", "peer", t->from_peer, t->words * sizeof(uint32_t));
    MT_CUDA(cudaEventRecord(t->peer_done, t->gather));
}

/* What it sends is of the pass before: it must wait for no gather of this one, since the receiver's waits for it. */
void mt_peer_send(struct mt_trainer *t, const struct mt_pass *pass)
{
    struct message message = {t, pass->flight->logits, mt_phase_in(pass, MT_FORWARD)};
    if (!has_peer(t, pass, 0))
        return;
    mt_stream_follow(t->peer, t->compute, t->compute_done);
    mt_at(message.phase, "peer", send_to_peer, &message);
    MT_CUDA(cudaEventRecord(t->peer_done, t->peer));
}

void mt_peer_join(struct mt_trainer *t, const struct mt_pass *pass, uint32_t *activation)
{
    if (!has_peer(t, pass, t->rank % 2))
        return;
    MT_CUDA(cudaStreamWaitEvent(t->compute, t->peer_done, 0));
    if (t->rank % 2)
        mt_mix_launch(t->compute, activation, t->from_peer, t->words);
}
