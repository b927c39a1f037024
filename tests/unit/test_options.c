/* Options: what is read from an environment, what is said about it, and the printed table. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/options.h"

static char log_file[] = "/tmp/rp-test-options-XXXXXX";
static char log_text[8192];
static struct rp_options options;

static void free_strings(void)
{
    free((char *)(uintptr_t)options.trace);
    free((char *)(uintptr_t)options.log_pattern);
    options = (struct rp_options){0};
}

/* Reads the environment; what was logged is in log_text. */
static void read_options(char *const *environment)
{
    free_strings();
    assert_int_equal(truncate(log_file, 0), 0);
    rp_options_read(environment, &options);
    FILE *file = fopen(log_file, "r");
    assert_non_null(file);
    log_text[fread(log_text, 1, sizeof(log_text) - 1, file)] = '\0';
    fclose(file);
}

#define READ(...) read_options((char *[]){__VA_ARGS__, NULL})

static void assert_logged(const char *text)
{
    if (strstr(log_text, text) == NULL)
        fail_msg("not logged: %s\nlogged: %s", text, log_text);
}

static void test_defaults(void **state)
{
    (void)state;
    READ("PATH=/bin", "HOME=/root", "REPRISE=1", "XREPRISE_MODE=record");
    assert_int_equal(options.mode, RP_MODE_OFF);
    assert_null(options.trace);
    assert_int_equal(options.log_level, RP_LOG_INFO);
    assert_null(options.log_pattern);
    assert_string_equal(log_text, "");
}

static void test_values(void **state)
{
    (void)state;
    READ("REPRISE_MODE=record", "REPRISE_TRACE=out/a b=c", "REPRISE_LOG=debug:/tmp/log.%h:%p");
    assert_int_equal(options.mode, RP_MODE_RECORD);
    assert_string_equal(options.trace, "out/a b=c");
    assert_int_equal(options.log_level, RP_LOG_DEBUG);
    assert_string_equal(options.log_pattern, "/tmp/log.%h:%p");
    assert_string_equal(log_text, "");
    READ("REPRISE_MODE=Record", "REPRISE_LOG=NONE");
    assert_int_equal(options.mode, RP_MODE_RECORD);
    assert_int_equal(options.log_level, RP_LOG_NONE);
    READ("REPRISE_LOG=warn:");
    assert_int_equal(options.log_level, RP_LOG_WARN);
    assert_null(options.log_pattern);
    assert_string_equal(log_text, "");
}

static void test_empty_is_unset(void **state)
{
    (void)state;
    READ("REPRISE_MODE=", "REPRISE_TRACE=", "REPRISE_LOG=", "REPRISE_NONSENSE=");
    assert_int_equal(options.mode, RP_MODE_OFF);
    assert_null(options.trace);
    assert_int_equal(options.log_level, RP_LOG_INFO);
    assert_string_equal(log_text, "");
}

static void test_first_of_two_counts(void **state)
{
    (void)state;
    READ("REPRISE_MODE=record", "REPRISE_MODE=off");
    assert_int_equal(options.mode, RP_MODE_RECORD);
}

static void test_unknown_names(void **state)
{
    static const struct {
        const char *entry, *name, *nearest;
    } table[] = {
        {"REPRISE_MOD=record", "REPRISE_MOD is", "REPRISE_MODE?"},
        {"REPRISE_mode=record", "REPRISE_mode is", "REPRISE_MODE?"},
        {"REPRISE_TRCAE=x", "REPRISE_TRCAE is", "REPRISE_TRACE?"},
        {"REPRISE_LOGS=x", "REPRISE_LOGS is", "REPRISE_LOG?"},
        {"REPRISE_MODES=record", "REPRISE_MODES is", "REPRISE_MODE?"},
        {"REPRISE_L\x01G=x", "REPRISE_L\\x01G is", "REPRISE_LOG?"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        char entry[64];
        strcpy(entry, table[i].entry);
        READ(entry);
        assert_int_equal(options.mode, RP_MODE_OFF);
        assert_logged("options: ");
        assert_logged(table[i].name);
        assert_logged(table[i].nearest);
    }
}

static void test_malformed_values(void **state)
{
    (void)state;
    READ("REPRISE_MODE=recrod", "REPRISE_TRACE=kept");
    assert_int_equal(options.mode, RP_MODE_OFF);
    assert_string_equal(options.trace, "kept");
    assert_logged("REPRISE_MODE is \"recrod\", expected: off, record; using off");
    READ("REPRISE_LOG=loud:/tmp/x");
    assert_int_equal(options.log_level, RP_LOG_INFO);
    assert_null(options.log_pattern);
    assert_logged("REPRISE_LOG is \"loud:/tmp/x\", expected: none, error, warn, info, debug");
    READ("REPRISE_LOG=:file");
    assert_logged("REPRISE_LOG is \":file\"");
    READ("REPRISE_MODE=re\ncord\xff");
    assert_logged("REPRISE_MODE is \"re\\x0acord\\xff\"");
}

static void test_long_input_is_cut(void **state)
{
    static char entry[100000];
    (void)state;
    memset(entry, 'x', sizeof(entry) - 1);
    memcpy(entry, "REPRISE_MODE=", 13);
    READ(entry);
    assert_logged("REPRISE_MODE is \"xxxx");
    assert_logged("xxxx...\", expected");
    assert_in_range(strlen(log_text), 1, 300);
    memcpy(entry, "REPRISE_TRACE=", 14);
    READ(entry);
    assert_null(options.trace);
    assert_logged("REPRISE_TRACE is \"xxxx");
    memcpy(entry, "REPRISE_MODEXX", 14);
    entry[500] = '=';
    READ(entry);
    assert_logged("REPRISE_MODEXXxxxx");
    assert_logged("...");
    assert_logged("did you mean REPRISE_");
}

static char *printed(bool markdown)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    rp_options_print(out, markdown);
    fclose(out);
    return text;
}

static void test_print(void **state)
{
    (void)state;
    char *text = printed(false), *markdown = printed(true);
#define OPTION(name, field, type, default_value, values, help) \
    assert_non_null(strstr(text, "REPRISE_" #name));           \
    assert_non_null(strstr(text, help));                       \
    assert_non_null(strstr(markdown, "| `REPRISE_" #name "` | " values " | `" default_value "` | " help " |\n"));
#include "config/options.def"
#undef OPTION
    assert_null(strchr(text, '|'));
    free(text);
    free(markdown);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),          cmocka_unit_test(test_values),
        cmocka_unit_test(test_empty_is_unset),    cmocka_unit_test(test_first_of_two_counts),
        cmocka_unit_test(test_unknown_names),     cmocka_unit_test(test_malformed_values),
        cmocka_unit_test(test_long_input_is_cut), cmocka_unit_test(test_print),
    };
    close(mkstemp(log_file));
    rp_log_setup(RP_LOG_DEBUG, log_file);
    rp_log_set_rank(0);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free_strings();
    unlink(log_file);
    return failed;
}
