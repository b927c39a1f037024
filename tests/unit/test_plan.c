/* Plans: what is known of a lane, when a cycle counts, what is kept of it; by tables, by a recorded FSDP2 run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "lane_text.h"
#include "plan_world.h"

#define RANKS 4u
#define ALL UINT64_MAX

static enum rp_status compile(const struct lane *lane, uint64_t budget, struct rp_plan *plan_out)
{
    return rp_plan_compile(lane->items, lane->count, RANKS, budget, 1, plan_out);
}

static enum rp_status status_of(const struct lane *lane, uint64_t budget)
{
    struct rp_plan plan = {0};
    enum rp_status status = compile(lane, budget, &plan);
    rp_plan_free(&plan);
    return status;
}

static size_t count_actions(const struct rp_plan *plan, enum rp_plan_action action)
{
    size_t count = 0;
    for (size_t i = 0; i < plan->count; i++)
        count += plan->entries[i].action == action;
    return count;
}

/* ---------------------------------------------------------------- a plan at work */

/* What a slot would hold. */
struct content {
    uint64_t word[2];
};

/*
 * Follows the plan over the lane from `from` on, as long as the lane is the plan's cycle: how many KEEP would be wrong,
 * after the first cycle (in which slots are filled).
 */
static size_t misses_of(const struct rp_plan *plan, const struct lane *lane, size_t from)
{
    struct content *slots = calloc(plan->slot_count + 1, sizeof(*slots));
    size_t place = 0, misses = 0;
    assert_non_null(slots);
    for (size_t i = from; i < lane->count; i++) {
        const struct rp_learned *item = &lane->items[i];
        if (item->kind != RP_OP_ALL_GATHER && item->bytes <= RP_CYCLE_SMALL_BYTES)
            continue;
        const struct rp_plan_entry *entry = &plan->entries[place++ % plan->count];
        assert_true(entry->signature == item->signature && entry->bytes == item->bytes && entry->kind == item->kind);
        if (entry->action == RP_PLAN_KEEP && place > plan->count)
            misses += memcmp(slots[entry->slot].word, item->content, sizeof(item->content)) != 0;
        if (entry->action != RP_PLAN_PASS) {
            assert_true(entry->slot < plan->slot_count && plan->slot_bytes[entry->slot] == RANKS * entry->bytes);
            memcpy(slots[entry->slot].word, item->content, sizeof(item->content));
        }
    }
    assert_true(place >= 2 * plan->count);
    free(slots);
    return misses;
}

/* The lane's plan: so many entries, gathers kept, slots; and three cycles more are served without a miss. */
#define expect_plan(lane, budget, entries, keeps, slots, model, add) \
    expect_plan_at(__LINE__, lane, budget, entries, keeps, slots, model, add)

typedef void add_cycle(struct lane *lane, const struct model *model);

static void expect_plan_at(int line, struct lane *lane, uint64_t budget, size_t entries, size_t keeps, size_t slots,
                           const struct model *model, add_cycle *add)
{
    struct rp_plan plan = {0};
    enum rp_status status = compile(lane, budget, &plan);
    if (status != RP_OK || plan.count != entries || plan.keeps != keeps || plan.slot_count != slots)
        fail_msg("line %d: %s, %zu entries %zu kept %zu slots", line, rp_status_text(status), plan.count, plan.keeps,
                 plan.slot_count);
    assert_int_equal(count_actions(&plan, RP_PLAN_KEEP), keeps);
    assert_true(plan.end <= lane->count && plan.first < plan.end);
    size_t from = plan.first;
    for (int i = 0; i < 3; i++)
        add(lane, model);
    assert_int_equal(misses_of(&plan, lane, from), 0);
    rp_plan_free(&plan);
}

/* ---------------------------------------------------------------- kinds of training */

