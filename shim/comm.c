#include "shim/comm.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HASH_NONFATAL_OOM 1
#define XXH_INLINE_ALL
#include <uthash.h>
#include <xxhash.h>

#include "core/clock.h"
#include "core/log.h"
#include "shim/gather.h"
#include "shim/gpu.h"
#include "shim/hook.h"
#include "shim/job.h"
#include "shim/pause.h"
#include "shim/runtime.h"

/* The serial of the fingerprint of the op at a position. Written before the op is in its thread's ring. */
struct serial_of_position {
    _Atomic uint64_t position, serial;
};

struct rp_comm {
    ncclComm_t handle;
    const struct rp_nccl *real; /* of the library that made it */
    struct rp_trace_comm about; /* constant once ready */
    struct rp_lane lane;
    _Atomic(struct rp_fingerprints *) fingerprints;
    struct rp_gather *gather;           /* or NULL; constant from its creation to its end */
    _Atomic uint32_t inside;            /* calls that are at its fingerprints or its gather now */
    _Atomic bool ended;                 /* no more calls may begin with them */
    _Atomic bool let_go;                /* by the end, or by the last call that was inside then */
    struct serial_of_position *serials; /* RP_FINGERPRINTS, by position; set before fingerprints */
    bool nonblocking;
    _Atomic bool ready, failed; /* each is told once */
    _Atomic uint64_t steps; /* steps of annotations that began before its last call; relaxed: each tells itself apart */
    _Atomic uint32_t splits, shrinks; /* children made so far: part of a child's key */
    UT_hash_handle hh;                /* by handle; only live ones are in the table */
};

/* Communicators by number, in chunks that never move. */
#define CHUNK 64u
#define CHUNKS 1024u

static struct {
    pthread_rwlock_t lock; /* over live and count; chunks are published by release */
    struct rp_comm *live;
    uint32_t count;
    _Atomic(struct rp_comm *) chunks[CHUNKS];
} comms = {.lock = PTHREAD_RWLOCK_INITIALIZER};

/* An end waits this long at most for a call of another thread that replay holds: a tenth of a second. */
#define LEAVE_NS 100000
#define LEAVE_WAITS 1000

static _Atomic bool identified;

struct rp_lane *rp_comm_lane(struct rp_comm *comm)
{
    return &comm->lane;
}

bool rp_comm_takes_step(struct rp_comm *comm, uint64_t steps)
{
    if (atomic_load_explicit(&comm->steps, memory_order_relaxed) == steps)
        return false;
    return atomic_exchange_explicit(&comm->steps, steps, memory_order_relaxed) != steps;
}

uint32_t rp_comm_number(const struct rp_comm *comm)
{
    return comm->about.number;
}

int rp_comm_size(const struct rp_comm *comm)
{
    return comm != NULL ? comm->about.nranks : 0;
}

int rp_comm_rank(const struct rp_comm *comm)
{
    return comm->about.rank;
}

bool rp_comm_healthy(const struct rp_comm *comm)
{
    ncclResult_t error = ncclSuccess;
    if (comm->real->ncclCommGetAsyncError == NULL)
        return true;
    return comm->real->ncclCommGetAsyncError(comm->handle, &error) == ncclSuccess && error == ncclSuccess;
}

static struct rp_fingerprints *fingerprints_of(struct rp_comm *comm)
{
    /* pairs with the release in fingerprints_start(), which may run on another thread */
    return atomic_load_explicit(&comm->fingerprints, memory_order_acquire);
}

/* Once, when it has ended and nobody is inside. */
static void let_go(struct rp_comm *comm)
{
    if (!atomic_load(&comm->ended) || atomic_load(&comm->inside) != 0 || atomic_exchange(&comm->let_go, true))
        return;
    struct rp_fingerprints *fingerprints = fingerprints_of(comm);
    if (fingerprints != NULL)
        rp_fingerprints_release(fingerprints);
    rp_gather_close(comm->gather);
}

