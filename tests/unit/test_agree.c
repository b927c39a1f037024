/* The agreement of ranks, one step after the other. All interleavings: tests/explore; threads: tsan_agree.c. */
#include "core/agree/agree.h"
#include "core/agree/agree_shared.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define DIGEST UINT64_C(0x123456789abcdef0)

struct world {
    struct rp_agree_shared *shared;
    struct rp_agree ranks[4];
    uint32_t nranks;
};

static struct rp_agree_shared *memory_make(uint32_t seats)
{
    size_t bytes = (rp_agree_bytes(seats) + 63) / 64 * 64;
    struct rp_agree_shared *shared = aligned_alloc(64, bytes);
    assert_non_null(shared);
    memset(shared, 0, bytes);
    return shared;
}

/* Ranks sit in the reverse order of their numbers: a seat is not a rank. */
static struct world world_make(uint32_t nranks)
{
    struct world world = {.shared = memory_make(nranks), .nranks = nranks};
    for (uint32_t rank = nranks; rank-- > 0;)
        assert_int_equal(rp_agree_join(&world.ranks[rank], world.shared, nranks, 7, 100 + rank), RP_OK);
    for (uint32_t rank = 0; rank < nranks; rank++)
        assert_int_equal(rp_agree_complete(&world.ranks[rank], nranks, rank), RP_OK);
    return world;
}

static void world_free(struct world *world)
{
    free(world->shared);
}

static enum rp_verdict vote(struct world *world, uint32_t rank, uint64_t position)
{
    return rp_agree_vote(&world->ranks[rank], 0, position, DIGEST + position, RP_VERDICT_YES);
}

/* Every rank votes yes, reads YES and passes. */
static void all_serve(struct world *world, uint64_t position)
{
    for (uint32_t rank = 0; rank < world->nranks; rank++)
        assert_int_equal(vote(world, rank, position), rank + 1 < world->nranks ? RP_VERDICT_OPEN : RP_VERDICT_YES);
    for (uint32_t rank = 0; rank < world->nranks; rank++) {
        assert_int_equal(rp_agree_read(&world->ranks[rank], 0, position), RP_VERDICT_YES);
        rp_agree_set_passed(&world->ranks[rank], position + 1);
    }
}

static void all_read(struct world *world, uint64_t position, enum rp_verdict verdict)
{
    for (uint32_t rank = 0; rank < world->nranks; rank++)
        assert_int_equal(rp_agree_read(&world->ranks[rank], 0, position), verdict);
}

/* ---------------------------------------------------------------- presence */

static void the_memory_is_bounded(void **state)
{
    (void)state;
    assert_true(rp_agree_bytes(RP_AGREE_RANKS) <= 1 << 20);
    assert_true(rp_agree_bytes(1) < rp_agree_bytes(2));
    assert_int_equal(sizeof(struct rp_agree_shared) % 64, 0);
}

static void seats_are_given_in_the_order_of_arrival(void **state)
{
    (void)state;
    struct world world = world_make(3);
    for (uint32_t rank = 0; rank < 3; rank++) {
        assert_int_equal(world.ranks[rank].seat, 2 - rank);
        assert_int_equal(world.ranks[rank].rank, rank);
        assert_int_equal(world.ranks[rank].nranks, 3);
        assert_int_equal(world.shared->seats[2 - rank].rank, rank + 1);
    }
    struct rp_agree late;
    assert_int_equal(rp_agree_join(&late, world.shared, 3, 7, 1), RP_FULL);
    world_free(&world);
}

static void joins_that_cannot_be_are_refused(void **state)
{
    (void)state;
    struct rp_agree_shared *shared = memory_make(2);
    struct rp_agree agree;
    assert_int_equal(rp_agree_join(&agree, shared, 0, 7, 1), RP_INVALID);
    assert_int_equal(rp_agree_join(&agree, shared, RP_AGREE_RANKS + 1, 7, 1), RP_INVALID);
    assert_int_equal(rp_agree_join(&agree, shared, 2, 7, 1), RP_OK);
    assert_int_equal(rp_agree_complete(&agree, 0, 0), RP_INVALID);
    assert_int_equal(rp_agree_complete(&agree, 3, 0), RP_INVALID);
    assert_int_equal(rp_agree_complete(&agree, 1, 1), RP_INVALID);
    assert_int_equal(rp_agree_complete(&agree, 1, 0), RP_OK);
    free(shared);
}

