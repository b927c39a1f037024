/* link: shim: live.c */
/*
 * Memory from cudaMalloc: what is in it as a whole, and what is not any more.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "shim/live.h"

static const void *at(uintptr_t address)
{
    return (const void *)address;
}

/* Before the first begin: nothing is known. */
static void test_not_begun(void **state)
{
    (void)state;
    rp_live_allocated(at(0x1000), 0x100);
    assert_false(rp_live_has(at(0x1000), 1));
    rp_live_begin();
}

static void test_bounds(void **state)
{
    (void)state;
    rp_live_allocated(at(0x2000), 0x100);
    rp_live_allocated(at(0x2100), 0x100); /* right behind: another one all the same */
    rp_live_allocated(NULL, 0x100);
    rp_live_allocated(at(0x9000), 0);
    assert_true(rp_live_has(at(0x2000), 0x100));
    assert_true(rp_live_has(at(0x20ff), 1));
    assert_false(rp_live_has(at(0x20ff), 2));
    assert_false(rp_live_has(at(0x1fff), 1));
    assert_false(rp_live_has(at(0x2200), 1));
    assert_false(rp_live_has(at(0x2000), UINT64_MAX));
    assert_false(rp_live_has(at(0x2000), 0));
    assert_false(rp_live_has(NULL, 1));
    assert_false(rp_live_has(at(0x9000), 1));
    rp_live_freed(NULL);
    rp_live_freed(at(0x2000));
    rp_live_freed(at(0x2000));
    assert_false(rp_live_has(at(0x2000), 1));
    assert_true(rp_live_has(at(0x2100), 0x100));
    rp_live_freed(at(0x2100));
}

/* A free that was not seen: who has the address now is what counts. */
static void test_overlaps(void **state)
{
    (void)state;
    for (uintptr_t i = 0; i < 8; i++)
        rp_live_allocated(at(0x10000 + i * 0x100), 0x100);
    rp_live_allocated(at(0x10180), 0x300);
    assert_true(rp_live_has(at(0x10000), 0x100));
    assert_false(rp_live_has(at(0x10100), 1));
    assert_true(rp_live_has(at(0x10180), 0x300));
    assert_false(rp_live_has(at(0x10480), 1));
    assert_true(rp_live_has(at(0x10500), 0x100));
    rp_live_forked();
    assert_false(rp_live_has(at(0x10500), 1));
}

#define MANY 2000u

/* In any order, against a plain table. */
static void test_many(void **state)
{
    (void)state;
    static uint8_t there[MANY];
    srand(1);
    for (int round = 0; round < 20000; round++) {
        unsigned number = (unsigned)rand() % MANY;
        uintptr_t address = 0x100000 + number * 0x1000;
        if (there[number])
            rp_live_freed(at(address));
        else
            rp_live_allocated(at(address), 0x800);
        there[number] = !there[number];
        number = (unsigned)rand() % MANY;
        address = 0x100000 + number * 0x1000;
        assert_int_equal(rp_live_has(at(address + 0x7f0), 0x10), there[number]);
        assert_false(rp_live_has(at(address + 0x800), 1));
    }
}

static void test_enter(void **state)
{
    (void)state;
    rp_live_allocated(at(0x2000), 0x100);
    assert_false(rp_live_enter(at(0x2001), 0x100));
    assert_true(rp_live_enter(at(0x2000), 0x100));
    rp_live_leave();
    rp_live_freed(at(0x2000));
    assert_false(rp_live_enter(at(0x2000), 0x100));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_not_begun), cmocka_unit_test(test_bounds), cmocka_unit_test(test_overlaps),
        cmocka_unit_test(test_many),      cmocka_unit_test(test_enter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
