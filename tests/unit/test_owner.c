/* Owners: ids that outlive what they name. */
#include "core/order/owner.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

static struct rp_owners *registry(void)
{
    struct rp_owners *owners = NULL;
    assert_int_equal(rp_owners_create(&owners), RP_OK);
    return owners;
}

static void nobody_never_dies(void **state)
{
    (void)state;
    struct rp_owners *owners = registry();
    assert_true(rp_owner_alive(owners, RP_OWNER_NOBODY));
    assert_int_equal(rp_owner_kill(owners, RP_OWNER_NOBODY), RP_INVALID);
    assert_true(rp_owner_alive(owners, RP_OWNER_NOBODY));
    rp_owners_destroy(owners);
    rp_owners_destroy(NULL);
}

static void a_place_used_again_revives_nobody(void **state)
{
    (void)state;
    struct rp_owners *owners = registry();
    struct rp_owner dead[100], owner;
    for (size_t i = 0; i < 100; i++) {
        assert_int_equal(rp_owner_make(owners, &dead[i]), RP_OK);
        assert_true(rp_owner_alive(owners, dead[i]));
        assert_int_equal(rp_owner_kill(owners, dead[i]), RP_OK);
    }
    assert_int_equal(rp_owner_make(owners, &owner), RP_OK);
    assert_int_equal(owner.place, dead[0].place);
    for (size_t i = 0; i < 100; i++) {
        assert_false(rp_owner_alive(owners, dead[i]));
        assert_int_equal(rp_owner_kill(owners, dead[i]), RP_DEAD);
    }
    assert_true(rp_owner_alive(owners, owner));
    rp_owners_destroy(owners);
}

static void ids_never_made(void **state)
{
    (void)state;
    static const struct rp_owner wrong[] = {{1, 1}, {2, 1}, {1, 2}, {0, 1}, {UINT32_MAX, UINT32_MAX}, {1, 3}, {1, 0}};
    struct rp_owners *owners = registry();
    struct rp_owner owner;
    for (int round = 0; round < 2; round++) {
        for (size_t i = (size_t)round; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
            assert_false(rp_owner_alive(owners, wrong[i]));
            assert_int_equal(rp_owner_kill(owners, wrong[i]), RP_INVALID);
        }
        /* the second round: the first of the table exists */
        assert_int_equal(rp_owner_make(owners, &owner), RP_OK);
        if (round == 0)
            assert_true(owner.place == wrong[0].place && owner.generation == wrong[0].generation);
    }
    rp_owners_destroy(owners);
}

/* Makes and kills at random, against a list of what lives. */
static void like_the_reference(void **state)
{
    (void)state;
    enum { OWNERS = 2000 };
    static struct rp_owner made[OWNERS];
    static bool alive[OWNERS];
    struct rp_owners *owners = registry();
    size_t count = 0;
    srand(5);
    while (count < OWNERS) {
        size_t some = count == 0 ? 0 : (size_t)rand() % count;
        if (count == 0 || rand() % 2 == 0) {
            assert_int_equal(rp_owner_make(owners, &made[count]), RP_OK);
            alive[count++] = true;
        } else {
            assert_int_equal(rp_owner_kill(owners, made[some]), alive[some] ? RP_OK : RP_DEAD);
            alive[some] = false;
        }
    }
    for (size_t i = 0; i < count; i++)
        assert_int_equal(rp_owner_alive(owners, made[i]), alive[i]);
    rp_owners_destroy(owners);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_never_dies),
        cmocka_unit_test(a_place_used_again_revives_nobody),
        cmocka_unit_test(ids_never_made),
        cmocka_unit_test(like_the_reference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
