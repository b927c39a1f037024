/* The period of a lane: tables, a recorded FSDP2 run, and random arrays against the definition. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/steps/fresh.h"
#include "lane_text.h"

#define FRESHNESS RP_CYCLE_BY_FRESHNESS
#define SIGNATURES RP_CYCLE_BY_SIGNATURES

static const struct {
    const char *lane;
    size_t period; /* 0: none */
    size_t first;
    enum rp_cycle_basis basis;
} table[] = {
    {"", 0, 0, SIGNATURES},
    {"a", 0, 0, SIGNATURES},
    {"A", 0, 0, SIGNATURES},
    {".", 0, 0, SIGNATURES},
    {"ab", 0, 0, SIGNATURES},
    {"aa", 1, 1, SIGNATURES},
    {"a.a", 1, 2, SIGNATURES},
    {"AA", 1, 1, SIGNATURES},
    /* two steps: 30 ops, not the 15 of a microbatch nor the 1 of equal layers */
    {STEP STEP, 30, 30, FRESHNESS},
    {STEP STEP STEP, 30, 60, FRESHNESS},
    {STEP STEP "RAA", 30, 30, FRESHNESS},
    {STEP STEP STEP FIRST, 30, 60, FRESHNESS},
    /* a third microbatch fits no step; what repeats at the end then is the microbatch */
    {STEP STEP STEP AGAIN, 15, 90, SIGNATURES},
    /* a prefix and a first step unlike the others */
    {"77b" STEP STEP, 30, 33, FRESHNESS},
    {AGAIN STEP STEP, 30, 45, FRESHNESS},
    /* small items are passed over, wherever they are */
    {STEP "." STEP, 30, 31, FRESHNESS},
    {"..RA.AAA raa1a1a110" AGAIN "." STEP ".", 30, 34, FRESHNESS},
    /* recompute: every layer gathered a second time in backward is still one generation */
    {"RAAra1a10 RAAra1a10", 9, 9, FRESHNESS},
    /* a shared block between the layers: fresh once, then not; no cycle of two ops */
    {"RASAsAsrsasasa1111 RASAsAsrsasasa1111", 18, 18, FRESHNESS},
    /* nothing fresh: the signature period, turned to the gather behind the longest stretch of reductions */
    {AGAIN AGAIN, 15, 15, SIGNATURES},
    {"a110" AGAIN AGAIN AGAIN "raa", 15, 34, SIGNATURES},
    /* no gathers at all: where the repetition begins */
    {"9 123 123 12", 3, 4, SIGNATURES},
    /* an evaluation in every second step is part of the period when the end shows nothing shorter twice */
    {STEP EVALUATION STALE_STEP STEP EVALUATION STALE_STEP, 65, 65, FRESHNESS},
    /* but two plain steps at the end are enough */
    {STEP EVALUATION STALE_STEP STEP STEP, 30, 95, FRESHNESS},
};

static void finds_the_cycle(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        size_t count;
        struct rp_cycle_item *items = lane_from_text(table[i].lane, &count);
        struct rp_cycle cycle = {0};
        enum rp_status status = rp_cycle_find(items, count, &cycle);
        if (status != (table[i].period == 0 ? RP_NOT_FOUND : RP_OK) || cycle.period != table[i].period ||
            cycle.first != table[i].first || (status == RP_OK && cycle.basis != table[i].basis))
            fail_msg("row %zu \"%s\": %s, period %zu first %zu basis %d", i, table[i].lane, rp_status_text(status),
                     cycle.period, cycle.first, (int)cycle.basis);
        free(items);
    }
}

/* ---------------------------------------------------------------- a recorded run */

/* Items of the recorded calls; each unit's content changes once in `per_content` calls (0: never). */
static size_t recorded_items(struct rp_cycle_item *items, size_t per_content)
{
    static struct call calls[CALLS_MAX];
    struct rp_freshness *set = NULL;
    size_t count = calls_read(calls);

    assert_int_equal(count, 91);
    assert_int_equal(rp_freshness_create(60, &set), RP_OK);
    for (size_t i = 0; i < count; i++) {
        uint64_t unit = 5381;
        for (const char *c = calls[i].module; *c != '\0'; c++)
            unit = unit * 33 + (unsigned char)*c;
        uint64_t fingerprint[2] = {unit, per_content == 0 ? 0 : i / per_content};
        items[i] = rp_cycle_item(&calls[i].op, rp_freshness_see(set, &calls[i].op, fingerprint));
    }
    rp_freshness_destroy(set);
    return count;
}

