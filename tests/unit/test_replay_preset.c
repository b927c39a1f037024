/*
 * A preset order in jobs of several ranks: what a job recorded is what another begins with. The simulation checks every
 * delivered byte; here is checked when gathers are first served, and that learning starts where the order does not fit.
 */
#include "replay_sim.h"

#define LAYERS 8u
#define MICROBATCHES 2u
#define STEPS 14u
#define NEVER SIZE_MAX

/* What a job does; the recorded one and the one that begins with its order may differ. */
struct schedule {
    uint32_t steps;      /* 0: STEPS */
    uint32_t layers;     /* 0: LAYERS */
    uint32_t before;     /* reductions in front of the first step */
    uint32_t eval_every; /* steps */
    uint32_t log_every;
    uint32_t skip_at,
        edit_at;      /* a step: a layer is left out; all weights change behind the first microbatch. 0: none */
    bool edits;       /* the same in each step */
    uint32_t fail_at; /* a call of the second step fails */
    uint32_t group;   /* so many calls of each step are in one group */
};

static void add_microbatch(struct sim_program *program, const struct schedule *s, uint32_t step)
{
    uint32_t layers = s->layers == 0 ? LAYERS : s->layers, skipped = s->skip_at != 0 && step == s->skip_at ? 4 : 0;

    sim_forward(program, layers, skipped);
    sim_backward(program, layers, skipped, false);
}

static void add_step(struct sim_program *program, const struct schedule *s, uint32_t step)
{
    size_t first = program->count;

    for (uint32_t i = 0; i < MICROBATCHES; i++) {
        add_microbatch(program, s, step);
        if (i == 0 && (s->edits || (s->edit_at != 0 && step == s->edit_at)))
            sim_change(program, UINT32_MAX, ALL_RANKS);
    }
    for (size_t i = 1; i < s->group; i++)
        program->actions[first + i].grouped = true;
    if (s->fail_at != 0 && step == s->fail_at)
        program->actions[first + 3].fails = true;
    if (s->log_every > 0 && step % s->log_every == 0)
        sim_reduce(program, 0, 4);
    sim_optimize(program);
    if (s->eval_every > 0 && step % s->eval_every == 0)
        sim_forward(program, LAYERS, 0);
}

static void add_program(struct sim *sim, const struct schedule *s)
{
    for (uint32_t i = 0; i < s->before; i++)
        sim_reduce(&sim->program, 0, sim_bytes(1) + 4096 * i);
    for (uint32_t step = 1; step <= (s->steps == 0 ? STEPS : s->steps); step++)
        add_step(&sim->program, s, step);
}

/* What the rank would have recorded; contents are of another run. */
static struct rp_preset *recorded_by(const struct sim *sim, uint32_t rank, uint64_t key)
{
    struct rp_preset *preset = calloc(1, sizeof(*preset) + sim->program.count * sizeof(preset->calls[0]));

    assert_non_null(preset);
    preset->key = key;
    for (size_t i = 0; i < sim->program.count; i++) {
        const struct sim_action *action = &sim->program.actions[i];
        struct rp_op op = sim_op(sim, action, preset->count);
        if (action->act != SIM_GATHER && action->act != SIM_REDUCE)
            continue;
        preset->calls[preset->count++] = (struct rp_preset_call){
            .signature = rp_op_signature(&op),
            .bytes = action->bytes,
            .content = {sim_hash(action->shard[rank], key, 3), sim_hash(action->shard[rank], key, 4)},
            .name = {{.module = action->unit + 1, .phase = RP_PHASE_FORWARD}, .begins_step = action->unit == 2},
            .kind = op.kind};
    }
    return preset;
}

/* A job of `run`, each rank of which has what a job of `recorded` left. */
static struct sim *job_create(const struct schedule *recorded, const struct schedule *run, uint32_t nranks)
{
    struct sim *before = sim_create(nranks, 1), *sim = sim_create(nranks, 7 + nranks);

    add_program(before, recorded);
    sim_finish(before);
    add_program(sim, run);
    sim->untried = true;
    for (uint32_t rank = 0; rank < nranks; rank++)
        sim->presets[rank] = recorded_by(before, rank, UINT64_C(99) << 32);
    sim_destroy(before);
    return sim;
}

