/*
 * The explorer: runs core/agree/agree.c, the very code, through every interleaving of a few ranks.
 *
 *     scenarios.c ── what the ranks may do ──► explore.c ── every move of every state, each state once
 *                                                 │
 *                    program.c ◄── one rank's program ──────────────────────┤
 *                    checks.c  ◄── what must hold ──────────────────────────┤
 *                                                 │
 *                    replayed.c ◄── one access to shared memory further ────┘
 *
 * A state holds the shared memory, each rank's place in its program, and, inside a call, what its accesses to shared
 * memory have returned so far. A rank is moved on by calling the function again from its beginning: the accesses that
 * it has made return what they did, the next one is made, the one after it ends the move (longjmp). So a state is plain
 * data, which is copied, compared and hashed, and every access to shared memory is a point where another rank may go.
 *
 * The memory is sequentially consistent here; agree.h argues the orders. A state is known by a 64-bit hash: of n states
 * one is missed with a probability below n * n / 2^65.
 *
 * Threads: one.
 */
#ifndef RP_EXPLORE_H
#define RP_EXPLORE_H

#include "tests/explore/small.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "core/agree/agree.h"
#include "core/agree/agree_shared.h"

#define EXPLORE_RANKS 3
#define EXPLORE_POSITIONS 8
#define EXPLORE_PROPOSALS 3
#define EXPLORE_ACCESSES 32 /* a call that takes more is a violation: nothing may go on for ever */
#define NONE 0xff

/* X(enumerator, name): the calls of rp_agree that a rank's program makes. */
#define EXPLORE_CALLS(X)    \
    X(NOTHING, "nothing")   \
    X(JOIN, "join")         \
    X(COMPLETE, "complete") \
    X(PROPOSE, "propose")   \
    X(LOOK, "look")         \
    X(LEFT, "leave")        \
    X(ANSWER, "answer")     \
    X(ARMED, "armed")       \
    X(VOTE, "vote")         \
    X(READ, "read")         \
    X(WITHDRAW, "withdraw") \
    X(KILL, "kill")         \
    X(DEAD, "dead")         \
    X(PASS, "pass")         \
    X(DIE, "die") /* the rank stops for ever */

enum explore_call {
#define X(name, text) EXPLORE_##name,
    EXPLORE_CALLS(X)
#undef X
        EXPLORE_CALL_COUNT
};

/* Where a rank is in its program: which calls come next. */
enum explore_phase {
    PHASE_JOIN,
    PHASE_COMPLETE,
    PHASE_TURN,
    PHASE_LEFT,
    PHASE_ANSWER,
    PHASE_ARMED,
    PHASE_VOTE,
    PHASE_READ,
    PHASE_LEAVE,
    PHASE_PASS,
    PHASE_ENDED,
    PHASE_DEAD
};

/* Faults that are put between the code and its memory, so that it is known that they are found. */
enum explore_fault {
    FAULT_NONE,
    FAULT_PASSED_UNSEEN,   /* a word is used again whoever has read it */
    FAULT_LEFT_UNSEEN,     /* the place of an arming is used again whoever is in it */
    FAULT_DEAD_UNSEEN,     /* a vote does not see that the arming is dead */
    FAULT_BLIND_SWAP,      /* a swap stores whatever is there */
    FAULT_VOTES_FORGOTTEN, /* dead_from is lowered below what the rank has voted at */
    FAULT_ONE_DIGEST,      /* ranks that are apart vote with one digest */
};

struct explore_scenario {
    const char *name;
    uint8_t nranks, positions;
    uint8_t group;                 /* positions voted at before the first is read; 0 is 1 */
    uint8_t noes, disarms, kills;  /* at most so many by all ranks together; a withdrawal may come at any poll */
    uint8_t deaths;                /* at any step */
    uint8_t proposals, ahead;      /* armings proposed, `ahead` positions before they begin; 0: armed at the start */
    uint8_t shift[EXPLORE_RANKS];  /* the rank's op at a position is so many further on */
    uint8_t presence, seats, come; /* only joining: how many come, for how many seats */
    enum rp_status complete;       /* and what all of them are to be told */
    uint8_t terms[EXPLORE_RANKS], token[EXPLORE_RANKS];
};

