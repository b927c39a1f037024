/*
 * A random program: what each of its ranks does, step by step, and what every collective must deliver. It is a function
 * of the seed alone. The ranks (chaos_rank.c) carry it out and never draw a number; the runner (chaos_run.c) makes the
 * same one to know how many ranks there are, which faults to inject and what the program covers.
 *
 * What a program must keep so that its bytes are defined and it ends when nothing stands between it and NCCL:
 * - every use of a buffer waits for the event of the last one;
 * - all ranks issue the same operations on a communicator in the same order;
 * - no rank's host waits for the device between a receive of its own and the send that its peer issues later;
 * - of two threads that issue at the same time only the first ever waits for the device.
 */
#ifndef CHAOS_H
#define CHAOS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/chaos/chaos_content.h"

#define CHAOS_RANKS_MAX 4
#define CHAOS_UNITS_MAX 7
#define CHAOS_COMMS_MAX 3
#define CHAOS_STREAMS_MAX 4
#define CHAOS_SLOTS_MAX 7
#define CHAOS_SCRATCHES 4
#define CHAOS_STEPS_MAX 40
#define CHAOS_BRACKET_MAX 3 /* actions of one group or one captured graph */

/* X(enumerator, name): what a program does, for the coverage that the runner prints. */
#define CHAOS_FEATURES(X)                         \
    X(CALM, "no incidents")                       \
    X(GROUP, "groups")                            \
    X(GROUP_STREAMS, "groups over streams")       \
    X(GROUP_COMMS, "groups over communicators")   \
    X(CAPTURE, "graph capture")                   \
    X(IN_PLACE, "in place")                       \
    X(PERSISTENT, "persistent shards")            \
    X(STAGED, "staged sends")                     \
    X(TWO_COMMS, "two communicators")             \
    X(SPLIT, "split")                             \
    X(PARITY, "split by parity")                  \
    X(REMAKE, "communicator remade")              \
    X(DESTROY, "communicator destroyed early")    \
    X(ABORT, "abort at the end")                  \
    X(ABORT_BUSY, "abort in flight")              \
    X(NONBLOCKING, "nonblocking")                 \
    X(THREADS, "two threads in turn")             \
    X(PARALLEL, "two threads at once")            \
    X(LEGACY, "default stream")                   \
    X(PRECONNECT, "host rendezvous at first use") \
    X(REDUCE, "reduce-scatter")                   \
    X(ALL_REDUCE, "all-reduce")                   \
    X(BROADCAST, "broadcast")                     \
    X(ALL_TO_ALL, "all-to-all")                   \
    X(RING, "send/recv ring")                     \
    X(UNEVEN, "unequal send/recv")                \
    X(PEER, "receive before gather")              \
    X(HOST_WAIT, "host waits")                    \
    X(LAG, "lagging ranks")                       \
    X(EDIT_ALL, "edits on all ranks")             \
    X(EDIT_ONE, "edits on one rank")              \
    X(EVAL, "evaluation")                         \
    X(SWAP, "weights swapped for evaluation")     \
    X(LOG, "loss logging")                        \
    X(SKIP, "skipped layer")                      \
    X(REORDER, "order changes")                   \
    X(ALTERNATE, "two orders in turn")            \
    X(EXTRA, "extra module")                      \
    X(ZERO_RATE, "learning rate 0")               \
    X(FROZEN, "frozen units")                     \
    X(CONSTANT, "shard of one rank constant")     \
    X(RETURNING, "contents that return")          \
    X(SPARSE, "one byte changes")                 \
    X(TWINS, "equal layers")                      \
    X(REALLOC, "receive buffers reallocated")     \
    X(PRESSURE, "memory just enough")             \
    X(TIGHT, "units in turn in one slot")         \
    X(KILL, "a rank killed")

enum chaos_feature {
#define X(name, text) CHAOS_HAS_##name,
    CHAOS_FEATURES(X)
#undef X
        CHAOS_FEATURE_COUNT
};

/* X(enumerator, name) */
#define CHAOS_KINDS(X)                  \
    X(WRITE, "write")                   \
    X(GATHER, "all-gather")             \
    X(REDUCE_SCATTER, "reduce-scatter") \
    X(ALL_REDUCE, "all-reduce")         \
    X(BROADCAST, "broadcast")           \
    X(ALL_TO_ALL, "all-to-all")         \
    X(RING, "ring")                     \
    X(UNEVEN, "uneven")                 \
    X(PEER_RECV, "peer-recv")           \
    X(PEER_SEND, "peer-send")           \
    X(REALLOC, "realloc")               \
    X(BALLOON, "balloon")               \
    X(SYNC, "sync")                     \
    X(LAG, "lag")                       \
    X(REMAKE, "remake")                 \
    X(DESTROY, "destroy")

enum chaos_kind {
#define X(name, text) CHAOS_##name,
    CHAOS_KINDS(X)
#undef X
};

enum chaos_bracket { CHAOS_ALONE, CHAOS_GROUP, CHAOS_CAPTURE };

enum chaos_send {
    CHAOS_SEND_IN_PLACE,   /* copied into the rank's part of the receive buffer */
    CHAOS_SEND_PERSISTENT, /* the shard itself */
    CHAOS_SEND_STAGED      /* copied into a buffer of its own */
};