static void plain_steps(void **state)
{
    (void)state;
    const struct model model = {.layers = 4, .microbatches = 1};
    struct lane *lane = lane_make();
    steps(lane, &model, 2);
    /* two may be microbatches, or the steps between evaluations; a forward pass more may be an evaluation */
    assert_int_equal(status_of(lane, ALL), RP_NOT_FOUND);
    step(lane, &model);
    lane->count -= 8;
    assert_int_equal(status_of(lane, ALL), RP_NOT_FOUND);
    lane->count++; /* the third step's first reduction */
    struct rp_plan plan = {0};
    assert_int_equal(compile(lane, ALL, &plan), RP_OK);
    assert_int_equal(plan.count, 15);
    assert_int_equal(plan.first, 15);
    assert_int_equal(plan.end, 30);
    assert_int_equal(plan.unit_count, 5);
    assert_int_equal(plan.saved, ROOT_BYTES + 4u * LAYER_BYTES);
    static const struct {
        uint32_t unit, slot;
        enum rp_plan_action action;
    } table[10] = {
        {0, 0, RP_PLAN_NETWORK}, {1, 1, RP_PLAN_NETWORK},
        {2, 2, RP_PLAN_NETWORK}, {3, 3, RP_PLAN_NETWORK},
        {4, 4, RP_PLAN_NETWORK}, {0, 0, RP_PLAN_KEEP},
        {4, 4, RP_PLAN_KEEP},    {RP_NO_UNIT, RP_NO_SLOT, RP_PLAN_PASS},
        {3, 3, RP_PLAN_KEEP},    {RP_NO_UNIT, RP_NO_SLOT, RP_PLAN_PASS},
    };
    for (size_t i = 0; i < 10; i++) {
        assert_int_equal(plan.entries[i].unit, table[i].unit);
        assert_int_equal(plan.entries[i].slot, table[i].slot);
        assert_int_equal(plan.entries[i].action, table[i].action);
    }
    rp_plan_free(&plan);
    free(lane);
}

static void microbatches_are_one_cycle(void **state)
{
    (void)state;
    const struct model model = {.layers = 4, .microbatches = 4};
    struct lane *lane = lane_make();
    steps(lane, &model, 2);
    assert_int_equal(status_of(lane, ALL), RP_NOT_FOUND);
    step(lane, &model);
    expect_plan(lane, ALL, 60, 35, 5, &model, step);
    free(lane);
}

/* Wherever the lane is when it is looked at: as many equal microbatches as a batch may have are no cycle. */
static void never_a_microbatch(void **state)
{
    (void)state;
    const struct model model = {.layers = 40, .microbatches = 16};
    struct lane *lane = lane_make();
    struct rp_plan plan;
    steps(lane, &model, 3);
    size_t cycle = lane->count / 3;
    for (size_t end = 0; end < lane->count; end += 19) {
        enum rp_status status = rp_plan_compile(lane->items, end, RANKS, ALL, 1, &plan);
        assert_int_equal(status, end <= 2 * cycle + 44 ? RP_NOT_FOUND : RP_OK);
        if (status == RP_OK) {
            assert_int_equal(plan.count, cycle);
            rp_plan_free(&plan);
        }
    }
    free(lane);
}

static void recompute(void **state)
{
    (void)state;
    const struct model model = {.layers = 4, .microbatches = 1, .recompute = RECOMPUTE};
    struct lane *lane = lane_make();
    steps(lane, &model, 3);
    expect_plan(lane, ALL, 19, 9, 5, &model, step);
    free(lane);
}

/* No "layer, shared block" is taken for a cycle, in whatever part of a step the lane ends. */
static void shared_block(void **state)
{
    (void)state;
    const struct model model = {.layers = 24, .microbatches = 1, .shared = SHARED};
    struct lane *lane = lane_make();
    struct rp_plan plan;
    steps(lane, &model, 2);
    for (size_t end = 0; end <= lane->count; end++)
        assert_int_equal(rp_plan_compile(lane->items, end, RANKS, ALL, 1, &plan), RP_NOT_FOUND);
    step(lane, &model);
    expect_plan(lane, ALL, 123, 1 + 24 + 47, 26, &model, step);
    free(lane);
}

static void two_steps_and_evaluation(struct lane *lane, const struct model *model)
{
    steps(lane, model, 2);
    forward(lane, model);
}

/*
 * The evaluation gathers the second step's weights first, so from then on every other step has nothing fresh: the very
 * first step is unlike, and the cycle shows twice at the end of the third step after the second evaluation.
 */
