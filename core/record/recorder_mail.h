/*
 * What the application's threads say to the background thread besides the rings: communicators, state changes, who
 * this process is, and that it is to stop. All of it is rare and goes under one short lock.
 *
 * Threads: any.
 */
#ifndef RP_RECORDER_MAIL_H
#define RP_RECORDER_MAIL_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/trace/trace.h"
#include "core/trace/trace_format.h"

#define RP_JOB_KEY_MAX 256 /* bytes of a job key that count, with its end */

struct rp_note {
    struct rp_note *next;
    enum rp_note_kind { RP_NOTE_COMM, RP_NOTE_STATE } kind;
    struct rp_trace_comm comm;
    enum rp_trace_state state;
    uint32_t state_comm;
    uint64_t ticks;
    char text[RP_STATE_TEXT_MAX + 1];
};

struct rp_mail_identity {
    int32_t rank;
    int32_t nranks;
    char job_key[RP_JOB_KEY_MAX];
};

struct rp_mail {
    pthread_mutex_t lock;
    pthread_cond_t wake;                /* the background thread has something to do */
    pthread_cond_t finished;            /* `running` became false */
    struct rp_note *notes, **notes_end; /* in order */
    struct rp_mail_identity identity;
    bool identified, identity_taken;
    bool stop;
    unsigned fingerprint_ms; /* valid with `stop` */
    bool running;            /* the background thread exists and has not finished */
};

/* Makes it empty, whatever it was before: also in the child of a fork. */
void rp_mail_init(struct rp_mail *mail);

/* Appends a note, which the mail then owns. */
void rp_mail_post(struct rp_mail *mail, struct rp_note *note);

/* The first call counts. */
void rp_mail_identify(struct rp_mail *mail, int32_t rank, int32_t nranks, const char *job_key);

/* Asks the background thread to stop and waits at most `wait_ms` until it has finished. False: it has not. */
bool rp_mail_stop(struct rp_mail *mail, unsigned fingerprint_ms, unsigned wait_ms);

/* Background thread: all notes so far, in order, now the caller's; NULL: none. */
struct rp_note *rp_mail_take(struct rp_mail *mail);

/* Background thread: the identity, when it is first seen; else false. */
bool rp_mail_take_identity(struct rp_mail *mail, struct rp_mail_identity *identity_out);

/* Background thread: waits for `interval_us`, or less if there is mail that cannot wait. True: it is to stop. */
bool rp_mail_wait(struct rp_mail *mail, unsigned interval_us);

/* Background thread, last act: it has finished. */
void rp_mail_finish(struct rp_mail *mail);

#endif
