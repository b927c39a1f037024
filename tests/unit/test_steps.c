/* Cutting lanes into steps: tables, a recorded FSDP2 run, and what holds for every lane. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/steps/fresh.h"
#include "core/steps/steps.h"
#include "lane_text.h"

#define TEN(x) x x x x x x x x x x

/* Steps as text: W or O (whole, other) and the index of the first item. */
static const struct {
    const char *lane, *steps;
} table[] = {
    {"", ""},
    {"a", "O0"},
    {"A", "O0"},
    {"1", "O0"},
    {"...", "O0"},
    {STEP STEP STEP, "W0 W30 W60"},
    {STEP STEP, "W0 W30"},
    {STEP, "O0"},
    /* a prefix: parameters broadcast, a first step of one microbatch */
    {"777" STEP STEP, "O0 W3 W33"},
    {FIRST STEP STEP, "O0 W15 W45"},
    {".." STEP STEP, "W0 W32"},
    /* fingerprints that began late */
    {STALE_STEP STEP STEP, "W0 W30 W60"},
    {"aa1a1a110" STEP STEP, "O0 W9 W39"},
    /* evaluation after every second step: it takes the freshness of the step behind it */
    {STEP STEP EVALUATION STALE_STEP STEP EVALUATION STALE_STEP STEP, "W0 W30 O60 W65 W95 O125 W130 W160"},
    {STEP STEP EVALUATION "raaaa raaaa" STALE_STEP STEP, "W0 W30 O60 W75 W105"},
    {STEP STEP EVALUATION, "W0 W30 O60"},
    /* evaluations behind two of three steps: the plain steps still are the cycle */
    {STEP EVALUATION STALE_STEP EVALUATION STALE_STEP STEP EVALUATION STALE_STEP EVALUATION STALE_STEP STEP,
     "W0 O30 W35 O65 W70 W100 O130 W135 O165 W170 W200"},
    /* an evaluation after every step: the first step, or a step without one, tells where it ends */
    {STEP EVALUATION STALE_STEP EVALUATION STALE_STEP EVALUATION, "W0 O30 W35 O65 W70 O100"},
    {STEP EVALUATION STALE_STEP EVALUATION, "W0 O30 W35 O65"},
    {STEP EVALUATION "raaaa" STALE_STEP EVALUATION "raaaa" STALE_STEP, "W0 O30 W40 O70 W80"},
    {EVALUATION STALE_STEP EVALUATION STALE_STEP EVALUATION STALE_STEP STEP, "O0 W5 O35 W40 O70 W75 W105"},
    {FIRST EVALUATION AGAIN EVALUATION AGAIN, "W0 O15 W20 O35 W40"},
    /* but not where nothing tells: then they are one */
    {EVALUATION STALE_STEP EVALUATION STALE_STEP EVALUATION STALE_STEP, "W0 W35 W70"},
    /* two odd steps alike are no cycle where there are many others */
    {STEP STEP "RAAAraa1a110" STEP STEP "RAAAraa1a110" STEP STEP STEP, "W0 W30 O60 W72 W102 O132 W144 W174 W204"},
    /* a layer left out in one step, in one microbatch of a step */
    {STEP "RAAA raa1a110 raaa raa1a110" STEP STEP, "W0 O30 W54 W84"},
    {STEP FIRST "raaa raa1a110" STEP STEP, "W0 O30 W57 W87"},
    {STEP "RAAA raa1a110" AGAIN STEP STEP, "W0 O30 W57 W87"},
    /* a shared block runs twice; blocks shared between all layers */
    {"RAAAAaraaa1a1a1110 raaaaaraaa1a1a1110 RAAAAaraaa1a1a1110 raaaaaraaa1a1a1110", "W0 W36"},
    {"RASAsAsrsasasa1111 RASAsAsrsasasa1111", "W0 W18"},
    /* learning rate 0 from the start: the signatures' period; in the first steps only: the later steps tell */
    {FIRST AGAIN AGAIN AGAIN AGAIN AGAIN, "W0 W15 W30 W45 W60 W75"},
    {STEP STALE_STEP STALE_STEP STEP STEP STEP, "W0 W30 W60 W90 W120 W150"},
    /* no fingerprints, with evaluation: what repeats is the microbatch */
    {AGAIN AGAIN AGAIN AGAIN AGAIN AGAIN "raaaa" AGAIN AGAIN, "W0 W15 W30 W45 W60 W75 O90 W95 W110"},
    /* small items stay with the step before */
    {STEP "." STEP ".." STEP, "W0 W31 W63"},
    {"RA.AAA raa1a1.a110 raaaa raa1a1a110." STEP STEP, "W0 W33 W63"},
    /* one step alone: its layers repeat, each with a gather and a reduction */
    {"RAAAAAAAAA raa1a1a1a1a1a1a1a110", "O0"},
    {"RAAAAAAAAAAA raa1a1a1a1a1a1a1a1a1a110 raaaaaaaaaaa raa1a1a1a1a1a1a1a1a1a110", "O0"},
    {"RAAAAAAAAAAAAAAA raaaaaaaaaaaaaaa 1111111111111110", "O0"},
    /* cut short */
    {STEP STEP STEP "RAAAA raa1", "W0 W30 W60 O90"},
    {STEP STEP STEP FIRST, "W0 W30 W60 O90"},
    /* reductions on another communicator */
    {"RAAAAraaaa raaaaraaaa RAAAAraaaa raaaaraaaa RAAAAraaaa raaaaraaaa", "W0 W20 W40"},
    {"RASAsAsrsasasa RASAsAsrsasasa", "W0 W14"},
    /* always fresh, and no gathers at all */
    {"AB1 AB1 AB1", "W0 W3 W6"},
    {"ABABABABAB", "W0 W2 W4 W6 W8"},
    {"123 123 123 9", "W0 W3 W6 O9"},
    /* nothing repeats */
    {"a1b2c3d4", "O0"},
    {"abcdefghiijklmnopq", "O0"},
    /* annotated: what freshness says does not count, nor what repeats */
    {"|" STEP "|" STEP "|" STEP, "W0 W30 W60"},
    {"|" FIRST "|" AGAIN "|" FIRST "|" AGAIN, "W0 W15 W30 W45"},
    {"|" AGAIN AGAIN "|" AGAIN AGAIN "|" AGAIN AGAIN, "W0 W30 W60"},
    {"|" EVALUATION STALE_STEP "|" EVALUATION STALE_STEP "|" STEP "|" EVALUATION STALE_STEP, "W0 W35 O70 W100"},
    {"|a1 |a1 |a1 |a1", "W0 W2 W4 W6"},
    {"|1|1|1", "W0 W1 W2"},
    /* a prefix, one step alone, a step that is cut short, small items at a step's beginning and between */
    {"777"
     "|" STEP "|" STEP,
     "O0 W3 W33"},
    {"|" STEP, "O0"},
    {"aa|" STEP, "O0 O2"},
    {"|" STEP "|" STEP "|RAAA", "W0 W30 O60"},
    {"|." STEP "|." STEP "|." STEP, "W0 W31 W62"},
    {"|" STEP ".|" STEP "..|" STEP, "W0 W31 W63"},
    {"|." STEP "|..|." STEP "|." STEP, "W0 O31 W33 W64"},
    {"|.|.", "O0 O1"},
    /* of two kinds the commoner; of equally common ones the longer */
    {"|ab1 |abab1 |abab1 |ab1 |abab1 |ab1", "O0 W3 W8 O13 W16 O21"},
    {"|ab1 |abab1 |x", "O0 W3 O8"},
    /* behind the last annotation, as where replay asks for no more names, what most steps are is looked for */
    {"|" STEP "|" STEP "|" STEP STALE_STEP STALE_STEP EVALUATION STALE_STEP "raa",
     "W0 W30 W60 W90 W120 O150 W155 O185"},
    {"|" STEP "|" STEP "|" EVALUATION STALE_STEP, "W0 W30 O60 W65"},
    {TEN(STEP) "RAAAraa1a110", "W0 W30 W60 W90 W120 W150 W180 W210 W240 W270 O300"},
};

