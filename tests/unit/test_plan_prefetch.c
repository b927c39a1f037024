/* Plans with gathers ahead: tables, invariants over random cycles. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "plan_clock.h"

#define RANKS 4u

static size_t below(size_t most)
{
    return (size_t)rand() % most;
}

/* ---------------------------------------------------------------- tables */

static void no_times_no_prefetch(void **state)
{
    (void)state;
    const struct trainer trainer = {.layers = 4, .microbatches = 2, .sizes = 1, .forward_us = 40, .backward_us = 80};
    struct world *world = trained(&trainer, RANKS, 2 * RANKS * MIB);
    struct rp_plan keep = {0}, plan = {0};
    assert_int_equal(rp_plan_compile(world->lane->items, world->lane->count, RANKS, world->budget, 1, &keep), RP_OK);
    for (int lacks = 0; lacks < 3; lacks++) {
        struct world known = *world;
        if (lacks == 0)
            known.ahead.gap_ns = NULL;
        if (lacks == 1)
            memset(known.gap_ns, 0, sizeof(known.gap_ns)), known.ahead.gap_ns = known.gap_ns;
        if (lacks == 2)
            known.ahead.link = (struct rp_plan_link_model){0};
        assert_int_equal(world_compile(&known, &plan), RP_OK);
        assert_true(plan.hash == keep.hash && plan.prefetches == 0 && plan.waits.plain == 0);
        rp_plan_free(&plan);
    }
    assert_int_equal(world_compile(world, &plan), RP_OK);
    assert_true(plan.hash != keep.hash && plan.prefetches > 0);
    rp_plan_free(&plan);
    rp_plan_free(&keep);
    world_free(world);
}

/*
 * Two layers, two microbatches, a slot and both snapshots, more compute than transfers: what is gathered again is never
 * waited for, over the turn from forward to backward and over the start of the second microbatch.
 */
static void across_microbatches(void **state)
{
    (void)state;
    const struct trainer trainer = {.layers = 2, .microbatches = 2, .sizes = 1, .forward_us = 90, .backward_us = 90};
    struct world *world = trained(&trainer, RANKS, RANKS * MIB + 2 * MIB);
    struct rp_plan plan = {0};
    static const struct {
        enum rp_plan_action action;
        uint32_t issue;
    } table[] = {
        {RP_PLAN_NETWORK, RP_NO_ISSUE}, {RP_PLAN_NETWORK, RP_NO_ISSUE}, {RP_PLAN_KEEP, RP_NO_ISSUE},
        {RP_PLAN_PREFETCH, 2},          {RP_PLAN_KEEP, RP_NO_ISSUE},    {RP_PLAN_PREFETCH, 4},
        {RP_PLAN_KEEP, RP_NO_ISSUE},    {RP_PLAN_PASS, RP_NO_ISSUE},    {RP_PLAN_PREFETCH, 6},
        {RP_PLAN_PASS, RP_NO_ISSUE},
    };
    assert_int_equal(world_compile(world, &plan), RP_OK);
    assert_int_equal(plan.count, 10);
    assert_int_equal(plan.slot_count, 1);
    assert_int_equal(plan.snapshot_count, 2);
    for (size_t i = 0; i < plan.count; i++) {
        assert_int_equal(plan.entries[i].action, table[i].action);
        assert_int_equal(plan.entries[i].issue, table[i].issue);
    }
    assert_int_equal(plan.entries[0].slot, RP_NO_SLOT);
    assert_int_equal(plan.entries[0].snapshot, 0);
    assert_int_equal(plan.waits.planned, 2 * 40000 + 40000); /* the fresh ones, and the last reduction */
    assert_int_equal(plan.waits.plain, 8 * 40000 + 40000);
    assert_int_equal(plan.prefetches, 3);
    assert_true(plan.issues_at[2] == 0 && plan.issues_at[3] == 1 && plan.issues[0] == 3);
    rp_plan_free(&plan);
    world_free(world);
}

