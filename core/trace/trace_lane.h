/*
 * The lane of one communicator of a trace.
 *
 * Threads: pure functions of their arguments.
 */
#ifndef RP_TRACE_LANE_H
#define RP_TRACE_LANE_H

#include "core/trace/trace.h"

/* The ops of a lane by their positions, from 0 up to the first that the trace does not have. */
struct rp_trace_lane {
    const struct rp_trace_op **ops; /* of the trace */
    size_t count;
};

/* At most `most` (at least 1) of them. The caller frees it; the trace must outlive it. RP_NO_MEMORY. */
enum rp_status rp_trace_lane_make(const struct rp_trace *trace, uint32_t comm, size_t most,
                                  struct rp_trace_lane *lane_out);
void rp_trace_lane_free(struct rp_trace_lane *lane);

#endif
