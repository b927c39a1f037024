/* Lines of ops: columns, what has no value, names that must not reach a terminal or break CSV; the folded order. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/tool/order_view.h"
#include "core/tool/rows.h"
#include "core/tool/source.h"
#include "core/tool/tool.h"
#include "tests/unit/tool_trace.h"

static char text[65536];
static const struct rp_filter all;

static void test_columns(void **state)
{
    (void)state;
    struct rp_trace *trace = tool_trace_make();
    struct rp_rows rows = {0};
    struct rp_trace_op *op =
        tool_trace_add(trace, 0, RP_OP_ALL_GATHER, 256, "a.long.module.name", RP_PHASE_FORWARD, 0x0123456789abcdef);
    op->launches = 1000000;
    op->lossy = true;
    tool_trace_add(trace, RP_NO_COMM, RP_OP_GRAPH_LAUNCH, 0, "-", RP_PHASE_UNKNOWN, 0)->op.position = RP_NO_POSITION;
    for (size_t i = 0; i < 2; i++)
        rp_rows_measure(&rows, trace, &trace->ops[i]);
    OUTPUT(text, out, {
        rp_rows_head(&rows, out, "> ");
        rp_rows_print(&rows, out, "> ", trace, &trace->ops[0]);
        rp_rows_print(&rows, out, "> ", trace, &trace->ops[1]);
    });
    assert_string_equal(text, "> position  module              phase    op                          communicator  "
                              "launches  fingerprint\n"
                              ">        0  a.long.module.name  forward  all-gather 1.0 KiB float32             0  "
                              "1000000+  01234567\n"
                              ">        -  -                   -        graph-launch                           -  "
                              "       0  -\n");
    tool_trace_free(trace);
}

static void test_remarks(void **state)
{
    static const struct {
        uint16_t flags;
        const char *remark;
    } table[] = {{RP_OP_FAILED, "(failed)"}, {RP_OP_SIMULATED, "(simulated)"}, {RP_OP_CAPTURED, "(captured)"}};
    (void)state;
    struct rp_trace *trace = tool_trace_make();
    struct rp_trace_op *op = tool_trace_add(trace, 0, RP_OP_ALL_GATHER, 256, "a", RP_PHASE_FORWARD, 0);
    for (size_t i = 0; i < 3; i++) {
        struct rp_rows rows = {0};
        op->op.flags = table[i].flags;
        OUTPUT(text, out, rp_rows_print(&rows, out, "", trace, op));
        assert_non_null(strstr(text, table[i].remark));
    }
    tool_trace_free(trace);
}

/* Every set of flags that replay notes, and calls that delivered nothing. */
static void test_sources(void **state)
{
    static const struct {
        enum rp_op_kind kind;
        uint16_t flags;
        const char *name, *csv;
    } table[] = {
        {RP_OP_ALL_GATHER, 0, "network", ",network\n"},
        {RP_OP_ALL_GATHER, RP_OP_IN_PLACE | RP_OP_IN_GROUP | RP_OP_FINGERPRINTED, "network", ",network\n"},
        {RP_OP_ALL_GATHER, RP_OP_STORED, "network, kept", ",\"network, kept\"\n"},
        {RP_OP_ALL_GATHER, RP_OP_VOTED | RP_OP_HIT, "memory", ",memory\n"},
        {RP_OP_ALL_GATHER, RP_OP_VOTED | RP_OP_HIT | RP_OP_AHEAD, "prefetch", ",prefetch\n"},
        {RP_OP_ALL_GATHER, RP_OP_VOTED | RP_OP_STORED | RP_OP_AHEAD, "repaired", ",repaired\n"},
        {RP_OP_ALL_GATHER, RP_OP_VOTED | RP_OP_WITHDRAWN | RP_OP_AHEAD, "withdrawn", ",withdrawn\n"},
        {RP_OP_ALL_GATHER, RP_OP_VOTED, "repaired", ",repaired\n"},
        {RP_OP_ALL_GATHER, RP_OP_VOTED | RP_OP_STORED, "repaired", ",repaired\n"},
        {RP_OP_ALL_GATHER, RP_OP_VOTED | RP_OP_WITHDRAWN, "withdrawn", ",withdrawn\n"},
        {RP_OP_ALL_GATHER, RP_OP_FAILED, "-", ",\n"},
        {RP_OP_ALL_GATHER, RP_OP_SIMULATED, "-", ",\n"},
        {RP_OP_ALL_GATHER, RP_OP_CAPTURED, "-", ",\n"},
        {RP_OP_REDUCE_SCATTER, 0, "-", ",\n"},
    };
    (void)state;
    struct rp_trace *trace = tool_trace_make();
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        char end[32];
        struct rp_rows rows = {.view = RP_ROWS_PLAN};
        struct rp_trace_op *op = tool_trace_add(trace, 0, table[i].kind, 256, "a", RP_PHASE_FORWARD, 0);
        op->op.flags = table[i].flags;
        assert_string_equal(rp_source_name(rp_source_of(&op->op)), table[i].name);
        OUTPUT(text, out, rp_rows_print(&rows, out, "", trace, op));
        snprintf(end, sizeof(end), "  %s\n", table[i].name);
        assert_string_equal(text + strlen(text) - strlen(end), end);
        OUTPUT(text, out, rp_rows_csv(out, trace, i, 1, 0));
        assert_string_equal(text + strlen(text) - strlen(table[i].csv), table[i].csv);
    }
    tool_trace_free(trace);
}

