/*
 * Forward and backward of one microbatch in one chunk, in the order in which FSDP2 issues them:
 *
 *   forward    gather root, layers.0 .. L-1
 *   backward   gather root, L-1, L-2, reduce L-1, gather L-3, reduce L-2, ... gather 0, reduce 1, reduce 0, reduce root
 *
 * A block that runs twice is gathered and reduced twice. A chunk of a pipeline that has neither embedding nor head has
 * no root; its input comes from the stage before, and the gradient of its output from the stage behind.
 *
 * Called by the main thread; mt_pass_backward by the worker with --threads, while the main thread waits.
 */
#include "minitrain.h"

#include "minitrain_host.h"
#include "minitrain_times.h"

#include <stdio.h>

static struct mt_module *block_of(struct mt_trainer *t, const struct mt_pass *pass, int execution)
{
    return &t->modules[1 + pass->chunk->order[execution]];
}

static struct mt_module *root_of(struct mt_trainer *t, const struct mt_pass *pass)
{
    return pass->chunk->embeds || pass->chunk->heads ? &t->modules[0] : NULL;
}

/* Elements of the root before the head. */
static size_t head_at(const struct mt_trainer *t, const struct mt_pass *pass)
{
    return pass->chunk->embeds ? (size_t)t->options->dim * (size_t)t->options->dim : 0;
}

static void matrix_forward(struct mt_trainer *t, uint32_t *y, const uint32_t *x, const uint16_t *w)
{
    mt_forward_launch(t->compute, y, x, w, (uint32_t)t->options->dim, (uint32_t)t->options->tokens);
}

/* A part of a pass, for mt_at. */
struct part {
    struct mt_trainer *t;
    const struct mt_pass *pass;
    int execution;
    struct mt_slot *slot; /* of the execution's block */
    struct mt_slot *next; /* set: of the one before it */
    const uint16_t *weights;
    struct root *root;
};

/* The root's part of backward: its weights, and its gradients on their way. */
struct root {
    const struct mt_slot *slot;
    const uint16_t *weights;
    struct mt_gradient *gradient;
};

/* Forward --------------------------------------------------------------------------------------------------------- */

/* As the root's pre-forward of FSDP2: gathers wait for all earlier work, so also for the optimizer. */
void mt_pass_fence(struct mt_trainer *t)
{
    mt_stream_follow(t->copy_in, t->compute, t->compute_done);
    MT_CUDA(cudaStreamWaitEvent(t->gather, t->compute_done, 0));
}

/*
 * The last rank (of the first stage) issues its gather only after it knows that rank 0 has issued its own. In the last
 * microbatch, whose gathers repeat those of the first: what is gathered ahead or served from memory is waited for too.
 */
static bool hosts_wait(const struct mt_trainer *t, const struct mt_pass *pass, int execution)
{
    return t->options->host_wait && t->replicas > 1 && pass->chunk->embeds && execution == 0 && pass->step > 1 &&
           pass->microbatch == t->options->microbatches - 1 && !pass->eval;
}

static void before_gather(const struct mt_trainer *t, const struct mt_pass *pass, int execution)
{
    char name[32], token;
    if (!hosts_wait(t, pass, execution) || t->rank != t->replicas - 1)
        return;
    snprintf(name, sizeof name, ".issued.%d", pass->step);
    mt_wait(name, &token, sizeof token, MT_WAIT_SECONDS);
}

static void after_gather(const struct mt_trainer *t, const struct mt_pass *pass, int execution)
{
    char name[32], token = 0;
    if (!hosts_wait(t, pass, execution) || t->rank != 0)
        return;
    snprintf(name, sizeof name, ".issued.%d", pass->step);
    mt_post(name, &token, sizeof token);
}

static void forward_one(void *argument)
{
    const struct part *part = argument;
    uint32_t *const *activation = &part->pass->flight->activation[part->execution];
    matrix_forward(part->t, activation[1], activation[0], mt_gathered(part->t, part->slot));
    mt_release(part->t, part->slot);
}

/* Runs one block, or with --group two; returns how many. */
static int forward_blocks(struct mt_trainer *t, const struct mt_pass *pass, int execution)
{
    struct mt_slot *slots[2];
    int count = t->options->group && execution + 1 < pass->chunk->blocks ? 2 : 1;
    before_gather(t, pass, execution);
    if (count == 2)
        mt_gather_pair(
            t, pass, MT_FORWARD,
            (const struct mt_module *const[]){block_of(t, pass, execution), block_of(t, pass, execution + 1)}, slots);
    else
        slots[0] = mt_gather(t, pass, MT_FORWARD, block_of(t, pass, execution));
    after_gather(t, pass, execution);
    for (int i = 0; i < count; i++) {
        struct part part = {.t = t, .pass = pass, .execution = execution + i, .slot = slots[i]};
        mt_at(mt_phase_in(pass, MT_FORWARD), slots[i]->module->name, forward_one, &part);
    }
    return count;
}