/*
 * An end may come from another thread in the middle of a call: either the call sees that the communicator has ended, or
 * the end sees the call and leaves what it uses to it, so a later communicator never shares it.
 */
static bool enter(struct rp_comm *comm)
{
    atomic_fetch_add(&comm->inside, 1);
    if (!atomic_load(&comm->ended))
        return true;
    atomic_fetch_sub(&comm->inside, 1);
    let_go(comm);
    return false;
}

static void leave(struct rp_comm *comm)
{
    atomic_fetch_sub(&comm->inside, 1);
    let_go(comm);
}

struct rp_gather *rp_comm_gather_enter(struct rp_comm *comm)
{
    if (comm == NULL || comm->gather == NULL || !enter(comm))
        return NULL;
    if (rp_gather_follows(comm->gather))
        return comm->gather;
    leave(comm);
    return NULL;
}

void rp_comm_gather_leave(struct rp_comm *comm)
{
    leave(comm);
}

static void serial_keep(struct rp_comm *comm, uint64_t position, uint64_t serial)
{
    struct serial_of_position *entry = &comm->serials[position % RP_FINGERPRINTS];
    /* a reader of the entry's former position sees either that it is gone, or the former serial */
    atomic_store(&entry->position, RP_NO_POSITION);
    atomic_store(&entry->serial, serial);
    atomic_store(&entry->position, position);
}

bool rp_comm_fingerprint_take(struct rp_comm *comm, cudaStream_t stream, const void *data, uint64_t bytes,
                              uint64_t every, uint64_t position)
{
    uint64_t serial;
    struct rp_fingerprints *fingerprints = fingerprints_of(comm);
    if (fingerprints == NULL || !enter(comm))
        return false;
    bool taken = rp_fingerprints_take(fingerprints, stream, data, bytes, every, &serial);
    if (taken)
        serial_keep(comm, position, serial);
    leave(comm);
    return taken;
}

/* False: the entry belongs to another position by now. */
static bool serial_of(struct rp_comm *comm, uint64_t position, uint64_t *serial_out)
{
    struct serial_of_position *entry = &comm->serials[position % RP_FINGERPRINTS];
    bool before = atomic_load(&entry->position) == position;
    *serial_out = atomic_load(&entry->serial);
    return before && atomic_load(&entry->position) == position;
}

static struct rp_comm *comm_by_number(uint32_t number)
{
    if (number >= CHUNK * CHUNKS)
        return NULL;
    struct rp_comm *chunk = atomic_load_explicit(&comms.chunks[number / CHUNK], memory_order_acquire);
    return chunk != NULL ? &chunk[number % CHUNK] : NULL;
}

struct rp_comm *rp_comm_find(ncclComm_t handle)
{
    struct rp_comm *comm = NULL;
    pthread_rwlock_rdlock(&comms.lock);
    HASH_FIND_PTR(comms.live, &handle, comm);
    pthread_rwlock_unlock(&comms.lock);
    return comm;
}

uint64_t rp_comm_key_init(const ncclUniqueId *ids, int id_count, int nranks)
{
    uint64_t key = XXH3_64bits_withSeed("init", 4, (uint64_t)nranks);
    bool usable = ids != NULL && id_count <= nranks;
    for (int i = 0; usable && i < id_count; i++)
        key = XXH3_64bits_withSeed(&ids[i], sizeof ids[i], key);
    return key;
}

uint64_t rp_comm_key_all(int nranks)
{
    uint64_t words[] = {(uint64_t)getpid(), rp_wall_ns(), rp_ticks(), (uint64_t)nranks};
    return XXH3_64bits(words, sizeof words);
}

static uint64_t child_key(const struct rp_comm *parent, const char *how, uint32_t ordinal, const int *data, int count)
{
    uint64_t key = parent != NULL ? parent->about.key : 0;
    key = XXH3_64bits_withSeed(how, strlen(how), key);
    key = XXH3_64bits_withSeed(&ordinal, sizeof ordinal, key);
    return XXH3_64bits_withSeed(data, sizeof *data * (size_t)(count > 0 ? count : 0), key);
}