struct explore_rank {
    uint64_t voted; /* of rp_agree */
    uint64_t returned[EXPLORE_ACCESSES];
    uint32_t swapped; /* a bit an access: what a swap returned */
    uint8_t accesses; /* so far, in this call */
    uint8_t call, option;
    uint8_t phase, seat, position;
    uint8_t next;                        /* within the group: the next position to vote at, or to read */
    uint8_t arming, pending, pending_at; /* NONE: none */
    uint8_t looked, answer;              /* proposals seen; what the next answer is */
    uint8_t unused[5];
};

/* What nobody in the protocol knows, for the checks. Masks have a bit a rank. */
struct explore_ghost {
    uint8_t wants[EXPLORE_POSITIONS];   /* began to vote yes */
    uint8_t served[EXPLORE_POSITIONS];  /* took a YES */
    uint8_t plain[EXPLORE_POSITIONS];   /* does the real call */
    uint8_t decided[EXPLORE_POSITIONS]; /* the final state that the word took */
    uint8_t said_yes[EXPLORE_PROPOSALS], armed[EXPLORE_PROPOSALS], unarmed[EXPLORE_PROPOSALS];
    uint8_t joined, noes, disarms, kills, deaths, proposals; /* used up so far */
    uint8_t unused[1];
};

struct explore_state {
    _Alignas(64) unsigned char memory[sizeof(struct rp_agree_shared) + EXPLORE_RANKS * sizeof(struct rp_agree_seat)];
    struct explore_rank ranks[EXPLORE_RANKS];
    struct explore_ghost ghost;
};

static inline struct rp_agree_shared *explore_shared(const struct explore_state *state)
{
    return (struct rp_agree_shared *)state->memory;
}

struct explore_move {
    uint8_t rank, call, option;
};

/* The state that is looked at, and what it is of. */
extern struct explore_state now;
extern const struct explore_scenario *scenario;
extern enum explore_fault fault;

/* replayed.c: one access further in the rank's call. True: the call has returned, *result_out. */
bool explore_step(uint32_t rank, uint64_t *result_out);
void explore_forget(struct explore_rank *rank); /* the call's accesses */
struct rp_agree explore_agree(uint32_t rank);

/* program.c: a rank's program */
#define EXPLORE_OPTIONS 12
void explore_begin(void);
uint32_t explore_options(uint32_t rank, struct explore_move moves_out[EXPLORE_OPTIONS]);
uint64_t explore_call(struct rp_agree *agree, const struct explore_rank *rank);
void explore_started(uint32_t rank);
void explore_returned(uint32_t rank, uint64_t result);
const char *explore_call_name(enum explore_call call);

struct explore_result {
    uint64_t states, moves, ends;
    uint64_t recycled;     /* moves that began a word anew */
    uint64_t rearmed;      /* proposals in a place that was used before */
    uint32_t verdicts;     /* a bit each: some rank took it */
    uint32_t armed;        /* a bit each: some rank found an arming 0 not armed, 1 armed */
    const char *violation; /* the first thing that did not hold; NULL: all did */
};
extern struct explore_result found;

/* checks.c: what must hold; the first thing that does not is kept. */
void explore_check(bool holds, const char *what);
void explore_check_verdict(uint32_t rank, uint32_t position, enum rp_verdict verdict);
void explore_check_plain(uint32_t rank, uint32_t position); /* it has no part in the position */
void explore_check_armed(uint32_t rank, uint32_t arming, bool yes);
void explore_check_proposed(uint64_t arming);
void explore_check_words(const struct explore_state *before); /* after each access */

/* explore.c: all of a scenario. On a violation the moves that led to it go to `trace`, if not NULL. */
struct explore_result explore_run(const struct explore_scenario *what, enum explore_fault with, FILE *trace);

/* scenarios.c */
extern const struct explore_scenario explore_small[], explore_large[];
extern const uint32_t explore_small_count, explore_large_count;

#endif
