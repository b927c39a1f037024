/*
 * The stand-in CUDA runtime in one process: order of streams, events, modelled overlap, default streams, memory.
 */
#include "tests/fake/device.h"

static void test_order(void **state)
{
    (void)state;
    struct gate gate = GATE;
    cudaStream_t stream = stream_new(cudaStreamNonBlocking);
    unsigned char *data = device_copy(NULL, 1 << 20), *pinned;
    CUDA(cudaMallocHost((void **)&pinned, 1 << 20));
    pinned[0] = 0;
    CUDA(cudaLaunchHostFunc(stream, gate_pass, &gate));
    CUDA(cudaMemsetAsync(data, 7, 1 << 20, stream));
    CUDA(cudaMemcpyAsync(pinned, data, 1 << 20, cudaMemcpyDeviceToHost, stream));
    assert_int_equal(cudaStreamQuery(stream), cudaErrorNotReady);
    assert_int_equal(cudaGetLastError(), cudaErrorNotReady);
    assert_int_equal(pinned[0], 0);
    gate_open(&gate);
    CUDA(cudaStreamSynchronize(stream));
    assert_int_equal(pinned[0], 7);
    assert_int_equal(pinned[(1 << 20) - 1], 7);
    CUDA(cudaStreamQuery(stream));
    CUDA(cudaStreamDestroy(stream));
    assert_int_equal(cudaStreamSynchronize(stream), cudaErrorInvalidResourceHandle);
    CUDA(cudaFree(data));
    CUDA(cudaFreeHost(pinned));
}

/* A stream that waits for an event follows the record made before the wait, not a later one. */
static void test_event(void **state)
{
    (void)state;
    struct gate gate = GATE, later = GATE;
    cudaStream_t first = stream_new(cudaStreamNonBlocking), second = stream_new(cudaStreamNonBlocking);
    cudaEvent_t event = event_new();
    assert_int_equal(cudaEventQuery(event), cudaSuccess);
    CUDA(cudaStreamWaitEvent(second, event, 0));
    CUDA(cudaStreamSynchronize(second));
    CUDA(cudaLaunchHostFunc(first, gate_pass, &gate));
    CUDA(cudaEventRecord(event, first));
    CUDA(cudaStreamWaitEvent(second, event, 0));
    CUDA(cudaLaunchHostFunc(first, gate_pass, &later));
    CUDA(cudaEventRecord(event, first));
    assert_int_equal(cudaStreamQuery(second), cudaErrorNotReady);
    gate_open(&gate);
    CUDA(cudaStreamSynchronize(second));
    assert_int_equal(cudaEventQuery(event), cudaErrorNotReady);
    float ms;
    assert_int_equal(cudaEventElapsedTime(&ms, event, event), cudaErrorNotReady);
    gate_open(&later);
    CUDA(cudaEventSynchronize(event));
    CUDA(cudaStreamDestroy(first));
    CUDA(cudaStreamDestroy(second));
}

/* Two streams of 100 us each: at once without a wait, one after the other with one. */
static void test_overlap(void **state)
{
    (void)state;
    cudaStream_t left = stream_new(cudaStreamNonBlocking), right = stream_new(cudaStreamNonBlocking);
    cudaEvent_t begin = event_new(), half = event_new(), end = event_new();
    char *a = device_copy(NULL, 100000), *b = device_copy(NULL, 100000);
    for (int joined = 0; joined < 2; joined++) {
        CUDA(cudaDeviceSynchronize());
        CUDA(cudaEventRecord(begin, left));
        CUDA(cudaMemsetAsync(a, 1, 100000, left));
        CUDA(cudaEventRecord(half, left));
        if (joined)
            CUDA(cudaStreamWaitEvent(right, half, 0));
        CUDA(cudaMemsetAsync(b, 1, 30000, right));
        CUDA(cudaEventRecord(end, right));
        CUDA(cudaDeviceSynchronize());
        assert_true(us_between(begin, half) == 100.0f);
        assert_true(us_between(begin, end) == (joined ? 130.0f : 30.0f));
        assert_true(us_between(half, end) == (joined ? 30.0f : -70.0f));
    }
    /* A host that waited issues no earlier than what it waited for; one that did not, does. */
    CUDA(cudaEventRecord(begin, left));
    CUDA(cudaMemcpyAsync(a, b, 50000, cudaMemcpyDeviceToDevice, left));
    CUDA(cudaStreamSynchronize(left));
    CUDA(cudaEventRecord(end, right));
    CUDA(cudaEventSynchronize(end));
    assert_true(us_between(begin, end) == 100.0f);
    CUDA(cudaFree(a));
    CUDA(cudaFree(b));
    CUDA(cudaStreamDestroy(left));
    CUDA(cudaStreamDestroy(right));
}

