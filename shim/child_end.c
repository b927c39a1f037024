/*
 * How a child ends: by abort, once, by its owner or by the watch, whichever comes first. NCCL's abort may take long, so
 * the owner leaves it to a thread after a second; whoever is last frees.
 */
#include <stdlib.h>
#include <time.h>

#include "core/clock.h"
#include "core/quiet_thread.h"
#include "shim/child_private.h"
#include "shim/gpu.h"
#include "shim/pause.h"
#include "shim/runtime.h"

/* An abort frees memory, and some of NCCL's frees wait for the device: longer than this nobody waits for it. */
#define ABORT_SECONDS 1
#define OWNER_SECONDS 2
#define FINISH_NAP_NS 10000

enum { RP_CHILD_GIVEN = 1, RP_CHILD_LEFT = 2 };

/* None of these waits: the driver lets go of them when their work has ended. */
void rp_child_stream_give(const struct rp_child *child)
{
    for (size_t i = 0; i < RP_CHILD_OPEN; i++)
        if (child->ended[i] != NULL)
            rp_gpu_driver.p_cuEventDestroy(child->ended[i]);
    if (child->warm != NULL)
        rp_gpu_driver.p_cuEventDestroy(child->warm);
    if (child->behind != NULL)
        rp_gpu_driver.p_cuEventDestroy(child->behind);
    if (child->stream != NULL)
        rp_gpu_driver.p_cuStreamDestroy(child->stream);
}

/* The last has ended: they go one after the other. */
bool rp_child_ended(struct rp_child *child)
{
    struct rp_gpu_scope scope;
    uint64_t issued = atomic_load(&child->issued);
    bool idle = true;
    if (issued > 0 && !rp_child_taken(child) && rp_gpu_enter(&scope, child->device->context)) {
        idle = rp_gpu_driver.p_cuEventQuery(child->ended[(issued - 1) % RP_CHILD_OPEN]) != CUDA_ERROR_NOT_READY;
        rp_gpu_leave(&scope);
    }
    return idle;
}

bool rp_child_idle(struct rp_child *child)
{
    pthread_mutex_lock(&child->lock);
    bool idle = rp_child_ended(child);
    pthread_mutex_unlock(&child->lock);
    return idle;
}

void rp_child_finish(struct rp_child *child, uint64_t most_ns)
{
    uint64_t begin = rp_monotonic_ns();
    while (!rp_child_idle(child) && rp_monotonic_ns() - begin < most_ns)
        rp_pause_ns(FINISH_NAP_NS);
}

/* Of its two ends the second one frees. */
static void end_of(struct rp_child *child, int which)
{
    if (atomic_fetch_or(&child->ends, which) == 0)
        return;
    pthread_mutex_destroy(&child->lock);
    free(child->firsts);
    free(child);
}

/* Until its owner is out: it stays out of NCCL from there on. Or it stands in a call that the abort sets free. */
static void await_owner(struct rp_child *child)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += OWNER_SECONDS;
    if (pthread_mutex_clocklock(&child->lock, CLOCK_MONOTONIC, &until) == 0)
        pthread_mutex_unlock(&child->lock);
}

/* Behind an abort NCCL enqueues nothing more: fills that are still open end with what the stream has. */
static void give_fills(struct rp_child *child)
{
    struct rp_gpu_scope scope;
    struct rp_slots *slots = atomic_load(&child->slots);
    if (!rp_gpu_enter(&scope, child->device->context))
        return;
    if (slots != NULL)
        rp_slots_fill_drop(slots, child->stream);
    rp_child_stream_give(child);
    rp_gpu_leave(&scope);
}

static void give(struct rp_child *child)
{
    struct rp_slots *slots = atomic_load(&child->slots);
    if (slots != NULL)
        rp_slots_fill_cut(slots, child->stream);
    await_owner(child);
    rp_child_unwatch(child);
    child->real->ncclCommAbort(child->comm); /* without the lock: it may take long, and the owner asks how it stands */
    pthread_mutex_lock(&child->lock);
    give_fills(child);
    pthread_mutex_unlock(&child->lock);
    end_of(child, RP_CHILD_GIVEN);
}

static void *give_main(void *argument)
{
    CUstreamCaptureMode relaxed = CU_STREAM_CAPTURE_MODE_RELAXED; /* whatever the application captures */
    rp_thread.inside = true;                                      /* what NCCL calls is no call of the application */
    rp_gpu_driver.p_cuThreadExchangeStreamCaptureMode(&relaxed);
    give(argument);
    return NULL;
}

void rp_child_await(pthread_t thread)
{
    struct timespec until;
    int cancel;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += ABORT_SECONDS;
    if (pthread_clockjoin_np(thread, NULL, CLOCK_MONOTONIC, &until) != 0)
        pthread_detach(thread);
    pthread_setcancelstate(cancel, NULL);
}

void rp_child_cut(struct rp_child *child)
{
    pthread_t thread;
    if (atomic_exchange(&child->taken, true))
        return;
    if (rp_quiet_thread_create(&thread, NULL, give_main, child) == 0)
        pthread_detach(thread);
    else
        atomic_store(&child->taken, false); /* the watch comes by again */
}

void rp_child_abort(struct rp_child *child)
{
    pthread_t thread;
    if (child == NULL)
        return;
    bool first = !atomic_exchange(&child->taken, true);
    bool started = first && rp_quiet_thread_create(&thread, NULL, give_main, child) == 0;
    if (first && !started)
        give(child);
    end_of(child, RP_CHILD_LEFT);
    if (started)
        rp_child_await(thread);
}
