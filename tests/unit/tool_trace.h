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

static struct rp_trace *tool_trace_make(void)
{
    struct rp_trace *trace = calloc(1, sizeof(*trace));
    assert_non_null(trace);
    trace->ops = calloc(TOOL_TRACE_OPS, sizeof(*trace->ops));
    assert_non_null(trace->ops);
    trace->comms = tool_comms;
    trace->comm_count = 2;
    trace->ns_per_tick = 1;
    trace->complete = true;
    assert_int_equal(rp_modules_create(&trace->modules), RP_OK);
    return trace;
}

static void tool_trace_free(struct rp_trace *trace)
{
    rp_modules_destroy(trace->modules);
    free(trace->ops);
    free(trace);
}

/* Adds an op on the lane of `comm`; content 0: no fingerprint. */
static struct rp_trace_op *tool_trace_add(struct rp_trace *trace, uint32_t comm, enum rp_op_kind kind, uint64_t count,
                                          const char *module, enum rp_phase phase, uint64_t content)
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
