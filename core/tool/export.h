/*
 * A run as tracks of slices, for viewers of traces. export.c walks the traces; a sink writes one format.
 *
 *   process     a rank
 *     thread    a host thread: steps, in them events (module, phase), in them calls; each from begin to end
 *     stream    what was put on a stream, in order, as instants: a trace has no times of the device
 *     states    state changes, as instants
 *     ahead     a communicator: the gathers that replay issued ahead of their calls, with a flow to the call of each
 *     counters  launches behind each call; of each step the bytes gathered, and the gathers from memory; gathers ahead
 *
 * On a thread's track slices are nested or apart, whatever the trace says: a call ends by the time at which its
 * thread's next one begins, a step and an event at the latest when the next of its kind begins.
 *
 * Times are of the host, ns on one axis for all ranks: that of the wall clock, from the run's earliest start or call
 * on. Ranks on several hosts are as far apart as their clocks.
 *
 * Threads: one at a time.
 */
#ifndef RP_TOOL_EXPORT_H
#define RP_TOOL_EXPORT_H

#include <stdbool.h>

#include "core/compare/timeline.h"
#include "core/tool/export_names.h"
#include "core/tool/export_out.h"
#include "core/tool/progress.h"
#include "core/trace/trace.h"

/* X(enumerator, category of what lies on such a track) */
#define RP_EXPORT_CATEGORIES(X) \
    X(STEP, "step")             \
    X(EVENT, "event")           \
    X(CALL, "call")             \
    X(STREAM, "stream")         \
    X(STATE, "state")           \
    X(AHEAD, "ahead")

enum rp_export_category {
#define X(name, text) RP_EXPORT_##name,
    RP_EXPORT_CATEGORIES(X)
#undef X
        RP_EXPORT_CATEGORY_COUNT
};

/* X(enumerator, name): what is said of a slice; those of a call are named as in `reprise show --csv` */
#define RP_EXPORT_ARGUMENTS(X)      \
    X(OP, "op")                     \
    X(POSITION, "position")         \
    X(BYTES, "bytes")               \
    X(COMMUNICATOR, "communicator") \
    X(GROUP, "group")               \
    X(FLAGS, "flags")               \
    X(LAUNCHES, "launches")         \
    X(FINGERPRINT, "fingerprint")   \
    X(SOURCE, "source")             \
    X(END, "end")                   \
    X(GRID, "grid")                 \
    X(BLOCK, "block")               \
    X(SHARED_BYTES, "shared_bytes") \
    X(WHOLE, "whole")               \
    X(NUMBER, "number")             \
    X(SENDS, "sends")               \
    X(BEHIND, "behind")             \
    X(EXPECTED, "expected")         \
    X(USE, "use")                   \
    X(AHEAD_NS, "ahead_ns")

enum rp_export_argument_name {
#define X(name, text) RP_EXPORT_ARGUMENT_##name,
    RP_EXPORT_ARGUMENTS(X)
#undef X
        RP_EXPORT_ARGUMENT_COUNT
};

struct rp_export_argument {
    enum rp_export_argument_name name;
    const char *text; /* safe, or NULL: it is the number */
    uint64_t number;
};

#define RP_EXPORT_ARGUMENTS_MAX 12

struct rp_export_arguments {
    unsigned count;
    struct rp_export_argument all[RP_EXPORT_ARGUMENTS_MAX];
};

const char *rp_export_category_name(enum rp_export_category category);
const char *rp_export_argument_name(enum rp_export_argument_name name);

/* The kinds of a process's tracks. */
enum rp_export_kind { RP_EXPORT_THREADS, RP_EXPORT_STREAMS, RP_EXPORT_STATES, RP_EXPORT_COUNTERS, RP_EXPORT_AHEADS };

struct rp_export_track {
    uint32_t process; /* number of the rank in the run, from 0 */
    enum rp_export_kind kind;
    uint32_t number;  /* among those of its kind in its process, from 0 */
    const char *name; /* safe */
    const char *unit; /* of a counter */
};

struct rp_export_slice {
    const struct rp_export_track *track;
    enum rp_export_category category;
    uint32_t name; /* in the table of names */
    int64_t begin, end;
    const struct rp_export_arguments *arguments;
    uint64_t flow; /* 0: none; of a gather ahead it begins here, of a call it ends here */
};

struct rp_export;

/* One format. Steps and events are opened and closed, in order of time and with all that is in them between. */
struct rp_export_format {
    void (*begin)(struct rp_export *export);
    void (*process)(struct rp_export *export, uint32_t process, const char *name);
    void (*track)(struct rp_export *export, const struct rp_export_track *track);
    void (*open)(struct rp_export *export, const struct rp_export_slice *slice); /* `end` is not known yet */
    void (*close)(struct rp_export *export, const struct rp_export_track *track, int64_t end);
    void (*call)(struct rp_export *export, const struct rp_export_slice *slice); /* and a gather ahead */
    void (*instant)(struct rp_export *export, const struct rp_export_slice *slice);
    void (*count)(struct rp_export *export, const struct rp_export_track *track, int64_t at, uint64_t value);
    void (*end)(struct rp_export *export);
};

extern const struct rp_export_format rp_export_chrome, rp_export_perfetto;

/* Steps [from, to), from 0; `to` may be beyond the last one. */
struct rp_export_steps {
    size_t from, to;
};

struct rp_export {
    const struct rp_export_format *format;
    struct rp_export_out *out;
    struct rp_export_names *names;
    struct rp_progress *progress;
    uint64_t done;         /* ops, for progress */
    uint64_t base_wall_ns; /* time 0: ns since the epoch */
    uint64_t written;      /* the format's own: events so far, or names */
};

/* Time 0 of an export of the run. */
uint64_t rp_export_base(const struct rp_trace_run *run);

/* One rank, the `process`th of the run. RP_NO_MEMORY. */
enum rp_status rp_export_rank(struct rp_export *export, uint32_t process, const struct rp_trace *trace,
                              const struct rp_timeline *timeline, struct rp_export_steps steps);

/* One op or gather ahead a line, as an object of JSON, an op's with the fields of `show --csv` (README.md).
 * RP_NO_MEMORY. */
enum rp_status rp_export_jsonl(struct rp_export_out *out, struct rp_progress *progress, uint64_t *done,
                               const struct rp_trace *trace, const struct rp_timeline *timeline,
                               struct rp_export_steps steps);

#endif
