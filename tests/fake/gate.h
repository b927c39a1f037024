/* A stream stands still in gate_pass(), which cudaLaunchHostFunc() calls, until the test opens the gate. */
#ifndef FAKE_GATE_H
#define FAKE_GATE_H

#include <pthread.h>
#include <stdbool.h>

struct gate {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool open;
};

#define GATE                                                       \
    {                                                              \
        PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false \
    }

static inline void gate_pass(void *data)
{
    struct gate *gate = data;
    pthread_mutex_lock(&gate->lock);
    while (!gate->open)
        pthread_cond_wait(&gate->changed, &gate->lock);
    pthread_mutex_unlock(&gate->lock);
}

static inline void gate_open(struct gate *gate)
{
    pthread_mutex_lock(&gate->lock);
    gate->open = true;
    pthread_cond_broadcast(&gate->changed);
    pthread_mutex_unlock(&gate->lock);
}

#endif
