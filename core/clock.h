/*
 * Ticks: the processor's constant-rate counter, read without a system call. One tick rate per machine; a trace
 * carries (ticks, wall clock) pairs so that a reader can convert (trace.h).
 */
#ifndef RP_CLOCK_H
#define RP_CLOCK_H

#include <stdint.h>
#include <time.h>

#if defined(__x86_64__)
#include <x86intrin.h>
static inline uint64_t rp_ticks(void)
{
    return __rdtsc();
}
#elif defined(__aarch64__)
static inline uint64_t rp_ticks(void)
{
    uint64_t ticks;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
}
#else
#error "no constant-rate counter known for this processor"
#endif

/* Nanoseconds since the epoch (CLOCK_REALTIME). */
static inline uint64_t rp_wall_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Nanoseconds of CLOCK_MONOTONIC, for bounds on waiting. */
static inline uint64_t rp_monotonic_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

#endif
