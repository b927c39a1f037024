/*
 * Channels in threads, to be run under the thread sanitizer (`make tsan`): communicators made and ended at once, and
 * the learning table of one segment taken and dropped by all: what a user wrote stays while it uses the table, however
 * often its memory goes back in between. Ends with 0 if all holds.
 */
/* link: shim: channel.c */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/replay/learn.h"
#include "shim/channel.h"

#define CHECK(condition)                                                                             \
    do {                                                                                             \
        if (!(condition)) {                                                                          \
            fprintf(stderr, "%s:%d: %s (%s)\n", __FILE__, __LINE__, #condition, rp_channel_error()); \
            exit(1);                                                                                 \
        }                                                                                            \
    } while (0)

#define THREADS 4u
#define ROUNDS 600u
#define STRIDE 512u /* words: a page */

static pthread_barrier_t together;

static uint64_t key_of(uint64_t what)
{
    return (uint64_t)getpid() << 32 | UINT64_C(1) << 31 | what;
}

/* A rank's words of the table: one of each stretch of pages. */
static void write_own(uint64_t *table, uint32_t rank, uint64_t value)
{
    for (size_t i = rank; i < rp_learn_bytes(THREADS) / sizeof(*table); i += STRIDE * 8)
        table[i] = value;
}

static void check_own(const uint64_t *table, uint32_t rank, uint64_t value)
{
    for (size_t i = rank; i < rp_learn_bytes(THREADS) / sizeof(*table); i += STRIDE * 8)
        CHECK(table[i] == value);
}

static void use_table(struct rp_channel *channel, uint32_t rank, uint64_t round)
{
    uint64_t *table = rp_channel_table(channel);
    CHECK(table != NULL);
    write_own(table, rank, round);
    if (round % 2 == rank % 2)
        sched_yield();
    check_own(table, rank, round);
    rp_channel_table_drop(channel);
}

/* A communicator of its own, to which one rank more comes than there are. */
static void make_another(uint32_t rank, uint64_t round)
{
    struct rp_channel *channel, *none = NULL;
    uint64_t key = key_of(1 + rank + THREADS * round);
    CHECK(rp_channel_open(key, 1, 5, &channel) == RP_OK);
    CHECK(rp_channel_open(key, 1, 5, &none) == RP_FULL && none == NULL);
    CHECK(strstr(rp_channel_error(), "no seat left") != NULL);
    CHECK(rp_agree_complete(rp_channel_agree(channel), 1, 0) == RP_FULL);
    rp_channel_unlink(channel);
    rp_channel_close(channel);
}

static void *rank_run(void *argument)
{
    uint32_t rank = *(const uint32_t *)argument;
    struct rp_channel *channel;
    CHECK(rp_channel_open(key_of(0), THREADS, 5, &channel) == RP_OK);
    pthread_barrier_wait(&together);
    rp_channel_unlink(channel);
    CHECK(rp_agree_complete(rp_channel_agree(channel), THREADS, rank) == RP_UNSUPPORTED); /* one process */
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        use_table(channel, rank, round);
        if (round % 8 == 0)
            make_another(rank, round);
    }
    pthread_barrier_wait(&together);
    for (uint32_t i = 0; i < THREADS && rank == 0; i++) /* all have dropped it: its memory went back */
        check_own(rp_channel_table(channel), i, 0);
    rp_channel_close(channel);
    return NULL;
}

int main(void)
{
    static const uint32_t numbers[THREADS] = {0, 1, 2, 3};
    pthread_t threads[THREADS];
    CHECK(pthread_barrier_init(&together, NULL, THREADS) == 0);
    for (uint32_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, rank_run, (void *)&numbers[i]) == 0);
    for (uint32_t i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    pthread_barrier_destroy(&together);
    printf("channel: %u threads, %u tables each\n", THREADS, ROUNDS);
    return 0;
}