static void test_names_are_made_safe(void **state)
{
    (void)state;
    char safe[16];
    assert_string_equal(rp_tool_safe("plain", safe, sizeof(safe)), "plain");
    assert_string_equal(rp_tool_safe("\x1b[31m\n", safe, sizeof(safe)), "\\x1b[31m\\x0a");
    assert_string_equal(rp_tool_safe("0123456789abcdef", safe, sizeof(safe)), "0123456789ab");
    assert_string_equal(rp_tool_safe("", safe, sizeof(safe)), "");
    static const struct {
        const char *text, *expected;
    } table[] = {
        {"caf\u00e9 \u5c64 \U0001f600", "caf\u00e9 \u5c64 \U0001f600"},
        {"\xc2\x9b"
         "31m",
         "\\xc2\\x9b31m"}, /* CSI of C1 */
        {"\x9b"
         "31m",
         "\\x9b31m"}, /* the same as one byte: no UTF-8 */
        {"\u202e"
         "gnp",
         "\\xe2\\x80\\xaegnp"},                       /* right to left from here */
        {"\xc0\x9b", "\\xc0\\x9b"},                   /* an overlong ESC */
        {"\xed\xa0\x80", "\\xed\\xa0\\x80"},          /* a surrogate */
        {"\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"}, /* past the last character */
        {"\xff\xfe"
         "a",
         "\\xff\\xfea"},
        {"a\xe5\xb1", "a\\xe5\\xb1"}, /* cut inside a character */
        {"\x7f\r", "\\x7f\\x0d"},
    };
    char whole[64];
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        assert_string_equal(rp_tool_safe(table[i].text, whole, sizeof(whole)), table[i].expected);

    static char name[4001];
    struct rp_trace *trace = tool_trace_make();
    memset(name, '\x1b', sizeof(name) - 1);
    struct rp_trace_op *op = tool_trace_add(trace, 0, RP_OP_ALL_GATHER, 1, name, RP_PHASE_FORWARD, 0);
    struct rp_rows rows = {0};
    rp_rows_measure(&rows, trace, op);
    OUTPUT(text, out, {
        rp_rows_print(&rows, out, "", trace, op);
        rp_order_view_print(out, trace, 0, 1, &all);
        assert_int_equal(rp_order_view_modules(out, trace, 0, 1, &all), RP_OK);
    });
    assert_null(strchr(text, '\x1b'));
    assert_in_range(strlen(text), 1, 2000);
    tool_trace_free(trace);
}

static void test_events_are_named(void **state)
{
    static const struct {
        const char *module;
        enum rp_phase phase;
        const char *expected;
    } table[] = {{"layers.0", RP_PHASE_FORWARD, "layers.0 forward"},
                 {"layers.0", RP_PHASE_UNKNOWN, "layers.0"},
                 {"-", RP_PHASE_OPTIMIZER, "optimizer"},
                 {"-", RP_PHASE_UNKNOWN, "an unnamed op"}};
    (void)state;
    struct rp_trace *trace = tool_trace_make();
    for (size_t i = 0; i < 4; i++) {
        struct rp_trace_op *op = tool_trace_add(trace, 0, RP_OP_ALL_GATHER, 1, table[i].module, table[i].phase, 0);
        assert_string_equal(rp_rows_event(trace, &op->op, text, sizeof(text)), table[i].expected);
    }
    tool_trace_free(trace);
}

