/*
 * Gathers ahead in jobs of several ranks: what is issued is the same on all ranks at every call, whatever comes
 * between; what is served is right; and where the order repeats, prefetches are hits.
 */
#include "replay_sim.h"

#define LAYERS 8u
#define STEPS 40u
#ifdef __SANITIZE_ADDRESS__
#define JOBS 30u
#else
#define JOBS 150u
#endif

/* Times that prefetches pay with, and room for so many units of the layers' size. */
static struct sim *job(uint32_t nranks, uint64_t seed, uint32_t units)
{
    struct sim *sim = sim_create(nranks, seed);

    sim->ahead = sim->untried = true;
    sim->budget = nranks * units * sim_bytes(1);
    sim->gap_ns = 2000000;
    sim->mib_ns = 600000;
    return sim;
}

static void plain_steps(struct sim *sim, uint32_t steps)
{
    for (uint32_t i = 0; i < steps; i++) {
        for (uint32_t microbatch = 0; microbatch < 2; microbatch++)
            sim_step(&sim->program, LAYERS, 1);
        sim_optimize(&sim->program);
    }
}

static void insert(struct sim *sim, size_t at, struct sim_action action)
{
    sim_add(&sim->program, action);
    struct sim_action *place = &sim->program.actions[at];
    memmove(place + 1, place, (sim->program.count - 1 - at) * sizeof(*place));
    *place = action;
}

static void prefetches_are_hits(void **state)
{
    (void)state;
    for (uint32_t seed = 1; seed <= 12; seed++) {
        struct sim *sim = job(2 + seed % 3, seed, 5);
        plain_steps(sim, STEPS);
        sim_run(sim);
        struct rp_replay_figures figures = sim_figures(sim, 0);
        if (sim->verbose)
            sim_show(sim, "ahead");
        assert_true(rp_replay_plan(sim->ranks[0].replay)->prefetches > 4);
        assert_int_equal(figures.armings, 1);
        assert_int_equal(figures.misses, 0);
        assert_int_equal(figures.withdrawn, 0);
        assert_true(figures.ahead > 20u * rp_replay_plan(sim->ranks[0].replay)->prefetches);
        assert_int_equal(sim->ranks[0].fills_where_expected, figures.ahead);
        for (uint32_t i = 0; i < sim->nranks; i++)
            assert_int_equal(sim->ranks[i].fills, sim->ranks[0].fills);
        sim_destroy(sim);
    }
}

/* From where the ranks always send: new content too, behind the first gather of a step. */
static void from_live_buffers(void **state)
{
    (void)state;
    for (uint32_t seed = 1; seed <= 12; seed++) {
        struct sim *sim = job(2 + seed % 3, seed, 3 + seed % 3);
        sim->persistent = true;
        plain_steps(sim, STEPS);
        sim_run(sim);
        struct rp_replay_figures figures = sim_figures(sim, 0);
        const struct rp_plan *plan = rp_replay_plan(sim->ranks[0].replay);
        size_t fresh = 0;
        for (size_t i = 0; i < LAYERS + 1; i++) /* the first forward */
            fresh += plan->entries[i].action == RP_PLAN_PREFETCH;
        if (sim->verbose)
            sim_show(sim, "live");
        assert_true(fresh >= LAYERS / 2);
        assert_int_equal(plan->snapshot_count, 0);
        assert_int_equal(figures.armings, 1);
        assert_int_equal(figures.misses, 0);
        assert_int_equal(figures.withdrawn, 0);
        assert_true(figures.ahead > 20u * plan->prefetches);
        for (uint32_t i = 0; i < sim->nranks; i++)
            assert_int_equal(sim->ranks[i].fills_live, sim->ranks[i].fills);
        sim_destroy(sim);
    }
}

/* An optimizer that is not done where the step's first gather is: what was gathered ahead is served to nobody, and
 * after two such steps those gathers are left to the network. */
static void a_race_with_the_optimizer(void **state)
{
    (void)state;
    for (uint32_t seed = 1; seed <= 12; seed++) {
        struct sim *sim = job(2 + seed % 3, seed, 5);
        uint32_t late = 1 + seed % LAYERS;
        unsigned ranks = seed % 2 == 0 ? ALL_RANKS : 1u << seed % sim->nranks;
        sim->persistent = true;
        for (uint32_t i = 0; i < STEPS; i++) {
            bool races = i >= STEPS / 2 && i < STEPS / 2 + 6;
            for (uint32_t microbatch = 0; microbatch < 2; microbatch++) {
                size_t begin = sim->program.count;
                sim_step(&sim->program, LAYERS, 1);
                if (races && microbatch == 0) /* right before its own gather */
                    insert(sim, begin + late, (struct sim_action){.act = SIM_CHANGE, .unit = late, .ranks = ranks});
            }
            sim_optimize(&sim->program);
        }
        sim_run(sim);
        assert_true(sim_figures(sim, 0).misses > 0);
        assert_true(sim_figures(sim, 0).misses < 20);
        assert_true(sim_figures(sim, 0).ahead > 100);
        assert_int_equal(sim_figures(sim, 0).armings, 1);
        sim_destroy(sim);
    }
}

