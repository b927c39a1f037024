/* Plans with gathers ahead against exhaustive search, in cycles that are small enough for it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "plan_clock.h"

#define PLACES 16u     /* most of a cycle */
#define CHOICES 30000u /* most that are tried */
#define CASES 2000

static size_t below(size_t most)
{
    return most == 0 ? 0 : (size_t)rand() % most;
}

/* ---------------------------------------------------------------- memory */

/* What is in use at some places of the cycle: a bit each. */
struct piece {
    uint64_t bytes;
    uint32_t places;
};

struct pieces {
    size_t count;
    struct piece at[PLACES];
};

static uint32_t places_behind(const struct facts *facts, size_t from, size_t length)
{
    uint32_t places = 0;
    for (size_t i = 1; i <= length; i++)
        places |= 1u << (from + i) % facts->count;
    return places;
}

static void add_piece(struct pieces *pieces, uint64_t bytes, uint32_t places)
{
    size_t at = pieces->count++;
    for (; at > 0 && pieces->at[at - 1].bytes < bytes; at--)
        pieces->at[at] = pieces->at[at - 1];
    pieces->at[at] = (struct piece){.bytes = bytes, .places = places};
}

/* The least bytes of buffers that hold them, if that is below `bound`; the largest come first. */
static uint64_t least_bytes(const struct pieces *pieces, size_t next, uint32_t *buffers, size_t count, uint64_t sum,
                            uint64_t bound)
{
    if (sum >= bound)
        return bound;
    if (next == pieces->count)
        return sum;
    const struct piece *piece = &pieces->at[next];
    for (size_t i = 0; i < count; i++) {
        if ((buffers[i] & piece->places) != 0)
            continue;
        buffers[i] |= piece->places;
        bound = least_bytes(pieces, next + 1, buffers, count, sum, bound);
        buffers[i] &= ~piece->places;
    }
    buffers[count] = piece->places;
    return least_bytes(pieces, next + 1, buffers, count + 1, sum + piece->bytes, bound);
}

static uint64_t bytes_for(const struct pieces *pieces, uint64_t bound)
{
    uint32_t buffers[PLACES];
    return least_bytes(pieces, 0, buffers, 0, 0, bound);
}

static bool is_repeated_from_memory(const struct facts *facts, const struct act *acts, size_t place)
{
    for (size_t i = 0; i < facts->count; i++) {
        if (facts->at[i].before == place && acts[i].what == KEPT)
            return true;
    }
    return false;
}

/* From where the gather's unit is in its slot, up to it. */
static uint32_t run_places(const struct facts *facts, const struct act *acts, size_t last)
{
    uint32_t places = 0;
    size_t place = last;
    while (acts[place].what == KEPT) {
        size_t before = facts->at[place].before;
        places |= places_behind(facts, before, places_from(facts, before, place));
        place = before;
        if (place == last)
            return places;
    }
    if (acts[place].what == AHEAD)
        places |= places_behind(facts, (place + facts->count - acts[place].length) % facts->count, acts[place].length);
    return places;
}

/* A unit that is kept all round has no last gather: the first in the cycle counts. */
static bool is_last(const struct facts *facts, const struct act *acts, size_t place)
{
    if (acts[place].what == NET)
        return false;
    if (!is_repeated_from_memory(facts, acts, place))
        return true;
    for (size_t i = place; acts[i].what == KEPT && facts->at[place].head == NOTHING;) {
        i = facts->at[i].before;
        if (i == place)
            return true;
        if (i < place)
            return false;
    }
    return false;
}

static void add_snapshots(const struct facts *facts, const struct act *acts, struct pieces *pieces)
{
    for (size_t unit = 0; unit < facts->count; unit++) {
        uint32_t places = 0;
        size_t name = NOTHING; /* the place that stands for the unit: its head, or the first of those that go round */
        for (size_t i = 0; i < facts->count; i++) {
            if (acts[i].what != AHEAD || facts->at[i].live)
                continue;
            size_t head = facts->at[i].head, first = head;
            for (size_t j = i; head == NOTHING && (first == NOTHING || j != i); j = facts->at[j].before)
                first = first == NOTHING || j < first ? j : first;
            for (size_t j = facts->at[i].before; head == NOTHING && j != i; j = facts->at[j].before)
                first = j < first ? j : first;
            if (first != unit)
                continue;
            name = unit;
            size_t length = head == NOTHING ? facts->count : places_from(facts, head, i) + 1;
            places |= places_behind(facts, (unit + facts->count - 1) % facts->count, length);
        }
        if (name != NOTHING)
            add_piece(pieces, facts->at[unit].bytes, places);
    }
}

static bool fits(const struct facts *facts, const struct act *acts, const struct world *world)
{
    struct pieces slots = {0}, snapshots = {0};
    uint64_t left = world->budget;
    for (size_t i = 0; i < facts->count; i++) {
        if (is_last(facts, acts, i))
            add_piece(&slots, facts->at[i].bytes * world->nranks, run_places(facts, acts, i));
    }
    for (size_t i = 0, ahead = 0; i < facts->count && ahead == 0; i++) {
        ahead = acts[i].what == AHEAD;
        if (ahead && world->ahead.extra > left)
            return false;
        left -= ahead ? world->ahead.extra : 0;
    }
    add_snapshots(facts, acts, &snapshots);
    uint64_t copies = bytes_for(&snapshots, left + 1);
    return copies <= left && bytes_for(&slots, left - copies + 1) <= left - copies;
}

/* ---------------------------------------------------------------- search */

struct all {
    const struct facts *facts;
    const struct world *world;
    struct act acts[PLACES];
    uint64_t least;
};

static size_t options(const struct fact *fact)
{
    return fact->gather ? 1 + (fact->before != NOTHING) + fact->reach : 1;
}

