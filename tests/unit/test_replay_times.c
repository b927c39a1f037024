/*
 * Times that are measured while a lane learns, and the plans with gathers ahead that all ranks compile with them. Jobs
 * run until they arm; what is then done with the plan is tested elsewhere.
 */
#include "core/replay/replay_private.h"
#include "replay_sim.h"

#define LAYERS 8u
#define OPS (2 * (2 * LAYERS + 1)) /* of a step */
#define GAP_NS 2000000u
#define MIB_NS 600000u /* of a part: the same of what two ranks receive */
#define ROOM (5 * sim_bytes(1) * 2)

/* Two microbatches a step, there and back. */
static struct sim *job(uint32_t nranks, uint64_t seed, uint32_t steps)
{
    struct sim *sim = sim_create(nranks, seed);

    sim_there_and_back(&sim->program, LAYERS, steps);
    sim->ahead = true;
    return sim;
}

/* The same with times that prefetches pay with, and little room. */
static struct sim *timed_job(uint32_t nranks, uint64_t seed)
{
    struct sim *sim = job(nranks, seed, 20);

    sim->budget = nranks * ROOM / 2;
    sim->gap_ns = GAP_NS;
    sim->mib_ns = MIB_NS;
    sim->learn_ns = 0;
    return sim;
}

/* It has looked at a proposal of a plan; before that may come the one to join the child. */
static bool has_looked(const struct sim_rank *rank)
{
    return rank->replay->seen > 0 && rank->replay->proposal.kind == RP_PROPOSE_ARM;
}

/* Until every rank has the first plan, or has said no to it. */
static void run_to_arming(struct sim *sim)
{
    for (uint32_t left = 1000000; left > 0; left--) {
        bool all = true;
        for (uint32_t i = 0; i < sim->nranks; i++) {
            struct sim_rank *rank = &sim->ranks[i];
            all &= has_looked(rank);
            if (!has_looked(rank))
                sim_advance(rank);
        }
        if (all)
            return;
    }
    fail_msg("no proposal: %s", sim->ranks[0].last);
}

static void run_to_proposal(struct sim *sim)
{
    for (uint32_t left = 1000000; left > 0 && !has_looked(&sim->ranks[0]); left--)
        for (uint32_t i = 0; i < sim->nranks && !has_looked(&sim->ranks[0]); i++)
            sim_advance(&sim->ranks[i]);
    assert_true(has_looked(&sim->ranks[0]));
}

static void assert_one_plan(const struct sim *sim)
{
    const struct rp_plan *plan = rp_replay_plan(sim->ranks[0].replay);

    assert_non_null(plan);
    for (uint32_t i = 0; i < sim->nranks; i++) {
        assert_int_equal(rp_replay_state(sim->ranks[i].replay), RP_REPLAY_ARMING);
        assert_int_equal(rp_replay_plan(sim->ranks[i].replay)->hash, plan->hash);
    }
}

static uint64_t gap_at(const struct rp_replay *replay, size_t item)
{
    return replay->measured.gap_ns[item];
}

/* ---------------------------------------------------------------- what is measured */

/* Each gather of the last cycle has the gap that was there, a reduction in it included; others have none. */
static void gaps_are_those_between(void **state)
{
    (void)state;
    struct sim *sim = timed_job(2, 1);
    sim_start(sim);
    run_to_arming(sim);
    const struct rp_replay *replay = sim->ranks[0].replay;
    uint64_t reduction = sim->plain_ns + (5u * MIB_NS);
    for (size_t i = 0; i < replay->to - replay->from; i++) {
        bool in_cycle = i >= replay->plan.first && i < replay->plan.end;
        bool gather = replay->items[i].kind == RP_OP_ALL_GATHER;
        bool behind = i > 0 && replay->items[i - 1].kind != RP_OP_ALL_GATHER;
        uint64_t expected = !in_cycle || !gather ? 0 : behind ? 2 * GAP_NS + reduction : GAP_NS;
        assert_int_equal(gap_at(replay, i), expected);
    }
    sim_destroy(sim);
}