static void recorded_run_has_steps_of_30(void **state)
{
    (void)state;
    struct rp_cycle_item items[CALLS_MAX];
    struct rp_cycle cycle;
    size_t count = recorded_items(items, 30);
    for (size_t end = 60; end <= count; end++) {
        assert_int_equal(rp_cycle_find(items, end, &cycle), RP_OK);
        assert_int_equal(cycle.period, 30);
        assert_int_equal(cycle.basis, FRESHNESS);
        assert_int_equal(cycle.first, end < 90 ? 30 : 60);
        assert_int_equal(cycle.end, cycle.first + 30);
    }
}

static void recorded_run_without_change_has_microbatches(void **state)
{
    (void)state;
    struct rp_cycle_item items[CALLS_MAX];
    struct rp_cycle cycle;
    size_t count = recorded_items(items, 0);
    assert_int_equal(rp_cycle_find(items, count, &cycle), RP_OK);
    assert_int_equal(cycle.period, 15);
    assert_int_equal(cycle.basis, SIGNATURES);
    assert_int_equal(cycle.first, 75);
}

static void classes_of_ops(void **state)
{
    (void)state;
    struct rp_op op = {.kind = RP_OP_ALL_GATHER, .dtype = RP_DTYPE_FLOAT32, .redop = RP_REDOP_NONE, .count = 1};
    assert_int_equal(rp_cycle_item(&op, true).class, RP_CYCLE_FRESH);
    assert_int_equal(rp_cycle_item(&op, false).class, RP_CYCLE_GATHER);
    assert_true(rp_cycle_item(&op, true).signature == rp_op_signature(&op));
    op.kind = RP_OP_ALL_REDUCE;
    assert_int_equal(rp_cycle_item(&op, true).class, RP_CYCLE_SMALL);
    op.count = RP_CYCLE_SMALL_BYTES / 4;
    assert_int_equal(rp_cycle_item(&op, false).class, RP_CYCLE_SMALL);
    op.count++;
    assert_int_equal(rp_cycle_item(&op, true).class, RP_CYCLE_REDUCE);
}

/* ---------------------------------------------------------------- against the definition */

#define RANDOM_MAX 80

static bool same(const struct rp_cycle_item *a, const struct rp_cycle_item *b)
{
    return a->signature == b->signature && a->class == b->class;
}

static size_t seen_with(const struct rp_cycle_item *items, size_t count, size_t period)
{
    size_t seen = period;
    while (seen < count && same(&items[count - 1 - seen], &items[count - 1 - seen + period]))
        seen++;
    return seen;
}

static bool has_all_parts(const struct rp_cycle_item *items, size_t count)
{
    size_t classes[4] = {0};
    for (size_t i = 0; i < count; i++)
        classes[items[i].class]++;
    return classes[RP_CYCLE_FRESH] > 0 && classes[RP_CYCLE_GATHER] > 0 && classes[RP_CYCLE_REDUCE] > 0;
}

/* The period by trying all; `items` hold nothing SMALL. */
static size_t reference_period(const struct rp_cycle_item *items, size_t count)
{
    for (size_t p = 1; p <= count / 2; p++) {
        size_t seen = seen_with(items, count, p);
        bool longest = true;
        if (seen < 2 * p)
            continue;
        for (size_t q = p + 1; q <= count / 2; q++)
            longest = longest && (seen_with(items, count, q) < 2 * q || q <= seen);
        if (longest || has_all_parts(items + count - p, p))
            return p;
    }
    return 0;
}

static bool marks(const struct rp_cycle_item *item, const struct rp_cycle_item *word, size_t period)
{
    bool fresh = false;
    for (size_t i = 0; i < period; i++)
        fresh = fresh || word[i].class == RP_CYCLE_FRESH;
    return item->class == RP_CYCLE_FRESH || (!fresh && item->class == RP_CYCLE_GATHER);
}

/* Items before word[start], going round, up to the mark before it; 0 if it is no mark itself. */
static size_t stretch_before(const struct rp_cycle_item *word, size_t period, size_t start)
{
    size_t stretch = 1;
    if (!marks(&word[start], word, period))
        return 0;
    while (stretch < period && !marks(&word[(start + 2 * period - stretch) % period], word, period))
        stretch++;
    return stretch;
}

/* Negative if the turn at a is a better start than the turn at b. */
static int compare_turns(const struct rp_cycle_item *word, size_t period, size_t a, size_t b)
{
    for (size_t i = 0; i < period; i++) {
        size_t at_a = (a + i) % period, at_b = (b + i) % period;
        size_t stretch_a = stretch_before(word, period, at_a), stretch_b = stretch_before(word, period, at_b);
        if (stretch_a != stretch_b)
            return stretch_a > stretch_b ? -1 : 1;
        if (word[at_a].signature != word[at_b].signature)
            return word[at_a].signature < word[at_b].signature ? -1 : 1;
    }
    return 0;
}

