/*
 * The background thread: wakes every few milliseconds, empties the rings, and writes.
 *
 * It is asleep most of the time. How long is by how full the rings were: it must come before one is full, and
 * should not come for nothing. All signals are blocked here, so the application's handlers never run on this thread
 * and what our writes raise (SIGXFSZ, SIGPIPE) harms nobody.
 */
#include "core/record/recorder_thread.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/log.h"
#include "core/quiet_thread.h"
#include "core/record/recorder_fold.h"
#include "core/trace/trace_writer.h"

#define SPOOL_BYTES (64u << 20) /* kept before it is known where the trace goes */
#define FLUSH_MS 200u
#define CLOCK_MS 1000u
#define COUNTS_MS 10000u
#define WAKE_MIN_US 500u
#define WAKE_MAX_US 20000u
#define LOOK_EVERY_MS 100u
#define LOOK_FOR_MS 30000u   /* until a rank makes a directory of its own */
#define LOOK_AT_END_MS 1000u /* the same when the program ends */
#define LOOK_AT_END_EVERY_US 20000u
#define POLL_AT_END_US 1000u

/* WAITING -> LOOKING (identified) -> WRITING (directory found) -> DONE (failure or stop) */
enum background_state { WAITING, LOOKING, WRITING, DONE };

struct background {
    struct rp_recorder *recorder;
    enum background_state state;
    struct rp_mail_identity identity;                      /* from LOOKING on */
    uint64_t look_until_ns, look_next_ns;                  /* while LOOKING */
    uint64_t flush_next_ns, clock_next_ns, counts_next_ns; /* while WRITING */
    uint32_t left_out_written;                             /* of the recorder's threads_left_out */
    unsigned wake_us;
    struct rp_fold fold;
};

static uint64_t ms(uint64_t milliseconds)
{
    return milliseconds * 1000000u;
}

static void sleep_us(unsigned us)
{
    struct timespec time = {0, (long)us * 1000};
    nanosleep(&time, NULL);
}

/* ---------------------------------------------------------------- rings */

/* Reads every ring once; returns how full the fullest was, in percent. */
static unsigned read_rings(struct background *background)
{
    uint64_t fullest = 0;
    struct rp_producer *producer = rp_producer_first(&background->recorder->producers);
    for (; producer != NULL; producer = producer->next) {
        uint64_t full = rp_fold_producer(&background->fold, producer) * 100 / (producer->ring->mask + 1);
        fullest = full > fullest ? full : fullest;
    }
    rp_fold_notes(&background->fold);
    rp_fold_fingerprints(&background->fold);
    return fullest;
}

static unsigned next_wake_us(unsigned wake_us, unsigned fullest)
{
    if (fullest > 50)
        return WAKE_MIN_US;
    if (fullest > 20)
        return wake_us / 2 > WAKE_MIN_US ? wake_us / 2 : WAKE_MIN_US;
    if (fullest < 5)
        return wake_us * 2 < WAKE_MAX_US ? wake_us * 2 : WAKE_MAX_US;
    return wake_us;
}

/* ---------------------------------------------------------------- file */

static void fill_identity(const struct background *background, struct rp_trace_identity *identity)
{
    const struct rp_recorder *recorder = background->recorder;
    memset(identity, 0, sizeof *identity);
    identity->rank = background->identity.rank;
    identity->nranks = background->identity.nranks;
    identity->pid = (uint64_t)getpid();
    identity->start_wall_ns = recorder->start_wall_ns;
    identity->start_ticks = recorder->start_ticks;
    uint64_t ns = rp_monotonic_ns() - recorder->start_monotonic_ns;
    double ticks = (double)(rp_ticks() - recorder->start_ticks);
    identity->ticks_per_second = ns == 0 ? 0 : (uint64_t)(ticks * 1e9 / (double)ns);
    if (gethostname(identity->host, sizeof identity->host - 1) != 0)
        identity->host[0] = '\0';
    snprintf(identity->program, sizeof identity->program, "%s", program_invocation_short_name);
}

static void put_clock(struct background *background)
{
    if (rp_trace_put_clock(background->fold.writer, rp_ticks(), rp_wall_ns()) == RP_IO)
        background->fold.broken = true;
}

