/*
 * The ring and the recorder with their threads at once, to be run under the thread sanitizer (`make tsan`); it also
 * checks, without it, that nothing is lost uncounted and that order is kept. Ends with 0 if all holds.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sched.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/record/recorder.h"
#include "core/record/ring.h"
#include "tests/unit/scratch.h"

#define CHECK(condition)                                                    \
    do {                                                                    \
        if (!(condition)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            exit(1);                                                        \
        }                                                                   \
    } while (0)

/* ---------------------------------------------------------------- one ring, two threads */

#define RECORDS 200000u

struct pair {
    struct rp_ring *ring;
    atomic_bool done;
    uint64_t pushed_ops, pushed_launches;             /* the producer's */
    uint64_t read_ops, read_launches, disorder, torn; /* the consumer's */
};

/* Every field of a record says its number, so that one read while it is written shows. */
static bool push_launch(struct rp_ring *ring, uint64_t number)
{
    union rp_record *slot = rp_ring_reserve(ring, RP_RECORD_LAUNCH);
    if (slot == NULL)
        return false;
    slot->launch = (struct rp_launch){
        .type = RP_RECORD_LAUNCH, .function = number, .stream = number, .ticks = number, .unused = {number, number}};
    rp_ring_commit(ring);
    return true;
}

static void *produce(void *argument)
{
    struct pair *pair = argument;
    for (uint64_t i = 1; i <= RECORDS; i++) {
        if (i % 4 == 0)
            pair->pushed_ops += rp_ring_push_op(
                pair->ring, &(struct rp_op){.position = i, .begin = i, .end = i, .count = i, .stream = i});
        else
            pair->pushed_launches += push_launch(pair->ring, i);
        if (i % 1000 == 0)
            sched_yield();
    }
    atomic_store(&pair->done, true);
    return NULL;
}

static void read_record(struct pair *pair, const union rp_record *record, uint64_t *last)
{
    const struct rp_op *op = &record->op;
    const struct rp_launch *launch = &record->launch;
    uint64_t number;
    if (record->type == RP_RECORD_OP) {
        number = op->position;
        pair->torn += op->begin != number || op->end != number || op->count != number || op->stream != number;
        pair->read_ops++;
    } else {
        number = launch->ticks;
        pair->torn += record->type != RP_RECORD_LAUNCH || launch->function != number || launch->unused[1] != number;
        pair->read_launches++;
    }
    pair->disorder += number <= *last;
    *last = number;
}

static void *consume(void *argument)
{
    struct pair *pair = argument;
    uint64_t last = 0, first, count;
    bool done;
    do {
        done = atomic_load(&pair->done); /* before the peek: nothing comes after it */
        count = rp_ring_peek(pair->ring, &first);
        for (uint64_t i = 0; i < count; i++)
            read_record(pair, &pair->ring->slots[(first + i) & pair->ring->mask], &last);
        rp_ring_consume(pair->ring, count);
        if (count == 0)
            sched_yield();
    } while (!done || count > 0);
    return NULL;
}

static void one_ring(unsigned slots_log2)
{
    pthread_t producer, consumer;
    struct pair pair = {0};
    CHECK(rp_ring_create(slots_log2, &pair.ring) == RP_OK);
    CHECK(pthread_create(&consumer, NULL, consume, &pair) == 0);
    CHECK(pthread_create(&producer, NULL, produce, &pair) == 0);
    CHECK(pthread_join(producer, NULL) == 0 && pthread_join(consumer, NULL) == 0);
    CHECK(pair.disorder == 0 && pair.torn == 0);
    CHECK(pair.read_ops == pair.pushed_ops && pair.read_launches == pair.pushed_launches);
    CHECK(pair.pushed_ops + pair.ring->lost_ops == RECORDS / 4);
    CHECK(pair.pushed_launches + pair.ring->lost_launches == RECORDS - RECORDS / 4);
    printf("ring of %u: %lu ops and %lu launches passed, %lu and %lu dropped\n", 1u << slots_log2,
           (unsigned long)pair.read_ops, (unsigned long)pair.read_launches, (unsigned long)pair.ring->lost_ops,
           (unsigned long)pair.ring->lost_launches);
}