/* How REALLOC gets another buffer. */
enum chaos_realloc { CHAOS_FREE_FIRST, CHAOS_SPARE, CHAOS_FREE_ASYNC, CHAOS_REALLOCS };

struct chaos_action {
    uint8_t kind;    /* enum chaos_kind */
    uint8_t bracket; /* enum chaos_bracket */
    uint16_t number; /* of the bracket: neighbours with the same number belong together */
    uint8_t thread;
    uint8_t comm;
    uint8_t unit;
    uint8_t stream;
    uint8_t slot;    /* GATHER, REALLOC: receive buffer; others: scratch buffer; of the communicator */
    uint8_t root;    /* BROADCAST, UNEVEN: place in the communicator; LAG: rank; REALLOC: enum chaos_realloc */
    uint8_t ranks;   /* WRITE: of which ranks, as bits */
    bool in_place;   /* operations that can be; REMAKE, DESTROY: finalized first */
    bool integers;   /* reductions: int32, else float */
    bool maximum;    /* reductions: the largest, else the sum */
    bool poison;     /* the receive buffer is filled with junk before */
    bool late;       /* the delivered bytes are looked at just before the buffer is used again, else at once */
    bool host_wait;  /* ranks above 0 wait until rank 0 has issued this one */
    bool after_peer; /* the stream waits for the peer's bytes first */
    uint32_t count;  /* bytes or elements of one rank's part; LAG: microseconds */
    uint32_t serial; /* what scratch buffers are filled from */
    struct chaos_content content[CHAOS_RANKS_MAX]; /* WRITE, GATHER: of each rank */
};

/* Gathers of one source. */
struct chaos_unit {
    uint32_t key;
    uint32_t bytes; /* of one rank's shard */
    uint32_t element_bytes;
    uint32_t offset; /* of shard and receive buffer in their allocations */
    uint8_t comm;
    uint8_t send;        /* enum chaos_send */
    bool copy_elsewhere; /* the copy before the gather runs on another stream */
    bool frozen;
    int8_t constant; /* rank whose shard never changes, or -1 */
    uint8_t first_step, last_step;
};

enum chaos_comm_kind { CHAOS_COMM_INIT, CHAOS_COMM_SPLIT, CHAOS_COMM_REVERSED, CHAOS_COMM_PARITY };

enum chaos_ending { CHAOS_END_DESTROY, CHAOS_END_FINALIZE, CHAOS_END_ABORT, CHAOS_END_ABORT_BUSY, CHAOS_ENDINGS };

/* The communicator for PEER_RECV and PEER_SEND alone; like the others it exists only if comm_count says so. */
#define CHAOS_PEER_COMM 2

struct chaos_program {
    uint64_t seed;
    int ranks;
    int comm_count;
    uint8_t comms[CHAOS_COMMS_MAX]; /* enum chaos_comm_kind */
    bool nonblocking;
    bool threads;  /* what thread 1 does follows and precedes what thread 0 does */
    bool parallel; /* thread 1 issues while thread 0 does */
    bool legacy;   /* stream 0 is the default stream, and the others wait for it */
    int streams;
    int unit_count;
    struct chaos_unit units[CHAOS_UNITS_MAX];
    struct chaos_content initial[CHAOS_UNITS_MAX][CHAOS_RANKS_MAX];
    int slots;
    size_t slot_bytes, scratch_bytes;
    int check_every; /* steps between two looks at what was delivered */
    enum chaos_ending ending;
    int steps;
    size_t first[CHAOS_STEPS_MAX + 1]; /* action that a step begins with */
    struct chaos_action *actions;
    size_t count, room;
    uint64_t features;
    char faults[1024];    /* FAKE_FAULT, or "" */
    size_t balloon_bytes; /* what BALLOON takes of the device, or gives back if it has it */
    double memory_mb;     /* FAKE_MEMORY_MB, or 0 */
    bool tight;           /* few units that share even less memory, on several streams */
    bool packs;           /* bfloat16, mostly as weights are, and memory for some of it */
    bool ahead;           /* long, and replay gathers ahead where memory is not short */
    bool preconnect;      /* FAKE_PRECONNECT */
    int watchdog_ms;      /* a rank that gets nowhere for so long aborts its communicators; 0: none */
    int fault_malloc, fault_driver, fault_error, fault_lag, fault_scribble, fault_kill; /* how many are planned */
};

/* Always the same for a seed. The caller frees it. Ends the process if there is no memory. */
void chaos_program_make(uint64_t seed, struct chaos_program *program_out);
void chaos_program_free(struct chaos_program *program);

/* Memory of the device that a rank of the program needs at most at one time. */
size_t chaos_program_memory(const struct chaos_program *program);

/* World ranks of the communicator that `rank` is in, in their order there; returns how many. */
int chaos_members(const struct chaos_program *program, int comm, int rank, int members_out[CHAOS_RANKS_MAX]);

/* Whether NCCL counts the action as a collective (not sends and receives). */
bool chaos_is_collective(const struct chaos_action *action);
bool chaos_is_operation(const struct chaos_action *action);

static inline void chaos_feature(struct chaos_program *program, enum chaos_feature feature)
{
    program->features |= (uint64_t)1 << feature;
}

#endif
