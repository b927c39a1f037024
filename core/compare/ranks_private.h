/* What the parts of ranks.h share: ranks_comms.c, ranks_walk.c, ranks_lane.c, ranks_messages.c, ranks_times.c. */
#ifndef RP_RANKS_PRIVATE_H
#define RP_RANKS_PRIVATE_H

#include "core/compare/ranks.h"

/* ---------------------------------------------------------------- ranks_comms.c */

/* Fills ranks, comms, with their members, and indices. RP_NO_MEMORY, RP_UNSUPPORTED. */
enum rp_status rp_ranks_group(const struct rp_trace_run *run, const char *job, struct rp_ranks *ranks);

/* ---------------------------------------------------------------- ranks.c */

/*
 * Adds a finding of that communicator with nothing in it but room for `ops` calls. NULL: no memory. It stays in place
 * until the next one is added.
 */
struct rp_ranks_finding *rp_ranks_add(struct rp_ranks *ranks, size_t comm, unsigned classes, size_t ops);

/* The classes of RP_RANKS_MISMATCH that two calls have; 0: they fit. */
unsigned rp_ranks_differences(const struct rp_op *a, const struct rp_op *b);

/* Nanoseconds since the epoch. */
uint64_t rp_ranks_wall_ns(const struct rp_trace *trace, uint64_t ticks);

/* ---------------------------------------------------------------- ranks_walk.c */

/* Goes through a communicator's positions, from the first on. */
struct rp_ranks_walk {
    const struct rp_ranks_comm *comm;
    uint64_t position;
    const struct rp_trace_op **ops; /* per member its call at the position, or NULL */
    size_t *next;                   /* per member the place in its lane behind the position */
    size_t present;                 /* members that have a call here */
};

/* Stands before the first position. RP_NO_MEMORY. */
enum rp_status rp_ranks_walk_open(const struct rp_ranks_comm *comm, struct rp_ranks_walk *walk_out);
/* False: there is no further position. */
bool rp_ranks_walk_next(struct rp_ranks_walk *walk);
void rp_ranks_walk_close(struct rp_ranks_walk *walk);

/* ---------------------------------------------------------------- the parts, each of one communicator */

/* The collectives. RP_NO_MEMORY. */
enum rp_status rp_ranks_check_lane(struct rp_ranks *ranks, size_t comm);

/* Sends and receives. RP_NO_MEMORY. */
enum rp_status rp_ranks_check_messages(struct rp_ranks *ranks, size_t comm);

/* When ranks issued their collectives, over all communicators. RP_NO_MEMORY. */
enum rp_status rp_ranks_time(struct rp_ranks *ranks);

#endif
