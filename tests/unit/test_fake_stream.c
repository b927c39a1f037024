/*
 * The stand-in CUDA runtime in one process: order of streams, events, modelled overlap, default streams, memory,
 * capture and graphs, kernels and their twins. Costs are set so that modelled times are whole numbers: a copy or fill
 * of n bytes within the device takes 2n or n nanoseconds, between host and device n.
 */
#include "tests/fake/ranks.h"

#include <pthread.h>

#include "tests/fake/cudart_private.h"

#define EXPORT __attribute__((visibility("default")))

/* Kernels ---------------------------------------------------------------------------------------------------------- */

struct numbers {
    int count;
    short first;
};

EXPORT void fill_host(dim3 grid, dim3 block, void **args);
EXPORT double fill_cost_us(dim3 grid, dim3 block, void **args);
EXPORT extern const size_t fill_arg_sizes[];
EXPORT void tick_host(dim3 grid, dim3 block, void **args);
EXPORT extern const size_t tick_arg_sizes[];

const size_t fill_arg_sizes[] = {sizeof(int *), sizeof(struct numbers), 0};
const size_t tick_arg_sizes[] = {sizeof(int *), 0};

void fill_host(dim3 grid, dim3 block, void **args)
{
    int *to = *(int **)args[0];
    struct numbers numbers = *(struct numbers *)args[1];
    for (int i = 0; i < numbers.count; i++)
        to[i] = numbers.first + i + (int)(grid.x * block.x);
}

double fill_cost_us(dim3 grid, dim3 block, void **args)
{
    (void)grid, (void)block;
    return ((struct numbers *)args[1])->count;
}

void tick_host(dim3 grid, dim3 block, void **args)
{
    (void)grid, (void)block;
    ++**(int **)args[0];
}

static char fill_stub, tick_stub, bare_stub, unknown_stub;
static const dim3 one = {1, 1, 1};

static int kernels_register(void **state)
{
    (void)state;
    static int fat_binary;
    void **handle = __cudaRegisterFatBinary(&fat_binary);
    __cudaRegisterFunction(handle, &fill_stub, &fill_stub, "fill", -1, NULL, NULL, NULL, NULL, NULL);
    __cudaRegisterFunction(handle, &tick_stub, &tick_stub, "tick", -1, NULL, NULL, NULL, NULL, NULL);
    __cudaRegisterFunction(handle, &bare_stub, &bare_stub, "bare", -1, NULL, NULL, NULL, NULL, NULL);
    __cudaRegisterFatBinaryEnd(handle);
    setenv("FAKE_HBM_GBPS", "1", 1);
    setenv("FAKE_HOST_GBPS", "1", 1);
    setenv("FAKE_KERNEL_US", "3", 1);
    setenv("FAKE_MEMORY_MB", "64", 1);
    return 0;
}

static void tick(int *counter, cudaStream_t stream)
{
    void *args[] = {&counter};
    CUDA(cudaLaunchKernel(&tick_stub, one, one, args, 0, stream));
}

/* A stream that stands still until the test opens it -----------------------------------------------------------------
 */

struct gate {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool open;
};

static void gate_pass(void *data)
{
    struct gate *gate = data;
    pthread_mutex_lock(&gate->lock);
    while (!gate->open)
        pthread_cond_wait(&gate->changed, &gate->lock);
    pthread_mutex_unlock(&gate->lock);
}

static void gate_open(struct gate *gate)
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

static float us_between(cudaEvent_t begin, cudaEvent_t end)
{
    float ms;
    CUDA(cudaEventElapsedTime(&ms, begin, end));
    return ms * 1e3f;
}

/* Events of one test. */
static cudaEvent_t events[8];
static int event_count;

static cudaEvent_t event_new(void)
{
    assert_true(event_count < 8);
    CUDA(cudaEventCreate(&events[event_count]));
    return events[event_count++];
}

static int events_destroy(void **state)
{
    (void)state;
    while (event_count > 0)
        CUDA(cudaEventDestroy(events[--event_count]));
    return 0;
}

static cudaStream_t stream_new(unsigned flags)
{
    cudaStream_t stream;
    CUDA(cudaStreamCreateWithFlags(&stream, flags));
    return stream;
}

/* Tests ---------------------------------------------------------------------------------------------------------------
 */

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

