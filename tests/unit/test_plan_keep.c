/* What plans keep, over random cycles, sizes and budgets: always consistent, within the budget, and the most there is.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <pthread.h>
#include <cmocka.h>

#include "plan_world.h"

#define RANKS 3u
#define WORD_MOST 40u
#define CYCLES 5u

/* A cycle as units gathered one after the other, with one reduction at the end. */
struct word {
    size_t length, units, sizes;
    size_t unit[WORD_MOST];
    size_t size[WORD_MOST]; /* of a unit, in MiB */
    bool frozen[WORD_MOST]; /* of a unit */
};

static size_t below(size_t most)
{
    return (size_t)rand() % most;
}

static struct word random_word(size_t length, size_t sizes, size_t frozen_of_8)
{
    struct word word = {.length = length, .units = 1 + below(length), .sizes = sizes};
    for (size_t i = 0; i < length; i++)
        word.unit[i] = below(word.units);
    for (size_t unit = 0; unit < word.units; unit++) {
        word.size[unit] = 1 + below(sizes);
        word.frozen[unit] = below(8) < frozen_of_8;
    }
    return word;
}

static void add_word(struct lane *lane, const struct word *word)
{
    for (size_t i = 0; i < word->length; i++) {
        size_t unit = word->unit[i];
        add_gather(lane, (uint64_t)word->size[unit] << 20, unit, word->frozen[unit] ? 0 : 1 + lane->version);
    }
    add_reduce(lane, 1 << 20);
    lane->version++;
}

struct held {
    uint32_t unit[WORD_MOST]; /* what each slot was last written by */
    enum { UNUSED, USED } used[WORD_MOST];
};

/* One cycle of the plan; the KEEP entries that find another unit in their slot. */
static size_t follow(const struct rp_plan *plan, struct held *held)
{
    size_t misses = 0;
    for (size_t i = 0; i < plan->count; i++) {
        const struct rp_plan_entry *entry = &plan->entries[i];
        if (entry->action == RP_PLAN_PASS) {
            assert_int_equal(entry->slot, RP_NO_SLOT);
            continue;
        }
        assert_true(entry->slot < plan->slot_count);
        assert_true(plan->slot_bytes[entry->slot] == RANKS * entry->bytes);
        misses += entry->action == RP_PLAN_KEEP && held->unit[entry->slot] != entry->unit;
        held->unit[entry->slot] = entry->unit;
        held->used[entry->slot] = USED;
    }
    return misses;
}

/* Slots are filled in the first cycle; in the second each holds what it should. */
static void check_slots(const struct rp_plan *plan)
{
    struct held held = {0};
    size_t keeps = 0;
    assert_true(plan->slot_count <= WORD_MOST);
    memset(held.unit, 0xff, sizeof(held.unit)); /* RP_NO_UNIT */
    follow(plan, &held);
    assert_int_equal(follow(plan, &held), 0);
    for (size_t slot = 0; slot < plan->slot_count; slot++)
        assert_int_equal(held.used[slot], USED);
    for (size_t i = 0; i < plan->count; i++)
        keeps += plan->entries[i].action == RP_PLAN_KEEP;
    assert_int_equal(keeps, plan->keeps);
}

/* What NETWORK leaves in a slot is served from there before anything else is put in. */
static void check_stores(const struct rp_plan *plan)
{
    for (size_t i = 0; i < plan->count; i++) {
        const struct rp_plan_entry *entry = &plan->entries[i], *user = NULL;
        for (size_t j = 1; entry->action == RP_PLAN_NETWORK && j <= plan->count && user == NULL; j++) {
            const struct rp_plan_entry *other = &plan->entries[(i + j) % plan->count];
            user = other->slot == entry->slot ? other : NULL;
        }
        if (user != NULL)
            assert_true(user->action == RP_PLAN_KEEP && user->unit == entry->unit);
    }
}

