/*
 * The protocol: each function is a few loads, one compare-and-swap that is tried again when another rank was first, and
 * what the word says then. agree.h has the invariants, why they hold, and the threads; agree_shared.h draws the memory.
 */
#include "core/agree/agree.h"

#include "core/agree/agree_atomic.h"
#include "core/agree/agree_shared.h"

#include <stdlib.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

const char *rp_verdict_text(enum rp_verdict verdict)
{
    switch (verdict) {
#define X(name, text)       \
    case RP_VERDICT_##name: \
        return text;
        RP_VERDICTS(X)
#undef X
    case RP_VERDICT_COUNT:
        break;
    }
    return "unknown verdict";
}

size_t rp_agree_bytes(uint32_t seats)
{
    return sizeof(struct rp_agree_shared) + seats * sizeof(struct rp_agree_seat);
}

/* ---------------------------------------------------------------- presence */

enum rp_status rp_agree_join(struct rp_agree *agree, struct rp_agree_shared *shared, uint32_t seats, uint64_t terms,
                             uint64_t token)
{
    if (seats == 0 || seats > RP_AGREE_RANKS)
        return RP_INVALID;
    uint64_t seat = rp_shared_add(&shared->joined, 1);
    if (seat >= seats)
        return RP_FULL;
    struct rp_agree_seat *own = &shared->seats[seat];
    rp_shared_store(&own->terms, terms);
    rp_shared_store(&own->token, token);
    rp_shared_store(&own->here, 1); /* pairs with the load in rp_agree_complete() */
    *agree = (struct rp_agree){.shared = shared, .seats = seats, .seat = (uint32_t)seat};
    return RP_OK;
}

static bool all_here(const struct rp_agree *agree, uint32_t nranks)
{
    for (uint32_t seat = 0; seat < nranks; seat++) {
        if (rp_shared_load(&agree->shared->seats[seat].here) == 0)
            return false;
    }
    return true;
}

static bool same_terms(const struct rp_agree *agree, uint32_t nranks)
{
    const struct rp_agree_seat *seats = agree->shared->seats;
    uint64_t terms = rp_shared_load(&seats[0].terms);
    for (uint32_t seat = 1; seat < nranks; seat++) {
        if (rp_shared_load(&seats[seat].terms) != terms)
            return false;
    }
    return true;
}

