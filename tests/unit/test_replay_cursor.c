/* Where a lane stands in its plan: following, foreign ops, divergences, and what verdicts say. Lanes as text. */
#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "core/replay/replay_cursor.h"

/* Two microbatches: A to D are units gathered for the first time, a to d again; 1 is a reduction. */
#define CYCLE "ABCDdcba1abcddcba1"
#define LENGTH (sizeof(CYCLE) - 1)

struct world {
    struct rp_plan_entry entries[LENGTH];
    struct rp_plan plan;
    struct rp_cursor cursor;
};

/* Signatures tell sizes, not units: b and c are of one size. */
static uint64_t signature_of(char c)
{
    return c == 'c' || c == 'C' ? 'b' : (uint64_t)tolower(c);
}

static struct world *world(void)
{
    static struct world w;

    memset(&w, 0, sizeof(w));
    for (size_t i = 0; i < LENGTH; i++) {
        char c = CYCLE[i];
        uint32_t unit = isdigit((unsigned char)c) ? RP_NO_UNIT : (uint32_t)(tolower(c) - 'a');
        enum rp_plan_action action = isdigit((unsigned char)c) ? RP_PLAN_PASS : RP_PLAN_KEEP;
        w.entries[i] =
            (struct rp_plan_entry){.signature = signature_of(c),
                                   .unit = unit,
                                   .slot = unit,
                                   .action = (uint8_t)(isupper((unsigned char)c) ? RP_PLAN_NETWORK : action)};
    }
    w.plan = (struct rp_plan){.entries = w.entries, .count = LENGTH};
    assert_int_equal(rp_cursor_create(&w.plan, &w.cursor), RP_OK);
    rp_cursor_reset(&w.cursor, &w.plan, true);
    return &w;
}

static enum rp_cursor_move see(struct world *w, const char *text)
{
    enum rp_cursor_move move = RP_CURSOR_FOREIGN;

    for (; *text != '\0'; text++)
        move = rp_cursor_see(&w->cursor, signature_of(*text));
    return move;
}

static void hit(struct world *w)
{
    rp_cursor_hit(&w->cursor, rp_cursor_mark(&w->cursor));
}

static void miss(struct world *w)
{
    rp_cursor_miss(&w->cursor, rp_cursor_mark(&w->cursor));
}

static void follows(void **state)
{
    (void)state;
    struct world *w = world();
    assert_int_equal(see(w, CYCLE CYCLE "ABC"), RP_CURSOR_FOLLOWED);
    assert_int_equal(rp_cursor_sole(&w->cursor), 2);
    assert_true(w->cursor.confirmed);
    assert_int_equal(w->cursor.epoch, 0);
    rp_cursor_free(&w->cursor);
}

static void foreign_passes(void **state)
{
    (void)state;
    struct world *w = world();
    see(w, "AB");
    assert_int_equal(see(w, "x"), RP_CURSOR_FOREIGN);
    assert_true(rp_cursor_expects(&w->cursor, 'x'));
    assert_int_equal(rp_cursor_sole(&w->cursor), 1);
    assert_int_equal(see(w, "C"), RP_CURSOR_FOLLOWED);
    assert_int_equal(rp_cursor_sole(&w->cursor), 2);
    rp_cursor_free(&w->cursor);
}

static void divergence_finds_all(void **state)
{
    (void)state;
    struct world *w = world();
    see(w, "ABCD");
    assert_false(rp_cursor_expects(&w->cursor, signature_of('a')));
    assert_int_equal(see(w, "a"), RP_CURSOR_DIVERGED); /* no place follows d: all of its signature */
    assert_int_equal(w->cursor.here.count, 4);
    assert_int_equal(rp_cursor_sole(&w->cursor), RP_NO_ENTRY);
    assert_false(w->cursor.confirmed);
    see(w, "b");
    assert_int_equal(w->cursor.here.count, 2); /* forward of either microbatch */
    see(w, "cddcba1");
    assert_int_equal(w->cursor.here.count, 2);
    rp_cursor_free(&w->cursor);
}

