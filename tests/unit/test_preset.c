/* link: shim: preset.c job.c */
/* Which communicator of a recorded run one of this run is, what is taken from it, and what is said if there is none. */
#include "shim/preset.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/unit/scratch.h"
#include "tests/unit/trace_file.h"

#define CALLS 6u

static struct scratch scratch;
static struct rp_modules *modules;

static int setup(void **state)
{
    (void)state;
    scratch_make(&scratch);
    assert_int_equal(rp_modules_create(&modules), RP_OK);
    rp_module_intern(modules, "another", 7); /* numbers here are not those of the trace */
    rp_preset_forked();
    rp_preset_configure(scratch.path, modules);
    setenv("RANK", "1", 1);
    setenv("WORLD_SIZE", "4", 1);
    return 0;
}

static struct rp_trace_comm comm_of(uint32_t number, int nranks, int rank, enum rp_comm_origin origin)
{
    return (struct rp_trace_comm){
        .number = number, .nranks = nranks, .rank = rank, .parent = RP_NO_COMM, .key = 1000 + number, .origin = origin};
}

/* Gathers with their fingerprints; a call of an odd communicator at `unknown` has none. */
static void put_calls(struct rp_trace_writer *writer, uint32_t comm, enum rp_op_kind kind, uint64_t unknown)
{
    for (uint64_t i = 0; i < CALLS; i++) {
        const uint64_t value[2] = {100 * comm + i, 7};
        struct rp_op op = {.type = 2,
                           .kind = (uint8_t)kind,
                           .dtype = RP_DTYPE_BFLOAT16,
                           .redop = RP_REDOP_NONE,
                           .phase = RP_PHASE_BACKWARD,
                           .flags = RP_OP_FINGERPRINTED,
                           .root = -1,
                           .comm = comm,
                           .position = i,
                           .begin = 10 + 100 * comm + i,
                           .count = 64,
                           .module = 1};
        assert_int_equal(rp_trace_put_op(writer, 1, &op), RP_OK);
        if (i != unknown)
            assert_int_equal(rp_trace_put_fingerprint(writer, comm, i, value), RP_OK);
    }
}

/* Rank 1 of a run of 4: two communicators that look alike, one split, one with reductions alone. */
static void record(uint64_t unknown)
{
    struct rp_trace_identity identity = {.rank = 1, .nranks = 4, .start_ticks = 1, .ticks_per_second = 1000};
    struct rp_trace_writer *writer = NULL;

    assert_int_equal(trace_file_create(scratch.path, &identity, &writer), RP_OK);
    assert_int_equal(rp_trace_put_module(writer, 1, "layers.0"), RP_OK);
    for (uint32_t number = 0; number < 4; number++) {
        struct rp_trace_comm comm = comm_of(number, number == 3 ? 2 : 4, 1, number == 2 ? RP_COMM_SPLIT : RP_COMM_INIT);
        assert_int_equal(rp_trace_put_comm(writer, &comm), RP_OK);
        put_calls(writer, number, number == 3 ? RP_OP_ALL_REDUCE : RP_OP_ALL_GATHER, unknown);
    }
    assert_int_equal(rp_trace_finish(writer), RP_OK);
}

static struct rp_replay_options find(int nranks, int rank, enum rp_comm_origin origin)
{
    struct rp_replay_options options = {0};
    struct rp_trace_comm about = comm_of(77, nranks, rank, origin);
    rp_preset_find(&about, &options);
    return options;
}

/* The one without gathers is left in most tests. */
static int teardown(void **state)
{
    (void)state;
    free(find(2, 1, RP_COMM_INIT).preset);
    rp_preset_configure(NULL, NULL);
    rp_modules_destroy(modules);
    scratch_remove(&scratch);
    return 0;
}

static void assert_found(struct rp_replay_options options, uint64_t number)
{
    assert_non_null(options.preset);
    assert_int_equal(options.preset->key, 1000 + number);
    assert_int_equal(options.preset->count, CALLS);
    for (size_t i = 0; i < CALLS; i++) {
        const struct rp_preset_call *call = &options.preset->calls[i];
        assert_int_equal(call->content[0], 100 * number + i);
        assert_int_equal(call->content[1], 7);
        assert_int_equal(call->bytes, 128);
        assert_int_equal(call->kind, RP_OP_ALL_GATHER);
        assert_int_equal(call->name.event.phase, RP_PHASE_BACKWARD);
        assert_string_equal(rp_module_name(modules, call->name.event.module), "layers.0");
    }
    free(options.preset);
}

static void assert_lacks(struct rp_replay_options options, enum rp_preset_lack lack, const char *cause)
{
    assert_null(options.preset);
    assert_int_equal(options.preset_lack, lack);
    assert_non_null(options.preset_cause);
    assert_string_equal(options.preset_cause, cause);
}