/* Whoever follows the plan in the cycles to come never serves other bytes than the network would deliver. */
static void check_bytes(const struct rp_plan *plan, const struct lane *lane)
{
    const struct rp_learned *slots[WORD_MOST] = {0};
    for (size_t i = plan->first, place = 0; i < lane->count; i++, place++) {
        const struct rp_plan_entry *entry = &plan->entries[place % plan->count];
        if (entry->action == RP_PLAN_KEEP && place >= plan->count)
            assert_memory_equal(slots[entry->slot]->content, lane->items[i].content, sizeof(slots[0]->content));
        if (entry->action != RP_PLAN_PASS)
            slots[entry->slot] = &lane->items[i];
    }
}

static void check_budget(const struct rp_plan *plan, uint64_t budget)
{
    uint64_t sum = 0, saved = 0;
    for (size_t slot = 0; slot < plan->slot_count; slot++)
        sum += plan->slot_bytes[slot];
    for (size_t i = 0; i < plan->count; i++)
        saved += plan->entries[i].action == RP_PLAN_KEEP ? plan->entries[i].bytes : 0;
    assert_true(sum <= budget);
    assert_true(saved == plan->saved);
}

static void check_copy(const struct rp_plan *plan, const struct lane *lane, uint64_t budget)
{
    struct rp_learned *copy = malloc(lane->count * sizeof(*copy));
    struct rp_plan again = {0};
    assert_non_null(copy);
    memcpy(copy, lane->items, lane->count * sizeof(*copy));
    assert_int_equal(rp_plan_compile(copy, lane->count, RANKS, budget, 1, &again), RP_OK);
    assert_true(again.hash == plan->hash);
    rp_plan_free(&again);
    free(copy);
}

/* Links of the plan's cycle, from the lane itself: a gather and the next one of the same content, at most so far on. */
struct links {
    size_t count, period;
    size_t from[WORD_MOST], to[WORD_MOST]; /* `to` may lie behind the period */
    bool crosses;                          /* any does */
};

static struct links find_links(const struct lane *lane, const struct rp_plan *plan)
{
    struct links links = {.period = plan->count};
    for (size_t from = 0; from < plan->count; from++) {
        const struct rp_learned *item = &lane->items[plan->first - plan->count + from];
        for (size_t to = from + 1; item->kind == RP_OP_ALL_GATHER && to <= from + plan->count; to++) {
            const struct rp_learned *other = &lane->items[plan->first - plan->count + to];
            if (other->kind != RP_OP_ALL_GATHER || other->content[0] != item->content[0] ||
                other->content[1] != item->content[1])
                continue;
            links.from[links.count] = from;
            links.to[links.count++] = to;
            links.crosses = links.crosses || to >= plan->count;
            break;
        }
    }
    return links;
}

static void always_consistent(void **state)
{
    (void)state;
    struct lane *lane = lane_make();
    size_t plans = 0, partial = 0;
    srand(11);
    for (int i = 0; i < 4000; i++) {
        struct word word = random_word(2 + below(WORD_MOST - 2), 1 + below(3), below(9));
        uint64_t budget = (uint64_t)RANKS * below(20) << 20;
        struct rp_plan plan = {0}, most = {0};
        lane->count = 0;
        for (size_t cycle = 0; cycle < CYCLES; cycle++)
            add_word(lane, &word);
        if (rp_plan_compile(lane->items, lane->count, RANKS, budget, 1, &plan) != RP_OK)
            continue;
        plans++;
        check_slots(&plan);
        check_stores(&plan);
        check_budget(&plan, budget);
        check_copy(&plan, lane, budget);
        assert_int_equal(rp_plan_compile(lane->items, lane->count, RANKS, UINT64_MAX, 1, &most), RP_OK);
        check_slots(&most);
        assert_int_equal(most.keeps, find_links(lane, &most).count); /* room for all: all are kept */
        assert_true(most.saved >= plan.saved);
        partial += most.saved > plan.saved;
        for (int cycle = 0; cycle < 3; cycle++)
            add_word(lane, &word);
        check_bytes(&plan, lane);
        check_bytes(&most, lane);
        rp_plan_free(&plan);
        rp_plan_free(&most);
    }
    assert_true(plans > 2000 && partial > 500);
    free(lane);
}

/* ---------------------------------------------------------------- against all there is */

