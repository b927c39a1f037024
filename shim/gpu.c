#include "shim/gpu.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "shim/fingerprint.h"
#include "shim/kernels_image.h"

/*
 * The driver functions we call: X(name), the header's name. cuda.h maps many to a versioned symbol by a macro, so
 * both type and symbol come out right by expansion.
 */
#define DRIVER_FUNCTIONS(X)      \
    X(cuGetErrorName)            \
    X(cuDeviceGet)               \
    X(cuDeviceGetAttribute)      \
    X(cuDevicePrimaryCtxRetain)  \
    X(cuCtxGetCurrent)           \
    X(cuCtxPushCurrent)          \
    X(cuCtxPopCurrent)           \
    X(cuModuleLoadData)          \
    X(cuModuleGetFunction)       \
    X(cuLaunchKernel)            \
    X(cuMemAlloc)                \
    X(cuMemHostRegister)         \
    X(cuMemHostGetDevicePointer) \
    X(cuMemsetD8Async)           \
    X(cuStreamCreate)            \
    X(cuStreamIsCapturing)       \
    X(cuStreamWaitEvent)         \
    X(cuEventCreate)             \
    X(cuEventRecord)             \
    X(cuEventQuery)              \
    X(cuThreadExchangeStreamCaptureMode)

#define FIELD(name) __typeof__(name) *p_##name;
struct driver {
    DRIVER_FUNCTIONS(FIELD)
};

/* "cuMemAlloc" as "cuMemAlloc_v2" */
#define SYMBOL_TEXT(symbol) #symbol
#define SYMBOL(name) SYMBOL_TEXT(name)

#define DEVICES 64

/* What we keep in a device's primary context. */
struct device {
    CUcontext context;
    CUmodule module;
    CUfunction fingerprint;
    CUstream stream; /* our own, non-blocking: what is set up there waits for nobody */
    unsigned max_blocks;
};

static struct {
    pthread_mutex_t lock; /* over what is here; nothing is called under it: an abort must get by */
    struct driver driver;
    _Atomic bool loaded;
    struct device devices[DEVICES];
    struct rp_prints *free;
} gpu = {.lock = PTHREAD_MUTEX_INITIALIZER};

struct rp_prints {
    struct device *device;
    struct rp_fingerprint_entry *entries; /* our own pages, pinned: they outlive the context */
    CUdeviceptr entries_on_device;
    CUdeviceptr sums;
    CUevent zeroed; /* the sums are zero from here on */
    _Atomic bool ready;
    uint64_t next;          /* while free: the first serial of the next owner */
    struct rp_prints *free; /* list of free ones */
};

static _Thread_local char error_text[160] __attribute__((tls_model("initial-exec")));

const char *rp_gpu_error(void)
{
    return error_text;
}

static enum rp_status fail(enum rp_status status, const char *what, CUresult result)
{
    const char *name = NULL;
    if (result == CUDA_SUCCESS) {
        snprintf(error_text, sizeof error_text, "%s", what);
        return status;
    }
    if (gpu.driver.p_cuGetErrorName == NULL || gpu.driver.p_cuGetErrorName(result, &name) != CUDA_SUCCESS)
        name = "unknown error";
    snprintf(error_text, sizeof error_text, "%s: %s (%d)", what, name, (int)result);
    return status;
}