static void test_kernel(void **state)
{
    (void)state;
    struct gate gate = GATE;
    cudaStream_t stream = stream_new(cudaStreamNonBlocking);
    cudaEvent_t begin = event_new(), middle = event_new(), end = event_new();
    int *data = device_copy(NULL, 100 * sizeof(int)), result[100];
    struct numbers numbers = {100, 5};
    void *args[] = {&data, &numbers};
    CUDA(cudaDeviceSynchronize());
    CUDA(cudaLaunchHostFunc(stream, gate_pass, &gate));
    CUDA(cudaEventRecord(begin, stream));
    CUDA(cudaLaunchKernel(&fill_stub, (dim3){2, 1, 1}, (dim3){32, 1, 1}, args, 0, stream));
    numbers.first = 99; /* arguments were copied */
    CUDA(cudaEventRecord(middle, stream));
    cudaKernel_t kernel;
    CUDA(__cudaGetKernel(&kernel, &tick_stub));
    void *tick_args[] = {&data};
    CUDA(__cudaLaunchKernel(kernel, one, one, tick_args, 0, stream));
    cudaLaunchConfig_t config = {.gridDim = one, .blockDim = one, .stream = stream};
    CUDA(cudaLaunchKernelExC(&config, &tick_stub, tick_args));
    CUDA(cudaEventRecord(end, stream));
    gate_open(&gate);
    CUDA(cudaMemcpyAsync(result, data, sizeof result, cudaMemcpyDeviceToHost, stream));
    assert_int_equal(result[0], 5 + 64 + 2);
    assert_int_equal(result[99], 5 + 64 + 99);
    assert_true(us_between(begin, middle) == 100.0f);
    assert_true(us_between(middle, end) == 6.0f);
    CUDA(cudaFree(data));
    CUDA(cudaStreamDestroy(stream));
}

static void test_kernel_errors(void **state)
{
    (void)state;
    int *data = device_copy(NULL, sizeof(int));
    void *args[] = {&data};
    cudaKernel_t kernel;
    assert_int_equal(cudaLaunchKernel(&bare_stub, one, one, args, 0, NULL), cudaErrorInvalidDeviceFunction);
    assert_int_equal(cudaPeekAtLastError(), cudaErrorInvalidDeviceFunction);
    assert_int_equal(cudaGetLastError(), cudaErrorInvalidDeviceFunction);
    assert_int_equal(cudaGetLastError(), cudaSuccess);
    assert_int_equal(__cudaGetKernel(&kernel, &unknown_stub), cudaErrorInvalidDeviceFunction);
    assert_int_equal(cudaLaunchKernel(&tick_stub, (dim3){0, 1, 1}, one, args, 0, NULL), cudaErrorInvalidConfiguration);
    assert_int_equal(cudaLaunchKernel(&tick_stub, one, (dim3){1025, 1, 1}, args, 0, NULL),
                     cudaErrorInvalidConfiguration);
    cudaStream_t other;
    CUDA(cudaSetDevice(1));
    CUDA(cudaStreamCreate(&other));
    CUDA(cudaSetDevice(0));
    assert_int_equal(cudaLaunchKernel(&tick_stub, one, one, args, 0, other), cudaErrorInvalidResourceHandle);
    assert_int_equal(cudaSetDevice(8), cudaErrorInvalidDevice);
    CUDA(cudaStreamDestroy(other));
    CUDA(cudaFree(data));
}

/* Fork and join inside a capture: one tick each side, then one behind both. */
static cudaGraph_t graph_capture(cudaStream_t origin, cudaStream_t branch, int *counters)
{
    cudaGraph_t graph;
    cudaEvent_t fork_event = event_new(), join_event = event_new();
    CUDA(cudaStreamBeginCapture(origin, cudaStreamCaptureModeThreadLocal));
    enum cudaStreamCaptureStatus status;
    CUDA(cudaStreamIsCapturing(origin, &status));
    assert_int_equal(status, cudaStreamCaptureStatusActive);
    CUDA(cudaEventRecord(fork_event, origin));
    CUDA(cudaStreamWaitEvent(branch, fork_event, 0));
    tick(counters, origin);
    tick(counters + 1, branch);
    tick(counters + 1, branch);
    CUDA(cudaEventRecord(join_event, branch));
    CUDA(cudaStreamWaitEvent(origin, join_event, 0));
    tick(counters + 2, origin);
    CUDA(cudaStreamEndCapture(origin, &graph));
    CUDA(cudaStreamIsCapturing(branch, &status));
    assert_int_equal(status, cudaStreamCaptureStatusNone);
    assert_int_equal(cudaEventQuery(fork_event), cudaErrorCapturedEvent);
    return graph;
}

