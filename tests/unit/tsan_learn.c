/*
 * The shared table with its ranks at once, to be run under the thread sanitizer (`make tsan`): one thread reads,
 * another runs ahead with all the other ranks and overwrites. Without it too: what a read gives out is whole, and the
 * same as before, or nothing is given out. Ends with 0 if all holds.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/replay/learn.h"

#define CHECK(condition)                                                    \
    do {                                                                    \
        if (!(condition)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            exit(1);                                                        \
        }                                                                   \
    } while (0)

#define RANKS 256u /* many, so that the table has few positions */
#define POSITIONS 3072u
#define RESTART_EVERY 1502u /* now and then half of the others lose a fingerprint and start again */

struct rank {
    struct rp_agree agree;
    struct rp_learn *learn;
};

static struct rank ranks[RANKS];
/* How far the reader is, and the others; the one waits for the other so that they meet. Pair with themselves. */
static atomic_uint_fast64_t reader_at, others_at;
static struct rp_learned expected[POSITIONS];

/* Every other op is no gather: what is published then stays behind. */
static void see(struct rank *rank, uint64_t position)
{
    struct rp_op op = {.dtype = RP_DTYPE_UINT8, .root = -1, .count = 64, .position = position};
    const uint64_t value[2] = {position, ~position};
    op.kind = position % 2 == 0 ? RP_OP_ALL_GATHER : RP_OP_REDUCE_SCATTER;
    rp_learn_see(rank->learn, &op, 0);
    rp_learn_fingerprint(rank->learn, &rank->agree, position, value);
}

static bool loses(uint32_t rank, uint64_t position)
{
    return rank % 2 == 1 && position % RESTART_EVERY == RESTART_EVERY - 2;
}

/* The others: into the last places that the reader still has. */
static void *run_ahead(void *argument)
{
    uint64_t ahead = rp_learn_positions(RANKS) - 4;

    (void)argument;
    for (uint64_t position = 0; position < POSITIONS; position++) {
        while (position > atomic_load_explicit(&reader_at, memory_order_relaxed) + ahead)
            sched_yield();
        for (uint32_t i = 1; i < RANKS; i++) {
            if (loses(i, position))
                rp_learn_restart(ranks[i].learn);
            else
                see(&ranks[i], position);
        }
        atomic_store_explicit(&others_at, position, memory_order_relaxed);
    }
    return NULL;
}

static void wait_for_others(uint64_t position)
{
    uint64_t far = position + rp_learn_positions(RANKS) - 40;
    while (atomic_load_explicit(&others_at, memory_order_relaxed) < (far < POSITIONS ? far : POSITIONS - 1))
        sched_yield();
}

/* Reads [from, to), which may be overwritten meanwhile: true if it was given out. */
static bool read_range(uint64_t from, uint64_t to)
{
    static struct rp_learned items[16384];
    if (rp_learn_read(ranks[0].learn, &ranks[0].agree, from, to, items) != RP_OK)
        return false;
    for (uint64_t position = from; position < to; position++) {
        CHECK(!loses(1, position));
        CHECK(memcmp(expected[position].content, items[position - from].content, sizeof(items[0].content)) == 0);
    }
    return true;
}

/* What is there; its beginning is what the others overwrite next. */
static void read_some(uint64_t position, uint64_t *given, uint64_t *refused)
{
    uint64_t from, to;
    rp_learn_range(ranks[0].learn, &ranks[0].agree, &from, &to);
    CHECK(from == to || (from < to && to <= position + 1));
    if (from == to)
        return;
    bool whole = read_range(from, to > from + 12 ? from + 12 : to);
    *given += whole;
    *refused += !whole;
}

static void expect(void)
{
    for (uint64_t position = 0; position < POSITIONS; position++) {
        for (uint32_t i = 0; i < RANKS; i++)
            see(&ranks[i], position);
        CHECK(position % 2 != 0 ||
              rp_learn_read(ranks[0].learn, &ranks[0].agree, position, position + 1, &expected[position]) == RP_OK);
    }
}

static struct rp_agree_shared *shared;
static void *table;

static void start(void)
{
    shared = aligned_alloc(64, (rp_agree_bytes(RANKS) + 63) / 64 * 64);
    table = aligned_alloc(64, rp_learn_bytes(RANKS));
    CHECK(shared != NULL && table != NULL);
    memset((void *)shared, 0, rp_agree_bytes(RANKS));
    memset(table, 0, rp_learn_bytes(RANKS));
    for (uint32_t i = 0; i < RANKS; i++) {
        CHECK(rp_agree_join(&ranks[i].agree, shared, RANKS, 1, 1000 + i) == RP_OK);
        CHECK(rp_learn_create(table, RANKS, i, &ranks[i].learn) == RP_OK);
    }
    for (uint32_t i = 0; i < RANKS; i++)
        CHECK(rp_agree_complete(&ranks[i].agree, RANKS, i) == RP_OK);
}

static void stop(void)
{
    for (uint32_t i = 0; i < RANKS; i++)
        rp_learn_destroy(ranks[i].learn);
    free(shared);
    free(table);
}

int main(void)
{
    pthread_t others;
    uint64_t given = 0, refused = 0;

    start();
    expect();
    stop();
    start();
    CHECK(pthread_create(&others, NULL, run_ahead, NULL) == 0);
    for (uint64_t position = 0; position < POSITIONS; position++) {
        see(&ranks[0], position);
        atomic_store_explicit(&reader_at, position, memory_order_relaxed);
        wait_for_others(position);
        if (position % 4 == 0)
            read_some(position, &given, &refused);
    }
    CHECK(pthread_join(others, NULL) == 0);
    CHECK(given > 0);
    stop();
    printf("%llu ranges read, %llu overwritten meanwhile\n", (unsigned long long)given, (unsigned long long)refused);
    return 0;
}
