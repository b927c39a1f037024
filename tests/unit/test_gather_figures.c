/* link: shim: gather_figures.c */
/* The line at the exit: programs read its first four numbers, people the rest. */
#include "shim/gather_figures.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/unit/scratch.h"

static struct scratch scratch;

static int setup(void **state)
{
    (void)state;
    scratch_make(&scratch);
    rp_log_set_rank(0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    scratch_remove(&scratch);
    return 0;
}

/* The last line of the log. */
static void said(const struct rp_replay_figures *total, const char *expected)
{
    char line[400];
    rp_figures_say(total);
    char *text = scratch_read(scratch.log, NULL);
    snprintf(line, sizeof line, "info replay: rank 0: %s\n", expected);
    size_t length = strlen(line), all = strlen(text);
    if (all < length || strcmp(text + all - length, line) != 0)
        fail_msg("no '%s' at the end of:\n%s", line, text);
    free(text);
}

/* Two communicators: counts add up, and the cycle is that of the one that keeps more, whichever comes first. */
static void figures_add_up(void **state)
{
    static const struct rp_replay_figures large = {.hits = 100,
                                                   .misses = 2,
                                                   .withdrawn = 1,
                                                   .ahead = 60,
                                                   .packed = 70,
                                                   .bytes_kept = 3072,
                                                   .plain_cycle_ns = 67600000,
                                                   .replay_cycle_ns = 41600000},
                                          small = {.hits = 20,
                                                   .misses = 3,
                                                   .withdrawn = 4,
                                                   .ahead = 5,
                                                   .packed = 1,
                                                   .bytes_kept = 1024,
                                                   .plain_cycle_ns = 1000000,
                                                   .replay_cycle_ns = 2000000};
    (void)state;
    for (int large_first = 0; large_first < 2; large_first++) {
        struct rp_replay_figures total = {0};
        rp_figures_add(&total, large_first ? &large : &small);
        rp_figures_add(&total, large_first ? &small : &large);
        said(&total,
             "120 hits, 5 repaired, 5 withdrawn, 65 of the hits prefetched, 71 packed, 4.0 KiB not sent, a cycle "
             "67.6 ms before, 41.6 ms after");
    }
}

static void what_is_not_known_is_left_out(void **state)
{
    (void)state;
    struct rp_replay_figures figures = {0};
    said(&figures, "0 hits, 0 repaired, 0 withdrawn, 0 of the hits prefetched, 0 B not sent");
    figures.replay_cycle_ns = 1500000;
    said(&figures, "0 hits, 0 repaired, 0 withdrawn, 0 of the hits prefetched, 0 B not sent, a cycle 1.5 ms");
}

/* The largest numbers there are: the text of a state in a trace holds them. */
static void a_line_is_bounded(void **state)
{
    (void)state;
    struct rp_replay_figures figures = {.hits = UINT64_MAX,
                                        .misses = UINT64_MAX,
                                        .withdrawn = UINT64_MAX,
                                        .ahead = UINT64_MAX,
                                        .packed = UINT64_MAX,
                                        .bytes_kept = UINT64_MAX};
    said(&figures, "18446744073709551615 hits, 18446744073709551615 repaired, 18446744073709551615 withdrawn, "
                   "18446744073709551615 of the hits prefetched, 18446744073709551615 packed, 16.0 EiB not sent");
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(figures_add_up, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_not_known_is_left_out, setup, teardown),
        cmocka_unit_test_setup_teardown(a_line_is_bounded, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
