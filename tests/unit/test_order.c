/* The unified order: filling, walking, observing, looking ahead, and calls in the wrong state. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "order_world.h"

static void assert_current(const struct rp_order *order, struct rp_event expected)
{
    struct rp_event event;
    assert_int_equal(rp_order_current(order, &event), RP_OK);
    assert_true(equal(event, expected));
}

/* The events to come are the batch, from place `from` once round. */
static void assert_ahead(const struct rp_order *order, size_t from)
{
    struct rp_lookahead ahead = rp_order_lookahead(order);
    struct rp_event event;
    for (size_t i = 0; i < BATCH; i++) {
        assert_int_equal(rp_lookahead_next(&ahead, &event), RP_OK);
        assert_true(equal(event, batch[(from + i) % BATCH]));
    }
    assert_int_equal(rp_lookahead_next(&ahead, &event), RP_NOT_FOUND);
    assert_int_equal(rp_lookahead_next(&ahead, &event), RP_NOT_FOUND);
}

/* Three rounds: by the argument-free advance, and by observing. */
static void walk(struct world *world, bool observe)
{
    for (size_t i = 0; i < 3 * BATCH; i++) {
        assert_int_equal(rp_order_cursor(world->order), i % BATCH);
        assert_int_equal(rp_order_round(world->order), i / BATCH);
        assert_current(world->order, batch[i % BATCH]);
        assert_ahead(world->order, i % BATCH);
        if (observe)
            assert_int_equal(rp_order_observe(world->order, batch[i % BATCH]), RP_OK);
        else
            assert_int_equal(rp_order_advance(world->order), RP_OK);
        assert_null(rp_order_divergence(world->order));
    }
}

static void preset_and_recorded_are_walked_alike(void **state)
{
    (void)state;
    static void (*const makers[])(struct world *) = {make_recorded, make_preset};
    for (size_t i = 0; i < 2; i++) {
        for (int observe = 0; observe <= 1; observe++) {
            struct world world;
            makers[i](&world);
            assert_int_equal(rp_order_state(world.order), RP_ORDER_CLOSED);
            assert_int_equal(rp_order_count(world.order), BATCH);
            walk(&world, observe);
            drop(&world);
        }
    }
}

static void one_event_goes_round(void **state)
{
    (void)state;
    struct rp_event event, only = EVENT(1, OTHER);
    struct world world;
    make_empty(&world);
    assert_int_equal(rp_order_append(world.order, only, RP_OWNER_NOBODY), RP_OK);
    assert_int_equal(rp_order_close(world.order), RP_OK);
    for (uint64_t i = 0; i < 5; i++) {
        struct rp_lookahead ahead = rp_order_lookahead(world.order);
        assert_int_equal(rp_order_round(world.order), i);
        assert_int_equal(rp_lookahead_next(&ahead, &event), RP_OK);
        assert_int_equal(rp_lookahead_next(&ahead, &event), RP_NOT_FOUND);
        assert_int_equal(rp_order_observe(world.order, only), RP_OK);
        assert_int_equal(rp_order_cursor(world.order), 0);
    }
    drop(&world);
}

/* At every position, every other event of the order diverges and leaves the cursor, and says what was expected. */
static void divergence_at_every_position(void **state)
{
    (void)state;
    struct world world;
    make_recorded(&world);
    for (size_t i = 0; i < 2 * BATCH; i++) {
        struct rp_event expected = batch[i % BATCH];
        for (size_t j = 0; j < BATCH; j++) {
            if (equal(batch[j], expected))
                continue;
            assert_int_equal(rp_order_observe(world.order, batch[j]), RP_DIVERGED);
            const struct rp_divergence *divergence = rp_order_divergence(world.order);
            assert_non_null(divergence);
            assert_true(equal(divergence->expected, expected) && equal(divergence->observed, batch[j]));
            assert_int_equal(divergence->position, i % BATCH);
            assert_int_equal(divergence->round, i / BATCH);
            assert_int_equal(rp_order_cursor(world.order), i % BATCH);
        }
        assert_int_equal(rp_order_observe(world.order, expected), RP_OK);
        assert_null(rp_order_divergence(world.order));
    }
    drop(&world);
}

static void advance_clears_a_divergence(void **state)
{
    (void)state;
    struct world world;
    make_recorded(&world);
    assert_int_equal(rp_order_observe(world.order, batch[4]), RP_DIVERGED);
    assert_int_equal(rp_order_advance(world.order), RP_OK);
    assert_null(rp_order_divergence(world.order));
    drop(&world);
}

