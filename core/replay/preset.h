/*
 * A preset order: the first calls of one lane as a recorded run made them, in place of learning. Each rank has what it
 * recorded itself; the content of a gather is summed over the ranks in the learning table, as that of learned ones is.
 * It says which calls come, what they are named and which gathers repeat. It vouches for no byte: what is served is
 * voted on as ever.
 *
 * Threads: data; one at a time.
 */
#ifndef RP_PRESET_H
#define RP_PRESET_H

#include <stddef.h>
#include <stdint.h>

#include "core/event.h"

/* One position of the lane. */
struct rp_preset_call {
    uint64_t signature;  /* rp_op_signature() */
    uint64_t bytes;      /* rp_op_bytes() */
    uint64_t content[2]; /* of a gather: this rank's own fingerprint, not salted */
    struct rp_name name;
    uint8_t kind;  /* enum rp_op_kind */
    bool packable; /* rp_learned_packable() */
};

struct rp_preset {
    uint64_t key; /* of the recorded communicator: alike on all its ranks, another in each run */
    size_t count; /* at most rp_learn_positions() */
    struct rp_preset_call calls[];
};

/*
 * Why a rank has none: what it tells the others in place of a key (agree.h: `order`), the least of all is the one that
 * is said. X(enumerator, text): "a rank ..."
 */
#define RP_PRESET_LACKS(X)                                         \
    X(UNTOLD, "")                                                  \
    X(NOT_ASKED, "has no REPRISE_ORDER")                           \
    X(SAID, "") /* said for another communicator of the process */ \
    X(NO_TRACE, "has no trace of its own in REPRISE_ORDER")        \
    X(UNREADABLE, "cannot read its trace")                         \
    X(VERSION, "has a trace of another version of Reprise")        \
    X(NRANKS, "has the trace of a run of another number of ranks") \
    X(NO_COMM, "has a trace without this communicator")            \
    X(NO_CONTENT, "has a trace that does not begin with calls and contents")

#define RP_PRESET_CAUSE_MAX 200 /* bytes of the same in detail, for people */

enum rp_preset_lack {
#define X(name, text) RP_PRESET_##name,
    RP_PRESET_LACKS(X)
#undef X
        RP_PRESET_LACK_COUNT
};

#endif