static void alike_ones_are_found_in_their_order(void **state)
{
    (void)state;
    record(CALLS);
    assert_found(find(4, 1, RP_COMM_INIT), 0);
    assert_found(find(4, 1, RP_COMM_SPLIT), 2);
    assert_found(find(4, 1, RP_COMM_INIT), 1);
    assert_lacks(find(4, 1, RP_COMM_INIT), RP_PRESET_NO_COMM, "REPRISE_ORDER has no such communicator of 4 ranks");
}

static void others_are_not_found(void **state)
{
    (void)state;
    record(CALLS);
    assert_lacks(find(4, 0, RP_COMM_INIT), RP_PRESET_NO_COMM, "REPRISE_ORDER has no such communicator of 4 ranks");
    assert_lacks(find(2, 1, RP_COMM_SPLIT), RP_PRESET_NO_COMM, "REPRISE_ORDER has no such communicator of 2 ranks");
    assert_found(find(4, 1, RP_COMM_INIT), 0);
    assert_found(find(4, 1, RP_COMM_INIT), 1);
    assert_found(find(4, 1, RP_COMM_SPLIT), 2);
}

/* It is left alone in any case. */
static void without_gathers_nothing_is_said(void **state)
{
    (void)state;
    record(CALLS);
    assert_int_equal(find(2, 1, RP_COMM_INIT).preset_lack, RP_PRESET_SAID);
    assert_found(find(4, 1, RP_COMM_INIT), 0);
    assert_found(find(4, 1, RP_COMM_INIT), 1);
    assert_found(find(4, 1, RP_COMM_SPLIT), 2);
}

static void calls_end_where_a_content_is_not_known(void **state)
{
    (void)state;
    record(4);
    for (unsigned i = 0; i < 3; i++) {
        struct rp_replay_options options = find(4, 1, i == 2 ? RP_COMM_SPLIT : RP_COMM_INIT);
        assert_int_equal(options.preset->count, 4);
        free(options.preset);
    }
}

static void without_contents_there_is_none(void **state)
{
    (void)state;
    record(0);
    for (unsigned i = 0; i < 3; i++)
        assert_lacks(find(4, 1, i == 2 ? RP_COMM_SPLIT : RP_COMM_INIT), RP_PRESET_NO_CONTENT,
                     "REPRISE_ORDER has no calls with fingerprints of it");
}

/* What is wrong with all of it is told once. */
static void what_is_wrong_is_told_once(void **state)
{
    (void)state;
    record(CALLS);
    setenv("WORLD_SIZE", "8", 1);
    assert_lacks(find(8, 1, RP_COMM_INIT), RP_PRESET_NRANKS, "REPRISE_ORDER is of a run of 4 ranks, not 8");
    assert_int_equal(find(4, 1, RP_COMM_INIT).preset_lack, RP_PRESET_SAID);
    rp_preset_forked();
    setenv("RANK", "0", 1);
    char cause[200];
    snprintf(cause, sizeof cause, "rank-0.rpt of REPRISE_ORDER (%s): cannot be opened: No such file or directory",
             scratch.path);
    assert_lacks(find(8, 1, RP_COMM_INIT), RP_PRESET_NO_TRACE, cause);
    rp_preset_forked();
    rp_preset_configure("/nowhere/0123456789/0123456789/0123456789/0123456789/01", NULL);
    assert_lacks(find(8, 1, RP_COMM_INIT), RP_PRESET_NO_TRACE,
                 "rank-0.rpt of REPRISE_ORDER (...e/0123456789/0123456789/0123456789/0123456789/01): cannot be opened: "
                 "No such file or directory");
}

/* The first communicator says who this is. */
static void without_a_launcher(void **state)
{
    (void)state;
    record(CALLS);
    unsetenv("RANK");
    unsetenv("WORLD_SIZE");
    assert_found(find(4, 1, RP_COMM_INIT), 0);
    assert_found(find(4, 1, RP_COMM_INIT), 1);
    assert_found(find(4, 1, RP_COMM_SPLIT), 2);
}

static void not_asked_for_nothing_is_read(void **state)
{
    (void)state;
    record(CALLS);
    rp_preset_configure(NULL, modules);
    struct rp_replay_options options = find(4, 1, RP_COMM_INIT);
    assert_null(options.preset);
    assert_null(options.preset_cause);
    assert_int_equal(options.preset_lack, RP_PRESET_UNTOLD);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(alike_ones_are_found_in_their_order),
        TEST(others_are_not_found),
        TEST(without_gathers_nothing_is_said),
        TEST(calls_end_where_a_content_is_not_known),
        TEST(without_contents_there_is_none),
        TEST(what_is_wrong_is_told_once),
        TEST(without_a_launcher),
        TEST(not_asked_for_nothing_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