uint64_t rp_comm_key_split(struct rp_comm *parent, int color)
{
    uint32_t ordinal = parent != NULL ? atomic_fetch_add(&parent->splits, 1) : 0;
    return child_key(parent, "split", ordinal, &color, 1);
}

static int compare_int(const void *a, const void *b)
{
    int x = *(const int *)a, y = *(const int *)b;
    return (x > y) - (x < y);
}

uint64_t rp_comm_key_shrink(struct rp_comm *parent, const int *excluded, int excluded_count)
{
    uint32_t ordinal = parent != NULL ? atomic_fetch_add(&parent->shrinks, 1) : 0;
    bool usable = excluded != NULL && excluded_count > 0 && excluded_count < rp_comm_size(parent);
    int count = usable ? excluded_count : 0;
    int *sorted = malloc(sizeof *sorted * (size_t)(count + 1));
    if (sorted == NULL)
        return child_key(parent, "shrink", ordinal, excluded, count);
    if (count > 0)
        memcpy(sorted, excluded, sizeof *sorted * (size_t)count);
    qsort(sorted, (size_t)count, sizeof *sorted, compare_int);
    uint64_t key = child_key(parent, "shrink", ordinal, sorted, count);
    free(sorted);
    return key;
}

void rp_comm_announce(struct rp_comm_birth *birth, int seats)
{
    birth->gather = seats > 0 ? rp_gather_announce(birth->key, (uint32_t)seats, !birth->nonblocking) : NULL;
}

void rp_comm_unborn(struct rp_comm_birth *birth)
{
    rp_gather_arrived(birth->gather);
    rp_gather_close(birth->gather);
    birth->gather = NULL;
}

/* ncclConfig_t grows with versions; its first member says how large the caller's is (nccl.h). */
#define CONFIG_HAS(config, member) \
    ((config) != NULL && (config)->size >= offsetof(ncclConfig_t, member) + sizeof(config)->member)

void rp_comm_birth_blocking(struct rp_comm_birth *birth, const ncclConfig_t *config)
{
    birth->nonblocking = CONFIG_HAS(config, blocking) && config->blocking == 0;
}

void rp_comm_birth_child_blocking(struct rp_comm_birth *birth, const struct rp_comm *parent, const ncclConfig_t *config)
{
    if (parent == NULL)
        return;
    rp_comm_birth_blocking(birth, config);
    if (!CONFIG_HAS(config, blocking) || config->blocking == NCCL_CONFIG_UNDEF_INT)
        birth->nonblocking = parent->nonblocking;
}

void rp_comm_birth_name(struct rp_comm_birth *birth, const ncclConfig_t *config)
{
    birth->name[0] = '\0';
#if NCCL_VERSION_CODE >= 22700
    if (!CONFIG_HAS(config, commName) || config->commName == NULL)
        return;
    strncpy(birth->name, config->commName, sizeof birth->name - 1);
    birth->name[sizeof birth->name - 1] = '\0';
#else
    (void)config;
#endif
}

/* A place for one more, without a handle yet; NULL when memory or numbers are out. Under the write lock. */
static struct rp_comm *comm_add(void)
{
    uint32_t number = comms.count;
    if (number >= CHUNK * CHUNKS)
        return NULL;
    struct rp_comm *chunk = atomic_load_explicit(&comms.chunks[number / CHUNK], memory_order_relaxed);
    if (chunk == NULL) {
        chunk = calloc(CHUNK, sizeof *chunk);
        if (chunk == NULL)
            return NULL;
        /* pairs with the acquire in comm_by_number() */
        atomic_store_explicit(&comms.chunks[number / CHUNK], chunk, memory_order_release);
    }
    comms.count = number + 1;
    struct rp_comm *comm = &chunk[number % CHUNK];
    comm->about.number = number;
    return comm;
}

