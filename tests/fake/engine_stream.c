/*
 * Streams: queues of work, each emptied by a thread of its own that starts with the first piece of work. Work may
 * wait for other processes, so streams never share a thread.
 *
 * A destroyed stream leaves the list when its queue is empty; until then device-wide waits see it.
 */
#include "engine_internal.h"

#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

pthread_mutex_t fake_lock = PTHREAD_MUTEX_INITIALIZER;
struct CUstream_st *fake_streams;
static pthread_cond_t room = PTHREAD_COND_INITIALIZER; /* some stream has some again */
static unsigned long long next_id = 1;

static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static pthread_key_t per_thread_key; /* the calling thread's own streams, by device */

static struct CUstream_st *stream_new(enum fake_stream_kind kind, int device, unsigned flags, int priority)
{
    struct CUstream_st *stream = fake_need(calloc(1, sizeof *stream));
    stream->magic = FAKE_STREAM_MAGIC;
    stream->kind = kind;
    stream->device = device;
    stream->flags = flags;
    stream->priority = priority;
    stream->id = next_id++;
    pthread_cond_init(&stream->work, NULL);
    stream->next = fake_streams;
    fake_streams = stream;
    return stream;
}

static void stream_free(struct CUstream_st *stream)
{
    struct CUstream_st **link = &fake_streams;
    while (*link != stream)
        link = &(*link)->next;
    *link = stream->next;
    fake_mark_drop(stream->last);
    fake_frontier_clear(&stream->frontier);
    pthread_cond_destroy(&stream->work);
    free(stream);
}

static void stream_close(struct CUstream_st *stream)
{
    stream->closing = true;
    if (stream->started)
        pthread_cond_signal(&stream->work);
    else
        stream_free(stream);
}

static void per_thread_end(void *value)
{
    struct CUstream_st **streams = value;
    pthread_mutex_lock(&fake_lock);
    for (int i = 0; i < fake_config()->devices; i++)
        if (streams[i])
            stream_close(streams[i]);
    pthread_mutex_unlock(&fake_lock);
    free(streams);
}

static void per_thread_key_make(void)
{
    pthread_key_create(&per_thread_key, per_thread_end);
}

static struct CUstream_st *per_thread_stream(int device)
{
    pthread_once(&key_once, per_thread_key_make);
    struct CUstream_st **streams = pthread_getspecific(per_thread_key);
    if (!streams) {
        streams = fake_need(calloc((size_t)fake_config()->devices, sizeof(struct CUstream_st *)));
        pthread_setspecific(per_thread_key, streams);
    }
    if (!streams[device])
        streams[device] = stream_new(FAKE_STREAM_PER_THREAD, device, cudaStreamDefault, 0);
    return streams[device];
}

static struct CUstream_st *legacy_stream(int device)
{
    for (struct CUstream_st *stream = fake_streams; stream; stream = stream->next)
        if (stream->kind == FAKE_STREAM_LEGACY && stream->device == device)
            return stream;
    return stream_new(FAKE_STREAM_LEGACY, device, cudaStreamDefault, 0);
}

cudaError_t fake_stream_resolve(cudaStream_t handle, struct CUstream_st **stream_out)
{
    int device = fake_device_current();
    if (!handle || handle == cudaStreamLegacy) {
        *stream_out = legacy_stream(device);
        return cudaSuccess;
    }
    if (handle == cudaStreamPerThread) {
        *stream_out = per_thread_stream(device);
        return cudaSuccess;
    }
    for (struct CUstream_st *stream = fake_streams; stream; stream = stream->next)
        if (stream == handle && !stream->closing) {
            *stream_out = stream;
            return cudaSuccess;
        }
    return cudaErrorInvalidResourceHandle;
}

static struct fake_op *op_take(struct CUstream_st *stream)
{
    pthread_mutex_lock(&fake_lock);
    while (!stream->head && !stream->closing)
        pthread_cond_wait(&stream->work, &fake_lock);
    struct fake_op *op = stream->head;
    if (op) {
        stream->head = op->next;
        if (!stream->head)
            stream->tail = NULL;
        if (stream->queued-- == FAKE_QUEUE)
            pthread_cond_broadcast(&room);
    } else {
        stream_free(stream);
    }
    pthread_mutex_unlock(&fake_lock);
    return op;
}