/* A fresh gather is sent early only from the app's own buffer, and not before its generation begins. */
static void fresh_ones(void **state)
{
    (void)state;
    struct trainer trainer = {.layers = 4, .microbatches = 1, .sizes = 1, .forward_us = 90, .backward_us = 90};
    for (trainer.send = COPIED; trainer.send <= PERSISTENT; trainer.send++) {
        struct world *world = trained(&trainer, RANKS, 8 * RANKS * MIB);
        struct rp_plan plan = {0};
        assert_int_equal(world_compile(world, &plan), RP_OK);
        for (size_t i = 0; i < 4; i++) {
            bool ahead = trainer.send == PERSISTENT && i > 0;
            assert_int_equal(plan.entries[i].action == RP_PLAN_PREFETCH, ahead);
            assert_true(!ahead || (plan.entries[i].source == RP_PLAN_FROM_LIVE && plan.entries[i].issue < i));
        }
        assert_int_equal(plan.waits.planned, (trainer.send == PERSISTENT ? 1 : 4) * 40000 + 40000);
        assert_int_equal(plan.keeps, 4);
        assert_int_equal(plan.snapshot_count, 0);
        rp_plan_free(&plan);
        world_free(world);
    }
}

/*
 * An idle link: one entry ahead of each use would do. With room for all a transfer's time more costs nothing; in one
 * slot each is issued when the one before has been used.
 */
static void earlier_than_due(void **state)
{
    (void)state;
    const struct trainer trainer = {
        .layers = 6, .microbatches = 1, .sizes = 1, .forward_us = 90, .backward_us = 90, .send = PERSISTENT};
    static const struct {
        uint64_t units;
        uint32_t length;
    } table[] = {{12, 2}, {1, 1}};
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct world *world = trained(&trainer, RANKS, table[i].units * RANKS * MIB);
        struct rp_plan plan = {0};
        assert_int_equal(world_compile(world, &plan), RP_OK);
        for (uint32_t place = 1; place < 6; place++) {
            assert_int_equal(plan.entries[place].action, RP_PLAN_PREFETCH);
            assert_int_equal(plan.entries[place].issue, place < table[i].length ? 0 : place - table[i].length);
        }
        assert_int_equal(plan.waits.planned, 2 * 40000);
        rp_plan_free(&plan);
        world_free(world);
    }
}

/* Units that do not change are gathered ahead over the end of the cycle. */
static void over_the_end(void **state)
{
    (void)state;
    const struct trainer trainer = {
        .layers = 6, .microbatches = 1, .sizes = 1, .forward_us = 20, .backward_us = 200, .frozen = 5};
    struct world *world = trained(&trainer, RANKS, 3 * RANKS * MIB + 5 * MIB);
    struct rp_plan plan = {0};
    size_t over = 0;
    assert_int_equal(world_compile(world, &plan), RP_OK);
    for (size_t i = 0; i < plan.count; i++)
        over += plan.entries[i].action == RP_PLAN_PREFETCH && plan.entries[i].issue >= i;
    assert_true(over > 0);
    rp_plan_free(&plan);
    world_free(world);
}

/* ---------------------------------------------------------------- a plan at work */

#define BUFFERS 512u

/* What a buffer holds, and until which moment of the lane it is being read or written. */
struct buffer {
    const struct rp_learned *holds;
    size_t busy_to;
};

struct work {
    const struct world *world;
    const struct rp_plan *plan;
    struct facts *facts;
    struct buffer slots[BUFFERS], snapshots[BUFFERS];
    size_t start; /* of the lane's first whole cycle */
    size_t misses, served;
};

static const struct rp_learned *item_at(const struct work *work, size_t moment)
{
    return &work->world->lane->items[work->start + moment];
}

static bool holds(const struct buffer *buffer, const struct rp_learned *item)
{
    return buffer->holds != NULL && same_bytes(buffer->holds, item);
}

/* From `issue`'s own op on the slot is written and its source read, up to the use. */
static void issue(struct work *work, size_t moment, size_t place)
{
    const struct rp_plan_entry *entry = &work->plan->entries[place];
    size_t length = places_from(work->facts, entry->issue, place), use = moment + length;
    struct buffer *slot = &work->slots[entry->slot];
    if (work->start + use >= work->world->lane->count)
        return;
    assert_true(slot->busy_to <= moment);
    slot->busy_to = use;
    assert_true(length <= work->facts->at[place].reach);
    if (entry->source == RP_PLAN_FROM_LIVE) {
        assert_true(work->facts->at[place].live && work->facts->at[entry->issue].gather);
        slot->holds = item_at(work, use);
        return;
    }
    assert_true(entry->source == RP_PLAN_FROM_SNAPSHOT && entry->snapshot < work->plan->snapshot_count);
    slot->holds = work->snapshots[entry->snapshot].holds;
    work->snapshots[entry->snapshot].busy_to = use;
}

static void issue_all(struct work *work, size_t moment)
{
    const struct rp_plan *plan = work->plan;
    size_t place = moment % plan->count;
    if (plan->prefetches == 0)
        return;
    for (uint32_t i = plan->issues_at[place]; i < plan->issues_at[place + 1]; i++)
        issue(work, moment, plan->issues[i]);
}

