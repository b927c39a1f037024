/*
 * What the files of the stand-in NCCL share.
 *
 * A communicator's ranks share one segment of anonymous shared memory (nccl_shared.c), handed over at init through a
 * socket (nccl_rendezvous.c), so that nothing with a name outlives init, whoever is killed. On it work the host plane
 * (splits, first-use rendezvous) and the data plane (collectives, sends and receives). The data plane is used by one
 * piece of work at a time: the communicator's chain orders them.
 */
#ifndef FAKE_NCCL_PRIVATE_H
#define FAKE_NCCL_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>

#include <nccl.h>

#include "engine.h"

/* Each function twice, as in the real library: the weak ncclX for programs, the strong pncclX for tools. */
#define NCCL_WEAK(name) __typeof__(pnccl##name) nccl##name __attribute__((weak, alias("pnccl" #name)))

#define NCCL_RANKS_MAX 256
#define NCCL_OPS_MAX 64 /* user reductions of a communicator */

/* The shared segment (nccl_shared.c) ------------------------------------------------------------------------------- */

/* What a rank is about to do: must be alike on all ranks, except `ready`. */
struct description {
    uint32_t kind;
    uint32_t datatype;
    uint32_t op;
    int32_t root;
    uint64_t count;
    uint64_t ready; /* modelled time */
};

struct host_word {
    int32_t what; /* enum host_what: all ranks must do the same */
    int32_t color;
    int32_t key;
    uint64_t time;
};

/* Written by the rank alone; entries alternate with the step's parity, so that one step can be read while the next is
 * written. `step` and `host_step` publish what was written before. */
struct shared_rank {
    _Alignas(64) _Atomic uint64_t step;
    _Atomic uint64_t host_step;
    struct description description[2];
    struct host_word host[2];
    uint64_t process; /* with `device`: two ranks on one device are an error */
    int32_t device;
    uint64_t time;
};

/* From one rank to another; one chunk in flight. `written` publishes the chunk, `read` gives it back. */
struct mailbox {
    _Alignas(64) _Atomic uint64_t written;
    _Atomic uint64_t read;
    uint64_t bytes; /* of the message; with its first chunk */
    uint32_t datatype;
    uint64_t sender_ready;
    uint64_t receiver_ready;
};

struct shared {
    _Atomic uint32_t bell;     /* a futex; rung after every change */
    _Atomic uint32_t sleepers; /* who may sleep on it */
    _Atomic uint32_t joined;   /* ranks that have mapped the segment and told who they are */
    _Atomic uint32_t failed;   /* ranks did not do the same: nothing goes on */
    struct shared_rank ranks[];
};

struct segment {
    struct shared *_Atomic shared; /* set last, by the init job */
    size_t bytes;
    int ranks;
};

/* Sizes of the staging buffers. */
#define NCCL_SLOT_BYTES ((size_t)256 << 10)
#define NCCL_MAIL_BYTES ((size_t)64 << 10)

size_t segment_bytes(int ranks);
bool segment_map(struct segment *segment_out, int descriptor, int ranks);
void segment_unmap(struct segment *segment);
char *segment_slot(const struct segment *segment, int rank, int parity);
struct mailbox *segment_mailbox(const struct segment *segment, int from, int to);
char *segment_mail(const struct segment *segment, int from, int to);
void segment_ring(const struct segment *segment);
/* Sleeps until the bell was rung after it read `seen`. */
void segment_sleep(const struct segment *segment, uint32_t seen);

/* Communicators (nccl_comm.c) -------------------------------------------------------------------------------------- */

/* Raised by abort; shared between a parent and children that share its resources. Raising it wakes all watchers: the
 * communicators that use it, and children of a user, whose init it ends. */
struct watch {
    struct ncclComm *comm;
    struct watch *next;
};

struct stop {
    atomic_int references;
    atomic_bool raised;
    pthread_mutex_t lock; /* guards the list; taken before a communicator's lock */
    struct watch *watches;
};

struct user_op {
    bool used;
    ncclDataType_t datatype;
    unsigned char value[8]; /* read at creation */
    const void *device;     /* else read while running */
};

struct ncclComm {
    uint32_t magic;
    atomic_int references; /* the user's, each piece of work's, each job's */
    int rank;
    int ranks;
    int device;
    bool blocking;
    bool share_split;
    bool share_shrink;
    char key[33]; /* of the rendezvous, in hexadecimal; keys of children derive from it */
    struct segment segment;
    struct fake_chain *chain;
    struct stop *stop;        /* abort */
    struct stop *parent_stop; /* aborting the parent ends an init in progress; or NULL */
    struct watch watch;
    struct watch parent_watch;
    atomic_bool revoked; /* ends the data plane only */
    _Atomic int async;   /* ncclResult_t */
    atomic_bool finalized;
    _Atomic uint64_t init_time; /* modelled time of the end of init */
    uint64_t step;              /* data plane; used by the running work only */
    pthread_mutex_t lock;       /* guards what follows */
    pthread_cond_t changed;
    int running;    /* pieces of work inside the data plane */
    int background; /* groups of it alone that go on in another thread */
    uint64_t host_tickets;
    uint64_t host_done;
    int splits;
    int shrinks;
    uint32_t connected; /* kinds that have been used */
    struct user_op ops[NCCL_OPS_MAX];
};

