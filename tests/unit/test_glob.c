/* Patterns with captures: what matches, what is captured, which patterns are none, and that none takes long. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "core/rules/glob.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void texts_match_whole(void **state)
{
    static const struct {
        const char *pattern, *text;
        bool matches;
    } cases[] = {
        {"", "", true},
        {"", "a", false},
        {"a", "", false},
        {"abc", "abc", true},
        {"abc", "abcd", false},
        {"*", "", true},
        {"*", "a/b.c", true},
        {"a*c", "abbc", true},
        {"a*c", "ab", false},
        {"*b*", "aba", true},
        {"*ab", "aab", true},
        {"**a", "ba", true},
        {"?", "", false},
        {"?", "x", true},
        {"?", "xy", false},
        {"[a-c]x", "bx", true},
        {"[a-c]x", "dx", false},
        {"[!a-c]x", "dx", true},
        {"[!a-c]x", "ax", false},
        {"[^a]", "b", true},
        {"[]]", "]", true},
        {"[!]]", "]", false},
        {"[a-]", "-", true},
        {"[{]x}", "{x}", true},
        {"[*]", "*", true},
        {"[*]", "a", false},
        {"f.<locals>.g", "f.<locals>.g", true},
        {"a\\b", "a\\b", true},
        {"\xc3\xbc*",
         "\xc3\xbc"
         "ber",
         true},
        {"{phase}", "forward", true},
        {"{phase}", "forwards", false},
        {"{phase}", "-", false},
        {"*{phase}*", "in the backward pass", true},
        {"{a}{b}", "x", false},
        {"{a}{b}", "xy", true},
        {"_ZN5torch8autograd6Engine*", "_ZN5torch8autograd6Engine4testEv", true},
        {"prog+0x1f2e", "prog+0x1f2e", true},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct rp_captures captures = {.count = 77};
        assert_null(rp_glob_fault(cases[i].pattern));
        if (rp_glob_match(cases[i].pattern, cases[i].text, &captures) != cases[i].matches)
            fail_msg("\"%s\" and \"%s\"", cases[i].pattern, cases[i].text);
        if (!cases[i].matches)
            assert_int_equal(captures.count, 77); /* untouched */
    }
}

static void captures_take_as_little_as_they_can(void **state)
{
    static const struct {
        const char *pattern, *text, *name, *captured;
    } cases[] = {
        {"MFSDP {module} {phase}", "MFSDP a backward b forward", "module", "a backward b"},
        {"MFSDP {module} {phase}", "MFSDP forward forward", "module", "forward"},
        {"MFSDP {module} {phase}", "MFSDP forward backward", "phase", "backward"},
        {"{a}.{b}", "x.y.z", "a", "x"},
        {"{a}.{b}", "x.y.z", "b", "y.z"},
        {"*.{b}", "x.y.z", "b", "y.z"},
        {"layer{n}[_.]*", "layer12_fwd", "n", "12"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct rp_captures captures;
        assert_true(rp_glob_match(cases[i].pattern, cases[i].text, &captures));
        const struct rp_capture *capture = rp_capture_find(&captures, cases[i].name, strlen(cases[i].name));
        assert_non_null(capture);
        assert_int_equal(capture->length, strlen(cases[i].captured));
        assert_memory_equal(capture->text, cases[i].captured, capture->length);
        assert_null(rp_capture_find(&captures, "nobody", 6));
    }
}

static void faults_are_found(void **state)
{
    static const char *const bad[] = {
        "[a", "a[", "[]", "[!", "{a", "{}", "{a b}", "{a{b}}", "{a}{a}", "{a}x{b}x{a}", "{a}{b}{c}{d}{e}{f}{g}{h}{i}"};
    static const char *const good[] = {"}", "a]", "{a}{b}{c}{d}{e}{f}{g}{h}", "[{]{a}", "{a}[{a}]"};
    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++)
        if (rp_glob_fault(bad[i]) == NULL)
            fail_msg("%s", bad[i]);
    for (size_t i = 0; i < COUNT(good); i++)
        if (rp_glob_fault(good[i]) != NULL)
            fail_msg("%s: %s", good[i], rp_glob_fault(good[i]));
}

/* Each would take longer than the universe if every wildcard were tried against every other. */
static void no_pattern_takes_long(void **state)
{
    static const char *const patterns[] = {"*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b", "{p}{q}{r}{s}{t}{u}{v}*{w}b",
                                           "*a*{phase}*a*a*a*a*a*a*a*a*a*a*a*b"};
    static char text[4001];
    (void)state;
    memset(text, 'a', sizeof(text) - 1);
    for (size_t i = 0; i < COUNT(patterns); i++) {
        struct rp_captures captures;
        assert_false(rp_glob_match(patterns[i], text, &captures));
    }
}

/* What matching {phase} in one go rests on. */
static void no_phase_is_inside_another(void **state)
{
    (void)state;
    for (int a = RP_PHASE_UNKNOWN + 1; a < RP_PHASE_COUNT; a++)
        for (int b = RP_PHASE_UNKNOWN + 1; b < RP_PHASE_COUNT; b++)
            if (a != b)
                assert_null(strstr(rp_phase_name((enum rp_phase)a), rp_phase_name((enum rp_phase)b)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_match_whole),          cmocka_unit_test(captures_take_as_little_as_they_can),
        cmocka_unit_test(faults_are_found),           cmocka_unit_test(no_pattern_takes_long),
        cmocka_unit_test(no_phase_is_inside_another),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
