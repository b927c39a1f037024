/*
 * What the two files of serving share: gather_life.c (from the announcement to the end) and gather.c (the calls
 * between).
 */
#ifndef RP_GATHER_PRIVATE_H
#define RP_GATHER_PRIVATE_H

#include "shim/channel.h"
#include "shim/gather.h"
#include "shim/slots.h"

struct rp_gather {
    struct rp_gather *next; /* of those that have an engine, for the report */
    struct rp_channel *channel;
    struct rp_replay *replay;
    struct rp_slots *slots;
    const char *why_not; /* it has no channel; NULL: it has */
    char channel_error[160];
    uint32_t number; /* of the communicator */
    int rank;
    int device;
    uint64_t expected; /* position of the next call, and how many of a group are asked about and not done */
    uint64_t ahead;
    bool has_slots;
    unsigned turns; /* since the start, and the budget as it was asked last */
    uint64_t budget;
    bool late; /* a slot was not settled at the bound: others of the group are not waited for as long again */
    _Atomic bool following; /* calls go through the engine */
    _Atomic bool ending;    /* no more waits */
};

/* Constant once the first communicator is announced. */
extern struct rp_gather_options rp_gather_options;

#endif
