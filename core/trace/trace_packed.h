/*
 * The ops of a trace in half the memory: for those who have two traces of a million ops at once and look at each op a
 * few times. Most of an op is what thousands of others have too (kind, size, module, communicator, ...): that is kept
 * once, as a *call*, and each op has the call's number and what is its own.
 *
 *     calls     0: all-gather 24 MiB, layers.0 forward, comm 0     1: reduce-scatter ...     2: ...
 *     ops       {0, begin, position, fingerprint, launches}  {0, ...}  {2, ...}  {0, ...}
 *
 * An op's end, stream and group are not kept.
 *
 * Threads: pure functions of their arguments.
 */
#ifndef RP_TRACE_PACKED_H
#define RP_TRACE_PACKED_H

#include "core/trace/trace.h"

struct rp_packed_call {
    struct rp_op op; /* begin, end, stream and group are 0; so is the position, unless it is RP_NO_POSITION */
    uint16_t thread;
    bool has_fingerprint, lossy;
};

struct rp_packed_op {
    uint64_t fingerprint[2], launch_digest;
    uint64_t begin, position;
    uint32_t launches;
    uint32_t call; /* number in the calls */
};

struct rp_packed {
    const struct rp_trace *trace; /* all but its ops */
    struct rp_packed_op *ops;     /* in the trace's order */
    size_t op_count;
    struct rp_packed_call *calls; /* in order of first use; no two are equal */
    size_t call_count;
};

/*
 * Takes the ops out of `trace`, which has none afterwards, also if it fails, and must outlive the result. Takes no
 * memory but that of the ops and the calls. The caller frees it. RP_NO_MEMORY.
 */
enum rp_status rp_packed_create(struct rp_trace *trace, struct rp_packed *packed_out);
void rp_packed_free(struct rp_packed *packed);

/* What op `index` shares with others. */
static inline const struct rp_packed_call *rp_packed_call(const struct rp_packed *packed, size_t index)
{
    return &packed->calls[packed->ops[index].call];
}

static inline const struct rp_op *rp_packed_call_op(const struct rp_packed *packed, size_t index)
{
    return &rp_packed_call(packed, index)->op;
}

/* Op `index` as it was in the trace, but for what is not kept. */
struct rp_trace_op rp_packed_op(const struct rp_packed *packed, size_t index);

#endif
