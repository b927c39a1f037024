/* Phases and the table of modules, also from several threads. */
#include "core/event.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static uint32_t intern(struct rp_modules *modules, const char *name)
{
    return rp_module_intern(modules, name, strlen(name));
}

static struct rp_modules *table(void)
{
    struct rp_modules *modules = NULL;
    assert_int_equal(rp_modules_create(&modules), RP_OK);
    return modules;
}

static void phases_and_their_names(void **state)
{
    (void)state;
    for (int i = 0; i < RP_PHASE_COUNT; i++) {
        const char *name = rp_phase_name((enum rp_phase)i);
        assert_int_equal(rp_phase_from_name(name, strlen(name)), i);
    }
    assert_string_equal(rp_phase_name(RP_PHASE_COUNT), "-");
    assert_string_equal(rp_phase_name((enum rp_phase)999), "-");
    assert_int_equal(rp_phase_from_name("forwards", 7), RP_PHASE_FORWARD);
    assert_int_equal(rp_phase_from_name("forwards", 8), RP_PHASE_UNKNOWN);
    assert_int_equal(rp_phase_from_name("forw", 4), RP_PHASE_UNKNOWN);
    assert_int_equal(rp_phase_from_name("", 0), RP_PHASE_UNKNOWN);
}

static void numbers_count_up(void **state)
{
    (void)state;
    struct rp_modules *modules = table();
    assert_int_equal(rp_module_count(modules), 1);
    assert_string_equal(rp_module_name(modules, RP_MODULE_UNKNOWN), "-");
    assert_int_equal(intern(modules, "layers.0"), 1);
    assert_int_equal(intern(modules, "layers.1"), 2);
    assert_int_equal(intern(modules, "layers.0"), 1);
    assert_int_equal(intern(modules, "-"), RP_MODULE_UNKNOWN);
    assert_int_equal(rp_module_intern(modules, "layers.10", 8), 2);
    assert_int_equal(intern(modules, ""), 3);
    assert_int_equal(rp_module_count(modules), 4);
    assert_string_equal(rp_module_name(modules, 3), "");
    assert_string_equal(rp_module_name(modules, 4), "-");
    assert_string_equal(rp_module_name(modules, UINT32_MAX), "-");
    rp_modules_destroy(modules);
}

static void names_do_not_move(void **state)
{
    (void)state;
    enum { COUNT = 5000 };
    struct rp_modules *modules = table();
    const char **names = calloc(COUNT, sizeof(*names));
    char text[32];
    assert_non_null(names);
    for (uint32_t i = 1; i < COUNT; i++) {
        snprintf(text, sizeof(text), "layers.%u", (unsigned)i);
        assert_int_equal(intern(modules, text), i);
        names[i] = rp_module_name(modules, i);
    }
    for (uint32_t i = 1; i < COUNT; i++) {
        snprintf(text, sizeof(text), "layers.%u", (unsigned)i);
        assert_ptr_equal(rp_module_name(modules, i), names[i]);
        assert_string_equal(names[i], text);
    }
    free(names);
    rp_modules_destroy(modules);
}

/* As of a program that makes up a name for each step. */
static void names_are_bounded(void **state)
{
    (void)state;
    struct rp_modules *modules = table();
    char text[32];
    for (uint32_t i = 1; i <= RP_MODULES_MAX; i++) {
        snprintf(text, sizeof(text), "step %u", (unsigned)i);
        if (intern(modules, text) != (i < RP_MODULES_MAX ? i : RP_MODULE_UNKNOWN))
            fail_msg("name %u", (unsigned)i);
    }
    assert_int_equal(rp_module_count(modules), RP_MODULES_MAX);
    assert_int_equal(intern(modules, "step 7"), 7);
    rp_modules_destroy(modules);
}

static void long_names_are_cut(void **state)
{
    (void)state;
    struct rp_modules *modules = table();
    char *name = malloc(RP_MODULE_NAME_MAX + 2);
    assert_non_null(name);
    memset(name, 'x', RP_MODULE_NAME_MAX + 2);
    uint32_t number = rp_module_intern(modules, name, RP_MODULE_NAME_MAX + 2);
    assert_int_equal(strlen(rp_module_name(modules, number)), RP_MODULE_NAME_MAX);
    assert_int_equal(rp_module_intern(modules, name, RP_MODULE_NAME_MAX), number);
    free(name);
    rp_modules_destroy(modules);
}

static void a_fork_keeps_the_table(void **state)
{
    (void)state;
    struct rp_modules *modules = table();
    uint32_t number = intern(modules, "layers.0");
    rp_modules_forked(modules);
    assert_int_equal(intern(modules, "layers.0"), number);
    assert_int_equal(intern(modules, "layers.1"), number + 1);
    rp_modules_destroy(modules);
    rp_modules_destroy(NULL);
}

enum { THREADS = 4, NAMES = 400 };

struct worker {
    pthread_t thread;
    struct rp_modules *modules;
    uint32_t numbers[NAMES];
    int wrong;
};

/* Interns all names, each worker beginning elsewhere, and reads back what it got while others add. */
static void *work(void *argument)
{
    struct worker *worker = argument;
    unsigned first = (unsigned)((uintptr_t)worker / sizeof(*worker) % NAMES);
    for (unsigned i = 0; i < NAMES; i++) {
        unsigned at = (first + i) % NAMES;
        char text[32];
        snprintf(text, sizeof(text), "block.%u", at);
        worker->numbers[at] = intern(worker->modules, text);
        worker->wrong += strcmp(rp_module_name(worker->modules, worker->numbers[at]), text) != 0;
    }
    return NULL;
}

static void threads_agree_on_numbers(void **state)
{
    (void)state;
    static struct worker workers[THREADS];
    struct rp_modules *modules = table();
    for (int i = 0; i < THREADS; i++) {
        workers[i].modules = modules;
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(workers[i].thread, NULL);
        assert_int_equal(workers[i].wrong, 0);
        assert_memory_equal(workers[i].numbers, workers[0].numbers, sizeof(workers[0].numbers));
    }
    assert_int_equal(rp_module_count(modules), NAMES + 1);
    rp_modules_destroy(modules);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(phases_and_their_names),   cmocka_unit_test(numbers_count_up),
        cmocka_unit_test(names_do_not_move),        cmocka_unit_test(names_are_bounded),
        cmocka_unit_test(long_names_are_cut),       cmocka_unit_test(a_fork_keeps_the_table),
        cmocka_unit_test(threads_agree_on_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
