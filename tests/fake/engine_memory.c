/*
 * Memory of devices, and pinned memory of the host. All of it is ordinary host memory, so that the address sanitizer
 * sees a kernel that leaves its buffer; what is mapped into reserved ranges is in engine_virtual.c. A tree of ranges
 * tells what an address belongs to; `lock` guards the tree and the sums.
 */
#include "engine_internal.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

/* New memory holds no zeros that a program could come to rely on. */
#define JUNK 0xa5
#define JUNK_BYTES_MAX ((size_t)1 << 20)
#define ALIGNMENT 512
#define ALIGNMENT_LARGE 4096 /* from 4096 bytes: NCCL's windows ask for it */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *ranges;
static uint64_t *used; /* bytes, by device */

/* Ranges that overlap are equal: the tree never holds two of them. */
static int compare(const void *left, const void *right)
{
    const struct fake_memory *a = left, *b = right;
    if (a->base + a->bytes <= b->base)
        return -1;
    return b->base + b->bytes <= a->base ? 1 : 0;
}

static struct fake_memory *find(const void *address)
{
    struct fake_memory key = {.base = (char *)(uintptr_t)address, .bytes = 1};
    void *node = tfind(&key, &ranges, compare);
    return node ? *(struct fake_memory **)node : NULL;
}

static bool on_device(enum fake_memory_kind kind)
{
    return kind == FAKE_MEMORY_DEVICE || kind == FAKE_MEMORY_MANAGED;
}

/* With the lock held. */
static bool take(int device, uint64_t bytes)
{
    if (!used)
        used = fake_need(calloc((size_t)fake_config()->devices, sizeof *used));
    if (bytes > fake_config()->memory_bytes - used[device])
        return false;
    used[device] += bytes;
    return true;
}

bool fake_memory_charge(int device, uint64_t bytes)
{
    pthread_mutex_lock(&lock);
    bool taken = take(device, bytes);
    pthread_mutex_unlock(&lock);
    return taken;
}

void fake_memory_discharge(int device, uint64_t bytes)
{
    pthread_mutex_lock(&lock);
    used[device] -= bytes;
    pthread_mutex_unlock(&lock);
}

static bool budget_take(const struct fake_memory *memory)
{
    return !on_device(memory->kind) || take(memory->device, memory->bytes);
}

static void budget_give(const struct fake_memory *memory)
{
    if (on_device(memory->kind))
        used[memory->device] -= memory->bytes;
}

cudaError_t fake_memory_enter(const struct fake_memory *memory)
{
    struct fake_memory *entry = fake_need(malloc(sizeof *entry));
    *entry = *memory;
    pthread_mutex_lock(&lock);
    cudaError_t error = budget_take(memory) ? cudaSuccess : cudaErrorMemoryAllocation;
    if (error == cudaSuccess) {
        struct fake_memory **node = fake_need(tsearch(entry, &ranges, compare));
        if (*node != entry) {
            budget_give(memory);
            error = cudaErrorHostMemoryAlreadyRegistered;
        }
    }
    pthread_mutex_unlock(&lock);
    if (error != cudaSuccess)
        free(entry);
    return error;
}

cudaError_t fake_memory_allocate(void **pointer_out, size_t bytes, enum fake_memory_kind kind)
{
    if (!pointer_out)
        return cudaErrorInvalidValue;
    cudaError_t error = fake_capture_unsafe();
    if (error != cudaSuccess)
        return error;
    *pointer_out = NULL;
    if (bytes == 0)
        return cudaSuccess;
    void *base;
    if (bytes > fake_config()->memory_bytes ||
        posix_memalign(&base, bytes < ALIGNMENT_LARGE ? ALIGNMENT : ALIGNMENT_LARGE, bytes) != 0)
        return cudaErrorMemoryAllocation;
    error = fake_memory_enter(&(struct fake_memory){base, bytes, kind, fake_device_current()});
    if (error != cudaSuccess) {
        free(base);
        return error;
    }
    memset(base, JUNK, bytes < JUNK_BYTES_MAX ? bytes : JUNK_BYTES_MAX);
    *pointer_out = base;
    return cudaSuccess;
}

