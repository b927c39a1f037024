/*
 * Buffers of the device, as a program that keeps few of them: memory that is refused is asked for again after giving
 * back what can be spared.
 */
#include "tests/chaos/chaos_rank.h"

#include <stdio.h>

#define GUARD_VALUE 0x5a

char *chaos_buffer_data(const struct chaos_buffer *buffer)
{
    return buffer->base + CHAOS_GUARD;
}

static void spare_free(struct chaos_rank *me)
{
    if (!me->spare.base)
        return;
    CHAOS_CUDA(me, cudaFree(me->spare.base));
    me->spare.base = NULL;
}

/* As a caching allocator: the error is cleared, the device drained, what is cached is freed. */
static char *memory_get(struct chaos_rank *me, size_t bytes, cudaStream_t stream, bool async)
{
    void *base = NULL;
    for (int attempt = 0; attempt < 3; attempt++) {
        cudaError_t error = async ? cudaMallocAsync(&base, bytes, stream) : cudaMalloc(&base, bytes);
        if (error == cudaSuccess)
            return base;
        if (error != cudaErrorMemoryAllocation)
            chaos_cuda(me, error, "cudaMalloc");
        cudaGetLastError();
        chaos_figures_of(me)->no_memory++;
        CHAOS_CUDA(me, cudaDeviceSynchronize());
        spare_free(me);
    }
    chaos_die(me, "no memory: %zu bytes are refused although the program fits", bytes);
}

static void guards_write(struct chaos_rank *me, struct chaos_buffer *buffer, cudaStream_t stream)
{
    CHAOS_CUDA(me, cudaMemsetAsync(buffer->base, GUARD_VALUE, CHAOS_GUARD, stream));
    CHAOS_CUDA(me, cudaMemsetAsync(chaos_buffer_data(buffer) + buffer->bytes, GUARD_VALUE, CHAOS_GUARD, stream));
    chaos_buffer_used(me, buffer, stream);
}

void chaos_buffer_make(struct chaos_rank *me, struct chaos_buffer *buffer, size_t bytes)
{
    if (!buffer->event)
        CHAOS_CUDA(me, cudaEventCreateWithFlags(&buffer->event, cudaEventDisableTiming));
    buffer->bytes = bytes;
    buffer->base = memory_get(me, bytes + 2 * CHAOS_GUARD, NULL, false);
    guards_write(me, buffer, me->streams[0]);
}

void chaos_buffer_end(struct chaos_rank *me, struct chaos_buffer *buffer)
{
    if (buffer->base)
        CHAOS_CUDA(me, cudaFree(buffer->base));
    if (buffer->event)
        CHAOS_CUDA(me, cudaEventDestroy(buffer->event));
    *buffer = (struct chaos_buffer){0};
}

void chaos_buffer_use(struct chaos_rank *me, struct chaos_buffer *buffer, cudaStream_t stream)
{
    if (buffer->used)
        CHAOS_CUDA(me, cudaStreamWaitEvent(stream, buffer->event, 0));
    if (buffer->pending)
        chaos_delivery_copy(me, buffer->pending, stream);
    buffer->pending = NULL;
}

void chaos_buffer_used(struct chaos_rank *me, struct chaos_buffer *buffer, cudaStream_t stream)
{
    CHAOS_CUDA(me, cudaEventRecord(buffer->event, stream));
    buffer->used = true;
}

void chaos_buffer_flush(struct chaos_rank *me, struct chaos_buffer *buffer, bool guards)
{
    if (!buffer->base || (!buffer->pending && !guards))
        return;
    cudaStream_t stream = buffer->pending ? buffer->pending_stream : me->streams[0];
    chaos_buffer_use(me, buffer, stream);
    for (int i = 0; guards && i < 2; i++) {
        const char *guard = i ? chaos_buffer_data(buffer) + buffer->bytes : buffer->base;
        chaos_delivered(me, &(struct chaos_delivery){.device = guard, .bytes = CHAOS_GUARD}, 0, stream, NULL);
    }
    chaos_buffer_used(me, buffer, stream);
}

/* Another address for a receive buffer. */
void chaos_buffer_renew(struct chaos_rank *me, const struct chaos_action *action)
{
    struct chaos_buffer *slot = &me->slots[action->comm][action->slot], kept;
    cudaStream_t stream = me->streams[0];
    chaos_buffer_flush(me, slot, true);
    switch (action->root) {
    case CHAOS_FREE_FIRST:
        CHAOS_CUDA(me, cudaFree(slot->base));
        chaos_buffer_make(me, slot, slot->bytes);
        break;
    case CHAOS_SPARE:
        if (!me->spare.base)
            chaos_buffer_make(me, &me->spare, slot->bytes);
        kept = *slot;
        *slot = me->spare;
        me->spare = kept;
        break;
    default:
        chaos_buffer_use(me, slot, stream);
        CHAOS_CUDA(me, cudaFreeAsync(slot->base, stream));
        slot->base = memory_get(me, slot->bytes + 2 * CHAOS_GUARD, stream, true);
        guards_write(me, slot, stream);
    }
}

/* Takes what is left of the device, or gives it back. */
void chaos_balloon(struct chaos_rank *me)
{
    if (!me->balloon.base) {
        chaos_buffer_make(me, &me->balloon, me->program->balloon_bytes);
        return;
    }
    chaos_buffer_flush(me, &me->balloon, true);
    chaos_buffer_end(me, &me->balloon);
}

/* All of them --------------------------------------------------------------------------------------------------------
 */

typedef void buffer_do(struct chaos_rank *me, struct chaos_buffer *buffer, size_t bytes);

static void each(struct chaos_rank *me, buffer_do *function)
{
    const struct chaos_program *program = me->program;
    for (int i = 0; i < program->unit_count; i++) {
        size_t bytes = program->units[i].offset + program->units[i].bytes;
        function(me, &me->shards[i], bytes);
        function(me, &me->staged[i], bytes);
    }
    for (int comm = 0; comm < program->comm_count; comm++) {
        for (int i = 0; i < program->slots; i++)
            function(me, &me->slots[comm][i], program->slot_bytes);
        for (int i = 0; i < CHAOS_SCRATCHES; i++)
            function(me, &me->scratch[comm][i], program->scratch_bytes);
    }
}

void chaos_buffers_make(struct chaos_rank *me)
{
    each(me, chaos_buffer_make);
}

static void flush_only(struct chaos_rank *me, struct chaos_buffer *buffer, size_t bytes)
{
    (void)bytes;
    chaos_buffer_flush(me, buffer, false);
}

static void flush_guards(struct chaos_rank *me, struct chaos_buffer *buffer, size_t bytes)
{
    (void)bytes;
    chaos_buffer_flush(me, buffer, true);
}

void chaos_buffers_flush(struct chaos_rank *me, bool guards)
{
    each(me, guards ? flush_guards : flush_only);
}

static void end_one(struct chaos_rank *me, struct chaos_buffer *buffer, size_t bytes)
{
    (void)bytes;
    chaos_buffer_end(me, buffer);
}

void chaos_buffers_end(struct chaos_rank *me)
{
    each(me, end_one);
    chaos_buffer_end(me, &me->spare);
    chaos_buffer_end(me, &me->balloon);
}
