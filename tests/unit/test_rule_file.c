/* Annotation files: what is read from them, and what is said of those that are malformed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/rules/rule_file.h"
#include "tests/unit/rules_world.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void every_key_is_read(void **state)
{
    struct rules_world world = rules_world_make("\xef\xbb\xbf; a comment\r\n"
                                                "# another\r\n"
                                                "\r\n"
                                                "[of a frame] ; here too\r\n"
                                                "  python = *.<locals>.step ; behind a blank\r\n"
                                                "\tfile=*/train;[0-9].py\r\n"
                                                "module = self.names[0][a.b].c - d | e\r\n"
                                                "phase = forward\r\n"
                                                "in_backward = other\r\n"
                                                "nested = yes\r\n"
                                                "launches = no\r\n"
                                                "step = no\r\n"
                                                "[of a range]\n"
                                                "nvtx : layer {n}: {what}\n"
                                                "domain = framework\n"
                                                "module = \"layers.{n}, {what}\"\n"
                                                "step = yes\n"
                                                "[of a range]\n"
                                                "native = libx.so+0x1f\n"
                                                "library = */libx.so\n"
                                                "module = \"\"");
    const struct rp_rule *rule = rp_rules_at(world.rules, 0);
    (void)state;
    assert_string_equal(world.said, "");
    assert_int_equal(rp_rules_count(world.rules), 3);
    assert_string_equal(rule->name, "of a frame");
    assert_string_equal(rule->file, "t.ini");
    assert_int_equal(rule->line, 4);
    assert_false(rule->shipped);
    assert_int_equal(rule->source, RP_RULE_PYTHON);
    assert_string_equal(rule->pattern, "*.<locals>.step");
    assert_string_equal(rule->where, "*/train;[0-9].py");
    assert_int_equal(rule->module_kind, RP_RULE_SAYS_PATH);
    assert_string_equal(rule->module, "self.names[0][a.b].c - d | e");
    assert_int_equal(rule->phase, RP_PHASE_FORWARD);
    assert_int_equal(rule->in_backward, RP_PHASE_OTHER);
    assert_true(rule->nested);
    assert_true(rule->calls_only);
    assert_false(rule->step);
    rule = rp_rules_at(world.rules, 1);
    assert_int_equal(rule->line, 13);
    assert_false(rule->calls_only);
    assert_int_equal(rule->source, RP_RULE_NVTX);
    assert_string_equal(rule->pattern, "layer {n}: {what}");
    assert_string_equal(rule->where, "framework");
    assert_int_equal(rule->module_kind, RP_RULE_SAYS_TEXT);
    assert_string_equal(rule->module, "layers.{n}, {what}");
    assert_int_equal(rule->phase, RP_PHASE_UNKNOWN);
    assert_int_equal(rule->in_backward, RP_PHASE_UNKNOWN);
    assert_true(rule->step);
    rule = rp_rules_at(world.rules, 2);
    assert_string_equal(rule->name, "of a range");
    assert_int_equal(rule->line, 18);
    assert_int_equal(rule->source, RP_RULE_NATIVE);
    assert_string_equal(rule->module, "");
    rp_rules_destroy(world.rules);
}

#define PATTERNS "exactly one of native, python, nvtx, kernel"

