/* What a lane counts, its positions and its digest. */
#include "core/lane.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

static struct rp_op op_of(enum rp_op_kind kind, uint64_t count, uint16_t flags)
{
    struct rp_op op = {
        .kind = (uint8_t)kind,
        .dtype = RP_DTYPE_BFLOAT16,
        .redop = RP_REDOP_NONE,
        .root = -1,
        .count = count,
        .flags = flags,
    };
    return op;
}

static void what_counts(void **state)
{
    (void)state;
    static const struct {
        uint64_t count;
        enum rp_op_kind kind;
        uint16_t flags;
        bool counts;
    } table[] = {
        {1, RP_OP_ALL_GATHER, 0, true},
        {1, RP_OP_BROADCAST, RP_OP_IN_PLACE | RP_OP_IN_GROUP, true},
        {1, RP_OP_ALL_GATHER, RP_OP_CAPTURED, true},
        {1, RP_OP_ALL_GATHER, RP_OP_FINGERPRINTED, true},
        {0, RP_OP_ALL_GATHER, 0, false},
        {1, RP_OP_ALL_GATHER, RP_OP_FAILED, false},
        {1, RP_OP_ALL_GATHER, RP_OP_SIMULATED | RP_OP_IN_GROUP, false},
        {1, RP_OP_SEND, 0, false},
        {1, RP_OP_RECV, 0, false},
        {1, RP_OP_GRAPH_LAUNCH, 0, false},
        {1, RP_OP_MALLOC, 0, false},
        {1, RP_OP_NONE, 0, false},
    };
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct rp_op op = op_of(table[i].kind, table[i].count, table[i].flags);
        struct rp_lane lane;
        rp_lane_init(&lane);
        assert_int_equal(rp_lane_counts(&op), table[i].counts);
        rp_lane_take(&lane, &op);
        assert_true(op.position == (table[i].counts ? 0 : RP_NO_POSITION));
        assert_int_equal(atomic_load(&lane.next), table[i].counts);
        assert_true((atomic_load(&lane.digest) != 0) == table[i].counts);
    }
}

static uint64_t digest_of(struct rp_op *ops, size_t count)
{
    struct rp_lane lane;
    rp_lane_init(&lane);
    for (size_t i = 0; i < count; i++)
        rp_lane_take(&lane, &ops[i]);
    return atomic_load(&lane.digest);
}

/* Ranks that made the same calls agree; one call more, fewer, other or out of turn shows. */
static void digest_is_of_the_sequence(void **state)
{
    (void)state;
    struct rp_op a = op_of(RP_OP_ALL_GATHER, 64, 0), b = op_of(RP_OP_REDUCE_SCATTER, 64, 0);
    struct rp_op with_send[] = {a, op_of(RP_OP_SEND, 64, 0), b, op_of(RP_OP_ALL_GATHER, 0, 0)};
    struct rp_op local = a;
    local.stream = 5;
    local.flags = RP_OP_IN_PLACE;

    uint64_t digest = digest_of((struct rp_op[]){a, b}, 2);
    assert_true(digest_of(with_send, 4) == digest);
    assert_true(digest_of((struct rp_op[]){local, b}, 2) == digest);
    assert_true(digest_of((struct rp_op[]){b, a}, 2) != digest);
    assert_true(digest_of((struct rp_op[]){a}, 1) != digest);
    assert_true(digest_of((struct rp_op[]){a, b, b}, 3) != digest);
    assert_true(digest_of((struct rp_op[]){a, a}, 2) != digest);
}

static void positions_count_up(void **state)
{
    (void)state;
    struct rp_lane lane;
    rp_lane_init(&lane);
    for (uint64_t i = 0; i < 10; i++) {
        struct rp_op op = op_of(RP_OP_ALL_GATHER, 1, 0), beside = op_of(RP_OP_RECV, 1, 0);
        rp_lane_take(&lane, &beside);
        rp_lane_take(&lane, &op);
        assert_int_equal(op.position, i);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_counts),
        cmocka_unit_test(digest_is_of_the_sequence),
        cmocka_unit_test(positions_count_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