/* The legacy stream waits for blocking streams and they for it; a non-blocking stream does neither. */
static void test_legacy(void **state)
{
    (void)state;
    struct gate gate = GATE;
    cudaStream_t blocking = stream_new(cudaStreamDefault), apart = stream_new(cudaStreamNonBlocking);
    cudaEvent_t begin = event_new(), legacy = event_new(), after = event_new(), free_end = event_new();
    char *data = device_copy(NULL, 100000);
    CUDA(cudaDeviceSynchronize());
    CUDA(cudaLaunchHostFunc(blocking, gate_pass, &gate));
    CUDA(cudaEventRecord(begin, blocking));
    CUDA(cudaMemsetAsync(data, 1, 40000, blocking));
    CUDA(cudaMemsetAsync(data, 2, 20000, NULL));
    CUDA(cudaEventRecord(legacy, cudaStreamLegacy));
    CUDA(cudaMemsetAsync(data, 3, 10000, blocking));
    CUDA(cudaEventRecord(after, blocking));
    CUDA(cudaMemsetAsync(data + 50000, 4, 1000, apart));
    CUDA(cudaEventRecord(free_end, apart));
    CUDA(cudaStreamSynchronize(apart));
    assert_int_equal(cudaStreamQuery(NULL), cudaErrorNotReady);
    assert_int_equal(cudaEventQuery(legacy), cudaErrorNotReady);
    gate_open(&gate);
    CUDA(cudaStreamSynchronize(NULL));
    CUDA(cudaEventQuery(after));
    assert_true(us_between(begin, legacy) == 60.0f);
    assert_true(us_between(begin, after) == 70.0f);
    assert_true(us_between(begin, free_end) == 1.0f);
    CUDA(cudaStreamDestroy(blocking));
    CUDA(cudaStreamDestroy(apart));
    CUDA(cudaFree(data));
}

static void *per_thread_main(void *data)
{
    char *device = data;
    /* Not behind the other thread's stream, which stands still. */
    if (cudaMemsetAsync(device, 1, 1000, cudaStreamPerThread) != cudaSuccess ||
        cudaStreamSynchronize(cudaStreamPerThread) != cudaSuccess)
        return NULL;
    return data;
}

static void test_per_thread(void **state)
{
    (void)state;
    struct gate gate = GATE;
    char *device = device_copy(NULL, 1000);
    CUDA(cudaDeviceSynchronize());
    CUDA(cudaLaunchHostFunc(cudaStreamPerThread, gate_pass, &gate));
    pthread_t thread;
    void *result;
    assert_int_equal(pthread_create(&thread, NULL, per_thread_main, device), 0);
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_ptr_equal(result, device);
    assert_int_equal(cudaStreamQuery(cudaStreamPerThread), cudaErrorNotReady);
    gate_open(&gate);
    CUDA(cudaStreamSynchronize(cudaStreamPerThread));
    CUDA(cudaFree(device));
}