/* One may free by the other's name: managed memory is device memory to cudaFree. */
static bool same_family(enum fake_memory_kind left, enum fake_memory_kind right)
{
    return left == right || (on_device(left) && on_device(right));
}

cudaError_t fake_memory_take(void *pointer, enum fake_memory_kind kind, struct fake_memory *memory_out)
{
    pthread_mutex_lock(&lock);
    struct fake_memory *entry = find(pointer);
    bool good = entry && entry->base == pointer && same_family(entry->kind, kind);
    if (good) {
        *memory_out = *entry;
        budget_give(entry);
        tdelete(entry, &ranges, compare);
        free(entry);
    }
    pthread_mutex_unlock(&lock);
    return good ? cudaSuccess : cudaErrorInvalidValue;
}

void fake_memory_release(const struct fake_memory *memory)
{
    free(memory->base);
}

cudaError_t fake_memory_free(void *pointer, enum fake_memory_kind kind)
{
    struct fake_memory memory;
    cudaError_t error = fake_capture_unsafe();
    if (error != cudaSuccess || !pointer)
        return error;
    if (!fake_memory_find(pointer, &memory))
        return cudaErrorInvalidValue;
    fake_device_synchronize(memory.device);
    error = fake_memory_take(pointer, kind, &memory);
    if (error == cudaSuccess)
        fake_memory_release(&memory);
    return error;
}

static uint64_t free_run(void *payload, uint64_t ready)
{
    fake_memory_release(payload);
    return ready;
}

cudaError_t fake_memory_free_async(void *pointer, cudaStream_t stream)
{
    if (!pointer)
        return cudaSuccess;
    cudaError_t error = fake_stream_check(stream);
    if (error == cudaSuccess)
        error = fake_capture_unsafe();
    if (error != cudaSuccess)
        return error;
    struct fake_memory *memory = fake_need(malloc(sizeof *memory));
    error = fake_memory_take(pointer, FAKE_MEMORY_DEVICE, memory);
    if (error != cudaSuccess) {
        free(memory);
        return error;
    }
    return fake_submit(stream, &(struct fake_work){free_run, free, memory, NULL}, NULL);
}

cudaError_t fake_memory_register(void *pointer, size_t bytes)
{
    if (!pointer || bytes == 0)
        return cudaErrorInvalidValue;
    return fake_memory_enter(&(struct fake_memory){pointer, bytes, FAKE_MEMORY_REGISTERED, fake_device_current()});
}

cudaError_t fake_memory_unregister(void *pointer)
{
    struct fake_memory memory;
    cudaError_t error = fake_memory_take(pointer, FAKE_MEMORY_REGISTERED, &memory);
    return error == cudaSuccess ? error : cudaErrorHostMemoryNotRegistered;
}

bool fake_memory_find(const void *address, struct fake_memory *memory_out)
{
    pthread_mutex_lock(&lock);
    struct fake_memory *entry = find(address);
    bool found = entry != NULL, is_virtual = found && entry->kind == FAKE_MEMORY_VIRTUAL;
    if (found && !is_virtual)
        *memory_out = *entry;
    pthread_mutex_unlock(&lock);
    return is_virtual ? fake_virtual_find(address, memory_out) == FAKE_VIRTUAL_MAPPED : found;
}

void fake_memory_info(size_t *free_out, size_t *total_out)
{
    pthread_mutex_lock(&lock);
    uint64_t taken = used ? used[fake_device_current()] : 0;
    pthread_mutex_unlock(&lock);
    *total_out = fake_config()->memory_bytes;
    *free_out = fake_config()->memory_bytes - taken;
}