/* A rank that can't join: plans without gathers ahead, on all. */
static void a_rank_without_a_child(void **state)
{
    (void)state;
    for (uint32_t rank = 0; rank < 3; rank++) {
        struct sim *sim = job(3, rank + 1, 5);
        plain_steps(sim, STEPS);
        sim->childless = 1u << rank;
        sim_run(sim);
        assert_int_equal(rp_replay_plan(sim->ranks[0].replay)->prefetches, 0);
        assert_true(sim_figures(sim, 0).hits > 0);
        assert_int_equal(sim->fill_count, 0);
        for (uint32_t i = 0; i < sim->nranks; i++)
            assert_int_equal(sim->ranks[i].lefts, 1);
        sim_destroy(sim);
    }
}

/* All have joined, but one says no to every WARM, or COMMIT: as above, once that has gone on for long enough. */
static void a_rank_that_is_never_ready(void **state)
{
    (void)state;
    for (uint32_t number = 0; number < 6; number++) {
        struct sim *sim = job(3, number + 1, 5);
        plain_steps(sim, STEPS);
        sim->unwarmed = number < 3 ? 1u << number : 0;
        sim->unready = number < 3 ? 0 : 1u << (number - 3);
        sim_run(sim);
        assert_int_equal(sim->fill_count, 0);
        for (uint32_t i = 0; i < sim->nranks; i++) {
            assert_int_equal(sim->ranks[i].lefts, 1); /* it had joined */
            assert_int_equal(sim->ranks[i].entered[RP_REPLAY_RESTING], 1);
            assert_int_equal(rp_replay_state(sim->ranks[i].replay), RP_REPLAY_ARMED);
            assert_int_equal(rp_replay_plan(sim->ranks[i].replay)->prefetches, 0);
            assert_int_equal(sim_figures(sim, i).armings, 2);
            assert_int_equal(sim_figures(sim, i).withdrawn, 0);
        }
        assert_true(sim_hit_percent(sim) > 20);
        sim_destroy(sim);
    }
}

/* ---------------------------------------------------------------- an arming ends within a committed cycle */

/* A gather of the second half of the job, so many further on. */
static size_t late_gather(const struct sim *sim, size_t number)
{
    size_t at = sim->program.count / 2;

    for (; sim->program.actions[at].act != SIM_GATHER || number-- > 0; at++)
        assert_true(at + 1 < sim->program.count);
    return at;
}

/* Nobody is served any more, but the rest of the cycle is issued, by all ranks: sim_issue() sees to alike. */
static void a_withdrawal_within_a_cycle(void **state)
{
    (void)state;
    uint32_t cases = 0;

    for (uint32_t seed = 1; seed <= 24; seed++) {
        struct sim *sim = job(2 + seed % 3, seed, 5);
        plain_steps(sim, STEPS);
        sim->program.actions[late_gather(sim, seed)].withdrawn = true;
        sim_run(sim);
        for (uint32_t i = 0; i < sim->nranks; i++) {
            assert_int_equal(sim->ranks[i].fills, sim->ranks[0].fills);
            assert_int_equal(rp_replay_state(sim->ranks[i].replay), RP_REPLAY_ARMED); /* again */
            cases += sim->ranks[i].fills_resting > 0;
        }
        sim_destroy(sim);
    }
    assert_true(cases > 24);
}

/* One rank gives the lane up; the others see it some calls later. */
static void given_up_within_a_cycle(void **state)
{
    (void)state;
    uint32_t cases = 0;

    for (uint32_t seed = 1; seed <= 24; seed++) {
        struct sim *sim = job(2 + seed % 3, seed, 5);
        plain_steps(sim, STEPS);
        insert(sim, late_gather(sim, seed), (struct sim_action){.act = SIM_GIVE_UP, .ranks = 1u << seed % sim->nranks});
        sim_run(sim);
        for (uint32_t i = 0; i < sim->nranks; i++) {
            assert_int_equal(sim->ranks[i].fills, sim->ranks[0].fills);
            assert_int_equal(rp_replay_state(sim->ranks[i].replay), RP_REPLAY_PASSIVE);
            assert_int_equal(sim->ranks[i].lefts, 1); /* the child has ended, everywhere */
            cases += sim->ranks[i].fills_passive > 0;
        }
        sim_destroy(sim);
    }
    assert_true(cases > 24);
}

/* One rank's call is refused (a wrong argument), and made again: it is where the others are, and issues what they do.
 */
