/*
 * Ranges of addresses and physical memory as two things. Physical memory is a piece of one file in memory, so that it
 * can be mapped anywhere and keeps its content until its last mapping and its handle are gone. What is reserved and not
 * mapped, or mapped without access, faults when it is touched.
 *
 * `lock` guards everything here; engine_memory.c is called under it, and never the other way round.
 */
#include "engine_internal.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* New memory holds no zeros that a program could come to rely on. */
#define JUNK 0xa5
#define JUNK_BYTES ((size_t)64 << 10)

struct fake_physical {
    int device;
    size_t bytes;
    off_t offset; /* in the file; never used again */
    size_t mappings;
    bool released; /* its handle is gone */
    struct fake_physical *next;
};

/* One granule of a range. */
struct granule {
    struct fake_physical *physical; /* or NULL */
    size_t place;                   /* in it, in granules */
    bool access;
};

struct range {
    char *base;
    size_t bytes;
    struct granule *granules;
    struct range *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct fake_physical *physicals;
static struct range *ranges;
static int file = -1;
static off_t file_end;

static struct range *range_of(const void *address)
{
    const char *place = address;
    struct range *range = ranges;
    while (range && (place < range->base || place >= range->base + range->bytes))
        range = range->next;
    return range;
}

static bool whole(size_t bytes)
{
    return bytes > 0 && bytes % FAKE_GRANULARITY == 0;
}

/* The granules of [base, base + bytes), which must be whole ones of one range; NULL if they are not. */
static struct granule *granules_of(const char *base, size_t bytes)
{
    struct range *range = range_of(base);
    if (!range || !whole(bytes) || (size_t)(base - range->base) % FAKE_GRANULARITY != 0 ||
        bytes > (size_t)(range->base + range->bytes - base))
        return NULL;
    return range->granules + (size_t)(base - range->base) / FAKE_GRANULARITY;
}

cudaError_t fake_virtual_reserve(void **base_out, size_t bytes)
{
    if (!base_out || !whole(bytes))
        return cudaErrorInvalidValue;
    size_t room = bytes + FAKE_GRANULARITY;
    char *mapped = mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED)
        return cudaErrorMemoryAllocation;
    size_t skip = FAKE_GRANULARITY - (uintptr_t)mapped % FAKE_GRANULARITY;
    struct range *range = fake_need(calloc(1, sizeof *range));
    *range = (struct range){.base = mapped + skip, .bytes = bytes};
    range->granules = fake_need(calloc(bytes / FAKE_GRANULARITY, sizeof *range->granules));
    munmap(mapped, skip);
    if (skip < FAKE_GRANULARITY)
        munmap(range->base + bytes, FAKE_GRANULARITY - skip);
    pthread_mutex_lock(&lock);
    range->next = ranges;
    ranges = range;
    pthread_mutex_unlock(&lock);
    fake_memory_enter(&(struct fake_memory){range->base, bytes, FAKE_MEMORY_VIRTUAL, fake_device_current()});
    *base_out = range->base;
    return cudaSuccess;
}

static bool empty(const struct range *range)
{
    for (size_t i = 0; i < range->bytes / FAKE_GRANULARITY; i++)
        if (range->granules[i].physical)
            return false;
    return true;
}

/* Takes the range out of the list if it may go; NULL if not. */
static struct range *range_take(const char *base, size_t bytes)
{
    struct range **link = &ranges;
    while (*link && (*link)->base != base)
        link = &(*link)->next;
    struct range *range = *link;
    if (!range || range->bytes != bytes || !empty(range))
        return NULL;
    *link = range->next;
    return range;
}

cudaError_t fake_virtual_free(void *base, size_t bytes)
{
    struct fake_memory memory;
    pthread_mutex_lock(&lock);
    struct range *range = range_take(base, bytes);
    pthread_mutex_unlock(&lock);
    if (!range)
        return cudaErrorInvalidValue;
    fake_memory_take(base, FAKE_MEMORY_VIRTUAL, &memory);
    munmap(range->base, range->bytes);
    free(range->granules);
    free(range);
    return cudaSuccess;
}

/* With the lock held. */
static cudaError_t file_grow(size_t bytes, off_t *offset_out)
{
    char junk[4096];
    if (file < 0)
        file = memfd_create("fake device memory", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, file_end + (off_t)bytes) != 0)
        return cudaErrorMemoryAllocation;
    memset(junk, JUNK, sizeof junk);
    for (size_t at = 0; at < JUNK_BYTES; at += sizeof junk)
        if (pwrite(file, junk, sizeof junk, file_end + (off_t)at) != (ssize_t)sizeof junk)
            return cudaErrorMemoryAllocation;
    *offset_out = file_end;
    file_end += (off_t)bytes;
    return cudaSuccess;
}

cudaError_t fake_physical_create(struct fake_physical **physical_out, size_t bytes, int device)
{
    if (!physical_out || !whole(bytes))
        return cudaErrorInvalidValue;
    if (!fake_memory_charge(device, bytes))
        return cudaErrorMemoryAllocation;
    struct fake_physical *physical = fake_need(calloc(1, sizeof *physical));
    *physical = (struct fake_physical){.device = device, .bytes = bytes};
    pthread_mutex_lock(&lock);
    cudaError_t error = file_grow(bytes, &physical->offset);
    if (error == cudaSuccess) {
        physical->next = physicals;
        physicals = physical;
    }
    pthread_mutex_unlock(&lock);
    if (error == cudaSuccess) {
        *physical_out = physical;
        return cudaSuccess;
    }
    fake_memory_discharge(device, bytes);
    free(physical);
    return error;
}