/* One malformed rule, and the whole of what is said. */
static const struct {
    const char *text, *said;
} malformed[] = {
    {"[a]\nphase = forward\n", "t.ini:1: rule \"a\" has no pattern; expected " PATTERNS "\n"},
    {"[a]\n", "t.ini:1: rule \"a\" has no pattern; expected " PATTERNS "\n"},
    {"[a]\nnvtx = x\n\npython = y\nphase = other\n", "t.ini:4: \"python\" beside \"nvtx\"; expected " PATTERNS "\n"},
    {"[a]\nnvtx = x\nphase = other\nmodul = \"b\"\n",
     "t.ini:4: unknown key \"modul\"; expected one of native, python, nvtx, kernel, library, file, domain, module, "
     "phase, in_backward, launches, nested, step\n"},
    {"[a]\nnvtx = x\n = other\n",
     "t.ini:3: unknown key \"\"; expected one of native, python, nvtx, kernel, library, file, domain, module, "
     "phase, in_backward, launches, nested, step\n"},
    {"[a]\nnvtx = x\nphase =\n", "t.ini:3: \"phase\" has no value; expected phase = value\n"},
    {"[a]\nnvtx = x\nphase = other\nphase = other\n",
     "t.ini:4: \"phase\" is in line 3 already; expected each key once in a section\n"},
    {"[a]\nnvtx = x\nphase = forwards\n",
     "t.ini:3: \"phase\" is \"forwards\"; expected forward, backward, recompute, optimizer or other\n"},
    {"[a]\nnvtx = x\nphase = -\n",
     "t.ini:3: \"phase\" is \"-\"; expected forward, backward, recompute, optimizer or other\n"},
    {"[a]\nnvtx = x\nphase = forward\nin_backward = no\n",
     "t.ini:4: \"in_backward\" is \"no\"; expected forward, backward, recompute, optimizer or other\n"},
    {"[a]\nnvtx = x\nphase = other\nstep = 1\n", "t.ini:4: \"step\" is \"1\"; expected yes or no\n"},
    {"[a]\nnvtx = x\nmodule = \"m\"\nnested = maybe\n", "t.ini:4: \"nested\" is \"maybe\"; expected yes or no\n"},
    {"[a]\nnvtx = x\nphase = other\nlaunches = none\n", "t.ini:4: \"launches\" is \"none\"; expected yes or no\n"},
    {"[a]\nkernel = x\nphase = other\nlaunches = no\n",
     "t.ini:4: \"launches\" in a rule with \"kernel\"; expected module or phase of a place\n"},
    {"[a]\nnvtx = x\nstep = yes\nlaunches = no\n",
     "t.ini:4: \"launches\" in a rule that only begins steps; expected module or phase of a place\n"},
    {"[a]\nnvtx = x\n", "t.ini:1: rule \"a\" says nothing; expected module, phase or step\n"},
    {"[a]\nnvtx = x\nphase = other\nnested = yes\n",
     "t.ini:4: \"nested\" in a rule without a module; expected module too\n"},
    {"[a]\nnvtx = x\nmodule = \"m\"\nin_backward = recompute\n",
     "t.ini:4: \"in_backward\" in a rule that says no forward; expected phase = forward too\n"},
    {"[a]\npython = x\nphase = optimizer\nin_backward = recompute\n",
     "t.ini:4: \"in_backward\" in a rule that says no forward; expected phase = forward too\n"},
    {"[a]\nnative = x\nphase = forward\nin_backward = recompute\n",
     "t.ini:4: \"in_backward\" in a rule with \"native\"; expected python or nvtx\n"},
    {"[a]\nkernel = x\nphase = forward\nin_backward = recompute\n",
     "t.ini:4: \"in_backward\" in a rule with \"kernel\"; expected python or nvtx\n"},
    {"[a]\nkernel = x\nphase = other\nstep = yes\n",
     "t.ini:4: \"step\" in a rule with \"kernel\"; expected module or phase alone\n"},
    {"[a]\nnvtx = x[\nphase = other\n",
     "t.ini:2: \"nvtx\" has a \"[\" without its \"]\"; expected a glob of *, ?, [...] and {captures}\n"},
    {"[a]\npython = x{a\nphase = other\n",
     "t.ini:2: \"python\" has a \"{\" without its \"}\"; expected a glob of *, ?, [...] and {captures}\n"},
    {"[a]\nnative = {a}{a}\nphase = other\n",
     "t.ini:2: \"native\" has two captures of one name; expected a glob of *, ?, [...] and {captures}\n"},
    {"[a]\nnvtx = \"x {phase}\"\n", "t.ini:2: \"nvtx\" is in quotes; expected it without (a quote itself is [\"])\n"},
    {"[a]\npython = x\nfile = \"*/x.py\"\nphase = other\n",
     "t.ini:3: \"file\" is in quotes; expected it without (a quote itself is [\"])\n"},
    {"[a]\nnative = zoo::Layer::forward*\nphase = other\n",
     "t.ini:2: \"native\" has \"::\"; expected a mangled name, as reprise sites --csv prints it\n"},
    {"[a]\nkernel = zoo::add*\nphase = other\n",
     "t.ini:2: \"kernel\" has \"::\"; expected a mangled name, as reprise sites --csv prints it\n"},
    {"[a]\nnvtx = x\nfile = y\nphase = other\n",
     "t.ini:3: \"file\" in a rule with \"nvtx\"; expected \"domain\", or nothing\n"},
    {"[a]\nkernel = x\nlibrary = y\nphase = other\n",
     "t.ini:3: \"library\" in a rule with \"kernel\"; expected no condition\n"},
    {"[a]\npython = x\nfile = {a}\nphase = other\n",
     "t.ini:3: \"file\" has a \"{\"; expected a glob of *, ?, [...] without captures\n"},
    {"[a]\npython = x\nfile = [a\nphase = other\n",
     "t.ini:3: \"file\" has a \"[\" without its \"]\"; expected a glob of *, ?, [...] without captures\n"},
    {"[a]\nnvtx = x\nmodule = m\n", "t.ini:3: \"module\" is no text in quotes; expected \"text with {captures}\"\n"},
    {"[a]\nnvtx = x\nmodule = \"m\n", "t.ini:3: \"module\" has a quote without its end; expected \"text\"\n"},
    {"[a]\nnvtx = x\nmodule = \"m\" n\n", "t.ini:3: \"module\" goes on behind its text; expected one \"text\"\n"},
    {"[a]\nnvtx = x{b}\nmodule = \"m{b\"\n",
     "t.ini:3: \"module\" has a \"{\" without a name and its \"}\"; expected \"text with {captures}\"\n"},
    {"[a]\nnvtx = x{b}\nmodule = \"m{b}{cd}\"\n",
     "t.ini:3: \"module\" has {cd}, which the pattern has not; expected captures of the pattern\n"},
    {"[a]\npython = x\nmodule = a.b[c - d\n", "t.ini:3: \"module\" is no path; expected as in self.name, a.b[0] - "
                                              "c.d | e[f.g], or \"text with {captures}\"\n"},
    {"[a\nnvtx = x\nphase = other\n", "t.ini:1: a \"[\" without its \"]\"; expected [name]\n"},
    {"[a] nvtx = x\nphase = other\n", "t.ini:1: more behind the \"]\"; expected [name] alone\n"},
    {"[a]\nnvtx = x\nwhat is this\nphase = other\n",
     "t.ini:3: neither a pair nor a section; expected key = value, [name] or ; comment\n"},
    {"[a]\nnvtx = x\nphase = other\nlast",
     "t.ini:4: neither a pair nor a section; expected key = value, [name] or ; comment\n"},
    {"nvtx = x\n", "t.ini:1: a key before any section; expected [name] first\n"},
    {"\nlost\n", "t.ini:2: neither a pair nor a section; expected key = value, [name] or ; comment\n"},
};