/* One step in which the device stalled is not what is planned with. */
static void a_stall_is_no_gap(void **state)
{
    (void)state;
    struct sim *sim = timed_job(2, 2);
    sim_start(sim);
    for (uint32_t left = 1000000; left > 0 && atomic_load(&sim->ranks[0].lane.next) < 2 * OPS + 5; left--)
        for (uint32_t i = 0; i < 2; i++)
            sim_advance(&sim->ranks[i]);
    sim->ranks[0].now_ns += 100 * GAP_NS;
    run_to_arming(sim);
    const struct rp_replay *replay = sim->ranks[0].replay;
    for (size_t i = replay->plan.first; i < replay->plan.end; i++)
        assert_true(gap_at(replay, i) <= 2 * GAP_NS + sim->plain_ns + 5u * MIB_NS);
    sim_destroy(sim);
}

static void the_link_is_known(void **state)
{
    (void)state;
    for (uint32_t nranks = 2; nranks <= 4; nranks += 2) {
        struct sim *sim = timed_job(nranks, 3);
        sim_start(sim);
        run_to_arming(sim);
        uint64_t per_mib = sim->ranks[0].replay->measured.link.ns_per_mib * (nranks - 1);
        assert_in_range(per_mib, MIB_NS, MIB_NS + sim->plain_ns);
        assert_int_equal(sim->ranks[0].replay->measured.link.latency_ns, 0);
        sim_destroy(sim);
    }
}

/* ---------------------------------------------------------------- what is planned */

static void all_ranks_prefetch_alike(void **state)
{
    (void)state;
    for (uint32_t nranks = 2; nranks <= 4; nranks++) {
        struct sim *sim = timed_job(nranks, 10 + nranks);
        sim_start(sim);
        for (uint32_t i = 1; i < nranks; i++)
            sim->ranks[i].now_ns = i * 12345678u; /* other ranks have their own clocks; none of them counts */
        run_to_arming(sim);
        assert_one_plan(sim);
        const struct rp_plan *plan = rp_replay_plan(sim->ranks[0].replay);
        assert_true(plan->prefetches > 0);
        assert_true(plan->waits.planned < plan->waits.kept);
        assert_int_equal(rp_agree_armed(&sim->ranks[0].agree, sim->ranks[0].replay->arming), RP_VERDICT_YES);
        sim_destroy(sim);
    }
}

/* Where rank 1 measures otherwise: rank 0's times are what both plan with. */
static void another_ranks_times_do_not_count(void **state)
{
    (void)state;
    struct sim *sim = timed_job(2, 20);
    sim_start(sim);
    for (uint32_t left = 1000000; left > 0 && sim->ranks[0].replay->seen == 0; left--) {
        sim_advance(&sim->ranks[0]);
        sim->ranks[1].now_ns += sim_random(sim) % 10000;
        sim_advance(&sim->ranks[1]);
    }
    run_to_arming(sim);
    assert_one_plan(sim);
    assert_true(rp_replay_plan(sim->ranks[1].replay)->prefetches > 0);
    sim_destroy(sim);
}

static void assert_plain_plan(struct sim *sim)
{
    sim_start(sim);
    run_to_arming(sim);
    assert_one_plan(sim);
    assert_int_equal(rp_replay_plan(sim->ranks[0].replay)->prefetches, 0);
    assert_int_equal(sim->ranks[1].replay->proposal.link_ns_per_mib, 0);
    assert_int_equal(sim->ranks[1].replay->proposal.link_latency_ns, 0);
    sim_destroy(sim);
}

static void no_times_no_prefetch(void **state)
{
    (void)state;
    struct sim *sim = timed_job(2, 30);
    sim->stamps_lost = 100;
    assert_plain_plan(sim);

    sim = timed_job(2, 31);
    sim->ahead = false;
    assert_plain_plan(sim);
}

/* Of some: plans are alike, and mostly ahead. */
static void some_stamps_are_lost(void **state)
{
    (void)state;
    size_t prefetches = 0;
    for (uint32_t lost = 5; lost <= 50; lost += 15) {
        struct sim *sim = timed_job(3, 40 + lost);
        sim->stamps_lost = lost;
        sim_start(sim);
        run_to_arming(sim);
        assert_one_plan(sim);
        prefetches += rp_replay_plan(sim->ranks[2].replay)->prefetches;
        sim_destroy(sim);
    }
    assert_true(prefetches > 0);
}

