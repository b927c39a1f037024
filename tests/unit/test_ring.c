/* The ring of one thread: order, room, losses. Two threads on it: tsan_ring.c. */
#include "core/record/ring.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#define SLOTS_LOG2 6u
#define SLOTS (1u << SLOTS_LOG2)

static struct rp_ring *ring_make(void)
{
    struct rp_ring *ring = NULL;
    assert_int_equal(rp_ring_create(SLOTS_LOG2, &ring), RP_OK);
    assert_int_equal(ring->mask, SLOTS - 1);
    assert_int_equal((uintptr_t)ring->slots % 64, 0);
    return ring;
}

static bool push_launch(struct rp_ring *ring, uint64_t ticks)
{
    union rp_record *slot = rp_ring_reserve(ring, RP_RECORD_LAUNCH);
    if (slot == NULL)
        return false;
    slot->launch = (struct rp_launch){.type = RP_RECORD_LAUNCH, .ticks = ticks};
    rp_ring_commit(ring);
    return true;
}

static void sizes_out_of_range_are_refused(void **state)
{
    (void)state;
    struct rp_ring *ring = NULL;
    assert_int_equal(rp_ring_create(0, &ring), RP_INVALID);
    assert_int_equal(rp_ring_create(2, &ring), RP_INVALID);
    assert_int_equal(rp_ring_create(40, &ring), RP_INVALID);
    assert_null(ring);
}

static void records_come_out_in_order_round_and_round(void **state)
{
    (void)state;
    struct rp_ring *ring = ring_make();
    uint64_t pushed = 0, read = 0, first;
    assert_int_equal(rp_ring_peek(ring, &first), 0);
    while (pushed < 20 * SLOTS) {
        for (unsigned i = 0; i < 13; i++, pushed++)
            assert_true(rp_ring_push_op(ring, &(struct rp_op){.position = pushed}));
        uint64_t count = rp_ring_peek(ring, &first);
        assert_int_equal(count, 13);
        assert_int_equal(first, read);
        for (uint64_t i = 0; i < count; i++, read++) {
            const union rp_record *record = &ring->slots[(first + i) & ring->mask];
            assert_int_equal(record->type, RP_RECORD_OP);
            assert_int_equal(record->op.position, read);
        }
        rp_ring_consume(ring, count);
    }
    assert_int_equal(atomic_load(&ring->lost_ops), 0);
}

static void a_full_ring_drops_and_counts(void **state)
{
    (void)state;
    struct rp_ring *ring = ring_make();
    uint64_t first;
    for (unsigned i = 0; i < SLOTS; i++)
        assert_true(rp_ring_push_op(ring, &(struct rp_op){.position = i}));
    assert_false(rp_ring_push_op(ring, &(struct rp_op){.position = 1000}));
    assert_false(rp_ring_push_op(ring, &(struct rp_op){.position = 1001}));
    assert_false(push_launch(ring, 1));
    rp_ring_push_place(ring, (struct rp_event){1, RP_PHASE_OTHER}); /* what it would have said is no loss of a record */
    assert_int_equal(atomic_load(&ring->lost_ops), 2);
    assert_int_equal(atomic_load(&ring->lost_launches), 1);
    assert_int_equal(rp_ring_peek(ring, &first), SLOTS);
    rp_ring_consume(ring, 1);
    assert_true(rp_ring_push_op(ring, &(struct rp_op){.position = 1002}));
    assert_int_equal(rp_ring_peek(ring, &first), SLOTS);
    assert_int_equal(ring->slots[(first + SLOTS - 1) & ring->mask].op.position, 1002);
}

static void launches_leave_room_for_ops(void **state)
{
    (void)state;
    struct rp_ring *ring = ring_make();
    unsigned launches = 0, ops = 0;
    uint64_t first;
    while (push_launch(ring, launches))
        launches++;
    assert_int_equal(launches, SLOTS - SLOTS / 8);
    assert_int_equal(atomic_load(&ring->lost_launches), 1);
    while (rp_ring_push_op(ring, &(struct rp_op){.position = ops}))
        ops++;
    assert_int_equal(ops, SLOTS / 8);
    assert_int_equal(rp_ring_peek(ring, &first), SLOTS);
}

/* They leave room for ops, and one that finds none is no op and no launch that was lost. */
static void gathers_ahead_are_not_counted(void **state)
{
    (void)state;
    struct rp_ring *ring = ring_make();
    uint64_t first, pushed = SLOTS - ring->kept;
    for (uint64_t i = 0; i < SLOTS; i++) {
        rp_ring_push_issue(ring, &(struct rp_issue){.number = 1 + i});
        rp_ring_push_issue_use(ring, &(struct rp_issue_use){.number = 1 + i});
    }
    assert_int_equal(rp_ring_peek(ring, &first), pushed);
    assert_int_equal(ring->slots[first].type, RP_RECORD_ISSUE);
    assert_int_equal(ring->slots[first].issue.issue.number, 1);
    assert_int_equal(ring->slots[first + 1].type, RP_RECORD_ISSUE_USE);
    assert_int_equal(ring->slots[first + 1].issue.use.number, 1);
    for (uint64_t i = 0; i < ring->kept; i++)
        assert_true(rp_ring_push_op(ring, &(struct rp_op){.position = i}));
    assert_int_equal(ring->lost_ops, 0);
    assert_int_equal(ring->lost_launches, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_out_of_range_are_refused), cmocka_unit_test(records_come_out_in_order_round_and_round),
        cmocka_unit_test(a_full_ring_drops_and_counts),   cmocka_unit_test(launches_leave_room_for_ops),
        cmocka_unit_test(gathers_ahead_are_not_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
