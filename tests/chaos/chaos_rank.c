/*
 * A rank: sets up, runs the steps, compares, ends.
 *
 *     chaos RANK SEED DESCRIPTOR      of memory shared with the other ranks and the runner
 */
#include "tests/chaos/chaos_rank.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define CARELESS_GATHERS 3
#define ABORT_SECONDS 5

/* Errors ---------------------------------------------------------------------------------------------------------- */

void chaos_park_if_expired(struct chaos_rank *me)
{
    while (atomic_load(&me->expired))
        pause();
}

void chaos_die(struct chaos_rank *me, const char *format, ...)
{
    char line[512];
    va_list list;
    chaos_park_if_expired(me);
    va_start(list, format);
    vsnprintf(line, sizeof line, format, list);
    va_end(list);
    fprintf(stderr, "chaos: [rank %d] error: action %u: %s\n", me->rank, chaos_figures_of(me)->action, line);
    _exit(CHAOS_FAILED);
}

void chaos_cuda(struct chaos_rank *me, cudaError_t error, const char *call)
{
    if (error != cudaSuccess)
        chaos_die(me, "%s: %s", call, cudaGetErrorString(error));
}

void chaos_nccl(struct chaos_rank *me, ncclResult_t result, const char *call)
{
    if (result != ncclSuccess && result != ncclInProgress)
        chaos_die(me, "%s: %s: %s", call, ncclGetErrorString(result), ncclGetLastError(NULL));
}

struct chaos_figures *chaos_figures_of(struct chaos_rank *me)
{
    return &me->shared->ranks[me->rank];
}

/* Watchdog -------------------------------------------------------------------------------------------------------- */

/* An abort may itself hang, so a timer ends the process in any case. Communicators that are being made or ended right
 * now cannot be aborted; then the process just ends. */
static void expire(struct chaos_rank *me)
{
    atomic_store(&me->expired, true);
    alarm(ABORT_SECONDS);
    if (pthread_mutex_trylock(&me->comms_lock) == 0)
        for (int i = CHAOS_COMMS_MAX - 1; i >= 0; i--)
            if (me->comms[i])
                ncclCommAbort(me->comms[i]);
    _exit(CHAOS_EXPIRED);
}

static void *watch(void *argument)
{
    struct chaos_rank *me = argument;
    const uint64_t bound_us = (uint64_t)me->program->watchdog_ms * 1000, look_us = 50000;
    uint32_t seen = 0;
    for (uint64_t waited = 0; waited < bound_us; waited += look_us) {
        uint32_t now = chaos_figures_of(me)->action;
        waited = now == seen ? waited : 0;
        seen = now;
        usleep((useconds_t)look_us);
    }
    expire(me);
    return NULL;
}

static void watchdog_start(struct chaos_rank *me)
{
    pthread_t thread;
    if (me->program->watchdog_ms == 0)
        return;
    if (pthread_create(&thread, NULL, watch, me) != 0)
        chaos_die(me, "no thread");
    pthread_detach(thread);
}

/* The steps ------------------------------------------------------------------------------------------------------- */

static bool is_barrier(const struct chaos_action *action)
{
    return action->kind == CHAOS_REMAKE || action->kind == CHAOS_DESTROY;
}

/* How many actions belong together from `actions` on; they are of one thread. */
static int bracket_count(const struct chaos_action *actions, int left)
{
    int count = 1;
    while (count < left && actions[count].number == actions[0].number)
        count++;
    return count;
}

struct stretch {
    struct chaos_rank *me;
    const struct chaos_action *actions;
    int count;
    int thread; /* whose actions are run */
};

static void *stretch_run(void *argument)
{
    const struct stretch *stretch = argument;
    struct chaos_rank *me = stretch->me;
    CHAOS_CUDA(me, cudaSetDevice(me->rank));
    for (int i = 0; i < stretch->count;) {
        const struct chaos_action *first = &stretch->actions[i];
        int count = bracket_count(first, stretch->count - i);
        i += count;
        if (first->thread != stretch->thread)
            continue;
        chaos_figures_of(me)->action = (uint32_t)(first - me->program->actions);
        chaos_issue(me, first, count);
    }
    return NULL;
}

static void on_thread_one(struct chaos_rank *me, struct stretch *stretch, pthread_t *thread_out)
{
    stretch->thread = 1;
    if (pthread_create(thread_out, NULL, stretch_run, stretch) != 0)
        chaos_die(me, "no thread");
}

/* Thread 1 takes its actions while thread 0 takes the others. */
static void run_parallel(struct chaos_rank *me, const struct stretch *all)
{
    struct stretch mine = *all, others = *all;
    pthread_t thread;
    mine.thread = 0;
    on_thread_one(me, &others, &thread);
    stretch_run(&mine);
    pthread_join(thread, NULL);
}

/* One thread at a time, in the order of the actions. */
static void run_in_turn(struct chaos_rank *me, const struct stretch *all)
{
    for (int i = 0; i < all->count;) {
        struct stretch turn = {me, &all->actions[i], 1, all->actions[i].thread};
        pthread_t thread;
        while (i + turn.count < all->count && turn.actions[turn.count].thread == turn.thread)
            turn.count++;
        i += turn.count;
        if (turn.thread == 0) {
            stretch_run(&turn);
            continue;
        }
        on_thread_one(me, &turn, &thread);
        pthread_join(thread, NULL);
    }
}

static void run_between_barriers(struct chaos_rank *me, const struct stretch *all)
{
    if (me->program->parallel)
        run_parallel(me, all);
    else
        run_in_turn(me, all);
}

