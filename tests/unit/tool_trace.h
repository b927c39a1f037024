/* Small traces in memory for the tests of the command line's parts. Included once per test program. */
#ifndef RP_TESTS_TOOL_TRACE_H
#define RP_TESTS_TOOL_TRACE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/trace/trace.h"

#define TOOL_TRACE_OPS 4096

static struct rp_trace_comm tool_comms[] = {
    {.number = 0, .nranks = 2, .parent = RP_NO_COMM},
    {.number = 1, .nranks = 2, .parent = RP_NO_COMM},
};

static inline struct rp_trace *tool_trace_make(void)
{
    struct rp_trace *trace = calloc(1, sizeof(*trace));
    assert_non_null(trace);
    trace->ops = calloc(TOOL_TRACE_OPS, sizeof(*trace->ops));
    assert_non_null(trace->ops);
    trace->parts = calloc(TOOL_TRACE_OPS, sizeof(*trace->parts));
    assert_non_null(trace->parts);
    trace->comms = tool_comms;
    trace->comm_count = 2;
    trace->ns_per_tick = 1;
    trace->complete = true;
    assert_int_equal(rp_modules_create(&trace->modules), RP_OK);
    return trace;
}

static inline void tool_trace_free(struct rp_trace *trace)
{
    rp_modules_destroy(trace->modules);
    free(trace->ops);
    free(trace->parts);
    free(trace);
}

/* Adds an op on the lane of `comm`; content 0: no fingerprint. */
static inline struct rp_trace_op *tool_trace_add(struct rp_trace *trace, uint32_t comm, enum rp_op_kind kind,
                                                 uint64_t count, const char *module, enum rp_phase phase,
                                                 uint64_t content)
{
    assert_true(trace->op_count < TOOL_TRACE_OPS);
    size_t index = trace->op_count++;
    trace->ops[index] = (struct rp_trace_op){
        .op = {.kind = (uint8_t)kind,
               .dtype = RP_DTYPE_FLOAT32,
               .redop = kind == RP_OP_REDUCE_SCATTER ? RP_REDOP_SUM : RP_REDOP_NONE,
               .phase = (uint8_t)phase,
               .root = -1,
               .comm = comm,
               .position = index,
               .begin = 10 * index,
               .end = 10 * index + 5,
               .count = count,
               .module = rp_module_intern(trace->modules, module, strlen(module))},
        .fingerprint = {content, content},
        .has_fingerprint = content != 0,
    };
    return &trace->ops[index];
}

/* Launches behind the last op that was added, of its event or of another. */
static inline void tool_trace_launch(struct rp_trace *trace, uint32_t count, struct rp_event event)
{
    uint32_t index = (uint32_t)trace->op_count - 1;
    struct rp_trace_op *op = &trace->ops[index];
    assert_true(trace->part_count < TOOL_TRACE_OPS);
    trace->parts[trace->part_count++] =
        (struct rp_trace_part){.event = event, .count = count, .first = op->op.begin + 1, .op = index};
    op->launches += count;
}

static inline struct rp_event tool_trace_event(const struct rp_trace_op *op)
{
    return (struct rp_event){op->op.module, (enum rp_phase)op->op.phase};
}

/* What `print` writes to `file`, in `text`: OUTPUT(text, file, rp_...(file, ...)) */
#define OUTPUT(text, file, print)                       \
    do {                                                \
        char *printed_ = NULL;                          \
        size_t size_ = 0;                               \
        FILE *file = open_memstream(&printed_, &size_); \
        assert_non_null(file);                          \
        print;                                          \
        fclose(file);                                   \
        snprintf(text, sizeof(text), "%s", printed_);   \
        free(printed_);                                 \
    } while (0)

#endif