/* The same module in another phase, and the same phase of another module, are foreign if the order lacks them. */
static void foreign_events_pass(void **state)
{
    (void)state;
    static const struct rp_event foreign[] = {EVENT(9, FORWARD), EVENT(4, FORWARD), EVENT(1, RECOMPUTE),
                                              EVENT(0, UNKNOWN), EVENT(UINT32_MAX, OTHER)};
    struct world world;
    make_recorded(&world);
    for (size_t i = 0; i < BATCH; i++) {
        for (size_t j = 0; j < sizeof(foreign) / sizeof(foreign[0]); j++)
            assert_int_equal(rp_order_observe(world.order, foreign[j]), RP_NOT_FOUND);
        assert_null(rp_order_divergence(world.order));
        assert_int_equal(rp_order_cursor(world.order), i);
        assert_int_equal(rp_order_observe(world.order, batch[i]), RP_OK);
    }
    drop(&world);
}

/* A repeat is an occurrence of its own: the second run of block 3 is expected after the first, not skipped. */
static void repeats_are_kept(void **state)
{
    (void)state;
    struct world world;
    make_recorded(&world);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(rp_order_observe(world.order, batch[i]), RP_OK);
    assert_current(world.order, batch[2]);
    assert_int_equal(rp_order_observe(world.order, batch[4]), RP_DIVERGED);
    assert_int_equal(rp_order_observe(world.order, batch[2]), RP_OK);
    assert_int_equal(rp_order_observe(world.order, batch[2]), RP_DIVERGED);
    assert_int_equal(rp_order_observe(world.order, batch[4]), RP_OK);
    drop(&world);
}

/* ---------------------------------------------------------------- the wrong call */

static void lookaheads_are_independent(void **state)
{
    (void)state;
    struct rp_event event;
    struct world world;
    make_recorded(&world);
    struct rp_lookahead first = rp_order_lookahead(world.order);
    assert_int_equal(rp_lookahead_next(&first, &event), RP_OK);
    assert_int_equal(rp_order_advance(world.order), RP_OK);
    assert_int_equal(rp_order_advance(world.order), RP_OK);
    struct rp_lookahead second = rp_order_lookahead(world.order);
    assert_int_equal(rp_lookahead_next(&second, &event), RP_OK);
    assert_true(equal(event, batch[2]));
    assert_int_equal(first.distance, 1);
    assert_int_equal(rp_lookahead_next(&first, &event), RP_OK);
    assert_true(equal(event, batch[1]));
    assert_int_equal(rp_order_cursor(world.order), 2);
    drop(&world);
}

static void calls_while_building(void **state)
{
    (void)state;
    struct rp_event event = EVENT(77, OTHER), bad = {.module = 1, .phase = RP_PHASE_COUNT};
    struct world world;
    make_empty(&world);
    struct rp_lookahead ahead = rp_order_lookahead(world.order);
    assert_int_equal(rp_order_state(world.order), RP_ORDER_BUILDING);
    assert_int_equal(rp_order_close(world.order), RP_INVALID);
    assert_int_equal(rp_order_preset(world.order, NULL, 0), RP_INVALID);
    assert_int_equal(rp_order_append(world.order, bad, RP_OWNER_NOBODY), RP_INVALID);
    assert_int_equal(rp_order_append(world.order, batch[0], RP_OWNER_NOBODY), RP_OK);
    assert_int_equal(rp_order_advance(world.order), RP_INVALID);
    assert_int_equal(rp_order_observe(world.order, batch[0]), RP_INVALID);
    assert_int_equal(rp_order_current(world.order, &event), RP_INVALID);
    assert_int_equal(rp_lookahead_next(&ahead, &event), RP_INVALID);
    assert_int_equal(event.module, 77);
    assert_int_equal(rp_order_cursor(world.order), 0);
    assert_int_equal(rp_order_count(world.order), 1);
    drop(&world);
    rp_order_destroy(NULL);
}

static void calls_when_closed(void **state)
{
    (void)state;
    struct rp_occurrence list = {.event = EVENT(1, FORWARD), .owner = RP_OWNER_NOBODY};
    struct world world;
    make_recorded(&world);
    assert_int_equal(rp_order_append(world.order, batch[0], RP_OWNER_NOBODY), RP_INVALID);
    assert_int_equal(rp_order_close(world.order), RP_INVALID);
    assert_int_equal(rp_order_preset(world.order, &list, 1), RP_INVALID);
    assert_int_equal(rp_order_count(world.order), BATCH);
    walk(&world, true);
    drop(&world);
}

