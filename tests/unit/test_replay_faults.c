/*
 * The engine in jobs where something goes wrong: every rank comes to the end, every byte is the plain one, and a lane
 * that cannot gain ends passive. The simulation checks the first two.
 */
#include "replay_sim.h"

#define LAYERS 8u
#define STEPS 40u
#define ARMED_BY 15u /* steps after which every job here is armed */

static void add_steps(struct sim *sim, uint32_t steps, uint32_t microbatches)
{
    for (uint32_t i = 0; i < steps; i++) {
        sim_step(&sim->program, LAYERS, microbatches);
        sim_optimize(&sim->program);
    }
}

static struct sim *job(uint32_t nranks, uint64_t seed, uint32_t steps)
{
    struct sim *sim = sim_create(nranks, seed);
    add_steps(sim, steps, 4);
    return sim;
}

/* The gather so many after the last that is there by now. */
static struct sim_action *nth_gather(struct sim *sim, size_t from, size_t number)
{
    for (size_t i = from; i < sim->program.count; i++)
        if (sim->program.actions[i].act == SIM_GATHER && number-- == 0)
            return &sim->program.actions[i];
    fail();
    return NULL;
}

static void run(struct sim *sim, const char *name)
{
    sim_run(sim);
    if (sim->verbose)
        sim_show(sim, name);
}

static void assert_all(const struct sim *sim, enum rp_replay_state state)
{
    for (uint32_t i = 0; i < sim->nranks; i++)
        if (!sim->ranks[i].dead)
            assert_int_equal(rp_replay_state(sim->ranks[i].replay), state);
}

/* A host that waits for another elsewhere: each time a rank is late, never a hang, and at last no more of it. */
static void withdraws_always(void **state)
{
    (void)state;
    struct sim *sim = job(4, 1, STEPS);
    for (size_t i = 0; i < sim->program.count; i++)
        sim->program.actions[i].withdrawn = sim->program.actions[i].act == SIM_GATHER && i % 20 == 0;
    run(sim, "withdraws always");
    struct rp_replay_figures figures = sim_figures(sim, 0);
    assert_int_equal(figures.armings, 3);
    assert_int_equal(figures.withdrawn, 3);
    assert_non_null(strstr(sim->ranks[0].last, "three times"));
    assert_all(sim, RP_REPLAY_PASSIVE);
    sim_destroy(sim);
}

static void withdraws_now_and_then(void **state)
{
    (void)state;
    struct sim *sim = job(2, 2, 2 * STEPS);
    for (size_t i = 0; i < 4; i++)
        nth_gather(sim, sim->program.count * (i + 3) / 8, 11)->withdrawn = true;
    run(sim, "withdraws now and then");
    assert_int_equal(sim_figures(sim, 0).armings, 5);
    assert_all(sim, RP_REPLAY_ARMED);
    assert_true(sim_hit_percent(sim) > 90);
    sim_destroy(sim);
}

/* A checkpoint now and then, in a long run: more armings than there are places for. */
static void withdraws_through_a_long_run(void **state)
{
    (void)state;
    const size_t times = RP_AGREE_ARMINGS + 16;
    struct sim *sim = job(2, 15, 8 * times + ARMED_BY);
    for (size_t i = 0; i < times; i++)
        nth_gather(sim, sim->program.count * (2 * i + 5) / (2 * times + 5), 11)->withdrawn = true;
    run(sim, "withdraws through a long run");
    assert_true(sim_figures(sim, 0).armings > RP_AGREE_ARMINGS);
    assert_all(sim, RP_REPLAY_ARMED);
    sim_destroy(sim);
}

/* Each order is replayed long enough to pay for learning the next. */
static void orders_of_a_long_run(void **state)
{
    (void)state;
    struct sim *sim = sim_create(2, 16);
    for (uint32_t order = 0; order < 8; order++)
        for (uint32_t step = 0; step < 90; step++) {
            for (uint32_t microbatch = 0; microbatch < 2; microbatch++) {
                for (uint32_t unit = 0; unit < LAYERS; unit++) {
                    sim_gather(&sim->program, order % 2 == 0 ? unit : 2 * LAYERS - unit);
                    sim_reduce(&sim->program, 1, (5u + order % 2) << 20);
                }
            }
            sim_optimize(&sim->program);
        }
    run(sim, "orders of a long run");
    assert_true(sim->ranks[0].entered[RP_REPLAY_LEARNING] >= 7);
    assert_all(sim, RP_REPLAY_ARMED);
    assert_true(sim_hit_percent(sim) > 60);
    sim_destroy(sim);
}