static int by_value(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

static bool own_processes(const struct rp_agree *agree, uint32_t nranks)
{
    uint64_t tokens[RP_AGREE_RANKS] = {0};
    for (uint32_t seat = 0; seat < nranks; seat++)
        tokens[seat] = rp_shared_load(&agree->shared->seats[seat].token);
    qsort(tokens, nranks, sizeof(tokens[0]), by_value);
    for (uint32_t i = 1; i < nranks; i++) {
        if (tokens[i] == tokens[i - 1])
            return false;
    }
    return true;
}

enum rp_status rp_agree_complete(struct rp_agree *agree, uint32_t nranks, uint32_t rank)
{
    if (nranks == 0 || nranks > agree->seats || rank >= nranks)
        return RP_INVALID;
    uint64_t joined = rp_shared_load(&agree->shared->joined);
    if (joined > nranks)
        return RP_FULL;
    if (joined < nranks || !all_here(agree, nranks))
        return RP_NOT_FOUND;
    if (!same_terms(agree, nranks))
        return RP_VERSION;
    if (!own_processes(agree, nranks))
        return RP_UNSUPPORTED;
    agree->nranks = nranks;
    agree->rank = rank;
    rp_shared_store(&agree->shared->seats[agree->seat].rank, rank + UINT64_C(1));
    return RP_OK;
}

/* ---------------------------------------------------------------- what ranks tell one another */

/* The stores release what was done before; the loads acquire it from every rank. */
#define X(field)                                                                \
    void rp_agree_set_##field(struct rp_agree *agree, uint64_t value)           \
    {                                                                           \
        rp_shared_store(&agree->shared->seats[agree->seat].field, value);       \
    }                                                                           \
    uint64_t rp_agree_least_##field(const struct rp_agree *agree)               \
    {                                                                           \
        uint64_t least = rp_shared_load(&agree->shared->seats[0].field);        \
        for (uint32_t seat = 1; seat < agree->nranks; seat++) {                 \
            uint64_t value = rp_shared_load(&agree->shared->seats[seat].field); \
            least = value < least ? value : least;                              \
        }                                                                       \
        return least;                                                           \
    }                                                                           \
    uint64_t rp_agree_largest_##field(const struct rp_agree *agree)             \
    {                                                                           \
        uint64_t largest = rp_shared_load(&agree->shared->seats[0].field);      \
        for (uint32_t seat = 1; seat < agree->nranks; seat++) {                 \
            uint64_t value = rp_shared_load(&agree->shared->seats[seat].field); \
            largest = value > largest ? value : largest;                        \
        }                                                                       \
        return largest;                                                         \
    }
RP_AGREE_FIELDS(X)
#undef X

void rp_agree_give_up(struct rp_agree *agree)
{
    rp_shared_store(&agree->shared->given_up, 1);
}

bool rp_agree_given_up(const struct rp_agree *agree)
{
    return rp_shared_load(&agree->shared->given_up) != 0;
}

/* ---------------------------------------------------------------- words */

/* What an open word becomes by one vote. */
static uint64_t voted(uint64_t word, uint64_t digest, enum rp_verdict vote, uint32_t nranks)
{
    uint32_t votes = rp_word_votes(word);
    if (votes > 0 && rp_word_digest(word) != digest)
        return rp_word_close(word, RP_VERDICT_BROKEN);
    if (vote != RP_VERDICT_YES)
        return rp_word_close(word, vote);
    if (votes + 1 == nranks)
        return rp_word_close(word, RP_VERDICT_YES);
    if (votes == 0)
        word |= digest << RP_WORD_DIGEST_AT;
    return word + (UINT64_C(1) << RP_WORD_VOTES_AT);
}

/* Lowers dead_from to `from`, or to the first position that this rank has not voted at. Any rank's may come between. */
static void lower(struct rp_agree *agree, uint32_t arming, uint64_t from)
{
    _Atomic uint64_t *dead = &rp_agree_arming(agree, arming)->dead;
    uint64_t next = ~(from > agree->voted ? from : agree->voted);
    uint64_t seen = rp_shared_load(dead);
    while (seen < next && !rp_shared_swap(dead, &seen, next))
        continue;
}

/* A final state, taken as the verdict. Whoever sees the end of an arming sees to it that the arming is dead: the rank
 * that closed the word may not come to do it. */
static enum rp_verdict taken(struct rp_agree *agree, uint32_t arming, uint64_t position, enum rp_verdict verdict)
{
    if (verdict == RP_VERDICT_WITHDRAWN || verdict == RP_VERDICT_BROKEN)
        lower(agree, arming, position + 1);
    return verdict;
}

/* ---------------------------------------------------------------- proposals */

uint32_t rp_agree_propose(struct rp_agree *agree, const struct rp_proposal *proposal)
{
    uint64_t count = rp_shared_load(&agree->shared->proposals);
    if (count >= RP_NO_ARMING || (count >= RP_AGREE_ARMINGS && rp_agree_least_left(agree) <= count - RP_AGREE_ARMINGS))
        return RP_NO_ARMING;
    struct rp_agree_arming *arming = rp_agree_arming(agree, (uint32_t)count);
    arming->proposal = *proposal;
    rp_shared_store(&arming->word, 0);
    rp_shared_store(&arming->dead, 0);
    rp_shared_store(&agree->shared->proposals, count + 1); /* pairs with the load in rp_agree_proposals() */
    return (uint32_t)count;
}

uint32_t rp_agree_proposals(const struct rp_agree *agree)
{
    return (uint32_t)rp_shared_load(&agree->shared->proposals);
}

void rp_agree_proposal(const struct rp_agree *agree, uint32_t arming, struct rp_proposal *proposal_out)
{
    *proposal_out = rp_agree_arming(agree, arming)->proposal;
}

void rp_agree_answer(struct rp_agree *agree, uint32_t arming, bool yes)
{
    _Atomic uint64_t *place = &rp_agree_arming(agree, arming)->word;
    enum rp_verdict answer = yes ? RP_VERDICT_YES : RP_VERDICT_NO;
    uint64_t seen = rp_shared_load(place);
    while (rp_word_state(seen) == RP_VERDICT_OPEN &&
           !rp_shared_swap(place, &seen, voted(seen, 0, answer, agree->nranks)))
        continue;
}

enum rp_verdict rp_agree_armed(struct rp_agree *agree, uint32_t arming)
{
    _Atomic uint64_t *place = &rp_agree_arming(agree, arming)->word;
    uint64_t seen = rp_shared_load(place);
    while (rp_word_state(seen) == RP_VERDICT_OPEN) {
        if (rp_shared_swap(place, &seen, rp_word_close(seen, RP_VERDICT_NO)))
            return RP_VERDICT_NO;
    }
    return rp_word_state(seen);
}

/* ---------------------------------------------------------------- a lane position */

static _Atomic uint64_t *place_of(const struct rp_agree *agree, uint64_t position)
{
    return &agree->shared->words[position % RP_AGREE_WORDS];
}

static uint64_t epoch_of(uint64_t position)
{
    return position / RP_AGREE_WORDS;
}

/*
 * May a word of another epoch be begun anew for `position`? Not if it is of a later one: this rank is so far behind
 * that its word is gone. Else when every rank is past the position that used it, and so has read it or never will.
 */
static bool is_free(const struct rp_agree *agree, uint64_t word, uint64_t position)
{
    uint64_t used = rp_word_epoch(word) * RP_AGREE_WORDS + position % RP_AGREE_WORDS;
    return used < position && rp_agree_least_passed(agree) > used;
}

/* Digest and arming, in the bits that fit. */
static uint64_t folded(uint64_t digest, uint32_t arming)
{
    uint64_t words[2] = {digest, arming};
    return XXH3_64bits(words, sizeof(words)) % RP_WORD_DIGESTS;
}

enum rp_verdict rp_agree_vote(struct rp_agree *agree, uint32_t arming, uint64_t position, uint64_t digest,
                              enum rp_verdict vote)
{
    uint64_t epoch = epoch_of(position), bits = folded(digest, arming), next;
    if (epoch >= RP_WORD_EPOCHS || rp_agree_dead(agree, arming, position))
        return RP_VERDICT_NO;
    _Atomic uint64_t *place = place_of(agree, position);
    uint64_t seen = rp_shared_load(place);
    do {
        bool ours = rp_word_epoch(seen) == epoch;
        if (ours && rp_word_state(seen) != RP_VERDICT_OPEN)
            return taken(agree, arming, position, rp_word_state(seen));
        if (!ours && !is_free(agree, seen, position)) {
            lower(agree, arming, position);
            return RP_VERDICT_NO;
        }
        next = voted(ours ? seen : rp_word_open(epoch), bits, vote, agree->nranks);
    } while (!rp_shared_swap(place, &seen, next));
    agree->voted = position + 1;
    return taken(agree, arming, position, rp_word_state(next));
}

/* The word first: what it says finally holds for all, also where the arming has died since. */
enum rp_verdict rp_agree_read(struct rp_agree *agree, uint32_t arming, uint64_t position)
{
    uint64_t seen = rp_shared_load(place_of(agree, position));
    if (rp_word_epoch(seen) == epoch_of(position) && rp_word_state(seen) != RP_VERDICT_OPEN)
        return taken(agree, arming, position, rp_word_state(seen));
    return rp_agree_dead(agree, arming, position) ? RP_VERDICT_NO : RP_VERDICT_OPEN;
}

enum rp_verdict rp_agree_withdraw(struct rp_agree *agree, uint32_t arming, uint64_t position)
{
    _Atomic uint64_t *place = place_of(agree, position);
    enum rp_verdict verdict = rp_agree_read(agree, arming, position);
    uint64_t seen = rp_shared_load(place);
    while (verdict == RP_VERDICT_OPEN) {
        if (rp_word_epoch(seen) != epoch_of(position))
            return RP_VERDICT_NO; /* not voted at */
        if (rp_word_state(seen) != RP_VERDICT_OPEN)
            verdict = rp_word_state(seen);
        else if (rp_shared_swap(place, &seen, rp_word_close(seen, RP_VERDICT_WITHDRAWN)))
            verdict = RP_VERDICT_WITHDRAWN;
    }
    return taken(agree, arming, position, verdict);
}

void rp_agree_kill(struct rp_agree *agree, uint32_t arming, uint64_t from)
{
    lower(agree, arming, from);
}

bool rp_agree_dead(const struct rp_agree *agree, uint32_t arming, uint64_t position)
{
    return position >= ~rp_shared_load(&rp_agree_arming(agree, arming)->dead);
}