/* So many of the chosen links are kept at once, at most. */
static size_t slots_for(const struct links *links, size_t chosen)
{
    size_t kept[WORD_MOST] = {0}, most = 0;
    for (size_t i = 0; i < links->count; i++) {
        for (size_t at = links->from[i]; (chosen >> i & 1) != 0 && at < links->to[i]; at++)
            kept[at % links->period]++;
    }
    for (size_t at = 0; at < links->period; at++)
        most = kept[at] > most ? kept[at] : most;
    return most;
}

static size_t bits(size_t set)
{
    size_t count = 0;
    for (; set != 0; set &= set - 1)
        count++;
    return count;
}

static size_t most_links(const struct links *links, size_t slots)
{
    size_t most = 0;
    for (size_t chosen = 0; chosen < (size_t)1 << links->count; chosen++) {
        if (bits(chosen) > most && slots_for(links, chosen) <= slots)
            most = bits(chosen);
    }
    return most;
}

/* One size; where nothing can be kept over the boundary it is the optimum, else nearly always. */
static void keeps_the_most(void **state)
{
    (void)state;
    struct lane *lane = lane_make();
    size_t plans = 0, crossing = 0, less = 0;
    srand(5);
    for (int i = 0; i < 3000; i++) {
        struct word word = random_word(3 + below(8), 1, i % 2 == 0 ? 0 : below(9));
        size_t slots = 1 + below(4);
        struct rp_plan plan = {0};
        lane->count = 0;
        for (size_t cycle = 0; cycle < CYCLES; cycle++)
            add_word(lane, &word);
        if (rp_plan_compile(lane->items, lane->count, RANKS, (uint64_t)slots * RANKS << 20, 1, &plan) != RP_OK)
            continue;
        struct links links = find_links(lane, &plan);
        size_t most = most_links(&links, slots);
        crossing += links.crosses;
        plans++;
        less += plan.keeps < most;
        if (!links.crosses)
            assert_int_equal(plan.keeps, most);
        assert_true(plan.keeps <= most);
        rp_plan_free(&plan);
    }
    assert_true(plans > 2000 && crossing > 500 && less * 100 < crossing);
    free(lane);
}

/* ---------------------------------------------------------------- several sizes */

#define SIZES_MOST 3u

/* The most links of one size with so many slots; index: slots. */
struct curve {
    uint64_t bytes; /* of a part */
    size_t count, links[WORD_MOST + 1];
};

static struct links links_of(const struct links *all, const struct rp_plan *plan, uint64_t bytes)
{
    struct links links = {.period = all->period};
    for (size_t i = 0; i < all->count; i++) {
        if (plan->entries[all->from[i]].bytes != bytes)
            continue;
        links.from[links.count] = all->from[i];
        links.to[links.count++] = all->to[i];
    }
    return links;
}

static struct curve curve_of(const struct links *links, uint64_t bytes)
{
    struct curve curve = {.bytes = bytes};
    while (curve.count <= links->count) {
        curve.links[curve.count] = most_links(links, curve.count);
        curve.count++;
    }
    return curve;
}

/* Of one rank's parts, over every way to share the budget out. */
static uint64_t most_saved(const struct curve *curves, size_t count, uint64_t budget)
{
    uint64_t most = 0;
    for (size_t slots = 0; count > 0 && slots < curves->count; slots++) {
        uint64_t bytes = slots * RANKS * curves->bytes;
        if (bytes > budget)
            break;
        uint64_t saved = curves->links[slots] * curves->bytes + most_saved(curves + 1, count - 1, budget - bytes);
        most = saved > most ? saved : most;
    }
    return most;
}

