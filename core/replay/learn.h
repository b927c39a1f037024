/*
 * Learning data of one lane: what happened at its last positions, and of each gather the content summed over all ranks.
 * A rank keeps its own ops here (alike on all ranks) and writes its gathers' fingerprints, salted by rank, into a table
 * that all ranks share; whoever wants the content of a position sums over the table. Times are one rank's, for all.
 *
 * All zero is the table's initial state. Its size is alike on all ranks.
 *
 * Threads: each rank's functions by the thread whose turn it is on the lane.
 */
#ifndef RP_LEARN_H
#define RP_LEARN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/agree/agree.h"
#include "core/op.h"
#include "core/plan/plan.h"
#include "core/status.h"

/* Positions that the table holds: a power of two, at most 16384, and so that all ranks' entries take at most 6 MiB. 0:
 * no ranks, or too many (RP_AGREE_RANKS). */
size_t rp_learn_positions(uint32_t nranks);
size_t rp_learn_bytes(uint32_t nranks);

struct rp_learn;

/*
 * `table`: shared memory of rp_learn_bytes(), or NULL if there is none: then repeats are counted and nothing is
 * published. The caller owns both. RP_NO_MEMORY; RP_UNSUPPORTED: too many ranks; RP_INVALID: no such rank.
 */
enum rp_status rp_learn_create(void *table, uint32_t nranks, uint32_t rank, struct rp_learn **learn_out);
void rp_learn_destroy(struct rp_learn *learn);

/* Forgets all positions; the next one seen is the first, for the other ranks' ranges too. */
void rp_learn_restart(struct rp_learn *learn);

/*
 * The op at the next position (op->position). A gather's content is due after it. A gap, or a gather whose fingerprint
 * is due for as many positions as there are, is a restart. `send`: where this rank sends a gather from, as it likes to
 * name it; 0: from no place that a later gather could be sent from.
 */
void rp_learn_see(struct rp_learn *learn, const struct rp_op *op, uint64_t send);

/* The oldest gather whose fingerprint is due: true and its position. */
bool rp_learn_due(const struct rp_learn *learn, uint64_t *position_out);

/* Its fingerprint (of no other position: ignored): salted and written into the table; then every position below the
 * next due one is published (rp_agree_set_published()). */
void rp_learn_fingerprint(struct rp_learn *learn, struct rp_agree *agree, uint64_t position, const uint64_t value[2]);

/* First position that is still there of all ranks, and the one behind the last that all have published: [from, to);
 * from == to: nothing. Both only grow, but for a restart of this rank. */
void rp_learn_range(const struct rp_learn *learn, const struct rp_agree *agree, uint64_t *from_out, uint64_t *to_out);

/*
 * The data of [from, to) into `items_out` (to - from places). RP_NOT_FOUND, and then what is in them means nothing: not
 * all of it is published, a rank has restarted behind `from`, or is so far ahead that its entries may have been
 * overwritten meanwhile.
 */
enum rp_status rp_learn_read(const struct rp_learn *learn, const struct rp_agree *agree, uint64_t from, uint64_t to,
                             struct rp_learned *items_out);

/*
 * Content that is known from elsewhere, before anything is learned: this rank's part of it, salted and written into the
 * table, where nothing is published of it; and the sum over all ranks, each of which has told that its part is there.
 */
void rp_learn_put(struct rp_learn *learn, uint64_t position, const uint64_t value[2]);
void rp_learn_sum(const struct rp_learn *learn, uint64_t position, uint64_t content_out[2]);

/* What all ranks need to join the child communicator of the lane (NCCL's unique id): rank 0 writes it before the
 * proposal that asks them to. */
struct rp_replay_id {
    unsigned char bytes[128];
};
void rp_learn_set_id(struct rp_learn *learn, const struct rp_replay_id *id);
void rp_learn_id(const struct rp_learn *learn, struct rp_replay_id *id_out);

/*
 * Compute times before the gathers of a range, for all ranks to plan with: rank 0 writes what it proposes, before
 * rp_agree_propose(), in ns, at most UINT32_MAX each; whoever has seen the proposal reads it. They may be those of a
 * later proposal by then, in part: the plan made of them has another hash than the one proposed, or is the same plan.
 */
void rp_learn_set_gaps(struct rp_learn *learn, uint64_t from, uint64_t to, const uint64_t *gap_ns);
void rp_learn_gaps(const struct rp_learn *learn, uint64_t from, uint64_t to, uint64_t *gap_ns_out);

/* Gathers seen since the restart whose content is known here, and how many of them repeated an earlier one of this
 * rank: a lane that is always fresh shows here. */
void rp_learn_repeats(const struct rp_learn *learn, uint64_t *gathers_out, uint64_t *repeats_out);

#endif
