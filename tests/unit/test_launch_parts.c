/* Where the launches behind two ops first differ, part by part, and which parts say nothing. */
#include "core/compare/launch_parts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define PARTS 3

/* A part: the first letter of its module ('-': none), its phase, how many launches; the digest goes with them. */
struct told {
    char module;
    enum rp_phase phase;
    uint64_t count;
    uint64_t digest;
};

/* The launches behind the op "g backward" of one trace; none: the op has no parts, and 5 launches of digest 1. */
struct side {
    struct told parts[PARTS];
};

#define B(module, count, digest)                 \
    {                                            \
        module, RP_PHASE_BACKWARD, count, digest \
    }
#define O(count, digest)                       \
    {                                          \
        '-', RP_PHASE_OPTIMIZER, count, digest \
    }
#define UNNAMED(count, digest)               \
    {                                        \
        '-', RP_PHASE_UNKNOWN, count, digest \
    }

static const struct {
    struct side left, right;
    char module;
    enum rp_phase phase;
    uint64_t left_count, right_count;
} cases[] = {
    /* the same event: by count, by digest */
    {{{B('l', 5, 1)}}, {{B('l', 9, 2)}}, 'l', RP_PHASE_BACKWARD, 5, 9},
    {{{B('l', 5, 1)}}, {{B('l', 5, 2)}}, 'l', RP_PHASE_BACKWARD, 5, 5},
    /* behind parts that are alike */
    {{{B('l', 5, 1), O(2, 2)}}, {{B('l', 5, 1), O(3, 3)}}, '-', RP_PHASE_OPTIMIZER, 2, 3},
    {{{B('l', 5, 1)}}, {{B('l', 5, 1), O(3, 3)}}, '-', RP_PHASE_OPTIMIZER, 0, 3},
    {{{B('l', 5, 1), O(3, 3)}}, {{B('l', 5, 1)}}, '-', RP_PHASE_OPTIMIZER, 3, 0},
    /* other events at one place: the left one's */
    {{{B('l', 5, 1)}}, {{B('m', 5, 2)}}, 'l', RP_PHASE_BACKWARD, 5, 0},
    {{{{'l', RP_PHASE_BACKWARD, 5, 1}}}, {{{'l', RP_PHASE_RECOMPUTE, 5, 2}}}, 'l', RP_PHASE_BACKWARD, 5, 0},
    /* a name that one side does not know is no difference, and that of the other counts */
    {{{UNNAMED(5, 1), O(2, 2)}}, {{B('l', 5, 1), O(3, 3)}}, '-', RP_PHASE_OPTIMIZER, 2, 3},
    {{{UNNAMED(5, 1)}}, {{B('l', 6, 2)}}, 'l', RP_PHASE_BACKWARD, 5, 6},
    /* ops without parts */
    {{{{0}}}, {{B('l', 5, 1)}}, 'g', RP_PHASE_BACKWARD, 5, 0},
    {{{B('g', 6, 2)}}, {{{0}}}, 'g', RP_PHASE_BACKWARD, 6, 5},
    {{{B('l', 6, 2)}}, {{{0}}}, 'l', RP_PHASE_BACKWARD, 6, 0},
};

static uint32_t number_of(struct rp_trace *trace, char name)
{
    return name == '-' ? RP_MODULE_UNKNOWN : rp_module_intern(trace->modules, &name, 1);
}