/* Polls that run out by chance, at any op. */
static void short_bounds(void **state)
{
    (void)state;
    for (uint32_t seed = 1; seed <= 40; seed++) {
        struct sim *sim = job(2 + seed % 3, seed, STEPS);
        sim->bound = 4 + seed * 2;
        run(sim, "short bounds");
        sim_destroy(sim);
    }
}

static void killed(void **state)
{
    (void)state;
    struct sim *sim = job(4, 3, STEPS);
    sim->dies = true;
    sim->dies_at = sim->program.count * 2 / 3;
    run(sim, "killed");
    assert_true(sim->ranks[1].dead);
    struct rp_replay_figures figures = sim_figures(sim, 0);
    assert_true(figures.hits > 0);
    assert_int_equal(figures.withdrawn, 1);
    assert_true(rp_replay_state(sim->ranks[0].replay) != RP_REPLAY_ARMED);
    sim_destroy(sim);
}

static void add_loss(struct sim *sim, unsigned ranks)
{
    sim_add(&sim->program, (struct sim_action){.act = SIM_LOSE, .ranks = ranks});
}

static void memory_lost(void **state)
{
    (void)state;
    struct sim *sim = job(2, 4, ARMED_BY);
    add_loss(sim, 2);
    add_steps(sim, STEPS, 4);
    run(sim, "memory lost");
    assert_int_equal(sim_figures(sim, 0).armings, 2);
    assert_int_equal(sim->ranks[0].entered[RP_REPLAY_RESTING], 1);
    assert_all(sim, RP_REPLAY_ARMED);
    sim_destroy(sim);
}

static void budget_ends(void **state)
{
    (void)state;
    struct sim *sim = job(2, 4, ARMED_BY);
    add_loss(sim, 2);
    add_steps(sim, STEPS, 4);
    sim->budget_after_loss = 1;
    run(sim, "no budget left");
    assert_all(sim, RP_REPLAY_PASSIVE);
    assert_non_null(strstr(sim->ranks[0].last, "kept in memory"));
    sim_destroy(sim);
}

static void smaller_budget(void **state)
{
    (void)state;
    struct sim *sim = job(2, 4, ARMED_BY);
    add_loss(sim, 1);
    add_steps(sim, STEPS, 4);
    sim->budget_after_loss = 4 * 2 * sim_bytes(1);
    run(sim, "a smaller budget");
    assert_all(sim, RP_REPLAY_ARMED);
    assert_non_null(strstr(sim->ranks[1].last, "4 slots"));
    sim_destroy(sim);
}

/* The budget of half of the units: packed two thirds of them are kept. One rank finds what has no packed form. */
static void unpackable(void **state)
{
    (void)state;
    for (unsigned ranks = 1; ranks <= 2; ranks++) {
        struct sim *sim = job(2, 4, ARMED_BY);
        sim->packs = true;
        sim->budget = 6 * 2 * sim_bytes(1);
        run(sim, "packed");
        assert_all(sim, RP_REPLAY_ARMED);
        assert_non_null(strstr(sim->ranks[1].last, "7 slots"));
        assert_non_null(strstr(sim->ranks[1].last, ", packed"));
        sim_destroy(sim);

        sim = job(2, 4, ARMED_BY);
        sim->packs = true;
        sim->budget = 6 * 2 * sim_bytes(1);
        sim_add(&sim->program, (struct sim_action){.act = SIM_UNPACKABLE, .ranks = ranks});
        add_steps(sim, STEPS, 4);
        run(sim, "unpackable");
        assert_int_equal(sim_figures(sim, 0).armings, 2);
        assert_int_equal(sim_figures(sim, 1).withdrawn, 0);
        assert_all(sim, RP_REPLAY_ARMED);
        assert_null(strstr(sim->ranks[1].last, "packed"));
        sim_destroy(sim);
    }
}

/* Before anything is armed: nothing is packed at all. */
static void unpackable_from_the_start(void **state)
{
    (void)state;
    struct sim *sim = sim_create(2, 4);
    sim->packs = true;
    sim->budget = 6 * 2 * sim_bytes(1);
    sim_add(&sim->program, (struct sim_action){.act = SIM_UNPACKABLE, .ranks = 2});
    add_steps(sim, STEPS, 4);
    run(sim, "unpackable from the start");
    assert_int_equal(sim_figures(sim, 0).armings, 1);
    assert_all(sim, RP_REPLAY_ARMED);
    assert_null(strstr(sim->ranks[0].last, "packed"));
    sim_destroy(sim);
}

