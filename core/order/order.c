/*
 * The unified execution order. Pure data; a closed sequence never changes, only the cursor moves.
 */
#include "core/order/order.h"

#include <stdlib.h>

#define FIRST_CAPACITY 64u

struct rp_order {
    const struct rp_owners *owners;
    struct rp_occurrence *sequence;
    uint64_t *known; /* keys of all events, sorted; made when the sequence is closed */
    size_t count, capacity;
    size_t cursor;
    uint64_t round;
    enum rp_order_state state;
    enum { AGREED, DIVERGED } last; /* whether `divergence` holds */
    struct rp_divergence divergence;
};

static uint64_t key_of(struct rp_event event)
{
    return (uint64_t)event.module << 32 | (uint32_t)event.phase;
}

static int compare_keys(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

enum rp_status rp_order_create(const struct rp_owners *owners, struct rp_order **order_out)
{
    struct rp_order *order = calloc(1, sizeof(*order));
    if (order == NULL)
        return RP_NO_MEMORY;
    order->owners = owners;
    *order_out = order;
    return RP_OK;
}

void rp_order_destroy(struct rp_order *order)
{
    if (order == NULL)
        return;
    free(order->sequence);
    free(order->known);
    free(order);
}

static enum rp_status grow(struct rp_order *order)
{
    size_t capacity = order->capacity == 0 ? FIRST_CAPACITY : 2 * order->capacity;
    struct rp_occurrence *sequence = realloc(order->sequence, capacity * sizeof(*sequence));
    if (sequence == NULL)
        return RP_NO_MEMORY;
    order->sequence = sequence;
    order->capacity = capacity;
    return RP_OK;
}

enum rp_status rp_order_append(struct rp_order *order, struct rp_event event, struct rp_owner owner)
{
    if (order->state != RP_ORDER_BUILDING || (unsigned)event.phase >= RP_PHASE_COUNT)
        return RP_INVALID;
    if (!rp_owner_alive(order->owners, owner))
        return RP_DEAD;
    enum rp_status status = order->count < order->capacity ? RP_OK : grow(order);
    if (status == RP_OK)
        order->sequence[order->count++] = (struct rp_occurrence){.event = event, .owner = owner};
    return status;
}

enum rp_status rp_order_close(struct rp_order *order)
{
    if (order->state != RP_ORDER_BUILDING || order->count == 0)
        return RP_INVALID;
    order->known = calloc(order->count, sizeof(*order->known));
    if (order->known == NULL)
        return RP_NO_MEMORY;
    for (size_t i = 0; i < order->count; i++)
        order->known[i] = key_of(order->sequence[i].event);
    qsort(order->known, order->count, sizeof(*order->known), compare_keys);
    order->state = RP_ORDER_CLOSED;
    return RP_OK;
}

enum rp_status rp_order_preset(struct rp_order *order, const struct rp_occurrence *list, size_t count)
{
    enum rp_status status = RP_OK;

    if (order->state != RP_ORDER_BUILDING || order->count != 0)
        return RP_INVALID;
    for (size_t i = 0; i < count && status == RP_OK; i++)
        status = rp_order_append(order, list[i].event, list[i].owner);
    if (status == RP_OK)
        status = rp_order_close(order);
    if (status != RP_OK)
        order->count = 0;
    return status;
}

enum rp_order_state rp_order_state(const struct rp_order *order)
{
    return order->state;
}

size_t rp_order_count(const struct rp_order *order)
{
    return order->count;
}

size_t rp_order_cursor(const struct rp_order *order)
{
    return order->cursor;
}

uint64_t rp_order_round(const struct rp_order *order)
{
    return order->round;
}

/* The only way from a place in the sequence to its event. */
static enum rp_status follow(const struct rp_order *order, size_t place, struct rp_event *event_out)
{
    const struct rp_occurrence *occurrence = &order->sequence[place];
    if (!rp_owner_alive(order->owners, occurrence->owner))
        return RP_DEAD;
    *event_out = occurrence->event;
    return RP_OK;
}

enum rp_status rp_order_current(const struct rp_order *order, struct rp_event *event_out)
{
    return order->state == RP_ORDER_CLOSED ? follow(order, order->cursor, event_out) : RP_INVALID;
}

static void move_on(struct rp_order *order)
{
    order->last = AGREED;
    if (++order->cursor < order->count)
        return;
    order->cursor = 0;
    order->round++;
}

enum rp_status rp_order_advance(struct rp_order *order)
{
    struct rp_event arrived;

    if (order->state != RP_ORDER_CLOSED)
        return RP_INVALID;
    move_on(order);
    return follow(order, order->cursor, &arrived);
}

static bool is_known(const struct rp_order *order, struct rp_event event)
{
    uint64_t key = key_of(event);
    return bsearch(&key, order->known, order->count, sizeof(key), compare_keys) != NULL;
}

enum rp_status rp_order_observe(struct rp_order *order, struct rp_event event)
{
    struct rp_event expected;

    if (order->state != RP_ORDER_CLOSED)
        return RP_INVALID;
    if (!is_known(order, event))
        return RP_NOT_FOUND;
    enum rp_status status = follow(order, order->cursor, &expected);
    if (status != RP_OK)
        return status;
    if (key_of(expected) == key_of(event)) {
        move_on(order);
        return RP_OK;
    }
    order->last = DIVERGED;
    order->divergence = (struct rp_divergence){
        .position = order->cursor, .round = order->round, .expected = expected, .observed = event};
    return RP_DIVERGED;
}

const struct rp_divergence *rp_order_divergence(const struct rp_order *order)
{
    return order->last == DIVERGED ? &order->divergence : NULL;
}

struct rp_lookahead rp_order_lookahead(const struct rp_order *order)
{
    return (struct rp_lookahead){.order = order, .start = order->cursor};
}

enum rp_status rp_lookahead_next(struct rp_lookahead *ahead, struct rp_event *event_out)
{
    const struct rp_order *order = ahead->order;

    if (order->state != RP_ORDER_CLOSED)
        return RP_INVALID;
    if (ahead->distance >= order->count)
        return RP_NOT_FOUND;
    size_t place = (ahead->start + ahead->distance++) % order->count;
    return follow(order, place, event_out);
}
