/*
 * What the files of serving share: gather_life.c (from the announcement to the end), gather.c (the calls between) and
 * gather_ahead.c (the child communicator).
 */
#ifndef RP_GATHER_PRIVATE_H
#define RP_GATHER_PRIVATE_H

#include <pthread.h>

#include "shim/channel.h"
#include "shim/child.h"
#include "shim/gather.h"
#include "shim/slots.h"

/* Where the application sent a gather from last; 0 bytes: nowhere, or from within what it received. */
struct rp_gather_send {
    const void *address;
    uint64_t bytes;
};

struct rp_gather {
    struct rp_gather *next; /* of those that have an engine, for the report */
    struct rp_channel *channel;
    struct rp_replay *replay;
    struct rp_slots *slots;
    const struct rp_nccl *real;   /* of the library that the last call went to */
    struct rp_child *child;       /* or NULL */
    pthread_mutex_t child_lock;   /* over the pointer, for rp_gather_cut_child() */
    enum rp_child_state told;     /* of the child, to the engine */
    bool joined;                  /* it was told to join a child that not all have left */
    struct rp_gather_send *sends; /* by entry of the plan that gathers ahead */
    size_t send_count;
    const char *why_not; /* it has no channel; NULL: it has */
    char channel_error[160];
    uint32_t number; /* of the communicator */
    int rank;
    int device;
    uint64_t expected; /* position of the next call, and how many of a group are asked about and not done */
    uint64_t ahead;
    bool has_slots;
    bool watched;   /* who waits for its ops is timed (waits.h) */
    unsigned turns; /* since the start, and the budget as it was asked last */
    uint64_t budget;
    bool late; /* a slot was not settled at the bound: others of the group are not waited for as long again */
    _Atomic bool following; /* calls go through the engine */
    _Atomic bool ending;    /* no more waits */
    _Atomic bool aborted;   /* what is under way on the device never ends by itself */
};

/* Gathers ahead (gather_ahead.c) ----------------------------------------------------------------------------------- */

/*
 * The child is joined when all ranks are told to, and the engine told how it goes. Behind calls, outside any group:
 * what NCCL is asked for within one of the application's would be part of it, and that group's end would wait for ranks
 * that wait for it.
 */
void rp_gather_look_after_child(struct rp_gather *gather);

/* With a plan's slots: room for where each of its gathers is sent from. */
void rp_gather_expect_sends(struct rp_gather *gather, const struct rp_plan *plan);
/* Of a call that came in. */
void rp_gather_note_send(struct rp_gather *gather, const struct rp_call *call);
/* What learning is told of it (rp_learn_see()): its name, or 0. */
uint64_t rp_gather_name_send(const struct rp_gather *gather, const struct rp_call *call);

/* Can this rank do what a yes to the word asks for? */
bool rp_gather_can(const struct rp_gather *gather, enum rp_word word);

/*
 * What all ranks issue behind this call: whoever is here has said that it can. Behind a gather it waits for that one's
 * stream, the clock that the plan goes by; a reduction's stream stands still for what is computed long after.
 */
void rp_gather_issue(struct rp_gather *gather, const struct rp_call *call);

/* For the trace: a gather of ours was served to the call at hand. */
void rp_gather_note_use(const struct rp_gather *gather, const struct rp_replay_step *step);

/* By any thread: the communicator is aborted, and a call that stands in its child comes out. */
void rp_gather_cut_child(struct rp_gather *gather);

/* Its end; the lane has none any more. At most a second (child.h). */
void rp_gather_drop_child(struct rp_gather *gather);
void rp_gather_ahead_forked(void);

/* From here on it is timed or not. */
void rp_gather_watch(struct rp_gather *gather, bool watched);

/* Constant once the first communicator is announced. */
extern struct rp_gather_options rp_gather_options;

#endif
