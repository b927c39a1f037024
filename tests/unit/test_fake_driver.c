/*
 * The stand-in driver, found the way a tool finds it: dlopen and cuGetProcAddress_v2. Handles are the runtime's.
 */
#include "tests/fake/ranks.h"

#include <cuda.h>
#include <dlfcn.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "shim/compare.h"
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
    setenv("FAKE_MEMORY_MB", "64", 1);
    setenv("FAKE_FAULT", "cualloc:rank=0,n=6", 1);
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
    uint64_t bytes = sizeof text, every = 1, salt = 3, tag = 9;
    void *args[] = {&data, &bytes, &every, &salt, &sums, &on_device, &tag};
    CUDA(cudaEventRecord(begin, stream));
    assert_int_equal(cuLaunchKernel_entry(function, 2, 1, 1, RP_FINGERPRINT_THREADS, 1, 1, 0, stream, args, NULL),
                     CUDA_SUCCESS);
    CUDA(cudaEventRecord(end, stream));
    while (__atomic_load_n(&pinned->tag, __ATOMIC_ACQUIRE) != tag)
        usleep(100);
    uint64_t expected[2];
    rp_fingerprint_host(text, bytes, every, salt, expected);
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

static const CUmemAllocationProp of_device = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                              .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
static const CUmemAccessDesc read_write = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
                                           .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

static void map_piece(CUdeviceptr base, size_t bytes)
{
    ENTRY(cuMemCreate);
    ENTRY(cuMemMap);
    ENTRY(cuMemRelease);
    ENTRY(cuMemSetAccess);
    CUmemGenericAllocationHandle handle;
    assert_int_equal(cuMemCreate_entry(&handle, bytes, &of_device, 0), CUDA_SUCCESS);
    assert_int_equal(cuMemMap_entry(base, bytes, 0, handle, 0), CUDA_SUCCESS);
    assert_int_equal(cuMemRelease_entry(handle), CUDA_SUCCESS);
    assert_int_equal(cuMemRelease_entry(handle), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemSetAccess_entry(base, bytes, &read_write, 1), CUDA_SUCCESS);
}

static sigjmp_buf fault_return;

static void fault_caught(int signal_number)
{
    (void)signal_number;
    siglongjmp(fault_return, 1);
}

static bool faults(const volatile char *address)
{
    struct sigaction caught = {.sa_handler = fault_caught}, before;
    sigaction(SIGSEGV, &caught, &before);
    bool faulted = sigsetjmp(fault_return, 1) != 0;
    if (!faulted)
        (void)*address;
    sigaction(SIGSEGV, &before, NULL);
    return faulted;
}

static size_t free_bytes(void)
{
    size_t unused, total;
    CUDA(cudaMemGetInfo(&unused, &total));
    return unused;
}

