/*
 * The host channel of one communicator: a POSIX shared memory segment that all its ranks map, with the agreement's
 * words (core/agree) and the learning table (core/replay/learn.h) behind them. Ranks that cannot map the same segment
 * (another host, another /dev/shm) see fewer ranks than the communicator has, and the lane is passive.
 *
 * Name: hash of what the ranks share at creation. 0600. fallocate before the first touch: a failed touch of a full
 * /dev/shm would be SIGBUS. Names that killed ranks have left behind are removed by later ones. MADV_DONTFORK: a child
 * of a fork has no part in it, and may only close it.
 *
 * Threads: one at a time for each channel.
 */
#ifndef RP_CHANNEL_H
#define RP_CHANNEL_H

#include <stdint.h>

#include "core/agree/agree.h"
#include "core/status.h"

struct rp_channel;

/*
 * Before the real creation: opens or makes the segment of `key` (alike on all ranks, different for every communicator
 * of the machine's user), sized for `seats` ranks, and joins (rp_agree_join). Errors are quiet: rp_channel_error() has
 * the cause; the communicator is then passive. RP_UNSUPPORTED, RP_IO, RP_NO_MEMORY, RP_FULL.
 */
enum rp_status rp_channel_open(uint64_t key, uint32_t seats, uint64_t terms, struct rp_channel **channel_out);

/* The real creation has returned on this rank, with any result: the name goes. Idempotent. */
void rp_channel_unlink(struct rp_channel *channel);

struct rp_agree *rp_channel_agree(struct rp_channel *channel);

/*
 * The learning table, for `nranks` ranks: reserved at the first call and after each rp_channel_table_drop(). It holds
 * what ranks wrote before, or zeros if none used it since. NULL: no room in /dev/shm. rp_channel_table_drop() tells
 * that this rank needs it no more; its memory goes back when no rank does. The first call behind a drop may wait for
 * the rank that gives it back, at most 20 ms.
 */
void *rp_channel_table(struct rp_channel *channel);
void rp_channel_table_drop(struct rp_channel *channel);

/* Unmaps; not while anybody may still be inside rp_agree_*(). NULL is allowed. */
void rp_channel_close(struct rp_channel *channel);

/* Why the last call of this thread failed, one clear line without prefix. Static per thread. */
const char *rp_channel_error(void);

#endif
