/*
 * REPRISE_ORDER: the trace of this rank in a recorded run, and in it the communicators that those of this run are. Read
 * once, when the first communicator is complete: of the trace's beginning, at most RP_PRESET_BYTES. Nothing is done
 * where the variable is not set.
 *
 * A communicator is that one of the recorded run which came to be in the same way, with as many ranks and this process
 * as the same one of them; the second such is the second there.
 *
 * Threads: any.
 */
#ifndef RP_SHIM_PRESET_H
#define RP_SHIM_PRESET_H

#include "core/replay/replay.h"
#include "core/trace/trace.h"

#define RP_PRESET_BYTES (UINT64_C(32) << 20) /* some 200,000 calls: a fifth of a second */

/* Once, before any communicator. NULL: not asked for. Both must stay valid. */
void rp_preset_configure(const char *directory, struct rp_modules *modules);

/*
 * What was recorded of the communicator, for each one once: fills in `preset` and the two fields that say why there is
 * none. The cause is static per thread.
 */
void rp_preset_find(const struct rp_trace_comm *about, struct rp_replay_options *options);

/* In the child of a fork: forgets all. */
void rp_preset_forked(void);

#endif