static void serve(struct work *work, size_t moment, bool filled)
{
    const struct rp_plan_entry *entry = &work->plan->entries[moment % work->plan->count];
    const struct rp_learned *item = item_at(work, moment);
    struct buffer *slot = &work->slots[entry->slot];
    assert_true(entry->slot < work->plan->slot_count);
    assert_true(work->plan->slot_bytes[entry->slot] >= entry->bytes * work->world->nranks);
    if (filled && !holds(slot, item))
        work->misses++;
    assert_true(slot->busy_to <= moment);
    work->served += filled;
    slot->holds = item;
}

/* Whatever a gather leaves: in its slot; from the network also in its unit's snapshot, if that has other bytes. */
static void pass(struct work *work, size_t moment, bool filled)
{
    const struct rp_plan_entry *entry = &work->plan->entries[moment % work->plan->count];
    const struct rp_learned *item = item_at(work, moment);
    if (rp_plan_serves(entry->action))
        serve(work, moment, filled);
    else if (entry->slot != RP_NO_SLOT) {
        assert_true(entry->action == RP_PLAN_NETWORK && work->slots[entry->slot].busy_to <= moment);
        work->slots[entry->slot].holds = item;
    }
    if (entry->snapshot == RP_NO_SLOT || (filled && rp_plan_serves(entry->action)) ||
        holds(&work->snapshots[entry->snapshot], item))
        return;
    struct buffer *snapshot = &work->snapshots[entry->snapshot];
    assert_true(work->plan->snapshot_bytes[entry->snapshot] >= entry->bytes);
    assert_true(snapshot->busy_to < moment || !filled);
    assert_true(!filled || work->facts->at[moment % work->plan->count].before == NOTHING); /* once a generation */
    snapshot->holds = item;
}

static void follow(const struct world *world, const struct rp_plan *plan, struct facts *facts)
{
    struct work *work = calloc(1, sizeof(*work));
    assert_true(work != NULL && plan->slot_count <= BUFFERS && plan->snapshot_count <= BUFFERS);
    work->world = world;
    work->plan = plan;
    work->facts = facts;
    work->start = plan->first % plan->count;
    for (size_t moment = 0; work->start + moment < world->lane->count; moment++) {
        pass(work, moment, moment >= plan->count);
        issue_all(work, moment);
    }
    assert_int_equal(work->misses, 0);
    assert_true(work->served >= plan->keeps + plan->prefetches);
    free(work);
}

/* ---------------------------------------------------------------- invariants */

static void check_issues(const struct rp_plan *plan, const struct facts *facts)
{
    size_t listed = 0;
    for (uint32_t place = 0; place < plan->count; place++) {
        size_t before = 0;
        for (uint32_t i = plan->issues_at[place]; i < plan->issues_at[place + 1]; i++, listed++) {
            const struct rp_plan_entry *entry = &plan->entries[plan->issues[i]];
            size_t length = places_from(facts, place, plan->issues[i]);
            assert_true(entry->action == RP_PLAN_PREFETCH && entry->issue == place && length > before);
            before = length;
        }
    }
    assert_int_equal(listed, plan->prefetches);
}

static void check_sums(const struct world *world, const struct rp_plan *plan)
{
    uint64_t sum = plan->prefetches > 0 ? world->ahead.extra : 0;
    size_t keeps = 0, prefetches = 0;
    for (size_t i = 0; i < plan->slot_count; i++) {
        sum += plan->slot_bytes[i];
        assert_true(plan->slot_bytes[i] % world->granule == 0);
    }
    for (size_t i = 0; i < plan->snapshot_count; i++) {
        sum += plan->snapshot_bytes[i];
        assert_true(plan->snapshot_bytes[i] % world->granule == 0);
    }
    assert_true(sum <= world->budget);
    for (size_t i = 0; i < plan->count; i++) {
        keeps += plan->entries[i].action == RP_PLAN_KEEP;
        prefetches += plan->entries[i].action == RP_PLAN_PREFETCH;
        assert_int_equal(plan->entries[i].action == RP_PLAN_PREFETCH, plan->entries[i].source != RP_PLAN_FROM_NOTHING);
    }
    assert_true(keeps == plan->keeps && prefetches == plan->prefetches);
}