static void step_run(struct chaos_rank *me, int step)
{
    const struct chaos_program *program = me->program;
    const struct chaos_action *next = &program->actions[program->first[step]];
    const struct chaos_action *end = &program->actions[program->first[step + 1]];
    while (next < end) {
        struct stretch stretch = {.me = me, .actions = next, .count = 1};
        while (!is_barrier(next) && next + stretch.count < end && !is_barrier(next + stretch.count))
            stretch.count++;
        next += stretch.count;
        run_between_barriers(me, &stretch);
    }
}

static void look(struct chaos_rank *me, bool guards)
{
    chaos_buffers_flush(me, guards);
    CHAOS_CUDA(me, cudaDeviceSynchronize());
    chaos_check_all(me);
}

static void steps_run(struct chaos_rank *me)
{
    const struct chaos_program *program = me->program;
    for (int step = 0; step < program->steps; step++) {
        bool last = step + 1 == program->steps;
        step_run(me, step);
        if (last || (step + 1) % program->check_every == 0)
            look(me, last);
    }
}

/* Beginning and end ----------------------------------------------------------------------------------------------- */

static void streams_make(struct chaos_rank *me)
{
    const struct chaos_program *program = me->program;
    unsigned flags = program->legacy ? cudaStreamDefault : cudaStreamNonBlocking;
    for (int i = program->legacy ? 1 : 0; i < program->streams; i++)
        CHAOS_CUDA(me, cudaStreamCreateWithFlags(&me->streams[i], flags));
    CHAOS_CUDA(me, cudaStreamCreateWithFlags(&me->peer_stream, cudaStreamNonBlocking));
    CHAOS_CUDA(me, cudaEventCreateWithFlags(&me->peer_done, cudaEventDisableTiming));
}

static void shards_write(struct chaos_rank *me)
{
    const struct chaos_program *program = me->program;
    char *staging = me->threads[0].staging;
    for (int i = 0; i < program->unit_count; i++) {
        const struct chaos_unit *unit = &program->units[i];
        char *to = chaos_buffer_data(&me->shards[i]) + unit->offset;
        chaos_content_write(staging, unit->bytes, &program->initial[i][me->rank], me->rank);
        chaos_buffer_use(me, &me->shards[i], me->streams[0]);
        CHAOS_CUDA(me, cudaMemcpyAsync(to, staging, unit->bytes, cudaMemcpyHostToDevice, me->streams[0]));
        chaos_buffer_used(me, &me->shards[i], me->streams[0]);
    }
}

static void begin(struct chaos_rank *me)
{
    CHAOS_CUDA(me, cudaSetDevice(me->rank));
    streams_make(me);
    watchdog_start(me);
    for (int i = 0; i < me->program->comm_count; i++)
        chaos_comm_make(me, i);
    chaos_check_start(me);
    chaos_buffers_make(me);
    shards_write(me);
}

/* Gathers of the last step once more, and nobody waits for them. */
static void careless(struct chaos_rank *me)
{
    const struct chaos_program *program = me->program;
    int issued = 0;
    for (size_t i = program->first[program->steps - 1]; i < program->count && issued < CARELESS_GATHERS; i++) {
        const struct chaos_action *action = &program->actions[i];
        if (action->kind != CHAOS_GATHER || action->after_peer)
            continue;
        chaos_issue_careless(me, action);
        issued++;
    }
}

static void comms_end(struct chaos_rank *me)
{
    const struct chaos_program *program = me->program;
    for (int i = 0; i < program->comm_count; i++) {
        int comm = program->seed & 1 ? i : program->comm_count - 1 - i;
        if (program->ending >= CHAOS_END_ABORT)
            chaos_comm_abort(me, comm);
        else
            chaos_comm_end(me, comm, program->ending == CHAOS_END_FINALIZE);
    }
}

static void finish(struct chaos_rank *me)
{
    if (me->program->ending == CHAOS_END_ABORT_BUSY)
        careless(me);
    comms_end(me);
    CHAOS_CUDA(me, cudaDeviceSynchronize());
    chaos_park_if_expired(me);
    chaos_check_end(me);
    chaos_buffers_end(me);
    for (int i = me->program->legacy ? 1 : 0; i < me->program->streams; i++)
        CHAOS_CUDA(me, cudaStreamDestroy(me->streams[i]));
    CHAOS_CUDA(me, cudaStreamDestroy(me->peer_stream));
    CHAOS_CUDA(me, cudaEventDestroy(me->peer_done));
}

static struct chaos_shared *shared_map(int descriptor)
{
    void *shared = mmap(NULL, sizeof(struct chaos_shared), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    return shared == MAP_FAILED ? NULL : shared;
}

int main(int argc, char **argv)
{
    static struct chaos_program program;
    static struct chaos_rank me;
    if (argc != 4) {
        fputs("usage: chaos RANK SEED DESCRIPTOR (chaos_run starts it)\n", stderr);
        return CHAOS_USAGE;
    }
    chaos_program_make(strtoull(argv[2], NULL, 10), &program);
    me = (struct chaos_rank){.program = &program, .rank = atoi(argv[1]), .shared = shared_map(atoi(argv[3]))};
    pthread_mutex_init(&me.comms_lock, NULL);
    if (!me.shared || me.rank < 0 || me.rank >= program.ranks) {
        fputs("chaos: no such rank, or no shared memory\n", stderr);
        return CHAOS_USAGE;
    }
    begin(&me);
    steps_run(&me);
    finish(&me);
    bool wrong = me.shared->ranks[me.rank].wrong > 0;
    chaos_program_free(&program);
    return wrong ? CHAOS_WRONG : CHAOS_RIGHT;
}
