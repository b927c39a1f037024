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
#define OPS (2 * (2 * LAYERS + 1)) /* of a step */
#define KEPT (3 * LAYERS)          /* gathers of a step that repeat */

/* Two microbatches a step, all of one learned order; times of one call. */
static struct sim *job(uint64_t seed, uint32_t steps, uint64_t hit_ns, uint64_t learn_ns)
{
    struct sim *sim = sim_create(2, seed);

    sim_there_and_back(&sim->program, LAYERS, steps);
    sim->hit_ns = hit_ns;
    sim->learn_ns = learn_ns;
    return sim;
}

static void assert_off(const struct sim *sim, uint32_t armings)
{
    struct rp_replay_figures figures = sim_figures(sim, 0);

    assert_int_equal(figures.armings, armings);
    assert_int_equal(rp_replay_state(sim->ranks[0].replay), RP_REPLAY_RESTING);
    assert_non_null(strstr(sim->ranks[0].last, "not faster"));
    assert_int_equal(figures.plain_cycle_ns, OPS * 1000);
    assert_true(figures.replay_cycle_ns > OPS * 1000);
}

/* Learning is slower than plain by more than replay is: what was learned from is no measure. */
static void slower_than_plain_faster_than_learning(void **state)
{
    (void)state;
    struct sim *sim = job(5, STEPS, 1040, 100);
    sim_run(sim);
    assert_off(sim, 1); /* its retrial is 64 cycles away */
    sim_destroy(sim);
}

/* Longer even than cycles that were learned from: two of them are enough. */
static void slower_than_learning(void **state)
{
    (void)state;
    struct sim *sim = job(9, STEPS, 1200, 10);
    sim_run(sim);
    assert_off(sim, 1);
    /* what is left of the cycle it begins in, one that fills slots, two that are timed, and up to the vote */
    assert_true(sim_figures(sim, 0).hits < 5 * KEPT);
    sim_destroy(sim);
}

/* Learned while the program compiled: replay looks much faster, until plain cycles are timed. */
static void far_slower_while_learning(void **state)
{
    (void)state;
    struct sim *sim = job(8, 2 * STEPS, 1040, 2000);
    sim_run(sim);
    assert_off(sim, 1);
    sim_destroy(sim);
}

/* A gain that is small beside learning is found by plain cycles, and kept. */
static void small_gain(void **state)
{
    (void)state;
    struct sim *sim = job(6, STEPS, 930, 20);
    sim_run(sim);
    struct rp_replay_figures figures = sim_figures(sim, 0);
    assert_int_equal(figures.armings, 2);
    assert_int_equal(rp_replay_state(sim->ranks[0].replay), RP_REPLAY_ARMED);
    assert_int_equal(figures.plain_cycle_ns, OPS * 1000);
    assert_true(figures.hits > (STEPS - 20) * KEPT);
    sim_destroy(sim);
}

/* The same where the order is not followed from step to step while the lane rests: an evaluation behind every third. */
static void small_gain_beside_evaluation(void **state)
{
    (void)state;
    struct sim *sim = sim_create(2, 9);
    for (uint32_t step = 0; step < 2 * STEPS; step++) {
        for (uint32_t microbatch = 0; microbatch < 2; microbatch++) {
            for (uint32_t unit = 0; unit < 2 * LAYERS; unit++)
                sim_gather(&sim->program, unit % LAYERS);
            sim_reduce(&sim->program, 1, 5u << 20);
        }
        sim_change(&sim->program, UINT32_MAX, ALL_RANKS);
        for (uint32_t unit = 0; unit < LAYERS && step > 10 && step % 3 == 0; unit++)
            sim_gather(&sim->program, unit);
    }
    sim->hit_ns = 900;
    sim_run(sim);
    assert_int_equal(rp_replay_state(sim->ranks[0].replay), RP_REPLAY_ARMED);
    assert_int_equal(sim_figures(sim, 0).plain_cycle_ns, OPS * 1000);
    sim_destroy(sim);
}

/* A cycle of which the ring of past calls does not hold four. */
static void small_gain_of_a_long_cycle(void **state)
{
    (void)state;
    struct sim *sim = sim_create(2, 10);
    for (uint32_t step = 0; step < 30; step++) {
        for (uint32_t microbatch = 0; microbatch < 64; microbatch++) {
            for (uint32_t unit = 0; unit < 4 * LAYERS; unit++)
                sim_gather(&sim->program, unit);
            for (uint32_t unit = 0; unit < 4 * LAYERS; unit++)
                sim_gather(&sim->program, 4 * LAYERS - 1 - unit);
            sim_reduce(&sim->program, 1, 5u << 20);
        }
        sim_change(&sim->program, UINT32_MAX, ALL_RANKS);
    }
    sim->hit_ns = 950;
    sim_run(sim);
    assert_int_equal(rp_replay_state(sim->ranks[0].replay), RP_REPLAY_ARMED);
    assert_int_equal(sim_figures(sim, 0).armings, 2);
    sim_destroy(sim);
}

