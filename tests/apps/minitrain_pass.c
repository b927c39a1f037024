/*
 * Forward and backward of one microbatch, in the order in which FSDP2 issues them:
 *
 *   forward    gather root, layers.0 .. L-1
 *   backward   gather root, L-1, L-2, reduce L-1, gather L-3, reduce L-2, ... gather 0, reduce 1, reduce 0, reduce root
 *
 * A block that runs twice is gathered and reduced twice.
 *
 * Called by the main thread; mt_pass_backward by the worker with --threads, while the main thread waits.
 */
#include "minitrain.h"

#include "minitrain_host.h"

#include <stdio.h>

static struct mt_module *block_of(struct mt_trainer *t, const struct mt_pass *pass, int execution)
{
    return &t->modules[1 + pass->order[execution]];
}

static size_t half_root(const struct mt_trainer *t)
{
    return (size_t)t->options->dim * (size_t)t->options->dim;
}

static void matrix_forward(struct mt_trainer *t, uint32_t *y, const uint32_t *x, const uint16_t *w)
{
    mt_forward_launch(t->compute, y, x, w, (uint32_t)t->options->dim, (uint32_t)t->options->tokens);
}

/* Forward --------------------------------------------------------------------------------------------------------- */

/* As the root's pre-forward of FSDP2: gathers wait for all earlier work, so also for the optimizer. */
static void wait_for_weights(struct mt_trainer *t)
{
    mt_stream_follow(t->copy_in, t->compute, t->compute_done);
    MT_CUDA(cudaStreamWaitEvent(t->gather, t->compute_done, 0));
}

/*
 * The last rank issues its gather only after it knows that rank 0 has issued its own. In the last microbatch, whose
 * gathers repeat those of the first: what is gathered ahead or served from memory is waited for too.
 */
static bool hosts_wait(const struct mt_trainer *t, const struct mt_pass *pass, int execution)
{
    return t->options->host_wait && t->world > 1 && execution == 0 && pass->step > 1 &&
           pass->microbatch == t->options->microbatches - 1 && !pass->eval;
}

