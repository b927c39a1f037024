/*
 * Traces on disk: one directory a run, one file a rank (`rank-<N>.rpt`), and the file `job` that says whose it is.
 * The format is drawn in core/trace/README.md; this is the interface to it. Contents: names, sizes, times and hashes;
 * never weights, never a pointer but stream handles.
 *
 * Crash-safe: a file is a header and a sequence of blocks, each with its length and hash, appended whole. A reader
 * takes every whole block and says that the rest is missing.
 *
 * Threads: a writer or a trace belongs to one thread at a time.
 */
#ifndef RP_TRACE_H
#define RP_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/event.h"
#include "core/issue.h"
#include "core/op.h"
#include "core/status.h"

#define RP_TRACE_VERSION 3u

/* How a communicator came to be. X(enumerator, name) */
#define RP_COMM_ORIGINS(X) \
    X(INIT, "init")        \
    X(SPLIT, "split")      \
    X(SHRINK, "shrink")

enum rp_comm_origin {
#define X(name, text) RP_COMM_##name,
    RP_COMM_ORIGINS(X)
#undef X
};

/*
 * State changes that a trace keeps. X(enumerator, name). New ones at the end: the number is what a file holds.
 * REPLAY_*: of the communicator named, with a text for people; FIGURES at its end or at exit.
 */
#define RP_TRACE_STATES(X)                                       \
    X(COMM_READY, "communicator ready")                          \
    X(COMM_FINALIZED, "communicator finalized")                  \
    X(COMM_DESTROYED, "communicator destroyed")                  \
    X(COMM_ABORTED, "communicator aborted")                      \
    X(COMM_REVOKED, "communicator revoked")                      \
    X(COMM_ERROR, "communicator reported an error")              \
    X(FINGERPRINTS_OFF, "no fingerprints for this communicator") \
    X(FORKED, "process forked")                                  \
    X(THREADS_LEFT_OUT, "threads whose calls are not recorded")  \
    X(REPLAY_LEARNING, "replay learning")                        \
    X(REPLAY_ARMED, "replay armed")                              \
    X(REPLAY_RESTING, "replay resting")                          \
    X(REPLAY_PASSIVE, "replay passive")                          \
    X(REPLAY_FIGURES, "replay figures")

enum rp_trace_state {
#define X(name, text) RP_STATE_##name,
    RP_TRACE_STATES(X)
#undef X
        RP_STATE_COUNT
};

struct rp_trace_identity {
    int32_t rank;   /* of the run; also the number in the file name */
    int32_t nranks; /* of the run; 0: not known */
    uint64_t pid;
    uint64_t start_wall_ns;
    uint64_t start_ticks;
    uint64_t ticks_per_second; /* estimate; the reader prefers what CLOCK records say */
    char host[64];
    char program[256]; /* command name, for people */
};

#define RP_COMM_NAME_MAX 64
struct rp_trace_comm {
    uint32_t number; /* as in rp_op.comm; counts up from 0 in order of creation */
    int32_t nranks;
    int32_t rank;    /* this process's rank in it */
    uint32_t parent; /* number, or RP_NO_COMM */
    uint64_t key;    /* hash of what its ranks share at creation (unique id, or parent key and color) */
    uint64_t made;   /* ticks */
    enum rp_comm_origin origin;
    char name[RP_COMM_NAME_MAX]; /* the application's own, or "" */
};

/*
 * Where a site was seen. X(enumerator, name). New ones at the end: the number is what a file holds.
 */
#define RP_SITE_SOURCES(X) \
    X(NATIVE, "native")    \
    X(PYTHON, "python")    \
    X(NVTX, "nvtx")        \
    X(KERNEL, "kernel")

enum rp_site_source {
#define X(name, text) RP_SITE_##name,
    RP_SITE_SOURCES(X)
#undef X
        RP_SITE_SOURCE_COUNT
};

/*
 * A frame, a range or a kernel that was seen, and the rules that gave a module, a phase and the beginning of a step
 * there, as "file:section", or "". `count`: the collectives that were under it, of a KERNEL the launches of it; 0: not
 * known.
 */
struct rp_trace_site {
    uint32_t number; /* counts up from 0 */
    enum rp_site_source source;
    uint64_t count;
    const char *text, *where, *module_rule, *phase_rule, *step_rule; /* none of them NULL */
};

/* Launches in a row on one thread, with no op between, that belong to one event. */
struct rp_trace_part {
    struct rp_event event;
    uint64_t count;
    uint64_t digest; /* of all behind the op up to its last one, as in the file's record */
    uint64_t first;  /* ticks of the first one */
    uint32_t op;     /* the op that they follow on their thread: index in the ops, or RP_TRACE_NO_OP */
    uint16_t thread;
};
#define RP_TRACE_NO_OP UINT32_MAX /* before the first op of their thread, or behind one that was lost */