/* The step of the first gather that was served; NEVER. */
static size_t first_served(const struct sim *sim)
{
    size_t step = 1;

    for (size_t i = 0; i < sim->program.count; i++) {
        if (sim->program.actions[i].served > 0)
            return step;
        step += sim->program.actions[i].act == SIM_CHANGE;
    }
    return NEVER;
}

/* ---------------------------------------------------------------- it fits */

static const struct {
    const char *name;
    struct schedule recorded, run;
    uint64_t percent; /* of the repeated gathers while armed that must be hits */
} fits[] = {
    {"plain", {0}, {0}, 99},
    {"few steps", {.steps = 3}, {.steps = 4}, 99},
    {"calls in front", {.before = 5}, {.before = 5}, 99},
    {"loss logging in both", {.log_every = 2}, {.log_every = 2}, 99},
    {"loss logging in the recorded run alone", {.log_every = 1}, {0}, 99},
    {"loss logging in this run alone", {.before = 2}, {.before = 2, .log_every = 1}, 99},
    {"evaluation between", {.eval_every = 3}, {.eval_every = 3}, 90},
    {"evaluation later", {0}, {.eval_every = 6}, 90},
    {"evaluation in the recorded run alone, later", {.eval_every = 5}, {0}, 99},
    {"a layer left out later", {0}, {.skip_at = 8}, 90},
    {"a layer left out in the recorded run, later", {.skip_at = 9}, {0}, 99},
    {"weights edited", {0}, {.edit_at = 6}, 90},
    {"in groups", {0}, {.group = 4}, 60},
};

/* The third at the latest: ranks are up to a step apart here. A job that learns begins in the fourth or later. */
static void fitting_orders_are_served_before_they_could_be_learned(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(fits) / sizeof(fits[0]); i++) {
        for (uint32_t nranks = 2; nranks <= 4; nranks += 2) {
            struct sim *sim = job_create(&fits[i].recorded, &fits[i].run, nranks);
            sim_run(sim);
            size_t first = first_served(sim);
            if (sim->verbose)
                sim_show(sim, fits[i].name);
            if (first > 3 || sim_hit_percent(sim) < fits[i].percent)
                fail_msg("%s, %u ranks: first served in step %zu, %u%% hits, %s", fits[i].name, nranks, first,
                         (unsigned)sim_hit_percent(sim), sim->ranks[0].last);
            sim_destroy(sim);
        }
    }
}

/* Ranks side by side. */
static void the_arming_begins_with_the_second_step(void **state)
{
    (void)state;
    struct sim *sim = job_create(&(struct schedule){0}, &(struct schedule){0}, 2);
    size_t calls = 0;
    for (const struct sim_action *action = sim->program.actions; action->act != SIM_CHANGE; action++)
        calls++;
    sim_start(sim);
    while (!sim_over(sim) && sim->ranks[0].entered[RP_REPLAY_ARMED] == 0)
        for (uint32_t i = 0; i < 2; i++)
            sim_advance(&sim->ranks[i]);
    assert_non_null(strstr(sim->ranks[0].last, ", in a recorded order"));
    assert_int_equal(atomic_load(&sim->ranks[0].lane.next), calls);
    sim_destroy(sim);
}

/* From the first call on, and without a fingerprint. */
static void names_are_known_at_once(void **state)
{
    (void)state;
    struct sim *sim = job_create(&(struct schedule){.before = 1}, &(struct schedule){.before = 1}, 2);
    size_t gathers = 0;

    sim_start(sim);
    while (gathers < 200) { /* far into the arming */
        struct sim_rank *rank = &sim->ranks[gathers % 2];
        sim_advance(rank);
        if (rank->call_count == 0 || rank->call != 0)
            continue;
        struct rp_name name = rank->calls[0].step.name;
        assert_int_equal(name.event.module, rank->calls[0].action->unit + 1);
        assert_int_equal(name.begins_step, rank->calls[0].action->unit == 2);
        assert_false(rank->calls[0].step.fingerprint);
        gathers++;
    }
    sim_destroy(sim);
}

/* ---------------------------------------------------------------- it does not */

static const struct {
    const char *name, *said; /* by rank 0 */
    struct schedule recorded, run;
} misfits[] = {
    {"other sizes", "at position 8 it has ", {.layers = 7}, {0}},
    {"a call more in front", "at position 0 it has ", {0}, {.before = 1}},
    {"a call less in front", "at position 0 it has ", {.before = 1}, {0}},
    {"one step", "it shows no whole cycle", {.steps = 1}, {0}},
    {"two steps", "it shows no whole cycle", {.steps = 2}, {0}},
    {"nothing repeats", "it shows no whole cycle", {.steps = 1, .edits = true}, {0}},
    {"a call fails in the first step", "a call has failed", {0}, {.fail_at = 1}},
};

