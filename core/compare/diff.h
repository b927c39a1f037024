/*
 * Compares two runs, rank by rank, and returns what differs as data; it prints nothing. pair.h says which ops are
 * compared with which.
 *
 * Threads: pure; the traces are only read.
 */
#ifndef RP_DIFF_H
#define RP_DIFF_H

#include <stdbool.h>

#include "core/trace/trace.h"

/*
 * What is said of an op or a pair of ops: X(enumerator, name). SAME and the ONLY ones stand alone, the others may
 * meet in one pair. RENAMED compares what both sides know: a name that one of them lacks is no difference. RESIZED
 * compares bytes; BYTES compares fingerprints, where both sides have one, of all bytes or of a sample in both, and the
 * signature is equal; LAUNCHES compares the number and the digest of the kernel launches up to the thread's next op,
 * where nothing is lost and those next ops are partners too.
 */
#define RP_DIFF_CLASSES(X)               \
    X(SAME, "same")                      \
    X(ONLY_LEFT, "only left")            \
    X(ONLY_RIGHT, "only right")          \
    X(RESIZED, "other size")             \
    X(DTYPE, "other data type")          \
    X(REDUCTION, "other reduction")      \
    X(ROOT, "other root or peer")        \
    X(RENAMED, "other module or phase")  \
    X(LAUNCHES, "other kernel launches") \
    X(BYTES, "other bytes")

enum rp_diff_class {
#define X(name, text) RP_DIFF_##name,
    RP_DIFF_CLASSES(X)
#undef X
        RP_DIFF_CLASS_COUNT
};

#define RP_DIFF_BIT(class) (1u << (class))
/* The classes that say the sequences of ops differ. */
#define RP_DIFF_STRUCTURE (~(RP_DIFF_BIT(RP_DIFF_SAME) | RP_DIFF_BIT(RP_DIFF_LAUNCHES) | RP_DIFF_BIT(RP_DIFF_BYTES)))

const char *rp_diff_class_name(enum rp_diff_class class);

enum rp_diff_verdict {
    RP_DIFF_ALIKE,      /* no difference */
    RP_DIFF_LEFT_ENDS,  /* the left run ends early and has the same sequence of ops up to there */
    RP_DIFF_RIGHT_ENDS, /* likewise the right one */
    RP_DIFF_DIFFERENT,
};

/* One side of a difference. */
struct rp_diff_side {
    const struct rp_trace *trace;
    const struct rp_trace_op *op; /* NULL: this side has none */
    size_t index; /* of the op in trace->ops; where there is none, one past the last op of the lane before the place */
    const struct rp_trace_comm *comm; /* the lane's communicator on this side, or NULL */
};

/* A place where the runs differ. */
struct rp_diff_point {
    bool found;
    unsigned classes; /* RP_DIFF_BIT()s */
    int32_t rank;
    uint64_t place; /* grows along the unified order of the left rank: the smaller, the earlier */
    struct rp_diff_side left, right;
};

struct rp_diff {
    enum rp_diff_verdict verdict;
    size_t ranks;                                   /* compared */
    size_t ranks_only_left, ranks_only_right;       /* in one run alone; make the runs different */
    uint64_t ops_left, ops_right;                   /* compared: all but allocations */
    uint64_t counts[RP_DIFF_CLASS_COUNT];           /* of pairs, or of ops without a partner */
    uint64_t fingerprints;                          /* pairs whose bytes could be compared */
    uint64_t fingerprints_sampled;                  /* of these, by a sample of them */
    uint64_t fingerprints_unlike;                   /* pairs with one of all bytes and one of a sample */
    uint64_t fingerprints_left, fingerprints_right; /* paired ops that have one */
    /* The first of its kind: of several ranks the one whose place is smallest, then the lowest. */
    struct rp_diff_point structure, launches, bytes;
};

#define RP_DIFF_ALL_RANKS (-1)

/*
 * Compares `rank`, or all. The result points into the runs. RP_NOT_FOUND: no rank of both is compared; RP_NO_MEMORY;
 * RP_UNSUPPORTED (more than 2^30 ops in a rank). Nothing is logged.
 */
enum rp_status rp_diff_runs(const struct rp_trace_run *left, const struct rp_trace_run *right, int32_t rank,
                            struct rp_diff *diff_out);

#endif
