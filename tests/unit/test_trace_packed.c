/* Ops that are packed come out again; what they share is kept once. */
#include "core/trace/trace_packed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { KINDS = 5 };

/* One of KINDS calls; what an op has of its own grows with `index`. */
static struct rp_trace_op op_at(uint64_t index)
{
    return (struct rp_trace_op){.op = {.kind = RP_OP_ALL_GATHER,
                                       .dtype = RP_DTYPE_BFLOAT16,
                                       .redop = RP_REDOP_NONE,
                                       .phase = RP_PHASE_BACKWARD,
                                       .flags = RP_OP_FINGERPRINTED,
                                       .root = -1,
                                       .comm = 3,
                                       .position = index,
                                       .begin = 100 + 10 * index,
                                       .count = 1000 + index % KINDS,
                                       .module = 7},
                                .fingerprint = {index, ~index},
                                .launch_digest = 3 * index,
                                .launches = (uint32_t)(2 * index),
                                .thread = 4,
                                .has_fingerprint = true};
}

static struct rp_trace make_trace(const struct rp_trace_op *ops, size_t count)
{
    struct rp_trace trace = {.ops = calloc(count + 1, sizeof *ops), .op_count = count};
    assert_non_null(trace.ops);
    memcpy(trace.ops, ops, count * sizeof *ops);
    return trace;
}

static void assert_packed(const struct rp_packed *packed, const struct rp_trace_op *ops, size_t count)
{
    assert_int_equal(packed->op_count, count);
    for (size_t i = 0; i < count; i++) {
        struct rp_trace_op op = rp_packed_op(packed, i);
        assert_memory_equal(&op, &ops[i], sizeof op);
    }
}

static void ops_come_out_again(void **state)
{
    (void)state;
    enum { COUNT = 1000 };
    static struct rp_trace_op ops[COUNT];
    struct rp_packed packed;
    for (size_t i = 0; i < COUNT; i++)
        ops[i] = op_at(i);
    struct rp_trace trace = make_trace(ops, COUNT);
    assert_int_equal(rp_packed_create(&trace, &packed), RP_OK);
    assert_null(trace.ops);
    assert_int_equal(trace.op_count, 0);
    assert_ptr_equal(packed.trace, &trace);
    assert_int_equal(2 * sizeof(struct rp_packed_op), sizeof(struct rp_trace_op));
    assert_packed(&packed, ops, COUNT);
    assert_int_equal(packed.call_count, KINDS);
    for (size_t i = 0; i < COUNT; i++) {
        assert_int_equal(packed.ops[i].call, i % KINDS);
        assert_int_equal(rp_packed_call_op(&packed, i)->count, ops[i].op.count);
        assert_int_equal(rp_packed_call_op(&packed, i)->position, 0);
    }
    rp_packed_free(&packed);
}

/* Each field that ops share, changed alone, makes another call. */
static void calls_differ_by_each_field(void **state)
{
    (void)state;
    struct rp_trace_op ops[16];
    size_t count = 0;
    struct rp_packed packed;
#define CHANGED(change)         \
    do {                        \
        struct rp_trace_op *op; \
        op = &ops[count++];     \
        *op = op_at(5 * count); \
        change;                 \
    } while (0)
    CHANGED((void)0);
    CHANGED(op->op.kind = RP_OP_SEND);
    CHANGED(op->op.dtype = RP_DTYPE_FLOAT32);
    CHANGED(op->op.redop = RP_REDOP_SUM);
    CHANGED(op->op.phase = RP_PHASE_FORWARD);
    CHANGED(op->op.flags = RP_OP_SAMPLED);
    CHANGED(op->op.root = 2);
    CHANGED(op->op.comm = RP_NO_COMM);
    CHANGED(op->op.position = RP_NO_POSITION);
    CHANGED(op->op.count = UINT64_MAX);
    CHANGED(op->op.module = 8);
    CHANGED(op->thread = UINT16_MAX);
    CHANGED(op->has_fingerprint = false);
    CHANGED(op->lossy = true);
#undef CHANGED
    struct rp_trace trace = make_trace(ops, count);
    assert_int_equal(rp_packed_create(&trace, &packed), RP_OK);
    assert_packed(&packed, ops, count);
    assert_int_equal(packed.call_count, count);
    assert_int_equal(rp_packed_call_op(&packed, 8)->position, RP_NO_POSITION);
    rp_packed_free(&packed);
}

/* What differs from op to op in any case makes no other call, and is not kept. */
static void end_stream_and_group_are_left_out(void **state)
{
    (void)state;
    struct rp_trace_op ops[3] = {op_at(0), op_at(5), op_at(10)}, kept[3];
    memcpy(kept, ops, sizeof kept);
    struct rp_packed packed;
    ops[0].op.end = 1000;
    ops[1].op.stream = 5;
    ops[2].op.group = 6;
    struct rp_trace trace = make_trace(ops, 3);
    assert_int_equal(rp_packed_create(&trace, &packed), RP_OK);
    assert_packed(&packed, kept, 3);
    assert_int_equal(packed.call_count, 1);
    rp_packed_free(&packed);
}

/* Threads without number that issue the same calls: takes minutes where those share a slot. */
static void many_threads(void **state)
{
    (void)state;
    enum { THREADS = UINT16_MAX + 1, COUNT = 4 * THREADS };
    struct rp_trace trace = {.ops = calloc(COUNT + 1, sizeof *trace.ops), .op_count = COUNT};
    struct rp_packed packed;
    assert_non_null(trace.ops);
    for (size_t i = 0; i < COUNT; i++) {
        trace.ops[i] = op_at(KINDS * i);
        trace.ops[i].thread = (uint16_t)(i % THREADS);
        trace.ops[i].has_fingerprint = i / THREADS % 2 == 0;
        trace.ops[i].lossy = i / THREADS / 2 == 0;
    }
    assert_int_equal(rp_packed_create(&trace, &packed), RP_OK);
    assert_int_equal(packed.call_count, COUNT);
    for (size_t i = 0; i < COUNT; i += 1000)
        assert_int_equal(rp_packed_op(&packed, i).thread, i % THREADS);
    rp_packed_free(&packed);
}

/* A run in which no two calls are alike. */
static void many_calls(void **state)
{
    (void)state;
    enum { COUNT = 20000 };
    struct rp_trace_op *ops = calloc(COUNT, sizeof *ops);
    struct rp_packed packed;
    assert_non_null(ops);
    for (size_t i = 0; i < COUNT; i++) {
        ops[i] = op_at(i);
        ops[i].op.count = i << 20;
    }
    struct rp_trace trace = make_trace(ops, COUNT);
    assert_int_equal(rp_packed_create(&trace, &packed), RP_OK);
    assert_packed(&packed, ops, COUNT);
    assert_int_equal(packed.call_count, COUNT);
    rp_packed_free(&packed);
    free(ops);
}

static void no_ops(void **state)
{
    (void)state;
    struct rp_packed packed;
    struct rp_trace trace = {0};
    assert_int_equal(rp_packed_create(&trace, &packed), RP_OK);
    assert_int_equal(packed.op_count, 0);
    assert_int_equal(packed.call_count, 0);
    rp_packed_free(&packed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ops_come_out_again),
        cmocka_unit_test(calls_differ_by_each_field),
        cmocka_unit_test(end_stream_and_group_are_left_out),
        cmocka_unit_test(many_threads),
        cmocka_unit_test(many_calls),
        cmocka_unit_test(no_ops),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
