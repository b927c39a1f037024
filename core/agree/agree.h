/*
 * Agreement of the ranks of one communicator, as pure data in memory that all of them share: who is there, how far
 * each has come, what is proposed, and one decision word a lane position. No waiting here, no clock, no system call:
 * every function takes a bounded number of steps (compare-and-swap retries are bounded by the other ranks' changes of
 * one word) and returns what is true now. The shim polls (shim/gather.h), the explorer in tests/explore drives the very
 * same code.
 *
 * All zero is the initial state; nobody initialises. The memory is the same on all ranks, mapped anywhere.
 *
 * What must hold (the explorer checks it):
 *   - (same)    if one rank that reads a position of an arming reads YES, so do all; of the no verdicts all read the
 *               same one, or plain NO where the arming is dead;
 *   - (all)     YES only if every rank voted yes with the same digest;
 *   - (dead)    nobody has a YES at or behind the arming's dead_from;
 *   - (recycle) a word is used again only when every rank has passed the position that used it before, the place of an
 *               arming only when every rank has left the arming that used it before.
 *
 * Why.
 *   One word: of one position's states only OPEN is ever swapped for another, so the first final state that the word
 * takes stays, and whoever reads it reads that one. (recycle) keeps it there until the last rank has read it: the swap
 * that begins a new epoch follows a look at every rank's `passed`, which a rank moves only when it has read.
 *   YES is made by the swap that brings the votes to nranks. Each rank votes once, so it holds a vote of every rank,
 * and each of those swaps compared the digest with the one that is in the word.
 *   dead_from is only ever lowered by a rank C to a position that C has not voted at (rp_agree: `voted` says up to
 * where it has), and C votes at none behind it from then on, because it looks at dead_from before each vote and
 * dead_from never rises. So a YES at or behind dead_from would lack C's vote, and a rank that says NO at a dead
 * position without looking at the word contradicts nobody's YES. That covers a killed lane, a word that is not free, a
 * withdrawal (C withdrew or read it) and a rank that died (a peer withdraws). A position is voted in at most one
 * arming, and the digest in the word is salted by the arming: votes of two armings never add up.
 *
 * Memory orders. All loads acquire, all stores release, all swaps both (agree_atomic.h); less is needed:
 *   - what is said above of one word, or of one arming's dead_from, follows from that word's own modification order;
 *     C's kill before C's later looks is program order (or the lock that let the hook of an abort in);
 *   - `passed`: C reads a word, then releases `passed`; who acquires that and swaps the word comes after C's read, so C
 *     cannot have read the new epoch; `left` and the place of an arming alike, which is made anew before the release of
 *     `proposals`;
 *   - `published`, `proposals`, `here`: data first, then the release; pairs with the acquire of the readers.
 * No argument needs two variables to be seen in one order by a third rank, so none needs sequential consistency.
 *
 * Threads: each rank's functions from one thread at a time, except rp_agree_kill().
 */
#ifndef RP_AGREE_H
#define RP_AGREE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/status.h"

/* X(enumerator, text). All but OPEN are final. Only YES serves; every other one is a no. */
#define RP_VERDICTS(X)                                          \
    X(OPEN, "open")                                             \
    X(YES, "yes")                                               \
    X(NO, "no")                                                 \
    X(WITHDRAWN, "a rank waited longer than the bound")         \
    X(DISARM_SLOWER, "replay is not faster than the plain run") \
    X(DISARM_BUDGET, "memory was given back")                   \
    X(BROKEN, "ranks disagree on the order")

enum rp_verdict {
#define X(name, text) RP_VERDICT_##name,
    RP_VERDICTS(X)
#undef X
        RP_VERDICT_COUNT
};

const char *rp_verdict_text(enum rp_verdict verdict);
static inline bool rp_verdict_disarms(enum rp_verdict verdict)
{
    return verdict == RP_VERDICT_DISARM_SLOWER || verdict == RP_VERDICT_DISARM_BUDGET;
}

