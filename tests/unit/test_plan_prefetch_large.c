/* Plans with gathers ahead for large cycles: how far from a lower bound, and how long they take to compile. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "plan_clock.h"

/* ---------------------------------------------------------------- the bound */

/* A gather that repeats one: what it takes of the link, and of the budget's area if compute or link is to be spared. */
struct repeat {
    double transfer, area; /* ns; bytes times places */
};

struct repeats {
    struct repeat kept[WORLD_MOST], hidden[WORLD_MOST];
    size_t count;
};

/* The most transfer for its area first. */
static int compare_repeats(const void *left, const void *right)
{
    const struct repeat *a = left, *b = right;
    double x = a->transfer * b->area, y = b->transfer * a->area;
    return (x < y) - (x > y);
}

/* The most that the area can spare, the last gather in part. */
static double most_spared(struct repeat *repeats, size_t count, double area)
{
    double spared = 0;
    qsort(repeats, count, sizeof(*repeats), compare_repeats);
    for (size_t i = 0; i < count && area > 0; i++) {
        double part = repeats[i].area <= area ? 1 : area / repeats[i].area;
        spared += part * repeats[i].transfer;
        area -= part * repeats[i].area;
    }
    return spared;
}

/*
 * What a prefetch takes at least: a slot at one place, and its part of the unit's snapshot, which is there from the
 * first gather to the last prefetch and at best serves all in between.
 */
static double least_ahead(const struct world *world, const struct facts *facts, size_t head)
{
    double least = 1e300, bytes = (double)facts->at[head].bytes;
    size_t repeats = 0;
    for (size_t i = head + 1; i < facts->count; i++) {
        if (facts->at[i].before == NOTHING || facts->at[i].head != head)
            continue;
        double part = bytes * (double)(i - head + 1) / (double)++repeats;
        least = part < least ? part : least;
    }
    return facts->at[head].live ? bytes * world->nranks : least + bytes * world->nranks;
}

static void find_repeats(const struct world *world, const struct facts *facts, struct repeats *repeats)
{
    for (size_t i = 0; i < facts->count; i++) {
        const struct fact *fact = &facts->at[i];
        if (fact->before == NOTHING)
            continue;
        double kept = (double)(fact->bytes * world->nranks * places_from(facts, fact->before, i));
        double ahead = least_ahead(world, facts, fact->head);
        repeats->kept[repeats->count] = (struct repeat){(double)fact->transfer, kept};
        repeats->hidden[repeats->count++] = (struct repeat){(double)fact->transfer, ahead < kept ? ahead : kept};
    }
}

/* With units of one size and no gather over the cycle's end nothing keeps more than Belady's rule. */
static double kept_by_rule(const struct world *world, const struct facts *facts)
{
    struct rp_plan keep = {0};
    double sum = 0;
    if (rp_plan_compile(world->lane->items, world->lane->count, world->nranks, world->budget, 1, &keep) == RP_OK) {
        for (size_t i = 0; i < keep.count; i++)
            sum += keep.entries[i].action == RP_PLAN_KEEP ? (double)facts->at[i].transfer : 0;
    }
    rp_plan_free(&keep);
    return sum;
}

/*
 * No cycle is shorter than compute and what it waits for: fresh gathers that nothing can send early, and repeats that
 * memory hides from it in no way; nor than what the link has to carry.
 */
static double least_cycle(const struct world *world, const struct facts *facts, uint64_t compute, size_t sizes)
{
    struct repeats *repeats = calloc(1, sizeof(*repeats));
    double exposed = (double)compute, link = 0, area = (double)world->budget * (double)facts->count;
    assert_non_null(repeats);
    find_repeats(world, facts, repeats);
    for (size_t i = 0; i < facts->count; i++) {
        const struct fact *fact = &facts->at[i];
        link += (double)fact->transfer;
        if (fact->gather && (fact->before != NOTHING || fact->reach == 0))
            exposed += (double)fact->transfer;
    }
    double rule = sizes == 1 ? kept_by_rule(world, facts) : 1e300;
    double kept = most_spared(repeats->kept, repeats->count, area);
    link -= kept < rule ? kept : rule;
    exposed -= most_spared(repeats->hidden, repeats->count, area);
    free(repeats);
    return exposed > link ? exposed : link;
}

/* ---------------------------------------------------------------- large cycles */

static double milliseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

/* All gathered units together. */
static uint64_t all_bytes(const struct trainer *trainer, uint32_t nranks)
{
    uint64_t sum = 0;
    for (size_t layer = 0; layer < trainer->layers; layer++)
        sum += (1 + layer % trainer->sizes) * MIB * nranks;
    return sum;
}

/* The cycle's length over the bound. */
static double compare(const struct trainer *trainer, uint32_t nranks, unsigned percent)
{
    struct world *world = trained(trainer, nranks, all_bytes(trainer, nranks) * percent / 100);
    struct rp_plan plan = {0};
    double began = milliseconds();
    assert_int_equal(world_compile(world, &plan), RP_OK);
    double took = milliseconds() - began;
    struct facts *facts = facts_of(world, &plan);
    double compute = (double)plan.waits.compute, least = least_cycle(world, facts, plan.waits.compute, trainer->sizes);
    double cycle = compute + (double)plan.waits.planned, ratio = cycle / least;
    printf("%4zu layers %zu batches %zu sizes%s %u ranks %3u%%: compute %6.1f ms, waits: plain %6.1f kept %6.1f "
           "planned %6.1f least %6.1f, cycle %.3f of the least, %5.1f ms for %zu entries\n",
           trainer->layers, trainer->microbatches, trainer->sizes, trainer->send == PERSISTENT ? " live" : "", nranks,
           percent, compute * 1e-6, (double)plan.waits.plain * 1e-6, (double)plan.waits.kept * 1e-6,
           (double)plan.waits.planned * 1e-6, (least - compute) * 1e-6, ratio, took, plan.count);
    assert_true(ratio >= 1 - 1e-9);
    assert_true(plan.waits.planned <= plan.waits.kept);
    free(facts);
    rp_plan_free(&plan);
    world_free(world);
    return ratio;
}

static void near_the_bound(void **state)
{
    (void)state;
    static const struct trainer trainers[] = {
        {.layers = 32, .microbatches = 4, .sizes = 1, .forward_us = 80, .backward_us = 160},
        {.layers = 32, .microbatches = 4, .sizes = 3, .forward_us = 80, .backward_us = 160},
        {.layers = 250, .microbatches = 4, .sizes = 1, .forward_us = 80, .backward_us = 160},
        {.layers = 250, .microbatches = 4, .sizes = 1, .forward_us = 40, .backward_us = 40},
        {.layers = 250, .microbatches = 4, .sizes = 4, .forward_us = 160, .backward_us = 320},
        {.layers = 250, .microbatches = 4, .sizes = 1, .forward_us = 80, .backward_us = 160, .send = PERSISTENT},
        {.layers = 1000, .microbatches = 1, .sizes = 1, .forward_us = 80, .backward_us = 160},
    };
    static const unsigned percents[] = {50, 25, 5};
    double sum = 0, worst = 0;
    size_t count = 0;
    for (size_t i = 0; i < sizeof(trainers) / sizeof(trainers[0]); i++) {
        for (size_t j = 0; j < sizeof(percents) / sizeof(percents[0]); j++) {
            double ratio = compare(&trainers[i], 8, percents[j]);
            worst = ratio > worst ? ratio : worst;
            sum += ratio;
            count++;
        }
    }
    printf("cycles over the bound: mean %.3f, worst %.3f\n", sum / (double)count, worst);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(near_the_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