static void insert(struct sim *sim, size_t at, struct sim_action action)
{
    sim_add(&sim->program, action);
    struct sim_action *place = &sim->program.actions[at];
    memmove(place + 1, place, (sim->program.count - 1 - at) * sizeof(*place));
    *place = action;
}

/* While it is learned, proposed or armed, or at rest after a withdrawal, when the same plan would be proposed again. */
static void unpackable_at_any_moment(void **state)
{
    (void)state;
    size_t rearmed = 0;
    for (uint32_t round = 0; round < 220; round++) { /* at each action about the first proposal */
        struct sim *sim = job(2, round + 1, ARMED_BY + STEPS);
        size_t at = 2 * sim->program.count / 55 + (round < 100 ? round : (round - 100) * 9);
        sim->packs = true;
        sim->budget = 6 * 2 * sim_bytes(1);
        nth_gather(sim, 8 * sim->program.count / 55, 11)->withdrawn = true;
        insert(sim, at, (struct sim_action){.act = SIM_UNPACKABLE, .ranks = 1 + round % 3});
        run(sim, "unpackable at any moment");
        rearmed += sim_figures(sim, 0).armings > 2;
        assert_all(sim, RP_REPLAY_ARMED);
        assert_null(strstr(sim->ranks[0].last, "packed"));
        assert_int_equal(sim->ranks[0].entered[RP_REPLAY_LEARNING], 0);
        sim_destroy(sim);
    }
    assert_in_range(rearmed, 60, 180);
}

/* By rank 0 right behind a withdrawal: what it then proposes packs nothing. */
static void unpackable_at_rest(void **state)
{
    (void)state;
    struct sim *sim = job(2, 4, ARMED_BY + STEPS);
    struct sim_action *late = nth_gather(sim, sim->program.count / 5, 11);
    sim->packs = true;
    sim->budget = 6 * 2 * sim_bytes(1);
    late->withdrawn = true;
    insert(sim, (size_t)(late - sim->program.actions) + 1, (struct sim_action){.act = SIM_UNPACKABLE, .ranks = 1});
    run(sim, "unpackable at rest");
    assert_int_equal(sim_figures(sim, 0).withdrawn, 1);
    assert_int_equal(sim_figures(sim, 0).armings, 2);
    assert_all(sim, RP_REPLAY_ARMED);
    assert_null(strstr(sim->ranks[0].last, "packed"));
    sim_destroy(sim);
}

static void not_faster(void **state)
{
    (void)state;
    struct sim *sim = job(2, 5, STEPS * 3);
    sim->hit_ns = 1100;
    run(sim, "not faster");
    struct rp_replay_figures figures = sim_figures(sim, 0);
    assert_int_equal(figures.armings, 2);
    assert_true(figures.replay_cycle_ns >= figures.plain_cycle_ns);
    assert_all(sim, RP_REPLAY_PASSIVE);
    assert_int_equal(sim->ranks[0].entered[RP_REPLAY_RESTING], 3); /* plain cycles timed, off, off */
    sim_destroy(sim);
}

static void figures_of_time(void **state)
{
    (void)state;
    struct sim *sim = job(2, 6, 3 * STEPS); /* and compared */
    run(sim, "faster");
    struct rp_replay_figures figures = sim_figures(sim, 1);
    uint64_t ops = 4 * (2 * (LAYERS + 1) + LAYERS + 1), hits = 7 * (LAYERS + 1);
    assert_int_equal(figures.plain_cycle_ns, ops * 1000);
    assert_int_equal(figures.replay_cycle_ns, ops * 1000 - hits * 900);
    assert_int_equal(rp_replay_bound_ns(sim->ranks[1].replay), 20000000);
    sim_destroy(sim);
}

/* A rank may wait for another communicator's first vote of an arming, in which hosts are some cycles behind. */
static void a_wait_may_take_some_cycles(void **state)
{
    (void)state;
    struct sim *sim = job(2, 6, 3 * STEPS);
    sim->plain_ns = 1000000;
    run(sim, "bound");
    struct rp_replay_figures figures = sim_figures(sim, 1);
    assert_true(figures.plain_cycle_ns > 20000000);
    assert_int_equal(rp_replay_bound_ns(sim->ranks[1].replay), 4 * figures.plain_cycle_ns);
    sim_destroy(sim);
}

