/*
 * The memory that the ranks of a communicator share, all zero at first, alike on all ranks:
 *
 *        0 +-----------------------------------------------------------+
 *          | joined | proposals | given up                             |  one cache line
 *       64 +-----------------------------------------------------------+
 *          | place 0:  proposal (80 bytes) | word | dead               |  two cache lines each:
 *          | ...                                                       |  arming modulo RP_AGREE_ARMINGS
 *          | place RP_AGREE_ARMINGS - 1                                |
 *     8256 +-----------------------------------------------------------+
 *          | word 0 | word 1 | ...                                     |  decision words, 8 bytes each:
 *          | ...                             word RP_AGREE_WORDS - 1   |  position modulo RP_AGREE_WORDS
 *    16448 +-----------------------------------------------------------+
 *          | seat 0:  here terms token rank passed published ...       |  two cache lines each, in the
 *          | ...                                                       |  order of arrival; written by
 *          | seat `seats` - 1                                          |  the rank that sits there
 *          +-----------------------------------------------------------+
 *
 * A decision word, and an arming's word (epoch 0, digest 0):
 *
 *      63            40 39                12 11      3 2     0
 *     +----------------+--------------------+---------+-------+
 *     | epoch          | digest             | votes   | state |   epoch = position / RP_AGREE_WORDS
 *     +----------------+--------------------+---------+-------+   state = enum rp_verdict
 *
 * Zero is OPEN, without votes, at epoch 0. The first vote brings its digest. Votes are counted while OPEN; the last one
 * makes YES, so they never reach nranks. A final state keeps what votes there were.
 */
#ifndef RP_AGREE_SHARED_H
#define RP_AGREE_SHARED_H

#include "core/agree/agree.h"

struct rp_agree_arming {
    _Alignas(64) struct rp_proposal proposal; /* rank 0, before `proposals` is released */
    _Atomic uint64_t word;                    /* answers, as a decision word */
    _Atomic uint64_t dead; /* the complement of dead_from: zero is "alive", an arming only raises it */
};

struct rp_agree_seat {
    _Alignas(64) _Atomic uint64_t here; /* 1: terms and token are there */
    _Atomic uint64_t terms, token;
    _Atomic uint64_t rank; /* plus 1, once complete */
#define X(field) _Atomic uint64_t field;
    RP_AGREE_FIELDS(X)
#undef X
};

struct rp_agree_shared {
    _Alignas(64) _Atomic uint64_t joined; /* how many came; their seats are 0, 1, ... */
    _Atomic uint64_t proposals;           /* so far; released by rank 0, acquired by all */
    _Atomic uint64_t given_up;
    struct rp_agree_arming armings[RP_AGREE_ARMINGS];
    _Alignas(64) _Atomic uint64_t words[RP_AGREE_WORDS];
    struct rp_agree_seat seats[];
};

_Static_assert(sizeof(struct rp_agree_arming) == 128 && sizeof(struct rp_agree_seat) == 128, "whole cache lines");

static inline struct rp_agree_arming *rp_agree_arming(const struct rp_agree *agree, uint32_t arming)
{
    return &agree->shared->armings[arming % RP_AGREE_ARMINGS];
}

#define RP_WORD_STATE_BITS 3
#define RP_WORD_VOTES_BITS 9
#define RP_WORD_DIGEST_BITS 28
#define RP_WORD_EPOCH_BITS 24

#define RP_WORD_VOTES_AT RP_WORD_STATE_BITS
#define RP_WORD_DIGEST_AT (RP_WORD_VOTES_AT + RP_WORD_VOTES_BITS)
#define RP_WORD_EPOCH_AT (RP_WORD_DIGEST_AT + RP_WORD_DIGEST_BITS)

_Static_assert(RP_WORD_EPOCH_AT + RP_WORD_EPOCH_BITS == 64, "a word is full");
_Static_assert(RP_VERDICT_COUNT <= 1 << RP_WORD_STATE_BITS, "every verdict fits");
_Static_assert(RP_AGREE_RANKS <= 1 << RP_WORD_VOTES_BITS, "all votes but the last fit");

#define RP_WORD_EPOCHS (UINT64_C(1) << RP_WORD_EPOCH_BITS)
#define RP_WORD_DIGESTS (UINT64_C(1) << RP_WORD_DIGEST_BITS)

static inline enum rp_verdict rp_word_state(uint64_t word)
{
    return (enum rp_verdict)(word & ((1 << RP_WORD_STATE_BITS) - 1));
}

static inline uint32_t rp_word_votes(uint64_t word)
{
    return word >> RP_WORD_VOTES_AT & ((1 << RP_WORD_VOTES_BITS) - 1);
}

static inline uint64_t rp_word_digest(uint64_t word)
{
    return word >> RP_WORD_DIGEST_AT & (RP_WORD_DIGESTS - 1);
}

static inline uint64_t rp_word_epoch(uint64_t word)
{
    return word >> RP_WORD_EPOCH_AT;
}

/* OPEN, no votes. */
static inline uint64_t rp_word_open(uint64_t epoch)
{
    return epoch << RP_WORD_EPOCH_AT;
}

/* An open word, closed. */
static inline uint64_t rp_word_close(uint64_t word, enum rp_verdict verdict)
{
    return word | (uint64_t)verdict;
}

#endif
