#include "core/record/recorder_mail.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "core/clock.h"

void rp_mail_init(struct rp_mail *mail)
{
    pthread_condattr_t monotonic;
    memset(mail, 0, sizeof *mail);
    mail->notes_end = &mail->notes;
    pthread_mutex_init(&mail->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&mail->wake, &monotonic);
    pthread_cond_init(&mail->finished, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

static struct timespec time_after_us(uint64_t us)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    uint64_t ns = (uint64_t)at.tv_nsec + us * 1000u;
    at.tv_sec += (time_t)(ns / 1000000000u);
    at.tv_nsec = (long)(ns % 1000000000u);
    return at;
}

void rp_mail_post(struct rp_mail *mail, struct rp_note *note)
{
    note->next = NULL;
    pthread_mutex_lock(&mail->lock);
    *mail->notes_end = note;
    mail->notes_end = &note->next;
    pthread_mutex_unlock(&mail->lock);
}

void rp_mail_identify(struct rp_mail *mail, int32_t rank, int32_t nranks, const char *job_key)
{
    pthread_mutex_lock(&mail->lock);
    if (!mail->identified) {
        mail->identity.rank = rank;
        mail->identity.nranks = nranks;
        snprintf(mail->identity.job_key, sizeof mail->identity.job_key, "%s", job_key);
        mail->identified = true;
        pthread_cond_signal(&mail->wake);
    }
    pthread_mutex_unlock(&mail->lock);
}

/*
 * A signal handler that calls exit() may have interrupted the very thread that holds the lock, so it is not waited for
 * without a bound. Tried again and again: what waits by a clock is unknown to the thread sanitizer of gcc 12.
 */
static bool lock_within(struct rp_mail *mail, unsigned wait_ms)
{
    static const struct timespec moment = {.tv_nsec = 1000000};
    uint64_t until = rp_monotonic_ns() + wait_ms * 1000000ull;
    while (pthread_mutex_trylock(&mail->lock) != 0) {
        if (rp_monotonic_ns() >= until)
            return false;
        nanosleep(&moment, NULL);
    }
    return true;
}

bool rp_mail_stop(struct rp_mail *mail, unsigned fingerprint_ms, unsigned wait_ms)
{
    struct timespec until = time_after_us((uint64_t)wait_ms * 1000u);
    if (!lock_within(mail, wait_ms))
        return false;
    if (!mail->stop)
        mail->fingerprint_ms = fingerprint_ms;
    mail->stop = true;
    pthread_cond_signal(&mail->wake);
    while (mail->running && pthread_cond_timedwait(&mail->finished, &mail->lock, &until) == 0)
        ;
    bool finished = !mail->running;
    pthread_mutex_unlock(&mail->lock);
    return finished;
}

struct rp_note *rp_mail_take(struct rp_mail *mail)
{
    pthread_mutex_lock(&mail->lock);
    struct rp_note *notes = mail->notes;
    mail->notes = NULL;
    mail->notes_end = &mail->notes;
    pthread_mutex_unlock(&mail->lock);
    return notes;
}

bool rp_mail_take_identity(struct rp_mail *mail, struct rp_mail_identity *identity_out)
{
    pthread_mutex_lock(&mail->lock);
    bool fresh = mail->identified && !mail->identity_taken;
    if (fresh) {
        *identity_out = mail->identity;
        mail->identity_taken = true;
    }
    pthread_mutex_unlock(&mail->lock);
    return fresh;
}

bool rp_mail_wait(struct rp_mail *mail, unsigned interval_us)
{
    struct timespec until = time_after_us(interval_us);
    pthread_mutex_lock(&mail->lock);
    while (!mail->stop && (!mail->identified || mail->identity_taken) &&
           pthread_cond_timedwait(&mail->wake, &mail->lock, &until) == 0)
        ;
    bool stop = mail->stop;
    pthread_mutex_unlock(&mail->lock);
    return stop;
}

void rp_mail_finish(struct rp_mail *mail)
{
    pthread_mutex_lock(&mail->lock);
    mail->running = false;
    pthread_cond_broadcast(&mail->finished);
    pthread_mutex_unlock(&mail->lock);
}
