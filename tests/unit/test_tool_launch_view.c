/* Kernel launches: which of them belong to an event, and each by itself under its op. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/tool/demangle.h"
#include "core/tool/launch_view.h"
#include "tests/unit/tool_trace.h"

static char text[65536];
static const struct rp_filter all;

static void names_are_demangled(void **state)
{
    (void)state;
    char name[64], cut[8];
    assert_string_equal(rp_demangle("_Z4gemmPKfS0_Pfi", name, sizeof(name)),
                        "gemm(float const*, float const*, float*, int)");
    assert_string_equal(rp_demangle("_ZN4apex4adamIfEEvPT_f", name, sizeof(name)),
                        "void apex::adam<float>(float*, float)");
    assert_string_equal(rp_demangle("_Z4gemmPKfS0_Pfi", cut, sizeof(cut)), "gemm(fl");
    static const char *const plain[] = {"triton_poi_fused_0", "i", "", "_Z", "_Znonsense(", "?"};
    /* A<A<...>, A<...>>, each of the one before: 2^30 names as a text */
    char many[512] = "_Z1f1AIiiE";
    for (size_t i = 0; i < 30; i++)
        sprintf(many + strlen(many), "S_IS%1$c_S%1$c_E", "0123456789ABCDEFGHIJKLMNOPQRST"[i]);
    rp_demangle(many, name, sizeof(name));
    assert_memory_equal(name, "f(A<int, int>, A<A<int, int>, A", 31);
    assert_int_equal(strlen(name), sizeof(name) - 1);
    for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++)
        assert_string_equal(rp_demangle(plain[i], name, sizeof(name)), plain[i]);
}

static void figures_are(const struct rp_trace *trace, size_t from, size_t to, struct rp_launch_figures expected)
{
    struct rp_launch_figures figures = rp_launch_figures(trace, from, to);
    assert_int_equal(figures.all, expected.all);
    assert_int_equal(figures.named, expected.named);
    assert_int_equal(figures.early, expected.early);
    assert_int_equal(figures.behind, expected.behind);
}

static struct rp_trace_part *add_early(struct rp_trace *trace, uint64_t count, uint64_t first)
{
    struct rp_trace_part *part = &trace->parts[trace->part_count++];
    *part = (struct rp_trace_part){.count = count, .first = first, .op = RP_TRACE_NO_OP, .thread = 1};
    return part;
}

/* Two steps of two ops, of which one has no name; launches of a thread without an op before and between them. */
static struct rp_trace *two_steps(void)
{
    struct rp_trace *trace = tool_trace_make();
    trace->identity.start_ticks = 0;
    for (int step = 0; step < 2; step++) {
        tool_trace_launch(trace, 5,
                          tool_trace_event(tool_trace_add(trace, 0, RP_OP_ALL_GATHER, 1, "a", RP_PHASE_FORWARD, 0)));
        tool_trace_launch(trace, 2,
                          tool_trace_event(tool_trace_add(trace, 0, RP_OP_ALL_GATHER, 1, "-", RP_PHASE_UNKNOWN, 0)));
        tool_trace_launch(trace, 1, (struct rp_event){RP_MODULE_UNKNOWN, RP_PHASE_OPTIMIZER});
    }
    for (size_t i = 0; i < trace->op_count; i++)
        trace->ops[i].op.begin += 100;
    add_early(trace, 10, 50);
    add_early(trace, 20, 125);
    add_early(trace, 40, 999)->event.phase = RP_PHASE_OTHER;
    return trace;
}

static void figures_of_a_run_and_of_its_steps(void **state)
{
    (void)state;
    struct rp_trace *trace = two_steps();
    figures_are(trace, 0, 4, (struct rp_launch_figures){86, 52, 30, 4});
    figures_are(trace, 0, 2, (struct rp_launch_figures){8, 6, 0, 2});
    figures_are(trace, 2, 4, (struct rp_launch_figures){68, 46, 20, 2});
    figures_are(trace, 1, 1, (struct rp_launch_figures){0});
    OUTPUT(text, out, {
        rp_launch_view_figures_head(out);
        rp_launch_view_figures(out, trace, 2, 4, "step 2");
        rp_launch_view_figures(out, trace, 1, 1, "nothing");
    });
    assert_string_equal(text, "  launches  with an event    share  before any op  behind an unnamed op\n"
                              "        68             46   67.64%             20                     2  step 2\n"
                              "         0              0        -              0                     0  nothing\n");
    tool_trace_free(trace);
}

