/*
 * One access to shared memory at a time: the rank's call is made anew, its earlier accesses return what they did, one
 * more is made, and the one behind it leaves the call.
 */
#include "tests/explore/explore.h"

#include <setjmp.h>
#include <string.h>

#include "tests/explore/atomic.h"

static struct {
    struct explore_rank *rank; /* NULL: accesses are made as they come */
    uint32_t count;            /* of this time's accesses */
    bool made;                 /* the one more */
    jmp_buf leave;
} replay;

/* True: return what the access returned before, its number in *number_out. False: make it, and keep what it returns. */
static bool returned_before(uint32_t *number_out)
{
    *number_out = replay.count++;
    if (replay.rank == NULL || *number_out < replay.rank->accesses)
        return replay.rank != NULL;
    if (replay.made)
        longjmp(replay.leave, 1);
    if (*number_out == EXPLORE_ACCESSES) {
        explore_check(false, "a call does not end");
        longjmp(replay.leave, 1);
    }
    replay.made = true;
    replay.rank->accesses++;
    return false;
}

static uint64_t keep(uint32_t number, uint64_t value, bool swapped)
{
    if (replay.rank != NULL) {
        replay.rank->returned[number] = value;
        replay.rank->swapped |= (uint32_t)swapped << number;
    }
    return value;
}

static bool is_passed(const _Atomic uint64_t *word)
{
    for (uint32_t seat = 0; seat < EXPLORE_RANKS; seat++) {
        if (word == &explore_shared(&now)->seats[seat].passed)
            return true;
    }
    return false;
}

static bool is_left(const _Atomic uint64_t *word)
{
    for (uint32_t seat = 0; seat < EXPLORE_RANKS; seat++) {
        if (word == &explore_shared(&now)->seats[seat].left)
            return true;
    }
    return false;
}

static bool is_dead(const _Atomic uint64_t *word)
{
    return word == &explore_shared(&now)->armings[0].dead || word == &explore_shared(&now)->armings[1].dead;
}

uint64_t rp_shared_load(const _Atomic uint64_t *word)
{
    uint32_t number;
    if (returned_before(&number))
        return replay.rank->returned[number];
    uint64_t value = *word;
    if ((fault == FAULT_PASSED_UNSEEN && is_passed(word)) || (fault == FAULT_LEFT_UNSEEN && is_left(word)))
        value = UINT64_MAX;
    if (fault == FAULT_DEAD_UNSEEN && is_dead(word) && replay.rank != NULL && replay.rank->call == EXPLORE_VOTE)
        value = 0;
    return keep(number, value, false);
}

void rp_shared_store(_Atomic uint64_t *word, uint64_t value)
{
    uint32_t number;
    if (!returned_before(&number)) {
        *word = value;
        keep(number, 0, false);
    }
}

uint64_t rp_shared_add(_Atomic uint64_t *word, uint64_t value)
{
    uint32_t number;
    if (returned_before(&number))
        return replay.rank->returned[number];
    uint64_t before = *word;
    *word = before + value;
    return keep(number, before, false);
}

bool rp_shared_swap(_Atomic uint64_t *word, uint64_t *seen, uint64_t next)
{
    uint32_t number;
    if (!returned_before(&number)) {
        uint64_t value = *word;
        bool swapped = value == *seen || fault == FAULT_BLIND_SWAP;
        if (swapped)
            *word = next;
        *seen = keep(number, value, swapped);
        return swapped;
    }
    *seen = replay.rank->returned[number];
    return replay.rank->swapped >> number & 1;
}

struct rp_agree explore_agree(uint32_t rank)
{
    return (struct rp_agree){.shared = explore_shared(&now),
                             .seats = scenario->seats > 0 ? scenario->seats : scenario->nranks,
                             .seat = now.ranks[rank].seat,
                             .nranks = scenario->nranks,
                             .rank = rank,
                             .voted = fault == FAULT_VOTES_FORGOTTEN ? 0 : now.ranks[rank].voted};
}

void explore_forget(struct explore_rank *rank)
{
    memset(rank->returned, 0, rank->accesses * sizeof(rank->returned[0]));
    rank->accesses = 0;
    rank->swapped = 0;
}

bool explore_step(uint32_t rank, uint64_t *result_out)
{
    struct explore_rank *own = &now.ranks[rank];
    replay.rank = own;
    replay.count = 0;
    replay.made = false;
    if (setjmp(replay.leave) != 0) {
        replay.rank = NULL;
        return false;
    }
    struct rp_agree agree = explore_agree(rank);
    uint64_t result = explore_call(&agree, replay.rank);
    own = replay.rank;
    own->voted = agree.voted;
    own->seat = (uint8_t)agree.seat;
    explore_forget(own);
    replay.rank = NULL;
    *result_out = result;
    return true;
}
