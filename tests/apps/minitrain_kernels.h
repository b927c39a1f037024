/*
 * The arithmetic of minitrain: one launcher per kernel of minitrain_kernels.cu.
 *
 * Activations and their gradients are 32-bit words, gathered weights are bfloat16, master weights and weight
 * gradients are float. Words are mixed with functions that are one to one in each input, so a single wrong byte of a
 * gathered weight changes every later activation; weight gradients are multiples of 1/128 in [-1, 1), so their sums
 * are exact in any order of reduction. The results are the same on every machine and for every algorithm of NCCL.
 *
 * Sizes are in elements. Buffers are device memory. Every function only enqueues on `stream`.
 */
#ifndef MINITRAIN_KERNELS_H
#define MINITRAIN_KERNELS_H

#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Parts of a checksum; their sum modulo 2^64 is the checksum. */
#define MT_CHECKSUM_PARTS 128

/* What a token word is made of: the same arguments give the same batch. */
struct mt_batch {
    uint32_t seed, step, microbatch, rank;
};

/* One update of a shard. gradient_scale: 1 / (ranks * microbatches). */
struct mt_update {
    float rate, gradient_scale;
};

/* weight[i] from seed and first + i; elements past `live` are padding and stay 0. */
void mt_init_launch(cudaStream_t stream, float *weight, size_t shard, size_t live, uint64_t first, uint32_t seed);
/* bfloat16 of float, rounded to nearest even. */
void mt_copy_in_launch(cudaStream_t stream, uint16_t *to, const float *from, size_t count);
void mt_copy_out_launch(cudaStream_t stream, uint16_t *to, const uint16_t *from, size_t count);

/* The words of a batch, tokens x dim. */
void mt_tokens_launch(cudaStream_t stream, uint32_t *x, uint32_t dim, uint32_t tokens, struct mt_batch batch);
/* y = mix(x * w^T); x, y: tokens x dim; w: dim x dim. */
void mt_forward_launch(cudaStream_t stream, uint32_t *y, const uint32_t *x, const uint16_t *w, uint32_t dim,
                       uint32_t tokens);
/* *loss += the mean of the words as a fraction, divided by `parts`: a multiple of 2^-16. */
void mt_loss_launch(cudaStream_t stream, float *loss, const uint32_t *y, size_t count, uint32_t parts);
/* x ^= other, element by element, mixed. */
void mt_mix_launch(cudaStream_t stream, uint32_t *x, const uint32_t *other, size_t count);
/* dx = mix(dy(y) * w): the gradient of the input of a layer with output y. */
void mt_backward_input_launch(cudaStream_t stream, uint32_t *dx, const uint16_t *w, const uint32_t *dy,
                              const uint32_t *y, uint32_t dim, uint32_t tokens);
/* dw = digest(dy(y)^T, x): dim x dim multiples of 1/128, then zeros up to `extent` elements. */
void mt_backward_weight_launch(cudaStream_t stream, float *dw, const uint32_t *x, const uint32_t *dy, const uint32_t *y,
                               uint32_t dim, uint32_t tokens, size_t extent);

void mt_accumulate_launch(cudaStream_t stream, float *sum, const float *part, size_t count);
/* A step of stochastic gradient descent with decay; a hash of weight and gradient dithers it, so that every bit of
 * the gradient counts. Sets the gradient to 0. `sent`, unless NULL, gets the bfloat16 of the new weights. */
void mt_optimizer_launch(cudaStream_t stream, float *weight, uint16_t *sent, float *gradient, size_t shard, size_t live,
                         struct mt_update update);
/* weight *= 1.01, as a user who edits weights inside a step. */
void mt_edit_launch(cudaStream_t stream, float *weight, uint16_t *sent, size_t count);

/* On a stand-in runtime a product of an activation or gradient with a matrix now takes so long; 0: what its size says.
 */
void mt_model_matrix_us(int us);

/* parts[MT_CHECKSUM_PARTS] of `words` 32-bit words, the first of which has the index `first`. */
void mt_checksum_launch(cudaStream_t stream, uint64_t *parts, const void *from, size_t words, uint64_t first);

#ifdef __cplusplus
}
#endif

#endif
