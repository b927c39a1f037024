/*
 * The engine's state, shared by its files:
 *   replay.c          the contract: next, done, turn; the states
 *   replay_plan.c     the plan, and where the lane stands in it
 *   replay_arming.c   proposals, answers, the way in and out of an arming; what rank 0 decides
 *   replay_preset.c   a preset order, from the first call to the first arming
 *   replay_serve.c    armed: what is done with an op, what a verdict changes
 *   replay_ahead.c    gathers of ours: when all ranks issue them, what is believed of what they fill
 *   replay_timing.c   do no harm: cycles plain and armed; the device's clock
 *   replay_times.c    what plans with gathers ahead go by: gaps and the link, measured
 *   replay_cursor.h   where the lane stands in the plan
 *
 * Threads: as replay.h says; `lost` is the one field that others write.
 */
#ifndef RP_REPLAY_PRIVATE_H
#define RP_REPLAY_PRIVATE_H

#include <stdatomic.h>

#include "core/replay/replay.h"
#include "core/replay/replay_cursor.h"
#include "core/steps/cycle.h"

/* One op of the lane as it passed; the last of them are kept in a ring. */
struct rp_past {
    uint64_t signature;
    uint64_t ns[RP_STAMP_KIND_COUNT]; /* of the device, by enum rp_stamp_kind; 0: not known, or not yet */
    struct rp_name name;
};

/* What gathers ahead are planned by. All zero: not known. */
struct rp_measured {
    uint64_t *gap_ns; /* of the items of the plan's range; NULL: no link either */
    struct rp_plan_link_model link;
};

/* How far it has come with a preset order; replay_preset.c draws it. */
enum rp_preset_state { RP_PRESET_OFF, RP_PRESET_TOLD, RP_PRESET_AGREED, RP_PRESET_ARMED };

struct rp_preset_follow {
    struct rp_preset *calls; /* NULL: this rank has none, or none any more */
    enum rp_preset_state state;
    size_t at;                     /* the recorded call that comes next */
    bool fits;                     /* all calls so far were the recorded ones */
    char why[RP_PRESET_CAUSE_MAX]; /* not */
    size_t to;                     /* rank 0: the calls that plans are compiled from; 0: not known yet */
    struct rp_step *steps;         /* rank 0: of the recorded calls */
    size_t step_count;
    uint64_t began; /* the lane's position where its cycles begin; UINT64_MAX: it is not known */
};

/* What all ranks believe of a slot. The device checks it by the serial. */
struct rp_slot_belief {
    uint32_t unit;   /* RP_NO_UNIT: nothing that can be named */
    uint32_t busy;   /* steps on it whose done has not come */
    uint64_t serial; /* position of the op that filled it */
    uint64_t ahead;  /* number of the gather of ours that did; 0: none */
};

/* Gathers ahead: which cycle they are issued in, and how far it has come; begins all zero. */
struct rp_ahead {
    bool warmed;         /* in this arming: every rank has warmed its child */
    bool follows;        /* all ops since the cycle began are the plan's, one by one */
    bool committed;      /* all ranks have said yes where the cycle began */
    uint32_t next;       /* entry that follows */
    uint32_t refused;    /* words in a row that were a no */
    uint32_t issue, end; /* in plan.issues: due now */
    uint32_t entry;      /* that they are due behind, and its op's position */
    uint64_t position;
};

struct rp_missed {
    uint32_t entry, slot;
    uint64_t position;
};

/* Why an arming ended, and so what rank 0 does next. */
enum rp_rest {
    RP_REST_WITHDRAWN,
    RP_REST_ENDED, /* another rank ended it */
    RP_REST_FAILED,
    RP_REST_COMPARE, /* with the cycles of the rest */
    RP_REST_SLOWER,
    RP_REST_CHILD, /* gathers ahead can't be issued */
    RP_REST_BUDGET,
    RP_REST_MISSES,
    RP_REST_ORDER
};

