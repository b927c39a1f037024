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
    free((char *)(uintptr_t)options.annotations);
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
    assert_int_equal(options.fingerprint, RP_FINGERPRINTING_SAMPLE);
    assert_int_equal(options.budget, 0);
    assert_int_equal(options.timeout_ns, 2000000000u);
    assert_int_equal(options.verify, RP_VERIFY_AUTO);
    assert_false(options.strict);
    assert_true(options.trial);
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
    READ("REPRISE_MODE=replay", "REPRISE_VERIFY=inline", "REPRISE_STRICT=1", "REPRISE_BUDGET=6G",
         "REPRISE_TIMEOUT=20ms");
    assert_int_equal(options.mode, RP_MODE_REPLAY);
    assert_int_equal(options.verify, RP_VERIFY_INLINE);
    assert_true(options.strict);
    assert_int_equal(options.budget, 6442450944u);
    assert_int_equal(options.timeout_ns, 20000000u);
    READ("REPRISE_FINGERPRINT=full");
    assert_int_equal(options.fingerprint, RP_FINGERPRINTING_FULL);
    READ("REPRISE_FINGERPRINT=OFF");
    assert_int_equal(options.fingerprint, RP_FINGERPRINTING_OFF);
    READ("REPRISE_DETAIL=launches");
    assert_int_equal(options.detail, RP_DETAIL_LAUNCHES);
    READ("REPRISE_DETAIL=Stretches");
    assert_int_equal(options.detail, RP_DETAIL_STRETCHES);
    READ("REPRISE_FINGERPRINT=Sample");
    assert_int_equal(options.fingerprint, RP_FINGERPRINTING_SAMPLE);
    READ("REPRISE_VERIFY=Auto", "REPRISE_STRICT=0", "REPRISE_TRIAL=0");
    assert_int_equal(options.verify, RP_VERIFY_AUTO);
    assert_false(options.strict);
    assert_false(options.trial);
    READ("REPRISE_LOG=warn:");
    assert_int_equal(options.log_level, RP_LOG_WARN);
    assert_null(options.log_pattern);
    assert_string_equal(log_text, "");
}

static void test_sizes(void **state)
{
    static const struct {
        const char *entry;
        uint64_t bytes;
    } table[] = {
        {"REPRISE_BUDGET=auto", 0},
        {"REPRISE_BUDGET=AUTO", 0},
        {"REPRISE_BUDGET=1", 1},
        {"REPRISE_BUDGET=007", 7},
        {"REPRISE_BUDGET=512k", 524288},
        {"REPRISE_BUDGET=3M", 3145728},
        {"REPRISE_BUDGET=80G", 85899345920u},
        {"REPRISE_BUDGET=18446744073709551615", UINT64_MAX},
        {"REPRISE_BUDGET=17179869183G", UINT64_MAX - 0x3fffffff},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        char entry[64];
        strcpy(entry, table[i].entry);
        READ(entry);
        assert_string_equal(log_text, "");
        assert_true(options.budget == table[i].bytes);
    }
}

static void test_durations(void **state)
{
    static const struct {
        const char *entry;
        uint64_t ns;
    } table[] = {
        {"REPRISE_TIMEOUT=20ms", 20000000},         {"REPRISE_TIMEOUT=2s", 2000000000},
        {"REPRISE_TIMEOUT=1.5s", 1500000000},       {"REPRISE_TIMEOUT=1.5S", 1500000000},
        {"REPRISE_TIMEOUT=1ms", 1000000},           {"REPRISE_TIMEOUT=0.001s", 1000000},
        {"REPRISE_TIMEOUT=0.0010000009s", 1000000}, {"REPRISE_TIMEOUT=2.25MS", 2250000},
        {"REPRISE_TIMEOUT=60s", 60000000000},       {"REPRISE_TIMEOUT=60000.000ms", 60000000000},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        char entry[64];
        strcpy(entry, table[i].entry);
        READ(entry);
        assert_string_equal(log_text, "");
        assert_true(options.timeout_ns == table[i].ns);
    }
}

static void assert_replay_defaults(void)
{
    assert_int_equal(options.budget, 0);
    assert_int_equal(options.timeout_ns, 2000000000u);
    assert_int_equal(options.verify, RP_VERIFY_AUTO);
    assert_false(options.strict);
}

