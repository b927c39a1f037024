/* What was seen where calls were issued, as tables and CSV, and the rule that is shown for what has none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/rules/rule_file.h"
#include "core/tool/sites_view.h"
#include "tests/unit/tool_trace.h"

static char text[65536];

static const struct rp_trace_site sites[] = {
    {0, RP_SITE_NATIVE, 5, "_ZN2ag3runEv", "/opt/a/very/long/folder/for/a/library/of/this/kind/libag.so", "", "n.ini:b",
     ""},
    {1, RP_SITE_PYTHON, 7, "Model.forward", "model.py", "my.ini:m", "", ""},
    {2, RP_SITE_PYTHON, 9, "step", "train.py", "", "", ""},
    {3, RP_SITE_KERNEL, 99, "_Z4gemmPf", "", "", "", ""},
    {4, RP_SITE_NVTX, 0, "\x1b[31m, \"x\"", "", "", "", "t.ini:batch"},
};

static struct rp_trace *with_sites(const struct rp_trace_site *some, size_t count)
{
    struct rp_trace *trace = tool_trace_make();
    trace->identity.rank = 2;
    trace->sites = (struct rp_trace_site *)some;
    trace->site_count = count;
    return trace;
}

static void a_table_per_source(void **state)
{
    (void)state;
    struct rp_trace *trace = with_sites(sites, 5);
    OUTPUT(text, out, assert_int_equal(rp_sites_view_print(out, trace, false), RP_OK));
    assert_string_equal(
        text, "\nPython frames\n"
              "collectives  module by  phase by  file      text\n"
              "          9  -          -         train.py  step\n"
              "          7  my.ini:m   -         model.py  Model.forward\n"
              "\nNVTX ranges\n"
              "collectives  module by  phase by  step by      domain  text\n"
              "          -  -          -         t.ini:batch  -       \\x1b[31m, \"x\"\n"
              "\nnative frames (a pattern matches the mangled name, which --csv prints)\n"
              "collectives  module by  phase by  library                                              text\n"
              "          5  -          n.ini:b   .../long/folder/for/a/library/of/this/kind/libag.so  ag::run()\n"
              "\nkernels (a pattern matches the mangled name, which --csv prints)\n"
              "launches  module by  phase by  text\n"
              "      99  -          -         gemm(float*)\n");
    tool_trace_free(trace);
}

static void csv_is_whole(void **state)
{
    (void)state;
    struct rp_trace *trace = with_sites(sites, 5);
    OUTPUT(text, out, assert_int_equal(rp_sites_view_csv(out, trace, false), RP_OK));
    assert_string_equal(text, "rank,source,count,text,demangled,where,module_rule,phase_rule,step_rule\n"
                              "2,python,9,step,step,train.py,,,\n"
                              "2,python,7,Model.forward,Model.forward,model.py,my.ini:m,,\n"
                              "2,nvtx,,\"\\x1b[31m, \"\"x\"\"\",\"\\x1b[31m, \"\"x\"\"\",,,,t.ini:batch\n"
                              "2,native,5,_ZN2ag3runEv,ag::run(),/opt/a/very/long/folder/for/a/library/of/this/kind/"
                              "libag.so,,n.ini:b,\n"
                              "2,kernel,99,_Z4gemmPf,gemm(float*),,,,\n");
    OUTPUT(text, out, assert_int_equal(rp_sites_view_csv(out, trace, true), RP_OK));
    assert_null(strstr(text, "Model.forward"));
    assert_null(strstr(text, "libag"));
    assert_null(strstr(text, "t.ini:batch")); /* it begins steps: that is what it is for */
    assert_non_null(strstr(text, "python,9,step"));
    tool_trace_free(trace);
}

/* The section that is shown for a trace with these sites. */
static const char *section_for(const struct rp_trace_site *some, size_t count)
{
    struct rp_trace *trace = with_sites(some, count);
    OUTPUT(text, out, rp_sites_hint_print(out, trace));
    tool_trace_free(trace);
    const char *section = strstr(text, "\n\n[");
    return section == NULL ? "" : section + 2;
}

static void complain(void *context, const char *complaint)
{
    (void)context;
    fail_msg("%s", complaint);
}