/* Only the other rank is slower: it says so once armed again. */
static void slower_on_another_rank(void **state)
{
    (void)state;
    struct sim *sim = job(11, STEPS, 930, 20);
    sim->hit_more_ns[1] = 120;
    sim_run(sim);
    assert_int_equal(sim_figures(sim, 0).armings, 2);
    assert_int_equal(rp_replay_state(sim->ranks[0].replay), RP_REPLAY_RESTING);
    assert_non_null(strstr(sim->ranks[0].last, "not faster on another rank"));
    assert_non_null(strstr(sim->ranks[1].last, "not faster: "));
    sim_destroy(sim);
}

/* Also where its times of the rest come when it is armed again already, or rank 0 alone has any. */
static void slower_on_a_late_rank(void **state)
{
    (void)state;
    for (uint32_t late = 0; late < 6; late++) {
        struct sim *sim = job(15, 8 * STEPS, 930, 20);
        sim->hit_more_ns[1] = 120;
        sim->late_on[1] = late;
        sim_run(sim);
        assert_int_not_equal(rp_replay_state(sim->ranks[0].replay), RP_REPLAY_ARMED);
        sim_destroy(sim);
    }
}

/* One retrial, 64 cycles behind, and then never again. */
static void one_retrial(void **state)
{
    (void)state;
    struct sim *sim = job(12, 3 * STEPS, 1040, 20);
    sim_run(sim);
    assert_int_equal(sim_figures(sim, 0).armings, 2);
    assert_all_passive(sim, "a second time");
    sim_destroy(sim);
}

/* Hosts run ahead: the device's times come late, and several together. */
static void times_come_late(void **state)
{
    (void)state;
    for (uint32_t late = 0; late < 4; late++) {
        struct sim *sim = job(14, STEPS, 930, 20);
        sim->stamps_late = late;
        sim_run(sim);
        assert_int_equal(rp_replay_state(sim->ranks[0].replay), RP_REPLAY_ARMED);
        assert_int_equal(sim_figures(sim, 0).plain_cycle_ns, OPS * 1000);
        sim_destroy(sim);

        sim = job(14, STEPS, 1040, 20);
        sim->stamps_late = late;
        sim_run(sim);
        assert_off(sim, 1);
        sim_destroy(sim);
    }
}

/* Asked not to judge, it goes on. */
static void goes_on_untried(void **state)
{
    (void)state;
    struct sim *sim = job(13, 2 * STEPS, 1040, 20);
    sim->untried = true;
    sim_run(sim);
    assert_int_equal(sim_figures(sim, 0).armings, 1);
    assert_int_equal(rp_replay_state(sim->ranks[0].replay), RP_REPLAY_ARMED);
    sim_destroy(sim);
}

/* A gain beyond doubt goes on at once, and is compared later. */
static void clear_gain(void **state)
{
    (void)state;
    struct sim *sim = job(7, STEPS, 100, 20);
    sim_run(sim);
    assert_int_equal(sim_figures(sim, 0).armings, 1);
    assert_int_equal(rp_replay_state(sim->ranks[0].replay), RP_REPLAY_ARMED);
    sim_destroy(sim);

    sim = job(7, 2 * STEPS, 100, 20);
    sim_run(sim);
    assert_int_equal(sim_figures(sim, 0).armings, 2);
    assert_int_equal(rp_replay_state(sim->ranks[0].replay), RP_REPLAY_ARMED);
    assert_int_equal(sim_figures(sim, 0).plain_cycle_ns, OPS * 1000);
    sim_destroy(sim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frozen_and_late),
        cmocka_unit_test(no_gathers),
        cmocka_unit_test(slower_and_last_misses),
        cmocka_unit_test(slower_than_plain_faster_than_learning),
        cmocka_unit_test(slower_than_learning),
        cmocka_unit_test(far_slower_while_learning),
        cmocka_unit_test(small_gain),
        cmocka_unit_test(small_gain_beside_evaluation),
        cmocka_unit_test(small_gain_of_a_long_cycle),
        cmocka_unit_test(slower_on_another_rank),
        cmocka_unit_test(slower_on_a_late_rank),
        cmocka_unit_test(one_retrial),
        cmocka_unit_test(times_come_late),
        cmocka_unit_test(goes_on_untried),
        cmocka_unit_test(clear_gain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
