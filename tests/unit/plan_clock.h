/*
 * A cycle of gathers, reductions and compute times, and the model of rp_plan_compile_ahead() once more, straight from
 * its description: for tests of plans with gathers ahead.
 */
#ifndef RP_TEST_PLAN_CLOCK_H
#define RP_TEST_PLAN_CLOCK_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan_world.h"

#define WORLD_MOST 4096u
#define MIB (UINT64_C(1) << 20)

struct world {
    struct lane *lane;
    uint64_t gap_ns[LANE_MOST];
    struct rp_plan_ahead ahead;
    uint32_t nranks;
    uint64_t budget, granule;
};

/* Never NULL. */
static inline struct world *world_make(uint32_t nranks)
{
    struct world *world = calloc(1, sizeof(*world));
    if (world == NULL)
        abort();
    world->lane = lane_make();
    world->nranks = nranks;
    world->granule = 1;
    world->ahead.gap_ns = world->gap_ns;
    return world;
}

static inline void world_free(struct world *world)
{
    free(world->lane);
    free(world);
}

/* The item that was added last is sent from where its like was sent from before. */
static inline void world_live(struct world *world, bool live)
{
    world->lane->items[world->lane->count - 1].send = live;
}

/* The item that is added next comes so long after the one before. */
static inline void world_gap(struct world *world, uint64_t ns)
{
    world->gap_ns[world->lane->count] = ns;
}

static inline enum rp_status world_compile(const struct world *world, struct rp_plan *plan_out)
{
    return rp_plan_compile_ahead(world->lane->items, world->lane->count, world->nranks, world->budget, world->granule,
                                 &world->ahead, plan_out);
}

/* ---------------------------------------------------------------- trainers */

/* Layers forward and backward, over and over. A MiB takes 10 us to each other rank, and each transfer 10 us more. */
struct trainer {
    size_t layers, microbatches, sizes;
    uint64_t forward_us, backward_us;
    enum { COPIED, PERSISTENT } send;
    size_t frozen; /* of the last layers */
};

static inline void train_layer(struct world *world, const struct trainer *trainer, size_t layer, uint64_t us)
{
    world_gap(world, us * 1000);
    add_gather(world->lane, (1 + layer % trainer->sizes) * MIB, 10 + layer,
               layer >= trainer->layers - trainer->frozen ? 0 : 1 + world->lane->version);
    world_live(world, trainer->send == PERSISTENT);
}

static inline void train(struct world *world, const struct trainer *trainer, size_t cycles)
{
    for (size_t i = 0; i < cycles * trainer->microbatches; i++) {
        bool last = (i + 1) % trainer->microbatches == 0;
        for (size_t layer = 0; layer < trainer->layers; layer++)
            train_layer(world, trainer, layer, trainer->forward_us);
        for (size_t layer = trainer->layers; layer-- > 0;) {
            train_layer(world, trainer, layer, trainer->backward_us);
            if (last)
                add_reduce(world->lane, (1 + layer % trainer->sizes) * MIB);
        }
        world->lane->version += last;
    }
}

static inline struct world *trained(const struct trainer *trainer, uint32_t nranks, uint64_t budget)
{
    struct world *world = world_make(nranks);
    world->ahead.link = (struct rp_plan_link_model){.latency_ns = 10000, .ns_per_mib = 10000};
    world->budget = budget;
    train(world, trainer, 4);
    return world;
}

/* ---------------------------------------------------------------- what a cycle is */

#define NOTHING SIZE_MAX

/* By place, as the lane shows it. */
struct facts {
    size_t count;
    struct fact {
        uint64_t gap, transfer, bytes;
        size_t before, head; /* the gather that it repeats, the first one of those: NOTHING */
        size_t reach;
        bool gather, live, begins;
    } at[WORLD_MOST];
};

static inline bool same_bytes(const struct rp_learned *a, const struct rp_learned *b)
{
    return a->kind == RP_OP_ALL_GATHER && b->kind == RP_OP_ALL_GATHER && a->bytes == b->bytes &&
           memcmp(a->content, b->content, sizeof(a->content)) == 0;
}

static inline size_t place_before(const struct facts *facts, size_t place, size_t back)
{
    return (place + facts->count - back % facts->count) % facts->count;
}

static inline size_t places_from(const struct facts *facts, size_t from, size_t to)
{
    return (to + facts->count - from - 1) % facts->count + 1;
}

/* Linked as far back as a cycle; inside of one, if the cycle before has the same there. */
static inline size_t find_before(const struct world *world, const struct facts *facts, size_t item, size_t place)
{
    const struct rp_learned *items = world->lane->items;
    bool inside = false;
    for (size_t back = 1; back <= facts->count && back <= item; back++) {
        if (!same_bytes(&items[item], &items[item - back]))
            continue;
        if (back > place)
            return inside ? NOTHING : place_before(facts, place, back);
        if (same_bytes(&items[item - facts->count], &items[item - facts->count - back]))
            return place_before(facts, place, back);
        inside = true;
    }
    return NOTHING;
}

static inline bool is_new(const struct world *world, size_t item)
{
    for (size_t i = 0; i < item; i++) {
        if (same_bytes(&world->lane->items[item], &world->lane->items[i]))
            return false;
    }
    return true;
}

