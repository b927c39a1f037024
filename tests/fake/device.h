/*
 * For tests of the stand-in in one process: costs that make modelled times whole numbers, events, and streams that
 * stand still until the test opens them. A copy or fill of n bytes within the device takes 2n or n nanoseconds,
 * between host and device n; a kernel that states nothing takes 3 us.
 */
#ifndef FAKE_DEVICE_H
#define FAKE_DEVICE_H

#include "tests/fake/gate.h"
#include "tests/fake/ranks.h"

static inline int costs_set(void **state)
{
    (void)state;
    setenv("FAKE_HBM_GBPS", "1", 1);
    setenv("FAKE_HOST_GBPS", "1", 1);
    setenv("FAKE_KERNEL_US", "3", 1);
    setenv("FAKE_MEMORY_MB", "64", 1);
    return 0;
}

static inline float us_between(cudaEvent_t begin, cudaEvent_t end)
{
    float ms;
    CUDA(cudaEventElapsedTime(&ms, begin, end));
    return ms * 1e3f;
}

/* Events of one test. */
static cudaEvent_t events[8];
static int event_count;

static inline cudaEvent_t event_new(void)
{
    assert_true(event_count < 8);
    CUDA(cudaEventCreate(&events[event_count]));
    return events[event_count++];
}

static inline int events_destroy(void **state)
{
    (void)state;
    while (event_count > 0)
        CUDA(cudaEventDestroy(events[--event_count]));
    return 0;
}

static inline cudaStream_t stream_new(unsigned flags)
{
    cudaStream_t stream;
    CUDA(cudaStreamCreateWithFlags(&stream, flags));
    return stream;
}

#define TEST(name) cmocka_unit_test_teardown(name, events_destroy)

#endif
