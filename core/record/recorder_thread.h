/*
 * The background thread of the recorder.
 */
#ifndef RP_RECORDER_THREAD_H
#define RP_RECORDER_THREAD_H

#include <stdatomic.h>

#include "core/clock.h"
#include "core/record/producer.h"
#include "core/record/recorder.h"
#include "core/record/recorder_mail.h"
#include "core/trace/run_directory.h"

/* OFF -> ON (start) -> ENDED (stop, or a failure) -> OFF (in the child of a fork) */
enum rp_recorder_phase { RP_RECORDER_OFF, RP_RECORDER_ON, RP_RECORDER_ENDED };

/* What the recorder's threads share. One per process. */
struct rp_recorder {
    _Atomic int phase; /* enum rp_recorder_phase; who reads ON (acquire) sees what start() set before it (release) */
    struct rp_recorder_options options; /* constant while ON */
    char working[RP_RUN_PATH_MAX];      /* working directory at the start; constant while ON */
    uint64_t start_ticks, start_wall_ns, start_monotonic_ns;
    pid_t process;                     /* that started it; constant while ON */
    _Atomic uint32_t threads_left_out; /* for want of a ring; relaxed: a count alone */
    struct rp_mail mail;
    struct rp_producers producers;  /* added to under mail.lock */
    struct rp_trace_writer *writer; /* made before the thread; NULL once the thread is about to free it */
};

/* Starts the thread, all signals blocked in it. RP_NO_MEMORY: said. */
enum rp_status rp_recorder_thread_start(struct rp_recorder *recorder);

#endif
