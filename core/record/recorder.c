/*
 * The recorder's face to the application's threads. What they do here is rare (the first op of a thread, a
 * communicator, the end) and short; all else happens in the background thread (recorder_thread.c).
 *
 * A ring is never unmapped, so a thread that still pushes after the end fills its ring and then drops.
 */
#include "core/record/recorder.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/log.h"
#include "core/record/recorder_thread.h"

#define STOP_MS 2000u                                  /* how long stop() waits for the background thread, at most */
#define STOP_WRITE_MS 1000u                            /* of it, for what is not a fingerprint */
#define LAST_ROUND (PTHREAD_DESTRUCTOR_ITERATIONS - 1) /* the very last belongs to allocators and sanitizers */

_Thread_local struct rp_ring *rp_recorder_my_ring __attribute__((tls_model("initial-exec")));
static _Thread_local int destructor_rounds;
static _Thread_local bool refused; /* there was no ring for this thread: it is not asked for again */

static struct rp_recorder recorder;
static pthread_key_t thread_key; /* its value: the thread's producer */
static bool thread_key_made;     /* keys outlive a fork */

static bool is_on(void)
{
    return atomic_load_explicit(&recorder.phase, memory_order_acquire) == RP_RECORDER_ON;
}

/* ---------------------------------------------------------------- start */

/* Destructors of other keys may still launch work, so the ring is kept for all rounds of destructors but one. */
static void thread_ends(void *producer)
{
    if (++destructor_rounds < LAST_ROUND && pthread_setspecific(thread_key, producer) == 0)
        return;
    rp_recorder_my_ring = NULL;
    rp_producer_end(producer);
}

enum rp_status rp_recorder_start(const struct rp_recorder_options *options)
{
    if (atomic_load_explicit(&recorder.phase, memory_order_relaxed) != RP_RECORDER_OFF)
        return RP_INVALID;
    if (!thread_key_made && pthread_key_create(&thread_key, thread_ends) != 0) {
        rp_log(RP_LOG_ERROR, "trace", "no thread-specific key is left; nothing is recorded");
        return RP_NO_MEMORY;
    }
    thread_key_made = true;
    rp_mail_init(&recorder.mail);
    recorder.options = *options;
    recorder.process = getpid();
    if (getcwd(recorder.working, sizeof recorder.working) == NULL)
        memcpy(recorder.working, ".", sizeof ".");
    recorder.start_ticks = rp_ticks();
    recorder.start_wall_ns = rp_wall_ns();
    recorder.start_monotonic_ns = rp_monotonic_ns();
    /* pairs with the acquire in is_on() */
    atomic_store_explicit(&recorder.phase, RP_RECORDER_ON, memory_order_release);
    return RP_OK;
}

/* Under mail.lock. False: nothing can be recorded. */
static bool thread_runs(void)
{
    if (!is_on() || recorder.mail.stop)
        return false;
    if (recorder.mail.running)
        return true;
    recorder.mail.running = rp_recorder_thread_start(&recorder) == RP_OK;
    if (!recorder.mail.running)
        atomic_store_explicit(&recorder.phase, RP_RECORDER_ENDED, memory_order_release);
    return recorder.mail.running;
}

/* What this thread issues will be missing. The log says so once; memory may be out, so the trace gets a number. */
static void refuse_thread(enum rp_status status)
{
    refused = true;
    if (atomic_fetch_add_explicit(&recorder.threads_left_out, 1, memory_order_relaxed) == 0)
        rp_log(RP_LOG_WARN, "trace", "no ring for a thread: %s; what it and others like it issue is not recorded",
               rp_status_text(status));
}

/* A producer whose thread's end will be heard of. NULL without an error: nothing is recorded any more. */
static enum rp_status take_producer(struct rp_producer **producer_out)
{
    struct rp_producer *producer = NULL;
    pthread_mutex_lock(&recorder.mail.lock);
    enum rp_status status = thread_runs() ? rp_producer_take(&recorder.producers, &producer) : RP_OK;
    pthread_mutex_unlock(&recorder.mail.lock);
    if (producer != NULL && pthread_setspecific(thread_key, producer) != 0) {
        rp_producer_end(producer);
        return RP_NO_MEMORY;
    }
    if (status == RP_OK)
        *producer_out = producer;
    return status;
}

struct rp_ring *rp_recorder_ring_make(void)
{
    struct rp_producer *producer = NULL;
    if (!is_on() || refused || destructor_rounds >= LAST_ROUND) /* nobody would hear of this thread's end */
        return NULL;
    enum rp_status status = take_producer(&producer);
    if (status != RP_OK)
        refuse_thread(status);
    if (producer == NULL)
        return NULL;
    rp_recorder_my_ring = producer->ring;
    return producer->ring;
}

/* ---------------------------------------------------------------- mail */

void rp_recorder_identify(int32_t rank, int32_t nranks, const char *job_key)
{
    if (!is_on())
        return;
    pthread_mutex_lock(&recorder.mail.lock);
    bool runs = thread_runs();
    pthread_mutex_unlock(&recorder.mail.lock);
    if (runs)
        rp_mail_identify(&recorder.mail, rank, nranks, job_key);
}

void rp_recorder_comm(const struct rp_trace_comm *comm)
{
    struct rp_note *note = is_on() ? calloc(1, sizeof *note) : NULL;
    if (note == NULL)
        return;
    note->kind = RP_NOTE_COMM;
    note->comm = *comm;
    rp_mail_post(&recorder.mail, note);
}

void rp_recorder_state(enum rp_trace_state state, uint32_t comm, const char *text)
{
    struct rp_note *note = is_on() ? calloc(1, sizeof *note) : NULL;
    if (note == NULL)
        return;
    note->kind = RP_NOTE_STATE;
    note->state = state;
    note->state_comm = comm;
    note->ticks = rp_ticks();
    if (text != NULL)
        memcpy(note->text, text, strnlen(text, sizeof note->text - 1));
    rp_mail_post(&recorder.mail, note);
}

/* ---------------------------------------------------------------- end */

void rp_recorder_stop(unsigned fingerprint_ms)
{
    if (atomic_load_explicit(&recorder.phase, memory_order_relaxed) == RP_RECORDER_OFF)
        return;
    if (recorder.process != getpid()) /* a child made past the C library, which has no background thread */
        return;
    unsigned wait_ms = fingerprint_ms + STOP_WRITE_MS > STOP_MS ? fingerprint_ms + STOP_WRITE_MS : STOP_MS;
    if (!rp_mail_stop(&recorder.mail, fingerprint_ms, wait_ms))
        rp_log(RP_LOG_WARN, "trace", "the last records could not be written in time");
    atomic_store_explicit(&recorder.phase, RP_RECORDER_ENDED, memory_order_release);
}

void rp_recorder_forked(void)
{
    rp_recorder_my_ring = NULL;
    refused = false;
    if (thread_key_made)
        pthread_setspecific(thread_key, NULL);
    /*
     * The parent's thread may have been cut short anywhere, so nothing of its memory is looked at but the pointer
     * to the writer, which never changes while there is a file.
     */
    if (recorder.writer != NULL)
        rp_trace_abandon(recorder.writer);
    memset(&recorder, 0, sizeof recorder);
}
