#include "shim/fingerprints.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "shim/fingerprint.h"
#include "shim/gpu.h"

/* Pages that a block has at least, so that small buffers don't pay for many blocks. */
#define LEAST_PAGES 8u

struct rp_fingerprints {
    int ordinal; /* of the device */
    struct rp_gpu_device *device;
    struct rp_fingerprint_entry *entries; /* our own pages, pinned: they outlive the context */
    CUdeviceptr entries_on_device;
    CUdeviceptr sums;
    CUevent zeroed; /* the sums are zero from here on */
    _Atomic bool ready;
    _Atomic uint64_t next_serial; /* never given twice, also to later owners */
    struct rp_fingerprints *free; /* list of free ones */
};

static struct {
    pthread_mutex_t lock; /* over the list */
    struct rp_fingerprints *free;
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER};

static enum rp_fingerprinting configured; /* constant while there are communicators */

void rp_fingerprints_configure(enum rp_fingerprinting how)
{
    configured = how;
}

bool rp_fingerprints_configured(void)
{
    return configured != RP_FINGERPRINTING_OFF;
}

uint64_t rp_fingerprints_every(uint64_t bytes)
{
    return configured == RP_FINGERPRINTING_SAMPLE ? rp_fingerprint_sample_every(bytes) : 1;
}

static CUresult launch(const struct rp_fingerprints *fingerprints, CUstream stream, CUdeviceptr data, uint64_t bytes,
                       uint64_t every, uint64_t serial)
{
    uint64_t slot = serial % RP_FINGERPRINTS, salt = 0, tag = serial + 1;
    CUdeviceptr sums = fingerprints->sums + slot * sizeof(struct rp_fingerprint_sums);
    CUdeviceptr entry = fingerprints->entries_on_device + slot * sizeof(struct rp_fingerprint_entry);
    void *parameters[] = {&data, &bytes, &every, &salt, &sums, &entry, &tag};
    uint64_t blocks = rp_fingerprint_pages_of(bytes, every).groups / LEAST_PAGES + 1;
    if (blocks > fingerprints->device->max_blocks)
        blocks = fingerprints->device->max_blocks;
    return rp_gpu_driver.p_cuLaunchKernel(fingerprints->device->fingerprint, (unsigned)blocks, 1, 1,
                                          RP_FINGERPRINT_THREADS, 1, 1, 0, stream, parameters, NULL);
}

/* Pinned entries, zeroed sums, and one launch of the kernel so that its code is loaded now. In the device's context. */
static enum rp_status fingerprints_fill(struct rp_fingerprints *fingerprints)
{
    size_t entry_bytes = RP_FINGERPRINTS * sizeof(struct rp_fingerprint_entry);
    size_t sum_bytes = RP_FINGERPRINTS * sizeof(struct rp_fingerprint_sums);
    CUstream stream = fingerprints->device->stream;
    RP_GPU_TRY(cuMemHostRegister(fingerprints->entries, entry_bytes,
                                 CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP));
    RP_GPU_TRY(cuMemHostGetDevicePointer(&fingerprints->entries_on_device, fingerprints->entries, 0));
    RP_GPU_TRY(cuMemAlloc(&fingerprints->sums, sum_bytes));
    RP_GPU_TRY(cuMemsetD8Async(fingerprints->sums, 0, sum_bytes, stream));
    CUresult result =
        launch(fingerprints, stream, fingerprints->sums, 0, 1, UINT64_MAX); /* its tag, 0, is no serial's */
    if (result != CUDA_SUCCESS)
        return rp_gpu_fail(RP_UNSUPPORTED, "cuLaunchKernel(rp_fingerprint)", result);
    RP_GPU_TRY(cuEventCreate(&fingerprints->zeroed, CU_EVENT_DISABLE_TIMING));
    RP_GPU_TRY(cuEventRecord(fingerprints->zeroed, stream));
    return RP_OK;
}

static enum rp_status fingerprints_make(int ordinal, struct rp_fingerprints *fingerprints)
{
    enum rp_status status = rp_gpu_device_get(ordinal, &fingerprints->device);
    fingerprints->ordinal = ordinal;
    if (status != RP_OK)
        return status;
    size_t bytes = RP_FINGERPRINTS * sizeof(struct rp_fingerprint_entry);
    void *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED)
        return rp_gpu_fail(RP_NO_MEMORY, "no memory for fingerprints", CUDA_SUCCESS);
    fingerprints->entries = pages;
    struct rp_gpu_scope scope;
    if (!rp_gpu_enter(&scope, fingerprints->device->context))
        return rp_gpu_fail(RP_UNSUPPORTED, "the device's primary context can't be made current", CUDA_SUCCESS);
    status =
        fingerprints_fill(fingerprints); /* what it made before it failed stays: a free could wait for the device */
    rp_gpu_leave(&scope);
    return status;
}