static void embed(struct mt_trainer *t, const struct mt_pass *pass, const uint16_t *weights)
{
    uint32_t dim = (uint32_t)t->options->dim, tokens = (uint32_t)t->options->tokens;
    struct mt_batch batch = {(uint32_t)t->options->seed, (uint32_t)pass->step, (uint32_t)pass->microbatch,
                             (uint32_t)(t->copy * t->replicas + t->replica)};
    mt_tokens_launch(t->compute, pass->flight->words_in, dim, tokens, batch);
    matrix_forward(t, pass->flight->activation[0], pass->flight->words_in, weights);
}

static void head(struct mt_trainer *t, const struct mt_pass *pass, const uint16_t *weights)
{
    uint32_t *last = pass->flight->activation[pass->chunk->blocks], *logits = pass->flight->logits;
    if (t->options->sendrecv) {
        mt_ring_exchange(t, pass, last);
        mt_mix_launch(t->compute, last, t->received, t->words);
    }
    if (t->options->collect)
        mt_collect(t, pass, last);
    mt_peer_join(t, pass, last);
    matrix_forward(t, logits, last, weights + head_at(t, pass));
    mt_loss_launch(t->compute, pass->loss, logits, t->words, (uint32_t)pass->loss_parts);
}

static void forward(void *argument)
{
    const struct part *part = argument;
    struct mt_trainer *t = part->t;
    const struct mt_pass *pass = part->pass;
    const struct mt_module *module = root_of(t, pass);
    const struct mt_slot *root = NULL;
    mt_peer_receive(t, pass);
    if (module)
        root = mt_gather(t, pass, MT_FORWARD, module);
    mt_peer_send(t, pass);
    const uint16_t *weights = root ? mt_gathered(t, root) : NULL;
    if (pass->chunk->embeds)
        embed(t, pass, weights);
    for (int execution = 0; execution < pass->chunk->blocks;)
        execution += forward_blocks(t, pass, execution);
    if (pass->chunk->heads)
        head(t, pass, weights);
    if (root)
        mt_release(t, root);
}

static const char *name_of(struct mt_trainer *t, const struct mt_pass *pass)
{
    const struct mt_module *root = root_of(t, pass);
    return root ? root->name : pass->chunk->name;
}

void mt_pass_forward(struct mt_trainer *t, const struct mt_pass *pass)
{
    struct part part = {.t = t, .pass = pass};
    mt_times_forward(t);
    mt_pass_fence(t);
    mt_at(mt_phase_in(pass, MT_FORWARD), name_of(t, pass), forward, &part);
}

/* Backward -------------------------------------------------------------------------------------------------------- */

/* From the gradient of the output (t->flow[0]) to that of the input, and to the weights' (`dw`, `extent` elements). */
static void matrix_backward(struct mt_trainer *t, const uint16_t *w, const uint32_t *x, const uint32_t *y, float *dw,
                            size_t extent)
{
    uint32_t dim = (uint32_t)t->options->dim, tokens = (uint32_t)t->options->tokens;
    uint32_t *dy = t->flow[0], *dx = t->flow[1];
    mt_backward_weight_launch(t->compute, dw, x, dy, y, dim, tokens, extent);
    mt_backward_input_launch(t->compute, dx, w, dy, y, dim, tokens);
    t->flow[0] = dx;
    t->flow[1] = dy;
}

static struct mt_slot *gather_before(struct mt_trainer *t, const struct mt_pass *pass, int execution)
{
    if (execution == 0 || t->options->recompute == MT_RECOMPUTE_FSDP1)
        return NULL;
    return mt_gather_ahead(t, pass, MT_BACKWARD, block_of(t, pass, execution - 1));
}

/* The output of the block, from its saved input. */
static void run_again(void *argument)
{
    const struct part *part = argument;
    matrix_forward(part->t, part->t->recomputed, part->pass->flight->activation[part->execution], part->weights);
}

