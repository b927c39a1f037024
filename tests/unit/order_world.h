/*
 * The order that the tests of orders use: one batch of a small model, each occurrence with an owner of its own.
 * Include cmocka.h first.
 */
#ifndef RP_TEST_ORDER_WORLD_H
#define RP_TEST_ORDER_WORLD_H

#include <stdbool.h>
#include <string.h>

#include "core/order/order.h"

#define EVENT(number, name)                          \
    {                                                \
        .module = (number), .phase = RP_PHASE_##name \
    }

/* Two microbatches of a root (1) and two blocks (2, 3), block 3 run twice in forward, then the optimizer. Backward is
 * not forward reversed: the root's gather comes first in both. */
static const struct rp_event batch[] = {
    EVENT(1, FORWARD),  EVENT(2, FORWARD),  EVENT(3, FORWARD),  EVENT(3, FORWARD),  EVENT(1, BACKWARD),
    EVENT(3, BACKWARD), EVENT(2, BACKWARD), EVENT(1, FORWARD),  EVENT(2, FORWARD),  EVENT(3, FORWARD),
    EVENT(3, FORWARD),  EVENT(1, BACKWARD), EVENT(3, BACKWARD), EVENT(2, BACKWARD), EVENT(4, OPTIMIZER),
};
#define BATCH (sizeof(batch) / sizeof(batch[0]))

struct world {
    struct rp_owners *owners;
    struct rp_order *order;
    struct rp_owner owner[BATCH]; /* of each occurrence */
};

static inline void make_empty(struct world *world)
{
    memset(world, 0, sizeof(*world));
    assert_int_equal(rp_owners_create(&world->owners), RP_OK);
    assert_int_equal(rp_order_create(world->owners, &world->order), RP_OK);
}

static inline void make_recorded(struct world *world)
{
    make_empty(world);
    for (size_t i = 0; i < BATCH; i++) {
        assert_int_equal(rp_owner_make(world->owners, &world->owner[i]), RP_OK);
        assert_int_equal(rp_order_append(world->order, batch[i], world->owner[i]), RP_OK);
    }
    assert_int_equal(rp_order_close(world->order), RP_OK);
}

static inline void make_preset(struct world *world)
{
    struct rp_occurrence list[BATCH];
    make_empty(world);
    for (size_t i = 0; i < BATCH; i++) {
        assert_int_equal(rp_owner_make(world->owners, &world->owner[i]), RP_OK);
        list[i] = (struct rp_occurrence){.event = batch[i], .owner = world->owner[i]};
    }
    assert_int_equal(rp_order_preset(world->order, list, BATCH), RP_OK);
}

static inline void drop(struct world *world)
{
    rp_order_destroy(world->order);
    rp_owners_destroy(world->owners);
}

static inline bool equal(struct rp_event a, struct rp_event b)
{
    return a.module == b.module && a.phase == b.phase;
}

#endif