/* A single launch, where the run recorded them. */
struct rp_trace_launch {
    struct rp_event event;
    uint64_t ticks;
    uint64_t kernel; /* hash of the name */
    uint64_t stream;
    uint32_t grid[3];
    uint32_t shared_bytes; /* dynamic shared memory */
    uint32_t op;           /* as in a part */
    uint16_t block[3];
    uint16_t thread;
};

/* A gather of ours ahead of its call. */
struct rp_trace_issue {
    struct rp_issue of;
    uint32_t op; /* that it was served to, which began no earlier: index in the ops; RP_TRACE_NO_OP: none is known */
};

struct rp_trace_used { /* one that was served */
    uint32_t op, issue;
};

/* ---------------------------------------------------------------- writing */

/* Made by rp_trace_spool_create() (trace_writer.h), before it is known where its file goes. */
struct rp_trace_writer;

/*
 * Each adds one record to the block in memory (written by flush, or when the block is full). After a failed write
 * the writer is broken: every later call returns RP_IO and does nothing.
 */
enum rp_status rp_trace_put_comm(struct rp_trace_writer *writer, const struct rp_trace_comm *comm);
enum rp_status rp_trace_put_module(struct rp_trace_writer *writer, uint32_t module, const char *name);
enum rp_status rp_trace_put_op(struct rp_trace_writer *writer, uint32_t thread, const struct rp_op *op);
enum rp_status rp_trace_put_launches(struct rp_trace_writer *writer, uint32_t thread, uint64_t after_begin,
                                     uint64_t count, uint64_t digest);
/*
 * A stretch of which not all launches belong to the op's event, part by part: the first `before` launches were in parts
 * before this one. `count` and `digest` are of the whole stretch as far as it is known, `part` says the event and the
 * ticks of its first launch.
 */
enum rp_status rp_trace_put_part(struct rp_trace_writer *writer, uint32_t thread, uint64_t after_begin, uint64_t count,
                                 uint64_t digest, uint64_t before, const struct rp_trace_part *part);
/* A single launch, after the op with that begin; `launch->op` is not looked at. */
enum rp_status rp_trace_put_launch(struct rp_trace_writer *writer, uint64_t after_begin,
                                   const struct rp_trace_launch *launch);
/* `site->count` is not looked at. Texts are cut at RP_SITE_TEXT_MAX bytes. */
enum rp_status rp_trace_put_site(struct rp_trace_writer *writer, const struct rp_trace_site *site);
enum rp_status rp_trace_put_site_count(struct rp_trace_writer *writer, uint32_t number, uint64_t count);
enum rp_status rp_trace_put_fingerprint(struct rp_trace_writer *writer, uint32_t comm, uint64_t position,
                                        const uint64_t value[2]);
enum rp_status rp_trace_put_kernel(struct rp_trace_writer *writer, uint64_t name_hash, const char *name);
enum rp_status rp_trace_put_state(struct rp_trace_writer *writer, enum rp_trace_state state, uint32_t comm,
                                  uint64_t ticks, const char *text);
enum rp_status rp_trace_put_loss(struct rp_trace_writer *writer, uint32_t thread, uint64_t launches, uint64_t ops,
                                 uint64_t fingerprints);
enum rp_status rp_trace_put_issue(struct rp_trace_writer *writer, const struct rp_issue *issue);
enum rp_status rp_trace_put_issue_use(struct rp_trace_writer *writer, const struct rp_issue_use *use);
enum rp_status rp_trace_put_clock(struct rp_trace_writer *writer, uint64_t ticks, uint64_t wall_ns);

/* Writes the block in memory with one write(2): what is flushed survives a kill of the process. */
enum rp_status rp_trace_flush(struct rp_trace_writer *writer);

/* Bytes in memory that a flush would write. */
size_t rp_trace_pending(const struct rp_trace_writer *writer);

/* Marks the file as complete (unless broken), flushes, closes, frees. NULL is allowed. */
enum rp_status rp_trace_finish(struct rp_trace_writer *writer);

/*
 * Closes the descriptor without writing anything. Frees nothing: it is for the child of a fork, where the parent's
 * writing thread may have left the memory in any state.
 */
void rp_trace_abandon(struct rp_trace_writer *writer);

/* ---------------------------------------------------------------- reading */

/* One op of a trace with what belongs to it. */
struct rp_trace_op {
    struct rp_op op;
    uint64_t fingerprint[2]; /* valid if has_fingerprint */
    uint64_t launch_digest;  /* of names and grids, in order */
    uint32_t launches;       /* of the op's thread after it, before its next op that is no allocation */
    uint16_t thread;
    bool has_fingerprint;
    bool lossy; /* launches of this stretch were lost: count and digest are not whole */
};

struct rp_trace_change { /* a state change */
    enum rp_trace_state state;
    uint32_t comm;
    uint64_t ticks;
    char *text;
};

struct rp_trace_kernel {
    uint64_t hash; /* of the name, as struct rp_trace_launch has it */
    char *name;    /* mangled, cut at RP_KERNEL_NAME_MAX bytes */
};