/* One arming, from its first position on; begins all zero. */
struct rp_armed {
    uint64_t ops;         /* of the plan, since the cycle began */
    bool diverged;        /* in this cycle */
    bool answered;        /* a vote has come to a verdict: the host is no longer far ahead of the device */
    uint64_t cycle;       /* number of the cycle, from RP_FIRST_CYCLE */
    uint64_t hits;        /* in this cycle */
    uint32_t good_cycles; /* in a row: whole, and gathers were served in them */
    uint64_t looked;      /* the cycle in which the order was looked at last */
    uint64_t looked_hits; /* of the cycles since */
    uint64_t misses;      /* of KEEP entries in this cycle */
    uint32_t bad_cycles;  /* in a row: more than a tenth missed */
    size_t run_count;     /* misses in a row, not counted yet: what is behind them says what they were */
    enum rp_verdict end;  /* a verdict that disarms at the next cycle; OPEN: none */
};
#define RP_FIRST_CYCLE 2u /* `missed_in` is 0 for never */

#define RP_TRIAL_CYCLES 8u

/* Where the time of a plain cycle is from. */
enum rp_plain {
    RP_PLAIN_LEARNING, /* calls that were learned from; more may come */
    RP_PLAIN_LEARNED,  /* the same, and the first arming has begun */
    RP_PLAIN_UNKNOWN,  /* the same, and no cycle could be timed while the lane rested */
    RP_PLAIN_RESTED    /* cycles that passed untouched while it rested */
};

/* Of the latest cycles; begins all zero. */
struct rp_times {
    uint64_t ns[RP_TRIAL_CYCLES];
    uint32_t count;
};

/* A cycle that runs, from any place on; begins all zero. */
struct rp_lap {
    bool runs;
    struct rp_cursor_mark mark; /* where it began */
};

struct rp_trial {
    uint64_t plain_ns; /* median; 0: not known */
    enum rp_plain plain;
    bool began;     /* a cycle runs */
    uint32_t whole; /* cycles since the arming, the first included */
    struct rp_times armed;
    bool passed; /* over: not slower */
    struct rp_lap lap;
    bool rested; /* a cycle has passed since the arming ended */
    struct rp_times rest;
};

/* What ends where a stamp was asked for. */
enum rp_span { RP_SPAN_NONE, RP_SPAN_ARMED, RP_SPAN_REST };

struct rp_stamp {
    uint64_t position, from; /* of the span: its ends */
    uint32_t stretch;
    enum rp_span span;
};

/* Device times that were asked for and are under way; begins all zero. */
#define RP_STAMPS 32u
struct rp_stamps {
    struct rp_stamp ring[RP_STAMPS];
    uint32_t asked, come;
    uint32_t stretch;               /* number of the arming or rest that runs */
    uint64_t last_asked, last_come; /* positions */
    uint64_t clock_ns;              /* at the one that came last; begins at the first */
    uint64_t front_ns;              /* the same, of those in front of an op */
    bool wanted;                    /* at the op at hand */
};

/* What rank 0 decides by. */
struct rp_leader {
    enum rp_rest rest;
    uint64_t rested, rest_until; /* positions: where the rest began, how far it goes at least */
    uint32_t withdrawals;        /* without a good cycle between; whatever interrupts an arming counts as one */
    uint32_t failed;             /* proposals in a row that did not come to an arming */
    uint32_t slower, relearned;
    bool joining, joined;          /* ranks are told to join the child; all have */
    uint64_t join_until;           /* position */
    uint64_t join_budget;          /* of the plan that waits for it */
    bool alone;                    /* no gathers ahead any more */
    uint64_t missed;               /* in the last cycle */
    uint64_t tried_from, tried_to; /* range of the last attempt to compile */
    uint64_t since;                /* position at which learning began */
};

struct rp_replay {
    struct rp_agree *agree;
    struct rp_learn *learn; /* NULL once passive */
    struct rp_replay_options options;
    rp_replay_tell *tell;
    void *context;
    enum rp_replay_state state;

    /* the lane */
    uint64_t next;           /* position of the next op */
    uint64_t passed;         /* every position below it is done */
    uint64_t pending;        /* nexts whose done has not come */
    uint64_t digest, folded; /* of all ops done; of those and the pending ones */
    struct rp_past *past;    /* by position modulo past_count */
    size_t past_count;       /* a power of two */

