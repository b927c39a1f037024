/*
 * Checks the ranks of one run against each other and returns what does not fit as data; it prints nothing.
 *
 * A communicator of the run is what its ranks have in common: key, origin, size and, where one rank made several of
 * these, which of them it was. Of each, the collectives at one position are compared over all ranks (kind, bytes, data
 * type, reduction, root), the sends of each rank to each other one with that one's receives, in order, and what
 * all-reduces delivered.
 *
 *     position   0   1   2   3   4
 *     rank 0     A   A   R   A   R        3: collective type mismatch, the first; the rest of the lane is counted
 *     rank 1     A   A   R   R            4: not issued by every rank: rank 1 is behind by 1
 *
 * The classes follow those of PyTorch's Flight Recorder analyzer. Not compared: captured, failed and simulated calls,
 * and calls of no bytes; which module a call was in, but as a hint.
 *
 * Threads: pure; the traces are only read.
 */
#ifndef RP_RANKS_H
#define RP_RANKS_H

#include <stdbool.h>

#include "core/trace/trace.h"

/*
 * What is said of a position, a message or a communicator: X(enumerator, name). TYPE stands alone, SIZE (in bytes) to
 * ROOT may meet. BYTES: an all-reduce of which all ranks have a fingerprint, before the first mismatch of its
 * communicator. UNDECIDED: a rank's trace has lost the call, or may have.
 */
#define RP_RANKS_CLASSES(X)                               \
    X(TYPE, "collective type mismatch")                   \
    X(SIZE, "size mismatch")                              \
    X(DTYPE, "dtype mismatch")                            \
    X(REDUCTION, "reduction mismatch")                    \
    X(ROOT, "root mismatch")                              \
    X(NOT_MADE, "communicator not made by all its ranks") \
    X(MISSING, "not issued by all ranks")                 \
    X(SEND, "send without receive")                       \
    X(RECEIVE, "receive without send")                    \
    X(BYTES, "ranks delivered other bytes")               \
    X(UNDECIDED, "undecided, lost by a trace")

enum rp_ranks_class {
#define X(name, text) RP_RANKS_##name,
    RP_RANKS_CLASSES(X)
#undef X
        RP_RANKS_CLASS_COUNT
};

#define RP_RANKS_BIT(class) (1u << (class))
/* The calls of ranks at one place do not fit. */
#define RP_RANKS_MISMATCH                                                                       \
    (RP_RANKS_BIT(RP_RANKS_TYPE) | RP_RANKS_BIT(RP_RANKS_SIZE) | RP_RANKS_BIT(RP_RANKS_DTYPE) | \
     RP_RANKS_BIT(RP_RANKS_REDUCTION) | RP_RANKS_BIT(RP_RANKS_ROOT))

const char *rp_ranks_class_name(enum rp_ranks_class class);

#define RP_RANKS_NONE SIZE_MAX /* of an index: there is none */

/* A rank of the run that has a trace, and what is known of its times. */
struct rp_ranks_rank {
    const struct rp_trace *trace;
    bool other_run;                 /* its trace is of another run, and not compared */
    uint64_t collectives, messages; /* compared: those with a position; sends and receives */
    const struct rp_trace_op *last; /* the last call of NCCL in the trace, or NULL */
    uint64_t behind, ahead; /* calls that others are ahead, or that it is, on the communicator where it is most */
    uint64_t timed;         /* collectives of which it is known when all ranks issued them */
    uint64_t times_last;    /* of these, those that it was the last to issue */
    double late_ns;         /* of these, the median from the first rank's call to its own */
};

/* One rank of a communicator. */
struct rp_ranks_member {
    size_t rank;                      /* index in rp_ranks.ranks */
    const struct rp_trace *trace;     /* its trace */
    const struct rp_trace_comm *comm; /* of the trace */
    const uint32_t *lane;             /* its collectives by position: indices in trace->ops */
    size_t lane_count;
    const uint32_t *messages; /* its sends and receives in the unified order, likewise */
    size_t message_count;
    uint64_t end; /* one past its last position */
};

struct rp_ranks_comm {
    struct rp_ranks_member *members; /* by their rank in it */
    size_t member_count;
    size_t absent; /* ranks of it that no trace has */
    uint64_t end;  /* one past the last position of any member: its collectives */
};

/* A place where ranks do not fit; the first of its classes on its communicator. */
struct rp_ranks_finding {
    unsigned classes;               /* RP_RANKS_BIT()s */
    size_t comm;                    /* index in rp_ranks.comms */
    uint64_t position;              /* of collectives; of messages which one from `from` to `to`, from 0 */
    uint64_t wall_ns;               /* when the first of its calls was issued, to put findings in order */
    const struct rp_trace_op **ops; /* per member the call, or NULL; all of them NULL for NOT_MADE */
    size_t usual;                   /* the member that has what most have, or RP_RANKS_NONE: no majority */
    size_t from, to;                /* of messages: members, RP_RANKS_NONE if that trace is missing; else both NONE */
    size_t shifted;                 /* the member whose calls fit the others' further on, or RP_RANKS_NONE */
    int64_t shift;                  /* so many calls: > 0: it lacks them, < 0: it has made them besides */
    uint64_t unlike;                /* position from which modules or phases differ, up to here; else `position` */
    const struct rp_trace_op **unlike_ops; /* per member the call there */
};

enum rp_ranks_verdict {
    RP_RANKS_AGREE,
    RP_RANKS_DISAGREE,
    /* nothing that does not fit, but traces are missing, cannot be read, are of another run, or have lost calls */
    RP_RANKS_INCOMPLETE,
};

struct rp_ranks {
    enum rp_ranks_verdict verdict;
    struct rp_ranks_rank *ranks; /* as in the run */
    size_t rank_count;
    const struct rp_trace_unread *unread; /* the run's */
    size_t unread_count;
    int32_t expected;            /* ranks of the run, as far as traces say */
    struct rp_ranks_comm *comms; /* in the order in which they were made */
    size_t comm_count;
    struct rp_ranks_finding *findings; /* the one of the verdict first, then by time */
    size_t finding_count;
    uint64_t counts[RP_RANKS_CLASS_COUNT]; /* of positions, messages and communicators */
    uint64_t collectives;                  /* positions of all communicators */
    uint64_t messages;                     /* sends, or receives where there are more of them */
    uint64_t delivered;                    /* all-reduces whose delivered bytes were compared */
    uint32_t *indices;                     /* what lanes and messages point into */
};

/*
 * `job`: the run's key (run_directory.h), or NULL. The result points into the run. RP_NO_MEMORY; RP_UNSUPPORTED: more
 * than 2^32 - 1 ops in a rank. Nothing is logged.
 */
enum rp_status rp_ranks_compare(const struct rp_trace_run *run, const char *job, struct rp_ranks *ranks_out);
void rp_ranks_free(struct rp_ranks *ranks);

/* Ranks of the run without a trace that is compared. */
size_t rp_ranks_missing(const struct rp_ranks *ranks);

/* True if the finding's member has what most have; where there is no majority, false for all. */
bool rp_ranks_is_usual(const struct rp_ranks_finding *finding, size_t member);

/* True if both calls fit: no class of RP_RANKS_MISMATCH. */
bool rp_ranks_fit(const struct rp_op *a, const struct rp_op *b);

#endif
