#include "core/trace/trace_lane.h"

#include <stdlib.h>

enum rp_status rp_trace_lane_make(const struct rp_trace *trace, uint32_t comm, size_t most,
                                  struct rp_trace_lane *lane_out)
{
    struct rp_trace_lane lane = {.ops = calloc(most, sizeof(*lane.ops))};

    if (lane.ops == NULL)
        return RP_NO_MEMORY;
    for (size_t i = 0; i < trace->op_count; i++) {
        const struct rp_trace_op *op = &trace->ops[i];
        if (op->op.comm == comm && op->op.position < most)
            lane.ops[op->op.position] = op;
    }
    while (lane.count < most && lane.ops[lane.count] != NULL)
        lane.count++;
    *lane_out = lane;
    return RP_OK;
}

void rp_trace_lane_free(struct rp_trace_lane *lane)
{
    free(lane->ops);
    *lane = (struct rp_trace_lane){0};
}