static void malformed_rules_are_complained_of(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(malformed); i++) {
        struct rules_world world = rules_world_make(malformed[i].text);
        assert_string_equal(world.said, malformed[i].said);
        assert_int_equal(rp_rules_count(world.rules), 0);
        rp_rules_destroy(world.rules);
    }
}

static void bad_paths_are_found(void **state)
{
    static const char *const paths[] = {"1a",        "a..b",          "a.",     "a[",         "a[]",
                                        "a[0",       "a[b",           "a]",     "a b",        "a - ",
                                        "a - b - c", "a | ",          "a|b",    "a[-1]",      "a(b)",
                                        "a.b()",     "a[b[c[d[e]]]]", "a['b']", "| a",        "a[01234567890]",
                                        "a.b.c*",    "self.x;y",      "a // ",  "a // b - c", "a - b // c",
                                        "a//b",      "a[*]",          "a[*].b", "a[b[*].c]",  "a[b[*][0]]",
                                        "a[0[*]]",   "a[b[*]"};
    (void)state;
    for (size_t i = 0; i < COUNT(paths); i++) {
        char text[200];
        snprintf(text, sizeof(text), "[a]\npython = x\nmodule = %s\n", paths[i]);
        struct rules_world world = rules_world_make(text);
        if (strstr(world.said, "t.ini:3: \"module\" is no path; expected ") == NULL || rp_rules_count(world.rules) != 0)
            fail_msg("%s: %s", paths[i], world.said);
        rp_rules_destroy(world.rules);
    }
}

static void good_paths_are_none(void **state)
{
    static const char *const paths[] = {"a",
                                        "self.a_1._b",
                                        "a[0][1].b[c[d.e[2]]] - f[0] | g",
                                        "a // b",
                                        "self.a // b[0] | c // d",
                                        "a[b[*]]",
                                        "self.a[self.b[c[0]].d[*]].e | a[b[*]] - c"};
    (void)state;
    for (size_t i = 0; i < COUNT(paths); i++) {
        char text[200];
        snprintf(text, sizeof(text), "[a]\npython = x\nmodule = %s\n", paths[i]);
        struct rules_world world = rules_world_make(text);
        assert_string_equal(world.said, "");
        assert_int_equal(rp_rules_count(world.rules), 1);
        assert_string_equal(rp_rules_at(world.rules, 0)->module, paths[i]);
        rp_rules_destroy(world.rules);
    }
}

