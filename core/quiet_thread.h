/*
 * A thread of ours in somebody else's process: with all signals blocked, which are the application's to take.
 *
 * Threads: any.
 */
#ifndef RP_QUIET_THREAD_H
#define RP_QUIET_THREAD_H

#include <pthread.h>
#include <signal.h>
#include <stddef.h>

/* pthread_create(), whose error it returns; the new thread inherits the mask that the caller has for this moment. */
static inline int rp_quiet_thread_create(pthread_t *thread_out, const pthread_attr_t *attributes,
                                         void *(*run)(void *argument), void *argument)
{
    sigset_t all, before;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(thread_out, attributes, run, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

#endif
