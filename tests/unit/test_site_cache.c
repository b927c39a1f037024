/* link: shim: site_cache.c */
/* The cache of what rules say of an address: found again, bounded, and usable after a fork. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shim/site_sources.h"

#define MANY 40000 /* more than a cache holds */

static const struct rp_site_place nothing = {0}, something = {.module = 7};

static void *key(uintptr_t number)
{
    return (void *)(number * 16 + 4096);
}

static int forget(void **state)
{
    (void)state;
    rp_site_cache_clear(&rp_site_addresses);
    rp_site_cache_clear(&rp_site_codes);
    return 0;
}

static void a_key_is_found_again(void **state)
{
    struct rp_site_place place = {0};
    (void)state;
    assert_false(rp_site_cache_find(&rp_site_addresses, key(1), &place));
    assert_true(rp_site_cache_add(&rp_site_addresses, key(1), &something));
    assert_false(rp_site_cache_find(&rp_site_addresses, key(2), &place));
    assert_true(rp_site_cache_find(&rp_site_addresses, key(1), &place));
    assert_int_equal(place.module, 7);
}

static void a_key_is_added_once(void **state)
{
    struct rp_site_place place;
    (void)state;
    assert_true(rp_site_cache_add(&rp_site_codes, key(1), &something));
    assert_false(rp_site_cache_add(&rp_site_codes, key(1), &nothing));
    assert_true(rp_site_cache_find(&rp_site_codes, key(1), &place));
    assert_int_equal(place.module, 7);
}

static void a_stack_is_found_as_far_as_it_is_known(void **state)
{
    void *stack[] = {key(1), key(2), key(3), key(4)};
    struct rp_site_place places[4];
    (void)state;
    assert_int_equal(rp_site_cache_find_all(&rp_site_addresses, stack, 4, places), 0);
    for (int i = 0; i < 3; i++)
        rp_site_cache_add(&rp_site_addresses, stack[i], i == 1 ? &something : &nothing);
    assert_int_equal(rp_site_cache_find_all(&rp_site_addresses, stack, 4, places), 3);
    assert_int_equal(places[0].module, 0);
    assert_int_equal(places[1].module, 7);
    assert_int_equal(rp_site_cache_find_all(&rp_site_addresses, stack, 2, places), 2);
    assert_int_equal(rp_site_cache_find_all(&rp_site_addresses, stack + 3, 1, places), 0);
    assert_int_equal(rp_site_cache_find_all(&rp_site_addresses, stack, 0, places), 0);
}

static void addresses_start_anew_when_full(void **state)
{
    struct rp_site_place place;
    (void)state;
    for (uintptr_t i = 0; i < MANY; i++)
        assert_true(rp_site_cache_add(&rp_site_addresses, key(i), i % 2 == 0 ? &something : &nothing));
    assert_false(rp_site_cache_find(&rp_site_addresses, key(0), &place));
    assert_true(rp_site_cache_find(&rp_site_addresses, key(MANY - 2), &place));
    assert_int_equal(place.module, 7);
}

static void code_objects_stay_and_no_more_come_when_full(void **state)
{
    struct rp_site_place place;
    uintptr_t held = 0;
    (void)state;
    while (held < MANY && rp_site_cache_add(&rp_site_codes, key(held), &something))
        held++;
    assert_in_range(held, 1, MANY - 1);
    assert_false(rp_site_cache_add(&rp_site_codes, key(MANY), &something));
    assert_false(rp_site_cache_find(&rp_site_codes, key(MANY), &place));
    for (uintptr_t i = 0; i < held; i++)
        assert_true(rp_site_cache_find(&rp_site_codes, key(i), &place));
}

static _Atomic bool stop;

static void *keep_busy(void *unused)
{
    for (uintptr_t i = 0; !stop; i++)
        rp_site_cache_add(&rp_site_addresses, key(i), &nothing);
    return unused;
}

/* The child may be made while another thread holds the lock and is half way through a change. */
static void a_child_can_use_it(void **state)
{
    pthread_t other;
    (void)state;
    stop = false;
    assert_int_equal(pthread_create(&other, NULL, keep_busy, NULL), 0);
    for (int i = 0; i < 50; i++) {
        pid_t child = fork();
        if (child == 0) {
            alarm(20);
            rp_site_cache_forked(&rp_site_addresses);
            for (uintptr_t number = MANY; number < MANY + 100; number++)
                rp_site_cache_add(&rp_site_addresses, key(number), &something);
            struct rp_site_place place = {0};
            _exit(rp_site_cache_find(&rp_site_addresses, key(MANY + 99), &place) && place.module == 7 ? 0 : 1);
        }
        int status = -1;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
    stop = true;
    pthread_join(other, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_key_is_found_again, forget),
        cmocka_unit_test_setup(a_key_is_added_once, forget),
        cmocka_unit_test_setup(a_stack_is_found_as_far_as_it_is_known, forget),
        cmocka_unit_test_setup(addresses_start_anew_when_full, forget),
        cmocka_unit_test_setup(code_objects_stay_and_no_more_come_when_full, forget),
        cmocka_unit_test_setup(a_child_can_use_it, forget),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
