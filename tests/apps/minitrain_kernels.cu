/*
 * The kernels of minitrain, each with a twin that runs on the host.
 *
 * A body computes one element and is compiled for both sides; nothing is contracted into fused multiply-adds
 * (-fmad=false, -ffp-contract=off), so both compute the same bits. MT_KERNEL makes of a body K_element
 *   K            the kernel
 *   K_host       the same over a whole grid, on the calling thread
 *   K_arg_sizes  the sizes of its arguments, ended by 0
 *   K_launch     what the program calls
 * A CUDA runtime without a device finds K_host and K_arg_sizes by name (and K_cost_us, the modelled time on a device,
 * where there is one).
 */
#include "minitrain_kernels.h"

#include "minitrain_host.h"

#include <string.h>

#define BLOCK 256
#define UNPACK(...) __VA_ARGS__

template <typename... A> struct arg_sizes {
    size_t size[sizeof...(A) + 1];
};

template <typename... A> constexpr arg_sizes<A...> sizes_of(void (*)(size_t, A...))
{
    return {{sizeof(A)..., 0}};
}

template <size_t... I> struct indices {
};
template <size_t N, size_t... I> struct count_up : count_up<N - 1, N - 1, I...> {
};
template <size_t... I> struct count_up<0, I...> {
    typedef indices<I...> type;
};

template <typename... A, size_t... I>
static inline void run_elements(void (*element)(size_t, A...), size_t threads, void **args, indices<I...>)
{
    for (size_t i = 0; i < threads; i++)
        element(i, *static_cast<A *>(args[I])...);
}

template <typename... A>
static inline void run_on_host(void (*element)(size_t, A...), dim3 grid, dim3 block, void **args)
{
    run_elements(element, (size_t)grid.x * block.x, args, typename count_up<sizeof...(A)>::type());
}

