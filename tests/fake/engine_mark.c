/*
 * Completion marks, chains and the modelled time of host threads.
 *
 * A mark goes from pending to done once. Its `end` is written before `state` is released as DONE and read after
 * `state` was acquired as DONE. Waiters sleep on a futex; the worker enters the kernel only if somebody waits.
 */
#include "engine_internal.h"

#include <limits.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PENDING, WAITED, DONE };

struct fake_mark {
    atomic_int references;
    _Atomic uint32_t state;
    uint64_t end;
};

static _Thread_local uint64_t host_time;
static _Thread_local bool host_time_known;
static _Atomic uint64_t host_time_latest;

void *fake_need(void *memory)
{
    if (!memory) {
        fake_say("out of memory");
        abort();
    }
    return memory;
}

/* A thread is started by another one: it begins no earlier than anything the process has waited for. */
uint64_t fake_host_time(void)
{
    if (!host_time_known) {
        host_time = atomic_load(&host_time_latest);
        host_time_known = true;
    }
    return host_time;
}

void fake_host_time_raise(uint64_t time)
{
    if (time <= fake_host_time())
        return;
    host_time = time;
    uint64_t latest = atomic_load(&host_time_latest);
    while (latest < time && !atomic_compare_exchange_weak(&host_time_latest, &latest, time))
        ;
}

void fake_host_time_set(uint64_t time)
{
    host_time = time;
    host_time_known = true;
}

struct fake_mark *fake_mark_new(void)
{
    struct fake_mark *mark = fake_need(calloc(1, sizeof *mark));
    atomic_init(&mark->references, 1);
    return mark;
}

struct fake_mark *fake_mark_keep(struct fake_mark *mark)
{
    if (mark)
        atomic_fetch_add(&mark->references, 1);
    return mark;
}

void fake_mark_drop(struct fake_mark *mark)
{
    if (mark && atomic_fetch_sub(&mark->references, 1) == 1)
        free(mark);
}

void fake_mark_finish(struct fake_mark *mark, uint64_t end)
{
    mark->end = end;
    if (atomic_exchange_explicit(&mark->state, DONE, memory_order_acq_rel) == WAITED)
        syscall(SYS_futex, &mark->state, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

bool fake_mark_done(const struct fake_mark *mark, uint64_t *end_out)
{
    if (atomic_load_explicit(&mark->state, memory_order_acquire) != DONE)
        return false;
    *end_out = mark->end;
    return true;
}

uint64_t fake_mark_wait(struct fake_mark *mark)
{
    uint64_t end;
    while (!fake_mark_done(mark, &end)) {
        uint32_t pending = PENDING;
        atomic_compare_exchange_strong(&mark->state, &pending, WAITED);
        syscall(SYS_futex, &mark->state, FUTEX_WAIT_PRIVATE, WAITED, NULL, NULL, 0);
    }
    return end;
}

/* Keeps no reference to what is done. `mark` may be NULL. */
void fake_waits_add(struct fake_waits *waits, struct fake_mark *mark)
{
    uint64_t end;
    if (!mark)
        return;
    if (fake_mark_done(mark, &end)) {
        if (waits->ready < end)
            waits->ready = end;
        return;
    }
    if (waits->count == waits->room) {
        waits->room = waits->room ? waits->room * 2 : 4;
        waits->marks = fake_need(realloc(waits->marks, (size_t)waits->room * sizeof *waits->marks));
    }
    waits->marks[waits->count++] = fake_mark_keep(mark);
}

void fake_waits_clear(struct fake_waits *waits)
{
    for (int i = 0; i < waits->count; i++)
        fake_mark_drop(waits->marks[i]);
    free(waits->marks);
    *waits = (struct fake_waits){0};
}

struct fake_chain *fake_chain_new(void)
{
    struct fake_chain *chain = fake_need(calloc(1, sizeof *chain));
    atomic_init(&chain->references, 1);
    return chain;
}

struct fake_chain *fake_chain_keep(struct fake_chain *chain)
{
    if (chain)
        atomic_fetch_add(&chain->references, 1);
    return chain;
}

void fake_chain_drop(struct fake_chain *chain)
{
    if (chain && atomic_fetch_sub(&chain->references, 1) == 1) {
        fake_mark_drop(chain->last);
        free(chain);
    }
}

void fake_chain_join(struct fake_chain *chain, struct fake_waits *waits, struct fake_mark *mark)
{
    fake_waits_add(waits, chain->last);
    fake_mark_drop(chain->last);
    chain->last = fake_mark_keep(mark);
}

void fake_chain_wait(struct fake_chain *chain)
{
    pthread_mutex_lock(&fake_lock);
    struct fake_mark *last = fake_mark_keep(chain->last);
    pthread_mutex_unlock(&fake_lock);
    if (last)
        fake_host_time_raise(fake_mark_wait(last));
    fake_mark_drop(last);
}