static void evaluation_every_second_step(void **state)
{
    (void)state;
    const struct model model = {.layers = 4, .microbatches = 1};
    struct lane *lane = lane_make();
    struct rp_plan plan;
    two_steps_and_evaluation(lane, &model);
    two_steps_and_evaluation(lane, &model);
    for (size_t end = 0; end <= lane->count; end++)
        assert_int_equal(rp_plan_compile(lane->items, end, RANKS, ALL, 1, &plan), RP_NOT_FOUND);
    step(lane, &model);
    /* [step, evaluation, step without anything fresh] */
    struct rp_plan found = {0};
    assert_int_equal(compile(lane, ALL, &found), RP_OK);
    assert_int_equal(found.count, 35);
    assert_int_equal(found.keeps, 15);
    assert_int_equal(found.slot_count, 5); /* those of the step serve the evaluation's too */
    assert_int_equal(found.unit_count, 10);
    assert_int_equal(found.first, 50);
    for (int i = 0; i < 4; i++) {
        step(lane, &model);
        forward(lane, &model);
        step(lane, &model);
    }
    assert_int_equal(misses_of(&found, lane, found.first), 0);
    rp_plan_free(&found);
    free(lane);
}

static void learning_rate_0_first(void **state)
{
    (void)state;
    const struct model model = {.layers = 4, .microbatches = 4};
    struct lane *lane = lane_make();
    for (int i = 0; i < 6; i++) {
        step_without_change(lane, &model);
        assert_int_equal(status_of(lane, ALL), RP_NOT_FOUND);
    }
    lane->version++;
    steps(lane, &model, 2);
    assert_int_equal(status_of(lane, ALL), RP_NOT_FOUND);
    step(lane, &model);
    expect_plan(lane, ALL, 60, 35, 5, &model, step);
    free(lane);
}

static void a_skipped_step_waits(void **state)
{
    (void)state;
    const struct model model = {.layers = 4, .microbatches = 2};
    struct lane *lane = lane_make();
    steps(lane, &model, 2);
    step_without_change(lane, &model);
    step_without_change(lane, &model);
    assert_int_equal(status_of(lane, ALL), RP_NOT_FOUND);
    lane->version++;
    steps(lane, &model, 3);
    expect_plan(lane, ALL, 30, 15, 5, &model, step);
    free(lane);
}

/* Equal when made, different after the first optimizer step: the two last cycles both say which is which. */
static void equal_layers_part(void **state)
{
    (void)state;
    const struct model model = {.layers = 4, .microbatches = 1, .equal_until = 1};
    struct lane *lane = lane_make();
    steps(lane, &model, 3);
    assert_int_equal(status_of(lane, ALL), RP_NOT_FOUND); /* the first step is unlike the others */
    step(lane, &model);
    expect_plan(lane, ALL, 15, 5, 5, &model, step);
    free(lane);
}

/* As long as they stay equal they are one unit; one slot is enough for it. */
static void equal_layers_stay(void **state)
{
    (void)state;
    const struct model model = {.layers = 4, .microbatches = 1, .equal_until = UINT64_MAX};
    struct lane *lane = lane_make();
    steps(lane, &model, 3);
    expect_plan(lane, ALL, 15, 8, 2, &model, step);
    free(lane);
}

/* What is equal in one of the last two cycles only is not one unit; what is equal in both is, whatever lies between. */
static void units_need_both_cycles(void **state)
{
    (void)state;
    struct lane *lane = lane_make();
    struct rp_plan plan = {0};
    for (uint64_t cycle = 1; cycle < 5; cycle++) {
        add_gather(lane, 1 << 20, 1, cycle);
        add_gather(lane, 1 << 20, 2, cycle);
        add_gather(lane, 1 << 20, cycle == 4 ? 1 : 2, cycle);
        add_gather(lane, 1 << 20, 1, cycle);
        add_reduce(lane, 1 << 20);
    }
    static const uint32_t units[] = {0, 1, 2, 0, RP_NO_UNIT};
    assert_int_equal(compile(lane, ALL, &plan), RP_OK);
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(plan.entries[i].unit, units[i]);
    assert_int_equal(plan.keeps, 1);
    assert_int_equal(plan.entries[3].action, RP_PLAN_KEEP);
    rp_plan_free(&plan);
    free(lane);
}

