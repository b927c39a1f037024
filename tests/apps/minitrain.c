/*
 * minitrain: a small sharded trainer on CUDA and NCCL, see README.md beside it.
 *
 * Without RANK and WORLD_SIZE it starts its ranks and waits for them (minitrain_launch.h); with them it is one rank.
 */
#include "minitrain.h"

#include "minitrain_check.h"
#include "minitrain_host.h"
#include "minitrain_launch.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* Seconds that the watchdogs of the other ranks get after they are due. */
#define GRACE_SECONDS 15
/* What --allocate leaves of the free memory. */
#define MARGIN_BYTES ((size_t)4 << 20)

static bool due(int every, int step)
{
    return every > 0 && step % every == 0;
}

/* Fills `order` with the blocks of a pass in `step`; returns how many. */
static int blocks_of(const struct mt_trainer *t, int step, int *order)
{
    int count = 0, skipped = step == t->options->skip_layer ? t->options->layers / 2 : -1;
    for (int i = 0; i < t->executions; i++) {
        int block = i < t->options->layers ? i : t->options->layers - 1;
        if (block != skipped)
            order[count++] = block;
    }
    return count;
}

static void edit_weights(struct mt_trainer *t)
{
    struct mt_module *m = &t->modules[1];
    if (t->options->edit_rank == -1 || t->options->edit_rank == t->rank)
        mt_edit_launch(t->compute, m->master, m->sent, m->shard);
}

static void microbatch(struct mt_trainer *t, struct mt_worker *worker, const struct mt_pass *pass)
{
    if (t->options->lag.rank == t->rank)
        usleep((useconds_t)t->options->lag.value);
    mt_pass_forward(t, pass);
    if (worker)
        mt_worker_run(worker, pass);
    else
        mt_pass_backward(t, pass);
    if (pass->step == t->options->edit_weights && pass->microbatch == 0)
        edit_weights(t);
}

static void optimizer(struct mt_trainer *t, int step)
{
    const struct mt_options *o = t->options;
    struct mt_update update = {.rate = step <= o->zero_lr_steps ? 0.0f : (float)o->lr,
                               .gradient_scale = 1.0f / (float)(t->world * o->microbatches)};
    mt_range_push(t, "optimizer", NULL);
    mt_stream_follow(t->compute, t->reduce, t->reduce_done);
    for (int i = 0; i <= o->layers; i++) {
        struct mt_module *m = &t->modules[i];
        mt_optimizer_launch(t->compute, m->master, m->sent, m->gradient, m->shard, m->live, update);
    }
    mt_range_pop(t);
}

static void evaluate(struct mt_trainer *t, struct mt_pass pass)
{
    pass.eval = true;
    pass.microbatch = t->options->microbatches;
    pass.loss = &t->eval_losses[pass.step - 1];
    pass.loss_parts = 1;
    mt_range_push(t, "eval", NULL);
    mt_pass_forward(t, &pass);
    mt_range_pop(t);
}

/* A program that grows: nothing that others keep on the device may be in its way. It goes with the process. */
static void allocate(const struct mt_trainer *t)
{
    void *memory;
    if (t->free_memory <= MARGIN_BYTES)
        mt_die("--allocate: only %zu bytes are free", t->free_memory);
    size_t bytes = t->free_memory - MARGIN_BYTES;
    MT_CUDA(cudaMalloc(&memory, bytes));
    MT_CUDA(cudaMemsetAsync(memory, 0xff, bytes, t->compute));
}

/* As a data loader forks its workers. */
static void fork_child(void)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0)
        exit(0);
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
        mt_die("--fork-every: a child ended with status %d", status);
}

static void train_step(struct mt_trainer *t, struct mt_worker *worker, int step, int *order)
{
    const struct mt_options *o = t->options;
    struct mt_pass pass = {.step = step,
                           .blocks = blocks_of(t, step, order),
                           .order = order,
                           .loss = &t->losses[step - 1],
                           .loss_parts = o->microbatches};
    if (o->kill.rank == t->rank && o->kill.value == step)
        raise(SIGKILL);
    if (o->allocate.rank == t->rank && o->allocate.value == step)
        allocate(t);
    for (pass.microbatch = 0; pass.microbatch < o->microbatches; pass.microbatch++)
        microbatch(t, worker, &pass);
    optimizer(t, step);
    MT_CUDA(cudaEventRecord(t->step_marks[step], t->compute));
    if (due(o->log_every, step))
        mt_loss_reduce(t, step);
    if (due(o->eval_every, step))
        evaluate(t, pass);
    mt_deliveries_collect(t);
    if (due(o->fork_every, step))
        fork_child();
}

static void train(struct mt_trainer *t)
{
    struct mt_worker *worker = t->options->threads ? mt_worker_start(t) : NULL;
    int *order = calloc((size_t)t->executions, sizeof *order);
    if (!order)
        mt_die("no memory");
    MT_CUDA(cudaEventRecord(t->step_marks[0], t->compute));
    for (int step = 1; step <= t->options->steps; step++) {
        train_step(t, worker, step, order);
        if (step > MT_STEPS_AHEAD)
            MT_CUDA(cudaEventSynchronize(t->step_marks[step - MT_STEPS_AHEAD]));
        mt_watchdog_feed();
    }
    MT_CUDA(cudaDeviceSynchronize());
    mt_watchdog_feed();
    if (worker)
        mt_worker_stop(worker);
    free(order);
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
        if (!due(every, i + 1))
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
    print_losses(t, "mean_losses", t->mean_losses, o->log_every, t->world);
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
    mt_host_start(rank, id_file);
    mt_watchdog_start(options->timeout);
    mt_setup(&trainer, options, rank, world);
    train(&trainer);
    mt_deliveries_print(&trainer);
    uint64_t weights = mt_weights_checksum(&trainer);
    mt_watchdog_feed();
    if (rank == 0)
        print_result(&trainer, weights);
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
    return mt_launch(options.ranks, options.timeout + GRACE_SECONDS, argv);
}