static void check_waits(const struct world *world, const struct rp_plan *plan, const struct facts *facts)
{
    struct act *acts = calloc(WORLD_MOST, sizeof(*acts));
    struct rp_plan keep = {0};
    assert_non_null(acts);
    assert_int_equal(waits_of(facts, acts), plan->waits.plain);
    acts_of(facts, plan, acts);
    assert_int_equal(waits_of(facts, acts), plan->waits.planned);
    assert_true(plan->waits.planned <= plan->waits.kept && plan->waits.kept <= plan->waits.plain);
    if (rp_plan_compile(world->lane->items, world->lane->count, world->nranks, world->budget, world->granule, &keep) ==
        RP_OK) {
        acts_of(facts, &keep, acts);
        assert_int_equal(waits_of(facts, acts), plan->waits.kept);
    }
    rp_plan_free(&keep);
    free(acts);
}

static void check_copy(const struct world *world, const struct rp_plan *plan)
{
    struct world copy = *world;
    struct lane *lane = lane_make();
    struct rp_plan again = {0};
    *lane = *world->lane;
    copy.lane = lane;
    copy.ahead.gap_ns = copy.gap_ns;
    assert_int_equal(world_compile(&copy, &again), RP_OK);
    assert_true(again.hash == plan->hash);
    rp_plan_free(&again);
    free(lane);
}

/* True: there was something ahead to check. */
static bool check(const struct world *world)
{
    struct rp_plan plan = {0};
    if (world_compile(world, &plan) != RP_OK)
        return false;
    size_t prefetches = plan.prefetches;
    struct facts *facts = facts_of(world, &plan);
    check_sums(world, &plan);
    if (plan.waits.plain > 0)
        check_waits(world, &plan, facts);
    check_copy(world, &plan);
    if (prefetches > 0)
        check_issues(&plan, facts);
    follow(world, &plan, facts);
    free(facts);
    rp_plan_free(&plan);
    return prefetches > 0;
}

/* ---------------------------------------------------------------- random cycles */

#define WORD_MOST 80u

/* Contents that change `parts` times a cycle, and of which each comes again after `period` changes. */
struct rotation {
    size_t parts, period;
};

static uint64_t rotated(const struct rotation *rotation, uint64_t cycle, size_t at, size_t length)
{
    return 1000 + (cycle * rotation->parts + at * rotation->parts / length) % rotation->period;
}

static struct world *random_world(void)
{
    struct rotation rotation = {.parts = 1 + below(4), .period = 1 + below(4)};
    struct world *world = world_make(2 + (uint32_t)below(7));
    size_t length = 2 + below(WORD_MOST - 2), units = 1 + below(length), sizes = 1 + below(4), word[WORD_MOST];
    size_t reductions = below(6), frozen = below(3), live = below(4), busy = 1 + below(5000), gaps[WORD_MOST];
    size_t rotating = below(3) == 0 ? below(6) : 0, mixed = below(4) == 0;
    for (size_t i = 0; i < length; i++) {
        word[i] = below(12) < reductions && i > 0 ? NOTHING : below(units);
        gaps[i] = below(5) == 0 ? 0 : below(busy);
    }
    for (uint64_t cycle = 0; cycle < 6; cycle++) {
        uint64_t version = 1 + cycle;
        for (size_t i = 0; i <= length; i++) {
            world_gap(world, i == length ? 0 : gaps[i]);
            if (i == length || word[i] == NOTHING) {
                add_reduce(world->lane, MIB);
                continue;
            }
            uint64_t bytes = (1 + word[i] % sizes) * MIB;
            if (word[i] % 5 < rotating)
                add_gather(world->lane, bytes, word[i], rotated(&rotation, cycle, i, length));
            else
                add_gather(world->lane, bytes, word[i], word[i] % 7 < frozen ? 0 : version);
            world_live(world, (mixed ? i : word[i]) % 4 < live);
        }
    }
    world->ahead.link = (struct rp_plan_link_model){.latency_ns = below(1000), .ns_per_mib = below(1000)};
    world->ahead.extra = below(3) * MIB;
    world->granule = below(3) == 0 ? 2 * MIB : 1;
    world->budget = (1 + below(sizes * units * world->nranks)) * MIB;
    return world;
}

static void always_consistent(void **state)
{
    (void)state;
    size_t ahead = 0;
    srand(11);
    for (int i = 0; i < 300; i++) {
        struct world *world = random_world();
        ahead += check(world);
        world_free(world);
    }
    assert_true(ahead > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_times_no_prefetch), cmocka_unit_test(across_microbatches),
        cmocka_unit_test(fresh_ones),           cmocka_unit_test(earlier_than_due),
        cmocka_unit_test(over_the_end),         cmocka_unit_test(always_consistent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