/* Two pieces behind one range: work on both at once, faults and errors where nothing is mapped. */
static void test_virtual_memory(void **state)
{
    (void)state;
    ENTRY(cuMemGetAllocationGranularity);
    ENTRY(cuMemAddressReserve);
    ENTRY(cuMemAddressFree);
    ENTRY(cuMemUnmap);
    ENTRY(cuMemSetAccess);
    CUDA(cudaSetDevice(0));
    size_t piece, before = free_bytes();
    CUdeviceptr base;
    assert_int_equal(cuMemGetAllocationGranularity_entry(&piece, &of_device, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
                     CUDA_SUCCESS);
    assert_int_equal(cuMemAddressReserve_entry(&base, 3 * piece + 1, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemAddressReserve_entry(&base, 4 * piece, 0, 0, 0), CUDA_SUCCESS);
    char *memory = (char *)(uintptr_t)base;
    assert_true(faults(memory));
    assert_int_equal(cudaMemset(memory, 1, 1), cudaErrorInvalidValue);
    assert_int_equal(free_bytes(), before);

    map_piece(base, piece);
    map_piece(base + piece, 2 * piece);
    assert_int_equal(free_bytes(), before - 3 * piece);
    assert_false(faults(memory));
    assert_true(memory[5] != 0);
    CUDA(cudaMemset(memory + piece - 10, 7, 20));
    CUDA(cudaDeviceSynchronize());
    assert_int_equal(memory[piece - 1], 7);
    assert_int_equal(memory[piece], 7);
    assert_int_equal(cudaMemset(memory, 1, 3 * piece + 1), cudaErrorInvalidValue);
    assert_int_equal(cudaFree(memory), cudaErrorInvalidValue);
    struct cudaPointerAttributes attributes;
    CUDA(cudaPointerGetAttributes(&attributes, memory + piece));
    assert_int_equal(attributes.type, cudaMemoryTypeDevice);

    assert_int_equal(cuMemSetAccess_entry(base, 4 * piece, &read_write, 1), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemUnmap_entry(base, 2 * piece), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemAddressFree_entry(base, 4 * piece), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemUnmap_entry(base + piece, 2 * piece), CUDA_SUCCESS);
    assert_true(faults(memory + piece));
    assert_false(faults(memory));
    assert_int_equal(free_bytes(), before - piece);
    assert_int_equal(cuMemUnmap_entry(base, piece), CUDA_SUCCESS);
    assert_int_equal(cuMemAddressFree_entry(base, 4 * piece), CUDA_SUCCESS);
    assert_int_equal(free_bytes(), before);
}

/* A handle keeps its memory, content and all, wherever it is mapped. */
static void test_physical_memory(void **state)
{
    (void)state;
    ENTRY(cuMemAddressReserve);
    ENTRY(cuMemAddressFree);
    ENTRY(cuMemCreate);
    ENTRY(cuMemRelease);
    ENTRY(cuMemMap);
    ENTRY(cuMemUnmap);
    ENTRY(cuMemSetAccess);
    const size_t piece = 2 << 20;
    size_t before = free_bytes();
    CUmemGenericAllocationHandle handle;
    CUdeviceptr base;
    void *ordinary;
    assert_int_equal(cuMemAddressReserve_entry(&base, 2 * piece, 0, 0, 0), CUDA_SUCCESS);
    assert_int_equal(cuMemCreate_entry(&handle, piece, &of_device, 0), CUDA_ERROR_OUT_OF_MEMORY); /* the fault */
    assert_int_equal(cuMemCreate_entry(&handle, before + piece, &of_device, 0), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(cuMemCreate_entry(&handle, piece, &of_device, 0), CUDA_SUCCESS);
    assert_int_equal(cudaMalloc(&ordinary, before), cudaErrorMemoryAllocation);
    assert_int_equal(cuMemMap_entry(base, piece, 0, handle, 0), CUDA_SUCCESS);
    assert_int_equal(cuMemMap_entry(base, piece, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
    assert_true(faults((char *)(uintptr_t)base));
    assert_int_equal(cuMemMap_entry(base + piece, piece, 0, handle, 0), CUDA_SUCCESS);
    assert_int_equal(cuMemSetAccess_entry(base, 2 * piece, &read_write, 1), CUDA_SUCCESS);
    CUDA(cudaMemset((void *)(uintptr_t)base, 9, 16));
    CUDA(cudaDeviceSynchronize());
    assert_int_equal(*(char *)(uintptr_t)(base + piece + 15), 9);
    assert_int_equal(cuMemUnmap_entry(base, 2 * piece), CUDA_SUCCESS);
    assert_int_equal(free_bytes(), before - piece);
    assert_int_equal(cuMemRelease_entry(handle), CUDA_SUCCESS);
    assert_int_equal(cuMemAddressFree_entry(base, 2 * piece), CUDA_SUCCESS);
    CUDA(cudaMalloc(&ordinary, before));
    CUDA(cudaFree(ordinary));
}

static void test_pointer_attributes(void **state)
{
    (void)state;
    ENTRY(cuPointerGetAttributes);
    CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    CUmemorytype type;
    int device, local = 0;
    void *data[] = {&type, &device}, *memory;
    CUDA(cudaSetDevice(3));
    CUDA(cudaMalloc(&memory, 16));
    assert_int_equal(cuPointerGetAttributes_entry(2, which, data, (CUdeviceptr)(uintptr_t)memory), CUDA_SUCCESS);
    assert_int_equal(type, CU_MEMORYTYPE_DEVICE);
    assert_int_equal(device, 3);
    assert_int_equal(cuPointerGetAttributes_entry(2, which, data, (CUdeviceptr)(uintptr_t)&local), CUDA_SUCCESS);
    assert_int_equal(type, 0);
    CUDA(cudaFree(memory));
    CUDA(cudaSetDevice(0));
}

/* The kernels of slots: unlike by a byte, unlike by the serial, alike; two reads of modelled time. */
static void test_compare(void **state)
{
    (void)state;
    ENTRY(cuModuleLoadData);
    ENTRY(cuModuleGetFunction);
    ENTRY(cuLaunchKernel);
    CUmodule module;
    CUfunction compare, stamp;
    assert_int_equal(cuModuleLoadData_entry(&module, "any image"), CUDA_SUCCESS);
    assert_int_equal(cuModuleGetFunction_entry(&compare, module, RP_COMPARE_KERNEL), CUDA_SUCCESS);
    assert_int_equal(cuModuleGetFunction_entry(&stamp, module, RP_STAMP_KERNEL), CUDA_SUCCESS);
    char *a = device_copy("0123456789", 10), *b = device_copy("0123456789", 10);
    uint64_t *serial = device_copy(NULL, sizeof *serial);
    struct rp_compare_state *counts = device_copy(NULL, sizeof *counts);
    struct rp_compare_entry *entry_of_op;
    CUDA(cudaMallocHost((void **)&entry_of_op, sizeof *entry_of_op));
    cudaStream_t stream;
    cudaEvent_t begin, end;
    CUDA(cudaStreamCreate(&stream));
    CUDA(cudaEventCreate(&begin));
    CUDA(cudaEventCreate(&end));
    for (uint64_t tag = 1; tag <= 3; tag++) {
        uint64_t value = 40 + tag, expected = tag == 2 ? 7 : value, bytes = 10;
        b[9] = tag == 1 ? '8' : '9';
        void *stamp_args[] = {&serial, &value};
        void *args[] = {&a, &b, &bytes, &serial, &expected, &counts, &entry_of_op, &tag};
        CUDA(cudaEventRecord(begin, stream));
        assert_int_equal(cuLaunchKernel_entry(stamp, 1, 1, 1, 1, 1, 1, 0, stream, stamp_args, NULL), CUDA_SUCCESS);
        assert_int_equal(cuLaunchKernel_entry(compare, 1, 1, 1, 256, 1, 1, 0, stream, args, NULL), CUDA_SUCCESS);
        CUDA(cudaEventRecord(end, stream));
        CUDA(cudaStreamSynchronize(stream));
        assert_int_equal(entry_of_op->word, rp_compare_word(tag, tag == 3));
        float ms;
        CUDA(cudaEventElapsedTime(&ms, begin, end));
        assert_true(ms == 28e-6f);
    }
    CUDA(cudaEventDestroy(begin));
    CUDA(cudaEventDestroy(end));
    CUDA(cudaStreamDestroy(stream));
    CUDA(cudaFreeHost(entry_of_op));
    ENTRY(cuModuleUnload);
    assert_int_equal(cuModuleUnload_entry(module), CUDA_SUCCESS);
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
        cmocka_unit_test(test_lookup),         cmocka_unit_test(test_context),
        cmocka_unit_test(test_fingerprint),    cmocka_unit_test(test_capture_mode),
        cmocka_unit_test(test_virtual_memory), cmocka_unit_test(test_physical_memory),
        cmocka_unit_test(test_compare),        cmocka_unit_test(test_pointer_attributes),
        cmocka_unit_test(test_error_names),
    };
    return cmocka_run_group_tests(tests, driver_open, NULL);
}