/* `THREADS`: how many elements there are, from the parameters. */
#define MT_KERNEL(K, THREADS, PARAMETERS, ARGUMENTS)                                            \
    extern "C" __global__ void K(UNPACK PARAMETERS)                                             \
    {                                                                                           \
        K##_element((size_t)blockIdx.x *blockDim.x + threadIdx.x, UNPACK ARGUMENTS);            \
    }                                                                                           \
    extern "C" {                                                                                \
    void K##_host(dim3 grid, dim3 block, void **args);                                          \
    void K##_host(dim3 grid, dim3 block, void **args)                                           \
    {                                                                                           \
        run_on_host(K##_element, grid, block, args);                                            \
    }                                                                                           \
    extern const decltype(sizes_of(K##_element)) K##_arg_sizes;                                 \
    const decltype(sizes_of(K##_element)) K##_arg_sizes = sizes_of(K##_element);                \
    void K##_launch(cudaStream_t stream, UNPACK PARAMETERS)                                     \
    {                                                                                           \
        K<<<(unsigned)(((THREADS) + BLOCK - 1) / BLOCK), BLOCK, 0, stream>>>(UNPACK ARGUMENTS); \
        MT_CUDA(cudaGetLastError());                                                            \
    }                                                                                           \
    }

/* Words ----------------------------------------------------------------------------------------------------------- */

/* One to one on 32 and on 64 bits. */
__host__ __device__ static inline uint32_t mix(uint32_t h)
{
    h ^= h >> 16;
    h *= 0x7feb352du;
    h ^= h >> 15;
    h *= 0x846ca68bu;
    h ^= h >> 16;
    return h;
}

__host__ __device__ static inline uint64_t mix_wide(uint64_t h)
{
    h ^= h >> 32;
    h *= 0xd6e8feb86659fd93u;
    h ^= h >> 32;
    h *= 0xd6e8feb86659fd93u;
    h ^= h >> 32;
    return h;
}

__host__ __device__ static inline uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* Finite values only: a weight never is anything else. */
__host__ __device__ static inline uint16_t bfloat16_of(float value)
{
    uint32_t bits = bits_of(value);
    return (uint16_t)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

/* One term of a product of weights and words. For a fixed position it is one to one in x (2w + 1 is odd) and in w
 * (2x + 0x9e3779b9 (2k + 1) is odd). */
__host__ __device__ static inline uint32_t term(uint16_t w, uint32_t x, uint32_t k)
{
    return (2u * w + 1u) * x + w * (0x9e3779b9u * (2u * k + 1u));
}

__host__ __device__ static inline uint32_t output_gradient(uint32_t dy, uint32_t y)
{
    return mix(dy + 0x85ebca6bu * y);
}

/* Parameters ------------------------------------------------------------------------------------------------------ */

__host__ __device__ static void mt_init_element(size_t i, float *weight, size_t shard, size_t live, uint64_t first,
                                                uint32_t seed)
{
    if (i >= shard)
        return;
    uint32_t h = (uint32_t)mix_wide(first + i + ((uint64_t)seed << 48));
    weight[i] = i < live ? (float)((int)(h >> 8) - (1 << 23)) * 0x1p-23f : 0.0f;
}

MT_KERNEL(mt_init, shard, (float *weight, size_t shard, size_t live, uint64_t first, uint32_t seed),
          (weight, shard, live, first, seed))

__host__ __device__ static void mt_copy_in_element(size_t i, uint16_t *to, const float *from, size_t count)
{
    if (i < count)
        to[i] = bfloat16_of(from[i]);
}

MT_KERNEL(mt_copy_in, count, (uint16_t * to, const float *from, size_t count), (to, from, count))

__host__ __device__ static void mt_copy_out_element(size_t i, uint16_t *to, const uint16_t *from, size_t count)
{
    if (i < count)
        to[i] = from[i];
}

MT_KERNEL(mt_copy_out, count, (uint16_t * to, const uint16_t *from, size_t count), (to, from, count))

__host__ __device__ static void mt_accumulate_element(size_t i, float *sum, const float *part, size_t count)
{
    if (i < count)
        sum[i] += part[i];
}

MT_KERNEL(mt_accumulate, count, (float *sum, const float *part, size_t count), (sum, part, count))

__host__ __device__ static void mt_optimizer_element(size_t i, float *weight, uint16_t *sent, float *gradient,
                                                     size_t shard, size_t live, struct mt_update update)
{
    if (i >= shard)
        return;
    float g = gradient[i];
    float w = weight[i];
    gradient[i] = 0.0f;
    if (i < live) {
        uint32_t h = mix(bits_of(w) ^ mix(bits_of(g)));
        float dither = (float)((int)(h >> 8) - (1 << 23)) * 0x1p-23f;
        w -= update.rate * (g * update.gradient_scale + 0.25f * dither + 0.0625f * w);
    }
    weight[i] = w;
    if (sent)
        sent[i] = bfloat16_of(w);
}

MT_KERNEL(mt_optimizer, shard,
          (float *weight, uint16_t *sent, float *gradient, size_t shard, size_t live, struct mt_update update),
          (weight, sent, gradient, shard, live, update))

__host__ __device__ static void mt_edit_element(size_t i, float *weight, uint16_t *sent, size_t count)
{
    if (i >= count)
        return;
    weight[i] *= 1.01f;
    if (sent)
        sent[i] = bfloat16_of(weight[i]);
}

MT_KERNEL(mt_edit, count, (float *weight, uint16_t *sent, size_t count), (weight, sent, count))

/* Forward and backward -------------------------------------------------------------------------------------------- */

__host__ __device__ static void mt_tokens_element(size_t i, uint32_t *x, uint32_t dim, uint32_t tokens,
                                                  struct mt_batch batch)
{
    if (i >= (size_t)dim * tokens)
        return;
    uint64_t where = ((uint64_t)batch.step << 32 | batch.microbatch << 16 | batch.rank) + ((uint64_t)batch.seed << 48);
    x[i] = (uint32_t)mix_wide(mix_wide(where) + i);
}

MT_KERNEL(mt_tokens, (size_t)dim *tokens, (uint32_t * x, uint32_t dim, uint32_t tokens, struct mt_batch batch),
          (x, dim, tokens, batch))

__host__ __device__ static void mt_forward_element(size_t i, uint32_t *y, const uint32_t *x, const uint16_t *w,
                                                   uint32_t dim, uint32_t tokens)
{
    if (i >= (size_t)dim * tokens)
        return;
    const uint32_t *token = x + i / dim * dim;
    const uint16_t *row = w + i % dim * dim;
    uint32_t sum = (uint32_t)(i % dim);
    for (uint32_t k = 0; k < dim; k++)
        sum += term(row[k], token[k], k);
    y[i] = mix(sum);
}

MT_KERNEL(mt_forward, (size_t)dim *tokens,
          (uint32_t * y, const uint32_t *x, const uint16_t *w, uint32_t dim, uint32_t tokens), (y, x, w, dim, tokens))

/* Only element 0 works: the sum is short, and in one order. */
__host__ __device__ static void mt_loss_element(size_t i, float *loss, const uint32_t *y, size_t count, uint32_t parts)
{
    if (i != 0)
        return;
    uint64_t sum = 0;
    for (size_t k = 0; k < count; k++)
        sum += y[k] >> 8;
    *loss += (float)((sum >> 8) / (count * parts)) * 0x1p-16f;
}

MT_KERNEL(mt_loss, 1, (float *loss, const uint32_t *y, size_t count, uint32_t parts), (loss, y, count, parts))

__host__ __device__ static void mt_mix_element(size_t i, uint32_t *x, const uint32_t *other, size_t count)
{
    if (i < count)
        x[i] ^= mix(other[i]);
}

MT_KERNEL(mt_mix, count, (uint32_t * x, const uint32_t *other, size_t count), (x, other, count))

__host__ __device__ static void mt_backward_input_element(size_t i, uint32_t *dx, const uint16_t *w, const uint32_t *dy,
                                                          const uint32_t *y, uint32_t dim, uint32_t tokens)
{
    if (i >= (size_t)dim * tokens)
        return;
    size_t token = i / dim * dim;
    size_t column = i % dim;
    uint32_t sum = (uint32_t)column;
    for (uint32_t k = 0; k < dim; k++)
        sum += term(w[k * (size_t)dim + column], output_gradient(dy[token + k], y[token + k]), k);
    dx[i] = mix(sum);
}

MT_KERNEL(mt_backward_input, (size_t)dim *tokens,
          (uint32_t * dx, const uint16_t *w, const uint32_t *dy, const uint32_t *y, uint32_t dim, uint32_t tokens),
          (dx, w, dy, y, dim, tokens))

__host__ __device__ static void mt_backward_weight_element(size_t i, float *dw, const uint32_t *x, const uint32_t *dy,
                                                           const uint32_t *y, uint32_t dim, uint32_t tokens,
                                                           size_t extent)
{
    if (i >= extent)
        return;
    if (i >= (size_t)dim * dim) {
        dw[i] = 0.0f;
        return;
    }
    uint32_t digest = (uint32_t)i;
    for (uint32_t t = 0; t < tokens; t++) {
        size_t out = t * (size_t)dim + i / dim;
        digest = mix(digest + output_gradient(dy[out], y[out]) + 0xc2b2ae35u * x[t * (size_t)dim + i % dim]);
    }
    dw[i] = (float)((int)(digest >> 24) - 128) * 0x1p-7f;
}

MT_KERNEL(mt_backward_weight, extent,
          (float *dw, const uint32_t *x, const uint32_t *dy, const uint32_t *y, uint32_t dim, uint32_t tokens,
           size_t extent),
          (dw, x, dy, y, dim, tokens, extent))

/* Checksums ------------------------------------------------------------------------------------------------------- */

/* Sums modulo 2^64, so that neither the number of threads nor how a buffer is cut into shards matters. */
__host__ __device__ static void mt_checksum_element(size_t i, uint64_t *parts, const void *from, size_t words,
                                                    uint64_t first)
{
    if (i >= MT_CHECKSUM_PARTS)
        return;
    uint64_t sum = 0;
    for (size_t k = i; k < words; k += MT_CHECKSUM_PARTS)
        sum += mix_wide(mix_wide(first + k) + static_cast<const uint32_t *>(from)[k]);
    parts[i] = sum;
}

MT_KERNEL(mt_checksum, MT_CHECKSUM_PARTS, (uint64_t * parts, const void *from, size_t words, uint64_t first),
          (parts, from, words, first))

/* Modelled time: what the options say, else `depth` multiply-adds for each element, at 200 Tflop/s after 3 us. */
static int matrix_us_given;

static double matrix_us(dim3 grid, dim3 block, uint32_t depth)
{
    return matrix_us_given ? matrix_us_given : 3.0 + 2.0 * grid.x * block.x * depth / 200e6;
}

extern "C" {
double mt_forward_cost_us(dim3 grid, dim3 block, void **args);
double mt_backward_input_cost_us(dim3 grid, dim3 block, void **args);
double mt_backward_weight_cost_us(dim3 grid, dim3 block, void **args);

void mt_model_matrix_us(int us)
{
    matrix_us_given = us;
}

double mt_forward_cost_us(dim3 grid, dim3 block, void **args)
{
    return matrix_us(grid, block, *(uint32_t *)args[3]);
}

double mt_backward_input_cost_us(dim3 grid, dim3 block, void **args)
{
    return matrix_us(grid, block, *(uint32_t *)args[4]);
}

double mt_backward_weight_cost_us(dim3 grid, dim3 block, void **args)
{
    return matrix_us(grid, block, *(uint32_t *)args[5]);
}
}
