/* Freshness of gathers, against a reference that looks through the last ops. */
#include "core/steps/fresh.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

static struct rp_op gather(uint64_t count)
{
    return (struct rp_op){.kind = RP_OP_ALL_GATHER, .dtype = RP_DTYPE_INT8, .redop = RP_REDOP_NONE, .count = count};
}

static bool see(struct rp_freshness *set, uint64_t content, uint64_t count)
{
    struct rp_op op = gather(count);
    return rp_freshness_see(set, &op, (uint64_t[2]){content, 7});
}

static struct rp_freshness *set_of(size_t window)
{
    struct rp_freshness *set = NULL;
    assert_int_equal(rp_freshness_create(window, &set), RP_OK);
    return set;
}

static void content_and_size_count(void **state)
{
    (void)state;
    struct rp_freshness *set = set_of(10);
    assert_true(see(set, 1, 64));
    assert_false(see(set, 1, 64));
    assert_true(see(set, 2, 64));
    assert_true(see(set, 1, 32));
    assert_false(see(set, 2, 64));
    rp_freshness_destroy(set);
}

static void what_cannot_be_fresh(void **state)
{
    (void)state;
    struct rp_freshness *set = set_of(10);
    struct rp_op reduce = gather(64), unknown = gather(64);
    reduce.kind = RP_OP_REDUCE_SCATTER;
    assert_false(rp_freshness_see(set, &reduce, (uint64_t[2]){1, 7}));
    assert_false(rp_freshness_see(set, &unknown, NULL));
    assert_true(see(set, 1, 64));
    rp_freshness_destroy(set);
}

static void content_is_forgotten(void **state)
{
    (void)state;
    struct rp_freshness *set = set_of(3);
    struct rp_op unknown = gather(64);
    assert_true(see(set, 1, 64));
    rp_freshness_see(set, &unknown, NULL);
    rp_freshness_see(set, &unknown, NULL);
    assert_false(see(set, 1, 64)); /* three ops ago: still in the window */
    for (int i = 0; i < 3; i++)
        rp_freshness_see(set, &unknown, NULL);
    assert_true(see(set, 1, 64));
    rp_freshness_destroy(set);
}

static void illegal_windows(void **state)
{
    (void)state;
    struct rp_freshness *set = NULL;
    assert_int_equal(rp_freshness_create(0, &set), RP_INVALID);
    assert_int_equal(rp_freshness_create(SIZE_MAX / 2, &set), RP_INVALID);
    assert_null(set);
    rp_freshness_destroy(NULL);
}

static void like_the_reference(void **state)
{
    (void)state;
    enum { OPS = 400 };
    srand(1);
    for (size_t window = 1; window < 40; window++) {
        struct rp_freshness *set = set_of(window);
        int contents[OPS]; /* -1: not known */
        for (size_t i = 0; i < OPS; i++) {
            struct rp_op op = gather(64);
            contents[i] = rand() % 12 - 1;
            bool expected = contents[i] >= 0;
            for (size_t j = i > window ? i - window : 0; j < i; j++)
                expected = expected && contents[j] != contents[i];
            uint64_t fingerprint[2] = {(uint64_t)contents[i], 0};
            assert_int_equal(rp_freshness_see(set, &op, contents[i] >= 0 ? fingerprint : NULL), expected);
        }
        rp_freshness_destroy(set);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(content_and_size_count), cmocka_unit_test(what_cannot_be_fresh),
        cmocka_unit_test(content_is_forgotten),   cmocka_unit_test(illegal_windows),
        cmocka_unit_test(like_the_reference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