/* As a file that has only this section: no complaint, and its rule names the site. */
static void section_names(const char *section, const struct rp_trace_site *site)
{
    struct rp_rules *rules = NULL;
    struct rp_rule_match match;
    char module[200];
    const struct rp_rule_complaints complaints = {complain, NULL};
    assert_int_equal(rp_rules_create(&rules), RP_OK);
    assert_int_equal(rp_rules_read(rules, "pasted.ini", false, section, strlen(section), &complaints), RP_OK);
    assert_true(rp_rules_match(rules, (enum rp_rule_source)site->source, site->text, site->where, &match));
    assert_int_not_equal(match.phase, RP_PHASE_UNKNOWN);
    assert_int_not_equal(rp_rule_module_text(&match, module, sizeof(module)), 0);
    rp_rules_destroy(rules);
}

static void the_rule_is_for_what_is_counted_most(void **state)
{
    (void)state;
    assert_string_equal(section_for(sites, 5),
                        "[step]\npython = step\nfile = train.py\nmodule = \"step\"\nphase = forward\n");
    assert_string_equal(section_for(sites + 3, 1), "[gemm]\nkernel = _Z4gemmPf\nmodule = \"gemm\"\nphase = forward\n");
    assert_non_null(strstr(text, "\nEvery place of collectives has one, but where everything begins. "));
    assert_string_equal(section_for(sites + 1, 1), "");
    assert_string_equal(text, "\nnothing lacks a rule but where everything begins\n");
    const struct rp_trace_site useless[] = {{0, RP_SITE_KERNEL, 5, "?", "", "", "", ""},
                                            {1, RP_SITE_NATIVE, 5, "__libc_start_main", "libc.so.6", "", "", ""},
                                            {2, RP_SITE_PYTHON, 5, "<module>", "train.py", "", "", ""}};
    assert_string_equal(section_for(useless, 3), "");
    assert_non_null(strstr(text, "\nNo frame around a collective has a name: "));
}

/* What a pattern or the file would take otherwise stands for itself. */
static void patterns_match_their_text_alone(void **state)
{
    static const struct {
        struct rp_trace_site site;
        const char *section;
    } table[] = {
        {{0, RP_SITE_NVTX, 1, "step; [1] {x}?*", "my;domain", "", "", ""},
         "[step- -1- -x-?*]\nnvtx = step[;] [[]1] [{]x}[?][*]\ndomain = my[;]domain\nmodule = \"step- -1- -x-?*\"\n"
         "phase = forward\n"},
        {{0, RP_SITE_NVTX, 1, " \"bwd\" ", "", "", "", ""},
         "[ -bwd- ]\nnvtx = [ ]\"bwd\"[ ]\nmodule = \" -bwd- \"\nphase = backward\n"},
        {{0, RP_SITE_NVTX, 1, "a\nb\x7f", "", "", "", ""}, "[a-b-]\nnvtx = a?b?\nmodule = \"a-b-\"\nphase = forward\n"},
        {{0, RP_SITE_NVTX, 1, "\u202e\xff\x9b\u00fc", "", "", "",
          ""}, /* turned round, no UTF-8, a control sequence, a letter */
         "[-------]\nnvtx = ?????\u00fc\nmodule = \"-------\"\nphase = forward\n"},
        {{0, RP_SITE_NATIVE, 1, "libmine.so+0x10", "/opt/lib/libmine.so", "", "", ""},
         "[libmine.so+0x10]\nnative = libmine.so+0x10\nlibrary = */libmine.so\nmodule = \"libmine.so+0x10\"\n"
         "phase = forward\n"},
        {{0, RP_SITE_KERNEL, 1, "_ZN4apex4AdamIfEEvPT_f", "", "", "", ""},
         "[Adam]\nkernel = _ZN4apex4AdamIfEEvPT_f\nmodule = \"Adam\"\nphase = optimizer\n"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        assert_string_equal(section_for(&table[i].site, 1), table[i].section);
        section_names(table[i].section, &table[i].site);
    }
}

/* A line of the file has a bound; a longer text ends in a star. */
static void long_texts_end_in_a_star(void **state)
{
    (void)state;
    char name[2001];
    memset(name, 'n', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    const struct rp_trace_site site = {0, RP_SITE_NATIVE, 1, name, name, "", "", ""};
    const char *section = section_for(&site, 1);
    assert_non_null(strstr(section, "n*\nlibrary = n"));
    section_names(section, &site);
    for (size_t length = 45; length < 160; length++) { /* each takes three bytes */
        memset(name, '*', length);
        name[length] = '\0';
        section_names(section_for(&site, 1), &site);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_table_per_source),
        cmocka_unit_test(csv_is_whole),
        cmocka_unit_test(the_rule_is_for_what_is_counted_most),
        cmocka_unit_test(patterns_match_their_text_alone),
        cmocka_unit_test(long_texts_end_in_a_star),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
