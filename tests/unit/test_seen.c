/* What was seen at collectives: once each, bounded, counted by several threads. */
#include "core/record/seen.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static struct rp_seen *table(void)
{
    struct rp_seen *seen = NULL;
    assert_int_equal(rp_seen_create(&seen), RP_OK);
    return seen;
}

static uint32_t note(struct rp_seen *seen, enum rp_rule_source source, const char *text, const char *where)
{
    return rp_seen_note(seen, source, text, where, NULL, NULL, NULL);
}

static void each_is_kept_once(void **state)
{
    (void)state;
    struct rp_seen *seen = table();
    assert_int_equal(rp_seen_total(seen), 0);
    assert_int_equal(note(seen, RP_RULE_PYTHON, "f", "a.py"), 0);
    assert_int_equal(note(seen, RP_RULE_PYTHON, "f", "b.py"), 1);
    assert_int_equal(note(seen, RP_RULE_NATIVE, "f", "a.py"), 2);
    assert_int_equal(note(seen, RP_RULE_NVTX, "f", NULL), 3);
    assert_int_equal(note(seen, RP_RULE_PYTHON, "f", "a.py"), 0);
    assert_int_equal(note(seen, RP_RULE_NVTX, "f", ""), 3);
    assert_int_equal(rp_seen_total(seen), 4);
    struct rp_seen_site site = rp_seen_site(seen, 1);
    assert_int_equal(site.source, RP_RULE_PYTHON);
    assert_string_equal(site.text, "f");
    assert_string_equal(site.where, "b.py");
    assert_string_equal(rp_seen_site(seen, 3).where, "");
    rp_seen_destroy(seen);
    rp_seen_destroy(NULL);
}

/* Where text ends and where begins is part of what is compared. */
static void parts_do_not_run_together(void **state)
{
    (void)state;
    struct rp_seen *seen = table();
    assert_int_equal(note(seen, RP_RULE_NVTX, "ab", "c"), 0);
    assert_int_equal(note(seen, RP_RULE_NVTX, "a", "bc"), 1);
    assert_int_equal(note(seen, RP_RULE_NVTX, "", "abc"), 2);
    assert_int_equal(note(seen, RP_RULE_NVTX, "abc", ""), 3);
    rp_seen_destroy(seen);
}

static void the_first_rules_count(void **state)
{
    (void)state;
    struct rp_seen *seen = table();
    static const struct rp_rule rules[3];
    rp_seen_note(seen, RP_RULE_NVTX, "forward l0", "", &rules[0], &rules[1], &rules[2]);
    rp_seen_note(seen, RP_RULE_NVTX, "forward l0", "", NULL, &rules[0], NULL);
    assert_ptr_equal(rp_seen_site(seen, 0).module_rule, &rules[0]);
    assert_ptr_equal(rp_seen_site(seen, 0).phase_rule, &rules[1]);
    assert_ptr_equal(rp_seen_site(seen, 0).step_rule, &rules[2]);
    rp_seen_destroy(seen);
}

static void collectives_are_counted(void **state)
{
    (void)state;
    struct rp_seen *seen = table();
    uint32_t first = note(seen, RP_RULE_PYTHON, "f", "a.py");
    uint32_t second = note(seen, RP_RULE_PYTHON, "g", "a.py");
    rp_seen_count(seen, second);
    rp_seen_count(seen, second);
    rp_seen_count(seen, RP_SEEN_NONE);
    assert_int_equal(rp_seen_collectives(seen, first), 0);
    assert_int_equal(rp_seen_collectives(seen, second), 2);
    rp_seen_destroy(seen);
}

static void long_texts_are_cut(void **state)
{
    (void)state;
    struct rp_seen *seen = table();
    char *text = calloc(1, RP_SEEN_TEXT_MAX + 3);
    assert_non_null(text);
    memset(text, 'x', RP_SEEN_TEXT_MAX + 2);
    assert_int_equal(note(seen, RP_RULE_NATIVE, text, text), 0);
    text[RP_SEEN_TEXT_MAX] = '\0';
    assert_int_equal(note(seen, RP_RULE_NATIVE, text, text), 0);
    assert_string_equal(rp_seen_site(seen, 0).text, text);
    assert_string_equal(rp_seen_site(seen, 0).where, text);
    text[RP_SEEN_TEXT_MAX - 1] = '\0';
    assert_int_equal(note(seen, RP_RULE_NATIVE, text, text), 1);
    free(text);
    rp_seen_destroy(seen);
}

/* As of a program that makes up a text for each step. */
static void the_table_is_bounded(void **state)
{
    (void)state;
    struct rp_seen *seen = table();
    char text[32];
    for (uint32_t i = 0; i <= RP_SEEN_MAX; i++) {
        snprintf(text, sizeof(text), "step %u", (unsigned)i);
        if (note(seen, RP_RULE_NVTX, text, "") != (i < RP_SEEN_MAX ? i : RP_SEEN_NONE))
            fail_msg("text %u", (unsigned)i);
    }
    assert_int_equal(rp_seen_total(seen), RP_SEEN_MAX);
    assert_int_equal(note(seen, RP_RULE_NVTX, "step 7", ""), 7);
    rp_seen_destroy(seen);
}

static void a_fork_keeps_the_table(void **state)
{
    (void)state;
    struct rp_seen *seen = table();
    rp_seen_count(seen, note(seen, RP_RULE_NVTX, "a", ""));
    rp_seen_forked(seen);
    assert_int_equal(rp_seen_collectives(seen, 0), 0);
    assert_int_equal(note(seen, RP_RULE_NVTX, "a", ""), 0);
    assert_int_equal(note(seen, RP_RULE_NVTX, "b", ""), 1);
    rp_seen_destroy(seen);
}

enum { THREADS = 4, NAMES = 300 };

struct worker {
    pthread_t thread;
    struct rp_seen *seen;
    unsigned first;
    int wrong;
};

/* Notes all texts, each worker beginning elsewhere, and reads back what it got while others add. */
static void *work(void *argument)
{
    struct worker *worker = argument;
    for (unsigned i = 0; i < NAMES; i++) {
        char text[32];
        snprintf(text, sizeof(text), "block.%u", (worker->first + i) % NAMES);
        uint32_t number = note(worker->seen, RP_RULE_NVTX, text, "");
        rp_seen_count(worker->seen, number);
        worker->wrong += number >= NAMES || strcmp(rp_seen_site(worker->seen, number).text, text) != 0;
    }
    return NULL;
}

static void threads_agree_on_numbers(void **state)
{
    (void)state;
    static struct worker workers[THREADS];
    struct rp_seen *seen = table();
    for (unsigned i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.seen = seen, .first = i * NAMES / THREADS};
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(workers[i].thread, NULL);
        assert_int_equal(workers[i].wrong, 0);
    }
    assert_int_equal(rp_seen_total(seen), NAMES);
    for (uint32_t i = 0; i < NAMES; i++)
        assert_int_equal(rp_seen_collectives(seen, i), THREADS);
    rp_seen_destroy(seen);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_is_kept_once),      cmocka_unit_test(parts_do_not_run_together),
        cmocka_unit_test(the_first_rules_count),  cmocka_unit_test(collectives_are_counted),
        cmocka_unit_test(long_texts_are_cut),     cmocka_unit_test(the_table_is_bounded),
        cmocka_unit_test(a_fork_keeps_the_table), cmocka_unit_test(threads_agree_on_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
