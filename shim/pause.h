/*
 * Sleeping in a hook. nanosleep() is a point where a thread may be cancelled (pthread_cancel), and the calls that we
 * stand in front of are none: the system call itself is not one.
 */
#ifndef RP_PAUSE_H
#define RP_PAUSE_H

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Less than a second; may end early, by a signal. */
static inline void rp_pause_ns(long ns)
{
    struct timespec moment = {.tv_nsec = ns};
    syscall(SYS_nanosleep, &moment, NULL);
}

#endif
