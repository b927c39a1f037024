/* Plans whose slots hold units packed: when, and what every such plan must hold. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/plan/pack.h"
#include "plan_world.h"

#define RANKS 2u
#define MIB ((uint64_t)1 << 20)
#define CYCLES 4u

static enum rp_status compile(const struct lane *lane, uint64_t budget, bool packs, struct rp_plan *plan_out)
{
    const struct rp_plan_ahead ahead = {.packs = packs};
    return rp_plan_compile_ahead(lane->items, lane->count, RANKS, budget, MIB, &ahead, plan_out);
}

/* Gathers whose unit's number is in `packable`, a bit each, have a packed form. */
static void set_packable(struct lane *lane, uint64_t packable)
{
    for (size_t i = 0; i < lane->count; i++)
        lane->items[i].packable =
            lane->items[i].kind == RP_OP_ALL_GATHER && (packable >> lane->items[i].content[0] & 1) != 0;
}

/* Units 0 to 16 of a step with four microbatches, as FSDP2 gathers them. */
static struct lane *fsdp2(void)
{
    struct lane *lane = lane_make();
    for (uint64_t cycle = 0; cycle < CYCLES; cycle++)
        for (size_t pass = 0; pass < 8; pass++) {
            add_gather(lane, 250 * MIB, 0, 1 + cycle);
            for (size_t i = 0; i < 16; i++)
                add_gather(lane, 192 * MIB, 1 + (pass % 2 == 0 ? i : 15 - i), 1 + cycle);
            if (pass % 2 == 1)
                add_reduce(lane, 384 * MIB);
        }
    return lane;
}

/* What holds of every plan: sizes of slots, who shares one, the budget. */
static void check(const struct rp_plan *plan, const struct lane *lane, uint64_t budget)
{
    uint64_t saved = 0;
    size_t keeps = 0;
    assert_true(rp_plan_bytes(plan) <= budget);
    for (size_t i = 0; i < plan->count; i++) {
        const struct rp_plan_entry *entry = &plan->entries[i];
        const struct rp_learned *item = &lane->items[plan->first + i];
        assert_true(!entry->packed || (plan->packs && item->packable));
        keeps += entry->action == RP_PLAN_KEEP;
        saved += entry->action == RP_PLAN_KEEP ? entry->bytes : 0;
        if (entry->slot == RP_NO_SLOT)
            continue;
        uint64_t as_is = entry->bytes * RANKS, packed = rp_pack_round(rp_pack_unit(entry->bytes, RANKS), MIB);
        assert_true(plan->slot_bytes[entry->slot] == (entry->packed ? packed : as_is));
        assert_true(!entry->packed || packed < as_is);
    }
    assert_true(saved == plan->saved && keeps == plan->keeps);
}

/* Where all fits units stay as they are; else more of them are kept packed, as many as fit. */
static void where_memory_is_short(void **state)
{
    (void)state;
    static const struct {
        uint64_t mib;
        size_t slots, packed; /* packed: 0: the plan is as without packing */
    } table[] = {{7000, 17, 0}, {6643, 16, 17}, {3322, 8, 11}, {1661, 4, 5}, {384, 1, 1}, {300, 0, 1}, {200, 0, 0}};
    struct lane *lane = fsdp2();
    set_packable(lane, UINT64_MAX);
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct rp_plan plain = {0}, plan = {0};
        bool kept = compile(lane, table[i].mib * MIB, false, &plain) == RP_OK;
        bool any = compile(lane, table[i].mib * MIB, true, &plan) == RP_OK;
        assert_int_equal(kept, table[i].slots > 0);
        assert_int_equal(any, table[i].slots > 0 || table[i].packed > 0);
        assert_int_equal(plain.slot_count, table[i].slots);
        assert_int_equal(plan.packs, table[i].packed > 0);
        assert_int_equal(plan.slot_count, table[i].packed > 0 ? table[i].packed : table[i].slots);
        assert_true(plan.packs ? plan.saved > plain.saved && plan.hash != plain.hash : plan.hash == plain.hash);
        if (any)
            check(&plan, lane, table[i].mib * MIB);
        rp_plan_free(&plain);
        rp_plan_free(&plan);
    }
    free(lane);
}

