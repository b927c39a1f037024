/*
 * Hooks of device memory: allocations and frees become ops without a communicator. Seldom called by frameworks, which
 * keep memory of their own. One that fails is tried again after replay has given memory back (memory.h). Called by
 * every thread of the application.
 */
#include "shim/call.h"
#include "shim/hook.h"
#include "shim/live.h"
#include "shim/memory.h"
#include "shim/real.h"
#include "shim/runtime.h"

/* name, parameters, arguments, kind, bytes, stream; what is done before the call, and after one that succeeded */
#define HOOK_LIVE(name, parameters, arguments, kind, bytes, stream, before, after) \
    extern cudaError_t name parameters;                                            \
    cudaError_t name parameters                                                    \
    {                                                                              \
        rp_real_refresh();                                                         \
        before;                                                                    \
        if (!rp_hook_enter())                                                      \
            return RP_PASS(cudart, name, RP_UNWRAP arguments);                     \
        const struct rp_cudart *real = rp_cudart(RP_CALLER);                       \
        struct rp_op op = rp_op_local(kind, bytes, stream);                        \
        bool clear = rp_memory_error_clear(real);                                  \
        cudaError_t result = RP_PASS(cudart, name, RP_UNWRAP arguments);           \
        if (result == cudaErrorMemoryAllocation && rp_memory_give_back(real)) {    \
            result = RP_PASS(cudart, name, RP_UNWRAP arguments);                   \
            rp_memory_retried(real, result, clear);                                \
        }                                                                          \
        if (result == cudaSuccess)                                                 \
            after;                                                                 \
        rp_op_local_end(&op, result == cudaSuccess);                               \
        return result;                                                             \
    }
#define HOOK_MEMORY(name, parameters, arguments, kind, bytes, stream) \
    HOOK_LIVE(name, parameters, arguments, kind, bytes, stream, (void)0, (void)0)
HOOK_LIVE(cudaMalloc, (void **memory, size_t size), (memory, size), RP_OP_MALLOC, size, NULL, (void)0,
          rp_live_allocated(*memory, size))
HOOK_MEMORY(cudaMallocManaged, (void **memory, size_t size, unsigned flags), (memory, size, flags), RP_OP_MALLOC, size,
            NULL)
HOOK_MEMORY(cudaMallocHost, (void **memory, size_t size), (memory, size), RP_OP_MALLOC, size, NULL)
HOOK_MEMORY(cudaMallocPitch, (void **memory, size_t *pitch, size_t width, size_t height),
            (memory, pitch, width, height), RP_OP_MALLOC, width *height, NULL)
HOOK_MEMORY(cudaMalloc3D, (struct cudaPitchedPtr * memory, struct cudaExtent extent), (memory, extent), RP_OP_MALLOC,
            extent.width *extent.height *extent.depth, NULL)
HOOK_MEMORY(cudaMallocArray,
            (cudaArray_t * array, const struct cudaChannelFormatDesc *format, size_t width, size_t height,
             unsigned flags),
            (array, format, width, height, flags), RP_OP_MALLOC, 0, NULL)
HOOK_MEMORY(cudaMalloc3DArray,
            (cudaArray_t * array, const struct cudaChannelFormatDesc *format, struct cudaExtent extent, unsigned flags),
            (array, format, extent, flags), RP_OP_MALLOC, 0, NULL)
HOOK_MEMORY(cudaMallocMipmappedArray,
            (cudaMipmappedArray_t * array, const struct cudaChannelFormatDesc *format, struct cudaExtent extent,
             unsigned levels, unsigned flags),
            (array, format, extent, levels, flags), RP_OP_MALLOC, 0, NULL)
HOOK_MEMORY(cudaMallocAsync, (void **memory, size_t size, cudaStream_t stream), (memory, size, stream), RP_OP_MALLOC,
            size, stream)
HOOK_MEMORY(cudaMallocAsync_ptsz, (void **memory, size_t size, cudaStream_t stream), (memory, size, stream),
            RP_OP_MALLOC, size, stream)
HOOK_MEMORY(cudaMallocFromPoolAsync, (void **memory, size_t size, cudaMemPool_t pool, cudaStream_t stream),
            (memory, size, pool, stream), RP_OP_MALLOC, size, stream)
HOOK_MEMORY(cudaMallocFromPoolAsync_ptsz, (void **memory, size_t size, cudaMemPool_t pool, cudaStream_t stream),
            (memory, size, pool, stream), RP_OP_MALLOC, size, stream)
HOOK_LIVE(cudaFree, (void *memory), (memory), RP_OP_FREE, 0, NULL, rp_live_freed(memory), (void)0)
HOOK_MEMORY(cudaFreeHost, (void *memory), (memory), RP_OP_FREE, 0, NULL)
HOOK_MEMORY(cudaFreeArray, (cudaArray_t array), (array), RP_OP_FREE, 0, NULL)
HOOK_MEMORY(cudaFreeMipmappedArray, (cudaMipmappedArray_t array), (array), RP_OP_FREE, 0, NULL)
HOOK_LIVE(cudaFreeAsync, (void *memory, cudaStream_t stream), (memory, stream), RP_OP_FREE, 0, stream,
          rp_live_freed(memory), (void)0)
HOOK_LIVE(cudaFreeAsync_ptsz, (void *memory, cudaStream_t stream), (memory, stream), RP_OP_FREE, 0, stream,
          rp_live_freed(memory), (void)0)
