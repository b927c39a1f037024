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

#include "minitrain_check.h"
#include "minitrain_host.h"
#include "minitrain_times.h"

#include <nvtx3/nvToolsExt.h>
#include <stdio.h>

void mt_range_push(const struct mt_trainer *t, const char *phase, const char *module)
{
    char name[64];
    if (!t->options->nvtx)
        return;
    snprintf(name, sizeof name, module ? "%s %s" : "%s", phase, module);
    nvtxRangePushA(name);
}

void mt_range_pop(const struct mt_trainer *t)
{
    if (t->options->nvtx)
        nvtxRangePop();
}

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

static ncclResult_t issue_gather(struct mt_trainer *t, const struct mt_slot *slot, const uint16_t *own)
{
    return ncclAllGather(own, slot->gathered, slot->module->shard, ncclBfloat16, t->comm, t->gather);
}

static void finish_gather(struct mt_trainer *t, const struct mt_pass *pass, const char *phase,
                          const struct mt_slot *slot)
{
    size_t bytes = (size_t)t->replicas * slot->module->shard * sizeof(uint16_t);
    mt_delivered(t, t->gather, pass, phase, "all-gather", slot->module->name, slot->gathered, bytes);
    MT_CUDA(cudaEventRecord(slot->filled, t->gather));
}

struct mt_slot *mt_gather(struct mt_trainer *t, const struct mt_pass *pass, const char *phase,
                          const struct mt_module *module)
{
    struct mt_slot *slot = take_slot(t, module);
    mt_times_called(t);
    mt_range_push(t, phase, module->name);
    const uint16_t *own = prepare_gather(t, slot);
    mt_settle(t->comm, issue_gather(t, slot, own), "ncclAllGather");
    mt_range_pop(t);
    finish_gather(t, pass, phase, slot);
    return slot;
}

void mt_gather_pair(struct mt_trainer *t, const struct mt_pass *pass, const char *phase,
                    const struct mt_module *const modules[2], struct mt_slot *slots_out[2])
{
    const uint16_t *own[2];
    mt_times_called(t);
    for (int i = 0; i < 2; i++) {
        slots_out[i] = take_slot(t, modules[i]);
        own[i] = prepare_gather(t, slots_out[i]);
    }
    MT_NCCL(ncclGroupStart());
    for (int i = 0; i < 2; i++) {
        mt_range_push(t, phase, modules[i]->name);
        mt_queued(issue_gather(t, slots_out[i], own[i]), "ncclAllGather");
        mt_range_pop(t);
    }
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

void mt_reduce(struct mt_trainer *t, const struct mt_pass *pass, const struct mt_module *module,
               const struct mt_gradient *gradient)
{
    mt_range_push(t, "backward", module->name);
    mt_stream_follow(t->reduce, t->compute, gradient->ready);
    mt_settle(t->reduce_comm,
              ncclReduceScatter(gradient->full, gradient->reduced, module->shard, ncclFloat, ncclSum, t->reduce_comm,
                                t->reduce),
              "ncclReduceScatter");
    mt_delivered(t, t->reduce, pass, "backward", "reduce-scatter", module->name, gradient->reduced,
                 module->shard * sizeof(float));
    mt_accumulate_launch(t->reduce, module->gradient, gradient->reduced, module->shard);
    MT_CUDA(cudaEventRecord(gradient->released, t->reduce));
    mt_range_pop(t);
}

/* A trainer that logs the loss waits for it. Stages but the last add 0. */
void mt_loss_reduce(struct mt_trainer *t, int step)
{
    struct mt_pass pass = {.step = step, .microbatch = t->options->microbatches};
    float *mean = &t->mean_losses[step - 1], value;
    mt_range_push(t, "other", "loss");
    mt_settle(t->world_comm,
              ncclAllReduce(&t->losses[step - 1], mean, 1, ncclFloat, ncclSum, t->world_comm, t->compute),
              "ncclAllReduce");
    mt_range_pop(t);
    mt_delivered(t, t->compute, &pass, "other", "all-reduce", "loss", mean, sizeof *mean);
    MT_CUDA(cudaMemcpyAsync(&value, mean, sizeof value, cudaMemcpyDeviceToHost, t->compute));
    MT_CUDA(cudaStreamSynchronize(t->compute));
    if (t->rank == 0)
        fprintf(stderr, "minitrain: step %d loss %g\n", step, (double)value / t->replicas);
}

/* Point to point -------------------------------------------------------------------------------------------------- */

void mt_ring_exchange(struct mt_trainer *t, const struct mt_pass *pass, const uint32_t *send)
{
    int next = (t->replica + 1) % t->replicas;
    int previous = (t->replica + t->replicas - 1) % t->replicas;
    mt_range_push(t, "forward", "ring");
    MT_NCCL(ncclGroupStart());
    mt_queued(ncclSend(send, t->words, ncclUint32, next, t->comm, t->compute), "ncclSend");
    mt_queued(ncclRecv(t->received, t->words, ncclUint32, previous, t->comm, t->compute), "ncclRecv");
    mt_settle(t->comm, ncclGroupEnd(), "ncclGroupEnd");
    mt_range_pop(t);
    mt_delivered(t, t->compute, pass, "forward", "recv", "ring", t->received, t->words * sizeof(uint32_t));
}

/* Not in the first step: connections and kernels are loaded in it, which waits for an idle device. */
static bool has_peer(const struct mt_trainer *t, const struct mt_pass *pass, int odd)
{
    return t->peer_comm && pass->step > 1 && !pass->eval && t->rank % 2 == odd && (t->rank ^ 1) < t->world;
}

void mt_peer_receive(struct mt_trainer *t, const struct mt_pass *pass)
{
    if (!has_peer(t, pass, 1))
        return;
    mt_settle(t->peer_comm, ncclRecv(t->from_peer, t->words, ncclUint32, t->rank - 1, t->peer_comm, t->gather),
              "ncclRecv");
    mt_delivered(t, t->gather, pass, "forward", "recv", "peer", t->from_peer, t->words * sizeof(uint32_t));
    MT_CUDA(cudaEventRecord(t->peer_done, t->gather));
}

/* What it sends is of the pass before: it must wait for no gather of this one, since the receiver's waits for it. */
void mt_peer_send(struct mt_trainer *t, const struct mt_pass *pass)
{
    if (!has_peer(t, pass, 0))
        return;
    mt_stream_follow(t->peer, t->compute, t->compute_done);
    mt_settle(t->peer_comm, ncclSend(pass->flight->logits, t->words, ncclUint32, t->rank + 1, t->peer_comm, t->peer),
              "ncclSend");
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