struct rp_trace {
    struct rp_trace_identity identity;
    struct rp_trace_op *ops; /* sorted by begin: the unified order of this rank */
    size_t op_count;
    struct rp_trace_comm *comms; /* sorted by number */
    size_t comm_count;
    struct rp_trace_change *states;
    size_t state_count;
    struct rp_trace_part *parts; /* of each thread in order */
    size_t part_count;
    struct rp_trace_launch *launches; /* of each thread in order */
    size_t launch_count;
    struct rp_trace_issue *issues; /* sorted by begin */
    size_t issue_count;
    struct rp_trace_used *used; /* sorted by op, of each at most one */
    size_t used_count;
    struct rp_trace_site *sites; /* sorted by number */
    size_t site_count;
    struct rp_trace_kernel *kernels; /* sorted by hash */
    size_t kernel_count;
    struct rp_modules *modules;
    uint64_t lost_launches, lost_ops, lost_fingerprints;
    double ns_per_tick;
    bool clocked;           /* that was measured over the run; else it is an estimate of when the run began */
    uint64_t last_clock;    /* ticks of the last CLOCK record, at most about a second before the end; 0: none */
    bool complete;          /* the writer finished; false: cut short, or still being written */
    uint64_t dropped_bytes; /* bytes at the end that are no whole block */
};

/*
 * Reads one rank's file. Every bound is checked. A file cut anywhere after its header is a good trace that is not
 * complete. RP_IO, RP_CORRUPT (not a trace, or a block whose hash is wrong), RP_TRUNCATED (shorter than a header),
 * RP_VERSION; each logged once with file, offset and cause.
 */
enum rp_status rp_trace_read(const char *file, struct rp_trace **trace_out);

/*
 * The same as rp_trace_read(), of the blocks that begin in the first `most` bytes; the trace is not complete if there
 * are more. Nothing is logged: after an error `cause` (`size` bytes, at least 1) has it, without the file's name.
 * RP_NOT_FOUND: no such file.
 */
enum rp_status rp_trace_read_head(const char *file, uint64_t most, char *cause, size_t size,
                                  struct rp_trace **trace_out);
/* rp_trace_read(), which leaves what it logs in `cause` (`size` bytes, at least 1) too, without the file's name. */
enum rp_status rp_trace_read_cause(const char *file, char *cause, size_t size, struct rp_trace **trace_out);

/*
 * The same in less time and memory, without single launches and without the parts of ops of which the file names none:
 * what was launched behind an op without parts all belongs to the op's event.
 */
enum rp_status rp_trace_read_lean(const char *file, char *cause, size_t size, struct rp_trace **trace_out);

void rp_trace_free(struct rp_trace *trace);

/* The comm of that number, or NULL. */
const struct rp_trace_comm *rp_trace_find_comm(const struct rp_trace *trace, uint32_t number);

/* The mangled name of a kernel, or NULL. */
const char *rp_trace_kernel_name(const struct rp_trace *trace, uint64_t hash);

/* The gather ahead that was served to the op at that index, or NULL. */
const struct rp_trace_issue *rp_trace_issue_of(const struct rp_trace *trace, size_t op);

/* Nanoseconds from the trace's start to `ticks`. */
double rp_trace_ns(const struct rp_trace *trace, uint64_t ticks);

struct rp_trace_file {
    int32_t rank; /* of its name, or, where one file was asked for, of its header */
    char *path;
};

struct rp_trace_files { /* the files of a run */
    struct rp_trace_file *of;
    size_t count; /* sorted by rank */
};

/*
 * `path`: a directory, or one rank's file. For those who do not want all ranks in memory at once. RP_NOT_FOUND: no
 * rank-*.rpt in it. Errors logged once.
 */
enum rp_status rp_trace_files_list(const char *path, struct rp_trace_files *files_out);
void rp_trace_files_free(struct rp_trace_files *files);

#define RP_TRACE_CAUSE_MAX 240 /* bytes of why a file could not be read */

struct rp_trace_unread { /* a file that could not be read */
    int32_t rank;        /* of its name */
    char cause[RP_TRACE_CAUSE_MAX];
};

struct rp_trace_run { /* the traces of a run */
    struct rp_trace **ranks;
    size_t count; /* sorted by rank */
    struct rp_trace_unread *unread;
    size_t unread_count; /* likewise */
};

/*
 * `path`: a directory, or one rank's file. Of several files, those that cannot be read (corrupt, of another version,
 * shorter than a header) are logged and listed as unread; if there are no others, it is the error of the first one.
 * RP_NOT_FOUND: no rank-*.rpt in it. RP_NO_MEMORY. Errors logged once.
 */
enum rp_status rp_trace_run_read(const char *path, struct rp_trace_run *run_out);

/* The same; `watch` hears how many of the files have been read, before each. */
enum rp_status rp_trace_run_read_watched(const char *path, void (*watch)(void *argument, size_t done, size_t total),
                                         void *argument, struct rp_trace_run *run_out);
void rp_trace_run_free(struct rp_trace_run *run);

#endif