    /* learning, or a preset order */
    struct rp_preset_follow preset;
    bool feeding;              /* ops go to `learn` */
    enum rp_replay_state calm; /* LEARNING or RESTING: where a failed arming goes back to */
    uint64_t told_budget;

    /* the plan, and what it was compiled from */
    struct rp_plan plan;
    uint64_t from, to; /* equal: no plan */
    uint64_t recorded; /* not 0: of a recorded lane, and this is their hash */
    struct rp_learned *items;
    struct rp_measured measured;
    struct rp_name *names; /* of the entries, as learned */
    struct rp_cursor cursor;
    struct rp_slot_belief *slots;
    struct rp_slot_belief *snapshots; /* of this rank's parts */
    uint8_t *issued;                  /* by entry: it is issued in the committed cycle */
    uint64_t filled;                  /* digest of all that was issued on this child, in order */
    uint64_t fills;                   /* gathers ahead so far, of all children */
    uint64_t *missed_in;              /* by entry: the cycle that it missed in last */
    struct rp_missed *run;            /* room for every entry */
    uint32_t last_keep;               /* the last entry of the cycle that is voted on */

    /* the arming */
    uint32_t arming;
    uint32_t seen; /* proposals */
    struct rp_proposal proposal;
    bool asked; /* the shim gets slots */
    bool joins; /* it is told to join the child */
    struct rp_armed armed;
    struct rp_ahead ahead;
    struct rp_trial trial;
    struct rp_stamps stamps;
    struct rp_leader leader;
    struct rp_replay_figures figures;
    _Atomic bool lost; /* set by rp_replay_lost(), read and cleared by the lane's thread */
    char refusal[160];
    struct rp_event refused;
};

