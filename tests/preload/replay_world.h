/*
 * For programs of replay's tests: a sharded trainer in small, as several processes, whose every gathered word is
 * checked against what the ranks are known to have sent. A check that fails ends its rank with one line.
 *
 * A step gathers each unit twice, forward and then backward, and changes all shards at its end: after some steps the
 * second gathers come from memory.
 */
#ifndef REPLAY_WORLD_H
#define REPLAY_WORLD_H

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "shim/real.h"

#define UNITS 4
#define COUNT 1031 /* words of a shard: an odd size, and more than what passes as small */
#define RANKS_MAX 4
#define IDS 32
#define SECONDS 60 /* a rank that hangs */
#define ARMED 12   /* steps after which gathers come from memory */

#define CHECK(condition)                                                                             \
    do {                                                                                             \
        if (!(condition)) {                                                                          \
            fprintf(stderr, "%s:%d: rank %s: %s\n", __FILE__, __LINE__, getenv("RANK"), #condition); \
            _exit(1);                                                                                \
        }                                                                                            \
    } while (0)
#define CUDA(call) CHECK((call) == cudaSuccess)
#define NCCL(call) CHECK((call) == ncclSuccess)

struct world {
    int rank, ranks;
    ncclComm_t comm;
    cudaStream_t stream;
    uint32_t *shard[UNITS];
    uint32_t *full[UNITS]; /* what a gather delivers */
    uint32_t *reduced;
    unsigned generation;
};

extern ncclUniqueId world_ids[IDS]; /* made before the ranks start */

/* Starts `ranks` processes; each runs `body` and exits. Returns how many failed. `killed`: one that ends by SIGKILL. */
int world_run(int ranks, void (*body)(int rank, int ranks), int killed);

void moment(unsigned milliseconds);
pthread_t thread_start(void *(*body)(void *), void *argument);

/* Memory, stream and the first values of the shards, for a communicator. */
struct world world_make(int rank, int ranks, ncclComm_t comm);
void world_free(struct world *world);

/* The communicator of all ranks by that id. */
ncclComm_t comm_make(int rank, int ranks, int id);

/* What `rank` sends as unit `unit`: new in each generation. */
uint32_t word_of(unsigned generation, int rank, int unit, size_t index);

ncclResult_t gather_call(struct world *world, int unit);
void gather_check(struct world *world, int unit); /* waits for it */
void gather(struct world *world, int unit);
void shards_change(struct world *world);

void step(struct world *world);
void train(struct world *world, int steps);

struct test_case {
    const char *name;
    int ranks;
    void (*body)(int rank, int ranks);
    int killed; /* rank that ends by SIGKILL; -1: none */
};
/* main() of a program of cases: PROGRAM CASE. */
int cases_main(const struct test_case *cases, size_t count, int argc, char **argv);

#endif