/* The first call of each kind of failure returns from the caller. */
#define TRY(call)                                        \
    do {                                                 \
        CUresult result_ = gpu.driver.p_##call;          \
        if (result_ != CUDA_SUCCESS)                     \
            return fail(RP_UNSUPPORTED, #call, result_); \
    } while (0)

/* Several threads may have loaded it at once, and found the same. */
static void driver_publish(const struct driver *driver)
{
    pthread_mutex_lock(&gpu.lock);
    if (!atomic_load_explicit(&gpu.loaded, memory_order_relaxed)) {
        gpu.driver = *driver;
        /* pairs with the acquires in driver_load() and rp_gpu_capturing() */
        atomic_store_explicit(&gpu.loaded, true, memory_order_release);
    }
    pthread_mutex_unlock(&gpu.lock);
}

/* The library is loaded by whoever uses CUDA here: we never load it ourselves. */
static enum rp_status driver_load(void)
{
    struct driver driver;
    if (atomic_load_explicit(&gpu.loaded, memory_order_acquire))
        return RP_OK;
    void *handle = dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_LAZY);
    if (handle == NULL)
        return fail(RP_UNSUPPORTED, "the process has not loaded libcuda.so.1", CUDA_SUCCESS);
    const char *missing = NULL;
#define LOAD(name)                                                     \
    driver.p_##name = (__typeof__(name) *)dlsym(handle, SYMBOL(name)); \
    if (driver.p_##name == NULL)                                       \
        missing = SYMBOL(name);
    DRIVER_FUNCTIONS(LOAD)
#undef LOAD
    dlclose(handle); /* its user keeps it */
    if (missing != NULL) {
        snprintf(error_text, sizeof error_text, "the driver has no %s", missing);
        return RP_UNSUPPORTED;
    }
    driver_publish(&driver);
    return RP_OK;
}

/* Makes the context current for a stretch, and our calls legal while a stream of the application is being captured. */
struct scope {
    CUcontext pushed;
    CUstreamCaptureMode mode;
};

static bool scope_enter(struct scope *scope, CUcontext context)
{
    CUcontext current = NULL;
    scope->pushed = NULL;
    if (gpu.driver.p_cuCtxGetCurrent(&current) != CUDA_SUCCESS)
        return false;
    if (current != context) {
        if (gpu.driver.p_cuCtxPushCurrent(context) != CUDA_SUCCESS)
            return false;
        scope->pushed = context;
    }
    scope->mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    gpu.driver.p_cuThreadExchangeStreamCaptureMode(&scope->mode);
    return true;
}

static void scope_leave(struct scope *scope)
{
    CUcontext popped;
    gpu.driver.p_cuThreadExchangeStreamCaptureMode(&scope->mode);
    if (scope->pushed != NULL)
        gpu.driver.p_cuCtxPopCurrent(&popped);
}

static enum rp_status device_fill(struct device *device, CUdevice ordinal)
{
    int processors = 0;
    TRY(cuDeviceGetAttribute(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, ordinal));
    TRY(cuModuleLoadData(&device->module, rp_kernels_image));
    TRY(cuModuleGetFunction(&device->fingerprint, device->module, RP_FINGERPRINT_KERNEL));
    TRY(cuStreamCreate(&device->stream, CU_STREAM_NON_BLOCKING));
    device->max_blocks = processors > 0 ? (unsigned)processors * 2 : 128;
    return RP_OK;
}

static enum rp_status device_make(int ordinal, struct device *device)
{
    CUdevice handle;
    TRY(cuDeviceGet(&handle, ordinal));
    TRY(cuDevicePrimaryCtxRetain(&device->context, handle)); /* kept: the application holds it as well */
    struct scope scope;
    if (!scope_enter(&scope, device->context))
        return fail(RP_UNSUPPORTED, "the device's primary context can't be made current", CUDA_SUCCESS);
    enum rp_status status = device_fill(device, handle);
    scope_leave(&scope);
    return status;
}

/* The state of a device that has one, or NULL. */
static struct device *device_find(int ordinal)
{
    pthread_mutex_lock(&gpu.lock);
    struct device *device = gpu.devices[ordinal].context != NULL ? &gpu.devices[ordinal] : NULL;
    pthread_mutex_unlock(&gpu.lock);
    return device;
}

/* The first one counts; what another thread made meanwhile stays unused: a free could wait for the device. */
static void device_publish(int ordinal, const struct device *device)
{
    pthread_mutex_lock(&gpu.lock);
    if (gpu.devices[ordinal].context == NULL)
        gpu.devices[ordinal] = *device;
    pthread_mutex_unlock(&gpu.lock);
}

/* The device's state, made at its first communicator. */
static enum rp_status device_get(int ordinal, struct device **device_out)
{
    if (ordinal < 0 || ordinal >= DEVICES)
        return fail(RP_UNSUPPORTED, "device number out of range", CUDA_SUCCESS);
    if (device_find(ordinal) == NULL) {
        struct device device = {0};
        enum rp_status status = device_make(ordinal, &device);
        if (status != RP_OK)
            return status;
        device_publish(ordinal, &device);
    }
    *device_out = device_find(ordinal);
    return RP_OK;
}

static CUresult launch(const struct rp_prints *prints, CUstream stream, CUdeviceptr data, uint64_t bytes,
                       uint64_t serial)
{
    uint64_t slot = serial % RP_PRINTS, salt = 0, tag = serial + 1;
    CUdeviceptr sums = prints->sums + slot * sizeof(struct rp_fingerprint_sums);
    CUdeviceptr entry = prints->entries_on_device + slot * sizeof(struct rp_fingerprint_entry);
    void *parameters[] = {&data, &bytes, &salt, &sums, &entry, &tag};
    /* at least 8 words a thread, so that small buffers don't pay for many blocks */
    uint64_t blocks = bytes / (RP_FINGERPRINT_THREADS * 16u * 8u) + 1;
    if (blocks > prints->device->max_blocks)
        blocks = prints->device->max_blocks;
    return gpu.driver.p_cuLaunchKernel(prints->device->fingerprint, (unsigned)blocks, 1, 1, RP_FINGERPRINT_THREADS, 1,
                                       1, 0, stream, parameters, NULL);
}

/* Pinned entries, zeroed sums, and one launch of the kernel so that its code is loaded now. In the device's context. */
static enum rp_status prints_fill(struct rp_prints *prints)
{
    size_t entry_bytes = RP_PRINTS * sizeof(struct rp_fingerprint_entry);
    size_t sum_bytes = RP_PRINTS * sizeof(struct rp_fingerprint_sums);
    CUstream stream = prints->device->stream;
    TRY(cuMemHostRegister(prints->entries, entry_bytes, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP));
    TRY(cuMemHostGetDevicePointer(&prints->entries_on_device, prints->entries, 0));
    TRY(cuMemAlloc(&prints->sums, sum_bytes));
    TRY(cuMemsetD8Async(prints->sums, 0, sum_bytes, stream));
    CUresult result = launch(prints, stream, prints->sums, 0, UINT64_MAX); /* its tag, 0, is no serial's */
    if (result != CUDA_SUCCESS)
        return fail(RP_UNSUPPORTED, "cuLaunchKernel(rp_fingerprint)", result);
    TRY(cuEventCreate(&prints->zeroed, CU_EVENT_DISABLE_TIMING));
    TRY(cuEventRecord(prints->zeroed, stream));
    return RP_OK;
}

static enum rp_status prints_make(int ordinal, struct rp_prints *prints)
{
    enum rp_status status = driver_load();
    if (status == RP_OK)
        status = device_get(ordinal, &prints->device);
    if (status != RP_OK)
        return status;
    size_t bytes = RP_PRINTS * sizeof(struct rp_fingerprint_entry);
    void *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED)
        return fail(RP_NO_MEMORY, "no memory for fingerprints", CUDA_SUCCESS);
    prints->entries = pages;
    struct scope scope;
    if (!scope_enter(&scope, prints->device->context))
        return fail(RP_UNSUPPORTED, "the device's primary context can't be made current", CUDA_SUCCESS);
    status = prints_fill(prints); /* what it made before it failed stays: a free could wait for the device */
    scope_leave(&scope);
    return status;
}

