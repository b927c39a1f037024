/*
 * What replay says of itself: state changes as they happen, figures of each communicator in the trace, and one line for
 * the job at the exit. Threads: any.
 */
#ifndef RP_GATHER_FIGURES_H
#define RP_GATHER_FIGURES_H

#include <stdint.h>

#include "core/replay/replay.h"

/* A state change of the lane on communicator `number`: into the trace, and a line by the lane's rank 0. */
void rp_figures_tell(uint32_t number, int lane_rank, enum rp_replay_state state, const char *text);

/* The figures of a communicator into the trace. */
void rp_figures_record(uint32_t number, const struct rp_replay_figures *figures);

/* Adds up; cycle times are those of the communicator that keeps most. */
void rp_figures_add(struct rp_replay_figures *total, const struct rp_replay_figures *figures);

/* The line at the exit, by rank 0 of the job. */
void rp_figures_say(const struct rp_replay_figures *total);

#endif
