/*
 * One step of a rank: the tasks of its schedule with what goes between the stages, the optimizer, and what options put
 * around them. Without stages the schedule is forward and backward of one microbatch after the other.
 *
 * Main thread only.
 */
#include "minitrain.h"

#include "minitrain_check.h"
#include "minitrain_host.h"
#include "minitrain_times.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* What --allocate leaves of the free memory. */
#define MARGIN_BYTES ((size_t)4 << 20)

bool mt_due(int every, int step)
{
    return every > 0 && step % every == 0;
}

/* Which blocks the chunk runs in `step`. */
static void order_blocks(const struct mt_trainer *t, struct mt_chunk *chunk, int step)
{
    int layers = t->options->layers, skipped = step == t->options->skip_layer ? layers / 2 : -1;
    chunk->blocks = 0;
    for (int i = chunk->first; i < chunk->first + chunk->executions; i++) {
        int block = i < layers ? i : layers - 1;
        if (block != skipped)
            chunk->order[chunk->blocks++] = block;
    }
}

static void edit_weights(struct mt_trainer *t)
{
    struct mt_module *m = &t->modules[1];
    if (t->options->edit_rank == -1 || t->options->edit_rank == t->rank)
        mt_edit_launch(t->compute, m->master, m->sent, m->shard);
    mt_pass_fence(t);
}

/* Tasks ----------------------------------------------------------------------------------------------------------- */

static struct mt_pass pass_of(const struct mt_trainer *t, int step, bool eval, struct mt_task task)
{
    const struct mt_chunk *chunk = &t->chunks[task.chunk];
    return (struct mt_pass){.step = step,
                            .microbatch = task.microbatch,
                            .eval = eval,
                            .chunk = chunk,
                            .flight = &chunk->flight[task.microbatch % chunk->flights],
                            .loss = eval ? &t->eval_losses[step - 1] : &t->losses[step - 1],
                            .loss_parts = eval ? 1 : t->options->microbatches};
}

static void forward(struct mt_trainer *t, const struct mt_pass *pass)
{
    if (t->options->lag.rank == t->rank && !pass->eval)
        usleep((useconds_t)t->options->lag.value);
    mt_pass_forward(t, pass);
}

static void backward(struct mt_trainer *t, struct mt_worker *worker, const struct mt_pass *pass)
{
    if (worker)
        mt_worker_run(worker, pass);
    else
        mt_pass_backward(t, pass);
    if (pass->step == t->options->edit_weights && pass->microbatch == 0 && pass->chunk->embeds)
        edit_weights(t);
}

static void run(struct mt_trainer *t, struct mt_worker *worker, int step, bool eval)
{
    static const struct mt_tick nothing = {{-1, 0}, {-1, 0}};
    const struct mt_schedule *schedule = eval ? t->evaluation : t->training;
    const struct mt_tick *tick = schedule->tick;
    mt_pipe_exchange(t, step, eval, &nothing, tick);
    for (int i = 0; i < schedule->count; i++, tick++) {
        struct mt_pass pass;
        if (tick->forward.chunk >= 0) {
            pass = pass_of(t, step, eval, tick->forward);
            forward(t, &pass);
        }
        if (tick->backward.chunk >= 0) {
            pass = pass_of(t, step, eval, tick->backward);
            backward(t, worker, &pass);
        }
        mt_pipe_exchange(t, step, eval, tick, tick + 1);
    }
}

/* Between steps ---------------------------------------------------------------------------------------------------- */

struct step {
    struct mt_trainer *t;
    int number;
};

static void optimizer(void *argument)
{
    const struct step *step = argument;
    struct mt_trainer *t = step->t;
    const struct mt_options *o = t->options;
    struct mt_update update = {.rate = step->number <= o->zero_lr_steps ? 0.0f : (float)o->lr,
                               .gradient_scale = 1.0f / (float)(MT_BATCHES(t) * o->microbatches)};
    MT_CUDA(cudaEventRecord(t->reduce_done, t->reduce));
    mt_compute_wait(t, MT_WAIT_REDUCTION, t->reduce_done);
    for (int i = 0; i <= o->layers; i++) {
        struct mt_module *m = &t->modules[i];
        if (m->params == 0)
            continue;
        mt_optimizer_launch(t->compute, m->master, m->sent, m->gradient, m->shard, m->live, update);
    }
}

static void evaluate(void *argument)
{
    const struct step *step = argument;
    run(step->t, NULL, step->number, true);
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

void mt_step(struct mt_trainer *t, struct mt_worker *worker, int step)
{
    const struct mt_options *o = t->options;
    struct step this = {t, step};
    if (o->kill.rank == t->rank && o->kill.value == step)
        raise(SIGKILL);
    if (o->allocate.rank == t->rank && o->allocate.value == step)
        allocate(t);
    for (int i = 0; i < o->chunks; i++)
        order_blocks(t, &t->chunks[i], step);
    mt_times_begin(t, step);
    run(t, worker, step, false);
    mt_at(MT_OPTIMIZER, NULL, optimizer, &this);
    MT_CUDA(cudaEventRecord(t->step_marks[step], t->compute));
    mt_times_end(t);
    if (mt_due(o->log_every, step))
        mt_loss_reduce(t, step);
    if (mt_due(o->eval_every, step))
        mt_at(MT_EVAL, NULL, evaluate, &this);
    mt_deliveries_collect(t);
    if (mt_due(o->fork_every, step))
        fork_child();
}
