/* link: shim: launch_names.c */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shim/launch_names.h"

static const void *at(uintptr_t address)
{
    return (const void *)address;
}

static void test_names_are_copied(void **state)
{
    (void)state;
    char name[] = "_Z3addPf";
    rp_launch_name_add(at(0x100), name);
    memset(name, 'x', sizeof name - 1);
    assert_string_equal(rp_launch_name(0x100), "_Z3addPf");
}

static void test_unknown_has_no_name(void **state)
{
    (void)state;
    assert_null(rp_launch_name(0xdead));
    rp_launch_name_alias(at(0x201), at(0xdead));
    assert_null(rp_launch_name(0x201));
}

static void test_alias_has_the_name_of_its_stub(void **state)
{
    (void)state;
    rp_launch_name_add(at(0x300), "kernel");
    rp_launch_name_alias(at(0x301), at(0x300));
    assert_string_equal(rp_launch_name(0x301), "kernel");
}

/* A library that is unloaded and another loaded at its address register the same stub under two names. */
static void test_registered_again_is_renamed(void **state)
{
    (void)state;
    rp_launch_name_add(at(0x400), "first");
    const char *first = rp_launch_name(0x400);
    rp_launch_name_add(at(0x400), "second");
    assert_string_equal(rp_launch_name(0x400), "second");
    assert_string_equal(first, "first");
}

static void test_many_and_long(void **state)
{
    (void)state;
    char name[32];
    for (uintptr_t i = 0; i < 50000; i++) {
        snprintf(name, sizeof name, "kernel_%lu", (unsigned long)i);
        rp_launch_name_add(at(0x100000 + i * 16), name);
    }
    for (uintptr_t i = 0; i < 50000; i += 977) {
        snprintf(name, sizeof name, "kernel_%lu", (unsigned long)i);
        assert_string_equal(rp_launch_name(0x100000 + i * 16), name);
    }
    size_t size = 1u << 20;
    char *longer = malloc(size);
    memset(longer, 'k', size - 1);
    longer[size - 1] = '\0';
    rp_launch_name_add(at(0x500), longer); /* longer than what we keep: no name, no harm */
    free(longer);
    assert_null(rp_launch_name(0x500));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_are_copied),
        cmocka_unit_test(test_unknown_has_no_name),
        cmocka_unit_test(test_alias_has_the_name_of_its_stub),
        cmocka_unit_test(test_registered_again_is_renamed),
        cmocka_unit_test(test_many_and_long),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