/* A later proposal's times stand where a slow rank reads: what it makes of them has another hash, and it says no. */
static void overwritten_times_are_refused(void **state)
{
    (void)state;
    static uint64_t gap_ns[16384];
    struct sim *sim = timed_job(2, 50);
    struct rp_learn *learn;

    sim_start(sim);
    run_to_proposal(sim);
    assert_false(has_looked(&sim->ranks[1]));
    const struct rp_replay *replay = sim->ranks[0].replay;
    for (size_t i = 0; i < replay->to - replay->from; i++)
        gap_ns[i] = gap_at(replay, i) / 1000;
    assert_int_equal(rp_learn_create(sim->table, 2, 0, &learn), RP_OK);
    rp_learn_set_gaps(learn, replay->from, replay->to, gap_ns);
    rp_learn_destroy(learn);
    run_to_arming(sim);
    assert_true(has_looked(&sim->ranks[1]));
    assert_int_equal(rp_replay_state(sim->ranks[1].replay), RP_REPLAY_LEARNING);
    assert_int_equal(rp_agree_armed(&sim->ranks[0].agree, sim->ranks[1].replay->arming), RP_VERDICT_NO);
    sim_destroy(sim);
}

/* Memory was given back: another plan of the same range, with what was measured then. */
static void another_budget_has_the_same_times(void **state)
{
    (void)state;
    struct sim *sim = timed_job(2, 60);
    sim_start(sim);
    run_to_arming(sim);
    struct rp_replay *replay = sim->ranks[0].replay;
    uint64_t hash = replay->plan.hash, per_mib = replay->measured.link.ns_per_mib,
             gap = gap_at(replay, replay->plan.first);
    memset(replay->past, 0, replay->past_count * sizeof(*replay->past));
    assert_int_equal(rp_replay_compile(replay, replay->from, replay->to, sim->budget * 2 / 3, NULL), RP_OK);
    assert_int_not_equal(replay->plan.hash, hash);
    assert_true(replay->plan.prefetches > 0);
    assert_int_equal(replay->measured.link.ns_per_mib, per_mib);
    assert_int_equal(gap_at(replay, replay->plan.first), gap);
    sim_destroy(sim);
}

/* ---------------------------------------------------------------- do no harm */

/* The stamps behind gathers change nothing of what cycles are measured by; there is room for a plan without prefetches.
 */
static struct rp_replay_figures figures_of_a_gain(uint32_t late, bool ahead)
{
    struct sim *sim = job(2, 70, 60);

    sim->ahead = ahead;
    sim->hit_ns = 930;
    sim->learn_ns = 20;
    sim->mib_ns = 7;
    sim->stamps_late = late;
    sim_run(sim);
    struct rp_replay_figures figures = sim_figures(sim, 0);
    assert_int_equal(rp_replay_state(sim->ranks[0].replay), RP_REPLAY_ARMED);
    assert_int_equal(rp_replay_plan(sim->ranks[0].replay)->prefetches, 0);
    assert_int_equal(sim->ranks[0].replay->measured.gap_ns != NULL, ahead);
    sim_destroy(sim);
    return figures;
}

static void cycles_are_timed_the_same(void **state)
{
    (void)state;
    for (uint32_t late = 0; late < 4; late++) {
        struct rp_replay_figures without = figures_of_a_gain(late, false), with = figures_of_a_gain(late, true);
        assert_int_not_equal(without.plain_cycle_ns, 0);
        assert_int_equal(without.plain_cycle_ns, with.plain_cycle_ns);
        assert_int_equal(without.replay_cycle_ns, with.replay_cycle_ns);
        assert_int_equal(without.armings, with.armings);
        assert_true(late > 0 || without.hits == with.hits); /* twice as many stamps, as many late: they come sooner */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gaps_are_those_between),
        cmocka_unit_test(a_stall_is_no_gap),
        cmocka_unit_test(the_link_is_known),
        cmocka_unit_test(all_ranks_prefetch_alike),
        cmocka_unit_test(another_ranks_times_do_not_count),
        cmocka_unit_test(no_times_no_prefetch),
        cmocka_unit_test(some_stamps_are_lost),
        cmocka_unit_test(overwritten_times_are_refused),
        cmocka_unit_test(another_budget_has_the_same_times),
        cmocka_unit_test(cycles_are_timed_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