/* A hundredth of a hundredth is missing: not all. */
static void a_share_is_not_rounded_up(void **state)
{
    (void)state;
    struct rp_trace *trace = tool_trace_make();
    const struct rp_trace_op *op = tool_trace_add(trace, 0, RP_OP_ALL_GATHER, 1, "a", RP_PHASE_FORWARD, 0);
    tool_trace_launch(trace, 999999, tool_trace_event(op));
    tool_trace_launch(trace, 1, (struct rp_event){0});
    OUTPUT(text, out, rp_launch_view_figures(out, trace, 0, 1, "all"));
    assert_non_null(strstr(text, " 99.99% "));
    tool_trace_free(trace);
}

static struct rp_trace_kernel kernels[] = {{7, (char[]){"_Z4gemmPf"}}, {9, (char[]){"\x1b[31m"}}};

static void launches_stand_under_their_ops(void **state)
{
    (void)state;
    struct rp_trace *trace = two_steps();
    const struct rp_event forward = tool_trace_event(&trace->ops[0]);
    struct rp_trace_launch launches[] = {
        {.event = forward, .ticks = 102, .kernel = 9, .op = 0, .grid = {1, 2, 3}, .block = {4, 5, 6}},
        {.event = {0}, .ticks = 50, .kernel = 7, .op = RP_TRACE_NO_OP, .thread = 1},
        {.event = {0, RP_PHASE_OPTIMIZER}, .ticks = 1000104, .kernel = 7, .op = 0, .stream = 0x2a, .shared_bytes = 48},
        {.event = {0}, .ticks = 115, .kernel = 8, .op = 1, .thread = 2},
        {.event = {0}, .ticks = 125, .kernel = 7, .op = RP_TRACE_NO_OP, .thread = 1},
    };
    trace->kernels = kernels;
    trace->kernel_count = 2;
    trace->launches = launches;
    trace->launch_count = 5;
    OUTPUT(text, out, assert_int_equal(rp_launch_view_print(out, trace, 0, 2, &all), RP_OK));
    assert_string_equal(
        text,
        "position  module  phase    op                      communicator  launches  fingerprint\n"
        "       0  a       forward  all-gather 4 B float32             0         5  -\n"
        "        +0.000 ms  thread 0  stream 0x0  grid 1x2x3  block 4x5x6  shared 0  \\x1b[31m\n"
        "        +1.000 ms  thread 0  stream 0x2a  grid 0x0x0  block 0x0x0  shared 48  gemm(float*)  (optimizer)\n"
        "    2 of 5 launches were recorded one by one\n"
        "       1  -       -        all-gather 4 B float32             0         3  -\n"
        "        +0.000 ms  thread 2  stream 0x0  grid 0x0x0  block 0x0x0  shared 0  ?\n"
        "    1 of 3 launches were recorded one by one\n");
    OUTPUT(text, out, assert_int_equal(rp_launch_view_print(out, trace, 0, 4, &all), RP_OK));
    assert_non_null(strstr(text,
                           "\nbefore the first op of their thread; times from the first op above\n"
                           "        -0.000 ms  thread 1  stream 0x0  grid 0x0x0  block 0x0x0  shared 0  gemm(float*)\n"
                           "        +0.000 ms  thread 1 "));
    trace->launch_count = 0;
    OUTPUT(text, out, assert_int_equal(rp_launch_view_print(out, trace, 0, 4, &all), RP_OK));
    assert_string_equal(text, "no launches one by one in this trace: REPRISE_DETAIL=launches records them\n");
    tool_trace_free(trace);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_demangled),
        cmocka_unit_test(figures_of_a_run_and_of_its_steps),
        cmocka_unit_test(a_share_is_not_rounded_up),
        cmocka_unit_test(launches_stand_under_their_ops),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