static void frozen_layers_are_kept_over_the_boundary(void **state)
{
    (void)state;
    const struct model model = {.layers = 4, .microbatches = 1, .frozen = 2};
    struct lane *lane = lane_make();
    steps(lane, &model, 4);
    expect_plan(lane, ALL, 15, 3 + 4, 5, &model, step);
    free(lane);
}

static void all_frozen(void **state)
{
    (void)state;
    const struct model model = {.layers = 4, .microbatches = 1, .frozen = 4};
    struct lane *lane = lane_make();
    struct rp_plan plan;
    for (size_t i = 0; i < RP_PLAN_REPEATS; i++) {
        forward(lane, &model);
        assert_int_equal(rp_plan_compile(lane->items, lane->count, RANKS, ALL, 1, &plan), RP_NOT_FOUND);
    }
    forward(lane, &model);
    expect_plan(lane, ALL, 5, 5, 5, &model, forward);
    /* Four slots: four of five are pinned. */
    expect_plan(lane, RANKS * (ROOT_BYTES + 3u * LAYER_BYTES), 5, 4, 4, &model, forward);
    free(lane);
}

/* Equal layers one after the other have a period of 1, but what they gather again is not what is in it. */
static void layers_without_change_are_no_cycle(void **state)
{
    (void)state;
    const struct model model = {.layers = 100, .microbatches = 2};
    struct lane *lane = lane_make();
    struct rp_plan plan;
    step(lane, &model);
    for (size_t end = 0; end <= lane->count; end++)
        assert_int_equal(rp_plan_compile(lane->items, end, RANKS, ALL, 1, &plan), RP_NOT_FOUND);
    free(lane);
}

static void activations_pass(void **state)
{
    (void)state;
    const struct model model = {.layers = 12, .microbatches = 2, .activated = ACTIVATIONS};
    struct lane *lane = lane_make();
    struct rp_plan plan = {0};
    steps(lane, &model, 2);
    /* "layer, activation, reduction" of the backward pass repeats, and begins a generation each time: no cycle */
    for (size_t end = 0; end <= lane->count; end++)
        assert_int_equal(rp_plan_compile(lane->items, end, RANKS, ALL, 1, &plan), RP_NOT_FOUND);
    step(lane, &model);
    assert_int_equal(compile(lane, ALL, &plan), RP_OK);
    for (size_t i = 0; i < plan.count; i++) {
        if (plan.entries[i].bytes == LAYER_BYTES / 2)
            assert_true(plan.entries[i].action == RP_PLAN_PASS && plan.entries[i].unit != RP_NO_UNIT);
    }
    rp_plan_free(&plan);
    expect_plan(lane, ALL, 2 * (2 + 12 * 5 + 1), 3 * 13, 13, &model, step);
    free(lane);
}

static void logging_step(struct lane *lane, const struct model *model)
{
    step(lane, model);
    if (lane->version % 3 == 0) {
        add_small(lane);
        add_small(lane);
    }
}

static void small_ops_are_passed_over(void **state)
{
    (void)state;
    const struct model model = {.layers = 4, .microbatches = 1};
    struct lane *lane = lane_make();
    for (int i = 0; i < 7; i++)
        logging_step(lane, &model);
    expect_plan(lane, ALL, 15, 5, 5, &model, logging_step);
    free(lane);
}

static void reductions_elsewhere(void **state)
{
    (void)state;
    const struct model model = {.layers = 6, .microbatches = 2, .reduced = REDUCED_ELSEWHERE};
    struct lane *lane = lane_make();
    steps(lane, &model, 3);
    expect_plan(lane, ALL, 28, 21, 7, &model, step);
    free(lane);
}

/* ---------------------------------------------------------------- what can never be armed */