/* Joins `count` ranks of `nranks`, the last one on other terms or with the first one's token. */
static void complete_says(uint32_t count, uint32_t nranks, uint64_t last_terms, uint64_t last_token,
                          enum rp_status expected)
{
    struct rp_agree_shared *shared = memory_make(4);
    struct rp_agree ranks[4];
    for (uint32_t rank = 0; rank < count; rank++) {
        bool last = rank + 1 == count;
        assert_int_equal(rp_agree_join(&ranks[rank], shared, 4, last ? last_terms : 7, last ? last_token : 100 + rank),
                         RP_OK);
    }
    for (uint32_t rank = 0; rank < count && rank < nranks; rank++)
        assert_int_equal(rp_agree_complete(&ranks[rank], nranks, rank), expected);
    free(shared);
}

static void completeness_is_the_same_answer_on_all_ranks(void **state)
{
    (void)state;
    complete_says(3, 3, 7, 200, RP_OK);
    complete_says(4, 4, 7, 200, RP_OK);
    complete_says(1, 1, 7, 200, RP_OK);
    complete_says(2, 3, 7, 200, RP_NOT_FOUND);
    complete_says(4, 3, 7, 200, RP_FULL);
    complete_says(3, 3, 8, 200, RP_VERSION);
    complete_says(3, 3, 7, 100, RP_UNSUPPORTED);
    complete_says(3, 3, 8, 100, RP_VERSION);
}

static void a_rank_that_sat_down_but_said_nothing_is_not_here(void **state)
{
    (void)state;
    struct rp_agree_shared *shared = memory_make(2);
    struct rp_agree agree;
    assert_int_equal(rp_agree_join(&agree, shared, 2, 7, 1), RP_OK);
    shared->joined++; /* killed right behind */
    assert_int_equal(rp_agree_complete(&agree, 2, 0), RP_NOT_FOUND);
    free(shared);
}

static void fields_have_a_least_and_a_largest(void **state)
{
    (void)state;
    struct world world = world_make(3);
    assert_int_equal(rp_agree_least_published(&world.ranks[0]), 0);
    rp_agree_set_published(&world.ranks[0], 5);
    rp_agree_set_published(&world.ranks[1], 9);
    assert_int_equal(rp_agree_least_published(&world.ranks[2]), 0);
    rp_agree_set_published(&world.ranks[2], 6);
    assert_int_equal(rp_agree_least_published(&world.ranks[2]), 5);
    assert_int_equal(rp_agree_largest_published(&world.ranks[2]), 9);
    rp_agree_set_budget(&world.ranks[1], UINT64_MAX);
    rp_agree_set_cycle_ns(&world.ranks[1], 3);
    assert_int_equal(rp_agree_largest_budget(&world.ranks[0]), UINT64_MAX);
    assert_int_equal(rp_agree_largest_cycle_ns(&world.ranks[0]), 3);
    assert_int_equal(rp_agree_largest_passed(&world.ranks[0]), 0);
    world_free(&world);
}

static void giving_up_holds_for_all(void **state)
{
    (void)state;
    struct world world = world_make(2);
    assert_false(rp_agree_given_up(&world.ranks[0]));
    rp_agree_give_up(&world.ranks[1]);
    assert_true(rp_agree_given_up(&world.ranks[0]));
    world_free(&world);
}

/* ---------------------------------------------------------------- proposals */