/* Of a rule the first fault is said, in the order of lines; the rules around it hold. */
static void others_hold(void **state)
{
    struct rules_world world = rules_world_make("[good]\n"
                                                "nvtx = a\n"
                                                "phase = other\n"
                                                "[bad]\n"
                                                "nonsense = 1\n"
                                                "nonsense = 2\n"
                                                "nvtx = b\n"
                                                "[bad too]\n"
                                                "nvtx = c\n"
                                                "phase = nonsense\n"
                                                "[good too]\n"
                                                "nvtx = d\n"
                                                "phase = other\n");
    (void)state;
    assert_int_equal(rp_rules_count(world.rules), 2);
    assert_string_equal(rp_rules_at(world.rules, 0)->name, "good");
    assert_string_equal(rp_rules_at(world.rules, 1)->name, "good too");
    assert_int_equal(rp_rules_at(world.rules, 1)->line, 11);
    assert_non_null(strstr(world.said, "t.ini:5: unknown key \"nonsense\"; expected"));
    assert_non_null(strstr(world.said, "\nt.ini:10: \"phase\" is \"nonsense\"; expected"));
    assert_null(strstr(world.said, ":6:"));
    rp_rules_destroy(world.rules);
}

/* The longest line that fits, and one byte more; the lines behind are still counted right. */
static void long_lines_are_complained_of(void **state)
{
    char text[600], expected[200];
    const char *end = "\n[b]\nnvtx = x\nphase = nonsense\n";
    size_t most = 0;
    (void)state;
    for (size_t length = 150; length < 300; length++) {
        int written = snprintf(text, sizeof(text), "[a]\nphase = other\nnvtx = ");
        memset(text + written, 'x', length - 7);
        strcpy(text + (size_t)written + length - 7, end);
        struct rules_world world = rules_world_make(text);
        if (rp_rules_count(world.rules) == 1) {
            assert_int_equal(strlen(rp_rules_at(world.rules, 0)->pattern), length - 7);
            most = length;
        } else {
            snprintf(expected, sizeof(expected), "t.ini:3: the line is too long; expected at most %zu bytes\n", most);
            assert_int_equal(strncmp(world.said, expected, strlen(expected)), 0);
        }
        assert_non_null(strstr(world.said, "t.ini:6: \"phase\" is"));
        rp_rules_destroy(world.rules);
    }
    assert_in_range(most, 190, 299);
}

