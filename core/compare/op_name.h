/*
 * Whether two ops of two traces were called in the same module and phase, as far as their traces say. Modules are known
 * by their names: a number is its own trace's.
 *
 * Threads: pure.
 */
#ifndef RP_OP_NAME_H
#define RP_OP_NAME_H

#include <stdbool.h>

#include "core/trace/trace.h"

/* False if the trace does not say in which module the op was called. */
bool rp_op_name_has_module(const struct rp_trace *trace, const struct rp_op *op);

/* True if both traces know a module, or a phase, and not the same one. */
bool rp_op_name_differs(const struct rp_trace *left, const struct rp_op *a, const struct rp_trace *right,
                        const struct rp_op *b);

#endif