static void a_proposal_is_armed_when_all_said_yes(void **state)
{
    (void)state;
    struct world world = world_make(3);
    struct rp_proposal proposal = {.from = 3, .to = 40, .plan = 99, .at = 60, .budget = 1 << 20, .cycle_ns = 5}, seen;
    assert_int_equal(rp_agree_proposals(&world.ranks[2]), 0);
    assert_int_equal(rp_agree_propose(&world.ranks[0], &proposal), 0);
    assert_int_equal(rp_agree_proposals(&world.ranks[2]), 1);
    rp_agree_proposal(&world.ranks[2], 0, &seen);
    assert_memory_equal(&seen, &proposal, sizeof(seen));
    for (uint32_t rank = 0; rank < 3; rank++)
        rp_agree_answer(&world.ranks[rank], 0, true);
    for (uint32_t rank = 0; rank < 3; rank++)
        assert_int_equal(rp_agree_armed(&world.ranks[rank], 0), RP_VERDICT_YES);
    world_free(&world);
}

static void a_no_or_a_missing_answer_does_not_arm(void **state)
{
    (void)state;
    struct world world = world_make(2);
    struct rp_proposal proposal = {.at = 60};
    assert_int_equal(rp_agree_propose(&world.ranks[0], &proposal), 0);
    rp_agree_answer(&world.ranks[0], 0, true);
    rp_agree_answer(&world.ranks[1], 0, false);
    assert_int_equal(rp_agree_armed(&world.ranks[0], 0), RP_VERDICT_NO);

    assert_int_equal(rp_agree_propose(&world.ranks[0], &proposal), 1);
    rp_agree_answer(&world.ranks[0], 1, true);
    assert_int_equal(rp_agree_armed(&world.ranks[0], 1), RP_VERDICT_NO);
    rp_agree_answer(&world.ranks[1], 1, true); /* too late */
    assert_int_equal(rp_agree_armed(&world.ranks[1], 1), RP_VERDICT_NO);
    world_free(&world);
}

/* Its place is another's only when every rank has left it. */
static void armings_go_on_as_ranks_leave_them(void **state)
{
    (void)state;
    struct world world = world_make(2);
    struct rp_proposal proposal = {.at = 1}, seen;
    for (uint32_t i = 0; i < RP_AGREE_ARMINGS; i++)
        assert_int_equal(rp_agree_propose(&world.ranks[0], &proposal), i);
    assert_int_equal(rp_agree_propose(&world.ranks[0], &proposal), RP_NO_ARMING);
    rp_agree_set_left(&world.ranks[0], RP_AGREE_ARMINGS - 1);
    assert_int_equal(rp_agree_propose(&world.ranks[0], &proposal), RP_NO_ARMING);
    assert_int_equal(rp_agree_proposals(&world.ranks[0]), RP_AGREE_ARMINGS);

    rp_agree_kill(&world.ranks[1], 0, 5);
    rp_agree_answer(&world.ranks[1], 0, false);
    rp_agree_set_left(&world.ranks[1], 1);
    proposal.at = 70;
    assert_int_equal(rp_agree_propose(&world.ranks[0], &proposal), RP_AGREE_ARMINGS);
    assert_int_equal(rp_agree_propose(&world.ranks[0], &proposal), RP_NO_ARMING);
    rp_agree_proposal(&world.ranks[1], RP_AGREE_ARMINGS, &seen);
    assert_int_equal(seen.at, 70);
    assert_false(rp_agree_dead(&world.ranks[0], RP_AGREE_ARMINGS, 71)); /* nothing is left of the one before */
    rp_agree_answer(&world.ranks[0], RP_AGREE_ARMINGS, true);
    rp_agree_answer(&world.ranks[1], RP_AGREE_ARMINGS, true);
    assert_int_equal(rp_agree_armed(&world.ranks[1], RP_AGREE_ARMINGS), RP_VERDICT_YES);
    world_free(&world);
}

/* ---------------------------------------------------------------- positions */

static void the_last_yes_serves(void **state)
{
    (void)state;
    for (uint32_t nranks = 1; nranks <= 4; nranks++) {
        struct world world = world_make(nranks);
        for (uint64_t position = 0; position < 3 * RP_AGREE_WORDS; position += 7)
            all_serve(&world, position);
        world_free(&world);
    }
}