/* What rank 0 told when it was dropped. */
static const char *dropped(struct sim *sim)
{
    sim_start(sim);
    while (!sim_over(sim) && strstr(sim->ranks[0].last, "the recorded order is not used: ") == NULL)
        sim_advance(&sim->ranks[sim_random(sim) % sim->nranks]);
    return sim->ranks[0].last;
}

/* It is served in the end, but not as soon as in a recorded order. */
static void assert_learns(struct sim *sim, const char *name)
{
    sim_schedule(sim);
    if (first_served(sim) < 4 || first_served(sim) == NEVER)
        fail_msg("%s: first served in step %zu", name, first_served(sim));
    assert_int_equal(rp_replay_state(sim->ranks[0].replay), RP_REPLAY_ARMED);
}

static void others_are_named_and_learning_starts(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(misfits) / sizeof(misfits[0]); i++) {
        struct sim *sim = job_create(&misfits[i].recorded, &misfits[i].run, 2);
        const char *said = dropped(sim);
        if (strstr(said, "learning: the recorded order is not used: ") == NULL || strstr(said, misfits[i].said) == NULL)
            fail_msg("%s: %s", misfits[i].name, said);
        assert_learns(sim, misfits[i].name);
        assert_int_equal(sim->ranks[0].entered[RP_REPLAY_LEARNING], 1);
        sim_destroy(sim);
    }
}

/* ---------------------------------------------------------------- ranks that are not alike */

static struct sim *plain_job(uint32_t nranks)
{
    return job_create(&(struct schedule){0}, &(struct schedule){0}, nranks);
}

static void assert_refused(struct sim *sim, const char *why)
{
    const char *said = dropped(sim);
    if (strstr(said, why) == NULL)
        fail_msg("%s instead of %s", said, why);
    assert_learns(sim, why);
    for (uint32_t rank = 0; rank < sim->nranks; rank++)
        assert_true(sim->ranks[rank].entered[RP_REPLAY_LEARNING] > 0);
    sim_destroy(sim);
}

static void nobody_uses_it_where_one_rank_lacks_it(void **state)
{
    (void)state;
    for (uint32_t lacking = 0; lacking < 3; lacking++) {
        for (unsigned lack = RP_PRESET_NOT_ASKED; lack < RP_PRESET_LACK_COUNT; lack++) {
            static const char *const texts[] = {
#define X(name, text) text,
                RP_PRESET_LACKS(X)
#undef X
            };
            struct sim *sim = plain_job(3);
            free(sim->presets[lacking]);
            sim->presets[lacking] = NULL;
            sim->lacks[lacking] = (enum rp_preset_lack)lack;
            if (lack != RP_PRESET_SAID) {
                assert_refused(sim, texts[lack]);
                continue;
            }
            sim_run(sim);
            assert_int_equal(sim->ranks[0].entered[RP_REPLAY_LEARNING], 0);
            assert_true(first_served(sim) >= 4 && first_served(sim) != NEVER);
            sim_destroy(sim);
        }
    }
}

static void nobody_uses_it_where_one_rank_has_another(void **state)
{
    (void)state;
    for (uint32_t other = 0; other < 3; other++) {
        struct sim *sim = plain_job(3);
        sim->presets[other]->key++;
        assert_refused(sim, "ranks have traces of different runs");
    }
}

/* The calls behind the first step are not the same: each proposal has a no, or a rank finds that its own do not fit. */
static void nobody_uses_it_where_one_rank_has_other_calls(void **state)
{
    (void)state;
    for (uint32_t other = 0; other < 2; other++) {
        struct sim *sim = plain_job(2);
        for (size_t i = 60; i < sim->presets[other]->count; i++)
            sim->presets[other]->calls[i].signature++;
        assert_refused(sim, other == 0 ? "at position 60 it has" : "a rank was not ready, or has other calls");
    }
}

/* Ranks were cut short at different places, as a killed run leaves them. */
static void what_all_have_is_used(void **state)
{
    (void)state;
    struct sim *sim = plain_job(2);
    sim->presets[0]->count -= 30;
    sim->presets[1]->count -= 77;
    sim_run(sim);
    assert_true(first_served(sim) <= 3);
    sim_destroy(sim);
}

