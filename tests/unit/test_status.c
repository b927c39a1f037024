/* Texts of results: every status has its own, a value that is none has one too. */
#include "core/status.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static const enum rp_status all[] = {
#define X(name, text) RP_##name,
    RP_STATUSES(X)
#undef X
};

static void texts_are_distinct(void **state)
{
    (void)state;
    size_t count = sizeof(all) / sizeof(all[0]);
    for (size_t i = 0; i < count; i++) {
        assert_true(rp_status_text(all[i])[0] != '\0');
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(rp_status_text(all[i]), rp_status_text(all[j]));
    }
}

static void known_and_unknown_values(void **state)
{
    (void)state;
    assert_string_equal(rp_status_text(RP_OK), "ok");
    assert_string_equal(rp_status_text(RP_DEAD), "the event is dead");
    assert_string_equal(rp_status_text((enum rp_status)9999), "unknown status");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_are_distinct),
        cmocka_unit_test(known_and_unknown_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
