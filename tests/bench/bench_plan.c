/*
 * What compiling a plan costs: cycles of 2,000 gathers, with several budgets. Prints, of each: what the plan does with
 * its gathers, what compute waits for by the model, and the least, the median and the largest CPU time of this thread,
 * of a plan with gathers ahead and of the one without. Other work on the machine lengthens CPU time too, by the caches
 * and cores that are shared, and by what a hypervisor takes: the least is nearest to an idle machine.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "tests/unit/plan_clock.h"

#define REPEATS 15u
#define RANKS 8u

struct spent {
    double least, median, most; /* ms */
};

static double milliseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The last of the plans is given out. */
static struct spent compile(const struct world *world, struct rp_plan *plan_out)
{
    double times[REPEATS];

    for (size_t i = 0; i < REPEATS; i++) {
        rp_plan_free(plan_out);
        double began = milliseconds();
        if (world_compile(world, plan_out) != RP_OK)
            abort();
        times[i] = milliseconds() - began;
    }
    qsort(times, REPEATS, sizeof(times[0]), compare);
    return (struct spent){.least = times[0], .median = times[REPEATS / 2], .most = times[REPEATS - 1]};
}

/* All gathered units together. */
static uint64_t all_bytes(const struct trainer *trainer)
{
    uint64_t sum = 0;
    for (size_t layer = 0; layer < trainer->layers; layer++)
        sum += (1 + layer % trainer->sizes) * MIB * RANKS;
    return sum;
}

static void measure(const struct trainer *trainer, unsigned percent)
{
    struct world *world = trained(trainer, RANKS, all_bytes(trainer) * percent / 100);
    struct rp_plan ahead = {0}, keep = {0};
    struct spent whole = compile(world, &ahead);

    world->ahead.gap_ns = NULL;
    struct spent kept = compile(world, &keep);
    printf("%6zu %7zu %5zu %-9s %3u/%3u %5u%% %5zu %5zu %9.1f %9.1f %7.2f %7.2f %7.2f %7.2f %7.2f %7.2f\n",
           trainer->layers, trainer->microbatches, trainer->sizes, trainer->send == PERSISTENT ? "live" : "snapshots",
           (unsigned)trainer->forward_us, (unsigned)trainer->backward_us, percent, ahead.keeps, ahead.prefetches,
           (double)ahead.waits.kept * 1e-6, (double)ahead.waits.planned * 1e-6, whole.least, whole.median, whole.most,
           kept.least, kept.median, kept.most);
    rp_plan_free(&ahead);
    rp_plan_free(&keep);
    world_free(world);
}

int main(void)
{
    static const struct trainer trainers[] = {
        {.layers = 250, .microbatches = 4, .sizes = 1, .forward_us = 80, .backward_us = 160},
        {.layers = 250, .microbatches = 4, .sizes = 1, .forward_us = 80, .backward_us = 160, .send = PERSISTENT},
        {.layers = 250, .microbatches = 4, .sizes = 4, .forward_us = 160, .backward_us = 320},
        {.layers = 250, .microbatches = 4, .sizes = 4, .forward_us = 160, .backward_us = 320, .send = PERSISTENT},
        {.layers = 250, .microbatches = 4, .sizes = 1, .forward_us = 40, .backward_us = 40},
        {.layers = 1000, .microbatches = 1, .sizes = 1, .forward_us = 80, .backward_us = 160},
    };
    static const unsigned percents[] = {50, 25, 5, 2};

    printf("%6s %7s %5s %-9s %7s %6s %5s %5s %9s %9s %7s %7s %7s %7s %7s %7s\n", "layers", "batches", "sizes", "from",
           "us", "memory", "kept", "ahead", "kept wait", "plan wait", "ms", "median", "most", "keep ms", "median",
           "most");
    for (size_t i = 0; i < sizeof(trainers) / sizeof(trainers[0]); i++) {
        for (size_t j = 0; j < sizeof(percents) / sizeof(percents[0]); j++)
            measure(&trainers[i], percents[j]);
    }
    return 0;
}
