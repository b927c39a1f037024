/*
 * Copies, fills and host functions as work of a stream.
 *
 * Modelled cost: within a device every byte is read and written, 2 * bytes / FAKE_HBM_GBPS; a fill writes,
 * bytes / FAKE_HBM_GBPS; between host and device bytes / FAKE_HOST_GBPS. A host function costs nothing.
 *
 * Pageable host memory (CUDA Runtime API, "API synchronization behavior"): a source is read before the call returns,
 * a destination is complete when the call returns, also in the asynchronous calls.
 */
#include "engine_internal.h"

#include <stdlib.h>
#include <string.h>

struct copy_work {
    struct fake_copy copy;
    uint64_t ns;
    char *staged; /* the source, read at issue; or NULL */
};

static uint64_t copy_run(void *payload, uint64_t ready)
{
    struct copy_work *work = payload;
    const struct fake_copy *copy = &work->copy;
    for (size_t row = 0; row < copy->rows; row++)
        memmove((char *)copy->to + row * copy->to_pitch, (const char *)copy->from + row * copy->from_pitch,
                copy->width);
    return ready + work->ns;
}

static void copy_release(void *payload)
{
    struct copy_work *work = payload;
    free(work->staged);
    free(work);
}

enum place { PAGEABLE, PINNED, DEVICE };

/* True, with one line, if the address is reserved and nothing may be touched there. */
static bool unmapped(const void *address, const void *what)
{
    struct fake_memory memory;
    if (fake_virtual_find(address, &memory) != FAKE_VIRTUAL_UNMAPPED)
        return false;
    fake_say("a copy or fill at %p touches %p, where no memory is mapped", what, address);
    return true;
}

/* False if the range starts in an allocation and leaves it, or touches what is not mapped. */
static bool place_of(const void *address, size_t pitch, size_t width, size_t rows, enum place *place_out)
{
    struct fake_memory memory;
    *place_out = PAGEABLE;
    if (unmapped(address, address) || unmapped((const char *)address + (rows - 1) * pitch + width - 1, address))
        return false;
    if (!fake_memory_find(address, &memory))
        return true;
    bool on_device = memory.kind == FAKE_MEMORY_DEVICE || memory.kind == FAKE_MEMORY_MANAGED;
    *place_out = on_device ? DEVICE : PINNED;
    size_t extent = (rows - 1) * pitch + width;
    return extent <= (size_t)(memory.base + memory.bytes - (const char *)address);
}

static bool kind_fits(enum cudaMemcpyKind kind, enum place to, enum place from)
{
    switch (kind) {
    case cudaMemcpyHostToDevice:
        return to == DEVICE;
    case cudaMemcpyDeviceToHost:
        return from == DEVICE;
    case cudaMemcpyDeviceToDevice:
        return to != PAGEABLE && from != PAGEABLE;
    default:
        return kind == cudaMemcpyHostToHost || kind == cudaMemcpyDefault;
    }
}

static void stage(struct copy_work *work)
{
    struct fake_copy *copy = &work->copy;
    work->staged = fake_need(malloc(copy->width * copy->rows));
    for (size_t row = 0; row < copy->rows; row++)
        memcpy(work->staged + row * copy->width, (const char *)copy->from + row * copy->from_pitch, copy->width);
    copy->from = work->staged;
    copy->from_pitch = copy->width;
}

static uint64_t copy_cost(const struct fake_copy *copy, enum place to, enum place from)
{
    const struct fake_config *config = fake_config();
    uint64_t bytes = copy->width * copy->rows;
    return to == DEVICE && from == DEVICE ? fake_transfer_ns(2 * bytes, config->hbm_gbps)
                                          : fake_transfer_ns(bytes, config->host_gbps);
}

cudaError_t fake_copy(const struct fake_copy *copy, enum cudaMemcpyKind kind, cudaStream_t stream, bool blocking)
{
    enum place to, from;
    cudaError_t error = fake_stream_check(stream);
    if (error != cudaSuccess || copy->width == 0 || copy->rows == 0)
        return error;
    if (!copy->to || !copy->from || !place_of(copy->to, copy->to_pitch, copy->width, copy->rows, &to) ||
        !place_of(copy->from, copy->from_pitch, copy->width, copy->rows, &from))
        return cudaErrorInvalidValue;
    if (!kind_fits(kind, to, from))
        return cudaErrorInvalidValue;
    struct copy_work *work = fake_need(calloc(1, sizeof *work));
    work->copy = *copy;
    work->ns = copy_cost(copy, to, from);
    if (from == PAGEABLE && to == DEVICE)
        stage(work);
    bool waits = to == PAGEABLE || (blocking && !(to == DEVICE && from == DEVICE));
    struct fake_mark *mark = NULL;
    error = fake_submit(stream, &(struct fake_work){copy_run, copy_release, work, NULL}, waits ? &mark : NULL);
    if (error == cudaSuccess && mark)
        fake_host_time_raise(fake_mark_wait(mark));
    fake_mark_drop(mark);
    return error;
}

struct fill_work {
    char *to;
    size_t pitch, width, rows;
    int value;
    uint64_t ns;
};

static uint64_t fill_run(void *payload, uint64_t ready)
{
    struct fill_work *work = payload;
    for (size_t row = 0; row < work->rows; row++)
        memset(work->to + row * work->pitch, work->value, work->width);
    return ready + work->ns;
}

cudaError_t fake_fill(void *to, size_t pitch, int value, size_t width, size_t rows, cudaStream_t stream)
{
    enum place place;
    cudaError_t error = fake_stream_check(stream);
    if (error != cudaSuccess || width == 0 || rows == 0)
        return error;
    if (!to || !place_of(to, pitch, width, rows, &place) || place == PAGEABLE)
        return cudaErrorInvalidValue;
    struct fill_work *work = fake_need(malloc(sizeof *work));
    *work = (struct fill_work){to, pitch, width, rows, value, fake_transfer_ns(width * rows, fake_config()->hbm_gbps)};
    return fake_submit(stream, &(struct fake_work){fill_run, free, work, NULL}, NULL);
}

struct host_work {
    void (*function)(void *);
    void *data;
};

static uint64_t host_run(void *payload, uint64_t ready)
{
    struct host_work *work = payload;
    work->function(work->data);
    return ready;
}

cudaError_t fake_host_function(void (*function)(void *), void *data, cudaStream_t stream)
{
    if (!function)
        return cudaErrorInvalidValue;
    struct host_work *work = fake_need(malloc(sizeof *work));
    *work = (struct host_work){function, data};
    return fake_submit(stream, &(struct fake_work){host_run, free, work, NULL}, NULL);
}