/* Behind a good rule: a comment of any length, and a section whose name is too long, which alone is left out. */
static void long_lines_leave_the_rule_before_alone(void **state)
{
    char text[2000], longer[400];
    (void)state;
    memset(longer, 'x', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    snprintf(text, sizeof(text), "[a]\nnvtx = x\nphase = other\n  ; %s\n# %s\n[%s]\nnvtx = y\nphase = other\n[c]\n",
             longer, longer, longer);
    struct rules_world world = rules_world_make(text);
    assert_int_equal(rp_rules_count(world.rules), 1);
    assert_string_equal(rp_rules_at(world.rules, 0)->name, "a");
    assert_int_equal(strncmp(world.said, "t.ini:6: the line is too long;", 30), 0);
    assert_non_null(strstr(world.said, "\nt.ini:9: rule \"c\" has no pattern"));
    rp_rules_destroy(world.rules);
}

static unsigned lines_of(const char *text)
{
    unsigned lines = 0;
    for (; *text != '\0'; text++)
        lines += *text == '\n';
    return lines;
}

/* What is no annotation file must not drown what is said of others. */
static void many_faults_are_counted(void **state)
{
    static char text[3 * 5000 + 1];
    (void)state;
    for (size_t i = 0; i < 5000; i++)
        memcpy(text + 3 * i, "xy\n", 3);
    struct rules_world world = rules_world_make(text);
    assert_int_equal(lines_of(world.said), 9);
    assert_non_null(strstr(world.said, "\nt.ini: 4992 more faults"));
    rp_rules_destroy(world.rules);
}

static void rules_are_bounded(void **state)
{
    static char text[25 * (RP_RULES_MAX + 20) + 1];
    (void)state;
    for (size_t i = 0; i < RP_RULES_MAX + 20; i++)
        memcpy(text + 25 * i, "[a]\nnvtx=abc\nphase=other\n", 25);
    struct rules_world world = rules_world_make(text);
    assert_int_equal(rp_rules_count(world.rules), RP_RULES_MAX);
    assert_non_null(strstr(world.said, "one rule too many; expected at most 4096 in all files\n"));
    assert_non_null(strstr(world.said, "t.ini: 12 more faults"));
    rp_rules_destroy(world.rules);
}

static void no_text_is_complained_of(void **state)
{
    struct rules_world world = rules_world_make("");
    struct rp_rule_complaints complaints = {rules_world_say, &world};
    (void)state;
    assert_int_equal(rp_rules_read(world.rules, "b.ini", false, "[a]\0\nnvtx = x", 14, &complaints), RP_OK);
    assert_string_equal(world.said, "b.ini: not a text file; expected sections of key = value\n");
    assert_int_equal(rp_rules_count(world.rules), 0);
    rp_rules_destroy(world.rules);
}

/* Every text that could come is read without harm; what it means is tested above. */
static void noise_is_survived(void **state)
{
    static const char bytes[] = "[]{}=:;#\"\n\r\t *?-.|ab\xc3nvtx";
    uint64_t random = 88172645463325252u;
    char text[400];
    (void)state;
    for (int i = 0; i < 3000; i++) {
        for (size_t at = 0; at < sizeof(text) - 1; at++) {
            random ^= random << 13, random ^= random >> 7, random ^= random << 17;
            text[at] = bytes[random % (sizeof(bytes) - 1)];
        }
        text[sizeof(text) - 1] = '\0';
        struct rules_world world = rules_world_make(text);
        rp_rules_destroy(world.rules);
    }
}

static void files_that_cannot_be_read_are_complained_of(void **state)
{
    char folder[] = "/tmp/test_rule_file.XXXXXX", path[64], expected[256];
    struct rules_world world = rules_world_make("");
    struct rp_rule_complaints complaints = {rules_world_say, &world};
    (void)state;
    assert_non_null(mkdtemp(folder));
    assert_int_equal(rp_rules_read_file(world.rules, folder, &complaints), RP_IO);
    snprintf(path, sizeof(path), "%s/missing", folder);
    assert_int_equal(rp_rules_read_file(world.rules, path, &complaints), RP_IO);
    snprintf(path, sizeof(path), "%s/pipe", folder);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(rp_rules_read_file(world.rules, path, &complaints), RP_IO);
    unlink(path);
    snprintf(path, sizeof(path), "%s/large", folder);
    FILE *file = fopen(path, "w");
    fprintf(file, "[a]\nnvtx = x\nphase = other\n");
    fflush(file);
    assert_int_equal(rp_rules_read_file(world.rules, path, &complaints), RP_OK);
    assert_int_equal(rp_rules_count(world.rules), 1);
    assert_string_equal(rp_rules_at(world.rules, 0)->file, path);
    assert_int_equal(ftruncate(fileno(file), RP_RULE_FILE_BYTES + 1), 0);
    fclose(file);
    assert_int_equal(rp_rules_read_file(world.rules, path, &complaints), RP_IO);
    unlink(path);
    rmdir(folder);
    snprintf(expected, sizeof(expected),
             "%s: not a regular file\n%s/missing: No such file or directory\n%s/pipe: not a regular file\n"
             "%s/large: too large; expected at most 1 MiB\n",
             folder, folder, folder, folder);
    assert_string_equal(world.said, expected);
    rp_rules_destroy(world.rules);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_key_is_read),
        cmocka_unit_test(malformed_rules_are_complained_of),
        cmocka_unit_test(bad_paths_are_found),
        cmocka_unit_test(good_paths_are_none),
        cmocka_unit_test(others_hold),
        cmocka_unit_test(long_lines_are_complained_of),
        cmocka_unit_test(long_lines_leave_the_rule_before_alone),
        cmocka_unit_test(many_faults_are_counted),
        cmocka_unit_test(rules_are_bounded),
        cmocka_unit_test(no_text_is_complained_of),
        cmocka_unit_test(noise_is_survived),
        cmocka_unit_test(files_that_cannot_be_read_are_complained_of),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