/* The votes of 511 ranks fill their field to the last bit. */
static void as_many_ranks_as_there_may_be(void **state)
{
    (void)state;
    struct rp_agree_shared *shared = memory_make(RP_AGREE_RANKS);
    struct rp_agree *ranks = calloc(RP_AGREE_RANKS, sizeof(*ranks));
    assert_non_null(ranks);
    for (uint32_t i = 0; i < RP_AGREE_RANKS; i++)
        assert_int_equal(rp_agree_join(&ranks[i], shared, RP_AGREE_RANKS, 7, 1000 - i), RP_OK);
    for (uint32_t i = 0; i < RP_AGREE_RANKS; i++)
        assert_int_equal(rp_agree_complete(&ranks[i], RP_AGREE_RANKS, i), RP_OK);
    uint64_t position = RP_WORD_EPOCHS * RP_AGREE_WORDS - 1;
    for (uint32_t i = 0; i < RP_AGREE_RANKS; i++)
        rp_agree_set_passed(&ranks[i], position);
    for (uint32_t i = 0; i < RP_AGREE_RANKS; i++)
        assert_int_equal(rp_agree_vote(&ranks[i], 0, position, DIGEST, RP_VERDICT_YES),
                         i + 1 < RP_AGREE_RANKS ? RP_VERDICT_OPEN : RP_VERDICT_YES);
    assert_int_equal(rp_agree_vote(&ranks[0], 0, position + 1, DIGEST, RP_VERDICT_YES), RP_VERDICT_NO);
    assert_false(rp_agree_dead(&ranks[0], 0, position + 1)); /* too far for a word, on every rank alike */
    free(ranks);
    free(shared);
}

static void any_no_is_final_and_is_what_all_read(void **state)
{
    (void)state;
    static const enum rp_verdict noes[] = {RP_VERDICT_NO, RP_VERDICT_DISARM_SLOWER, RP_VERDICT_DISARM_BUDGET};
    struct world world = world_make(3);
    for (uint64_t i = 0; i < 3; i++) {
        assert_int_equal(vote(&world, 0, i), RP_VERDICT_OPEN);
        assert_int_equal(rp_agree_vote(&world.ranks[1], 0, i, DIGEST + i, noes[i]), noes[i]);
        assert_int_equal(vote(&world, 2, i), noes[i]);
        all_read(&world, i, noes[i]);
        assert_int_equal(rp_agree_withdraw(&world.ranks[0], 0, i), noes[i]);
        assert_false(rp_agree_dead(&world.ranks[0], 0, i + 1));
        assert_int_equal(rp_verdict_disarms(noes[i]), i > 0);
    }
    all_serve(&world, 3);
    world_free(&world);
}

static void another_digest_breaks_the_arming(void **state)
{
    (void)state;
    struct world world = world_make(2);
    assert_int_equal(vote(&world, 0, 5), RP_VERDICT_OPEN);
    assert_int_equal(rp_agree_vote(&world.ranks[1], 0, 5, DIGEST + 6, RP_VERDICT_YES), RP_VERDICT_BROKEN);
    all_read(&world, 5, RP_VERDICT_BROKEN);
    assert_false(rp_agree_dead(&world.ranks[0], 0, 5));
    assert_true(rp_agree_dead(&world.ranks[0], 0, 6));
    world_free(&world);
}

static void votes_of_two_armings_never_add_up(void **state)
{
    (void)state;
    struct world world = world_make(2);
    assert_int_equal(rp_agree_vote(&world.ranks[0], 0, 5, DIGEST, RP_VERDICT_YES), RP_VERDICT_OPEN);
    assert_int_equal(rp_agree_vote(&world.ranks[1], 1, 5, DIGEST, RP_VERDICT_YES), RP_VERDICT_BROKEN);
    world_free(&world);
}