static void a_call_refused_within_a_cycle(void **state)
{
    (void)state;
    for (uint32_t seed = 1; seed <= 24; seed++) {
        struct sim *sim = job(2 + seed % 3, seed, 5);
        plain_steps(sim, STEPS);
        sim->program.actions[late_gather(sim, seed)].refused = 1u << seed % sim->nranks;
        sim->program.actions[late_gather(sim, 2 * seed)].refused = 1u << seed % sim->nranks;
        sim_run(sim);
        for (uint32_t i = 0; i < sim->nranks; i++) {
            assert_int_equal(sim->ranks[i].fills, sim->ranks[0].fills);
            assert_int_equal(rp_replay_state(sim->ranks[i].replay), RP_REPLAY_ARMED); /* again */
        }
        sim_destroy(sim);
    }
}

/* NCCL would pair one unit's part with another's from there on: nothing is served any more. */
static void other_gathers_on_one_rank(void **state)
{
    (void)state;
    for (uint32_t seed = 1; seed <= 12; seed++) {
        struct sim *sim = job(2 + seed % 3, seed, 5);
        plain_steps(sim, STEPS);
        size_t at = late_gather(sim, seed);
        insert(sim, at, (struct sim_action){.act = SIM_STRAY, .ranks = 1u << seed % sim->nranks});
        sim_run(sim);
        for (size_t i = at; i < sim->program.count; i++)
            assert_int_equal(sim->program.actions[i].served, 0);
        for (uint32_t i = 0; i < sim->nranks; i++)
            assert_int_equal(rp_replay_state(sim->ranks[i].replay), RP_REPLAY_PASSIVE);
        sim_destroy(sim);
    }
}

/* ---------------------------------------------------------------- memory is given back */

static uint64_t bytes_of(const struct rp_plan *plan)
{
    uint64_t bytes = 0;

    for (size_t i = 0; i < plan->slot_count; i++)
        bytes += plan->slot_bytes[i];
    for (size_t i = 0; i < plan->snapshot_count; i++)
        bytes += plan->snapshot_bytes[i];
    return bytes;
}

/* Some ranks lose their memory within a step, and could give less from then on. */
static struct sim *job_that_loses(uint32_t seed, uint64_t budget_share)
{
    struct sim *sim = job(2 + seed % 3, seed, 6);
    unsigned ranks = 1 + (unsigned)sim_random(sim) % ((1u << sim->nranks) - 1);

    plain_steps(sim, STEPS);
    insert(sim, late_gather(sim, seed), (struct sim_action){.act = SIM_LOSE, .ranks = ranks});
    sim->budget_after_loss = sim->budget * budget_share / 100 + 1;
    sim_run(sim);
    return sim;
}

/* What still is issued goes into the largest slot, and is served to nobody; then a plan for what is left. */
static void memory_given_back(void **state)
{
    (void)state;
    size_t sunk = 0;

    for (uint32_t seed = 1; seed <= 40; seed++) {
        struct sim *sim = job_that_loses(seed, 60);
        for (uint32_t i = 0; i < sim->nranks; i++) {
            const struct rp_plan *plan = rp_replay_plan(sim->ranks[i].replay);
            assert_int_equal(rp_replay_state(sim->ranks[i].replay), RP_REPLAY_ARMED);
            assert_true(bytes_of(plan) <= sim->budget);
            assert_int_equal(sim_figures(sim, i).armings, 2);
            assert_int_equal(sim->ranks[i].fills, sim->ranks[0].fills);
            sunk += sim->ranks[i].fills_sunk;
        }
        sim_destroy(sim);
    }
    assert_true(sunk > 0);
}

static void all_memory_given_back(void **state)
{
    (void)state;
    for (uint32_t seed = 1; seed <= 12; seed++) {
        struct sim *sim = job_that_loses(seed, 0);
        for (uint32_t i = 0; i < sim->nranks; i++) {
            assert_int_equal(rp_replay_state(sim->ranks[i].replay), RP_REPLAY_PASSIVE);
            assert_int_equal(sim->ranks[i].fills, sim->ranks[0].fills);
        }
        assert_non_null(strstr(sim->ranks[0].last, "kept in memory"));
        sim_destroy(sim);
    }
}

/* New content in the middle of a step: what was gathered ahead of the old one is served to nobody. */
static void new_content_within_a_step(void **state)
{
    (void)state;
    for (uint32_t seed = 1; seed <= 20; seed++) {
        struct sim *sim = job(2, seed, 4 + seed % 3);
        for (uint32_t i = 0; i < STEPS; i++) {
            for (uint32_t microbatch = 0; microbatch < 2; microbatch++) {
                sim_step(&sim->program, LAYERS, 1);
                if (i > 15 && i % 4 == 0)
                    sim_change(&sim->program, (uint32_t)(sim_random(sim) % LAYERS), (unsigned)sim_random(sim) % 3 + 1);
            }
            sim_optimize(&sim->program);
        }
        sim_run(sim);
        assert_true(sim_figures(sim, 0).misses > 0);
        assert_true(sim_figures(sim, 0).ahead > 0);
        sim_destroy(sim);
    }
}

