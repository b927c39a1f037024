/*
 * For tests of the stand-in in one process: costs that make modelled times whole numbers, events, and streams that
 * stand still until the test opens them. A copy or fill of n bytes within the device takes 2n or n nanoseconds,
 * between host and device n; a kernel that states nothing takes 3 us.
 */
#ifndef FAKE_DEVICE_H
#define FAKE_DEVICE_H

#include <pthread.h>
#include <stdbool.h>

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

struct gate {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool open;
};

static inline void gate_pass(void *data)
{
    struct gate *gate = data;
    pthread_mutex_lock(&gate->lock);
    while (!gate->open)
        pthread_cond_wait(&gate->changed, &gate->lock);
    pthread_mutex_unlock(&gate->lock);
}

static inline void gate_open(struct gate *gate)
{
    pthread_mutex_lock(&gate->lock);
    gate->open = true;
    pthread_cond_broadcast(&gate->changed);
    pthread_mutex_unlock(&gate->lock);
}

#define GATE                                                       \
    {                                                              \
        PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false \
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