/* A free one of that device, taken off the list, or NULL. */
static struct rp_prints *prints_reuse(int ordinal)
{
    pthread_mutex_lock(&gpu.lock);
    struct rp_prints **link = &gpu.free;
    while (*link != NULL && (*link)->device - gpu.devices != ordinal)
        link = &(*link)->free;
    struct rp_prints *prints = *link;
    if (prints != NULL)
        *link = prints->free;
    pthread_mutex_unlock(&gpu.lock);
    return prints;
}

static enum rp_status prints_get(int ordinal, struct rp_prints **prints_out)
{
    *prints_out = prints_reuse(ordinal);
    if (*prints_out != NULL)
        return RP_OK;
    struct rp_prints *prints = calloc(1, sizeof *prints);
    if (prints == NULL)
        return fail(RP_NO_MEMORY, "no memory for fingerprints", CUDA_SUCCESS);
    enum rp_status status = prints_make(ordinal, prints);
    if (status == RP_OK)
        *prints_out = prints;
    else if (prints->entries == NULL)
        free(prints); /* the device knows nothing of it yet */
    return status;
}

enum rp_status rp_prints_acquire(int device, struct rp_prints **prints_out, uint64_t *first_out)
{
    struct rp_prints *prints = NULL;
    enum rp_status status = prints_get(device, &prints);
    if (status != RP_OK)
        return status;
    *prints_out = prints;
    *first_out = prints->next;
    return RP_OK;
}