/* ---------------------------------------------------------------- anything */

static bool groups(const struct sim_action *action)
{
    return (action->act == SIM_GATHER || action->act == SIM_REDUCE) && action->ranks == ALL_RANKS && !action->fails;
}

/* Some calls come two to four in a group. */
static void group_some(struct sim *sim)
{
    uint32_t size = 1;

    for (size_t i = 1; i < sim->program.count; i++) {
        struct sim_action *action = &sim->program.actions[i];
        bool grouped = size < SIM_GROUP && groups(action) && groups(action - 1) && sim_random(sim) % 8 == 0;
        action->grouped = grouped;
        size = grouped ? size + 1 : 1;
    }
}

static void anything(void **state)
{
    (void)state;
    uint64_t hits = 0, sunk = 0;

    for (uint64_t seed = 1; seed <= JOBS; seed++) {
        struct sim *sim = job(2 + seed % 3, seed, 3 + seed % 5);
        uint32_t microbatches = 2;
        for (uint32_t i = 0; i < 60; i++) {
            for (uint32_t j = 0; j < microbatches; j++) {
                sim_step(&sim->program, LAYERS, 1);
                if (i > 8)
                    sim_add_anything(sim, LAYERS, 60, 3, &microbatches);
            }
            if (sim_random(sim) % 10 != 0)
                sim_optimize(&sim->program);
        }
        for (size_t i = 0; i < sim->program.count; i++)
            sim_disturb(sim, &sim->program.actions[i], 3000);
        if (seed % 3 == 0)
            group_some(sim);
        sim->equal_layers = seed % 2 == 0;
        sim->persistent = seed % 4 < 2;
        sim->bound = seed % 5 == 0 ? 60 : 100000;
        sim_run(sim);
        if (sim->verbose)
            sim_show(sim, "anything ahead");
        hits += sim_figures(sim, 0).ahead;
        sunk += sim->ranks[0].fills_sunk;
        sim_destroy(sim);
    }
    assert_true(hits > 134 * JOBS);
    assert_true(sunk > JOBS * 2 / 3);
}

/* Microbatches that end early, and weights changed within a step: misses move the place to a microbatch that looks
 * alike, and it comes to the cycle's beginning while what was settled at the last one is still issued. */
static void the_place_moves_within_a_cycle(void **state)
{
    (void)state;
    static const uint64_t seeds[] = {100125, 100126, 100127, 3, 4, 5, 6, 7, 8, 9};

    for (size_t i = 0; i < sizeof(seeds) / sizeof(seeds[0]); i++) {
        uint64_t seed = seeds[i];
        uint32_t layers = 2 + seed % 4, microbatches = 3 + seed / 4 % 4;
        struct sim *sim = job(2 + seed % 2, seed, 2 + seed % 4);
        for (uint32_t step = 0; step < 80; step++) {
            for (uint32_t j = 0; j < microbatches; j++) {
                sim_step(&sim->program, layers, 1);
                if (step > 12 && sim_random(sim) % (2 + seed / 16 % 9) == 0)
                    sim_change(&sim->program, sim_random(sim) % 3 ? UINT32_MAX : sim_random(sim) % layers, 3);
                if (step > 12 && sim_random(sim) % (3 + seed / 7 % 40) == 0)
                    break;
            }
            sim_optimize(&sim->program);
        }
        for (size_t k = 0; k < sim->program.count; k++) {
            struct sim_action *action = &sim->program.actions[k];
            action->withdrawn |= action->act == SIM_GATHER && sim_random(sim) % 700 == 0;
        }
        sim_run(sim);
        sim_destroy(sim);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prefetches_are_hits),
        cmocka_unit_test(from_live_buffers),
        cmocka_unit_test(a_race_with_the_optimizer),
        cmocka_unit_test(a_rank_without_a_child),
        cmocka_unit_test(a_rank_that_is_never_ready),
        cmocka_unit_test(a_withdrawal_within_a_cycle),
        cmocka_unit_test(given_up_within_a_cycle),
        cmocka_unit_test(a_call_refused_within_a_cycle),
        cmocka_unit_test(other_gathers_on_one_rank),
        cmocka_unit_test(memory_given_back),
        cmocka_unit_test(all_memory_given_back),
        cmocka_unit_test(new_content_within_a_step),
        cmocka_unit_test(anything),
        cmocka_unit_test(the_place_moves_within_a_cycle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