static void a_withdrawal_ends_the_arming_behind_it(void **state)
{
    (void)state;
    struct world world = world_make(2);
    all_serve(&world, 0);
    assert_int_equal(vote(&world, 0, 1), RP_VERDICT_OPEN);
    assert_int_equal(rp_agree_withdraw(&world.ranks[0], 0, 1), RP_VERDICT_WITHDRAWN);
    assert_int_equal(vote(&world, 1, 1), RP_VERDICT_WITHDRAWN);
    assert_int_equal(vote(&world, 0, 2), RP_VERDICT_NO);
    assert_int_equal(vote(&world, 1, 2), RP_VERDICT_NO);
    assert_int_equal(world.shared->words[2], 0); /* not touched */
    assert_false(rp_agree_dead(&world.ranks[0], 1, 2));
    world_free(&world);
}

/* The rank that withdrew was killed before it could say that the arming is dead: who reads the word does. */
static void a_reader_of_a_withdrawal_ends_the_arming_too(void **state)
{
    (void)state;
    struct world world = world_make(2);
    assert_int_equal(vote(&world, 0, 1), RP_VERDICT_OPEN);
    world.shared->words[1] = rp_word_close(world.shared->words[1], RP_VERDICT_WITHDRAWN);
    assert_false(rp_agree_dead(&world.ranks[0], 0, 2));
    assert_int_equal(rp_agree_read(&world.ranks[0], 0, 1), RP_VERDICT_WITHDRAWN);
    assert_true(rp_agree_dead(&world.ranks[0], 0, 2));
    world_free(&world);
}

static void a_withdrawal_that_comes_late_reads_what_is_there(void **state)
{
    (void)state;
    struct world world = world_make(2);
    assert_int_equal(vote(&world, 0, 1), RP_VERDICT_OPEN);
    assert_int_equal(vote(&world, 1, 1), RP_VERDICT_YES);
    assert_int_equal(rp_agree_withdraw(&world.ranks[0], 0, 1), RP_VERDICT_YES);
    assert_false(rp_agree_dead(&world.ranks[0], 0, 2));
    world_free(&world);
}

/* A group votes at all its positions first: what it voted at behind a withdrawal may be a YES, and stays one. */
static void dead_from_spares_what_this_rank_has_voted_at(void **state)
{
    (void)state;
    struct world world = world_make(2);
    for (uint64_t position = 1; position <= 3; position++)
        assert_int_equal(vote(&world, 0, position), RP_VERDICT_OPEN);
    assert_int_equal(rp_agree_withdraw(&world.ranks[0], 0, 1), RP_VERDICT_WITHDRAWN);
    assert_false(rp_agree_dead(&world.ranks[0], 0, 3));
    assert_true(rp_agree_dead(&world.ranks[0], 0, 4));
    rp_agree_kill(&world.ranks[0], 0, 2);
    assert_false(rp_agree_dead(&world.ranks[0], 0, 3));
    /* the other rank has voted at none of them: for it, and so for all, they are dead */
    assert_int_equal(vote(&world, 1, 1), RP_VERDICT_WITHDRAWN);
    assert_int_equal(vote(&world, 1, 2), RP_VERDICT_NO);
    assert_int_equal(rp_agree_read(&world.ranks[0], 0, 2), RP_VERDICT_NO);
    assert_int_equal(rp_agree_withdraw(&world.ranks[0], 0, 3), RP_VERDICT_NO);
    world_free(&world);
}

static void a_killed_arming_is_dead_for_all_and_stays_so(void **state)
{
    (void)state;
    struct world world = world_make(2);
    assert_int_equal(vote(&world, 0, 4), RP_VERDICT_OPEN);
    rp_agree_kill(&world.ranks[1], 0, 4);
    rp_agree_kill(&world.ranks[1], 0, 9);
    assert_true(rp_agree_dead(&world.ranks[0], 0, 4));
    assert_int_equal(rp_agree_read(&world.ranks[0], 0, 4), RP_VERDICT_NO);
    assert_int_equal(rp_agree_withdraw(&world.ranks[0], 0, 4), RP_VERDICT_NO);
    assert_false(rp_agree_dead(&world.ranks[0], 0, 3));
    rp_agree_kill(&world.ranks[1], 0, 0);
    assert_true(rp_agree_dead(&world.ranks[0], 0, 0));
    world_free(&world);
}

