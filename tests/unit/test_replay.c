/*
 * The engine in jobs of several ranks whose order repeats: what is kept must be served, whatever comes between. The
 * simulation checks every delivered byte.
 */
#include "replay_sim.h"

#define LAYERS 16u
#define STEPS 30u
#define LATE 12u /* a step at which every job is armed */

/* A training run of FSDP2's order, four microbatches a step. `from`: the first step that does it, `every`: how often.
 */
struct schedule {
    const char *name;
    uint32_t eval_from, eval_every, evals;
    uint32_t log_every;
    uint32_t skip_at;
    uint32_t edit_at;
    unsigned edit_ranks;
    uint32_t still; /* first steps with a learning rate of 0 */
    bool recompute, equal_layers, edits_all;
    uint64_t budget;  /* in layers; 0: as much as there is */
    uint64_t percent; /* of the repeated gathers while armed that must be hits */
};

static const struct schedule schedules[] = {
    {.name = "plain", .percent = 99},
    {.name = "recompute", .recompute = true, .percent = 99},
    {.name = "evaluation from the start", .eval_every = 2, .evals = 1, .percent = 95},
    {.name = "evaluation later", .eval_from = LATE, .eval_every = 2, .evals = 1, .percent = 95},
    {.name = "evaluations of many batches", .eval_from = LATE, .eval_every = 5, .evals = 20, .percent = 90},
    {.name = "loss logging", .log_every = 3, .percent = 99},
    {.name = "logging and evaluation", .log_every = 3, .eval_from = LATE, .eval_every = 2, .evals = 3, .percent = 95},
    {.name = "a layer left out once", .skip_at = LATE, .percent = 95},
    {.name = "weights edited", .edit_at = LATE, .edit_ranks = ALL_RANKS, .percent = 98},
    {.name = "weights edited on one rank", .edit_at = LATE, .edit_ranks = 2, .percent = 98},
    {.name = "all weights edited", .edit_at = LATE, .edit_ranks = ALL_RANKS, .edits_all = true, .percent = 95},
    {.name = "a learning rate of 0 first", .still = 4, .percent = 95},
    {.name = "equal layers", .equal_layers = true, .percent = 95},
    {.name = "equal layers, a learning rate of 0 first", .equal_layers = true, .still = 4, .percent = 95},
    {.name = "half the memory", .budget = 8, .percent = 30},
};

static bool due(uint32_t step, uint32_t from, uint32_t every)
{
    return every > 0 && step >= from && (step - from) % every == every - 1;
}

static void add_step(struct sim_program *program, const struct schedule *s, uint32_t step)
{
    uint32_t skipped = step == s->skip_at ? 10 : 0;

    for (uint32_t microbatch = 0; microbatch < 4; microbatch++) {
        if (s->edit_ranks != 0 && step == s->edit_at && microbatch == 2)
            sim_change(program, s->edits_all ? UINT32_MAX : 5, s->edit_ranks);
        sim_forward(program, LAYERS, skipped);
        sim_backward(program, LAYERS, skipped, s->recompute);
    }
    if (s->log_every > 0 && step % s->log_every == 0)
        sim_reduce(program, 0, 4);
    if (step >= s->still)
        sim_optimize(program);
    for (uint32_t i = 0; i < s->evals && due(step, s->eval_from, s->eval_every); i++)
        sim_forward(program, LAYERS, 0);
}

static struct sim *job(const struct schedule *s, uint32_t nranks, uint64_t seed)
{
    struct sim *sim = sim_create(nranks, seed);

    sim->equal_layers = s->equal_layers;
    if (s->budget > 0)
        sim->budget = s->budget * nranks * sim_bytes(1);
    for (uint32_t step = 0; step < STEPS; step++)
        add_step(&sim->program, s, step);
    sim_run(sim);
    return sim;
}

static void order_repeats(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(schedules) / sizeof(schedules[0]); i++) {
        for (uint32_t nranks = 2; nranks <= 4; nranks += 2) {
            struct sim *sim = job(&schedules[i], nranks, i * 2 + nranks);
            uint64_t percent = sim_hit_percent(sim);
            enum rp_replay_state end = rp_replay_state(sim->ranks[0].replay);
            if (sim->verbose)
                sim_show(sim, schedules[i].name);
            if (end != RP_REPLAY_ARMED || percent < schedules[i].percent)
                fail_msg("%s, %u ranks: %u%% hits at the end, %s", schedules[i].name, nranks, (unsigned)percent,
                         sim->ranks[0].last);
            sim_destroy(sim);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(order_repeats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
