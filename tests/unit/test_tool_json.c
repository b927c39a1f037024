/* JSON as it is written: groups in groups, empty ones, and text that has to be escaped. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>

#include "core/tool/json.h"

static void write_nested(struct rp_json *json)
{
    rp_json_object(json, NULL);
    rp_json_array(json, "none");
    rp_json_end_array(json);
    rp_json_array(json, "some");
    rp_json_number(json, NULL, INT64_MIN);
    rp_json_object(json, NULL);
    rp_json_end_object(json);
    rp_json_null(json, NULL);
    rp_json_end_array(json);
    rp_json_flag(json, "yes", true);
    rp_json_real(json, "real", 12345678.9);
    rp_json_end_object(json);
}

static void write_text(struct rp_json *json)
{
    rp_json_array(json, NULL);
    rp_json_text(json, NULL, "");
    rp_json_text(json, NULL, "a \"b\" \\ c/\xc3\xa9");
    rp_json_text(json, NULL, "\x1b[31m\n\xff");
    rp_json_end_array(json);
}

static const struct {
    void (*write)(struct rp_json *json);
    const char *expected;
} table[] = {
    {write_nested, "{\n  \"none\": [],\n  \"some\": [\n    -9223372036854775808,\n    {},\n    null\n  ],\n"
                   "  \"yes\": true,\n  \"real\": 12345679\n}\n"},
    {write_text, "[\n  \"\",\n  \"a \\\"b\\\" \\\\ c/\xc3\xa9\",\n  \"\\\\x1b[31m\\\\x0a\\\\xff\"\n]\n"},
};

static void test_table(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        char *text = NULL;
        size_t size = 0;
        struct rp_json json = {.out = open_memstream(&text, &size)};
        assert_non_null(json.out);
        table[i].write(&json);
        assert_int_equal(fclose(json.out), 0);
        assert_string_equal(text, table[i].expected);
        free(text);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {cmocka_unit_test(test_table)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
