/*
 * Replay of one lane: the engine that says, for every counted call on a communicator, what to do with it. It returns
 * data and never calls CUDA or NCCL, never waits, never asks the clock. What it says at a position depends on the
 * lane's calls, the agreed plan and the verdicts read, and on nothing else, so all ranks do the same.
 *
 *                proposal seen         all said yes, position reached         disarmed, withdrawn
 *     LEARNING ────────────────► ARMING ──────────────────────────────► ARMED ───────────────────► RESTING
 *        ▲ ▲                      │  ▲                                                              │  │
 *        │ └──────────── no ──────┘  └───────────────────── proposed again ─────────────────────────┘  │
 *        └─────────────────────────── rank 0 says: learn again ────────────────────────────────────────┘
 *     RESTING ── rank 0 has compared: not faster ──► RESTING
 *     any ── given up by any rank, the communicator ends ──► PASSIVE
 *
 * Rank 0 leads: it alone decides when to propose, to propose again after which rest, to learn again, and says so by
 * proposals; any rank may end an arming (rp_agree_kill) or give the lane up. An arming begins with what follows from
 * plan and calls alone, so ranks that left an earlier one at different positions begin alike.
 *
 * The expected place in the cycle is one entry (the cursor of this lane) or, after a divergence, all entries that fit
 * the calls since then (candidates). Foreign ops (small non-gathers, signatures that the plan does not have) pass by.
 *
 * A call's way:   rp_replay_next() ─ step ─► the shim acts, votes ─► rp_replay_done()
 *
 * Threads: by the thread whose turn it is on the communicator; rp_replay_lost() by any.
 */
#ifndef RP_REPLAY_H
#define RP_REPLAY_H

#include "core/agree/agree.h"
#include "core/event.h"
#include "core/op.h"
#include "core/replay/learn.h"
#include "core/replay/plan.h"

/* X(enumerator, name) */
#define RP_REPLAY_STATES(X) \
    X(PASSIVE, "passive")   \
    X(LEARNING, "learning") \
    X(ARMING, "arming")     \
    X(ARMED, "armed")       \
    X(RESTING, "resting")

enum rp_replay_state {
#define X(name, text) RP_REPLAY_##name,
    RP_REPLAY_STATES(X)
#undef X
};

/* X(enumerator, name): what the shim does with one call. */
#define RP_SERVES(X)                                                                             \
    X(PASS, "pass")     /* the real call, nothing else */                                        \
    X(STORE, "store")   /* the real call, then its result into the slot, under `serial` */       \
    X(KEEP, "keep")     /* serve from the slot and vote; on a no the real call, then as STORE */ \
    X(REFUSE, "refuse") /* strict: the call is not made, ncclInvalidUsage */

enum rp_serve {
#define X(name, text) RP_SERVE_##name,
    RP_SERVES(X)
#undef X
};

/* What is to be done for one call. */
struct rp_replay_step {
    enum rp_serve serve;
    uint32_t slot;
    uint64_t serial;   /* STORE, KEEP: of this op, what the slot is stamped with after the real call */
    uint64_t expected; /* KEEP: serial that the slot must have */
    uint64_t bytes;    /* of one rank's part */
    uint32_t arming;   /* KEEP: for rp_agree_vote() */
    uint64_t position;
    uint64_t digest;       /* KEEP: for rp_agree_vote() */
    enum rp_verdict vote;  /* KEEP: YES, or the no that this rank must vote whatever the compare says */
    bool fingerprint;      /* learning wants the content of this gather */
    bool stamp;            /* the device's time at this op's place in its stream is wanted: rp_replay_stamp() */
    struct rp_event event; /* its name as learned, UNKNOWN if not: names cost nothing while armed */
    bool named;            /* `event` is known; else the shim may look at the site if `fingerprint` or if it records */
    /* Internal to the engine from here on. */
    uint32_t unit;     /* STORE, KEEP: what the slot holds after it */
    uint32_t entry;    /* the one entry of the plan that it is; UINT32_MAX: none or not known */
    bool expected_hit; /* the plan says KEEP: a miss counts */
    uint32_t epoch;    /* of the cursor */
    uint64_t moves;
};

