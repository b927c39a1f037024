/*
 * How a child ends: by abort, once, by its owner or by the watch, whichever comes first. NCCL's abort may take long, so
 * the owner leaves it to a thread after a second; whoever is last frees.
 */
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include "core/clock.h"
#include "shim/child_private.h"
#include "shim/gpu.h"
#include "shim/pause.h"
#include "shim/runtime.h"

/* An abort frees memory, and some of NCCL's frees wait for the device: longer than this nobody waits for it. */
#define ABORT_SECONDS 1
#define FINISH_NAP_NS 10000

/* None of these waits: the driver lets go of them when their work has ended. */
void rp_child_stream_give(const struct rp_child *child)
{
    if (child->mark != NULL)
        rp_gpu_driver.p_cuEventDestroy(child->mark);
    if (child->warm != NULL)
        rp_gpu_driver.p_cuEventDestroy(child->warm);
    if (child->behind != NULL)
        rp_gpu_driver.p_cuEventDestroy(child->behind);
    if (child->stream != NULL)
        rp_gpu_driver.p_cuStreamDestroy(child->stream);
}

static CUresult stream_result(struct rp_child *child)
{
    struct rp_gpu_scope scope;
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&child->lock);
    if (!child->taken && rp_gpu_enter(&scope, child->device->context)) {
        result = rp_gpu_driver.p_cuStreamQuery(child->stream);
        rp_gpu_leave(&scope);
    }
    pthread_mutex_unlock(&child->lock);
    return result;
}

bool rp_child_idle(struct rp_child *child)
{
    return stream_result(child) != CUDA_ERROR_NOT_READY;
}

void rp_child_finish(struct rp_child *child, uint64_t most_ns)
{
    uint64_t begin = rp_monotonic_ns();
    while (!rp_child_idle(child) && rp_monotonic_ns() - begin < most_ns)
        rp_pause_ns(FINISH_NAP_NS);
}

static void free_child(struct rp_child *child)
{
    pthread_mutex_destroy(&child->lock);
    free(child->firsts);
    free(child);
}

bool rp_child_take(struct rp_child *child)
{
    pthread_mutex_lock(&child->lock);
    bool first = !child->taken;
    child->taken = true;
    child->state = RP_CHILD_FAILED;
    pthread_mutex_unlock(&child->lock);
    return first;
}

/* Behind an abort NCCL enqueues nothing more: fills that are still open end with what the stream has. */
void rp_child_give(struct rp_child *child)
{
    struct rp_gpu_scope scope;
    if (child->slots != NULL)
        rp_slots_fill_cut(child->slots, child->stream);
    child->real->ncclCommAbort(child->comm);
    if (rp_gpu_enter(&scope, child->device->context)) {
        if (child->slots != NULL)
            rp_slots_fill_drop(child->slots, child->stream);
        rp_child_stream_give(child);
        rp_gpu_leave(&scope);
    }
    pthread_mutex_lock(&child->lock);
    child->given = true;
    bool last = child->left;
    pthread_mutex_unlock(&child->lock);
    if (last)
        free_child(child);
}

/* True: it is this one's to free. */
static bool leave(struct rp_child *child)
{
    pthread_mutex_lock(&child->lock);
    child->left = true;
    bool last = child->given;
    pthread_mutex_unlock(&child->lock);
    return last;
}

static void *give_main(void *argument)
{
    rp_thread.inside = true; /* what NCCL calls is no call of the application */
    rp_child_give(argument);
    return NULL;
}

bool rp_child_thread(pthread_t *thread_out, void *(*run)(void *argument), void *argument)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = pthread_create(thread_out, NULL, run, argument) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

void rp_child_await(pthread_t thread)
{
    struct timespec until;
    int cancel;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += ABORT_SECONDS;
    if (pthread_timedjoin_np(thread, NULL, &until) != 0)
        pthread_detach(thread);
    pthread_setcancelstate(cancel, NULL);
}

void rp_child_abort(struct rp_child *child)
{
    pthread_t thread;
    if (child == NULL)
        return;
    rp_child_unwatch(child);
    bool first = rp_child_take(child);
    if (leave(child))
        free_child(child);
    else if (first && rp_child_thread(&thread, give_main, child))
        rp_child_await(thread);
    else if (first)
        rp_child_give(child);
}