/* A free one of that device, taken off the list, or NULL. */
static struct rp_fingerprints *fingerprints_reuse(int ordinal)
{
    pthread_mutex_lock(&pool.lock);
    struct rp_fingerprints **link = &pool.free;
    while (*link != NULL && (*link)->ordinal != ordinal)
        link = &(*link)->free;
    struct rp_fingerprints *fingerprints = *link;
    if (fingerprints != NULL)
        *link = fingerprints->free;
    pthread_mutex_unlock(&pool.lock);
    return fingerprints;
}

static enum rp_status fingerprints_get(int ordinal, struct rp_fingerprints **prints_out)
{
    *prints_out = fingerprints_reuse(ordinal);
    if (*prints_out != NULL)
        return RP_OK;
    struct rp_fingerprints *fingerprints = calloc(1, sizeof *fingerprints);
    if (fingerprints == NULL)
        return rp_gpu_fail(RP_NO_MEMORY, "no memory for fingerprints", CUDA_SUCCESS);
    enum rp_status status = fingerprints_make(ordinal, fingerprints);
    if (status == RP_OK)
        *prints_out = fingerprints;
    else if (fingerprints->entries == NULL)
        free(fingerprints); /* the device knows nothing of it yet */
    return status;
}

enum rp_status rp_fingerprints_acquire(int device, struct rp_fingerprints **prints_out)
{
    struct rp_fingerprints *fingerprints = NULL;
    enum rp_status status = fingerprints_get(device, &fingerprints);
    if (status != RP_OK)
        return status;
    *prints_out = fingerprints;
    return RP_OK;
}

void rp_fingerprints_release(struct rp_fingerprints *fingerprints)
{
    pthread_mutex_lock(&pool.lock);
    fingerprints->free = pool.free;
    pool.free = fingerprints;
    pthread_mutex_unlock(&pool.lock);
}

/* Until the sums are known to be zero, the stream waits for them on the device. */
static bool wait_zeroed(struct rp_fingerprints *fingerprints, CUstream stream)
{
    if (atomic_load_explicit(&fingerprints->ready, memory_order_relaxed))
        return true;
    if (rp_gpu_driver.p_cuEventQuery(fingerprints->zeroed) == CUDA_SUCCESS) {
        atomic_store_explicit(&fingerprints->ready, true, memory_order_relaxed);
        return true;
    }
    return rp_gpu_driver.p_cuStreamWaitEvent(stream, fingerprints->zeroed, CU_EVENT_WAIT_DEFAULT) == CUDA_SUCCESS;
}

static bool take(struct rp_fingerprints *fingerprints, CUstream stream, const void *data, uint64_t bytes,
                 uint64_t every, uint64_t *serial_out)
{
    uint64_t serial = atomic_fetch_add_explicit(&fingerprints->next_serial, 1, memory_order_relaxed);
    if (!wait_zeroed(fingerprints, stream) ||
        launch(fingerprints, stream, (CUdeviceptr)(uintptr_t)data, bytes, every, serial) != CUDA_SUCCESS)
        return false;
    *serial_out = serial;
    return true;
}

bool rp_fingerprints_take(struct rp_fingerprints *fingerprints, cudaStream_t stream, const void *data, uint64_t bytes,
                          uint64_t every, uint64_t *serial_out)
{
    struct rp_gpu_scope scope;
    if (!rp_gpu_enter(&scope, fingerprints->device->context))
        return false;
    bool taken = take(fingerprints, (CUstream)stream, data, bytes, every, serial_out);
    rp_gpu_leave(&scope);
    return taken;
}

enum rp_fingerprint_state rp_fingerprints_read(const struct rp_fingerprints *fingerprints, uint64_t serial,
                                               uint64_t value_out[2])
{
    volatile struct rp_fingerprint_entry *entry = &fingerprints->entries[serial % RP_FINGERPRINTS];
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

void rp_fingerprints_forked(void)
{
    pthread_mutex_init(&pool.lock, NULL);
    pool.free = NULL;
}
