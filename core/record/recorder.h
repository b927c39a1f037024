/*
 * The recorder: from rings to a trace. Each application thread has one ring; one background thread empties them,
 * folds launches into counts and digests, waits for fingerprints, and writes the trace of this rank.
 *
 * Nothing here is done in a hook but a push into the thread's own ring; the exceptions (first op of a thread, a
 * communicator made or ended) take a short lock.
 *
 * Directory. With `directory` set that name is used, else rank 0 makes reprise-<time>-<its pid> in the working
 * directory and the other ranks look for it. It is made under another name, with the file `job` (the job key) in it,
 * and renamed: so it appears whole. One that exists is joined only if its `job` holds the same key; otherwise the
 * recorder says so in one line and records nothing: an existing directory is never overwritten.
 *
 * Failure (unwritable, full, exists) ends the recording, not the run: one line, and the rings drop.
 */
#ifndef RP_RECORDER_H
#define RP_RECORDER_H

#include "core/record/ring.h"
#include "core/record/seen.h"
#include "core/trace/trace.h"

enum rp_fingerprint_state { RP_FINGERPRINT_PENDING, RP_FINGERPRINT_READY, RP_FINGERPRINT_LOST };

struct rp_recorder_options {
    const char *directory;      /* or NULL; must stay valid */
    struct rp_modules *modules; /* names of rp_op.module; must stay valid */
    /* Mangled name of a launched function, or NULL. Called from the background thread. */
    const char *(*kernel_name)(uint64_t function);
    /* The fingerprint of an op with RP_OP_FINGERPRINTED. Called from the background thread, must not wait. */
    enum rp_fingerprint_state (*fingerprint)(uint32_t comm, uint64_t position, uint64_t value_out[2]);
    /* What rules say of the kernel of that name; asked once a kernel. Called from the background thread. NULL: none. */
    struct rp_kernel_rules (*kernel_rules)(const char *name);
    /* What is noted where calls are issued, or NULL; kernels are noted there too. Must stay valid. */
    struct rp_seen *seen;
    bool single_launches; /* each launch becomes a record too */
    unsigned flush_ms;    /* how long a record may stay in memory; 0: 200 */
};

/* Ready to give out rings. Starts no thread. Call once per process (again after rp_recorder_forked()). */
enum rp_status rp_recorder_start(const struct rp_recorder_options *options);

/* This thread's ring; NULL when not recording. The first op or launch of a thread calls rp_recorder_ring_make(). */
extern _Thread_local struct rp_ring *rp_recorder_my_ring __attribute__((tls_model("initial-exec")));
struct rp_ring *rp_recorder_ring_make(void);
static inline struct rp_ring *rp_recorder_ring(void)
{
    struct rp_ring *ring = rp_recorder_my_ring;
    return __builtin_expect(ring != NULL, 1) ? ring : rp_recorder_ring_make();
}

/*
 * Says who this process is; the background thread then makes or joins the directory. Called at the first
 * collective. `job_key`: the same for all ranks of this job, different for another job. Later calls do nothing.
 */
void rp_recorder_identify(int32_t rank, int32_t nranks, const char *job_key);

/* Copies the description in; written before any op of it. */
void rp_recorder_comm(const struct rp_trace_comm *comm);

/* A state change; `text` may be NULL, is copied and cut at 200 bytes. */
void rp_recorder_state(enum rp_trace_state state, uint32_t comm, const char *text);

/*
 * Empties the rings, waits at most `fingerprint_ms` for fingerprints under way, completes the file and ends the
 * thread. The rings drop from then on. Safe to call more than once, and when nothing was started.
 */
void rp_recorder_stop(unsigned fingerprint_ms);

/* In the child of a fork: forgets rings, thread and file of the parent without writing; may be started anew. */
void rp_recorder_forked(void);

#endif
