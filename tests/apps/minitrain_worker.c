/*
 * The thread that runs backward with --threads, as PyTorch's autograd does: one thread for the whole run, and the main
 * thread waits while it works.
 */
#include "minitrain.h"

#include "minitrain_host.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct mt_worker {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    pthread_t thread;
    struct mt_trainer *trainer;
    const struct mt_pass *pass; /* to run, or NULL */
    bool stop;
};

static void *work(void *argument)
{
    struct mt_worker *worker = argument;
    MT_CUDA(cudaSetDevice(worker->trainer->device));
    pthread_mutex_lock(&worker->mutex);
    while (!worker->stop) {
        if (worker->pass) {
            mt_pass_backward(worker->trainer, worker->pass);
            worker->pass = NULL;
            pthread_cond_broadcast(&worker->changed);
        }
        if (!worker->stop)
            pthread_cond_wait(&worker->changed, &worker->mutex);
    }
    pthread_mutex_unlock(&worker->mutex);
    return NULL;
}

struct mt_worker *mt_worker_start(struct mt_trainer *t)
{
    struct mt_worker *worker = calloc(1, sizeof *worker);
    if (!worker)
        mt_die("no memory for a worker");
    worker->trainer = t;
    pthread_mutex_init(&worker->mutex, NULL);
    pthread_cond_init(&worker->changed, NULL);
    int error = pthread_create(&worker->thread, NULL, work, worker);
    if (error)
        mt_die("no worker: %s", strerror(error));
    return worker;
}

void mt_worker_run(struct mt_worker *worker, const struct mt_pass *pass)
{
    pthread_mutex_lock(&worker->mutex);
    worker->pass = pass;
    pthread_cond_broadcast(&worker->changed);
    while (worker->pass)
        pthread_cond_wait(&worker->changed, &worker->mutex);
    pthread_mutex_unlock(&worker->mutex);
}

void mt_worker_stop(struct mt_worker *worker)
{
    pthread_mutex_lock(&worker->mutex);
    worker->stop = true;
    pthread_cond_broadcast(&worker->changed);
    pthread_mutex_unlock(&worker->mutex);
    pthread_join(worker->thread, NULL);
    free(worker);
}
