#include "core/compare/op_name.h"

#include <string.h>

bool rp_op_name_has_module(const struct rp_trace *trace, const struct rp_op *op)
{
    return op->module != RP_MODULE_UNKNOWN && op->module < rp_module_count(trace->modules);
}

bool rp_op_name_differs(const struct rp_trace *left, const struct rp_op *a, const struct rp_trace *right,
                        const struct rp_op *b)
{
    bool phases = a->phase != RP_PHASE_UNKNOWN && b->phase != RP_PHASE_UNKNOWN;
    bool modules = rp_op_name_has_module(left, a) && rp_op_name_has_module(right, b);
    return (phases && a->phase != b->phase) || (modules && strcmp(rp_module_name(left->modules, a->module),
                                                                  rp_module_name(right->modules, b->module)) != 0);
}
