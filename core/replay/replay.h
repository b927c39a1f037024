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
 * A call's way:   rp_replay_turn() ─► rp_replay_next() ─ step ─► the shim acts, votes ─► rp_replay_done()
 *                                                                                            │
 *                 rp_replay_joins(), rp_replay_child() ◄─ gathers ahead are issued ◄─ rp_replay_fill(), while true
 *
 * Turn is once for a group, before its first call; joins and child are behind its end. Gathers ahead go on a child
 * communicator of the lane's ranks, which the shim joins when it is told to; nothing of ours goes on the lane itself.
 *
 * Threads: by the thread whose turn it is on the communicator; rp_replay_lost() by any.
 */
#ifndef RP_REPLAY_H
#define RP_REPLAY_H

#include "core/agree/agree.h"
#include "core/event.h"
#include "core/op.h"
#include "core/replay/learn.h"
#include "core/plan/plan.h"
#include "core/replay/preset.h"

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
#define RP_SERVES(X)                                                                                \
    X(PASS, "pass")     /* the real call, nothing else */                                           \
    X(STORE, "store")   /* the real call, then its result into slot and snapshot, under `serial` */ \
    X(KEEP, "keep")     /* serve from the slot and vote; on a no the real call, then as STORE */    \
    X(REFUSE, "refuse") /* strict: the call is not made, ncclInvalidUsage */

enum rp_serve {
#define X(name, text) RP_SERVE_##name,
    RP_SERVES(X)
#undef X
};

/* A word of all ranks at a position where nothing is served, for gathers ahead. */
enum rp_word {
    RP_WORD_NONE,
    RP_WORD_WARM,  /* yes: this rank's child has joined; then all warm it, behind this call */
    RP_WORD_COMMIT /* yes: it is ready; then all issue what the plan issues in this cycle */
};

/* A place of a call on the device. */
enum rp_stamp_kind {
    RP_STAMP_BEGIN, /* on its stream, in front of the real call */
    RP_STAMP_END,   /* on its stream, behind the real call, before anything else of ours */
    RP_STAMP_WAIT,  /* on the first other stream that waits for it, when all before that wait has been done */
    RP_STAMP_GO,    /* on that stream, when the wait is over */
    RP_STAMP_KIND_COUNT
};

/* A gather of ours, to be issued on the child communicator now. The same on all ranks. */
struct rp_replay_fill {
    uint32_t entry;    /* of the plan, that it is for */
    uint32_t slot;     /* the whole unit goes there */
    uint32_t snapshot; /* of the plan's snapshots: what this rank sends; RP_NO_SLOT: what it has where it sent the
                          entry's gather from last, copied now */
    uint64_t bytes;    /* of one rank's part */
    uint64_t serial;   /* of the call that it is issued behind; without a snapshot what the slot is stamped with, of one
                          its own serial goes with it */
    uint64_t position; /* where the entry's call is expected */
    uint64_t number;   /* among those of the lane, from 1 */
};

/* What is to be done for one call. */
struct rp_replay_step {
    enum rp_serve serve;
    uint32_t slot;     /* STORE, KEEP: of the whole unit; RP_NO_SLOT: STORE is of the snapshot alone */
    uint32_t snapshot; /* STORE, KEEP: where this rank's part is left after the real call; RP_NO_SLOT: nowhere */
    uint64_t serial;   /* STORE, KEEP: of this op, what slot and snapshot are stamped with after the real call */
    uint64_t expected; /* KEEP: serial that the slot must have */
    uint64_t bytes;    /* of one rank's part */
    uint32_t arming;   /* KEEP, word: for rp_agree_vote() */
    uint64_t position;
    uint64_t digest;      /* KEEP, word: for rp_agree_vote() */
    enum rp_verdict vote; /* KEEP: YES, or the no that this rank must vote whatever the compare says */
    enum rp_word word;    /* voted on: with a KEEP, else by itself behind the real call */
    uint64_t ahead;       /* KEEP: number of the gather of ours that has filled the slot; 0: none has */
    bool packed;          /* STORE, KEEP: the unit goes into the slot packed */
    bool fingerprint;     /* learning wants the content of this gather */
    bool stamp;           /* its BEGIN is wanted: rp_replay_stamp() */
    bool stamp_end;       /* its END, too */
    bool stamp_waits;     /* its WAIT and GO, if another stream waits for it */
    struct rp_name name;  /* as learned: names cost nothing while armed */
    /* Internal to the engine from here on. */
    uint32_t unit;     /* STORE, KEEP: what the slot holds after it */
    uint32_t entry;    /* the one entry of the plan that it is; UINT32_MAX: none or not known */
    bool expected_hit; /* the plan says KEEP or PREFETCH: a miss counts */
    uint32_t follow;   /* the entry of the cycle whose gathers ahead are issued; UINT32_MAX: it is none */
    uint32_t epoch;    /* of the cursor */
    uint64_t moves;
};