/* As in the table; the caller frees. */
static char *steps_as_text(const struct rp_cycle_item *items, size_t count)
{
    struct rp_step *steps = NULL;
    size_t step_count = 99;
    assert_int_equal(rp_steps_cut(items, count, &steps, &step_count), RP_OK);
    char *text = calloc(step_count + 1, 16);
    assert_non_null(text);
    for (size_t i = 0, n = 0; i < step_count; i++)
        n += (size_t)sprintf(text + n, "%s%c%zu", i > 0 ? " " : "", steps[i].kind == RP_STEP_WHOLE ? 'W' : 'O',
                             steps[i].first);
    free(steps);
    return text;
}

static void cuts_lanes(void **state)
{
    (void)state;
    size_t wrong = 0;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        size_t count;
        struct rp_cycle_item *items = lane_from_text(table[i].lane, &count);
        char *text = steps_as_text(items, count);
        if (strcmp(text, table[i].steps) != 0) {
            print_error("row %zu \"%s\": %s, expected %s\n", i, table[i].lane, text, table[i].steps);
            wrong++;
        }
        free(text);
        free(items);
    }
    assert_int_equal(wrong, 0);
}

static void recorded_run(void **state)
{
    (void)state;
    static struct call calls[CALLS_MAX];
    struct rp_cycle_item items[CALLS_MAX];
    struct rp_freshness *set = NULL;
    size_t count = calls_read(calls);
    assert_int_equal(count, 91);
    for (int changes = 0; changes <= 1; changes++) {
        assert_int_equal(rp_freshness_create(60, &set), RP_OK);
        for (size_t i = 0; i < count; i++) {
            uint64_t step = changes ? i / 30 : 0, unit = strlen(calls[i].module) * 256u;
            for (const char *c = calls[i].module; *c != '\0'; c++)
                unit = unit * 33 + (unsigned char)*c;
            items[i] = rp_cycle_item(&calls[i].op, rp_freshness_see(set, &calls[i].op, (uint64_t[2]){unit, step}));
        }
        char *text = steps_as_text(items, count);
        assert_string_equal(text, changes ? "W0 W30 W60" : "W0 W15 W30 W45 W60 W75");
        free(text);
        rp_freshness_destroy(set);
    }
}

