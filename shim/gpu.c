#include "shim/gpu.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "shim/fingerprint.h"
#include "shim/kernels_image.h"
#include "shim/pack.h"

/* "cuMemAlloc" as "cuMemAlloc_v2" */
#define SYMBOL_TEXT(symbol) #symbol
#define SYMBOL(name) SYMBOL_TEXT(name)

#define DEVICES 64

struct rp_gpu_driver rp_gpu_driver;

static struct {
    pthread_mutex_t lock; /* over what is here; nothing is called under it: an abort must get by */
    _Atomic bool loaded;  /* rp_gpu_driver is filled */
    struct rp_gpu_device devices[DEVICES];
} gpu = {.lock = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local char error_text[160] __attribute__((tls_model("initial-exec")));

const char *rp_gpu_error(void)
{
    return error_text;
}

enum rp_status rp_gpu_fail(enum rp_status status, const char *what, CUresult result)
{
    const char *name = NULL;
    if (result == CUDA_SUCCESS) {
        snprintf(error_text, sizeof error_text, "%s", what);
        return status;
    }
    if (rp_gpu_driver.p_cuGetErrorName == NULL || rp_gpu_driver.p_cuGetErrorName(result, &name) != CUDA_SUCCESS)
        name = "unknown error";
    snprintf(error_text, sizeof error_text, "%s: %s (%d)", what, name, (int)result);
    return status;
}

/* Several threads may have loaded it at once, and found the same. */
static void driver_publish(const struct rp_gpu_driver *driver)
{
    pthread_mutex_lock(&gpu.lock);
    if (!atomic_load_explicit(&gpu.loaded, memory_order_relaxed)) {
        rp_gpu_driver = *driver;
        /* pairs with the acquires in driver_load() and rp_gpu_capturing() */
        atomic_store_explicit(&gpu.loaded, true, memory_order_release);
    }
    pthread_mutex_unlock(&gpu.lock);
}

/* The library is loaded by whoever uses CUDA here: we never load it ourselves. */
static enum rp_status driver_load(void)
{
    struct rp_gpu_driver driver;
    if (atomic_load_explicit(&gpu.loaded, memory_order_acquire))
        return RP_OK;
    void *handle = dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_LAZY);
    if (handle == NULL)
        return rp_gpu_fail(RP_UNSUPPORTED, "the process has not loaded libcuda.so.1", CUDA_SUCCESS);
    const char *missing = NULL;
#define LOAD(name)                                                     \
    driver.p_##name = (__typeof__(name) *)dlsym(handle, SYMBOL(name)); \
    if (driver.p_##name == NULL)                                       \
        missing = SYMBOL(name);
    RP_GPU_FUNCTIONS(LOAD)
#undef LOAD
#define LOAD(name) driver.p_##name = (__typeof__(name) *)dlsym(handle, SYMBOL(name));
    RP_GPU_SLOT_FUNCTIONS(LOAD)
#undef LOAD
    dlclose(handle); /* its user keeps it */
    if (missing != NULL) {
        snprintf(error_text, sizeof error_text, "the driver has no %s", missing);
        return RP_UNSUPPORTED;
    }
    driver_publish(&driver);
    return RP_OK;
}

const char *rp_gpu_slots_missing(void)
{
#define CHECK(name)                     \
    if (rp_gpu_driver.p_##name == NULL) \
        return SYMBOL(name);
    RP_GPU_SLOT_FUNCTIONS(CHECK)
#undef CHECK
    return NULL;
}

bool rp_gpu_enter(struct rp_gpu_scope *scope, CUcontext context)
{
    CUcontext current = NULL;
    scope->pushed = NULL;
    if (rp_gpu_driver.p_cuCtxGetCurrent(&current) != CUDA_SUCCESS)
        return false;
    if (current != context) {
        if (rp_gpu_driver.p_cuCtxPushCurrent(context) != CUDA_SUCCESS)
            return false;
        scope->pushed = context;
    }
    scope->mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    rp_gpu_driver.p_cuThreadExchangeStreamCaptureMode(&scope->mode);
    return true;
}

void rp_gpu_leave(struct rp_gpu_scope *scope)
{
    CUcontext popped;
    rp_gpu_driver.p_cuThreadExchangeStreamCaptureMode(&scope->mode);
    if (scope->pushed != NULL)
        rp_gpu_driver.p_cuCtxPopCurrent(&popped);
}

static enum rp_status device_fill(struct rp_gpu_device *device, CUdevice ordinal)
{
    int processors = 0;
    RP_GPU_TRY(cuDeviceGetAttribute(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, ordinal));
    device->handle = ordinal;
    device->max_blocks = 2 * (unsigned)processors;
    RP_GPU_TRY(cuModuleLoadData(&device->module, rp_kernels_image));
    RP_GPU_TRY(cuModuleGetFunction(&device->fingerprint, device->module, RP_FINGERPRINT_KERNEL));
    RP_GPU_TRY(cuModuleGetFunction(&device->compare, device->module, RP_COMPARE_KERNEL));
    RP_GPU_TRY(cuModuleGetFunction(&device->stamp, device->module, RP_STAMP_KERNEL));
    RP_GPU_TRY(cuModuleGetFunction(&device->pack, device->module, RP_PACK_KERNEL));
    RP_GPU_TRY(cuModuleGetFunction(&device->pack_stamp, device->module, RP_PACK_STAMP_KERNEL));
    RP_GPU_TRY(cuModuleGetFunction(&device->unpack, device->module, RP_UNPACK_KERNEL));
    RP_GPU_TRY(cuModuleGetFunction(&device->unpack_list, device->module, RP_UNPACK_LIST_KERNEL));
    RP_GPU_TRY(cuModuleGetFunction(&device->compare_packed, device->module, RP_COMPARE_PACKED_KERNEL));
    RP_GPU_TRY(cuStreamCreate(&device->stream, CU_STREAM_NON_BLOCKING));
    return RP_OK;
}

static enum rp_status device_make(int ordinal, struct rp_gpu_device *device)
{
    CUdevice handle;
    RP_GPU_TRY(cuDeviceGet(&handle, ordinal));
    RP_GPU_TRY(cuDevicePrimaryCtxRetain(&device->context, handle)); /* kept: the application holds it as well */
    struct rp_gpu_scope scope;
    if (!rp_gpu_enter(&scope, device->context))
        return rp_gpu_fail(RP_UNSUPPORTED, "the device's primary context can't be made current", CUDA_SUCCESS);
    enum rp_status status = device_fill(device, handle);
    rp_gpu_leave(&scope);
    return status;
}

/* The state of a device that has one, or NULL. */
static struct rp_gpu_device *device_find(int ordinal)
{
    pthread_mutex_lock(&gpu.lock);
    struct rp_gpu_device *device = gpu.devices[ordinal].context != NULL ? &gpu.devices[ordinal] : NULL;
    pthread_mutex_unlock(&gpu.lock);
    return device;
}

/* The first one counts; what another thread made meanwhile stays unused: a free could wait for the device. */
static void device_publish(int ordinal, const struct rp_gpu_device *device)
{
    pthread_mutex_lock(&gpu.lock);
    if (gpu.devices[ordinal].context == NULL)
        gpu.devices[ordinal] = *device;
    pthread_mutex_unlock(&gpu.lock);
}

/* The device's state, made at its first communicator. */
enum rp_status rp_gpu_device_get(int ordinal, struct rp_gpu_device **device_out)
{
    if (ordinal < 0 || ordinal >= DEVICES)
        return rp_gpu_fail(RP_UNSUPPORTED, "device number out of range", CUDA_SUCCESS);
    enum rp_status status = driver_load();
    if (status != RP_OK)
        return status;
    if (device_find(ordinal) == NULL) {
        struct rp_gpu_device device = {0};
        status = device_make(ordinal, &device);
        if (status != RP_OK)
            return status;
        device_publish(ordinal, &device);
    }
    *device_out = device_find(ordinal);
    return RP_OK;
}

bool rp_gpu_capturing(cudaStream_t stream)
{
    if (!atomic_load_explicit(&gpu.loaded, memory_order_acquire))
        return false;
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    CUresult result = rp_gpu_driver.p_cuStreamIsCapturing((CUstream)stream, &status);
    /* the legacy stream may not even be asked while another stream is being captured */
    return result == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT || status != CU_STREAM_CAPTURE_STATUS_NONE;
}

void rp_gpu_forked(void)
{
    pthread_mutex_init(&gpu.lock, NULL);
    memset(gpu.devices, 0, sizeof gpu.devices);
    atomic_store(&gpu.loaded, false);
}