static void put_left_out(struct background *background)
{
    uint32_t left_out = atomic_load_explicit(&background->recorder->threads_left_out, memory_order_relaxed);
    if (left_out == background->left_out_written)
        return;
    char text[32];
    snprintf(text, sizeof text, "%" PRIu32 " so far", left_out);
    rp_trace_put_state(background->fold.writer, RP_STATE_THREADS_LEFT_OUT, RP_NO_COMM, rp_ticks(), text);
    background->left_out_written = left_out;
}

/* `counts`: also how often each site was seen. */
static void flush(struct background *background, bool counts)
{
    put_left_out(background);
    rp_fold_sites(&background->fold, counts);
    struct rp_producer *producer = rp_producer_first(&background->recorder->producers);
    for (; producer != NULL; producer = producer->next)
        rp_fold_stretch(&background->fold, producer);
    if (rp_trace_flush(background->fold.writer) != RP_OK)
        background->fold.broken = true;
}

static void write_when_due(struct background *background, uint64_t now)
{
    unsigned flush_ms = background->recorder->options.flush_ms;
    if (now >= background->clock_next_ns) {
        put_clock(background);
        background->clock_next_ns = now + ms(CLOCK_MS);
    }
    if (now >= background->flush_next_ns) {
        bool counts = now >= background->counts_next_ns;
        flush(background, counts);
        if (counts)
            background->counts_next_ns = now + ms(COUNTS_MS);
        background->flush_next_ns = now + ms(flush_ms == 0 ? FLUSH_MS : flush_ms);
    }
    if (background->fold.broken)
        background->state = DONE;
}

/* ---------------------------------------------------------------- directory */

/* "out/" is "out": its parent is what it is made in. */
static void drop_last_slashes(char *path)
{
    for (size_t length = strlen(path); length > 1 && path[length - 1] == '/'; length--)
        path[length - 1] = '\0';
}

/* The name that this rank gives to a directory which it makes. */
static enum rp_status own_name(const struct background *background, char path[RP_RUN_PATH_MAX])
{
    const struct rp_recorder *recorder = background->recorder;
    const char *asked = recorder->options.directory;
    int length = -1;
    if (asked == NULL)
        return rp_run_directory_name(recorder->working, recorder->start_wall_ns, getpid(), background->identity.rank,
                                     path);
    if (asked[0] == '/')
        length = snprintf(path, RP_RUN_PATH_MAX, "%s", asked);
    else
        length = snprintf(path, RP_RUN_PATH_MAX, "%s/%s", recorder->working, asked);
    if (length < 0 || length >= RP_RUN_PATH_MAX)
        return RP_INVALID;
    drop_last_slashes(path);
    return RP_OK;
}

static enum rp_status claim_own(const struct background *background, char path[RP_RUN_PATH_MAX])
{
    if (own_name(background, path) == RP_OK)
        return rp_run_directory_claim(path, background->identity.rank, background->identity.job_key);
    rp_log_job(RP_LOG_ERROR, "trace", "the directory's path is too long; nothing is recorded");
    return RP_INVALID;
}

/* Where the trace goes. RP_NOT_FOUND: not known yet; else a failure that has been said. */
static enum rp_status find_place(struct background *background, uint64_t now, char path[RP_RUN_PATH_MAX])
{
    const struct rp_recorder *recorder = background->recorder;
    if (recorder->options.directory != NULL || background->identity.rank <= 0)
        return claim_own(background, path);
    enum rp_status status = rp_run_directory_find(recorder->working, background->identity.job_key, path);
    if (status == RP_OK || now < background->look_until_ns)
        return status;
    status = claim_own(background, path);
    if (status == RP_OK)
        rp_log(RP_LOG_WARN, "trace", "found no directory of this run in %s; this rank records to %s", recorder->working,
               path);
    return status;
}

static void look(struct background *background, uint64_t now)
{
    char path[RP_RUN_PATH_MAX];
    struct rp_trace_identity identity;
    enum rp_status status = find_place(background, now, path);
    background->look_next_ns = now + ms(LOOK_EVERY_MS);
    if (status == RP_NOT_FOUND)
        return;
    fill_identity(background, &identity);
    if (status == RP_OK)
        status = rp_trace_spool_attach(background->fold.writer, path, &identity);
    background->state = status == RP_OK ? WRITING : DONE;
    if (status == RP_OK)
        rp_log_job(RP_LOG_INFO, "trace", "recording to %s", path);
}