/* A shard that never changes on one rank is fresh where another's is. */
static void contents_are_summed_over_the_ranks(void **state)
{
    (void)state;
    for (uint32_t still = 0; still < 2; still++) {
        struct sim *sim = plain_job(2);
        for (size_t i = 0; i < sim->presets[still]->count; i++)
            memset(sim->presets[still]->calls[i].content, 7, sizeof(sim->presets[still]->calls[i].content));
        sim_run(sim);
        assert_true(first_served(sim) <= 3);
        assert_true(sim_hit_percent(sim) >= 99);
        sim_destroy(sim);
    }
}

/* ---------------------------------------------------------------- it is not trusted */

/* By the trace weights are the same for a whole step; here they change within one. */
static void contents_that_no_longer_repeat_are_learned_again(void **state)
{
    (void)state;
    struct sim *sim = job_create(&(struct schedule){0}, &(struct schedule){.edits = true, .steps = 30}, 2);
    sim_run(sim);
    assert_true(sim_figures(sim, 0).misses > 0);
    assert_true(sim_figures(sim, 0).hits > 0);
    sim_destroy(sim);
}

/* Behind it a job that learned does as well, and not better. */
static void another_order_behind_it_is_as_behind_a_learned_one(void **state)
{
    (void)state;
    uint64_t hits[2];
    for (unsigned learns = 0; learns < 2; learns++) {
        struct sim *sim = plain_job(2);
        for (uint32_t rank = 0; rank < 2 && learns == 1; rank++) {
            free(sim->presets[rank]);
            sim->presets[rank] = NULL;
        }
        for (uint32_t step = 0; step < 30; step++) {
            sim_forward(&sim->program, LAYERS, 3);
            sim_backward(&sim->program, LAYERS, 6, true);
            sim_optimize(&sim->program);
        }
        sim_run(sim);
        assert_true(sim_figures(sim, 0).divergences > 0);
        hits[learns] = sim_figures(sim, 0).hits;
        sim_destroy(sim);
    }
    assert_true(hits[0] > hits[1] && hits[1] > 0);
}

/* A rank whose host stops for a while, memory that goes, a rank that gives up or dies: never a wrong byte, no hang. */
static void random_jobs_come_to_their_end(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct schedule recorded = {.before = seed % 3, .eval_every = seed % 4, .log_every = seed % 2};
        struct schedule run = recorded;
        run.skip_at = seed % 5 == 0 ? 3 : 0;
        run.edit_at = seed % 7 == 0 ? 2 : 0;
        run.fail_at = seed % 11 == 0 ? 2 : 0;
        run.group = seed % 3 == 0 ? 3 : 0;
        run.eval_every = seed % 6 == 0 ? 2 : run.eval_every;
        struct sim *sim = job_create(&recorded, &run, 2 + seed % 3);
        sim->random = seed * 0x9e3779b97f4a7c15u + 1;
        sim->bound = seed % 2 == 0 ? 50 : 100000;
        sim->ahead = seed % 4 == 1;
        sim->budget = seed % 5 == 1 ? 3 * sim_bytes(0) * sim->nranks : sim->budget;
        sim->dies = seed % 8 == 0;
        sim->dies_at = 20 + seed * 3;
        if (seed % 9 == 0)
            sim_add(&sim->program, (struct sim_action){.act = SIM_GIVE_UP, .ranks = 1});
        sim_run(sim);
        sim_destroy(sim);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fitting_orders_are_served_before_they_could_be_learned),
        cmocka_unit_test(the_arming_begins_with_the_second_step),
        cmocka_unit_test(names_are_known_at_once),
        cmocka_unit_test(others_are_named_and_learning_starts),
        cmocka_unit_test(nobody_uses_it_where_one_rank_lacks_it),
        cmocka_unit_test(nobody_uses_it_where_one_rank_has_another),
        cmocka_unit_test(nobody_uses_it_where_one_rank_has_other_calls),
        cmocka_unit_test(what_all_have_is_used),
        cmocka_unit_test(contents_are_summed_over_the_ranks),
        cmocka_unit_test(contents_that_no_longer_repeat_are_learned_again),
        cmocka_unit_test(another_order_behind_it_is_as_behind_a_learned_one),
        cmocka_unit_test(random_jobs_come_to_their_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