static void a_word_is_used_again_when_all_have_passed(void **state)
{
    (void)state;
    struct world world = world_make(2);
    all_serve(&world, 1);
    all_serve(&world, 1 + 2 * RP_AGREE_WORDS); /* an epoch left out */
    assert_int_equal(vote(&world, 0, 1 + 3 * RP_AGREE_WORDS), RP_VERDICT_OPEN);
    assert_int_equal(vote(&world, 1, 1 + 3 * RP_AGREE_WORDS), RP_VERDICT_YES);
    rp_agree_set_passed(&world.ranks[0], 2 + 3 * RP_AGREE_WORDS); /* and rank 1 has not read yet */
    assert_int_equal(vote(&world, 0, 1 + 4 * RP_AGREE_WORDS), RP_VERDICT_NO);
    assert_true(rp_agree_dead(&world.ranks[1], 0, 1 + 4 * RP_AGREE_WORDS));
    assert_int_equal(rp_agree_read(&world.ranks[1], 0, 1 + 3 * RP_AGREE_WORDS), RP_VERDICT_YES);
    world_free(&world);
}

/* A rank that comes to a position whose word has gone on (it said to have passed it) ends the arming there. */
static void a_word_never_goes_back(void **state)
{
    (void)state;
    struct world world = world_make(2);
    rp_agree_set_passed(&world.ranks[0], 2);
    rp_agree_set_passed(&world.ranks[1], 2);
    assert_int_equal(vote(&world, 0, 1 + RP_AGREE_WORDS), RP_VERDICT_OPEN);
    uint64_t word = world.shared->words[1];
    assert_int_equal(vote(&world, 1, 1), RP_VERDICT_NO);
    assert_int_equal(world.shared->words[1], word);
    assert_true(rp_agree_dead(&world.ranks[0], 0, 1));
    world_free(&world);
}

static void nothing_voted_is_never_waited_for(void **state)
{
    (void)state;
    struct world world = world_make(2);
    assert_int_equal(rp_agree_withdraw(&world.ranks[0], 0, RP_AGREE_WORDS), RP_VERDICT_NO);
    assert_string_equal(rp_verdict_text(RP_VERDICT_YES), "yes");
    assert_string_equal(rp_verdict_text(RP_VERDICT_COUNT), "unknown verdict");
    world_free(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_memory_is_bounded),
        cmocka_unit_test(seats_are_given_in_the_order_of_arrival),
        cmocka_unit_test(joins_that_cannot_be_are_refused),
        cmocka_unit_test(completeness_is_the_same_answer_on_all_ranks),
        cmocka_unit_test(a_rank_that_sat_down_but_said_nothing_is_not_here),
        cmocka_unit_test(fields_have_a_least_and_a_largest),
        cmocka_unit_test(giving_up_holds_for_all),
        cmocka_unit_test(a_proposal_is_armed_when_all_said_yes),
        cmocka_unit_test(a_no_or_a_missing_answer_does_not_arm),
        cmocka_unit_test(armings_go_on_as_ranks_leave_them),
        cmocka_unit_test(the_last_yes_serves),
        cmocka_unit_test(as_many_ranks_as_there_may_be),
        cmocka_unit_test(any_no_is_final_and_is_what_all_read),
        cmocka_unit_test(another_digest_breaks_the_arming),
        cmocka_unit_test(votes_of_two_armings_never_add_up),
        cmocka_unit_test(a_withdrawal_ends_the_arming_behind_it),
        cmocka_unit_test(a_reader_of_a_withdrawal_ends_the_arming_too),
        cmocka_unit_test(a_withdrawal_that_comes_late_reads_what_is_there),
        cmocka_unit_test(dead_from_spares_what_this_rank_has_voted_at),
        cmocka_unit_test(a_killed_arming_is_dead_for_all_and_stays_so),
        cmocka_unit_test(a_word_is_used_again_when_all_have_passed),
        cmocka_unit_test(a_word_never_goes_back),
        cmocka_unit_test(nothing_voted_is_never_waited_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
