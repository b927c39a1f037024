/* Alignment: shapes that must hold for every pair of sequences, the distance against a table of all prefixes, and
 * sequences as long as real runs are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/compare/align.h"

/* Aligns and checks that pairs are equal and grow on both sides; returns how many there are. */
static size_t align(const uint64_t *left, size_t n, const uint64_t *right, size_t m, uint32_t *match)
{
    assert_int_equal(rp_align((struct rp_align_keys){left, n, NULL}, (struct rp_align_keys){right, m, NULL}, match),
                     RP_OK);
    size_t pairs = 0;
    int64_t last = -1;
    for (size_t i = 0; i < n; i++) {
        if (match[i] == RP_ALIGN_NONE)
            continue;
        assert_true(match[i] < m && (int64_t)match[i] > last && left[i] == right[match[i]]);
        last = match[i];
        pairs++;
    }
    return pairs;
}

/* The longest common subsequence, by the table of all prefixes. */
static size_t longest_common(const uint64_t *left, size_t n, const uint64_t *right, size_t m)
{
    size_t table[33][33] = {{0}};
    for (size_t i = 1; i <= n; i++) {
        for (size_t j = 1; j <= m; j++) {
            size_t skip = table[i - 1][j] > table[i][j - 1] ? table[i - 1][j] : table[i][j - 1];
            table[i][j] = left[i - 1] == right[j - 1] ? table[i - 1][j - 1] + 1 : skip;
        }
    }
    return table[n][m];
}

static void test_small_against_all_prefixes(void **state)
{
    (void)state;
    uint64_t left[32], right[32];
    uint32_t match[32];
    srand(7);
    for (int round = 0; round < 20000; round++) {
        size_t n = (size_t)rand() % 33, m = (size_t)rand() % 33;
        int letters = 1 + rand() % 6;
        for (size_t i = 0; i < n; i++)
            left[i] = (uint64_t)(rand() % letters);
        for (size_t j = 0; j < m; j++)
            right[j] = (uint64_t)(rand() % letters);
        assert_int_equal(align(left, n, right, m, match), longest_common(left, n, right, m));
    }
}

/* Keys are equal, names are 1 to `parts` in each part, or 0: not known. */
static void random_names(uint64_t *names, size_t count, int parts)
{
    for (size_t i = 0; i < count; i++)
        names[i] = (uint64_t)(rand() % (parts + 1)) * (RP_ALIGN_PART + 1) + (uint64_t)(rand() % (parts + 1));
}

static bool may_be_same_name(uint64_t a, uint64_t b)
{
    uint64_t low_a = a % 256, low_b = b % 256, high_a = a / 256, high_b = b / 256;
    return (low_a == low_b || low_a * low_b == 0) && (high_a == high_b || high_a * high_b == 0);
}

/* As longest_common(), with names for keys. */
static size_t longest_common_names(const uint64_t *left, size_t n, const uint64_t *right, size_t m)
{
    size_t table[33][33] = {{0}};
    for (size_t i = 1; i <= n; i++) {
        for (size_t j = 1; j <= m; j++) {
            size_t skip = table[i - 1][j] > table[i][j - 1] ? table[i - 1][j] : table[i][j - 1];
            size_t pair = table[i - 1][j - 1] + may_be_same_name(left[i - 1], right[j - 1]);
            table[i][j] = pair > skip ? pair : skip;
        }
    }
    return table[n][m];
}

static void test_names_against_all_prefixes(void **state)
{
    (void)state;
    const uint64_t keys[32] = {0};
    uint64_t left[32], right[32];
    uint32_t match[32];
    srand(13);
    for (int round = 0; round < 20000; round++) {
        size_t n = (size_t)rand() % 33, m = (size_t)rand() % 33, pairs = 0;
        int parts = 1 + rand() % 6;
        random_names(left, n, parts);
        random_names(right, m, parts);
        assert_int_equal(rp_align((struct rp_align_keys){keys, n, left}, (struct rp_align_keys){keys, m, right}, match),
                         RP_OK);
        int64_t last = -1;
        for (size_t i = 0; i < n; i++) {
            if (match[i] == RP_ALIGN_NONE)
                continue;
            assert_true(match[i] < m && (int64_t)match[i] > last && may_be_same_name(left[i], right[match[i]]));
            last = match[i];
            pairs++;
        }
        assert_int_equal(pairs, longest_common_names(left, n, right, m));
    }
}

static void test_empty_sides(void **state)
{
    (void)state;
    uint64_t keys[3] = {1, 2, 3};
    uint32_t match[3] = {7, 7, 7};
    assert_int_equal(align(keys, 0, keys, 0, match), 0);
    assert_int_equal(align(keys, 0, keys, 3, match), 0);
    assert_int_equal(match[0], 7);
    assert_int_equal(align(keys, 3, keys, 0, match), 0);
    assert_int_equal(match[2], RP_ALIGN_NONE);
}