/* What came of it, for rp_replay_done(). */
struct rp_replay_result {
    enum rp_verdict verdict; /* KEEP: what the word said; else YES */
    bool failed;             /* the real call failed: the op is no part of the lane */
    struct rp_event event;   /* its name, as the site gave it while learning */
};

/* For the exit line and the trace. Bytes are of one rank's parts. */
struct rp_replay_figures {
    uint64_t hits, misses, withdrawn, stored, passed; /* gathers while armed, by what was done */
    uint64_t bytes_kept;                              /* not sent by this rank */
    uint64_t divergences, armings;
    uint64_t plain_cycle_ns, replay_cycle_ns; /* medians; 0: not known */
};

struct rp_replay_options {
    bool strict;
    bool trial;          /* gives up where it does not gain */
    uint64_t timeout_ns; /* REPRISE_TIMEOUT */
    uint64_t granule;    /* bytes; memory for slots is had in multiples of it; alike on all ranks */
};

struct rp_replay;

/* State changes and lines for people leave the engine here; `text` is one clear line without prefix. */
typedef void rp_replay_tell(void *context, enum rp_replay_state state, const char *text);

/*
 * For a complete communicator (rp_agree_complete() said RP_OK), in state LEARNING. `table`: shared memory of
 * rp_learn_bytes(), must outlive it, as `agree` must. RP_NO_MEMORY.
 */
enum rp_status rp_replay_create(struct rp_agree *agree, void *table, const struct rp_replay_options *options,
                                rp_replay_tell *tell, void *context, struct rp_replay **replay_out);
void rp_replay_destroy(struct rp_replay *replay);

enum rp_replay_state rp_replay_state(const struct rp_replay *replay);

/*
 * The next counted op of the lane (rp_lane_counts(); op->position is set to the position that it will take), before the
 * real call. Exactly one rp_replay_done() follows each, in order; inside a group several nexts come before their dones.
 */
void rp_replay_next(struct rp_replay *replay, const struct rp_op *op, struct rp_replay_step *step_out);
void rp_replay_done(struct rp_replay *replay, const struct rp_op *op, const struct rp_replay_step *step,
                    const struct rp_replay_result *result);

/* Learning: which gather's fingerprint is due, and here it is. Lost: it will not come, learning starts anew. */
bool rp_replay_due(const struct rp_replay *replay, uint64_t *position_out);
void rp_replay_fingerprint(struct rp_replay *replay, uint64_t position, const uint64_t value[2]);
void rp_replay_fingerprint_lost(struct rp_replay *replay);

/* A stamp that was wanted (step.stamp): nanoseconds of the device since the stamp that came before it; 0: not known. In
 * the order of positions; some may never come. */
void rp_replay_stamp(struct rp_replay *replay, uint64_t position, uint64_t ns);

/*
 * Between two ops, outside any group: proposes (rank 0), answers proposals. `wants_out`: the plan whose slots must be
 * there before this rank can say yes, or NULL; then the shim gets them and calls rp_replay_prepared(). `budget`: bytes
 * that this rank could give to the lane now. Cheap when there is nothing to do.
 */
void rp_replay_turn(struct rp_replay *replay, uint64_t budget, const struct rp_plan **wants_out);
void rp_replay_prepared(struct rp_replay *replay, bool ready);

/* The plan that is armed or was last, NULL if none; and how long a host may wait for a verdict (ns). */
const struct rp_plan *rp_replay_plan(const struct rp_replay *replay);
uint64_t rp_replay_bound_ns(const struct rp_replay *replay);

/* True when no slot will be used any more until the next arming: the shim may free them. */
bool rp_replay_idle(const struct rp_replay *replay);

/* Any thread: a slot's memory is gone; this rank votes no for what needs it, and a smaller budget is agreed. */
void rp_replay_lost(struct rp_replay *replay);

/* The communicator ends or is aborted, and no call is inside: no vote from here on. PASSIVE. */
void rp_replay_end(struct rp_replay *replay);

/*
 * STRICT: the expected and the observed op of the last REFUSE, as one line; and the name of the expected one as learned
 * (RP_MODULE_UNKNOWN: none), which the caller can print. A refused call is no part of the lane, done or not.
 */
const char *rp_replay_refusal(const struct rp_replay *replay);
struct rp_event rp_replay_refused(const struct rp_replay *replay);

void rp_replay_figures(const struct rp_replay *replay, struct rp_replay_figures *figures_out);

#endif