static void groups(void **state)
{
    (void)state;
    for (uint32_t seed = 1; seed <= 8; seed++) {
        struct sim *sim = job(2 + seed % 3, seed, STEPS);
        for (size_t i = 1; i < sim->program.count; i++) {
            const struct sim_action *before = &sim->program.actions[i - 1];
            struct sim_action *action = &sim->program.actions[i];
            bool ops = before->act != SIM_CHANGE && action->act != SIM_CHANGE;
            action->grouped = ops && i % 4 != 0 && (i / 16) % 2 == 0;
        }
        run(sim, "groups");
        assert_all(sim, RP_REPLAY_ARMED);
        assert_true(sim_hit_percent(sim) > 90);
        sim_destroy(sim);
    }
}

/* Two gathers of a unit in one group: the second finds the slot in use and passes. */
static void twice_in_a_group(void **state)
{
    (void)state;
    struct sim *sim = sim_create(2, 7);
    for (uint32_t i = 0; i < STEPS; i++) {
        for (uint32_t j = 0; j < 4; j++) {
            for (uint32_t unit = 1; unit < 6; unit++) {
                sim_gather(&sim->program, unit);
                sim_gather(&sim->program, unit)->grouped = true;
            }
            sim_reduce(&sim->program, 1, sim_bytes(1));
        }
        sim_optimize(&sim->program);
    }
    run(sim, "twice in a group");
    assert_all(sim, RP_REPLAY_ARMED);
    assert_true(sim_figures(sim, 0).hits > 0);
    assert_true(sim_figures(sim, 0).passed > 0);
    sim_destroy(sim);
}

static void failed_calls(void **state)
{
    (void)state;
    for (uint32_t seed = 1; seed <= 8; seed++) {
        struct sim *sim = job(2, seed, STEPS);
        for (size_t i = seed; i < sim->program.count; i += 333 + seed)
            sim->program.actions[i].fails = sim->program.actions[i].act == SIM_REDUCE;
        run(sim, "failed calls");
        assert_true(sim_figures(sim, 0).hits > 0);
        sim_destroy(sim);
    }
}

/* A program error on one rank: whatever the ranks vote on, no two different ops make a yes. */
static void shifted(void **state)
{
    (void)state;
    for (uint32_t unit = 0; unit < 3; unit++) {
        struct sim *sim = job(3, 8 + unit, ARMED_BY);
        sim_gather(&sim->program, unit)->ranks = 2;
        add_steps(sim, STEPS, 4);
        run(sim, "shifted");
        assert_all(sim, RP_REPLAY_PASSIVE);
        assert_true(sim_figures(sim, 0).hits > 0);
        sim_destroy(sim);
    }
}

static void strict(void **state)
{
    (void)state;
    struct sim *sim = job(2, 9, ARMED_BY);
    sim->strict = true;
    sim_gather(&sim->program, 3);
    sim_reduce(&sim->program, 0, 4); /* foreign: passes */
    add_steps(sim, 4, 4);
    run(sim, "strict");
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(sim->ranks[i].refusals, 1);
        assert_string_equal(rp_replay_refusal(sim->ranks[i].replay),
                            "expected all-gather 3.0 MiB, observed all-gather 2.0 MiB uint8");
    }
    assert_all(sim, RP_REPLAY_ARMED);
    assert_true(sim_hit_percent(sim) > 90);
    sim_destroy(sim);
}

/* Four microbatches, then two: what was learned no longer holds. */
static void order_changes(void **state)
{
    (void)state;
    struct sim *sim = job(2, 10, ARMED_BY);
    for (uint32_t i = 0; i < STEPS * 2; i++) {
        for (uint32_t unit = 20; unit < 30; unit++)
            for (uint32_t j = 0; j < 2; j++)
                sim_add(&sim->program,
                        (struct sim_action){.act = SIM_GATHER, .unit = unit, .bytes = 5u << 20, .ranks = ALL_RANKS});
        sim_reduce(&sim->program, 1, 6u << 20);
        sim_optimize(&sim->program);
    }
    run(sim, "the order changes");
    assert_int_equal(sim->ranks[0].entered[RP_REPLAY_LEARNING], 1);
    assert_int_equal(sim->ranks[1].entered[RP_REPLAY_LEARNING], 1);
    assert_int_equal(sim_figures(sim, 1).armings, 3); /* the second plan rested once, to compare */
    assert_all(sim, RP_REPLAY_ARMED);
    sim_destroy(sim);
}

/* Microbatches become fewer: the same signatures, another cycle. */
static void fewer_microbatches(void **state)
{
    (void)state;
    struct sim *sim = job(2, 11, ARMED_BY);
    add_steps(sim, STEPS * 2, 2);
    run(sim, "fewer microbatches");
    assert_all(sim, RP_REPLAY_ARMED);
    assert_true(sim_hit_percent(sim) > 80);
    sim_destroy(sim);
}