static void nothing_fits(void **state)
{
    (void)state;
    const struct model model = {.layers = 4, .microbatches = 1};
    struct lane *lane = lane_make();
    steps(lane, &model, RP_PLAN_SETTLED - 1);
    assert_int_equal(status_of(lane, 1 << 20), RP_NOT_FOUND);
    step(lane, &model);
    assert_int_equal(status_of(lane, 1 << 20), RP_UNSUPPORTED);
    assert_int_equal(status_of(lane, 0), RP_UNSUPPORTED);
    assert_int_equal(status_of(lane, ALL), RP_OK);
    free(lane);
}

static void nothing_repeats(void **state)
{
    (void)state;
    const struct model model = {.layers = 4, .microbatches = 1};
    struct lane *lane = lane_make();
    for (size_t i = 0; i < RP_PLAN_REPEATS; i++) {
        assert_int_equal(status_of(lane, ALL), RP_NOT_FOUND);
        forward(lane, &model);
        add_reduce(lane, ROOT_BYTES);
        lane->version++;
    }
    assert_int_equal(status_of(lane, ALL), RP_UNSUPPORTED);
    free(lane);
}

static void nothing_at_all(void **state)
{
    (void)state;
    struct lane *lane = lane_make();
    struct rp_plan plan;
    assert_int_equal(status_of(lane, ALL), RP_NOT_FOUND);
    for (int i = 0; i < 50; i++)
        add_small(lane);
    assert_int_equal(status_of(lane, ALL), RP_NOT_FOUND);
    for (int i = 0; i < 50; i++)
        add_reduce(lane, 1 << 20);
    assert_int_equal(status_of(lane, ALL), RP_NOT_FOUND);
    assert_int_equal(rp_plan_compile(lane->items, lane->count, 0, ALL, 1, &plan), RP_INVALID);
    free(lane);
}

static void sizes_that_cannot_be_counted(void **state)
{
    (void)state;
    struct lane *lane = lane_make();
    struct rp_plan plan = {0};
    for (uint64_t cycle = 0; cycle < 3; cycle++) {
        add_gather(lane, UINT64_MAX / 2, 1, cycle);
        add_gather(lane, 1 << 20, 2, cycle);
        add_gather(lane, UINT64_MAX / 2, 1, cycle);
        add_gather(lane, 1 << 20, 2, cycle);
        add_reduce(lane, 1 << 20);
    }
    assert_int_equal(compile(lane, ALL, &plan), RP_OK);
    assert_int_equal(plan.keeps, 1);
    assert_int_equal(plan.entries[2].action, RP_PLAN_PASS);
    rp_plan_free(&plan);
    free(lane);
}

/* ---------------------------------------------------------------- budgets, hashes */

/* Backward gathers in reverse: the last layers are next. The root is large and saves no more a byte than a layer. */
static void a_smaller_budget_keeps_the_nearest(void **state)
{
    (void)state;
    const struct model model = {.layers = 4, .microbatches = 1};
    struct lane *lane = lane_make();
    struct rp_plan plan = {0};
    steps(lane, &model, 3);
    assert_int_equal(compile(lane, RANKS * 2u * LAYER_BYTES, &plan), RP_OK);
    assert_int_equal(plan.keeps, 2);
    assert_int_equal(plan.slot_count, 2);
    static const enum rp_plan_action forward_pass[5] = {RP_PLAN_PASS, RP_PLAN_PASS, RP_PLAN_PASS, RP_PLAN_NETWORK,
                                                        RP_PLAN_NETWORK};
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(plan.entries[i].action, forward_pass[i]);
    rp_plan_free(&plan);
    expect_plan(lane, RANKS * 2u * LAYER_BYTES, 15, 2, 2, &model, step);
    expect_plan(lane, RANKS * 2u * LAYER_BYTES - 1, 15, 1, 1, &model, step);
    expect_plan(lane, RANKS * (ROOT_BYTES + 4u * LAYER_BYTES), 15, 5, 5, &model, step);
    expect_plan(lane, RANKS * (ROOT_BYTES + 4u * LAYER_BYTES) - 1, 15, 4, 4, &model, step);
    free(lane);
}