static void before_gather(const struct mt_trainer *t, const struct mt_pass *pass, int execution)
{
    char name[32], token;
    if (!hosts_wait(t, pass, execution) || t->rank != t->world - 1)
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

static void forward_one(struct mt_trainer *t, int execution, const struct mt_slot *slot)
{
    mt_range_push(t, "forward", slot->module->name);
    matrix_forward(t, t->activation[execution + 1], t->activation[execution], mt_gathered(t, slot));
    mt_release(t, slot);
    mt_range_pop(t);
}

/* Runs one block, or with --group two; returns how many. */
static int forward_blocks(struct mt_trainer *t, const struct mt_pass *pass, int execution)
{
    struct mt_slot *slots[2];
    int count = t->options->group && execution + 1 < pass->blocks ? 2 : 1;
    before_gather(t, pass, execution);
    if (count == 2)
        mt_gather_pair(
            t, pass, "forward",
            (const struct mt_module *const[]){block_of(t, pass, execution), block_of(t, pass, execution + 1)}, slots);
    else
        slots[0] = mt_gather(t, pass, "forward", block_of(t, pass, execution));
    after_gather(t, pass, execution);
    for (int i = 0; i < count; i++)
        forward_one(t, execution + i, slots[i]);
    return count;
}

static void embed(struct mt_trainer *t, const struct mt_pass *pass, const uint16_t *weights)
{
    uint32_t dim = (uint32_t)t->options->dim, tokens = (uint32_t)t->options->tokens;
    struct mt_batch batch = {(uint32_t)t->options->seed, (uint32_t)pass->step, (uint32_t)pass->microbatch,
                             (uint32_t)t->rank};
    mt_tokens_launch(t->compute, t->words_in, dim, tokens, batch);
    matrix_forward(t, t->activation[0], t->words_in, weights);
}

static void head(struct mt_trainer *t, const struct mt_pass *pass, const uint16_t *weights)
{
    uint32_t *last = t->activation[pass->blocks];
    if (t->options->sendrecv) {
        mt_ring_exchange(t, pass, last);
        mt_mix_launch(t->compute, last, t->received, t->words);
    }
    mt_peer_join(t, pass, last);
    matrix_forward(t, t->logits, last, weights + half_root(t));
    mt_loss_launch(t->compute, pass->loss, t->logits, t->words, (uint32_t)pass->loss_parts);
}

void mt_pass_forward(struct mt_trainer *t, const struct mt_pass *pass)
{
    wait_for_weights(t);
    mt_range_push(t, "forward", "root");
    mt_peer_receive(t, pass);
    struct mt_slot *root = mt_gather(t, pass, "forward", &t->modules[0]);
    mt_peer_send(t, pass);
    const uint16_t *weights = mt_gathered(t, root);
    embed(t, pass, weights);
    for (int execution = 0; execution < pass->blocks;)
        execution += forward_blocks(t, pass, execution);
    head(t, pass, weights);
    mt_release(t, root);
    mt_range_pop(t);
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
    return mt_gather(t, pass, "backward", block_of(t, pass, execution - 1));
}

/* The output of the block, from its saved input. */
static const uint32_t *recompute(struct mt_trainer *t, int execution, const char *module, const uint16_t *weights)
{
    mt_range_push(t, "recompute", module);
    matrix_forward(t, t->recomputed, t->activation[execution], weights);
    mt_range_pop(t);
    return t->recomputed;
}

/* FSDP1 under a checkpoint runs the block's own pre-forward and pre-backward: two gathers, none ahead. */
static struct mt_slot *recompute_gathered(struct mt_trainer *t, const struct mt_pass *pass, int execution)
{
    const struct mt_module *module = block_of(t, pass, execution);
    const struct mt_slot *slot = mt_gather(t, pass, "recompute", module);
    recompute(t, execution, module->name, mt_gathered(t, slot));
    mt_release(t, slot);
    return mt_gather(t, pass, "backward", module);
}

static struct mt_slot *backward_block(struct mt_trainer *t, const struct mt_pass *pass, int execution,
                                      struct mt_slot *slot)
{
    const struct mt_module *module = block_of(t, pass, execution);
    const uint32_t *y = t->activation[execution + 1];
    mt_range_push(t, "backward", module->name);
    struct mt_slot *next = gather_before(t, pass, execution);
    if (!slot) {
        slot = recompute_gathered(t, pass, execution);
        y = t->recomputed;
    }
    const uint16_t *weights = mt_gathered(t, slot);
    if (t->options->recompute == MT_RECOMPUTE_FSDP2)
        y = recompute(t, execution, module->name, weights);
    struct mt_gradient *gradient = mt_gradient_take(t, module);
    matrix_backward(t, weights, t->activation[execution], y, gradient->full, (size_t)t->world * module->shard);
    mt_release(t, slot);
    mt_reduce(t, pass, module, gradient);
    mt_range_pop(t);
    return next;
}

void mt_pass_backward(struct mt_trainer *t, const struct mt_pass *pass)
{
    const struct mt_module *root = &t->modules[0];
    size_t half = half_root(t), rest = (size_t)t->world * root->shard - half;
    mt_range_push(t, "backward", root->name);
    struct mt_slot *root_slot = mt_gather(t, pass, "backward", root);
    struct mt_slot *slot = gather_before(t, pass, pass->blocks);
    struct mt_gradient *gradient = mt_gradient_take(t, root);
    const uint16_t *weights = mt_gathered(t, root_slot);
    MT_CUDA(cudaMemcpyAsync(t->flow[0], t->logits, t->words * sizeof(uint32_t), cudaMemcpyDeviceToDevice, t->compute));
    matrix_backward(t, weights + half, t->activation[pass->blocks], t->logits, gradient->full + half, rest);
    mt_range_pop(t);
    for (int execution = pass->blocks - 1; execution >= 0; execution--)
        slot = backward_block(t, pass, execution, slot);
    mt_range_push(t, "backward", root->name);
    matrix_backward(t, weights, t->words_in, t->activation[0], gradient->full, half);
    mt_release(t, root_slot);
    mt_reduce(t, pass, root, gradient);
    mt_range_pop(t);
}