/* Op 1 is the one; parts of another thread's op 0 lie between its own. `first`: modules get other numbers. */
static struct rp_trace *trace_make(const struct side *side, char first)
{
    struct rp_trace *trace = calloc(1, sizeof *trace);
    assert_int_equal(rp_modules_create(&trace->modules), RP_OK);
    number_of(trace, first);
    trace->ops = calloc(2, sizeof *trace->ops);
    trace->op_count = 2;
    trace->ops[0].thread = 1;
    trace->ops[1] = (struct rp_trace_op){
        .op = {.module = number_of(trace, 'g'), .phase = RP_PHASE_BACKWARD}, .launches = 5, .launch_digest = 1};
    trace->parts = calloc(2 * PARTS, sizeof *trace->parts);
    for (size_t i = 0; i < PARTS && side->parts[i].count > 0; i++) {
        const struct told *told = &side->parts[i];
        trace->parts[trace->part_count++] = (struct rp_trace_part){.op = 0, .thread = 1, .count = 77};
        trace->parts[trace->part_count++] =
            (struct rp_trace_part){.event = {number_of(trace, told->module), told->phase},
                                   .count = told->count,
                                   .digest = told->digest,
                                   .op = 1};
        trace->ops[0].launches += 77;
        trace->ops[1].launches = (uint32_t)(i == 0 ? told->count : trace->ops[1].launches + told->count);
        trace->ops[1].launch_digest = told->digest;
    }
    return trace;
}

/* The ops of `copy` are packed, those of `trace` stay. */
static struct rp_packed pack(const struct rp_trace *trace, struct rp_trace *copy)
{
    struct rp_packed packed;
    *copy = *trace;
    copy->ops = calloc(trace->op_count, sizeof *copy->ops);
    assert_non_null(copy->ops);
    memcpy(copy->ops, trace->ops, trace->op_count * sizeof *copy->ops);
    assert_int_equal(rp_packed_create(copy, &packed), RP_OK);
    return packed;
}

static void compare(size_t number, const struct rp_trace *left, const struct rp_trace *right)
{
    struct rp_trace copies[2];
    struct rp_packed packed[2] = {pack(left, &copies[0]), pack(right, &copies[1])};
    struct rp_launch_parts parts[2];
    assert_int_equal(rp_launch_parts_create(&packed[0], &parts[0]), RP_OK);
    assert_int_equal(rp_launch_parts_create(&packed[1], &parts[1]), RP_OK);
    struct rp_launch_difference found = rp_launch_parts_compare(&parts[0], 1, &parts[1], 1);
    const char *module = rp_module_name(found.trace->modules, found.event.module);
    if (module[0] != cases[number].module || found.event.phase != cases[number].phase ||
        found.left != cases[number].left_count || found.right != cases[number].right_count)
        fail_msg("case %zu: %s %s, %u and %u", number, module, rp_phase_name(found.event.phase), (unsigned)found.left,
                 (unsigned)found.right);
    rp_launch_parts_free(&parts[0]);
    rp_launch_parts_free(&parts[1]);
    rp_packed_free(&packed[0]);
    rp_packed_free(&packed[1]);
}

static void the_first_part_that_differs_is_found(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct rp_trace *left = trace_make(&cases[i].left, 'x'), *right = trace_make(&cases[i].right, 'y');
        compare(i, left, right);
        rp_launch_parts_shrink(left);
        rp_launch_parts_shrink(right);
        compare(i, left, right);
        rp_trace_free(left);
        rp_trace_free(right);
    }
}

static void parts_that_say_nothing_are_taken_out(void **state)
{
    static const struct side own = {{B('g', 5, 1)}}, elsewhere = {{B('l', 5, 1)}}, two = {{B('g', 5, 1), O(2, 2)}};
    static const struct {
        const struct side *side;
        size_t kept;
    } shrunk[] = {{&own, 0}, {&elsewhere, 1}, {&two, 4}};
    (void)state;
    for (size_t i = 0; i < COUNT(shrunk); i++) {
        struct rp_trace *trace = trace_make(shrunk[i].side, 'x');
        rp_launch_parts_shrink(trace);
        assert_int_equal(trace->part_count, shrunk[i].kept);
        rp_trace_free(trace);
    }
    struct rp_trace *trace = trace_make(&own, 'x');
    trace->parts[1].op = RP_TRACE_NO_OP; /* before the first op of its thread */
    rp_launch_parts_shrink(trace);
    assert_int_equal(trace->part_count, 1);
    assert_int_equal(trace->parts[0].op, RP_TRACE_NO_OP);
    rp_trace_free(trace);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_part_that_differs_is_found),
        cmocka_unit_test(parts_that_say_nothing_are_taken_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