/* The default holds, whatever is wrong. */
static void test_malformed_replay_values(void **state)
{
    static const char *const budgets[] = {"0", "0G",        "-1",   "+1", "1.5G",         "6GB",
                                          "G", "automatic", "0x10", "1T", "17179869184G", "18446744073709551616"};
    static const char *const timeouts[] = {"2",
                                           "s",
                                           ".5s",
                                           "1.s",
                                           "1.5.5s",
                                           "2 s",
                                           "-2s",
                                           "1,5s",
                                           "2sec",
                                           "0.9ms",
                                           "61000ms",
                                           "0s",
                                           "ms",
                                           "60.000000001s",
                                           "1.5.ms",
                                           "1e3ms",
                                           "99999999999999999999s"};
    static const char *const switches[] = {"yes", "01", "2", "true"};
    char entry[64];
    (void)state;
    rp_log_setup(RP_LOG_NONE, NULL); /* more lines than a second has */
    for (size_t i = 0; i < sizeof(budgets) / sizeof(budgets[0]); i++) {
        snprintf(entry, sizeof(entry), "REPRISE_BUDGET=%s", budgets[i]);
        READ(entry);
        assert_replay_defaults();
    }
    for (size_t i = 0; i < sizeof(timeouts) / sizeof(timeouts[0]); i++) {
        snprintf(entry, sizeof(entry), "REPRISE_TIMEOUT=%s", timeouts[i]);
        READ(entry);
        assert_replay_defaults();
    }
    for (size_t i = 0; i < sizeof(switches) / sizeof(switches[0]); i++) {
        snprintf(entry, sizeof(entry), "REPRISE_STRICT=%s", switches[i]);
        READ(entry);
        assert_replay_defaults();
    }
    rp_log_setup(RP_LOG_DEBUG, log_file);
}

/* One line each, which says what is expected and what holds; what is right beside it counts. */
static void test_malformed_replay_values_are_said(void **state)
{
    (void)state;
    READ("REPRISE_MODE=replay", "REPRISE_BUDGET=0", "REPRISE_TIMEOUT=2", "REPRISE_VERIFY=fused", "REPRISE_STRICT=yes");
    assert_int_equal(options.mode, RP_MODE_REPLAY);
    assert_replay_defaults();
    assert_logged(
        "warn options: REPRISE_BUDGET is \"0\", expected: auto, or bytes above 0, with K, M or G (times 1024); "
        "using auto\n");
    assert_logged("warn options: REPRISE_TIMEOUT is \"2\", expected: 1ms to 60s, as 20ms or 1.5s; using 2s\n");
    assert_logged("warn options: REPRISE_VERIFY is \"fused\", expected: auto, inline; using auto\n");
    assert_logged("warn options: REPRISE_STRICT is \"yes\", expected: 0, 1; using 0\n");
    size_t lines = 0;
    for (const char *end = log_text; (end = strchr(end, '\n')) != NULL; end++)
        lines++;
    assert_int_equal(lines, 4);
}

static void test_mode_alone(void **state)
{
    (void)state;
    assert_int_equal(rp_options_mode(NULL), RP_MODE_OFF);
    assert_int_equal(rp_options_mode(""), RP_MODE_OFF);
    assert_int_equal(rp_options_mode("repaly"), RP_MODE_OFF);
    assert_int_equal(rp_options_mode("Record"), RP_MODE_RECORD);
    assert_int_equal(rp_options_mode("replay"), RP_MODE_REPLAY);
    assert_true(rp_options_is_mode(NULL) && rp_options_is_mode("") && rp_options_is_mode("Off"));
    assert_true(rp_options_is_mode("replay") && rp_options_is_mode("record"));
    assert_false(rp_options_is_mode("replya") || rp_options_is_mode("replay "));
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
        {"REPRISE_BUGDET=1G", "REPRISE_BUGDET is", "REPRISE_BUDGET?"},
        {"REPRISE_TIME_OUT=1s", "REPRISE_TIME_OUT is", "REPRISE_TIMEOUT?"},
        {"REPRISE_MODES=record", "REPRISE_MODES is", "REPRISE_MODE?"},
        {"REPRISE_FINGERPRINTS=off", "REPRISE_FINGERPRINTS is", "REPRISE_FINGERPRINT?"},
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
    assert_logged("REPRISE_MODE is \"recrod\", expected: off, record, replay; using off");
    READ("REPRISE_LOG=loud:/tmp/x");
    assert_int_equal(options.log_level, RP_LOG_INFO);
    assert_null(options.log_pattern);
    assert_logged("REPRISE_LOG is \"loud:/tmp/x\", expected: none, error, warn, info, debug");
    READ("REPRISE_DETAIL=all");
    assert_int_equal(options.detail, RP_DETAIL_STRETCHES);
    assert_logged("REPRISE_DETAIL is \"all\", expected: stretches, launches; using stretches");
    READ("REPRISE_FINGERPRINT=half");
    assert_int_equal(options.fingerprint, RP_FINGERPRINTING_SAMPLE);
    assert_logged("REPRISE_FINGERPRINT is \"half\", expected: sample, full, off; using sample");
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
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_durations),
        cmocka_unit_test(test_malformed_replay_values),
        cmocka_unit_test(test_malformed_replay_values_are_said),
        cmocka_unit_test(test_mode_alone),
        cmocka_unit_test(test_empty_is_unset),
        cmocka_unit_test(test_first_of_two_counts),
        cmocka_unit_test(test_unknown_names),
        cmocka_unit_test(test_malformed_values),
        cmocka_unit_test(test_long_input_is_cut),
        cmocka_unit_test(test_print),
    };
    close(mkstemp(log_file));
    rp_log_setup(RP_LOG_DEBUG, log_file);
    rp_log_set_rank(0);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free_strings();
    unlink(log_file);
    return failed;
}