/* Without a unit that can be packed nothing changes; of several some. */
static void only_what_can_be_packed(void **state)
{
    (void)state;
    struct lane *lane = fsdp2();
    struct rp_plan plain = {0}, none = {0}, some = {0};
    set_packable(lane, 0);
    assert_int_equal(compile(lane, 3322 * MIB, false, &plain), RP_OK);
    assert_int_equal(compile(lane, 3322 * MIB, true, &none), RP_OK);
    assert_true(none.hash == plain.hash && !none.packs);
    set_packable(lane, 0x7e); /* six layers, of the size of others that are not */
    assert_int_equal(compile(lane, 3322 * MIB, true, &some), RP_OK);
    assert_true(some.packs && some.saved > plain.saved);
    check(&some, lane, 3322 * MIB);
    rp_plan_free(&plain);
    rp_plan_free(&none);
    rp_plan_free(&some);
    free(lane);
}

/* A unit that is also gathered as elements of another type stays as it is: a slot holds it in one form. */
static void one_content_in_two_forms(void **state)
{
    (void)state;
    struct lane *lane = lane_make();
    struct rp_plan plan = {0};
    for (uint64_t cycle = 0; cycle < CYCLES; cycle++) {
        for (size_t i = 0; i < 12; i++) {
            add_gather(lane, 64 * MIB, i % 3, 1 + cycle);
            lane->items[lane->count - 1].packable = i != 4;
        }
        add_reduce(lane, MIB);
    }
    assert_int_equal(compile(lane, 200 * MIB, true, &plan), RP_OK);
    assert_true(plan.packs);
    check(&plan, lane, 200 * MIB);
    for (size_t i = 0; i < plan.count; i++)
        assert_int_equal(plan.entries[i].packed,
                         plan.entries[i].kind == RP_OP_ALL_GATHER && lane->items[plan.first + i].content[0] != 1);
    rp_plan_free(&plan);
    free(lane);
}

/* Random cycles, sizes, budgets and elements: never fewer bytes saved than without, and the same plan on all ranks. */
static void random_cycles(void **state)
{
    (void)state;
    size_t packed = 0, plans = 0;
    srand(11);
    for (size_t round = 0; round < 3000; round++) {
        struct lane *lane = lane_make();
        size_t units = 2 + (size_t)rand() % 8, length = units * (2 + (size_t)rand() % 3);
        uint64_t mib[10], budget = (uint64_t)(1 + rand() % 300) * MIB;
        unsigned seed = (unsigned)rand();
        for (size_t unit = 0; unit < units; unit++)
            mib[unit] = 1 + (uint64_t)rand() % 40;
        for (uint64_t cycle = 0; cycle < CYCLES; cycle++) {
            srand(seed);
            for (size_t i = 0; i < length; i++) {
                size_t unit = (size_t)rand() % units;
                add_gather(lane, mib[unit] * MIB, unit, 1 + cycle);
            }
            add_reduce(lane, MIB);
        }
        set_packable(lane, (uint64_t)rand());
        struct rp_plan plain = {0}, plan = {0}, again = {0};
        bool kept = compile(lane, budget, false, &plain) == RP_OK;
        bool any = compile(lane, budget, true, &plan) == RP_OK;
        assert_true(any || !kept);
        assert_true(plan.saved >= plain.saved);
        if (any) {
            check(&plan, lane, budget);
            assert_int_equal(compile(lane, budget, true, &again), RP_OK);
            assert_true(again.hash == plan.hash);
        }
        plans += any;
        packed += plan.packs;
        rp_plan_free(&plain);
        rp_plan_free(&plan);
        rp_plan_free(&again);
        free(lane);
        srand((unsigned)round * 31 + 7);
    }
    assert_true(plans > 1500 && packed > 300);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(where_memory_is_short),
        cmocka_unit_test(only_what_can_be_packed),
        cmocka_unit_test(one_content_in_two_forms),
        cmocka_unit_test(random_cycles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
