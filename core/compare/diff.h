/*
 * Compares two runs, rank by rank, and returns what differs as data; it prints nothing. pair.h says which ops are
 * compared with which.
 *
 * Threads: pure; the traces are only read.
 */
#ifndef RP_DIFF_H
#define RP_DIFF_H

#include <stdbool.h>

#include "core/compare/diff_totals.h"
#include "core/compare/timeline.h"
#include "core/trace/trace_packed.h"

/*
 * What is said of an op or a pair of ops: X(enumerator, name, key). SAME and the ONLY ones stand alone, the others may
 * meet in one pair. MOVED: the pair stands at different places of its step. RENAMED compares what both sides know: a
 * name that one of them lacks is no difference. RESIZED compares bytes; BYTES compares fingerprints, where both sides
 * have one, of all bytes or of a sample in both, and the signature is equal; LAUNCHES compares the number and the
 * digest of the kernel launches up to the thread's next op, where nothing is lost and those next ops are partners too.
 * RETIMED is said of a whole event (diff_totals.h), never of an op, and makes no runs different.
 */
#define RP_DIFF_CLASSES(X)                           \
    X(SAME, "same", "same")                          \
    X(ONLY_LEFT, "only left", "only_a")              \
    X(ONLY_RIGHT, "only right", "only_b")            \
    X(MOVED, "moved", "moved")                       \
    X(RESIZED, "other size", "size")                 \
    X(DTYPE, "other data type", "dtype")             \
    X(REDUCTION, "other reduction", "reduction")     \
    X(ROOT, "other root or peer", "root")            \
    X(RENAMED, "other module or phase", "name")      \
    X(LAUNCHES, "other kernel launches", "launches") \
    X(BYTES, "other bytes", "bytes")                 \
    X(RETIMED, "retimed", "retimed")

enum rp_diff_class {
#define X(name, text, key) RP_DIFF_##name,
    RP_DIFF_CLASSES(X)
#undef X
        RP_DIFF_CLASS_COUNT
};

#define RP_DIFF_BIT(class) (1u << (class))
/* The classes that say the sequences of ops differ. */
#define RP_DIFF_STRUCTURE                                                                            \
    (RP_DIFF_BIT(RP_DIFF_ONLY_LEFT) | RP_DIFF_BIT(RP_DIFF_ONLY_RIGHT) | RP_DIFF_BIT(RP_DIFF_MOVED) | \
     RP_DIFF_BIT(RP_DIFF_RESIZED) | RP_DIFF_BIT(RP_DIFF_DTYPE) | RP_DIFF_BIT(RP_DIFF_REDUCTION) |    \
     RP_DIFF_BIT(RP_DIFF_ROOT) | RP_DIFF_BIT(RP_DIFF_RENAMED))

const char *rp_diff_class_name(enum rp_diff_class class); /* for people */
const char *rp_diff_class_key(enum rp_diff_class class);  /* for programs */

enum rp_diff_verdict {
    RP_DIFF_ALIKE,      /* no difference */
    RP_DIFF_LEFT_ENDS,  /* the left run ends early and has the same sequence of ops up to there */
    RP_DIFF_RIGHT_ENDS, /* likewise the right one */
    RP_DIFF_DIFFERENT,
};

/* One side of a difference. */
struct rp_diff_side {
    bool present; /* false: this side has no such op */
    /* A copy, as far as it is packed; its module is a number of the diff's modules. Not present: of the lane's op
     * before, if its kind is none, there is none. */
    struct rp_op op;
    size_t index;  /* in the trace's ops; not present: one past the last op of the lane before the place */
    size_t step;   /* of that index, from 0 */
    uint32_t comm; /* the lane's communicator on this side, or RP_NO_COMM */
};

/* A place where the runs differ. */
struct rp_diff_point {
    bool found;
    unsigned classes; /* RP_DIFF_BIT()s */
    int32_t rank;
    size_t step;    /* of the place, in the left run, from 0 */
    uint64_t place; /* grows along the unified order of the left rank: of one step the smaller, the earlier */
    struct rp_diff_side left, right;
    /* If LAUNCHES is one of the classes: the first launches in a row, of one event, that differ. */
    struct {
        struct rp_event event; /* its module is a number of the diff's modules */
        uint64_t left, right;  /* how many; 0: there are none of this event */
    } launches;
};

#define RP_DIFF_ALL_STEPS SIZE_MAX

struct rp_diff_options {
    size_t first_step,
        end_step; /* only the steps [first, end) of both, from 0; end RP_DIFF_ALL_STEPS: all from first */
    size_t top;   /* how many differences are listed */
};

struct rp_diff {
    struct rp_diff_options options;
    enum rp_diff_verdict verdict;
    size_t ranks;                                   /* compared */
    size_t ranks_only_left, ranks_only_right;       /* in one run alone; make the runs different */
    uint64_t ops_left, ops_right;                   /* compared: all but allocations */
    uint64_t counts[RP_DIFF_CLASS_COUNT];           /* of pairs, of ops without a partner, or of retimed events */
    uint64_t places;                                /* that differ */
    uint64_t fingerprints;                          /* pairs whose bytes could be compared */
    uint64_t fingerprints_sampled;                  /* of these, by a sample of them */
    uint64_t fingerprints_unlike;                   /* pairs with one of all bytes and one of a sample */
    uint64_t fingerprints_left, fingerprints_right; /* paired ops that have one */
    /* The first of its kind: of several ranks the one whose step and place are smallest, then the lowest. */
    struct rp_diff_point structure, launches, bytes;
    struct rp_diff_point *points; /* the first `top` places of any kind, sorted */
    size_t point_count;
    struct rp_modules *modules; /* of both runs */
    struct rp_diff_totals *totals;
};

/* A diff of nothing yet. The caller frees it. RP_NO_MEMORY. */
enum rp_status rp_diff_create(const struct rp_diff_options *options, struct rp_diff *diff_out);
void rp_diff_free(struct rp_diff *diff);

/*
 * Compares one rank of both runs; ranks come in order. Nothing of the traces is needed after. RP_NO_MEMORY;
 * RP_UNSUPPORTED: more than 2^30 ops.
 */
enum rp_status rp_diff_add(struct rp_diff *diff, const struct rp_packed *left, const struct rp_timeline *left_steps,
                           const struct rp_packed *right, const struct rp_timeline *right_steps);

/* A rank that one run does not have. */
void rp_diff_add_alone(struct rp_diff *diff, bool is_left);

/* After the last rank: the verdict and the totals. RP_NOT_FOUND: no rank of both was compared. RP_NO_MEMORY. */
enum rp_status rp_diff_finish(struct rp_diff *diff);

/* The first difference: of structure if there is one, else of bytes, else of launches. `found` says whether. */
const struct rp_diff_point *rp_diff_first(const struct rp_diff *diff);

#endif