static const uint32_t *recompute(struct mt_trainer *t, const struct mt_pass *pass, int execution,
                                 const uint16_t *weights)
{
    struct part part = {.t = t, .pass = pass, .execution = execution, .weights = weights};
    mt_at(MT_RECOMPUTE, block_of(t, pass, execution)->name, run_again, &part);
    return t->recomputed;
}

/* FSDP1 under a checkpoint runs the block's own pre-forward and pre-backward: two gathers, none ahead. */
static struct mt_slot *recompute_gathered(struct mt_trainer *t, const struct mt_pass *pass, int execution)
{
    const struct mt_module *module = block_of(t, pass, execution);
    const struct mt_slot *slot = mt_gather(t, pass, MT_RECOMPUTE, module);
    recompute(t, pass, execution, mt_gathered(t, slot));
    mt_release(t, slot);
    return mt_gather(t, pass, MT_BACKWARD, module);
}

static void backward_block(void *argument)
{
    struct part *part = argument;
    struct mt_trainer *t = part->t;
    const struct mt_pass *pass = part->pass;
    struct mt_slot *slot = part->slot;
    int execution = part->execution;
    const struct mt_module *module = block_of(t, pass, execution);
    uint32_t *const *activation = &pass->flight->activation[execution];
    const uint32_t *y = activation[1];
    part->next = gather_before(t, pass, execution);
    if (!slot) {
        slot = recompute_gathered(t, pass, execution);
        y = t->recomputed;
    }
    const uint16_t *weights = mt_gathered(t, slot);
    if (t->options->recompute == MT_RECOMPUTE_FSDP2)
        y = recompute(t, pass, execution, weights);
    struct mt_gradient *gradient = mt_gradient_take(t, module);
    matrix_backward(t, weights, activation[0], y, gradient->full, (size_t)t->replicas * module->shard);
    mt_release(t, slot);
    mt_reduce(t, pass, module, gradient);
}

static void start_flow(struct mt_trainer *t, const uint32_t *from)
{
    MT_CUDA(cudaMemcpyAsync(t->flow[0], from, t->words * sizeof(uint32_t), cudaMemcpyDeviceToDevice, t->compute));
}

static void backward_head(struct mt_trainer *t, const struct mt_pass *pass, const struct root *root)
{
    const struct mt_flight *f = pass->flight;
    size_t at = head_at(t, pass), rest = (size_t)t->replicas * t->modules[0].shard - at;
    start_flow(t, f->logits);
    matrix_backward(t, root->weights + at, f->activation[pass->chunk->blocks], f->logits, root->gradient->full + at,
                    rest);
}

static void backward_embedding(struct mt_trainer *t, const struct mt_pass *pass, const struct root *root)
{
    const struct mt_flight *f = pass->flight;
    size_t extent = pass->chunk->heads ? head_at(t, pass) : (size_t)t->replicas * t->modules[0].shard;
    matrix_backward(t, root->weights, f->words_in, f->activation[0], root->gradient->full, extent);
}

static void end_root(void *argument)
{
    const struct part *part = argument;
    struct mt_trainer *t = part->t;
    const struct mt_pass *pass = part->pass;
    const struct root *root = part->root;
    if (pass->chunk->embeds)
        backward_embedding(t, pass, root);
    mt_release(t, root->slot);
    mt_reduce(t, pass, root->slot->module, root->gradient);
}

static void begin_backward(void *argument)
{
    struct part *part = argument;
    struct mt_trainer *t = part->t;
    const struct mt_pass *pass = part->pass;
    const struct mt_module *module = root_of(t, pass);
    struct root *root = part->root;
    if (module)
        root->slot = mt_gather(t, pass, MT_BACKWARD, module);
    part->next = gather_before(t, pass, pass->chunk->blocks);
    if (module) {
        root->gradient = mt_gradient_take(t, module);
        root->weights = mt_gathered(t, root->slot);
    }
    if (pass->chunk->heads)
        backward_head(t, pass, root);
    else
        start_flow(t, t->from_next);
}

void mt_pass_backward(struct mt_trainer *t, const struct mt_pass *pass)
{
    struct root root = {0};
    struct part part = {.t = t, .pass = pass, .root = &root};
    mt_at(MT_BACKWARD, name_of(t, pass), begin_backward, &part);
    for (part.execution = pass->chunk->blocks - 1; part.execution >= 0; part.execution--) {
        part.slot = part.next;
        mt_at(MT_BACKWARD, block_of(t, pass, part.execution)->name, backward_block, &part);
    }
    if (root_of(t, pass))
        mt_at(MT_BACKWARD, name_of(t, pass), end_root, &part);
}
