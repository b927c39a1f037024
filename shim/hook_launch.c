/*
 * Hooks of kernel and graph launches. A launch writes one fixed-size record into the ring of its thread: no lock, no
 * system call, no allocation but for the thread's first; then the real function is called in tail position.
 * Called by every thread of the application; on the hot path of a training step.
 */
#include "core/clock.h"
#include "core/record/recorder.h"
#include "shim/call.h"
#include "shim/hook.h"
#include "shim/launch_names.h"
#include "shim/real.h"
#include "shim/runtime.h"

/* The ring of a thread that has none yet; NULL if nothing is recorded. */
static __attribute__((noinline)) struct rp_ring *ring_first(void)
{
    return rp_active() ? rp_recorder_ring() : NULL;
}

static inline void note(const void *function, dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream)
{
    struct rp_ring *ring = rp_recorder_my_ring;
    if (__builtin_expect(ring == NULL, 0)) {
        if (atomic_load_explicit(&rp_run_state, memory_order_relaxed) == RP_RUN_OFF)
            return;
        ring = ring_first();
    }
    if (ring == NULL || rp_thread.inside)
        return;
    union rp_record *slot = rp_ring_reserve(ring, RP_RECORD_LAUNCH);
    if (slot == NULL)
        return;
    slot->launch = (struct rp_launch){
        .type = RP_RECORD_LAUNCH,
        .block = {(uint16_t)block.x, (uint16_t)block.y, (uint16_t)block.z},
        .grid = {grid.x, grid.y, grid.z},
        .shared_bytes = (uint32_t)shared_bytes,
        .function = (uintptr_t)function,
        .stream = (uintptr_t)stream,
        .ticks = rp_ticks(),
    };
    rp_ring_commit(ring);
}

#define HOOK_LAUNCH(name, handle_type)                                                              \
    cudaError_t name(handle_type function, dim3 grid, dim3 block, void **args, size_t shared_bytes, \
                     cudaStream_t stream)                                                           \
    {                                                                                               \
        note(function, grid, block, shared_bytes, stream);                                          \
        return RP_PASS(cudart, name, function, grid, block, args, shared_bytes, stream);            \
    }

#define HOOK_LAUNCH_EX(name)                                                                             \
    cudaError_t name(const cudaLaunchConfig_t *config, const void *function, void **args)                \
    {                                                                                                    \
        if (config != NULL)                                                                              \
            note(function, config->gridDim, config->blockDim, config->dynamicSmemBytes, config->stream); \
        return RP_PASS(cudart, name, config, function, args);                                            \
    }

#define HOOK_GRAPH_LAUNCH(name)                                       \
    cudaError_t name(cudaGraphExec_t graph, cudaStream_t stream)      \
    {                                                                 \
        if (!rp_hook_enter())                                         \
            return RP_PASS(cudart, name, graph, stream);              \
        struct rp_op op = rp_op_local(RP_OP_GRAPH_LAUNCH, 0, stream); \
        cudaError_t result = RP_PASS(cudart, name, graph, stream);    \
        rp_op_local_end(&op, result == cudaSuccess);                  \
        return result;                                                \
    }

/* The _ptsz names (per-thread default stream) are declared nowhere for C: their types are those of the plain ones. */
extern __typeof__(cudaLaunchKernel) cudaLaunchKernel_ptsz;
extern __typeof__(cudaLaunchCooperativeKernel) cudaLaunchCooperativeKernel_ptsz;
extern __typeof__(__cudaLaunchKernel) __cudaLaunchKernel_ptsz;
extern __typeof__(cudaLaunchKernelExC) cudaLaunchKernelExC_ptsz;
extern __typeof__(cudaGraphLaunch) cudaGraphLaunch_ptsz;

HOOK_LAUNCH(cudaLaunchKernel, const void *)
HOOK_LAUNCH(cudaLaunchKernel_ptsz, const void *)
HOOK_LAUNCH(cudaLaunchCooperativeKernel, const void *)
HOOK_LAUNCH(cudaLaunchCooperativeKernel_ptsz, const void *)
HOOK_LAUNCH(__cudaLaunchKernel, cudaKernel_t)
HOOK_LAUNCH(__cudaLaunchKernel_ptsz, cudaKernel_t)
HOOK_LAUNCH_EX(cudaLaunchKernelExC)
HOOK_LAUNCH_EX(cudaLaunchKernelExC_ptsz)
HOOK_GRAPH_LAUNCH(cudaGraphLaunch)
HOOK_GRAPH_LAUNCH(cudaGraphLaunch_ptsz)

/* Registration runs in constructors of the application's libraries, long before the first launch. */
void __cudaRegisterFunction(void **image, const char *stub, char *device_stub, const char *name, int thread_limit,
                            uint3 *thread, uint3 *block, dim3 *block_dim, dim3 *grid_dim, int *warp_size)
{
    static _Atomic(void **) last_image;
    if (atomic_exchange_explicit(&last_image, image, memory_order_relaxed) != image)
        rp_real_refresh();
    const struct rp_cudart *real = rp_cudart(RP_CALLER);
    if (real->__cudaRegisterFunction != NULL)
        real->__cudaRegisterFunction(image, stub, device_stub, name, thread_limit, thread, block, block_dim, grid_dim,
                                     warp_size);
    if (name != NULL && rp_active())
        rp_launch_name_add(stub, name);
}

cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *stub)
{
    cudaError_t result = RP_PASS(cudart, __cudaGetKernel, kernel, stub);
    if (result == cudaSuccess && kernel != NULL && rp_active())
        rp_launch_name_alias(*kernel, stub);
    return result;
}