static void test_graph(void **state)
{
    (void)state;
    cudaStream_t origin = stream_new(cudaStreamNonBlocking), branch = stream_new(cudaStreamNonBlocking);
    int zeros[3] = {0, 0, 0}, result[3];
    int *counters = device_copy(zeros, sizeof zeros);
    cudaGraph_t graph = graph_capture(origin, branch, counters);
    size_t nodes;
    CUDA(cudaGraphGetNodes(graph, NULL, &nodes));
    assert_int_equal(nodes, 4);
    cudaGraphExec_t exec;
    CUDA(cudaGraphInstantiate(&exec, graph, 0));
    CUDA(cudaGraphDestroy(graph));
    host_copy(result, counters, sizeof result);
    assert_int_equal(result[0], 0);
    cudaEvent_t begin = event_new(), end = event_new();
    CUDA(cudaEventRecord(begin, origin));
    for (int i = 0; i < 3; i++)
        CUDA(cudaGraphLaunch(exec, origin));
    CUDA(cudaEventRecord(end, origin));
    CUDA(cudaStreamSynchronize(origin));
    host_copy(result, counters, sizeof result);
    assert_int_equal(result[0], 3);
    assert_int_equal(result[1], 6);
    assert_int_equal(result[2], 3);
    /* The branches overlap: 2 ticks, then 1, of 3 us. */
    assert_true(us_between(begin, end) == 27.0f);
    CUDA(cudaGraphExecDestroy(exec));
    CUDA(cudaStreamDestroy(origin));
    CUDA(cudaStreamDestroy(branch));
    CUDA(cudaFree(counters));
}

static void test_capture_errors(void **state)
{
    (void)state;
    cudaStream_t stream = stream_new(cudaStreamNonBlocking), other = stream_new(cudaStreamNonBlocking);
    cudaGraph_t graph;
    void *memory;
    int *counter = device_copy(NULL, sizeof(int));
    /* A call that a global capture forbids breaks it; in relaxed mode it does not. */
    CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    assert_int_equal(cudaMalloc(&memory, 8), cudaErrorStreamCaptureUnsupported);
    assert_int_equal(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated);
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    CUDA(cudaThreadExchangeStreamCaptureMode(&mode));
    CUDA(cudaMalloc(&memory, 8));
    CUDA(cudaThreadExchangeStreamCaptureMode(&mode));
    assert_int_equal(mode, cudaStreamCaptureModeRelaxed);
    CUDA(cudaStreamEndCapture(stream, &graph));
    CUDA(cudaGraphDestroy(graph));
    CUDA(cudaFree(memory));
    /* Waiting on a capturing stream breaks the capture. */
    CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    assert_int_equal(cudaStreamSynchronize(stream), cudaErrorStreamCaptureUnsupported);
    assert_int_equal(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated);
    /* A branch that never comes back. */
    cudaEvent_t event = event_new();
    CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    CUDA(cudaEventRecord(event, stream));
    CUDA(cudaStreamWaitEvent(other, event, 0));
    tick(counter, other);
    assert_int_equal(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureUnjoined);
    /* The legacy stream would have to wait for a blocking stream in capture. */
    cudaStream_t blocking = stream_new(cudaStreamDefault);
    CUDA(cudaStreamBeginCapture(blocking, cudaStreamCaptureModeRelaxed));
    assert_int_equal(cudaMemsetAsync(counter, 0, 4, NULL), cudaErrorStreamCaptureImplicit);
    assert_int_equal(cudaStreamEndCapture(blocking, &graph), cudaErrorStreamCaptureInvalidated);
    CUDA(cudaStreamDestroy(stream));
    CUDA(cudaStreamDestroy(other));
    CUDA(cudaStreamDestroy(blocking));
    CUDA(cudaFree(counter));
    cudaGetLastError();
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

#define TEST(name) cmocka_unit_test_teardown(name, events_destroy)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_order),      TEST(test_event),         TEST(test_overlap), TEST(test_legacy),
        TEST(test_per_thread), TEST(test_pageable),      TEST(test_memory),  TEST(test_free_waits),
        TEST(test_kernel),     TEST(test_kernel_errors), TEST(test_graph),   TEST(test_capture_errors),
        TEST(test_fork),
    };
    return cmocka_run_group_tests(tests, kernels_register, NULL);
}
