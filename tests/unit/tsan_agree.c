/*
 * Ranks as threads over one shared memory, for many positions and armings, with noes, withdrawals, kills and laggards
 * at random: to be run under the thread sanitizer (`make tsan`). Without it too: all ranks take the same verdict, YES
 * only with all votes, and plain data that is handed over is whole. Ends with 0 if all holds.
 */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/agree/agree.h"

#define CHECK(condition)                                                    \
    do {                                                                    \
        if (!(condition)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            exit(1);                                                        \
        }                                                                   \
    } while (0)

#define RANKS 4u
#define SPAN 1500u /* positions of an arming: words are used again */
#define ARMINGS 40u
#define POSITIONS (ARMINGS * SPAN)
#define POLLS 200u
#define LAG 900u /* behind an arming's begin: there every second time one rank comes later than the others wait */
#define NOT_TAKEN 0xff

static struct rp_agree_shared *shared;
static uint8_t took[RANKS][POSITIONS]; /* verdict; a rank's own row */
static bool said_yes[RANKS][POSITIONS];
static uint64_t table[RANKS][POSITIONS]; /* plain data, published */

/* Splitmix64 (Steele, Lea, Flood 2014). */
static uint64_t random_next(uint64_t *seed)
{
    uint64_t z = *seed += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static bool one_in(uint64_t *seed, uint64_t n)
{
    return random_next(seed) % n == 0;
}

static pthread_barrier_t together;

static enum rp_verdict wait_for(struct rp_agree *agree, uint32_t arming, uint64_t position, uint64_t *seed)
{
    bool hasty = one_in(seed, 20000);
    for (uint32_t i = 0; i < (hasty ? 1 : 100 * POLLS); i++) {
        enum rp_verdict verdict = rp_agree_read(agree, arming, position);
        if (verdict != RP_VERDICT_OPEN)
            return verdict;
        if (i % POLLS > 4)
            sched_yield();
    }
    return rp_agree_withdraw(agree, arming, position);
}

static void take_position(struct rp_agree *agree, uint32_t arming, uint64_t position, uint64_t *seed)
{
    enum rp_verdict wish = one_in(seed, 200) ? RP_VERDICT_NO : RP_VERDICT_YES;
    said_yes[agree->rank][position] = wish == RP_VERDICT_YES;
    enum rp_verdict verdict = rp_agree_vote(agree, arming, position, position * 7, wish);
    if (verdict == RP_VERDICT_OPEN)
        verdict = wait_for(agree, arming, position, seed);
    CHECK(verdict != RP_VERDICT_OPEN && verdict != RP_VERDICT_BROKEN);
    took[agree->rank][position] = (uint8_t)verdict;
}

static void publish(struct rp_agree *agree, uint64_t position)
{
    table[agree->rank][position] = position + 1;
    rp_agree_set_published(agree, position + 1);
    uint64_t published = rp_agree_least_published(agree);
    for (uint32_t rank = 0; rank < RANKS && published > 0; rank++)
        CHECK(table[rank][published - 1] == published);
}

/* Rank 0 proposes; all answer, some no, and some do not look in time. */
static bool arm(struct rp_agree *agree, uint32_t arming, uint64_t at, uint64_t *seed)
{
    struct rp_proposal proposal = {.from = at, .to = at + 1, .plan = at + 2, .at = at, .budget = 1, .cycle_ns = at};
    if (agree->rank == 0)
        CHECK(rp_agree_propose(agree, &proposal) == arming);
    while (rp_agree_proposals(agree) <= arming)
        sched_yield();
    rp_agree_proposal(agree, arming, &proposal);
    CHECK(proposal.at == at && proposal.plan == at + 2 && proposal.cycle_ns == at);
    if (!one_in(seed, 40))
        rp_agree_answer(agree, arming, !one_in(seed, 40));
    if (one_in(seed, 40))
        rp_agree_armed(agree, arming); /* is at its position before the others have answered */
    pthread_barrier_wait(&together);
    return rp_agree_armed(agree, arming) == RP_VERDICT_YES;
}

/* Until the others have given up waiting for this rank. */
static void lag(struct rp_agree *agree, uint32_t arming, uint64_t end)
{
    while (!rp_agree_dead(agree, arming, end - 1) && rp_agree_largest_passed(agree) < end)
        sched_yield();
}

static void run_arming(struct rp_agree *agree, uint32_t arming, uint64_t *seed)
{
    uint64_t from = (uint64_t)arming * SPAN;
    bool armed = arm(agree, arming, from, seed);
    for (uint64_t position = from; position < from + SPAN; position++) {
        if (armed && one_in(seed, 40000))
            rp_agree_kill(agree, arming, position);
        if (armed && position == from + LAG && arming % 2 == 0 && agree->rank == 3)
            lag(agree, arming, from + SPAN);
        if (armed)
            take_position(agree, arming, position, seed);
        publish(agree, position);
        rp_agree_set_passed(agree, position + 1);
    }
}

static void *rank_run(void *argument)
{
    uint32_t rank = *(const uint32_t *)argument;
    uint64_t seed = 1000 + rank;
    struct rp_agree agree;
    CHECK(rp_agree_join(&agree, shared, RANKS, 1, rank) == RP_OK);
    pthread_barrier_wait(&together); /* the real creation */
    CHECK(rp_agree_complete(&agree, RANKS, rank) == RP_OK);
    for (uint32_t arming = 0; arming < ARMINGS; arming++)
        run_arming(&agree, arming, &seed);
    return NULL;
}

static void check_position(uint64_t position, uint64_t counts[RP_VERDICT_COUNT])
{
    bool served = took[0][position] == RP_VERDICT_YES, all_yes = true;
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        CHECK((took[rank][position] == RP_VERDICT_YES) == served);
        all_yes &= said_yes[rank][position];
        if (took[rank][position] != NOT_TAKEN)
            counts[took[rank][position]]++;
    }
    CHECK(!served || all_yes);
}

int main(void)
{
    static const uint32_t numbers[RANKS] = {0, 1, 2, 3};
    pthread_t threads[RANKS];
    uint64_t counts[RP_VERDICT_COUNT] = {0};
    size_t bytes = (rp_agree_bytes(RANKS) + 63) / 64 * 64;
    shared = aligned_alloc(64, bytes);
    CHECK(shared != NULL && pthread_barrier_init(&together, NULL, RANKS) == 0);
    memset(shared, 0, bytes);
    memset(took, NOT_TAKEN, sizeof(took));
    for (uint32_t i = 0; i < RANKS; i++)
        CHECK(pthread_create(&threads[i], NULL, rank_run, (void *)&numbers[i]) == 0);
    for (uint32_t i = 0; i < RANKS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    for (uint64_t position = 0; position < POSITIONS; position++)
        check_position(position, counts);
    printf("agree: %lu yes, %lu no, %lu withdrawn\n", (unsigned long)counts[RP_VERDICT_YES],
           (unsigned long)counts[RP_VERDICT_NO], (unsigned long)counts[RP_VERDICT_WITHDRAWN]);
    CHECK(counts[RP_VERDICT_YES] > 0 && counts[RP_VERDICT_NO] > 0 && counts[RP_VERDICT_WITHDRAWN] > 0);
    pthread_barrier_destroy(&together);
    free(shared);
    return 0;
}