static void search(struct all *all, size_t place)
{
    if (place == all->facts->count) {
        uint64_t waits = waits_of(all->facts, all->acts);
        if (waits < all->least && fits(all->facts, all->acts, all->world))
            all->least = waits;
        return;
    }
    const struct fact *fact = &all->facts->at[place];
    if (fact->gather && fact->before != NOTHING) {
        all->acts[place] = (struct act){.what = KEPT};
        search(all, place + 1);
    }
    for (size_t length = 1; length <= fact->reach; length++) {
        if (fact->live && !all->facts->at[(place + all->facts->count - length) % all->facts->count].gather)
            continue; /* copied on the stream of a gather */
        all->acts[place] = (struct act){.what = AHEAD, .length = length};
        search(all, place + 1);
    }
    all->acts[place] = (struct act){.what = NET};
    search(all, place + 1);
}

static size_t count_choices(const struct facts *facts)
{
    size_t product = 1;
    for (size_t i = 0; i < facts->count; i++)
        product = product > CHOICES ? product : product * options(&facts->at[i]);
    return product;
}

/* ---------------------------------------------------------------- cycles */

struct unit {
    uint64_t bytes;
    bool frozen, live;
};

static void add_cycles(struct world *world, const struct unit *units, size_t unit_count, bool shuffled)
{
    if (unit_count == 0)
        abort();
    size_t word[PLACES] = {0}, length = 3 + below(8), gaps[PLACES] = {0};
    for (size_t i = 0; i < length; i++) {
        word[i] = i < unit_count || shuffled ? below(unit_count) : unit_count - 1 - i % unit_count;
        word[i] = below(6) == 0 ? NOTHING : word[i];
        gaps[i] = below(4) == 0 ? 0 : below(3000);
    }
    for (uint64_t cycle = 0; cycle < 5; cycle++) {
        for (size_t i = 0; i < length; i++) {
            const struct unit *unit = &units[word[i] == NOTHING ? 0 : word[i]];
            world_gap(world, gaps[i]);
            if (word[i] == NOTHING)
                add_reduce(world->lane, MIB << below(2));
            else
                add_gather(world->lane, unit->bytes, word[i], unit->frozen ? 0 : 1 + cycle);
            world_live(world, word[i] != NOTHING && unit->live);
        }
        world_gap(world, gaps[0] * 2);
        add_reduce(world->lane, MIB);
    }
}

static struct world *random_world(void)
{
    struct unit units[5];
    struct world *world = world_make(2 + (uint32_t)below(4));
    size_t count = 1 + below(5), sizes = 1 + below(3), persistent = below(3);
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i++) {
        units[i] = (struct unit){.bytes = (1 + below(sizes)) * MIB};
        units[i].frozen = below(8) == 0;
        units[i].live = below(4) < 2 * persistent;
        sum += units[i].bytes * world->nranks;
    }
    world->ahead.link = (struct rp_plan_link_model){.latency_ns = below(500), .ns_per_mib = 1 + below(1000)};
    world->ahead.extra = below(3) * MIB;
    world->budget = world->nranks * MIB + below(sum / 2 + MIB);
    add_cycles(world, units, count, below(2) == 0);
    return world;
}

/* ---------------------------------------------------------------- how near */

struct distribution {
    size_t cases, ahead, best, near; /* plans; with prefetches; that wait least; at most 5% more */
    uint64_t waits, least;           /* sums */
    double worst, worst_cycle;       /* of the waits; of these and compute */
};

static void judge(struct distribution *all, const struct rp_plan *plan, uint64_t least)
{
    double waits = (double)plan->waits.planned, cycle = waits + (double)plan->waits.compute;
    double ratio = least == 0 ? (waits == 0 ? 1 : 1e9) : waits / (double)least;
    double cycles = cycle / (double)(least + plan->waits.compute);
    all->cases++;
    all->best += plan->waits.planned == least;
    all->near += ratio <= 1.05;
    all->ahead += plan->prefetches > 0;
    all->waits += plan->waits.planned;
    all->least += least;
    all->worst = ratio > all->worst ? ratio : all->worst;
    all->worst_cycle = cycles > all->worst_cycle ? cycles : all->worst_cycle;
}

/* The plan is what it says it is, it fits, and nothing is better; then it is judged. */
static void compare(const struct world *world, const struct rp_plan *plan, struct distribution *all)
{
    struct facts *facts = facts_of(world, plan);
    struct all search_all = {.facts = facts, .world = world, .least = UINT64_MAX};
    struct act acts[PLACES] = {0};

    acts_of(facts, plan, acts);
    assert_int_equal(waits_of(facts, acts), plan->waits.planned);
    assert_true(fits(facts, acts, world));
    if (count_choices(facts) <= CHOICES) {
        search(&search_all, 0);
        assert_true(search_all.least <= plan->waits.planned);
        judge(all, plan, search_all.least);
    }
    free(facts);
}

static void near_the_best(void **state)
{
    (void)state;
    struct distribution all = {0};
    srand(7);
    for (int i = 0; i < CASES; i++) {
        struct world *world = random_world();
        struct rp_plan plan = {0};
        if (world_compile(world, &plan) == RP_OK && plan.waits.plain > 0 && plan.count <= PLACES)
            compare(world, &plan, &all);
        rp_plan_free(&plan);
        world_free(world);
    }
    printf("%zu cycles, %zu with prefetches: %zu wait least, %zu at most 5%% more; worst %.3f, with compute %.3f, all "
           "together %.4f\n",
           all.cases, all.ahead, all.best, all.near, all.worst, all.worst_cycle, (double)all.waits / (double)all.least);
    assert_true(all.cases > 500 && all.ahead > 150);
    assert_int_equal(all.near, all.cases);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(near_the_best),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