/* Pageable memory: a source may change after the call, a destination is complete; pinned memory is neither. */
static void test_pageable(void **state)
{
    (void)state;
    struct gate gate = GATE;
    cudaStream_t stream = stream_new(cudaStreamNonBlocking);
    int *device = device_copy(NULL, 2 * sizeof(int)), *pinned, host[2] = {1, 2};
    CUDA(cudaMallocHost((void **)&pinned, sizeof(int)));
    *pinned = 3;
    CUDA(cudaLaunchHostFunc(stream, gate_pass, &gate));
    CUDA(cudaMemcpyAsync(device, &host[0], sizeof(int), cudaMemcpyHostToDevice, stream));
    CUDA(cudaMemcpyAsync(device + 1, pinned, sizeof(int), cudaMemcpyHostToDevice, stream));
    host[0] = 10;
    *pinned = 30;
    gate_open(&gate);
    CUDA(cudaMemcpyAsync(host, device, sizeof host, cudaMemcpyDeviceToHost, stream));
    assert_int_equal(host[0], 1);
    assert_int_equal(host[1], 30);
    CUDA(cudaFreeHost(pinned));
    CUDA(cudaFree(device));
    CUDA(cudaStreamDestroy(stream));
}

static void test_memory(void **state)
{
    (void)state;
    size_t before, after, total;
    char *a, *b = NULL, host[64];
    CUDA(cudaMemGetInfo(&before, &total));
    assert_int_equal(total, 64 << 20);
    CUDA(cudaMalloc((void **)&a, 1 << 20));
    CUDA(cudaMemGetInfo(&after, &total));
    assert_int_equal(before - after, 1 << 20);
    assert_int_equal(cudaMalloc((void **)&b, 64 << 20), cudaErrorMemoryAllocation);
    struct cudaPointerAttributes attributes;
    CUDA(cudaPointerGetAttributes(&attributes, a + 100));
    assert_int_equal(attributes.type, cudaMemoryTypeDevice);
    CUDA(cudaPointerGetAttributes(&attributes, host));
    assert_int_equal(attributes.type, cudaMemoryTypeUnregistered);
    assert_int_equal(cudaMemcpy(a + (1 << 20) - 32, host, 64, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
    assert_int_equal(cudaMemcpy(host, host + 32, 32, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
    assert_int_equal(cudaMemset(host, 0, 64), cudaErrorInvalidValue);
    CUDA(cudaHostRegister(host, sizeof host, 0));
    assert_int_equal(cudaHostRegister(host + 8, 8, 0), cudaErrorHostMemoryAlreadyRegistered);
    CUDA(cudaHostUnregister(host));
    assert_int_equal(cudaFree(a + 1), cudaErrorInvalidValue);
    assert_int_equal(cudaFree(host), cudaErrorInvalidValue);
    CUDA(cudaFreeAsync(a, NULL));
    assert_int_equal(cudaFree(a), cudaErrorInvalidValue);
    CUDA(cudaMemGetInfo(&after, &total));
    assert_int_equal(before, after);
    CUDA(cudaDeviceSynchronize());
}

/* cudaFree waits for the whole device, as the real one does. */
static void *open_later(void *data)
{
    usleep(20000);
    gate_open(data);
    return NULL;
}

static void test_free_waits(void **state)
{
    (void)state;
    struct gate gate = GATE;
    cudaStream_t stream = stream_new(cudaStreamNonBlocking);
    char *used = device_copy(NULL, 1000), *other = device_copy(NULL, 1000);
    pthread_t thread;
    CUDA(cudaLaunchHostFunc(stream, gate_pass, &gate));
    CUDA(cudaMemsetAsync(used, 0, 1000, stream));
    assert_int_equal(pthread_create(&thread, NULL, open_later, &gate), 0);
    CUDA(cudaFree(other));
    CUDA(cudaStreamQuery(stream));
    pthread_join(thread, NULL);
    CUDA(cudaFree(used));
    CUDA(cudaStreamDestroy(stream));
}

/* A child of a process that used the device is refused, and does not hang on a lock. */
static void test_fork(void **state)
{
    (void)state;
    pid_t pid = fork();
    if (pid == 0)
        _exit(cudaStreamSynchronize(NULL) == cudaErrorInitializationError ? 0 : 1);
    rank_wait(pid, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_order),    TEST(test_event),  TEST(test_overlap),    TEST(test_legacy), TEST(test_per_thread),
        TEST(test_pageable), TEST(test_memory), TEST(test_free_waits), TEST(test_fork),
    };
    return cmocka_run_group_tests(tests, costs_set, NULL);
}