/* Fills with cycles of `period` keys. */
static uint64_t *cycles(size_t count, size_t period)
{
    uint64_t *keys = malloc((count + period) * sizeof(*keys));
    assert_non_null(keys);
    for (size_t i = 0; i < count + period; i++)
        keys[i] = 1 + i % period;
    return keys;
}

static void test_shorter_run_loses_its_tail(void **state)
{
    (void)state;
    uint64_t *left = cycles(3000, 30), *right = cycles(3000, 30);
    uint32_t *match = malloc(3000 * sizeof(*match));
    right[95] = 500; /* one other op in the fourth cycle, and 60 fewer at the end */
    assert_int_equal(align(left, 3000, right, 2940, match), 2939);
    for (uint32_t i = 0; i < 3000; i++)
        assert_int_equal(match[i], i == 95 || i >= 2940 ? RP_ALIGN_NONE : i);
    free(left);
    free(right);
    free(match);
}

/* 1000 equal elements; some are others in `right`, which has `fewer` fewer at the end. */
static void check_changed(size_t fewer, bool swap)
{
    static const size_t changed[] = {3, 100, 101, 500, 900};
    uint64_t *left = cycles(1000, 1), *right = cycles(1000, 1);
    uint32_t *match = malloc(1000 * sizeof(*match));
    for (size_t i = 0; i < 5; i++)
        right[changed[i]] = 7 + i;
    size_t n = 1000, m = 1000 - fewer;
    assert_int_equal(swap ? align(right, m, left, n, match) : align(left, n, right, m, match), m - 5);
    size_t next = 0;
    for (uint32_t i = 0; i < m; i++) {
        bool alone = next < 5 && changed[next] == i;
        next += alone;
        assert_int_equal(match[i], alone ? RP_ALIGN_NONE : i);
    }
    free(left);
    free(right);
    free(match);
}

static void test_changed_among_equal_ones(void **state)
{
    (void)state;
    check_changed(0, false);
    check_changed(0, true);
    check_changed(20, false);
    check_changed(20, true);
}

static void test_inserted_block_is_bridged(void **state)
{
    (void)state;
    enum { COUNT = 20000, AT = 6007, BLOCK = 1500 };
    uint64_t *left = cycles(COUNT, 97), *right = malloc((COUNT + BLOCK) * sizeof(*right));
    uint32_t *match = malloc(COUNT * sizeof(*match));
    memcpy(right, left, AT * sizeof(*right));
    for (size_t i = 0; i < BLOCK; i++)
        right[AT + i] = 1000 + i % 40;
    memcpy(right + AT + BLOCK, left + AT, (COUNT - AT) * sizeof(*right));
    assert_int_equal(align(left, COUNT, right, COUNT + BLOCK, match), COUNT);
    free(left);
    free(right);
    free(match);
}

/* A million ops; every 250th is dropped, so that the distance is larger than a window. */
static void test_many_windows(void **state)
{
    (void)state;
    enum { COUNT = 1000000 };
    uint64_t *left = cycles(COUNT, 31), *right = malloc(COUNT * sizeof(*right));
    uint32_t *match = malloc(COUNT * sizeof(*match));
    size_t kept = 0;
    for (size_t i = 0; i < COUNT; i++) {
        if (i % 250 != 17)
            right[kept++] = left[i];
    }
    assert_int_equal(align(left, COUNT, right, kept, match), kept);
    assert_int_equal(align(left, COUNT, left, COUNT, match), COUNT);
    assert_int_equal(align(left, 1000, left + 15, COUNT - 15, match), 1000);
    free(left);
    free(right);
    free(match);
}

/* Random sequences far apart: it ends, and what it says holds. */
static void test_unlike_sequences_end(void **state)
{
    (void)state;
    enum { COUNT = 20000 };
    uint64_t *left = cycles(COUNT, 3), *right = cycles(COUNT, 3);
    uint32_t *match = malloc(COUNT * sizeof(*match));
    srand(11);
    for (size_t i = 0; i < COUNT; i++) {
        left[i] = (uint64_t)(rand() % 50);
        right[i] = (uint64_t)(rand() % 50);
    }
    assert_true(align(left, COUNT, right, COUNT, match) > COUNT / 10);
    for (size_t i = 0; i < COUNT; i++)
        right[i] += 100;
    assert_int_equal(align(left, COUNT, right, COUNT, match), 0);
    free(left);
    free(right);
    free(match);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_against_all_prefixes),
        cmocka_unit_test(test_names_against_all_prefixes),
        cmocka_unit_test(test_empty_sides),
        cmocka_unit_test(test_shorter_run_loses_its_tail),
        cmocka_unit_test(test_changed_among_equal_ones),
        cmocka_unit_test(test_inserted_block_is_bridged),
        cmocka_unit_test(test_many_windows),
        cmocka_unit_test(test_unlike_sequences_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