static void check_against_reference(const struct rp_cycle_item *items, size_t count)
{
    struct rp_cycle cycle = {0};
    enum rp_status status = rp_cycle_find(items, count, &cycle);
    size_t period = reference_period(items, count);

    assert_int_equal(status, period == 0 ? RP_NOT_FOUND : RP_OK);
    assert_int_equal(cycle.period, period);
    if (period == 0)
        return;
    assert_int_equal(cycle.seen, seen_with(items, count, period));
    assert_int_equal(cycle.end, cycle.first + period);
    assert_true(cycle.end <= count && cycle.end + period > count);

    const struct rp_cycle_item *word = items + count - period;
    bool has_marks = false;
    for (size_t i = 0; i < period; i++)
        has_marks = has_marks || marks(&word[i], word, period);
    if (!has_marks)
        assert_int_equal((count - cycle.seen) % period, cycle.first % period);
    for (size_t i = 0; has_marks && i < period; i++)
        assert_true(compare_turns(items + cycle.first, period, 0, i) <= 0);
}

/* Repetitions with a prefix and, at times, one item changed: pure noise has few periods. */
static size_t random_lane(struct rp_cycle_item *items)
{
    static const char *const alphabets[] = {"a", "ab", "aA", "aA1", "ab12", "aAbB123", "12"};
    const char *alphabet = alphabets[(size_t)rand() % (sizeof(alphabets) / sizeof(alphabets[0]))];
    size_t letters = strlen(alphabet), period = 1 + (size_t)rand() % 20, count = (size_t)rand() % RANDOM_MAX;

    for (size_t i = 0; i < count; i++) {
        if (i < period + 3)
            items[i] = lane_item(alphabet[(size_t)rand() % letters]);
        else
            items[i] = items[i - period];
    }
    if (count > 0 && rand() % 3 == 0)
        items[(size_t)rand() % count] = lane_item(alphabet[(size_t)rand() % letters]);
    return count;
}

static void like_the_reference(void **state)
{
    (void)state;
    struct rp_cycle_item items[RANDOM_MAX] = {0};
    srand(7);
    for (int i = 0; i < 3000; i++) {
        size_t count = random_lane(items);
        check_against_reference(items, count);
    }
}

/* Small items anywhere change no period, and the cycle's bounds only by those inside it. */
static void small_items_change_nothing(void **state)
{
    (void)state;
    struct rp_cycle_item items[RANDOM_MAX] = {0}, sparse[3 * RANDOM_MAX] = {0};
    size_t place[RANDOM_MAX];
    srand(8);
    for (int i = 0; i < 500; i++) {
        struct rp_cycle plain = {0}, cycle = {0};
        size_t count = random_lane(items), n = 0;
        for (size_t j = 0; j < count; j++) {
            while (n < 2 * j && rand() % 3 == 0)
                sparse[n++] = lane_item('.');
            place[j] = n;
            sparse[n++] = items[j];
        }
        assert_int_equal(rp_cycle_find(sparse, n, &cycle), rp_cycle_find(items, count, &plain));
        assert_int_equal(cycle.period, plain.period);
        if (plain.period == 0)
            continue;
        assert_int_equal(cycle.seen, plain.seen);
        assert_int_equal(cycle.first, place[plain.first]);
        assert_int_equal(cycle.end, place[plain.end - 1] + 1);
    }
}

/* A million ops, among them what makes a careless search quadratic. */
static void long_lanes(void **state)
{
    (void)state;
    enum { COUNT = 1000000 };
    static const struct {
        const char *unit;
        size_t period;
    } lanes[] = {{"a", 1}, {STEP, 30}, {"aaaaaaaaaaaaaaab", 16}, {"A1", 2}};
    struct rp_cycle_item *items = calloc(COUNT, sizeof(*items));
    assert_non_null(items);
    for (size_t i = 0; i < sizeof(lanes) / sizeof(lanes[0]); i++) {
        size_t length;
        struct rp_cycle_item *unit = lane_from_text(lanes[i].unit, &length);
        struct rp_cycle cycle;
        for (size_t j = 0; j < COUNT; j++)
            items[j] = unit[j % length];
        assert_int_equal(rp_cycle_find(items, COUNT, &cycle), RP_OK);
        assert_int_equal(cycle.period, lanes[i].period);
        assert_int_equal(cycle.seen, COUNT);
        free(unit);
    }
    for (size_t j = 0; j < COUNT; j++)
        items[j] = lane_item(j == COUNT / 2 ? 'b' : 'a');
    struct rp_cycle cycle;
    assert_int_equal(rp_cycle_find(items, COUNT, &cycle), RP_OK);
    assert_int_equal(cycle.period, 1);
    free(items);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_the_cycle),
        cmocka_unit_test(recorded_run_has_steps_of_30),
        cmocka_unit_test(recorded_run_without_change_has_microbatches),
        cmocka_unit_test(classes_of_ops),
        cmocka_unit_test(like_the_reference),
        cmocka_unit_test(small_items_change_nothing),
        cmocka_unit_test(long_lanes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