/* A list with a dead owner or a bad phase fills nothing, and the order can be filled after. */
static void a_failed_preset_leaves_nothing(void **state)
{
    (void)state;
    struct rp_occurrence list[] = {
        {.event = EVENT(1, FORWARD), .owner = RP_OWNER_NOBODY},
        {.event = EVENT(2, FORWARD), .owner = RP_OWNER_NOBODY},
    };
    struct rp_owner dead;
    struct world world;
    make_empty(&world);
    assert_int_equal(rp_owner_make(world.owners, &dead), RP_OK);
    assert_int_equal(rp_owner_kill(world.owners, dead), RP_OK);
    list[1].owner = dead;
    assert_int_equal(rp_order_preset(world.order, list, 2), RP_DEAD);
    assert_int_equal(rp_order_count(world.order), 0);
    list[1].owner = RP_OWNER_NOBODY;
    list[1].event.phase = (enum rp_phase)99;
    assert_int_equal(rp_order_preset(world.order, list, 2), RP_INVALID);
    assert_int_equal(rp_order_state(world.order), RP_ORDER_BUILDING);
    list[1].event.phase = RP_PHASE_BACKWARD;
    assert_int_equal(rp_order_preset(world.order, list, 2), RP_OK);
    assert_int_equal(rp_order_count(world.order), 2);
    drop(&world);
}

static void append_wants_a_living_owner(void **state)
{
    (void)state;
    struct rp_owner never = {.place = 5, .generation = 1};
    struct world world;
    make_empty(&world);
    assert_int_equal(rp_order_append(world.order, batch[0], never), RP_DEAD);
    assert_int_equal(rp_order_count(world.order), 0);
    drop(&world);
}

/* ---------------------------------------------------------------- at random */

enum { LONG = 300, OWNERS = 7 };

struct model {
    struct rp_event events[LONG];
    size_t owner_of[LONG];
    bool alive[OWNERS];
    size_t count, cursor;
};

static bool model_knows(const struct model *model, struct rp_event event)
{
    for (size_t i = 0; i < model->count; i++) {
        if (equal(model->events[i], event))
            return true;
    }
    return false;
}

static enum rp_status model_observe(struct model *model, struct rp_event event)
{
    if (!model_knows(model, event))
        return RP_NOT_FOUND;
    if (!model->alive[model->owner_of[model->cursor]])
        return RP_DEAD;
    if (!equal(model->events[model->cursor], event))
        return RP_DIVERGED;
    model->cursor = (model->cursor + 1) % model->count;
    return RP_OK;
}

static struct rp_event random_event(void)
{
    return (struct rp_event){.module = (uint32_t)rand() % 4, .phase = (enum rp_phase)(rand() % RP_PHASE_COUNT)};
}

static void random_walk(struct world *world, struct model *model, struct rp_owner *owner)
{
    for (int i = 0; i < 400; i++) {
        size_t some = (size_t)rand() % OWNERS;
        if (rand() % 100 == 0 && model->alive[some]) {
            assert_int_equal(rp_owner_kill(world->owners, owner[some]), RP_OK);
            model->alive[some] = false;
        }
        if (rand() % 3 == 0) {
            model->cursor = (model->cursor + 1) % model->count;
            bool alive = model->alive[model->owner_of[model->cursor]];
            assert_int_equal(rp_order_advance(world->order), alive ? RP_OK : RP_DEAD);
        } else {
            struct rp_event event = rand() % 2 == 0 ? model->events[model->cursor] : random_event();
            enum rp_status expected = model_observe(model, event);
            assert_int_equal(rp_order_observe(world->order, event), expected);
        }
        assert_int_equal(rp_order_cursor(world->order), model->cursor);
    }
}

static void like_the_reference(void **state)
{
    (void)state;
    srand(11);
    for (int round = 0; round < 60; round++) {
        struct model model = {.count = 1 + (size_t)rand() % LONG};
        struct rp_owner owner[OWNERS];
        struct world world;
        make_empty(&world);
        for (size_t i = 0; i < OWNERS; i++) {
            assert_int_equal(rp_owner_make(world.owners, &owner[i]), RP_OK);
            model.alive[i] = true;
        }
        for (size_t i = 0; i < model.count; i++) {
            model.events[i] = random_event();
            model.owner_of[i] = (size_t)rand() % OWNERS;
            assert_int_equal(rp_order_append(world.order, model.events[i], owner[model.owner_of[i]]), RP_OK);
        }
        assert_int_equal(rp_order_close(world.order), RP_OK);
        random_walk(&world, &model, owner);
        drop(&world);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(preset_and_recorded_are_walked_alike),
        cmocka_unit_test(one_event_goes_round),
        cmocka_unit_test(divergence_at_every_position),
        cmocka_unit_test(advance_clears_a_divergence),
        cmocka_unit_test(foreign_events_pass),
        cmocka_unit_test(repeats_are_kept),
        cmocka_unit_test(lookaheads_are_independent),
        cmocka_unit_test(calls_while_building),
        cmocka_unit_test(calls_when_closed),
        cmocka_unit_test(a_failed_preset_leaves_nothing),
        cmocka_unit_test(append_wants_a_living_owner),
        cmocka_unit_test(like_the_reference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