/* ---------------------------------------------------------------- life */

/* One round; what is due at `now`. */
static void step(struct background *background)
{
    unsigned fullest = read_rings(background);
    background->wake_us = next_wake_us(background->wake_us, fullest);
    uint64_t now = rp_monotonic_ns();
    if (background->state == WAITING && rp_mail_take_identity(&background->recorder->mail, &background->identity)) {
        background->state = LOOKING;
        background->look_until_ns = now + ms(LOOK_FOR_MS);
    }
    if (background->state == LOOKING && now >= background->look_next_ns)
        look(background, now);
    if (background->state == WRITING)
        write_when_due(background, now);
}

/* Gives the directory a last chance to appear, and fingerprints under way the time that was granted. */
static void step_to_the_end(struct background *background)
{
    uint64_t now = rp_monotonic_ns();
    uint64_t fingerprints_until = now + ms(background->recorder->mail.fingerprint_ms);
    step(background);
    if (background->state == LOOKING && background->look_until_ns > now + ms(LOOK_AT_END_MS))
        background->look_until_ns = now + ms(LOOK_AT_END_MS);
    while (background->state == LOOKING) {
        sleep_us(LOOK_AT_END_EVERY_US);
        look(background, rp_monotonic_ns());
    }
    while (background->state == WRITING && background->fold.wanted_count > 0 &&
           rp_monotonic_ns() < fingerprints_until) {
        sleep_us(POLL_AT_END_US);
        rp_fold_fingerprints(&background->fold);
    }
}

static void finish(struct background *background)
{
    struct rp_trace_writer *writer = background->fold.writer;
    if (background->state == WRITING) {
        read_rings(background);
        rp_fold_fingerprints_give_up(&background->fold);
        put_clock(background);
        flush(background, true);
    }
    /* A child forked from here on has no file of ours to close. */
    background->recorder->writer = NULL;
    rp_trace_finish(writer);
    rp_kernel_names_free(&background->fold.kernels);
}

static void *background_main(void *argument)
{
    struct background *background = argument;
    struct rp_recorder *recorder = background->recorder;
    bool stop = false;
    pthread_setname_np(pthread_self(), "reprise");
    while (!stop && background->state != DONE) {
        step(background);
        if (background->state != DONE)
            stop = rp_mail_wait(&recorder->mail, background->wake_us);
    }
    if (stop)
        step_to_the_end(background);
    atomic_store_explicit(&recorder->phase, RP_RECORDER_ENDED, memory_order_release);
    finish(background);
    free(background);
    rp_mail_finish(&recorder->mail);
    return NULL;
}

/* Detached, since nobody may wait for it without a bound. */
static int create_thread(struct background *background)
{
    pthread_t thread;
    pthread_attr_t detached;
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    int error = rp_quiet_thread_create(&thread, &detached, background_main, background);
    pthread_attr_destroy(&detached);
    return error;
}

enum rp_status rp_recorder_thread_start(struct rp_recorder *recorder)
{
    struct background *background = calloc(1, sizeof *background);
    int error = ENOMEM;
    if (background == NULL || rp_trace_spool_create(SPOOL_BYTES, &recorder->writer) != RP_OK)
        goto fail;
    background->recorder = recorder;
    background->wake_us = WAKE_MIN_US;
    background->fold.options = &recorder->options;
    background->fold.mail = &recorder->mail;
    background->fold.writer = recorder->writer;
    background->fold.kernels.name_of = recorder->options.kernel_name;
    background->fold.kernels.rules_of = recorder->options.kernel_rules;
    background->fold.kernels.seen = recorder->options.seen;
    background->fold.sites.seen = recorder->options.seen;
    error = create_thread(background);
    if (error == 0)
        return RP_OK;
    rp_trace_finish(recorder->writer);
    recorder->writer = NULL;
fail:
    free(background);
    rp_log(RP_LOG_ERROR, "trace", "the background thread cannot be made: %s; nothing is recorded",
           strerrordesc_np(error));
    return RP_NO_MEMORY;
}
