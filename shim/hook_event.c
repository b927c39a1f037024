/*
 * Hooks of events: where they are recorded, and which stream waits for them. While a lane is timed (waits.h) the place
 * where a stream begins to wait for an op of it is stamped in front of the wait and behind it. Else a hook is one load
 * and the real call. Called by every thread of the application.
 */
#include "shim/gather.h"
#include "shim/hook.h"
#include "shim/runtime.h"
#include "shim/waits.h"

/* `zero`: the stream that the name means by 0. */
#define HOOK_RECORD(name, parameters, arguments, zero)                                   \
    cudaError_t name parameters                                                          \
    {                                                                                    \
        if (!rp_waits_any() || !rp_hook_enter())                                         \
            return RP_PASS(cudart, name, RP_UNWRAP arguments);                           \
        cudaError_t result = RP_PASS(cudart, name, RP_UNWRAP arguments);                 \
        if (result == cudaSuccess)                                                       \
            rp_waits_recorded(event, rp_waits_stream(stream == NULL ? (zero) : stream)); \
        rp_hook_leave();                                                                 \
        return result;                                                                   \
    }

#define HOOK_WAIT(name, zero)                                                \
    cudaError_t name(cudaStream_t stream, cudaEvent_t event, unsigned flags) \
    {                                                                        \
        if (!rp_waits_any() || !rp_hook_enter())                             \
            return RP_PASS(cudart, name, stream, event, flags);              \
        cudaStream_t meant = stream == NULL ? (zero) : stream;               \
        struct rp_waits_op op;                                               \
        bool first = rp_waits_first(event, rp_waits_stream(meant), &op);     \
        if (first)                                                           \
            rp_gather_waits(&op, meant, RP_STAMP_WAIT);                      \
        cudaError_t result = RP_PASS(cudart, name, stream, event, flags);    \
        if (first && result == cudaSuccess)                                  \
            rp_gather_waits(&op, meant, RP_STAMP_GO);                        \
        rp_hook_leave();                                                     \
        return result;                                                       \
    }

/* The _ptsz names (per-thread default stream) are declared nowhere for C: their types are those of the plain ones. */
extern __typeof__(cudaEventRecord) cudaEventRecord_ptsz;
extern __typeof__(cudaEventRecordWithFlags) cudaEventRecordWithFlags_ptsz;
extern __typeof__(cudaStreamWaitEvent) cudaStreamWaitEvent_ptsz;

HOOK_RECORD(cudaEventRecord, (cudaEvent_t event, cudaStream_t stream), (event, stream), cudaStreamLegacy)
HOOK_RECORD(cudaEventRecord_ptsz, (cudaEvent_t event, cudaStream_t stream), (event, stream), cudaStreamPerThread)
HOOK_RECORD(cudaEventRecordWithFlags, (cudaEvent_t event, cudaStream_t stream, unsigned flags), (event, stream, flags),
            cudaStreamLegacy)
HOOK_RECORD(cudaEventRecordWithFlags_ptsz, (cudaEvent_t event, cudaStream_t stream, unsigned flags),
            (event, stream, flags), cudaStreamPerThread)
HOOK_WAIT(cudaStreamWaitEvent, cudaStreamLegacy)
HOOK_WAIT(cudaStreamWaitEvent_ptsz, cudaStreamPerThread)