/* Content that repeats while it is learned and never after: no harm, and no more votes on it. */
static void repeats_no_more(void **state)
{
    (void)state;
    struct sim *sim = job(2, 12, ARMED_BY);
    for (uint32_t i = 0; i < STEPS * 2; i++)
        for (uint32_t j = 0; j < 4; j++) {
            sim_step(&sim->program, LAYERS, 1);
            sim_optimize(&sim->program);
        }
    run(sim, "repeats no more");
    sim_destroy(sim);
}

static void one_unit_misses(void **state)
{
    (void)state;
    struct sim *sim = job(2, 13, ARMED_BY);
    for (uint32_t i = 0; i < STEPS; i++) {
        for (uint32_t j = 0; j < 4; j++) {
            sim_change(&sim->program, 3, 1);
            sim_step(&sim->program, LAYERS, 1);
        }
        sim_optimize(&sim->program);
    }
    run(sim, "one unit misses");
    assert_all(sim, RP_REPLAY_ARMED);
    assert_true(sim_hit_percent(sim) > 95);
    assert_true(sim_figures(sim, 0).misses <= 6); /* two cycles of three, then it is no longer voted on */
    sim_destroy(sim);
}

static void never_repeats(void **state)
{
    (void)state;
    struct sim *sim = sim_create(2, 14);
    for (uint32_t i = 0; i < 800; i++) {
        sim_change(&sim->program, 1, ALL_RANKS);
        sim_gather(&sim->program, 1);
        sim_reduce(&sim->program, 1, sim_bytes(1));
    }
    run(sim, "never repeats");
    assert_all(sim, RP_REPLAY_PASSIVE);
    assert_non_null(strstr(sim->ranks[0].last, "no gather repeats"));
    sim_destroy(sim);
}

/* Nor do its sizes, so that there is no cycle either. */
static void no_order(void **state)
{
    (void)state;
    struct sim *sim = sim_create(2, 14);
    for (uint32_t i = 0; i < 800; i++) {
        sim_change(&sim->program, 1, ALL_RANKS);
        sim_gather(&sim->program, 1)->bytes += (sim_random(sim) % 1000) << 10;
    }
    run(sim, "no order");
    assert_all(sim, RP_REPLAY_PASSIVE);
    assert_non_null(strstr(sim->ranks[0].last, "never repeat"));
    sim_destroy(sim);
}

static void ends(void **state)
{
    (void)state;
    struct sim *sim = job(2, 15, ARMED_BY);
    run(sim, "ends");
    assert_all(sim, RP_REPLAY_ARMED);
    assert_false(rp_replay_idle(sim->ranks[0].replay));
    rp_replay_end(sim->ranks[0].replay);
    rp_replay_end(sim->ranks[0].replay);
    assert_int_equal(rp_replay_state(sim->ranks[0].replay), RP_REPLAY_PASSIVE);
    assert_true(rp_replay_idle(sim->ranks[0].replay));
    assert_true(rp_agree_given_up(&sim->ranks[1].agree));
    assert_non_null(rp_replay_plan(sim->ranks[0].replay));
    sim_destroy(sim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(withdraws_always),
        cmocka_unit_test(withdraws_now_and_then),
        cmocka_unit_test(withdraws_through_a_long_run),
        cmocka_unit_test(orders_of_a_long_run),
        cmocka_unit_test(short_bounds),
        cmocka_unit_test(killed),
        cmocka_unit_test(memory_lost),
        cmocka_unit_test(unpackable),
        cmocka_unit_test(unpackable_from_the_start),
        cmocka_unit_test(unpackable_at_any_moment),
        cmocka_unit_test(unpackable_at_rest),
        cmocka_unit_test(budget_ends),
        cmocka_unit_test(smaller_budget),
        cmocka_unit_test(not_faster),
        cmocka_unit_test(figures_of_time),
        cmocka_unit_test(a_wait_may_take_some_cycles),
        cmocka_unit_test(groups),
        cmocka_unit_test(twice_in_a_group),
        cmocka_unit_test(failed_calls),
        cmocka_unit_test(shifted),
        cmocka_unit_test(strict),
        cmocka_unit_test(order_changes),
        cmocka_unit_test(fewer_microbatches),
        cmocka_unit_test(repeats_no_more),
        cmocka_unit_test(one_unit_misses),
        cmocka_unit_test(never_repeats),
        cmocka_unit_test(no_order),
        cmocka_unit_test(ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