static void best_fit_wins(void **state)
{
    (void)state;
    struct world *w = world();
    see(w, CYCLE "ABC"); /* d is expected; b comes, and the places that fit are those behind one of its size */
    assert_int_equal(see(w, "b"), RP_CURSOR_DIVERGED);
    for (uint32_t i = 0; i < w->cursor.here.count; i++) {
        uint32_t at = w->cursor.here.at[i];
        assert_int_equal(w->entries[at].signature, 'b');
        assert_int_equal(w->entries[(at + LENGTH - 1) % LENGTH].signature, 'b');
    }
    rp_cursor_free(&w->cursor);
}

static void verdict_picks(void **state)
{
    (void)state;
    for (int yes = 0; yes < 2; yes++) {
        struct world *w = world();
        see(w, "ABCDab");
        assert_int_equal(w->cursor.here.count, 2);
        if (yes)
            hit(w);
        else
            miss(w);
        assert_int_equal(rp_cursor_sole(&w->cursor), yes ? 10 : 1);
        assert_false(w->cursor.confirmed);
        see(w, "c");
        miss(w); /* new where the plan has it new */
        assert_int_equal(w->cursor.confirmed, !yes);
        rp_cursor_free(&w->cursor);
    }
}

/* Votes of a group come after several ops. */
static void verdict_comes_late(void **state)
{
    (void)state;
    struct world *w = world();
    see(w, "ABCDa");
    see(w, "b");
    struct rp_cursor_mark mark = rp_cursor_mark(&w->cursor);
    see(w, "cd");
    rp_cursor_hit(&w->cursor, mark);
    assert_int_equal(rp_cursor_sole(&w->cursor), 12);
    see(w, "1"); /* diverged: the mark is of before */
    uint32_t count = w->cursor.here.count;
    rp_cursor_miss(&w->cursor, mark);
    assert_int_equal(w->cursor.here.count, count);
    rp_cursor_free(&w->cursor);
}

static void second_miss_moves(void **state)
{
    (void)state;
    struct world *w = world();
    see(w, "ABCDdcba1"
           "a"); /* taken for the second microbatch */
    miss(w);
    assert_int_equal(rp_cursor_sole(&w->cursor), 9);
    assert_int_equal(w->cursor.others.count, 1);
    see(w, "b");
    miss(w);
    assert_int_equal(rp_cursor_sole(&w->cursor), 1); /* it is the first */
    assert_false(w->cursor.confirmed);
    see(w, "c");
    miss(w);
    assert_true(w->cursor.confirmed);
    rp_cursor_free(&w->cursor);
}

static void one_miss_is_none(void **state)
{
    (void)state;
    struct world *w = world();
    see(w, "ABCDdcba1"
           "a");
    miss(w);
    see(w, "b");
    hit(w);
    assert_int_equal(w->cursor.others.count, 0);
    see(w, "c");
    miss(w);
    assert_int_equal(rp_cursor_sole(&w->cursor), 11);
    rp_cursor_free(&w->cursor);
}

/* An entry that always misses is taken out of the vote, and says new from then on. */
static void actions_change(void **state)
{
    (void)state;
    struct world *w = world();
    w->cursor.actions[9] = RP_PLAN_NETWORK;
    see(w, "ABCDdcba1"
           "a");
    miss(w);
    assert_int_equal(w->cursor.misses, 0);
    rp_cursor_reset(&w->cursor, &w->plan, false);
    assert_int_equal(w->cursor.actions[9], RP_PLAN_KEEP);
    assert_int_equal(w->cursor.here.count, 0);
    rp_cursor_free(&w->cursor);
}

static void starts_anywhere(void **state)
{
    (void)state;
    struct world *w = world();
    rp_cursor_reset(&w->cursor, &w->plan, false);
    assert_true(rp_cursor_expects(&w->cursor, 'd'));
    assert_int_equal(see(w, "x"), RP_CURSOR_FOREIGN);
    assert_int_equal(see(w, "d"), RP_CURSOR_DIVERGED);
    assert_int_equal(w->cursor.here.count, 4);
    see(w, "dcba");
    assert_int_equal(w->cursor.here.count, 2);
    rp_cursor_free(&w->cursor);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(follows),           cmocka_unit_test(foreign_passes),   cmocka_unit_test(divergence_finds_all),
        cmocka_unit_test(best_fit_wins),     cmocka_unit_test(verdict_picks),    cmocka_unit_test(verdict_comes_late),
        cmocka_unit_test(second_miss_moves), cmocka_unit_test(one_miss_is_none), cmocka_unit_test(actions_change),
        cmocka_unit_test(starts_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
