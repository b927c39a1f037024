/*
 * Errors, messages and the watchdog of one rank.
 *
 * Threads: messages and errors come from any thread. The watchdog is one thread of its own; its state is under one
 * mutex. Once it has expired no other thread may leave the process with another exit code, nor touch a communicator:
 * they park in mt_die or in mt_watchdog_feed.
 */
#include "minitrain_host.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MAX_COMMS 4
#define ABORT_SECONDS 5
#define POLL_NS 200000

static int own_rank;
static const char *message_prefix;
static atomic_bool expired;

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t fed;
    pthread_t thread;
    int seconds;
    unsigned feeds;
    bool stop;
    ncclComm_t comms[MAX_COMMS];
    int count;
} watchdog = {.mutex = PTHREAD_MUTEX_INITIALIZER};

void mt_host_start(int rank, const char *folder_file)
{
    own_rank = rank;
    message_prefix = folder_file;
}

/* Errors ---------------------------------------------------------------------------------------------------------- */

static void park_if_expired(void)
{
    while (atomic_load(&expired))
        pause();
}

void mt_die(const char *format, ...)
{
    char line[512];
    va_list list;
    park_if_expired();
    va_start(list, format);
    vsnprintf(line, sizeof line, format, list);
    va_end(list);
    fprintf(stderr, "minitrain: [rank %d] error: %s\n", own_rank, line);
    _exit(MT_EXIT_FAILED);
}

void mt_cuda_check(cudaError_t error, const char *call)
{
    if (error != cudaSuccess)
        mt_die("%s: %s", call, cudaGetErrorString(error));
}

void mt_nccl_check(ncclResult_t result, const char *call)
{
    if (result != ncclSuccess)
        mt_die("%s: %s: %s", call, ncclGetErrorString(result), ncclGetLastError(NULL));
}

/* Messages -------------------------------------------------------------------------------------------------------- */

static void message_path(char path[PATH_MAX], const char *name)
{
    snprintf(path, PATH_MAX, "%s%s", message_prefix, name);
}

/* Written aside and renamed: a reader sees all of it or nothing. */
void mt_post(const char *name, const void *data, size_t bytes)
{
    char path[PATH_MAX], aside[PATH_MAX + 4];
    message_path(path, name);
    snprintf(aside, sizeof aside, "%s.new", path);
    int fd = open(aside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, data, bytes) != (ssize_t)bytes || close(fd) != 0 || rename(aside, path) != 0)
        mt_die("message %s: %s", path, strerror(errno));
}

void mt_peek(const char *name, void *data, size_t bytes, int seconds)
{
    char path[PATH_MAX];
    struct timespec start, now, nap = {.tv_nsec = POLL_NS};
    int fd;
    message_path(path, name);
    clock_gettime(CLOCK_MONOTONIC, &start);
    while ((fd = open(path, O_RDONLY | O_CLOEXEC)) < 0) {
        clock_gettime(CLOCK_MONOTONIC, &now);
        if (now.tv_sec - start.tv_sec >= seconds)
            mt_die("message %s did not come in %d s", path, seconds);
        nanosleep(&nap, NULL);
    }
    if (read(fd, data, bytes) != (ssize_t)bytes)
        mt_die("message %s is too short", path);
    close(fd);
}

void mt_wait(const char *name, void *data, size_t bytes, int seconds)
{
    char path[PATH_MAX];
    mt_peek(name, data, bytes, seconds);
    message_path(path, name);
    unlink(path);
}

/* Watchdog -------------------------------------------------------------------------------------------------------- */

static void end_now(int signal)
{
    (void)signal;
    _exit(MT_EXIT_TIMEOUT);
}

/* An abort may itself hang, so a timer ends the process in any case. */
static void expire(void)
{
    atomic_store(&expired, true);
    signal(SIGALRM, end_now);
    alarm(ABORT_SECONDS);
    for (int i = 0; i < watchdog.count; i++)
        ncclCommAbort(watchdog.comms[i]);
    fprintf(stderr, "minitrain: [rank %d] error: no step ended for %d s; communicators aborted\n", own_rank,
            watchdog.seconds);
    _exit(MT_EXIT_TIMEOUT);
}

static void *watch(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&watchdog.mutex);
    while (!watchdog.stop) {
        unsigned seen = watchdog.feeds;
        struct timespec until;
        int result = 0;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_sec += watchdog.seconds;
        while (result == 0 && !watchdog.stop && watchdog.feeds == seen)
            result = pthread_cond_timedwait(&watchdog.fed, &watchdog.mutex, &until);
        if (!watchdog.stop && watchdog.feeds == seen)
            expire();
    }
    pthread_mutex_unlock(&watchdog.mutex);
    return NULL;
}

void mt_watchdog_start(int seconds)
{
    pthread_condattr_t attribute;
    pthread_condattr_init(&attribute);
    pthread_condattr_setclock(&attribute, CLOCK_MONOTONIC);
    pthread_cond_init(&watchdog.fed, &attribute);
    pthread_condattr_destroy(&attribute);
    watchdog.seconds = seconds;
    int error = pthread_create(&watchdog.thread, NULL, watch, NULL);
    if (error)
        mt_die("no watchdog: %s", strerror(error));
}

/* A child communicator goes before its parent: aborting the parent first would take its resources away. */
void mt_watchdog_know(ncclComm_t comm)
{
    pthread_mutex_lock(&watchdog.mutex);
    if (watchdog.count < MAX_COMMS) {
        memmove(&watchdog.comms[1], &watchdog.comms[0], sizeof(ncclComm_t) * (size_t)watchdog.count++);
        watchdog.comms[0] = comm;
    }
    pthread_mutex_unlock(&watchdog.mutex);
}

void mt_watchdog_feed(void)
{
    park_if_expired();
    pthread_mutex_lock(&watchdog.mutex);
    watchdog.feeds++;
    pthread_cond_signal(&watchdog.fed);
    pthread_mutex_unlock(&watchdog.mutex);
}

void mt_watchdog_stop(void)
{
    park_if_expired();
    pthread_mutex_lock(&watchdog.mutex);
    watchdog.stop = true;
    pthread_cond_signal(&watchdog.fed);
    pthread_mutex_unlock(&watchdog.mutex);
    pthread_join(watchdog.thread, NULL);
}