/* Out of the table. Under the write lock. */
static void comm_drop(ncclComm_t handle, const struct rp_comm *only)
{
    struct rp_comm *there = NULL;
    HASH_FIND_PTR(comms.live, &handle, there);
    if (there != NULL && (only == NULL || there == only))
        HASH_DEL(comms.live, there);
}

static struct rp_comm *comm_publish(const struct rp_comm_birth *birth, ncclResult_t result)
{
    pthread_rwlock_wrlock(&comms.lock);
    struct rp_comm *comm = comm_add();
    if (comm != NULL) {
        comm->handle = *birth->handle;
        comm->real = birth->real;
        comm->about.nranks = birth->nranks;
        comm->about.rank = birth->rank;
        comm->about.parent = birth->parent;
        comm->about.key = birth->key;
        comm->about.made = rp_ticks();
        comm->about.origin = birth->origin;
        memcpy(comm->about.name, birth->name, sizeof comm->about.name);
        comm->gather = birth->gather;
        comm->nonblocking = birth->nonblocking || result == ncclInProgress; /* the environment can say so too */
        rp_lane_init(&comm->lane);
        comm_drop(comm->handle, NULL); /* one whose end we did not see: it is dead */
        HASH_ADD_PTR(comms.live, handle, comm);
    }
    pthread_rwlock_unlock(&comms.lock);
    return comm;
}

/* Ordinal of its device; -1: not known. */
static int device_of(const struct rp_comm *comm)
{
    int device = -1;
    if (comm->real->ncclCommCuDevice == NULL || comm->real->ncclCommCuDevice(comm->handle, &device) != ncclSuccess)
        return -1;
    return device;
}

static void fingerprints_start(struct rp_comm *comm, int device)
{
    struct rp_fingerprints *fingerprints = NULL;
    if (device < 0)
        return;
    if (!rp_fingerprints_configured()) {
        rp_recorder_state(RP_STATE_FINGERPRINTS_OFF, comm->about.number, "REPRISE_FINGERPRINT is off");
        return;
    }
    comm->serials = calloc(RP_FINGERPRINTS, sizeof *comm->serials);
    if (comm->serials == NULL)
        return;
    for (size_t i = 0; i < RP_FINGERPRINTS; i++)
        atomic_init(&comm->serials[i].position, RP_NO_POSITION);
    if (rp_fingerprints_acquire(device, &fingerprints) == RP_OK) {
        /* pairs with the acquire in fingerprints_of() */
        atomic_store_explicit(&comm->fingerprints, fingerprints, memory_order_release);
        return;
    }
    static _Atomic bool said;
    if (!atomic_exchange(&said, true))
        rp_log_job(RP_LOG_WARN, "gpu", "no fingerprints, bytes of runs can't be compared: %s", rp_gpu_error());
    rp_recorder_state(RP_STATE_FINGERPRINTS_OFF, comm->about.number, rp_gpu_error());
}

/* Size and rank of a child: the call that made it did not tell. */
static void ask_size(struct rp_comm *comm)
{
    int nranks = 0, rank = -1;
    if (comm->real->ncclCommCount == NULL || comm->real->ncclCommUserRank == NULL)
        return;
    comm->real->ncclCommCount(comm->handle, &nranks);
    comm->real->ncclCommUserRank(comm->handle, &rank);
    pthread_rwlock_wrlock(&comms.lock); /* rp_comm_identify() reads those of all */
    comm->about.nranks = nranks;
    comm->about.rank = rank;
    pthread_rwlock_unlock(&comms.lock);
}

/* Its creation is complete: who is in it is known, and our work on its device can be set up. */
static void comm_complete(struct rp_comm *comm)
{
    if (comm->about.nranks == 0)
        ask_size(comm);
    rp_run_announce(comm->about.rank);
    int device = device_of(comm);
    fingerprints_start(comm, device);
    rp_recorder_comm(&comm->about);
    rp_recorder_state(RP_STATE_COMM_READY, comm->about.number, NULL);
    rp_gather_start(comm->gather, &comm->about, device, !comm->nonblocking);
}