/* What came of it, for rp_replay_done(). */
struct rp_replay_result {
    enum rp_verdict verdict; /* KEEP, word: what it said; else YES */
    bool failed;             /* the real call failed: the op is no part of the lane */
    struct rp_name name;     /* as the site gave it while learning */
    uint64_t send;           /* a gather that is learned from: rp_learn_see() */
};

/* For the exit line and the trace. Bytes are of one rank's parts. */
struct rp_replay_figures {
    uint64_t hits, misses, withdrawn, stored, passed; /* gathers while armed, by what was done */
    uint64_t ahead;                                   /* hits that a gather ahead of the call had filled */
    uint64_t packed;                                  /* hits whose slot held the unit packed */
    uint64_t bytes_kept;                              /* not sent by this rank */
    uint64_t divergences, armings;
    uint64_t plain_cycle_ns, replay_cycle_ns; /* medians; 0: not known */
};

struct rp_replay_options {
    bool strict;
    bool trial;          /* gives up where it does not gain */
    bool packs;          /* units may be packed (plan.h); alike on all ranks */
    uint64_t timeout_ns; /* REPRISE_TIMEOUT */
    uint64_t granule;    /* bytes; memory for slots is had in multiples of it; alike on all ranks */
    /* A new id for a child communicator, of rank 0; false: none. NULL: plans have no gathers ahead. */
    bool (*new_id)(void *context, struct rp_replay_id *id_out);
    /* A preset order, taken over by rp_replay_create() whatever comes of it. NULL: why there is none, and for people
     * the same in detail (copied), or NULL. */
    struct rp_preset *preset;
    enum rp_preset_lack preset_lack;
    const char *preset_cause;
};

struct rp_replay;

/* State changes and lines for people leave the engine here; `text` is one clear line without prefix. */
typedef void rp_replay_tell(void *context, enum rp_replay_state state, const char *text);

/*
 * With a preset order (preset.h) the lane is LEARNING, but nothing is learned, until all ranks have agreed to one and
 * are armed, or one rank has none or another; then learning begins.
 *
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

/*
 * Between calls: all ranks are told to join a child communicator (true once, and its id); then whether this one has, or
 * has failed to.
 */
bool rp_replay_joins(struct rp_replay *replay, struct rp_replay_id *id_out);
void rp_replay_child(struct rp_replay *replay, bool joined);

/*
 * True: nothing is issued on the child any more. Once what was issued has ended on this rank's device, it has left:
 * true from where all have, or one has failed; then the child may end.
 */
bool rp_replay_leaves(const struct rp_replay *replay);
bool rp_replay_left(struct rp_replay *replay);

/* After rp_replay_done(): the gathers to be issued now, one after the other; false: no more. All must be issued. */
bool rp_replay_fill(struct rp_replay *replay, struct rp_replay_fill *fill_out);

/* Learning: which gather's fingerprint is due, and here it is. Lost: it will not come, learning starts anew. */
bool rp_replay_due(const struct rp_replay *replay, uint64_t *position_out);
void rp_replay_fingerprint(struct rp_replay *replay, uint64_t position, const uint64_t value[2]);
void rp_replay_fingerprint_lost(struct rp_replay *replay);

/*
 * A stamp that was wanted: nanoseconds of the device since the stamp that came before it, less than none where another
 * stream was behind; 0: not known. In the order in which they were taken; some may never come.
 */
void rp_replay_stamp(struct rp_replay *replay, uint64_t position, enum rp_stamp_kind kind, int64_t ns);

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

/* By the lane's own thread, before each turn from then on: bytes that were to be packed did not fit into that form. As
 * lost, as long as a plan packs; none that is compiled from then on does. */
void rp_replay_unpackable(struct rp_replay *replay);

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
