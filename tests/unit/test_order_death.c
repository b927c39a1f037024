/* Events of an order that die with their owners: at every position, all at once, under way. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "order_world.h"

static void check_death(struct world *world, size_t dead)
{
    struct rp_event event = EVENT(77, OTHER);
    for (size_t i = 0; i < 2 * BATCH; i++) {
        size_t at = i % BATCH;
        assert_int_equal(rp_order_current(world->order, &event), at == dead ? RP_DEAD : RP_OK);
        struct rp_lookahead ahead = rp_order_lookahead(world->order);
        for (size_t j = 0; j < BATCH; j++) {
            size_t place = (at + j) % BATCH;
            assert_int_equal(rp_lookahead_next(&ahead, &event), place == dead ? RP_DEAD : RP_OK);
            assert_true(place == dead || equal(event, batch[place]));
        }
        assert_int_equal(rp_lookahead_next(&ahead, &event), RP_NOT_FOUND);
        /* neither what happened before nor anything else gets past the dead event but advance */
        if (at == dead) {
            assert_int_equal(rp_order_observe(world->order, batch[at]), RP_DEAD);
            assert_int_equal(rp_order_observe(world->order, batch[(at + 1) % BATCH]), RP_DEAD);
            assert_int_equal(rp_order_cursor(world->order), at);
            assert_int_equal(rp_order_advance(world->order), RP_OK);
        } else if (i % 2 == 0) {
            assert_int_equal(rp_order_advance(world->order), (at + 1) % BATCH == dead ? RP_DEAD : RP_OK);
        } else {
            assert_int_equal(rp_order_observe(world->order, batch[at]), RP_OK);
        }
        assert_int_equal(rp_order_cursor(world->order), (at + 1) % BATCH);
    }
}

static void death_at_every_position(void **state)
{
    (void)state;
    for (size_t dead = 0; dead < BATCH; dead++) {
        struct world world;
        struct rp_owner other;
        make_recorded(&world);
        assert_int_equal(rp_owner_kill(world.owners, world.owner[dead]), RP_OK);
        check_death(&world, dead);
        /* its place in the register goes to another: it stays dead */
        assert_int_equal(rp_owner_make(world.owners, &other), RP_OK);
        assert_int_equal(other.place, world.owner[dead].place);
        check_death(&world, dead);
        drop(&world);
    }
}

static void an_owner_takes_all_its_events(void **state)
{
    (void)state;
    struct rp_event event = EVENT(77, OTHER);
    struct rp_owner comm;
    struct world world;
    make_empty(&world);
    assert_int_equal(rp_owner_make(world.owners, &comm), RP_OK);
    for (size_t i = 0; i < BATCH; i++)
        assert_int_equal(rp_order_append(world.order, batch[i], i % 2 == 0 ? comm : RP_OWNER_NOBODY), RP_OK);
    assert_int_equal(rp_order_close(world.order), RP_OK);
    assert_int_equal(rp_owner_kill(world.owners, comm), RP_OK);
    struct rp_lookahead ahead = rp_order_lookahead(world.order);
    for (size_t i = 0; i < BATCH; i++)
        assert_int_equal(rp_lookahead_next(&ahead, &event), i % 2 == 0 ? RP_DEAD : RP_OK);
    drop(&world);
}

/* What is killed between two looks is dead at the second, also for a lookahead under way. */
static void death_during_lookahead(void **state)
{
    (void)state;
    struct rp_event event = EVENT(77, OTHER);
    struct world world;
    make_recorded(&world);
    struct rp_lookahead ahead = rp_order_lookahead(world.order);
    assert_int_equal(rp_lookahead_next(&ahead, &event), RP_OK);
    assert_int_equal(rp_owner_kill(world.owners, world.owner[1]), RP_OK);
    assert_int_equal(rp_lookahead_next(&ahead, &event), RP_DEAD);
    assert_true(equal(event, batch[0])); /* not written */
    assert_int_equal(rp_lookahead_next(&ahead, &event), RP_OK);
    assert_true(equal(event, batch[2]));
    drop(&world);
}

static void foreign_is_told_before_death(void **state)
{
    (void)state;
    struct rp_event foreign = EVENT(9, FORWARD);
    struct world world;
    make_recorded(&world);
    assert_int_equal(rp_owner_kill(world.owners, world.owner[0]), RP_OK);
    assert_int_equal(rp_order_observe(world.order, foreign), RP_NOT_FOUND);
    drop(&world);
}

static void all_dead(void **state)
{
    (void)state;
    struct world world;
    make_recorded(&world);
    for (size_t i = 0; i < BATCH; i++)
        assert_int_equal(rp_owner_kill(world.owners, world.owner[i]), RP_OK);
    for (size_t i = 0; i < 2 * BATCH; i++)
        assert_int_equal(rp_order_advance(world.order), RP_DEAD);
    assert_int_equal(rp_order_round(world.order), 2);
    drop(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(death_at_every_position),
        cmocka_unit_test(an_owner_takes_all_its_events),
        cmocka_unit_test(death_during_lookahead),
        cmocka_unit_test(foreign_is_told_before_death),
        cmocka_unit_test(all_dead),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