#ifndef RP_AGREE_WORDS       /* the explorer sets less */
#define RP_AGREE_WORDS 1024u /* decision words: how far two ranks may be apart */
#define RP_AGREE_ARMINGS 64u /* armings that some rank may not have left; each has its own word and dead_from */
#endif
#define RP_AGREE_RANKS 512u /* more: passive */
#define RP_NO_ARMING UINT32_MAX

/* What a proposal asks for. */
enum rp_proposal_kind {
    RP_PROPOSE_ARM,
    RP_PROPOSE_LEARN, /* to learn again, from `at` on */
    RP_PROPOSE_JOIN,  /* to join the child communicator */
    RP_PROPOSE_DROP,  /* to learn, from `at` on, where a preset order is followed */
};

/* A proposal of the lane's rank 0: what to replay and from where. Written once, before it is published. */
struct rp_proposal {
    uint64_t kind;     /* enum rp_proposal_kind */
    uint64_t from, to; /* positions of the learning data that the plan is compiled from */
    uint64_t plan;     /* hash of the plan */
    uint64_t at;       /* position from which the plan holds */
    uint64_t budget;   /* bytes a rank; the least of all */
    uint64_t cycle_ns; /* plain cycle; the largest of all */
    /* What a transfer takes (plan.h), as rank 0 measured it. Both 0: the plan is compiled without times. */
    uint64_t link_latency_ns, link_ns_per_mib;
    uint64_t packs;    /* units may be packed: 1, or 0 */
    uint64_t recorded; /* ARM: hash of the recorded calls that the plan is compiled from; 0: learned ones */
};

struct rp_agree_shared; /* the memory; laid out in agree_shared.h */

struct rp_agree {
    struct rp_agree_shared *shared;
    uint32_t seats;  /* that the memory is sized for: alike on all ranks */
    uint32_t seat;   /* of this rank, given by rp_agree_join() in the order of arrival */
    uint32_t nranks; /* known when complete */
    uint32_t rank;
    uint64_t voted; /* this rank has voted at no position from here on; kept by rp_agree_vote() */
};

/* Bytes of the shared memory for at most `seats` ranks. At most 1 MiB up to RP_AGREE_RANKS. */
size_t rp_agree_bytes(uint32_t seats);

/* ---------------------------------------------------------------- presence */

/*
 * Registers this rank, before its real creation of the communicator; never taken back. `terms`: hash of version, mode,
 * options that must be alike, blocking. `token`: random for this process, so that two ranks in one process are seen.
 * RP_FULL: more came than there are seats. RP_INVALID: no seats, or more than RP_AGREE_RANKS.
 */
enum rp_status rp_agree_join(struct rp_agree *agree, struct rp_agree_shared *shared, uint32_t seats, uint64_t terms,
                             uint64_t token);

/*
 * The real creation has completed on this rank, so all ranks have joined or never will: is every rank here, on the
 * same terms, each in a process of its own? RP_OK sets nranks and rank and publishes which rank sits here.
 * RP_NOT_FOUND: fewer than all; RP_FULL: more than all (left by another run); RP_VERSION: other terms; RP_UNSUPPORTED:
 * two in one process; RP_INVALID: no such rank. Every rank that had a seat gets the same answer.
 */
enum rp_status rp_agree_complete(struct rp_agree *agree, uint32_t nranks, uint32_t rank);

/* ---------------------------------------------------------------- what ranks tell one another */

/* X(field): one word of each rank, written by it, read by all. */
#define RP_AGREE_FIELDS(X)                                                               \
    X(passed)     /* every position below it is behind this rank: reads included */      \
    X(left)       /* it will touch no arming below it any more */                        \
    X(published)  /* learning data of every position below it is in the table */         \
    X(budget)     /* bytes that it could give to this lane now, plus 1; 0: not told */   \
    X(cycle_ns)   /* its plain cycle */                                                  \
    X(child)      /* how it stands with the child communicator: enum rp_child_of_rank */ \
    X(recorded)   /* calls of a recorded lane whose content is in the table */           \
    X(order)      /* which recorded order it has (preset.h); 0: not told */              \
    X(unpackable) /* 1: bytes that it was to pack did not fit */

