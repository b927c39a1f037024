/*
 * The engine on lanes that cannot gain: each ends passive, after a few waits at most. The simulation checks that every
 * rank comes to the end and that every byte is the plain one.
 */
#include "replay_sim.h"

#define LAYERS 8u

static void assert_all_passive(const struct sim *sim, const char *why)
{
    for (uint32_t i = 0; i < sim->nranks; i++)
        assert_int_equal(rp_replay_state(sim->ranks[i].replay), RP_REPLAY_PASSIVE);
    assert_non_null(strstr(sim->ranks[0].last, why));
}

/* Frozen weights, kept from cycle to cycle: the first one armed only fills slots, and is no sign that ranks keep up. */
static void frozen_and_late(void **state)
{
    (void)state;
    for (uint32_t late = 0; late < LAYERS; late++) {
        struct sim *sim = sim_create(2, 1 + late);
        for (uint32_t i = 0; i < 400; i++) {
            for (uint32_t unit = 0; unit < LAYERS; unit++)
                sim_gather(&sim->program, unit)->withdrawn = unit == late;
        }
        sim_run(sim);
        assert_int_equal(sim_figures(sim, 0).armings, 3);
        assert_int_equal(sim_figures(sim, 0).withdrawn, 3);
        assert_all_passive(sim, "three times");
        sim_destroy(sim);
    }
}

/* Data parallelism: nothing to serve, so nothing to look for. */
static void no_gathers(void **state)
{
    (void)state;
    struct sim *sim = sim_create(2, 2);
    for (uint32_t i = 0; i < 5000; i++)
        sim_reduce(&sim->program, 1, sim_bytes(1));
    sim_run(sim);
    assert_all_passive(sim, "no gathers");
    sim_destroy(sim);
}

/* What the plan keeps last misses from some step on, and is no longer voted on: that replay is slower is said all the
 * same. */
static void slower_and_last_misses(void **state)
{
    (void)state;
    struct sim *sim = sim_create(2, 4);
    for (uint32_t step = 0; step < 60; step++) {
        for (uint32_t microbatch = 0; microbatch < 2; microbatch++) {
            for (uint32_t unit = 0; unit < 3 * LAYERS; unit++)
                sim_gather(&sim->program, unit);
            if (step > 5) /* about where it is armed */
                sim_change(&sim->program, 3 * LAYERS, 1);
            sim_gather(&sim->program, 3 * LAYERS);
            sim_reduce(&sim->program, 1, 5u << 20);
        }
        sim_change(&sim->program, UINT32_MAX, ALL_RANKS);
    }
    sim->hit_ns = 1100;
    sim_run(sim);
    assert_int_not_equal(rp_replay_state(sim->ranks[0].replay), RP_REPLAY_ARMED);
    assert_non_null(strstr(sim->ranks[0].last, "not faster"));
    sim_destroy(sim);
}

#define STEPS 60u

/* Two microbatches a step, all of one learned order. Virtual times; ratios below are of armed cycles. */
static struct sim *job(uint64_t seed, uint64_t hit_ns, uint64_t learn_ns)
{
    struct sim *sim = sim_create(2, seed);

    for (uint32_t step = 0; step < STEPS; step++) {
        for (uint32_t microbatch = 0; microbatch < 2; microbatch++) {
            for (uint32_t unit = 0; unit < LAYERS; unit++)
                sim_gather(&sim->program, unit);
            for (uint32_t unit = 0; unit < LAYERS; unit++)
                sim_gather(&sim->program, LAYERS - 1 - unit);
            sim_reduce(&sim->program, 1, 5u << 20);
        }
        sim_change(&sim->program, UINT32_MAX, ALL_RANKS);
    }
    sim->hit_ns = hit_ns;
    sim->learn_ns = learn_ns;
    sim_run(sim);
    return sim;
}

/* Learning is slower than plain by more than replay is: what was learned from is no measure. */
static void slower_than_plain_faster_than_learning(void **state)
{
    (void)state;
    struct sim *sim = job(5, 1040, 100);
    struct rp_replay_figures figures = sim_figures(sim, 0);

    assert_int_equal(figures.armings, 1); /* its retrial is 64 cycles away */
    assert_int_equal(rp_replay_state(sim->ranks[0].replay), RP_REPLAY_RESTING);
    assert_non_null(strstr(sim->ranks[0].last, "not faster"));
    assert_int_equal(figures.plain_cycle_ns, (4 * LAYERS + 2) * 1000);
    assert_true(figures.replay_cycle_ns < (4 * LAYERS + 2) * 1000 + 4 * LAYERS * 100);
    sim_destroy(sim);
}

/* A gain that is small beside learning is found by plain cycles, and kept. */
static void small_gain(void **state)
{
    (void)state;
    struct sim *sim = job(6, 930, 20);
    struct rp_replay_figures figures = sim_figures(sim, 0);

    assert_int_equal(figures.armings, 2);
    assert_int_equal(rp_replay_state(sim->ranks[0].replay), RP_REPLAY_ARMED);
    assert_int_equal(figures.plain_cycle_ns, (4 * LAYERS + 2) * 1000);
    assert_true(figures.hits > (STEPS - 20) * 3 * LAYERS);
    sim_destroy(sim);
}

/* A gain beyond doubt goes on at once. */
static void clear_gain(void **state)
{
    (void)state;
    struct sim *sim = job(7, 500, 20);

    assert_int_equal(sim_figures(sim, 0).armings, 1);
    assert_int_equal(rp_replay_state(sim->ranks[0].replay), RP_REPLAY_ARMED);
    sim_destroy(sim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frozen_and_late),
        cmocka_unit_test(no_gathers),
        cmocka_unit_test(slower_and_last_misses),
        cmocka_unit_test(slower_than_plain_faster_than_learning),
        cmocka_unit_test(small_gain),
        cmocka_unit_test(clear_gain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
