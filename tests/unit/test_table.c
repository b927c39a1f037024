/* Tables that grow. */
#include "core/table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

static void elements_stay(void **state)
{
    (void)state;
    uint64_t *table = NULL;
    size_t room = 0, moves = 0;
    for (size_t count = 0; count < 10000; count++) {
        size_t before = room;
        uint64_t *larger = rp_table_grow(table, count, &room, sizeof *table);
        assert_non_null(larger);
        assert_true(room > count);
        assert_true(count < before ? room == before && larger == table : room >= 2 * before);
        moves += room != before;
        table = larger;
        table[count] = count;
    }
    for (size_t i = 0; i < 10000; i++)
        assert_int_equal(table[i], i);
    assert_true(moves < 20);
    free(table);
}

static void too_large_leaves_the_table(void **state)
{
    (void)state;
    char *table = malloc(1);
    size_t room = SIZE_MAX / 4;
    assert_non_null(table);
    assert_null(rp_table_grow(table, room, &room, 8));
    assert_int_equal(room, SIZE_MAX / 4);
    free(table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elements_stay),
        cmocka_unit_test(too_large_leaves_the_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