/* replay.c */
bool rp_replay_enter(struct rp_replay *replay, enum rp_replay_state state, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void rp_replay_give_up(struct rp_replay *replay, const char *why);
static inline struct rp_past *rp_past_at(const struct rp_replay *replay, uint64_t position)
{
    return &replay->past[position & (replay->past_count - 1)];
}

/* True while the ring still has what passed at `position`, which is below `next`. */
static inline bool rp_past_has(const struct rp_replay *replay, uint64_t position)
{
    return position < replay->next && replay->next - position <= replay->past_count;
}

/* Not in a plan: SMALL (cycle.h). */
static inline bool rp_learned_is_small(const struct rp_learned *item)
{
    return rp_cycle_is_small((enum rp_op_kind)item->kind, item->bytes);
}

/* Positions of one cycle, small ops included. */
static inline uint64_t rp_cycle_positions(const struct rp_replay *replay)
{
    return replay->plan.end - replay->plan.first;
}

/* replay_plan.c: the plan and what hangs on it */
enum rp_status rp_replay_compile(struct rp_replay *replay, uint64_t from, uint64_t to, uint64_t budget,
                                 const struct rp_proposal *proposal);
/* No rank has found what can't be packed. */
bool rp_replay_may_pack(const struct rp_replay *replay);
void rp_replay_drop_plan(struct rp_replay *replay);
void rp_replay_place(struct rp_replay *replay);
void rp_replay_find_last_keep(struct rp_replay *replay);

/* replay_times.c: RP_NO_MEMORY; the caller frees what they give out. Make: by this rank, RP_NOT_FOUND: no cycle yet. */
enum rp_status rp_measured_make(const struct rp_replay *replay, const struct rp_learned *items, uint64_t from,
                                uint64_t to, struct rp_measured *measured_out);
enum rp_status rp_measured_read(const struct rp_replay *replay, const struct rp_proposal *proposal,
                                struct rp_measured *measured_out);
bool rp_measured_wanted(const struct rp_replay *replay); /* of what is learned */
enum rp_status rp_measured_copy(const struct rp_measured *measured, size_t count, struct rp_measured *measured_out);

/* replay_preset.c */
void rp_preset_begin(struct rp_replay *replay);
void rp_preset_free(struct rp_replay *replay);
bool rp_preset_leads(const struct rp_replay *replay); /* no arming has begun yet, and nothing is learned meanwhile */
void rp_preset_see(struct rp_replay *replay, const struct rp_op *op, uint64_t signature, struct rp_replay_step *step);
void rp_preset_fail(struct rp_replay *replay); /* a call has failed */
void rp_preset_turn(struct rp_replay *replay);
void rp_preset_lead(struct rp_replay *replay);                  /* rank 0 */
void rp_preset_drop(struct rp_replay *replay, const char *why); /* `why`: for people; learning begins */
bool rp_preset_reached(struct rp_replay *replay);               /* the arming may begin; false: it is killed */
/* Is such a range one of recorded calls? Then these are its items, before `to`, and their hash: RP_NOT_FOUND. */
bool rp_preset_reads(const struct rp_replay *replay, uint64_t from, uint64_t to, const struct rp_proposal *proposal);
enum rp_status rp_preset_read(const struct rp_replay *replay, uint64_t to, struct rp_learned *items,
                              uint64_t *hash_out);
struct rp_name rp_preset_name(const struct rp_replay *replay, uint64_t position);

/* replay_arming.c */
bool rp_arming_budget(const struct rp_replay *replay, uint64_t *budget_out);    /* true, once all ranks have told */
void rp_arming_propose(struct rp_replay *replay, uint64_t budget, uint64_t at); /* the plan at hand */
void rp_arming_turn(struct rp_replay *replay, const struct rp_plan **wants_out);
void rp_arming_prepared(struct rp_replay *replay, bool ready);
void rp_arming_reached(struct rp_replay *replay);               /* its first position */
void rp_arming_end(struct rp_replay *replay, enum rp_rest why); /* from the next position on */

/* replay_serve.c: armed */
void rp_serve_step(struct rp_replay *replay, const struct rp_op *op, uint64_t signature, struct rp_replay_step *step);
void rp_serve_done(struct rp_replay *replay, const struct rp_replay_step *step, const struct rp_replay_result *result);

/* replay_serve.c, for words too: what all ranks must vote alike on at the step's position */
uint64_t rp_serve_digest(const struct rp_replay *replay, const struct rp_replay_step *step);

/* replay_ahead.c */
void rp_ahead_begin(struct rp_replay *replay);                                                /* an arming begins */
void rp_ahead_see(struct rp_replay *replay, uint64_t signature, struct rp_replay_step *step); /* any op, in any state */
void rp_ahead_ask(struct rp_replay *replay, struct rp_replay_step *step); /* armed, at an entry: is there a word? */
void rp_ahead_done(struct rp_replay *replay, const struct rp_replay_step *step, const struct rp_replay_result *result);
void rp_ahead_stored(struct rp_replay *replay, const struct rp_replay_step *step); /* by a real gather: its snapshot */
void rp_ahead_missed(struct rp_replay *replay, const struct rp_replay_step *step); /* a new generation of the unit */
bool rp_ahead_counts(const struct rp_replay *replay); /* the cycle that runs is as the plan wants it */
bool rp_ahead_busy(const struct rp_replay *replay);   /* gathers are to be issued yet, whatever else ends */
void rp_ahead_stop(struct rp_replay *replay);         /* the communicator ends */

/* replay_timing.c */
/* Index of the first item of the cycle that ends before `end`, or SIZE_MAX if the items there are not one. */
size_t rp_cycle_before(const struct rp_replay *replay, size_t end);
void rp_trial_plain(struct rp_replay *replay);                        /* from what was learned */
void rp_trial_begin(struct rp_replay *replay);                        /* an arming begins; before its place is found */
void rp_trial_cycle(struct rp_replay *replay, bool whole);            /* a cycle begins; the last was whole */
bool rp_trial_ends(const struct rp_replay *replay);                   /* it is time to rest, to compare or for good */
bool rp_trial_slower(const struct rp_replay *replay);                 /* armed cycles are not shorter than plain ones */
void rp_trial_rest(struct rp_replay *replay);                         /* the lane rests from here on */
void rp_trial_rest_see(struct rp_replay *replay, uint64_t signature); /* an op while it rests */
void rp_trial_stamp(struct rp_replay *replay, uint64_t position, enum rp_stamp_kind kind, int64_t ns);
bool rp_trial_stamp_wanted(struct rp_replay *replay); /* at the op at hand */
bool rp_trial_take_rest(struct rp_replay *replay);    /* true: the plain cycle is that of the rest from here on */

#endif