/* The order matters: where the least is JOINED and none has FAILED, all have joined. */
enum rp_child_of_rank {
    RP_CHILD_OF_RANK_NONE,
    RP_CHILD_OF_RANK_IDLE, /* it issues nothing there any more, and what it issued has ended */
    RP_CHILD_OF_RANK_JOINED,
    RP_CHILD_OF_RANK_FAILED
};

#define X(field)                                                       \
    void rp_agree_set_##field(struct rp_agree *agree, uint64_t value); \
    uint64_t rp_agree_least_##field(const struct rp_agree *agree);     \
    uint64_t rp_agree_largest_##field(const struct rp_agree *agree);
RP_AGREE_FIELDS(X)
#undef X

/* The lane is given up for good by any rank (always fresh, too many armings): all stop learning. Monotone. */
void rp_agree_give_up(struct rp_agree *agree);
bool rp_agree_given_up(const struct rp_agree *agree);

/* ---------------------------------------------------------------- proposals */

/* By rank 0 only, one at a time. The number of the arming, or RP_NO_ARMING: some rank has not left old ones yet. */
uint32_t rp_agree_propose(struct rp_agree *agree, const struct rp_proposal *proposal);

/* How many proposals there are: one cheap load. The latest is number count - 1. */
uint32_t rp_agree_proposals(const struct rp_agree *agree);
void rp_agree_proposal(const struct rp_agree *agree, uint32_t arming, struct rp_proposal *proposal_out);

/* This rank's answer to it, once, while its own position is below `at` (else it must say no). */
void rp_agree_answer(struct rp_agree *agree, uint32_t arming, bool yes);

/* At or behind `at`: closes an open one to NO, and says what all read. Nobody waits. */
enum rp_verdict rp_agree_armed(struct rp_agree *agree, uint32_t arming);

/* ---------------------------------------------------------------- a lane position */

/*
 * This rank's vote at `position`, once: YES, or the no that it wants (NO, DISARM_*). `digest`: of everything that must
 * be alike (lane digest, plan, expected serial); folded to the bits that fit. Returns what the word says after it:
 * OPEN, or final. A word that is not free, or a position at or behind dead_from: NO, and the word is not touched (the
 * former lowers dead_from to the position). A digest unlike that of an earlier vote: BROKEN, and the arming is dead
 * behind the position. Positions rise from vote to vote; several may be voted at before the first is read (a group).
 * A position above 2^34 - 1: NO on all ranks.
 */
enum rp_verdict rp_agree_vote(struct rp_agree *agree, uint32_t arming, uint64_t position, uint64_t digest,
                              enum rp_verdict vote);

/* After the vote: what the word says now. NO once the arming is dead at the position. */
enum rp_verdict rp_agree_read(struct rp_agree *agree, uint32_t arming, uint64_t position);

/* After the vote, at the bound: tries to close the word as WITHDRAWN and returns what it says then; if that is
 * WITHDRAWN, here or in any other function, the arming is dead behind the position, or, where this rank has voted
 * further on already, behind that. Never OPEN. */
enum rp_verdict rp_agree_withdraw(struct rp_agree *agree, uint32_t arming, uint64_t position);

/*
 * This rank will vote at no further position from `from` on: lowers dead_from to the first of these that it has not
 * voted at. Called by the owner of the lane's position, or by the hook of an abort when nobody is inside.
 */
void rp_agree_kill(struct rp_agree *agree, uint32_t arming, uint64_t from);
bool rp_agree_dead(const struct rp_agree *agree, uint32_t arming, uint64_t position);

#endif