static bool known(const struct fake_physical *physical)
{
    for (const struct fake_physical *each = physicals; each; each = each->next)
        if (each == physical)
            return !each->released;
    return false;
}

/* Gives the memory back when nothing holds it any more. */
static void physical_settle(struct fake_physical *physical)
{
    if (!physical->released || physical->mappings > 0)
        return;
    struct fake_physical **link = &physicals;
    while (*link != physical)
        link = &(*link)->next;
    *link = physical->next;
    fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, physical->offset, (off_t)physical->bytes);
    fake_memory_discharge(physical->device, physical->bytes);
    free(physical);
}

cudaError_t fake_physical_release(struct fake_physical *physical)
{
    pthread_mutex_lock(&lock);
    bool good = known(physical);
    if (good) {
        physical->released = true;
        physical_settle(physical);
    }
    pthread_mutex_unlock(&lock);
    return good ? cudaSuccess : cudaErrorInvalidValue;
}

static cudaError_t map(char *base, size_t bytes, struct fake_physical *physical)
{
    struct granule *granules = granules_of(base, bytes);
    if (!granules || !known(physical) || physical->bytes != bytes)
        return cudaErrorInvalidValue;
    size_t count = bytes / FAKE_GRANULARITY;
    for (size_t i = 0; i < count; i++)
        if (granules[i].physical)
            return cudaErrorInvalidValue;
    if (mmap(base, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, file, physical->offset) == MAP_FAILED)
        return cudaErrorMemoryAllocation;
    for (size_t i = 0; i < count; i++)
        granules[i] = (struct granule){physical, i, false};
    physical->mappings++;
    return cudaSuccess;
}

cudaError_t fake_virtual_map(void *base, size_t bytes, struct fake_physical *physical)
{
    pthread_mutex_lock(&lock);
    cudaError_t error = map(base, bytes, physical);
    pthread_mutex_unlock(&lock);
    return error;
}

/* Only whole mappings end. */
static bool whole_mappings(const struct granule *granules, size_t count)
{
    for (size_t i = 0; i < count;) {
        if (!granules[i].physical || granules[i].place != 0)
            return false;
        i += granules[i].physical->bytes / FAKE_GRANULARITY;
        if (i > count)
            return false;
    }
    return true;
}

static cudaError_t unmap(char *base, size_t bytes)
{
    struct granule *granules = granules_of(base, bytes);
    size_t count = bytes / FAKE_GRANULARITY;
    if (!granules || !whole_mappings(granules, count))
        return cudaErrorInvalidValue;
    if (mmap(base, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
        return cudaErrorUnknown;
    for (size_t i = 0; i < count; i++) {
        struct granule former = granules[i];
        granules[i] = (struct granule){0};
        if (former.place != former.physical->bytes / FAKE_GRANULARITY - 1)
            continue;
        former.physical->mappings--;
        physical_settle(former.physical);
    }
    return cudaSuccess;
}

cudaError_t fake_virtual_unmap(void *base, size_t bytes)
{
    pthread_mutex_lock(&lock);
    cudaError_t error = unmap(base, bytes);
    pthread_mutex_unlock(&lock);
    return error;
}

static cudaError_t allow(char *base, size_t bytes, bool access)
{
    struct granule *granules = granules_of(base, bytes);
    if (!granules)
        return cudaErrorInvalidValue;
    for (size_t i = 0; i < bytes / FAKE_GRANULARITY; i++)
        if (!granules[i].physical)
            return cudaErrorInvalidValue;
    if (mprotect(base, bytes, access ? PROT_READ | PROT_WRITE : PROT_NONE) != 0)
        return cudaErrorUnknown;
    for (size_t i = 0; i < bytes / FAKE_GRANULARITY; i++)
        granules[i].access = access;
    return cudaSuccess;
}

cudaError_t fake_virtual_access(void *base, size_t bytes, bool access)
{
    pthread_mutex_lock(&lock);
    cudaError_t error = allow(base, bytes, access);
    pthread_mutex_unlock(&lock);
    return error;
}

/* The granules around `at` that may be touched, as one piece of memory. */
static void run_around(const struct range *range, size_t at, struct fake_memory *memory_out)
{
    size_t from = at, to = at, count = range->bytes / FAKE_GRANULARITY;
    while (from > 0 && range->granules[from - 1].access)
        from--;
    while (to < count && range->granules[to].access)
        to++;
    memory_out->base = range->base + from * FAKE_GRANULARITY;
    memory_out->bytes = (to - from) * FAKE_GRANULARITY;
    memory_out->kind = FAKE_MEMORY_DEVICE;
    memory_out->device = range->granules[at].physical->device;
}

enum fake_virtual_state fake_virtual_find(const void *address, struct fake_memory *memory_out)
{
    enum fake_virtual_state state = FAKE_VIRTUAL_NONE;
    pthread_mutex_lock(&lock);
    struct range *range = range_of(address);
    if (range) {
        size_t at = (size_t)((const char *)address - range->base) / FAKE_GRANULARITY;
        state = range->granules[at].access ? FAKE_VIRTUAL_MAPPED : FAKE_VIRTUAL_UNMAPPED;
        if (state == FAKE_VIRTUAL_MAPPED)
            run_around(range, at, memory_out);
    }
    pthread_mutex_unlock(&lock);
    return state;
}
