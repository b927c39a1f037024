/*
 * The bound of gathers ahead: a peer that has ended, or has issued something else, would leave ours on the device for
 * ever, and with it whoever waits for the whole device. One thread of the process looks at all children, a few times a
 * second: what was issued when it looked must have ended BOUNDS times REPRISE_TIMEOUT later, else the child ends.
 *
 *     mark ── looked at ── ended ─► the next mark
 *                    └──── not ended in time ─► take, give
 *
 * At the process's end children finish what they have issued, within that bound once: peers that have not come to it
 * need this rank. That is an exit handler, since the driver is still there then; the library's own end is too late.
 *
 * Threads: watch and unwatch by any. The watch's lock is above a child's; the thread only ever tries a child's, which
 * is held while NCCL enqueues.
 */
#include <stdlib.h>
#include <time.h>

#include "core/clock.h"
#include "shim/child_private.h"
#include "shim/gpu.h"
#include "shim/runtime.h"

#define LOOK_NS 100000000 /* less than a second */
/* A rank whose host is late within a step costs its peers no child so soon; nobody but who waits for the device waits.
 */
#define BOUNDS 5u

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* it is to stop */
    struct rp_child *first;
    pthread_t thread;
    bool runs, stops, exits;
} watch = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static bool ended(CUresult result)
{
    return result != CUDA_ERROR_NOT_READY; /* an error is the application's to see */
}

/* True: what was issued has taken too long. In the device's context. */
static bool look_at_stream(struct rp_child *child, uint64_t now)
{
    if (child->since != 0 && !ended(rp_gpu_driver.p_cuEventQuery(child->mark)))
        return now - child->since > BOUNDS * child->bound_ns;
    child->since = 0;
    if (!ended(rp_gpu_driver.p_cuStreamQuery(child->stream)) &&
        rp_gpu_driver.p_cuEventRecord(child->mark, child->stream) == CUDA_SUCCESS)
        child->since = now;
    return false;
}

static bool look_at(struct rp_child *child)
{
    struct rp_gpu_scope scope;
    bool late = false;
    if (pthread_mutex_trylock(&child->lock) != 0)
        return false;
    if (child->state == RP_CHILD_READY && rp_gpu_enter(&scope, child->device->context)) {
        late = look_at_stream(child, rp_monotonic_ns());
        rp_gpu_leave(&scope);
    }
    pthread_mutex_unlock(&child->lock);
    return late;
}

static void list_remove(const struct rp_child *child)
{
    for (struct rp_child **at = &watch.first; *at != NULL; at = &(*at)->next) {
        if (*at == child) {
            *at = child->next;
            return;
        }
    }
}

/* With the lock held, which is let go of meanwhile. */
static void end(struct rp_child *child)
{
    list_remove(child);
    bool first = rp_child_take(child);
    pthread_mutex_unlock(&watch.lock);
    if (first)
        rp_child_give(child);
    pthread_mutex_lock(&watch.lock);
}

static void look_at_all(void)
{
    struct rp_child *late = NULL;
    for (struct rp_child *child = watch.first; child != NULL && late == NULL; child = child->next)
        late = look_at(child) ? child : NULL;
    if (late != NULL)
        end(late);
}

static void *watch_main(void *nothing)
{
    rp_thread.inside = true; /* what NCCL calls is no call of the application */
    pthread_mutex_lock(&watch.lock);
    while (!watch.stops) {
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += LOOK_NS;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_cond_clockwait(&watch.changed, &watch.lock, CLOCK_MONOTONIC, &until);
        look_at_all();
    }
    pthread_mutex_unlock(&watch.lock);
    return nothing;
}

/* The process ends. */
static void finish_all(void)
{
    pthread_mutex_lock(&watch.lock);
    for (struct rp_child *child = watch.first; child != NULL; child = child->next)
        rp_child_finish(child, child->bound_ns);
    watch.first = NULL;
    watch.stops = true;
    bool runs = watch.runs;
    watch.runs = false;
    pthread_cond_signal(&watch.changed);
    pthread_mutex_unlock(&watch.lock);
    if (runs)
        rp_child_await(watch.thread);
}

bool rp_child_watch(struct rp_child *child)
{
    pthread_mutex_lock(&watch.lock);
    if (!watch.exits)
        watch.exits = atexit(finish_all) == 0;
    if (watch.exits && !watch.runs && !watch.stops)
        watch.runs = rp_child_thread(&watch.thread, watch_main, NULL);
    bool watched = watch.exits && watch.runs;
    if (watched) {
        child->next = watch.first;
        watch.first = child;
    }
    pthread_mutex_unlock(&watch.lock);
    return watched;
}

void rp_child_unwatch(struct rp_child *child)
{
    pthread_mutex_lock(&watch.lock);
    list_remove(child);
    pthread_mutex_unlock(&watch.lock);
}

/* The parent's are its own, and no thread came along. The handler did. */
void rp_child_forked(void)
{
    pthread_mutex_init(&watch.lock, NULL);
    pthread_cond_init(&watch.changed, NULL);
    watch.first = NULL;
    watch.runs = false;
}