/* ---------------------------------------------------------------- the recorder, many threads */

#define THREADS 3
#define ROUNDS 8
#define OPS 400u

static _Atomic uint64_t pushed, refused;

static const char *kernel_name(uint64_t function)
{
    return function % 2 == 0 ? "even" : NULL;
}

static enum rp_fingerprint_state fingerprint(uint32_t comm, uint64_t position, uint64_t value_out[2])
{
    value_out[0] = comm;
    value_out[1] = position;
    return position % 3 == 0 ? RP_FINGERPRINT_LOST : RP_FINGERPRINT_READY;
}

static void *issue(void *argument)
{
    uint32_t comm = *(const uint32_t *)argument;
    rp_recorder_comm(&(struct rp_trace_comm){.number = comm, .nranks = 1});
    rp_recorder_identify(0, 1, "job");
    for (uint64_t i = 0; i < OPS; i++) {
        struct rp_op op = {.kind = RP_OP_ALL_GATHER, .comm = comm, .position = i, .flags = RP_OP_FINGERPRINTED};
        op.begin = rp_ticks();
        for (uint64_t j = 0; j < 5; j++) {
            union rp_record *slot = rp_ring_reserve(rp_recorder_ring(), RP_RECORD_LAUNCH);
            if (slot == NULL)
                continue;
            slot->launch = (struct rp_launch){.type = RP_RECORD_LAUNCH, .function = j};
            rp_ring_commit(rp_recorder_my_ring);
        }
        if (rp_ring_push_op(rp_recorder_ring(), &op))
            pushed++;
        else
            refused++;
    }
    rp_recorder_state(RP_STATE_COMM_DESTROYED, comm, NULL);
    return NULL;
}

static void *push_on(void *unused)
{
    for (uint64_t i = 0; i < 50000 && rp_recorder_ring() != NULL; i++)
        rp_ring_push_op(rp_recorder_ring(), &(struct rp_op){.kind = RP_OP_SEND, .position = RP_NO_POSITION});
    return unused;
}

static void recorder(void)
{
    struct scratch scratch;
    struct rp_modules *modules;
    struct rp_trace *trace;
    pthread_t threads[THREADS], late;
    uint32_t comms[THREADS];
    char directory[200], file[300];
    scratch_make(&scratch);
    snprintf(directory, sizeof directory, "%s/run", scratch.path);
    snprintf(file, sizeof file, "%s/rank-0.rpt", directory);
    CHECK(rp_modules_create(&modules) == RP_OK);
    struct rp_recorder_options options = {
        .directory = directory, .modules = modules, .kernel_name = kernel_name, .fingerprint = fingerprint};
    CHECK(rp_recorder_start(&options) == RP_OK);
    for (uint32_t round = 0; round < ROUNDS; round++) { /* threads come and go */
        for (uint32_t i = 0; i < THREADS; i++) {
            comms[i] = round * THREADS + i;
            CHECK(pthread_create(&threads[i], NULL, issue, &comms[i]) == 0);
        }
        for (uint32_t i = 0; i < THREADS; i++)
            CHECK(pthread_join(threads[i], NULL) == 0);
    }
    CHECK(pthread_create(&late, NULL, push_on, NULL) == 0); /* goes on while the recorder stops */
    rp_recorder_stop(1000);
    CHECK(pthread_join(late, NULL) == 0);
    CHECK(rp_trace_read(file, &trace) == RP_OK);
    size_t gathers = 0;
    for (size_t i = 0; i < trace->op_count; i++)
        gathers += trace->ops[i].op.kind == RP_OP_ALL_GATHER;
    printf("recorder: %lu ops pushed, %lu in the trace, %lu refused\n", (unsigned long)pushed, (unsigned long)gathers,
           (unsigned long)refused);
    CHECK(gathers == pushed);
    CHECK(pushed + refused == THREADS * ROUNDS * OPS);
    CHECK(trace->comm_count == THREADS * ROUNDS && trace->state_count == THREADS * ROUNDS);
    rp_trace_free(trace);
    rp_modules_destroy(modules);
    scratch_remove(&scratch);
}

int main(void)
{
    one_ring(4);
    one_ring(13);
    recorder();
    return 0;
}
