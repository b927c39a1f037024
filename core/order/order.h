/*
 * The unified execution order: every occurrence of an event (module, phase) in one cycle, in one sequence, repeats
 * kept, with one cursor that goes round by itself. There is no second sequence for backward: backward is not forward
 * reversed.
 *
 * It is filled in one of two ways, from a list (rp_order_preset) or by appending what happens and closing
 * (rp_order_append, rp_order_close), and walked the same way after. The cursor stands at the event expected next.
 *
 * Events are held weakly: an occurrence names an owner (owner.h), and when that is killed the occurrence is dead.
 * Whatever leads to a dead occurrence returns RP_DEAD, which the caller must handle; nothing is followed.
 *
 * BUILDING takes append, preset, close; CLOSED takes all that walks. A call in the wrong state returns RP_INVALID and
 * changes nothing.
 *
 * Threads: one at a time; the caller serialises the order together with its owners.
 */
#ifndef RP_ORDER_H
#define RP_ORDER_H

#include <stddef.h>
#include <stdint.h>

#include "core/event.h"
#include "core/order/owner.h"
#include "core/status.h"

enum rp_order_state { RP_ORDER_BUILDING, RP_ORDER_CLOSED };

struct rp_occurrence {
    struct rp_event event;
    struct rp_owner owner; /* RP_OWNER_NOBODY: it never dies */
};

/* What rp_order_observe() did not accept. */
struct rp_divergence {
    size_t position; /* the cursor, where it still stands */
    uint64_t round;
    struct rp_event expected;
    struct rp_event observed;
};

struct rp_order;

/* An empty order, BUILDING. `owners` must outlive it. The caller owns it. RP_NO_MEMORY. */
enum rp_status rp_order_create(const struct rp_owners *owners, struct rp_order **order_out);
void rp_order_destroy(struct rp_order *order);

/* Adds one occurrence at the end. RP_INVALID also for a phase that is none; RP_DEAD if its owner is dead. */
enum rp_status rp_order_append(struct rp_order *order, struct rp_event event, struct rp_owner owner);

/* Closes the sequence; the cursor stands at its first event. RP_INVALID also if it is empty. */
enum rp_status rp_order_close(struct rp_order *order);

/* Fills an order that is still empty and closes it. After an error it is empty and BUILDING again. */
enum rp_status rp_order_preset(struct rp_order *order, const struct rp_occurrence *list, size_t count);

enum rp_order_state rp_order_state(const struct rp_order *order);
size_t rp_order_count(const struct rp_order *order);

/* Where the cursor stands, below rp_order_count(), and how often it has gone round. 0 while BUILDING. */
size_t rp_order_cursor(const struct rp_order *order);
uint64_t rp_order_round(const struct rp_order *order);

/* The event at the cursor. RP_DEAD. */
enum rp_status rp_order_current(const struct rp_order *order, struct rp_event *event_out);

/*
 * Moves the cursor to the next event, round the end. RP_DEAD: the event that it now stands at is dead; it stands
 * there, and another call moves on.
 */
enum rp_status rp_order_advance(struct rp_order *order);

/*
 * Compares an event that happened with the one at the cursor.
 *   RP_OK         the same: the cursor moved on (to an event that may be dead: the next call says so)
 *   RP_DIVERGED   another one of the order: the cursor stays; rp_order_divergence() tells both
 *   RP_NOT_FOUND  foreign: the order has no such event anywhere; nothing changes
 *   RP_DEAD       the event at the cursor is dead: the cursor stays
 */
enum rp_status rp_order_observe(struct rp_order *order, struct rp_event event);

/* The last divergence, until the next match or advance; NULL if there is none. Owned by the order. */
const struct rp_divergence *rp_order_divergence(const struct rp_order *order);

/*
 * Walks the events to come, beginning with the one at the cursor, once round: across phases and microbatches and
 * from the end to the beginning, each event with its own phase. A value: no memory, any number at a time. It keeps
 * its own place when the cursor moves.
 *
 *     struct rp_lookahead ahead = rp_order_lookahead(order);
 *     while ((status = rp_lookahead_next(&ahead, &event)) == RP_OK)
 */
struct rp_lookahead {
    const struct rp_order *order;
    size_t start;
    size_t distance; /* from `start` to the event that the next call returns */
};

struct rp_lookahead rp_order_lookahead(const struct rp_order *order);

/* RP_NOT_FOUND: once round. RP_DEAD: this one is dead, the next call goes on behind it. */
enum rp_status rp_lookahead_next(struct rp_lookahead *ahead, struct rp_event *event_out);

#endif