struct ncclComm *comm_new(void);
struct ncclComm *comm_keep(struct ncclComm *comm);
void comm_drop(struct ncclComm *comm);
ncclResult_t comm_check(const struct ncclComm *comm);
/* Also that no earlier nonblocking call is in progress and nothing has failed. */
ncclResult_t comm_check_ready(struct ncclComm *comm);
bool comm_stopped(const struct ncclComm *comm);
/* Whether the data plane must end. */
bool comm_halted(const struct ncclComm *comm);
void comm_ring(const struct ncclComm *comm);
/* Ends the data plane for good and waits until no work is inside. */
void comm_halt(struct ncclComm *comm);
/* The communicator's stop is `parent`'s (shared), or its own and `parent`'s ends its init; before it is used. */
void comm_follow(struct ncclComm *comm, struct ncclComm *parent, bool shared);

/* The host plane: one rendezvous after another, in the order of their tickets (nccl_host.c). */
enum host_what { HOST_PRECONNECT = 1, HOST_SPLIT };
uint64_t host_ticket(struct ncclComm *comm);
/* Exchanges one word with all ranks; words_out has one for each. */
ncclResult_t host_exchange(struct ncclComm *comm, uint64_t ticket, struct host_word word, struct host_word *words_out);

/* All ranks meet under a key; fills comm->segment and waits for all (nccl_rendezvous.c). */
ncclResult_t rendezvous_join(struct ncclComm *comm);
void rendezvous_key(char key_out[33], const void *bytes, size_t count, const char *salt);

/* Work (nccl_group.c, nccl_run.c, nccl_p2p.c) ---------------------------------------------------------------------- */

enum kind {
    KIND_ALL_GATHER,
    KIND_ALL_REDUCE,
    KIND_REDUCE_SCATTER,
    KIND_BROADCAST,
    KIND_REDUCE,
    KIND_ALL_TO_ALL,
    KIND_GATHER,
    KIND_SCATTER,
    KIND_SEND,
    KIND_RECV
};

struct task {
    struct ncclComm *comm;
    enum kind kind;
    const void *send;
    void *recv;
    size_t count;
    ncclDataType_t datatype;
    ncclRedOp_t op;
    struct user_op user_op; /* if `op` is one */
    int root;               /* or the peer */
    cudaStream_t stream;
    uint64_t number; /* of this rank's collectives, from 1; 0: not one */
};

/* Between group start and end; a call outside a group is a group of its own. */
void group_start(void);
ncclResult_t group_end(void);
/* Takes part of the group's result; returns it. */
ncclResult_t group_error(ncclResult_t result);
ncclResult_t group_add(const struct task *task);
/* A job of init: `run` on a thread of its own at the end of the group, then `comm` is ready or has failed. */
ncclResult_t group_add_job(struct ncclComm *comm, ncclResult_t (*run)(void *argument), void *argument);
/* Runs a function on a detached thread. */
void thread_detach(void *(*function)(void *), void *argument);

/* One piece of work: the tasks of one communicator in one group. */
uint64_t collective_run(const struct task *task, uint64_t ready, bool first);
uint64_t p2p_run(const struct task *tasks, int count, uint64_t ready);
uint64_t task_cost_ns(const struct task *task, bool first);
bool task_is_p2p(const struct task *task);
/* Everything stops on this communicator; says why once. */
void comm_fail(struct ncclComm *comm, const char *why);

/* Types and arithmetic (nccl_reduce.c, nccl_float.c) --------------------------------------------------------------- */

size_t datatype_bytes(ncclDataType_t datatype);
/* to[i] = from[0][i] op from[1][i] op ..., in this order. */
void reduce_run(void *to, const void *const *from, int ranks, size_t count, ncclDataType_t datatype, ncclRedOp_t op);
/* to[i] = from[i] * *scalar */
void reduce_scale(void *to, const void *from, size_t count, ncclDataType_t datatype, const void *scalar);
float float_from_bits(uint32_t bits, int exponent_bits, int mantissa_bits);
uint32_t float_to_bits(float value, int exponent_bits, int mantissa_bits);

bool user_op_find(struct ncclComm *comm, ncclRedOp_t op, struct user_op *op_out);

/* Keeps a line for ncclGetLastError and returns `result`. */
ncclResult_t nccl_warn(ncclResult_t result, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
