/*
 * Which ops of a trace are shown: those of a module, a phase, a kind, a communicator. All that are given must hold.
 *
 * An op belongs to an event (module, phase), and so do the launches behind it, of which some may belong to another one.
 * So what a filter says of the event is asked of a launch by itself, and what it says of the call (kind, communicator)
 * of the op that the launch is behind.
 *
 * Threads: the command line has one.
 */
#ifndef RP_TOOL_FILTER_H
#define RP_TOOL_FILTER_H

#include <argp.h>
#include <stdbool.h>

#include "core/trace/trace.h"

/* Zero-initialised: all ops but allocations. */
struct rp_filter {
    const char *module; /* a pattern without a fault (glob.h), or NULL */
    bool has_phase, has_comm;
    enum rp_phase phase;
    enum rp_op_kind kind; /* RP_OP_NONE: any */
    uint32_t comm;
    bool allocations; /* also malloc and free, which else are shown only if `kind` is one of them */
};

/* What --module, --phase, --kind and --comm take; a wrong one ends the process as other wrong arguments do. */
void rp_filter_take_module(struct rp_filter *filter, struct argp_state *state, const char *text);
void rp_filter_take_phase(struct rp_filter *filter, struct argp_state *state, const char *text);
void rp_filter_take_kind(struct rp_filter *filter, struct argp_state *state, const char *text);
void rp_filter_take_comm(struct rp_filter *filter, struct argp_state *state, const char *text);

/* RP_NOT_FOUND: the trace has no such module or communicator, which is said, with those that it has. */
enum rp_status rp_filter_check(const struct rp_filter *filter, const char *command, const struct rp_trace *trace);

/* True if it leaves out more than allocations. */
bool rp_filter_is_set(const struct rp_filter *filter);

bool rp_filter_has_call(const struct rp_filter *filter, const struct rp_op *op);
bool rp_filter_has_event(const struct rp_filter *filter, const struct rp_trace *trace, struct rp_event event);

/* Of an op: both. */
bool rp_filter_has(const struct rp_filter *filter, const struct rp_trace *trace, const struct rp_op *op);

/* Of launches of a trace: of these behind an op that the filter has as a call; of others if it says nothing of calls.
 */
bool rp_filter_has_part(const struct rp_filter *filter, const struct rp_trace *trace, const struct rp_trace_part *part);

/* "; only module layers.*, phase backward", or "" */
char *rp_filter_text(const struct rp_filter *filter, char *text, size_t size);

#endif
