/*
 * The engine in jobs that no program would be: everything that can come between, at random. Only what is promised
 * holds: right bytes, all ranks alike, an end, and nobody left alone with a vote.
 */
#include "replay_sim.h"

#define LAYERS 8u
#define STEPS 80u
#define JOBS 150u

static void anything(void **state)
{
    (void)state;
    uint64_t hits = 0;

    for (uint64_t seed = 1; seed <= JOBS; seed++) {
        struct sim *sim = sim_create(2 + seed % 3, seed);
        uint32_t microbatches = 4;
        for (uint32_t i = 0; i < STEPS; i++) {
            for (uint32_t j = 0; j < microbatches; j++) {
                sim_step(&sim->program, LAYERS, 1);
                if (i > 6)
                    sim_add_anything(sim, LAYERS, 40, 4, &microbatches);
            }
            if (sim_random(sim) % 10 != 0)
                sim_optimize(&sim->program);
        }
        uint64_t withdrawals = 0;
        for (size_t i = 0; i < sim->program.count; i++) {
            sim_disturb(sim, &sim->program.actions[i], 4000);
            withdrawals += sim->program.actions[i].withdrawn;
        }
        sim->equal_layers = seed % 2 == 0;
        sim->bound = seed % 5 == 0 ? 60 : 100000;
        sim->budget = seed % 3 == 0 ? 5 * 2 * sim_bytes(1) : sim->budget;
        sim_run(sim);
        if (sim->verbose)
            sim_show(sim, "anything");
        hits += sim_figures(sim, 0).hits;
        if (seed % 5 != 0) /* nobody was left alone with a vote */
            assert_true(sim_figures(sim, 0).withdrawn <= withdrawals);
        sim_destroy(sim);
    }
    assert_true(hits > 100000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(anything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