/* ---------------------------------------------------------------- what holds for every lane */

static size_t without_small(const struct rp_cycle_item *items, size_t first, size_t end, uint64_t *signatures_out)
{
    size_t count = 0;
    for (size_t i = first; i < end; i++) {
        if (items[i].class != RP_CYCLE_SMALL)
            signatures_out[count++] = items[i].signature;
    }
    return count;
}

/* Steps cover the lane in order, and all whole ones have the same signatures. */
static void check_steps(const struct rp_cycle_item *items, size_t count, const struct rp_step *steps, size_t step_count)
{
    uint64_t *cycle = calloc(count + 1, sizeof(*cycle)), *other = calloc(count + 1, sizeof(*other));
    size_t length = 0;
    assert_non_null(cycle);
    assert_non_null(other);
    assert_int_equal(step_count == 0, count == 0);
    for (size_t i = 0; i < step_count; i++) {
        size_t end = i + 1 < step_count ? steps[i + 1].first : count;
        assert_true(steps[i].first < end);
        assert_true(i > 0 || steps[i].first == 0);
        assert_true(i == 0 || items[steps[i].first].class != RP_CYCLE_SMALL || items[steps[i].first].step);
        if (steps[i].kind != RP_STEP_WHOLE)
            continue;
        size_t n = without_small(items, steps[i].first, end, length == 0 ? cycle : other);
        assert_true(n > 0);
        if (length == 0)
            length = n;
        else
            assert_true(n == length && memcmp(cycle, other, n * sizeof(*cycle)) == 0);
    }
    free(cycle);
    free(other);
}

static void every_lane_is_covered(void **state)
{
    (void)state;
    static const char *const pieces[] = {STEP, STEP,  STEP, STALE_STEP, EVALUATION, FIRST,
                                         ".",  "raa", "7",  "A",        "1",        "|"};
    srand(3);
    for (int round = 0; round < 4000; round++) {
        char text[1024] = "";
        size_t count, step_count;
        int parts = rand() % 20;
        for (int i = 0; i < parts; i++)
            strcat(text, pieces[(size_t)rand() % (sizeof(pieces) / sizeof(pieces[0]))]);
        struct rp_cycle_item *items = lane_from_text(text, &count);
        struct rp_step *steps = NULL;
        if (count > 0)
            count -= (size_t)rand() % 2;
        assert_int_equal(rp_steps_cut(items, count, &steps, &step_count), RP_OK);
        check_steps(items, count, steps, step_count);
        free(steps);
        free(items);
    }
}

/* A million ops with evaluations, odd steps and log lines: every plain step is found. */
static void a_long_run(void **state)
{
    (void)state;
    enum { STEPS = 33000 };
    static const char *const kinds[] = {STEP, STEP ".", "RAAA raa1a110" AGAIN, EVALUATION STALE_STEP};
    char *text = calloc(STEPS, 48), *end = text;
    size_t count, step_count, whole = 0, expected = 0;
    struct rp_step *steps = NULL;
    assert_non_null(text);
    for (size_t i = 0; i < STEPS; i++) {
        size_t kind = i % 1000 == 999 ? 2 : i % 100 == 99 ? 3 : i % 10 == 9;
        end = stpcpy(end, kinds[kind]);
        expected += kind != 2;
    }
    struct rp_cycle_item *items = lane_from_text(text, &count);
    assert_int_equal(rp_steps_cut(items, count, &steps, &step_count), RP_OK);
    check_steps(items, count, steps, step_count);
    for (size_t i = 0; i < step_count; i++)
        whole += steps[i].kind == RP_STEP_WHOLE;
    assert_int_equal(whole, expected);
    free(steps);
    free(items);
    free(text);
}

/* Lanes that make a careless search quadratic. */
static void long_dull_lanes(void **state)
{
    (void)state;
    enum { COUNT = 300000 };
    static const char *const units[] = {"a", "A", "1", "A1", "aaaaaaaaaaaaaaaaaaaaaaaab", "A1aaaaaaaaaaaaaaaa"};
    struct rp_cycle_item *items = calloc(COUNT, sizeof(*items));
    assert_non_null(items);
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        struct rp_step *steps = NULL;
        size_t step_count, length = strlen(units[i]);
        for (size_t j = 0; j < COUNT; j++)
            items[j] = lane_item(units[i][j % length]);
        assert_int_equal(rp_steps_cut(items, COUNT, &steps, &step_count), RP_OK);
        assert_int_equal(step_count, COUNT / length + (COUNT % length != 0));
        check_steps(items, COUNT, steps, step_count);
        free(steps);
    }
    free(items);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cuts_lanes), cmocka_unit_test(recorded_run),    cmocka_unit_test(every_lane_is_covered),
        cmocka_unit_test(a_long_run), cmocka_unit_test(long_dull_lanes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