static inline size_t find_head(const struct facts *facts, size_t place)
{
    size_t head = place;
    for (size_t i = 0; i <= facts->count; i++) {
        if (facts->at[head].before == NOTHING)
            return head;
        head = facts->at[head].before;
    }
    return NOTHING;
}

/* Nothing is gathered ahead where the gathers of one content, back from `last`, take more than a cycle. */
static inline void bound_winding(struct facts *facts, size_t last)
{
    size_t place = last, length = 0;
    do {
        if (facts->at[place].before == NOTHING) {
            length++; /* the head itself */
            break;
        }
        length += places_from(facts, facts->at[place].before, place);
        place = facts->at[place].before;
    } while (place != last);
    for (place = last; length > facts->count && place != NOTHING;) {
        facts->at[place].reach = 0;
        place = facts->at[place].before;
        if (place == last)
            break;
    }
}

/* Does every gather that repeats `head`, or one that does, send from a live buffer? */
static inline bool all_live(const struct facts *facts, size_t head)
{
    for (size_t place = 0; place < facts->count; place++) {
        if (find_head(facts, place) == head && !facts->at[place].live)
            return false;
    }
    return true;
}

/* The lane has nothing small in it. */
static inline struct facts *facts_of(const struct world *world, const struct rp_plan *plan)
{
    struct facts *facts = calloc(1, sizeof(*facts));
    bool reduced = false;
    size_t began = 0;
    if (facts == NULL || plan->count > WORLD_MOST)
        abort();
    facts->count = plan->count;
    for (size_t place = 0; place < plan->count; place++) {
        const struct rp_learned *item = &world->lane->items[plan->first + place];
        struct fact *fact = &facts->at[place];
        uint64_t mib = (item->bytes * (world->nranks - 1)) >> 20;
        fact->gather = item->kind == RP_OP_ALL_GATHER;
        fact->gap = world->gap_ns[plan->first + place];
        fact->transfer = world->ahead.link.latency_ns + mib * world->ahead.link.ns_per_mib;
        fact->bytes = item->bytes;
        fact->live = item->send != 0;
        fact->before = find_before(world, facts, plan->first + place, place);
    }
    for (size_t place = 0; place < plan->count; place++) {
        struct fact *fact = &facts->at[place];
        bool fresh = fact->gather && is_new(world, plan->first + place);
        fact->begins = place == 0 || (fresh && reduced);
        began = fact->begins ? place : began;
        reduced = (reduced && !fresh) || !fact->gather;
        fact->head = find_head(facts, place);
        if (fact->before != NOTHING)
            fact->reach = places_from(facts, fact->before, place) - 1;
        else if (fact->live && all_live(facts, place))
            fact->reach = place - began;
    }
    for (size_t place = 0; place < plan->count; place++)
        bound_winding(facts, place);
    return facts;
}

/* ---------------------------------------------------------------- its time */

struct act {
    enum { NET, KEPT, AHEAD } what;
    size_t length; /* AHEAD: issued so many places before */
};

struct hand {
    uint64_t now, link, others;
};

static inline uint64_t most_of(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static inline void go(const struct facts *facts, const struct act *acts, size_t place, struct hand *hand,
                      uint64_t *ends)
{
    const struct fact *fact = &facts->at[place];
    if (fact->begins)
        hand->now = most_of(hand->now, hand->others);
    hand->now += fact->gap;
    if (acts[place].what == AHEAD)
        hand->now = most_of(hand->now, ends[place]);
    if (acts[place].what == NET) {
        hand->link = most_of(hand->link, hand->now) + fact->transfer;
        if (fact->gather)
            hand->now = hand->link;
        else
            hand->others = hand->link;
    }
    for (size_t length = 1; length < facts->count && length <= RP_PLAN_LOOKAHEAD; length++) {
        size_t user = (place + length) % facts->count;
        if (acts[user].what == AHEAD && acts[user].length == length)
            ends[user] = hand->link = most_of(hand->link, hand->now) + facts->at[user].transfer;
    }
}

/* What compute waits for, a steady cycle. */
static inline uint64_t waits_of(const struct facts *facts, const struct act *acts)
{
    uint64_t ends[WORLD_MOST], compute = 0, waits = UINT64_MAX, lag = 0;
    struct hand hand = {0};
    memset(ends, 0, facts->count * sizeof(*ends));
    for (size_t place = 0; place < facts->count; place++)
        compute += facts->at[place].gap;
    for (unsigned round = 0; round < RP_PLAN_ROUNDS; round++) {
        uint64_t began = hand.now, before = waits, lag_before = lag;
        for (size_t place = 0; place < facts->count; place++)
            go(facts, acts, place, &hand, ends);
        waits = hand.now - began - compute;
        lag = hand.link > hand.now ? hand.link - hand.now : 0;
        if (waits == before && lag == lag_before)
            break;
    }
    return waits;
}

static inline void acts_of(const struct facts *facts, const struct rp_plan *plan, struct act *acts)
{
    for (size_t place = 0; place < plan->count; place++) {
        const struct rp_plan_entry *entry = &plan->entries[place];
        acts[place] = (struct act){.what = entry->action == RP_PLAN_KEEP       ? KEPT
                                           : entry->action == RP_PLAN_PREFETCH ? AHEAD
                                                                               : NET};
        if (acts[place].what == AHEAD)
            acts[place].length = places_from(facts, entry->issue, place);
    }
}

#endif
