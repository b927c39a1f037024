/*
 * minitrain: a small sharded trainer on CUDA and NCCL, see README.md beside it.
 *
 * Without RANK and WORLD_SIZE it starts its ranks and waits for them (minitrain_launch.h); with them it is one rank.
 */
#include "minitrain.h"

#include "minitrain_calls.h"
#include "minitrain_check.h"
#include "minitrain_host.h"
#include "minitrain_launch.h"
#include "minitrain_times.h"

#include <stdio.h>
#include <stdlib.h>

/* Seconds that the watchdogs of the other ranks get after they are due. */
#define GRACE_SECONDS 15

static void train(struct mt_trainer *t)
{
    struct mt_worker *worker = t->options->threads ? mt_worker_start(t) : NULL;
    MT_CUDA(cudaEventRecord(t->step_marks[0], t->compute));
    for (int step = 1; step <= t->options->steps; step++) {
        mt_step(t, worker, step);
        if (step > MT_STEPS_AHEAD) {
            MT_CUDA(cudaEventSynchronize(t->step_marks[step - MT_STEPS_AHEAD]));
            mt_times_read(t, step - MT_STEPS_AHEAD);
        }
        mt_watchdog_feed();
    }
    MT_CUDA(cudaDeviceSynchronize());
    for (int step = t->options->steps - MT_STEPS_AHEAD + 1; step <= t->options->steps; step++)
        if (step > 0)
            mt_times_read(t, step);
    mt_watchdog_feed();
    if (worker)
        mt_worker_stop(worker);
    mt_pipe_losses(t);
}

/* The result ------------------------------------------------------------------------------------------------------ */

static int compare_floats(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* The first step loads kernels and connects ranks: left out unless it is the only one. */
static double median_step_ms(const struct mt_trainer *t)
{
    int first = t->options->steps > 1 ? 1 : 0, count = t->options->steps - first;
    float *ms = calloc((size_t)count, sizeof *ms);
    if (!ms)
        mt_die("no memory");
    for (int i = 0; i < count; i++)
        MT_CUDA(cudaEventElapsedTime(&ms[i], t->step_marks[first + i], t->step_marks[first + i + 1]));
    qsort(ms, (size_t)count, sizeof *ms, compare_floats);
    double median = (double)(ms[(count - 1) / 2] + ms[count / 2]) / 2;
    free(ms);
    return median;
}

/* The losses of every `every`-th step, divided by `parts`. */
static void print_losses(const struct mt_trainer *t, const char *name, const float *losses, int every, int parts)
{
    int steps = t->options->steps;
    const char *comma = "";
    float *read = calloc((size_t)steps, sizeof *read);
    if (!read)
        mt_die("no memory");
    MT_CUDA(cudaMemcpy(read, losses, (size_t)steps * sizeof *read, cudaMemcpyDeviceToHost));
    printf("\"%s\": [", name);
    for (int i = 0; i < steps; i++) {
        if (!mt_due(every, i + 1))
            continue;
        printf("%s\"%a\"", comma, (double)read[i] / parts);
        comma = ", ";
    }
    printf("], ");
    free(read);
}

static void print_result(const struct mt_trainer *t, uint64_t weights)
{
    const struct mt_options *o = t->options;
    printf("{\"ranks\": %d, \"layers\": %d, \"dim\": %d, \"microbatches\": %d, \"steps\": %d, ", t->world, o->layers,
           o->dim, o->microbatches, o->steps);
    print_losses(t, "losses", t->losses, 1, 1);
    print_losses(t, "mean_losses", t->mean_losses, o->log_every, MT_BATCHES(t));
    print_losses(t, "eval_losses", t->eval_losses, o->eval_every, 1);
    printf("\"weights\": \"%016llx\", \"step_ms_median\": %.4f}\n", (unsigned long long)weights, median_step_ms(t));
    fflush(stdout);
}

static int number_of(const char *name, int least)
{
    const char *text = getenv(name);
    char *rest;
    long value = text ? strtol(text, &rest, 10) : -1;
    if (!text || rest == text || *rest || value < least || value > 1 << 20) {
        fprintf(stderr, "minitrain: error: %s=%s is no number of at least %d\n", name, text ? text : "", least);
        exit(MT_EXIT_USAGE);
    }
    return (int)value;
}

static int run_rank(const struct mt_options *options)
{
    static struct mt_trainer trainer;
    int world = number_of("WORLD_SIZE", 1), rank = number_of("RANK", 0);
    const char *id_file = getenv("MINITRAIN_ID_FILE");
    if (!id_file || rank >= world) {
        fprintf(stderr, "minitrain: error: a rank needs MINITRAIN_ID_FILE, and RANK below WORLD_SIZE\n");
        return MT_EXIT_USAGE;
    }
    mt_options_check(options, world);
    mt_host_start(rank, id_file);
    mt_watchdog_start(options->timeout);
    mt_sites_open(options);
    mt_calls_open(options->calls, rank);
    mt_setup(&trainer, options, rank, world);
    train(&trainer);
    mt_deliveries_print(&trainer);
    uint64_t weights = mt_weights_checksum(&trainer);
    mt_watchdog_feed();
    if (rank == 0) {
        mt_times_print(&trainer);
        print_result(&trainer, weights);
    }
    mt_calls_close();
    mt_watchdog_stop();
    mt_teardown(&trainer);
    return 0;
}

int main(int argc, char **argv)
{
    struct mt_options options;
    mt_options_read(argc, argv, &options);
    if (options.realtime)
        setenv("FAKE_REALTIME", "1", 1);
    if (getenv("RANK") && getenv("WORLD_SIZE"))
        return run_rank(&options);
    mt_options_check(&options, options.ranks);
    return mt_launch(options.ranks, options.timeout + GRACE_SECONDS, argv);
}
