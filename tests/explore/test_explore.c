/*
 * The exploration, as a test; `test_explore large` explores more (`make explore`). A line a scenario: how many states,
 * moves between them, and ends (all ranks done) there are, and what did not hold.
 */
#include "tests/explore/explore.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

static struct explore_result total;

static struct explore_result explore(const struct explore_scenario *what)
{
    struct explore_result result = explore_run(what, FAULT_NONE, stdout);
    printf("# %-44s %9lu states %10lu moves %7lu ends  %s\n", what->name, (unsigned long)result.states,
           (unsigned long)result.moves, (unsigned long)result.ends,
           result.violation != NULL ? result.violation : "all holds");
    fflush(stdout);
    total.states += result.states;
    total.moves += result.moves;
    total.ends += result.ends;
    total.recycled += result.recycled;
    total.rearmed += result.rearmed;
    total.verdicts |= result.verdicts;
    total.armed |= result.armed;
    return result;
}

static bool explore_all(const struct explore_scenario *scenarios, uint32_t count)
{
    bool holds = true;
    total = (struct explore_result){0};
    for (uint32_t i = 0; i < count; i++)
        holds &= explore(&scenarios[i]).violation == NULL;
    printf("# %lu states, %lu moves, %lu ends: %s\n", (unsigned long)total.states, (unsigned long)total.moves,
           (unsigned long)total.ends, holds ? "all holds" : "VIOLATED");
    return holds;
}

static void everything_holds_and_everything_happens(void **state)
{
    (void)state;
    assert_true(explore_all(explore_small, explore_small_count));
    assert_int_equal(total.verdicts, 1 << RP_VERDICT_YES | 1 << RP_VERDICT_NO | 1 << RP_VERDICT_WITHDRAWN |
                                         1 << RP_VERDICT_DISARM_SLOWER | 1 << RP_VERDICT_BROKEN);
    assert_int_equal(total.armed, 3);
    assert_true(total.recycled > 1000);
    assert_true(total.rearmed > 10);
}

/* The first scenario that shows the fault, as the test's own proof that a violation is found. */
static void fault_is_found(enum explore_fault with)
{
    const char *violation = NULL;
    for (uint32_t i = 0; i < explore_small_count && violation == NULL; i++) {
        struct explore_result result = explore_run(&explore_small[i], with, NULL);
        violation = result.violation;
        if (violation != NULL)
            printf("# %s: %s, after %lu states\n", explore_small[i].name, violation, (unsigned long)result.states);
    }
    assert_non_null(violation);
}

static void a_word_used_again_too_early_is_found(void **state)
{
    (void)state;
    fault_is_found(FAULT_PASSED_UNSEEN);
}

static void an_arming_used_again_too_early_is_found(void **state)
{
    (void)state;
    fault_is_found(FAULT_LEFT_UNSEEN);
}

static void a_vote_in_a_dead_arming_is_found(void **state)
{
    (void)state;
    fault_is_found(FAULT_DEAD_UNSEEN);
}

static void a_swap_that_does_not_compare_is_found(void **state)
{
    (void)state;
    fault_is_found(FAULT_BLIND_SWAP);
}

static void an_arming_that_dies_under_a_vote_is_found(void **state)
{
    (void)state;
    fault_is_found(FAULT_VOTES_FORGOTTEN);
}

static void ranks_apart_with_one_digest_are_found(void **state)
{
    (void)state;
    fault_is_found(FAULT_ONE_DIGEST);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_holds_and_everything_happens),
        cmocka_unit_test(a_word_used_again_too_early_is_found),
        cmocka_unit_test(an_arming_used_again_too_early_is_found),
        cmocka_unit_test(a_vote_in_a_dead_arming_is_found),
        cmocka_unit_test(a_swap_that_does_not_compare_is_found),
        cmocka_unit_test(an_arming_that_dies_under_a_vote_is_found),
        cmocka_unit_test(ranks_apart_with_one_digest_are_found),
    };
    if (argc > 1 && strcmp(argv[1], "large") == 0)
        return explore_all(explore_large, explore_large_count) ? 0 : 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