void rp_prints_release(struct rp_prints *prints, uint64_t next)
{
    pthread_mutex_lock(&gpu.lock);
    prints->next = next;
    prints->free = gpu.free;
    gpu.free = prints;
    pthread_mutex_unlock(&gpu.lock);
}

bool rp_gpu_capturing(cudaStream_t stream)
{
    if (!atomic_load_explicit(&gpu.loaded, memory_order_acquire))
        return false;
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    CUresult result = gpu.driver.p_cuStreamIsCapturing((CUstream)stream, &status);
    /* the legacy stream may not even be asked while another stream is being captured */
    return result == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT || status != CU_STREAM_CAPTURE_STATUS_NONE;
}

/* Until the sums are known to be zero, the stream waits for them on the device. */
static bool wait_zeroed(struct rp_prints *prints, CUstream stream)
{
    if (atomic_load_explicit(&prints->ready, memory_order_relaxed))
        return true;
    if (gpu.driver.p_cuEventQuery(prints->zeroed) == CUDA_SUCCESS) {
        atomic_store_explicit(&prints->ready, true, memory_order_relaxed);
        return true;
    }
    return gpu.driver.p_cuStreamWaitEvent(stream, prints->zeroed, CU_EVENT_WAIT_DEFAULT) == CUDA_SUCCESS;
}

bool rp_prints_take(struct rp_prints *prints, cudaStream_t stream, const void *data, uint64_t bytes, uint64_t serial)
{
    struct scope scope;
    if (!scope_enter(&scope, prints->device->context))
        return false;
    bool taken = wait_zeroed(prints, (CUstream)stream) &&
                 launch(prints, (CUstream)stream, (CUdeviceptr)(uintptr_t)data, bytes, serial) == CUDA_SUCCESS;
    scope_leave(&scope);
    return taken;
}

enum rp_fingerprint_state rp_prints_read(const struct rp_prints *prints, uint64_t serial, uint64_t value_out[2])
{
    volatile struct rp_fingerprint_entry *entry = &prints->entries[serial % RP_PRINTS];
    uint64_t tag = entry->tag, value[2];
    if (tag != serial + 1)
        return tag > serial + 1 ? RP_FINGERPRINT_LOST : RP_FINGERPRINT_PENDING;
    /* pairs with the system fences in publish() (kernels.cu): a tag seen twice frames the value that belongs to it */
    atomic_thread_fence(memory_order_acquire);
    value[0] = entry->value[0];
    value[1] = entry->value[1];
    atomic_thread_fence(memory_order_acquire);
    if (entry->tag != tag)
        return RP_FINGERPRINT_LOST;
    value_out[0] = value[0];
    value_out[1] = value[1];
    return RP_FINGERPRINT_READY;
}

void rp_gpu_forked(void)
{
    pthread_mutex_init(&gpu.lock, NULL);
    memset(gpu.devices, 0, sizeof gpu.devices);
    gpu.free = NULL;
    atomic_store(&gpu.loaded, false);
}
