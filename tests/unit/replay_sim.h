/*
 * A training job of several ranks in one process, for tests of the engine: each rank is an engine, a lane and a device
 * made of a few words; all share one agreement and one learning table. Ranks are stepped one poll at a time in an order
 * that a seed decides.
 *
 * A program is a list of actions, the same for all ranks. What a gather delivers is known beforehand: the shards that
 * every rank has at that call. The simulation checks what is promised:
 *   - every delivered byte is the plain one;
 *   - a gather is served on all ranks that reach it, or on none;
 *   - what is issued ahead at a call is the same on all ranks that reach it;
 *   - every rank that lives comes to the end of the program.
 */
#ifndef RP_TEST_REPLAY_SIM_H
#define RP_TEST_REPLAY_SIM_H

#include "replay_sim_rank.h"

/* ---------------------------------------------------------------- all of them */

static inline bool sim_over(const struct sim *sim)
{
    for (uint32_t i = 0; i < sim->nranks; i++)
        if (!sim->ranks[i].done && !sim->ranks[i].dead)
            return false;
    return true;
}

/* Steps ranks in random turns until all have ended. */
static inline void sim_schedule(struct sim *sim)
{
    uint32_t nranks = sim->nranks > 0 ? sim->nranks : 1;
    uint64_t left = (uint64_t)sim->program.count * sim->nranks * 1000 + 10000000; /* far more than any job takes */

    while (!sim_over(sim)) {
        struct sim_rank *rank = &sim->ranks[sim_random(sim) % nranks];
        for (uint64_t burst = sim_random(sim) % 8 + 1; burst > 0 && !rank->done && !rank->dead; burst--)
            sim_advance(rank);
        assert_true(--left > 0);
    }
}

static inline void sim_start(struct sim *sim)
{
    struct rp_replay_options options = {.strict = sim->strict,
                                        .trial = !sim->untried,
                                        .packs = sim->packs,
                                        .timeout_ns = 2000000000u,
                                        .granule = 1,
                                        .new_id = sim->ahead ? sim_id : NULL};

    sim_finish(sim);
    for (uint32_t i = 0; i < sim->nranks; i++)
        assert_int_equal(rp_agree_join(&sim->ranks[i].agree, sim->shared, sim->nranks, 1, i + 1), RP_OK);
    for (uint32_t i = 0; i < sim->nranks; i++) {
        struct sim_rank *rank = &sim->ranks[i];
        rank->sim = sim;
        rank->number = i;
        rank->now_ns = 1;
        rp_lane_init(&rank->lane);
        sim_get_slots(rank, &(struct rp_plan){0});
        assert_int_equal(rp_agree_complete(&rank->agree, sim->nranks, i), RP_OK);
        options.preset = sim->presets[i];
        options.preset_lack = sim->lacks[i];
        assert_int_equal(rp_replay_create(&rank->agree, sim->table, &options, sim_tell, rank, &rank->replay), RP_OK);
    }
}

static inline void sim_run(struct sim *sim)
{
    sim_start(sim);
    sim_schedule(sim);
    for (size_t i = 0; i < sim->program.count; i++) { /* served on all or on none */
        const struct sim_action *action = &sim->program.actions[i];
        assert_true(action->served == 0 || action->plain == 0);
    }
}

static inline struct rp_replay_figures sim_figures(const struct sim *sim, uint32_t rank)
{
    struct rp_replay_figures figures;

    rp_replay_figures(sim->ranks[rank].replay, &figures);
    return figures;
}

/* Hits of the repeated gathers while armed, in percent. */
static inline uint64_t sim_hit_percent(const struct sim *sim)
{
    const struct sim_rank *rank = &sim->ranks[0];
    return rank->hits_possible == 0 ? 0 : sim_figures(sim, 0).hits * 100 / rank->hits_possible;
}

static inline void sim_show(const struct sim *sim, const char *name)
{
    struct rp_replay_figures f = sim_figures(sim, 0);

    fprintf(stderr,
            "%s, %u ranks: %llu hits of %llu, %llu misses, %llu withdrawn, %llu stored, %llu passed, %llu divergences, "
            "%llu armings\n",
            name, sim->nranks, (unsigned long long)f.hits, (unsigned long long)sim->ranks[0].hits_possible,
            (unsigned long long)f.misses, (unsigned long long)f.withdrawn, (unsigned long long)f.stored,
            (unsigned long long)f.passed, (unsigned long long)f.divergences, (unsigned long long)f.armings);
}

/* ---------------------------------------------------------------- random programs */

/* Behind a microbatch: nothing as a rule, and one time of `out_of` each something else. */
static inline void sim_add_anything(struct sim *sim, uint32_t layers, uint32_t out_of, uint32_t most,
                                    uint32_t *microbatches)
{
    uint64_t number = sim_random(sim) % out_of;

    if (number == 0)
        *microbatches = 1 + sim_random(sim) % most;
    else if (number < 4)
        sim_reduce(&sim->program, 0, 4);
    else if (number < 8)
        sim_forward(&sim->program, layers, sim_random(sim) % 20);
    else if (number < 11)
        sim_change(&sim->program, sim_random(sim) % 10, (unsigned)sim_random(sim));
    else if (number == 11)
        sim_add(&sim->program, (struct sim_action){.act = SIM_LOSE, .ranks = (unsigned)sim_random(sim)});
    else if (number == 12)
        sim_gather(&sim->program, sim_random(sim) % 10)->bytes += 4096 * (sim_random(sim) % 2);
}

/* One gather of `out_of` is withdrawn from, one reduction fails. */
static inline void sim_disturb(struct sim *sim, struct sim_action *action, uint32_t out_of)
{
    uint64_t number = sim_random(sim) % out_of;

    if (action->act == SIM_CHANGE || action->act == SIM_LOSE)
        return;
    action->withdrawn = action->act == SIM_GATHER && number == 1;
    action->fails = action->act == SIM_REDUCE && number == 2;
}

#endif