static uint64_t hash_of(const struct lane *lane, uint64_t budget)
{
    struct rp_plan plan = {0};
    assert_int_equal(compile(lane, budget, &plan), RP_OK);
    uint64_t hash = plan.hash;
    rp_plan_free(&plan);
    return hash;
}

static void the_same_data_gives_the_same_plan(void **state)
{
    (void)state;
    const struct model model = {.layers = 30, .microbatches = 3, .frozen = 3};
    struct lane *lane = lane_make(), *copy = lane_make();
    steps(lane, &model, 4);
    memcpy(copy, lane, sizeof(*copy));
    assert_true(hash_of(lane, ALL) == hash_of(copy, ALL));
    assert_true(hash_of(lane, RANKS * 7u * LAYER_BYTES) == hash_of(copy, RANKS * 7u * LAYER_BYTES));
    assert_true(hash_of(lane, ALL) != hash_of(copy, RANKS * 7u * LAYER_BYTES));
    /* A cycle later: the same again. What came before is no part of it. */
    step(copy, &model);
    assert_true(hash_of(lane, ALL) == hash_of(copy, ALL));
    copy->items[copy->count - 1].signature++;
    assert_int_equal(status_of(copy, ALL), RP_NOT_FOUND);
    free(lane);
    free(copy);
}

/* ---------------------------------------------------------------- a recorded run */

static void recorded_run(void **state)
{
    (void)state;
    static struct call calls[CALLS_MAX];
    struct lane *lane = lane_make();
    struct rp_plan plan = {0};
    size_t count = calls_read(calls);
    assert_int_equal(count, 91);
    for (size_t i = 0; i < count; i++) {
        uint64_t unit = 5381;
        for (const char *c = calls[i].module; *c != '\0'; c++)
            unit = unit * 33 + (unsigned char)*c;
        bool gather = calls[i].op.kind == RP_OP_ALL_GATHER;
        lane->items[lane->count++] = (struct rp_learned){
            .signature = rp_op_signature(&calls[i].op),
            .bytes = rp_op_bytes(&calls[i].op),
            .content = {gather ? unit : 0, gather ? i / 30 : 0},
            .kind = calls[i].op.kind,
        };
    }
    for (size_t end = 0; end <= count; end++) {
        enum rp_status status = rp_plan_compile(lane->items, end, RANKS, ALL, 1, &plan);
        assert_int_equal(status, end <= 68 ? RP_NOT_FOUND : RP_OK); /* 68: the third step's first reduction */
        if (status != RP_OK)
            continue;
        assert_int_equal(plan.first, end < 90 ? 30 : 60);
        assert_int_equal(plan.count, 30);
        assert_int_equal(plan.unit_count, 5);
        assert_int_equal(plan.slot_count, 5);
        assert_int_equal(plan.keeps, 15);
        assert_int_equal(plan.saved, 2u * (3u * 32768512u + 12u * 6292480u));
        rp_plan_free(&plan);
    }
    free(lane);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_steps),
        cmocka_unit_test(microbatches_are_one_cycle),
        cmocka_unit_test(never_a_microbatch),
        cmocka_unit_test(recompute),
        cmocka_unit_test(shared_block),
        cmocka_unit_test(evaluation_every_second_step),
        cmocka_unit_test(learning_rate_0_first),
        cmocka_unit_test(a_skipped_step_waits),
        cmocka_unit_test(equal_layers_part),
        cmocka_unit_test(equal_layers_stay),
        cmocka_unit_test(units_need_both_cycles),
        cmocka_unit_test(frozen_layers_are_kept_over_the_boundary),
        cmocka_unit_test(all_frozen),
        cmocka_unit_test(layers_without_change_are_no_cycle),
        cmocka_unit_test(activations_pass),
        cmocka_unit_test(small_ops_are_passed_over),
        cmocka_unit_test(reductions_elsewhere),
        cmocka_unit_test(nothing_fits),
        cmocka_unit_test(nothing_repeats),
        cmocka_unit_test(nothing_at_all),
        cmocka_unit_test(sizes_that_cannot_be_counted),
        cmocka_unit_test(a_smaller_budget_keeps_the_nearest),
        cmocka_unit_test(the_same_data_gives_the_same_plan),
        cmocka_unit_test(recorded_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
