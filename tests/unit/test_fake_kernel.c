/*
 * The stand-in CUDA runtime in one process: kernels and their host twins, capture and graphs.
 */
#include "tests/fake/device.h"

#include "tests/fake/cudart_private.h"

#define EXPORT __attribute__((visibility("default")))

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
    static int fat_binary;
    void **handle = __cudaRegisterFatBinary(&fat_binary);
    __cudaRegisterFunction(handle, &fill_stub, &fill_stub, "fill", -1, NULL, NULL, NULL, NULL, NULL);
    __cudaRegisterFunction(handle, &tick_stub, &tick_stub, "tick", -1, NULL, NULL, NULL, NULL, NULL);
    __cudaRegisterFunction(handle, &bare_stub, &bare_stub, "bare", -1, NULL, NULL, NULL, NULL, NULL);
    __cudaRegisterFatBinaryEnd(handle);
    return costs_set(state);
}

static void tick(int *counter, cudaStream_t stream)
{
    void *args[] = {&counter};
    CUDA(cudaLaunchKernel(&tick_stub, one, one, args, 0, stream));
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_kernel),
        TEST(test_kernel_errors),
        TEST(test_graph),
        TEST(test_capture_errors),
    };
    return cmocka_run_group_tests(tests, kernels_register, NULL);
}
