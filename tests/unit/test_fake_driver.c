/*
 * The stand-in driver, found the way a tool finds it: dlopen and cuGetProcAddress_v2. Handles are the runtime's.
 */
#include "tests/fake/ranks.h"

#include <cuda.h>
#include <dlfcn.h>
#include <stdatomic.h>

#include "shim/fingerprint.h"

static __typeof__(cuGetProcAddress) *get_proc;

static void *entry(const char *name)
{
    void *function = NULL;
    CUdriverProcAddressQueryResult status;
    assert_int_equal(get_proc(name, &function, CUDA_VERSION, 0, &status), CUDA_SUCCESS);
    assert_int_equal(status, CU_GET_PROC_ADDRESS_SUCCESS);
    return function;
}

#define ENTRY(name) __typeof__(name) *name##_entry = (__typeof__(name) *)entry(#name)

static int driver_open(void **state)
{
    (void)state;
    setenv("FAKE_HBM_GBPS", "1", 1);
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return -1;
    get_proc = (__typeof__(cuGetProcAddress) *)dlsym(library, "cuGetProcAddress_v2");
    return get_proc ? 0 : -1;
}

static void test_lookup(void **state)
{
    (void)state;
    void *function;
    CUdriverProcAddressQueryResult status;
    assert_int_equal(get_proc("cuNoSuchThing", &function, CUDA_VERSION, 0, &status), CUDA_ERROR_NOT_FOUND);
    assert_int_equal(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    assert_null(function);
    assert_int_equal(get_proc("cuStreamGetCaptureInfo", &function, 10000, 0, &status), CUDA_ERROR_NOT_FOUND);
    assert_int_equal(status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
    void *newest = entry("cuStreamGetCaptureInfo");
    assert_int_equal(get_proc("cuStreamGetCaptureInfo", &function, 11030, 0, NULL), CUDA_SUCCESS);
    assert_ptr_not_equal(function, newest);
    /* Plain names, whatever version suffix the function has. */
    entry("cuMemAlloc");
    entry("cuCtxPushCurrent");
    entry("cuMemHostRegister");
}

/* The current context and the runtime's current device are one thing. */
static void test_context(void **state)
{
    (void)state;
    ENTRY(cuCtxGetCurrent);
    ENTRY(cuCtxSetCurrent);
    ENTRY(cuCtxGetDevice);
    ENTRY(cuDevicePrimaryCtxRetain);
    __typeof__(cuCtxPushCurrent) *push = (__typeof__(cuCtxPushCurrent) *)entry("cuCtxPushCurrent");
    __typeof__(cuCtxPopCurrent) *pop = (__typeof__(cuCtxPopCurrent) *)entry("cuCtxPopCurrent");
    CUcontext current, first, second, popped;
    CUdevice device;
    assert_int_equal(cuCtxGetCurrent_entry(&current), CUDA_SUCCESS);
    assert_null(current);
    assert_int_equal(cuCtxGetDevice_entry(&device), CUDA_ERROR_INVALID_CONTEXT);
    CUDA(cudaSetDevice(2));
    assert_int_equal(cuCtxGetCurrent_entry(&first), CUDA_SUCCESS);
    assert_int_equal(cuCtxGetDevice_entry(&device), CUDA_SUCCESS);
    assert_int_equal(device, 2);
    assert_int_equal(cuDevicePrimaryCtxRetain_entry(&second, 5), CUDA_SUCCESS);
    assert_int_equal(push(second), CUDA_SUCCESS);
    int runtime_device;
    CUDA(cudaGetDevice(&runtime_device));
    assert_int_equal(runtime_device, 5);
    assert_int_equal(pop(&popped), CUDA_SUCCESS);
    assert_ptr_equal(popped, second);
    CUDA(cudaGetDevice(&runtime_device));
    assert_int_equal(runtime_device, 2);
    assert_int_equal(cuCtxSetCurrent_entry(NULL), CUDA_SUCCESS);
    assert_int_equal(cuCtxGetDevice_entry(&device), CUDA_ERROR_INVALID_CONTEXT);
    assert_int_equal(cuCtxSetCurrent_entry(first), CUDA_SUCCESS);
    assert_int_equal(cuCtxSetCurrent_entry((CUcontext)&device), CUDA_ERROR_INVALID_CONTEXT);
}

static CUfunction fingerprint_function(CUmodule *module_out)
{
    ENTRY(cuModuleLoadData);
    ENTRY(cuModuleGetFunction);
    static const char image[] = "any image";
    CUfunction function, unknown;
    assert_int_equal(cuModuleLoadData_entry(module_out, image), CUDA_SUCCESS);
    assert_int_equal(cuModuleGetFunction_entry(&unknown, *module_out, "rp_unknown"), CUDA_ERROR_NOT_FOUND);
    assert_int_equal(cuModuleGetFunction_entry(&function, *module_out, RP_FINGERPRINT_KERNEL), CUDA_SUCCESS);
    return function;
}

/* The kernel of libreprise, on a stream and events of either interface; the tag is polled, without a wait. */
static void test_fingerprint(void **state)
{
    (void)state;
    ENTRY(cuLaunchKernel);
    ENTRY(cuMemHostAlloc);
    ENTRY(cuMemFreeHost);
    ENTRY(cuEventCreate);
    ENTRY(cuStreamSynchronize);
    __typeof__(cuMemHostGetDevicePointer) *device_pointer =
        (__typeof__(cuMemHostGetDevicePointer) *)entry("cuMemHostGetDevicePointer");
    CUmodule module;
    CUfunction function = fingerprint_function(&module);
    ENTRY(cuModuleUnload);
    __typeof__(cuEventDestroy) *event_destroy = (__typeof__(cuEventDestroy) *)entry("cuEventDestroy");
    char text[1000];
    memset(text, 'x', sizeof text);
    const void *data = device_copy(text, sizeof text);
    struct rp_fingerprint_sums *sums = device_copy(NULL, sizeof *sums);
    struct rp_fingerprint_entry *pinned;
    CUdeviceptr on_device;
    assert_int_equal(cuMemHostAlloc_entry((void **)&pinned, sizeof *pinned, CU_MEMHOSTALLOC_DEVICEMAP), CUDA_SUCCESS);
    assert_int_equal(device_pointer(&on_device, pinned, 0), CUDA_SUCCESS);
    memset(pinned, 0, sizeof *pinned);
    cudaStream_t stream;
    cudaEvent_t begin, end;
    CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CUDA(cudaEventCreate(&begin));
    assert_int_equal(cuEventCreate_entry(&end, CU_EVENT_DEFAULT), CUDA_SUCCESS);
    uint64_t bytes = sizeof text, salt = 3, tag = 9;
    void *args[] = {&data, &bytes, &salt, &sums, &on_device, &tag};
    CUDA(cudaEventRecord(begin, stream));
    assert_int_equal(cuLaunchKernel_entry(function, 2, 1, 1, RP_FINGERPRINT_THREADS, 1, 1, 0, stream, args, NULL),
                     CUDA_SUCCESS);
    CUDA(cudaEventRecord(end, stream));
    while (__atomic_load_n(&pinned->tag, __ATOMIC_ACQUIRE) != tag)
        usleep(100);
    uint64_t expected[2];
    rp_fingerprint_host(text, bytes, salt, expected);
    assert_memory_equal(pinned->value, expected, sizeof expected);
    assert_int_equal(cuStreamSynchronize_entry(stream), CUDA_SUCCESS);
    float ms;
    CUDA(cudaEventElapsedTime(&ms, begin, end));
    assert_true(ms == 1e-3f);
    assert_int_equal(cuMemFreeHost_entry(pinned), CUDA_SUCCESS);
    assert_int_equal(event_destroy(begin), CUDA_SUCCESS);
    assert_int_equal(event_destroy(end), CUDA_SUCCESS);
    assert_int_equal(event_destroy(NULL), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cuModuleUnload_entry(module), CUDA_SUCCESS);
    CUDA(cudaStreamDestroy(stream));
}

static void test_capture_mode(void **state)
{
    (void)state;
    ENTRY(cuThreadExchangeStreamCaptureMode);
    ENTRY(cuStreamIsCapturing);
    __typeof__(cuMemAlloc) *allocate = (__typeof__(cuMemAlloc) *)entry("cuMemAlloc");
    __typeof__(cuMemFree) *release = (__typeof__(cuMemFree) *)entry("cuMemFree");
    cudaStream_t stream;
    cudaGraph_t graph;
    CUdeviceptr memory;
    CUstreamCaptureStatus status;
    CUDA(cudaStreamCreate(&stream));
    CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    assert_int_equal(cuStreamIsCapturing_entry(stream, &status), CUDA_SUCCESS);
    assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    assert_int_equal(cuThreadExchangeStreamCaptureMode_entry(&mode), CUDA_SUCCESS);
    assert_int_equal(mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
    assert_int_equal(allocate(&memory, 64), CUDA_SUCCESS);
    assert_int_equal(cuThreadExchangeStreamCaptureMode_entry(&mode), CUDA_SUCCESS);
    assert_int_equal(allocate(&memory, 64), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    assert_int_equal(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated);
    assert_int_equal(release(memory), CUDA_SUCCESS);
    CUDA(cudaStreamDestroy(stream));
}

static void test_error_names(void **state)
{
    (void)state;
    ENTRY(cuGetErrorName);
    ENTRY(cuGetErrorString);
    const char *text;
    assert_int_equal(cuGetErrorName_entry(CUDA_ERROR_NOT_READY, &text), CUDA_SUCCESS);
    assert_string_equal(text, "CUDA_ERROR_NOT_READY");
    assert_int_equal(cuGetErrorString_entry(CUDA_ERROR_NOT_READY, &text), CUDA_SUCCESS);
    assert_string_equal(text, cudaGetErrorString(cudaErrorNotReady));
    assert_int_equal(cuGetErrorName_entry((CUresult)12345, &text), CUDA_ERROR_INVALID_VALUE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lookup),       cmocka_unit_test(test_context),     cmocka_unit_test(test_fingerprint),
        cmocka_unit_test(test_capture_mode), cmocka_unit_test(test_error_names),
    };
    return cmocka_run_group_tests(tests, driver_open, NULL);
}
