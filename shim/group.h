/*
 * NCCL groups of the calling thread: what is issued inside waits here for the outermost end, in order, where NCCL
 * enqueues it or fails it as one. Holds calls and communicator creations. Threads: each its own.
 */
#ifndef RP_GROUP_H
#define RP_GROUP_H

#include <stdbool.h>

#include "shim/call.h"
#include "shim/comm.h"

/* Each copies its argument. False when memory is out: the caller reports it now. */
bool rp_group_add_call(const struct rp_call *call);
bool rp_group_add_birth(const struct rp_comm_birth *birth);

/* The library whose group it is, while one is open. */
const struct rp_nccl *rp_group_library(void);

/* True if a call of the thread's group waits for its end: later ones wait behind it. */
bool rp_group_holds(void);

/* False once rp_group_release() was called in this group. */
bool rp_group_may_hold(void);

/* The calls that wait are made now, in their order, and none waits any more in this group: none is served. */
void rp_group_release(void);

/*
 * Before the real end of a group: at the outermost one, what replay serves is served, and calls that waited are made.
 * False: REPRISE_STRICT refuses one of them; the group is to end, and then to fail. A group that is only simulated
 * serves nothing.
 */
bool rp_group_prepare(void);
void rp_group_prepare_simulated(void);

/* Told by the hooks of ncclGroupStart, ncclGroupEnd and ncclGroupSimulateEnd, after the real call. */
void rp_group_start(const struct rp_nccl *real, ncclResult_t result);
void rp_group_end(ncclResult_t result);
void rp_group_simulate_end(ncclResult_t result);

/* In the child of a fork: what was issued is the parent's. */
void rp_group_forked(void);

#endif
