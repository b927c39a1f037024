/*
 * The bound of gathers ahead: a peer that has ended, or has issued something else, would leave ours on the device for
 * ever, and with it whoever waits for the whole device. One thread of the process looks at all children, a few times a
 * second: one that is seen under way must have ended BOUNDS times REPRISE_TIMEOUT later, else the child ends.
 *
 *     gather n ── looked at ── ended ─► gather n + 1
 *                        └──── not ended in time ─► rp_child_cut()
 *
 * At the process's end children finish what they have issued, for at most REPRISE_TIMEOUT: peers that have not come to
 * it need this rank. That is an exit handler, since the driver is still there then; the library's own end is too late.
 *
 * Threads: watch and unwatch by any. Nothing here takes a child's lock, and nothing is enqueued under the watch's.
 */
#include <stdlib.h>
#include <time.h>

#include "core/clock.h"
#include "core/quiet_thread.h"
#include "shim/child_private.h"
#include "shim/gpu.h"
#include "shim/pause.h"

#define EXIT_NAP_NS 100000
#define LOOK_NS 100000000 /* less than a second */
/* A rank whose host is late within a step costs its peers no child so soon; only who waits for the device waits. */
#define BOUNDS 5u

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* it is to stop */
    struct rp_child *first;
    pthread_t thread;
    bool runs, stops, exits;
} watch = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static bool ended(struct rp_child *child, uint64_t number)
{
    return rp_gpu_driver.p_cuEventQuery(child->ended[number % RP_CHILD_OPEN]) != CUDA_ERROR_NOT_READY;
}

/* No more than RP_CHILD_OPEN are under way. */
static void count_ended(struct rp_child *child, uint64_t now)
{
    uint64_t issued = atomic_load(&child->issued), before = child->seen;
    if (issued - child->seen > RP_CHILD_OPEN)
        child->seen = issued - RP_CHILD_OPEN;
    while (child->seen < issued && ended(child, child->seen))
        child->seen++;
    if (child->seen == issued)
        child->since = 0;
    else if (child->since == 0 || child->seen != before)
        child->since = now;
}

/* True: what was issued has taken too long. */
static bool is_late(struct rp_child *child)
{
    struct rp_gpu_scope scope;
    uint64_t now = rp_monotonic_ns();
    if (rp_child_taken(child) || !rp_gpu_enter(&scope, child->device->context))
        return false;
    count_ended(child, now);
    rp_gpu_leave(&scope);
    return child->since != 0 && now - child->since > BOUNDS * child->bound_ns;
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

/* The abort is a thread of its own: the others are watched on. */
static void look_at_all(void)
{
    for (struct rp_child *child = watch.first; child != NULL; child = child->next)
        if (is_late(child))
            rp_child_cut(child);
}

static void *watch_main(void *nothing)
{
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

/* So long those that are under way may be waited for; 0: all have ended. */
static uint64_t bound_of_open(void)
{
    uint64_t most = 0;
    pthread_mutex_lock(&watch.lock);
    for (struct rp_child *child = watch.first; child != NULL; child = child->next)
        if (!rp_child_ended(child) && child->bound_ns > most)
            most = child->bound_ns;
    pthread_mutex_unlock(&watch.lock);
    return most;
}

/* True: there was a thread, which stops. */
static bool stop(pthread_t *thread_out)
{
    pthread_mutex_lock(&watch.lock);
    bool runs = watch.runs;
    watch.first = NULL;
    watch.stops = true;
    watch.runs = false;
    *thread_out = watch.thread;
    pthread_cond_signal(&watch.changed);
    pthread_mutex_unlock(&watch.lock);
    return runs;
}

/* The process ends. */
static void finish_all(void)
{
    uint64_t begin = rp_monotonic_ns();
    pthread_t thread;
    while (rp_monotonic_ns() - begin < bound_of_open())
        rp_pause_ns(EXIT_NAP_NS);
    if (stop(&thread))
        rp_child_await(thread);
}

bool rp_child_watch(struct rp_child *child)
{
    pthread_mutex_lock(&watch.lock);
    if (!watch.exits)
        watch.exits = atexit(finish_all) == 0;
    if (watch.exits && !watch.runs && !watch.stops)
        watch.runs = rp_quiet_thread_create(&watch.thread, NULL, watch_main, NULL) == 0;
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