/* Once; not beside its end on another thread. */
static void comm_ready(struct rp_comm *comm)
{
    if (atomic_load_explicit(&comm->ready, memory_order_relaxed) || atomic_exchange(&comm->ready, true) || !enter(comm))
        return;
    comm_complete(comm);
    leave(comm);
}

void rp_comm_born(const struct rp_comm_birth *birth, ncclResult_t result)
{
    struct rp_comm *comm = NULL;
    rp_gather_arrived(birth->gather);
    if (rp_nccl_accepted(result) && birth->handle != NULL && *birth->handle != NULL)
        comm = comm_publish(birth, result);
    if (comm == NULL)
        rp_gather_close(birth->gather);
    if (comm != NULL && result == ncclSuccess)
        comm_ready(comm);
}

void rp_comm_async(ncclComm_t handle, ncclResult_t error)
{
    if (error == ncclInProgress)
        return;
    struct rp_comm *comm = rp_comm_find(handle);
    if (comm == NULL)
        return;
    if (error == ncclSuccess)
        comm_ready(comm);
    else if (!atomic_exchange(&comm->failed, true))
        rp_recorder_state(RP_STATE_COMM_ERROR, comm->about.number, NULL);
}

/* For who waits in a call of another thread: it leaves at once. */
static void await_leaving(const struct rp_comm *comm)
{
    for (int i = 0; i < LEAVE_WAITS && atomic_load(&comm->inside) != 0; i++)
        rp_pause_ns(LEAVE_NS);
}

void rp_comm_ended(ncclComm_t handle, enum rp_trace_state how)
{
    struct rp_comm *comm = rp_comm_find(handle);
    if (comm == NULL)
        return;
    rp_recorder_state(how, comm->about.number, NULL);
    rp_gather_end(comm->gather, how == RP_STATE_COMM_ABORTED);
    if (how != RP_STATE_COMM_DESTROYED && how != RP_STATE_COMM_ABORTED)
        return;
    pthread_rwlock_wrlock(&comms.lock);
    comm_drop(handle, comm); /* by another thread it may have ended already, and the handle be a new one's */
    pthread_rwlock_unlock(&comms.lock);
    atomic_store(&comm->ended, true);
    await_leaving(comm);
    let_go(comm);
}

void rp_comm_identify(void)
{
    struct rp_trace_comm largest = {.rank = -1};
    if (atomic_load_explicit(&identified, memory_order_relaxed))
        return;
    pthread_rwlock_rdlock(&comms.lock);
    for (const struct rp_comm *comm = comms.live; comm != NULL; comm = comm->hh.next)
        if (comm->about.nranks > largest.nranks)
            largest = comm->about;
    pthread_rwlock_unlock(&comms.lock);
    /* without one there is no key that tells this job from another: a later op will do */
    if (largest.nranks == 0 || atomic_exchange(&identified, true))
        return;
    struct rp_job job = rp_job_read();
    char key[160];
    rp_job_key(largest.key, largest.nranks, key, sizeof key);
    rp_recorder_identify(job.rank >= 0 ? job.rank : largest.rank, job.nranks > 0 ? job.nranks : largest.nranks, key);
}

enum rp_fingerprint_state rp_comm_fingerprint_read(uint32_t number, uint64_t position, uint64_t value_out[2])
{
    struct rp_comm *comm = comm_by_number(number);
    const struct rp_fingerprints *fingerprints = comm != NULL ? fingerprints_of(comm) : NULL;
    uint64_t serial;
    if (fingerprints == NULL || !serial_of(comm, position, &serial))
        return RP_FINGERPRINT_LOST;
    return rp_fingerprints_read(fingerprints, serial, value_out);
}

void rp_comm_forked(void)
{
    pthread_rwlock_init(&comms.lock, NULL);
    comms.live = NULL;
    comms.count = 0;
    for (size_t i = 0; i < CHUNKS; i++)
        atomic_store(&comms.chunks[i], NULL);
    atomic_store(&identified, false);
}