/* Sizes of which none is a multiple of another; nothing is kept over the boundary. */
static void keeps_the_most_of_several_sizes(void **state)
{
    (void)state;
    struct lane *lane = lane_make();
    size_t plans = 0, partial = 0;
    srand(23);
    for (int i = 0; i < 4000; i++) {
        static const size_t mib[SIZES_MOST] = {3, 4, 7};
        size_t sizes = 2 + below(2);
        struct word word = random_word(4 + below(10), 1, 0);
        struct curve curves[SIZES_MOST];
        struct rp_plan plan = {0};
        uint64_t budget = (uint64_t)RANKS * (3 + below(30)) << 20, all = 0;
        for (size_t unit = 0; unit < word.units; unit++)
            word.size[unit] = mib[below(sizes)];
        lane->count = 0;
        for (size_t cycle = 0; cycle < CYCLES; cycle++)
            add_word(lane, &word);
        if (rp_plan_compile(lane->items, lane->count, RANKS, budget, 1, &plan) != RP_OK)
            continue;
        struct links links = find_links(lane, &plan);
        for (size_t size = 0; size < sizes; size++) {
            struct links some = links_of(&links, &plan, mib[size] << 20);
            curves[size] = curve_of(&some, mib[size] << 20);
            all += some.count * (mib[size] << 20);
        }
        assert_true(plan.saved == most_saved(curves, sizes, budget));
        plans++;
        partial += plan.saved < all;
        rp_plan_free(&plan);
    }
    assert_true(plans > 3000 && partial > 500);
    free(lane);
}

/*
 * A root of 500 MiB and layers of 384, gathered: each is worth the same for its bytes, so the budget is to be filled.
 * Four and eight layers leave more of it than the root and three, the root and seven.
 */
static void fills_the_budget(void **state)
{
    (void)state;
    static const struct {
        uint64_t mib, used;
        size_t slots;
    } table[] = {{1661, 1652, 4}, {3322, 3188, 8}, {499, 384, 1}, {500, 500, 1}, {884, 884, 2}, {6644, 6644, 17}};
    struct lane *lane = lane_make();
    for (uint64_t cycle = 0; cycle < CYCLES; cycle++) {
        for (size_t pass = 0; pass < 8; pass++) {
            add_gather(lane, UINT64_C(250) << 20, 0, 1 + cycle);
            for (size_t i = 0; i < 16; i++) {
                size_t layer = pass % 2 == 0 ? i : 15 - i;
                add_gather(lane, UINT64_C(192) << 20, 1 + layer, 1 + cycle);
                if (pass % 2 == 1)
                    add_reduce(lane, UINT64_C(384) << 20);
            }
        }
    }
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct rp_plan plan = {0};
        uint64_t used = 0;
        assert_int_equal(rp_plan_compile(lane->items, lane->count, 2, table[i].mib << 20, 1 << 20, &plan), RP_OK);
        for (size_t slot = 0; slot < plan.slot_count; slot++)
            used += plan.slot_bytes[slot];
        assert_int_equal(used >> 20, table[i].used);
        assert_int_equal(plan.slot_count, table[i].slots);
        assert_true(plan.saved == 7 * used / 2);
        rp_plan_free(&plan);
    }
    free(lane);
}

/* ---------------------------------------------------------------- many sizes */

#define SIZES_MANY 3000u

static void *compile_many(void *argument)
{
    const struct lane *lane = argument;
    struct rp_plan plan = {0};
    assert_int_equal(rp_plan_compile(lane->items, lane->count, 2, 300000, 1, &plan), RP_OK);
    assert_int_equal(plan.keeps, 2);
    rp_plan_free(&plan);
    return NULL;
}

/* Two sizes repeat, so that what fills the budget best has to be looked for; each other one is gathered once. */
static void little_stack(void **state)
{
    (void)state;
    static const uint64_t bytes[] = {60000, 100000, 60000, 99990};
    struct lane *lane = lane_make();
    for (uint64_t version = 1; version <= 4; version++) {
        for (size_t i = 0; i < 2 * 4; i++)
            add_gather(lane, bytes[i % 4], i % 4, version);
        for (size_t i = 0; i < SIZES_MANY; i++)
            add_gather(lane, 200000 + i, 4 + i, version);
        add_reduce(lane, 1 << 20);
    }
    pthread_attr_t attributes;
    pthread_t thread;
    assert_int_equal(pthread_attr_init(&attributes), 0);
    assert_int_equal(pthread_attr_setstacksize(&attributes, 128 * 1024), 0);
    assert_int_equal(pthread_create(&thread, &attributes, compile_many, lane), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    pthread_attr_destroy(&attributes);
    free(lane);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(always_consistent),
        cmocka_unit_test(keeps_the_most),
        cmocka_unit_test(keeps_the_most_of_several_sizes),
        cmocka_unit_test(fills_the_budget),
        cmocka_unit_test(little_stack),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
