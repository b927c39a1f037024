/* Names, sizes, signatures and printing of ops. */
#include "core/op.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define MIB UINT64_C(1048576)

static struct rp_op gather(uint64_t count)
{
    struct rp_op op = {
        .kind = RP_OP_ALL_GATHER,
        .dtype = RP_DTYPE_BFLOAT16,
        .redop = RP_REDOP_NONE,
        .root = -1,
        .count = count,
    };
    return op;
}

static void names(void **state)
{
    (void)state;
    assert_string_equal(rp_op_kind_name(RP_OP_REDUCE_SCATTER), "reduce-scatter");
    assert_string_equal(rp_op_kind_name(RP_OP_FREE), "free");
    assert_string_equal(rp_op_kind_name((enum rp_op_kind)200), "?");
    assert_string_equal(rp_dtype_name(RP_DTYPE_FLOAT8E5M2), "float8e5m2");
    assert_string_equal(rp_dtype_name((enum rp_dtype)200), "?");
    assert_string_equal(rp_redop_name(RP_REDOP_AVG), "avg");
    assert_string_equal(rp_redop_name((enum rp_redop)200), "?");
}

static void sizes(void **state)
{
    (void)state;
    static const struct {
        enum rp_dtype dtype;
        size_t size;
    } table[] = {
        {RP_DTYPE_INT8, 1},     {RP_DTYPE_UINT64, 8},     {RP_DTYPE_FLOAT16, 2}, {RP_DTYPE_FLOAT64, 8},
        {RP_DTYPE_BFLOAT16, 2}, {RP_DTYPE_FLOAT8E4M3, 1}, {RP_DTYPE_UNKNOWN, 1}, {(enum rp_dtype)200, 1},
    };
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        assert_int_equal(rp_dtype_size(table[i].dtype), table[i].size);
    struct rp_op op = gather(10);
    assert_int_equal(rp_op_bytes(&op), 20);
}

static void kinds_on_a_lane(void **state)
{
    (void)state;
    assert_true(rp_op_kind_on_lane(RP_OP_ALL_GATHER));
    assert_true(rp_op_kind_on_lane(RP_OP_SCATTER));
    assert_false(rp_op_kind_on_lane(RP_OP_NONE));
    assert_false(rp_op_kind_on_lane(RP_OP_SEND));
    assert_false(rp_op_kind_on_lane(RP_OP_RECV));
    assert_false(rp_op_kind_on_lane(RP_OP_GRAPH_LAUNCH));
    assert_false(rp_op_kind_on_lane((enum rp_op_kind)200));
}

/* One field changed at a time: what is alike on all ranks changes the signature, what is local does not. */
static void signature_is_of_what_ranks_share(void **state)
{
    (void)state;
    struct rp_op base = gather(512);
    uint64_t signature = rp_op_signature(&base);

    struct rp_op shared[5] = {base, base, base, base, base};
    shared[0].kind = RP_OP_REDUCE_SCATTER;
    shared[1].dtype = RP_DTYPE_FLOAT16;
    shared[2].redop = RP_REDOP_SUM;
    shared[3].root = 0;
    shared[4].count = 513;
    for (size_t i = 0; i < 5; i++)
        assert_true(rp_op_signature(&shared[i]) != signature);

    struct rp_op local = base;
    local.type = 2;
    local.phase = RP_PHASE_BACKWARD;
    local.flags = RP_OP_IN_PLACE | RP_OP_IN_GROUP | RP_OP_CAPTURED | RP_OP_HIT | RP_OP_AHEAD;
    local.comm = 7;
    local.position = 99;
    local.begin = 1;
    local.end = 2;
    local.stream = 0xdeadbeef;
    local.module = 3;
    local.group = 4;
    assert_true(rp_op_signature(&local) == signature);
}

static void signature_leaves_peers_out(void **state)
{
    (void)state;
    struct rp_op to_one = gather(8), to_two;
    to_one.kind = RP_OP_SEND;
    to_one.root = 1;
    to_two = to_one;
    to_two.root = 2;
    assert_true(rp_op_signature(&to_one) == rp_op_signature(&to_two));
    to_one.kind = to_two.kind = RP_OP_BROADCAST;
    assert_true(rp_op_signature(&to_one) != rp_op_signature(&to_two));
}

static void printing(void **state)
{
    (void)state;
    static const struct {
        struct rp_op op;
        const char *text;
    } table[] = {
        {{.kind = RP_OP_ALL_GATHER, .dtype = RP_DTYPE_BFLOAT16, .redop = RP_REDOP_NONE, .root = -1, .count = 12 * MIB},
         "all-gather 24.0 MiB bfloat16"},
        {{.kind = RP_OP_REDUCE_SCATTER, .dtype = RP_DTYPE_FLOAT32, .redop = RP_REDOP_AVG, .root = -1, .count = 256},
         "reduce-scatter 1.0 KiB float32 avg"},
        {{.kind = RP_OP_BROADCAST, .dtype = RP_DTYPE_INT8, .redop = RP_REDOP_NONE, .root = 3, .count = 1023},
         "broadcast 1023 B int8 root 3"},
        {{.kind = RP_OP_SEND, .dtype = RP_DTYPE_INT8, .redop = RP_REDOP_NONE, .root = 1, .count = MIB - 1},
         "send 1.0 MiB int8 to 1"},
        {{.kind = RP_OP_RECV, .dtype = RP_DTYPE_INT8, .redop = RP_REDOP_NONE, .root = 0, .count = 0},
         "recv 0 B int8 from 0"},
        {{.kind = RP_OP_MALLOC, .dtype = RP_DTYPE_UNKNOWN, .redop = RP_REDOP_NONE, .root = -1, .count = 3 * MIB},
         "malloc 3.0 MiB"},
        {{.kind = RP_OP_GRAPH_LAUNCH, .dtype = RP_DTYPE_UNKNOWN, .redop = RP_REDOP_NONE, .root = -1}, "graph-launch"},
        {{.kind = RP_OP_ALL_REDUCE, .dtype = RP_DTYPE_INT8, .redop = RP_REDOP_SUM, .root = -1, .count = UINT64_MAX},
         "all-reduce 16.0 EiB int8 sum"},
    };
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        char text[80];
        assert_string_equal(rp_op_print(&table[i].op, text, sizeof(text)), table[i].text);
    }
}

static void printing_is_cut(void **state)
{
    (void)state;
    struct rp_op op = gather(12 * MIB);
    char text[11];
    assert_string_equal(rp_op_print(&op, text, sizeof(text)), "all-gather");
    assert_string_equal(rp_op_print(&op, text, 4), "all");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names),
        cmocka_unit_test(sizes),
        cmocka_unit_test(kinds_on_a_lane),
        cmocka_unit_test(signature_is_of_what_ranks_share),
        cmocka_unit_test(signature_leaves_peers_out),
        cmocka_unit_test(printing),
        cmocka_unit_test(printing_is_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