/* In real time: the work takes as long as the model says. */
static void op_pace(uint64_t ns)
{
    struct timespec span = {.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
    while (nanosleep(&span, &span) != 0)
        ;
}

/* One piece of work in eight begins late, at random: what only the speed of streams orders shows. Modelled time knows
 * nothing of it. */
static void op_jitter(unsigned most_us)
{
    static _Thread_local uint64_t state;
    if (state == 0)
        state = ((uint64_t)getpid() << 32 ^ (uint64_t)(uintptr_t)&state) | 1;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    if (state >> 61 == 0)
        op_pace(state % (most_us * (uint64_t)1000));
}

static void op_run(struct CUstream_st *stream, struct fake_op *op)
{
    uint64_t ready = stream->end > op->waits.ready ? stream->end : op->waits.ready;
    for (int i = 0; i < op->waits.count; i++) {
        uint64_t end = fake_mark_wait(op->waits.marks[i]);
        ready = end > ready ? end : ready;
    }
    if (fake_config()->jitter_us > 0)
        op_jitter(fake_config()->jitter_us);
    uint64_t end = op->work.run ? op->work.run(op->work.payload, ready) : ready;
    if (fake_config()->realtime && end > ready)
        op_pace(end - ready);
    stream->end = end;
    fake_work_release(&op->work);
    fake_mark_finish(op->mark, end);
    fake_mark_drop(op->mark);
    fake_waits_clear(&op->waits);
    free(op);
}

static void *stream_main(void *argument)
{
    struct CUstream_st *stream = argument;
    for (struct fake_op *op; (op = op_take(stream));)
        op_run(stream, op);
    return NULL;
}

/* Workers take no signals: handlers belong to the program's threads. */
static void stream_start(struct CUstream_st *stream)
{
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all, before;
    sigfillset(&all);
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (pthread_create(&thread, &attributes, stream_main, stream) != 0) {
        fake_say("cannot start a thread for a stream");
        abort();
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    stream->started = true;
}

bool fake_stream_room(struct CUstream_st *stream)
{
    bool fits = stream->capture || stream->queued < FAKE_QUEUE;
    if (!fits)
        pthread_cond_wait(&room, &fake_lock);
    return fits;
}

void fake_stream_push(struct CUstream_st *stream, struct fake_op *op)
{
    if (stream->tail)
        stream->tail->next = op;
    else
        stream->head = op;
    stream->tail = op;
    stream->queued++;
    fake_mark_drop(stream->last);
    stream->last = fake_mark_keep(op->mark);
    if (stream->started)
        pthread_cond_signal(&stream->work);
    else
        stream_start(stream);
}

cudaError_t fake_stream_create(cudaStream_t *stream_out, unsigned flags, int priority)
{
    if (!stream_out || (flags & ~(unsigned)cudaStreamNonBlocking))
        return cudaErrorInvalidValue;
    int clamped = priority > 0 ? 0 : priority < FAKE_PRIORITY_GREATEST ? FAKE_PRIORITY_GREATEST : priority;
    pthread_mutex_lock(&fake_lock);
    *stream_out = stream_new(FAKE_STREAM_USER, fake_device_current(), flags, clamped);
    pthread_mutex_unlock(&fake_lock);
    return cudaSuccess;
}

cudaError_t fake_stream_destroy(cudaStream_t handle)
{
    struct CUstream_st *stream;
    pthread_mutex_lock(&fake_lock);
    cudaError_t error = fake_stream_resolve(handle, &stream);
    if (error == cudaSuccess && stream->kind != FAKE_STREAM_USER)
        error = cudaErrorInvalidResourceHandle;
    if (error == cudaSuccess) {
        if (stream->capture) {
            stream->capture->broken = true;
            fake_capture_drop(stream->capture);
            stream->capture = NULL;
        }
        stream_close(stream);
    }
    pthread_mutex_unlock(&fake_lock);
    return error;
}

cudaError_t fake_stream_handle(cudaStream_t handle, cudaStream_t *stream_out)
{
    struct CUstream_st *stream;
    pthread_mutex_lock(&fake_lock);
    cudaError_t error = fake_stream_resolve(handle, &stream);
    if (error == cudaSuccess)
        *stream_out = stream;
    pthread_mutex_unlock(&fake_lock);
    return error;
}

cudaError_t fake_stream_info(cudaStream_t handle, struct fake_stream_info *info_out)
{
    struct CUstream_st *stream;
    pthread_mutex_lock(&fake_lock);
    cudaError_t error = fake_stream_resolve(handle, &stream);
    if (error == cudaSuccess)
        *info_out = (struct fake_stream_info){stream->device, stream->flags, stream->priority, stream->id};
    pthread_mutex_unlock(&fake_lock);
    return error;
}

cudaError_t fake_stream_check(cudaStream_t handle)
{
    struct fake_stream_info info;
    return fake_stream_info(handle, &info);
}

cudaError_t fake_stream_check_device(cudaStream_t handle)
{
    struct fake_stream_info info;
    cudaError_t error = fake_stream_info(handle, &info);
    return error == cudaSuccess && info.device != fake_device_current() ? cudaErrorInvalidResourceHandle : error;
}