static void test_csv(void **state)
{
    (void)state;
    struct rp_trace *trace = tool_trace_make();
    trace->identity.rank = 3;
    struct rp_trace_op *op =
        tool_trace_add(trace, 1, RP_OP_REDUCE, 2, "a \"b\", c\n", RP_PHASE_BACKWARD, 0xfedcba9876543210);
    op->op.root = 1;
    op->op.redop = RP_REDOP_MAX;
    op->op.stream = 0x2a;
    op->op.group = 4;
    op->op.flags = RP_OP_IN_GROUP;
    op->thread = 5;
    op->launches = 6;
    op->launch_digest = 7;
    op->lossy = true;
    OUTPUT(text, out, rp_rows_csv(out, trace, 0, 9, 4));
    assert_string_equal(text, "3,9,0,0,\"a \"\"b\"\", c\\x0a\",backward,reduce,8,float32,max,1,1,5,0x2a,4,0x2,0,5,6,"
                              "0000000000000007,1,fedcba9876543210fedcba9876543210,4,\n");
    tool_trace_free(trace);
}

static void test_order_folds_neighbours(void **state)
{
    (void)state;
    struct rp_trace *trace = tool_trace_make();
    tool_trace_add(trace, 0, RP_OP_ALL_GATHER, 1, "a", RP_PHASE_FORWARD, 0);
    tool_trace_add(trace, 0, RP_OP_ALL_GATHER, 1, "a", RP_PHASE_FORWARD, 0);
    tool_trace_add(trace, 0, RP_OP_MALLOC, 1, "a", RP_PHASE_BACKWARD, 0);
    tool_trace_add(trace, 0, RP_OP_ALL_GATHER, 1, "b", RP_PHASE_FORWARD, 0);
    tool_trace_add(trace, 0, RP_OP_ALL_GATHER, 1, "-", RP_PHASE_UNKNOWN, 0);
    tool_trace_add(trace, 0, RP_OP_ALL_GATHER, 1, "a", RP_PHASE_FORWARD, 0); /* a block that runs twice stays twice */
    tool_trace_add(trace, 0, RP_OP_ALL_GATHER, 1, "a", RP_PHASE_BACKWARD, 0);
    tool_trace_add(trace, 0, RP_OP_REDUCE_SCATTER, 1, "a", RP_PHASE_BACKWARD, 0);
    OUTPUT(text, out, rp_order_view_print(out, trace, 0, trace->op_count, &all));
    assert_string_equal(text, "  forward    a b a\n  backward   a\n");
    OUTPUT(text, out, rp_order_view_print(out, trace, 4, 5, &all));
    assert_string_equal(text, "  no op has a module or a phase\n");
    tool_trace_free(trace);
}

static void test_totals_per_module(void **state)
{
    static const struct {
        uint32_t count, launches;
        const char *module;
    } gathers[] = {{10, 2, "b"}, {10, 3, "a"}, {5, 4, "b"}};
    (void)state;
    struct rp_trace *trace = tool_trace_make();
    for (size_t i = 0; i < 3; i++) {
        const struct rp_trace_op *op =
            tool_trace_add(trace, 0, RP_OP_ALL_GATHER, gathers[i].count, gathers[i].module, RP_PHASE_FORWARD, 0);
        tool_trace_launch(trace, gathers[i].launches, tool_trace_event(op));
    }
    tool_trace_launch(trace, 7, (struct rp_event){trace->ops[1].op.module, RP_PHASE_OPTIMIZER}); /* a rule says so */
    tool_trace_add(trace, 0, RP_OP_ALL_GATHER, 5, "b", RP_PHASE_BACKWARD, 0)->op.module = 0xffffffff;
    OUTPUT(text, out, assert_int_equal(rp_order_view_modules(out, trace, 0, trace->op_count, &all), RP_OK));
    assert_string_equal(text, "     ops           bytes  launches  phase      module\n"
                              "       2              60         6  forward    b\n"
                              "       1              40         3  forward    a\n"
                              "       0               0         7  optimizer  a\n");
    OUTPUT(text, out, assert_int_equal(rp_order_view_modules(out, trace, 0, 2, &all), RP_OK));
    assert_string_equal(text, "     ops           bytes  launches  phase      module\n"
                              "       1              40         2  forward    b\n"
                              "       1              40         3  forward    a\n");
    tool_trace_free(trace);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_columns),
        cmocka_unit_test(test_remarks),
        cmocka_unit_test(test_sources),
        cmocka_unit_test(test_names_are_made_safe),
        cmocka_unit_test(test_events_are_named),
        cmocka_unit_test(test_csv),
        cmocka_unit_test(test_order_folds_neighbours),
        cmocka_unit_test(test_totals_per_module),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
