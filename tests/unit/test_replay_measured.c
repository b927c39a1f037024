/*
 * What rank 0 makes of stamps: records of a lane by hand, some of them missing, late or of another stream.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/replay/replay_private.h"

static bool some_id(void *context, struct rp_replay_id *id_out)
{
    (void)context;
    memset(id_out, 1, sizeof(*id_out));
    return true;
}

/* A lane of one rank's records alone: gathers of `bytes`, one after the other. */
struct bench {
    struct rp_agree agree;
    struct rp_replay replay;
    struct rp_past past[64];
    struct rp_learned items[64];
    size_t count;
    uint64_t now;
};

static struct bench *bench_make(void)
{
    struct bench *bench = calloc(1, sizeof(*bench));
    assert_non_null(bench);
    bench->agree.nranks = 2;
    bench->replay.agree = &bench->agree;
    bench->replay.options.new_id = some_id;
    bench->replay.past = bench->past;
    bench->replay.past_count = 64;
    bench->now = 1000;
    return bench;
}

static void bench_gather(struct bench *bench, uint64_t content, uint64_t bytes, uint64_t gap, uint64_t transfer)
{
    struct rp_op op = {.kind = RP_OP_ALL_GATHER, .dtype = RP_DTYPE_UINT8, .root = -1, .count = bytes};
    size_t at = bench->count++;

    assert_true(at < 64);
    bench->items[at] = (struct rp_learned){
        .signature = rp_op_signature(&op), .bytes = bytes, .content = {content, 1}, .kind = (uint8_t)op.kind};
    bench->past[at].ns[RP_STAMP_BEGIN] = bench->now + gap;
    bench->past[at].ns[RP_STAMP_END] = bench->now += gap + transfer;
    bench->replay.next = bench->count;
}

static void bench_reduce(struct bench *bench)
{
    struct rp_op op = {.kind = RP_OP_REDUCE_SCATTER, .dtype = RP_DTYPE_UINT8, .root = -1, .count = 1 << 20};

    bench->items[bench->count++] =
        (struct rp_learned){.signature = rp_op_signature(&op), .bytes = 1 << 20, .kind = (uint8_t)op.kind};
    bench->replay.next = bench->count;
}

static struct rp_measured bench_measure(const struct bench *bench)
{
    struct rp_measured measured;
    assert_int_equal(rp_measured_make(&bench->replay, bench->items, 0, bench->count, &measured), RP_OK);
    return measured;
}

#define CYCLE 4u

/* Cycles of A B A and a reduction, A small; `wait`: of every second A, for another rank. */
static struct bench *bench_cycles(uint64_t wait)
{
    struct bench *bench = bench_make();

    for (uint64_t cycle = 0; cycle < 5; cycle++) {
        bench_gather(bench, 10 * cycle + 1, 128 << 10, 500, 2000 + 100);
        bench_gather(bench, 10 * cycle + 2, 32 << 20, 700, 2000 + 32 * 800 + (cycle % 2 == 0 ? wait : 0));
        bench_gather(bench, 10 * cycle + 1, 128 << 10, 900, 2000 + 100 + wait);
        bench_reduce(bench);
    }
    return bench;
}

/* The rate is that of the large ones, a latency is seen by the small ones, and waits of some are seen by neither. */
static void small_gathers_show_the_latency(void **state)
{
    (void)state;
    for (uint64_t wait = 0; wait <= 1000000; wait += 500000) {
        struct bench *bench = bench_cycles(wait);
        struct rp_measured measured = bench_measure(bench);
        assert_in_range(measured.link.ns_per_mib, 800, 863);
        assert_in_range(measured.link.latency_ns, 1990, 2000);
        free(measured.gap_ns);
        free(bench);
    }
}

/* A gather issued before the one in front of it has ended has no gap, and its time is not its own. */
static void overlap_is_no_time(void **state)
{
    (void)state;
    struct bench *bench = bench_cycles(0);
    for (size_t i = 1; i < bench->count; i += CYCLE)
        bench->past[i].ns[RP_STAMP_BEGIN] = bench->past[i - 1].ns[RP_STAMP_BEGIN];
    struct rp_measured measured = bench_measure(bench);
    size_t last = bench->count - CYCLE;
    assert_int_equal(measured.gap_ns[last], 500);
    assert_int_equal(measured.gap_ns[last + 1], 0);
    assert_int_equal(measured.gap_ns[last + 2], 900);
    assert_in_range(measured.link.ns_per_mib, 2100 * 8, 2100 * 8); /* the small ones are all there is */
    free(measured.gap_ns);
    free(bench);
}

/* A gap of which a stamp is missing comes from other cycles; missing in all, it is not known. */
static void missing_stamps_are_unknown(void **state)
{
    (void)state;
    struct bench *bench = bench_cycles(0);
    size_t last = bench->count - CYCLE;
    bench->past[last].ns[RP_STAMP_END] = 0;
    bench->past[last + 2].ns[RP_STAMP_BEGIN] = 0;
    struct rp_measured measured = bench_measure(bench);
    assert_int_equal(measured.gap_ns[last], 500);
    assert_int_equal(measured.gap_ns[last + 1], 700);
    assert_int_equal(measured.gap_ns[last + 2], 900);
    free(measured.gap_ns);

    for (size_t i = 0; i < bench->count; i += CYCLE)
        bench->past[i].ns[RP_STAMP_END] = 0;
    measured = bench_measure(bench);
    assert_int_equal(measured.gap_ns[last + 1], 0);
    assert_int_equal(measured.gap_ns[last + 2], 900);
    free(measured.gap_ns);

    for (size_t i = 0; i < bench->count; i++)
        bench->past[i].ns[RP_STAMP_END] = 0;
    measured = bench_measure(bench);
    assert_null(measured.gap_ns);
    assert_int_equal(measured.link.ns_per_mib + measured.link.latency_ns, 0);
    free(bench);
}

/* ---------------------------------------------------------------- on compute's clock */

/*
 * A host that runs ahead: the link goes from one gather to the next, and compute, whose place in time is `compute`,
 * comes later.
 */
static void bench_gather_waited(struct bench *bench, uint64_t *compute, uint64_t content, uint64_t gap)
{
    uint64_t *ns = bench->past[bench->count].ns;

    bench_gather(bench, content, 1 << 20, 0, 2000);
    ns[RP_STAMP_WAIT] = *compute + gap;
    ns[RP_STAMP_GO] = *compute = *compute + gap > bench->now ? *compute + gap : bench->now;
}

/* Compute waits for the reduction, on the link from `begin` on. */
static void bench_reduce_waited(struct bench *bench, uint64_t *compute, uint64_t gap)
{
    uint64_t *ns = bench->past[bench->count].ns;

    bench_reduce(bench);
    bench->now += 9000;
    ns[RP_STAMP_WAIT] = *compute += gap;
    ns[RP_STAMP_GO] = *compute = *compute > bench->now ? *compute : bench->now;
}

/* Cycles of A B A, a reduction, and 400 of compute behind the wait for it. */
static struct bench *bench_waits(void)
{
    struct bench *bench = bench_make();
    uint64_t compute = bench->now;

    for (uint64_t cycle = 0; cycle < 5; cycle++) {
        bench_gather_waited(bench, &compute, 10 * cycle + 1, 400);
        bench_gather_waited(bench, &compute, 10 * cycle + 2, 500);
        bench_gather_waited(bench, &compute, 10 * cycle + 1, 6000);
        bench_reduce_waited(bench, &compute, 300);
    }
    return bench;
}

static void assert_gaps(const struct bench *bench, uint64_t a, uint64_t b, uint64_t c)
{
    struct rp_measured measured = bench_measure(bench);
    size_t last = bench->count - CYCLE;

    assert_int_equal(measured.gap_ns[last], a);
    assert_int_equal(measured.gap_ns[last + 1], b);
    assert_int_equal(measured.gap_ns[last + 2], c);
    assert_int_equal(measured.gap_ns[last + 3], 0);
    free(measured.gap_ns);
}

/* Gaps are what was computed, however busy the link was, without what compute waited for the reduction. */
static void gaps_are_those_of_compute(void **state)
{
    (void)state;
    struct bench *bench = bench_waits();
    assert_gaps(bench, 700, 500, 6000);
    free(bench);
}

/* One that has no stamps of compute is as one that has, of its size, and like it behind a gather or not. */
static void a_gap_that_is_not_known_is_as_one_alike(void **state)
{
    (void)state;
    struct bench *bench = bench_waits();
    for (size_t i = 2; i < bench->count; i += CYCLE)
        bench->past[i].ns[RP_STAMP_WAIT] = 0;
    /* the one behind it, of the next cycle, is not known then either, and none is alike: a reduction is before it */
    assert_gaps(bench, 9000, 500, 500);
    free(bench);
}

/* A group is waited for by its last gather. */
static void a_group_is_waited_for_as_one(void **state)
{
    (void)state;
    struct bench *bench = bench_waits();
    for (size_t i = 0; i < bench->count; i += CYCLE) {
        bench->past[i].ns[RP_STAMP_WAIT] = bench->past[i].ns[RP_STAMP_GO] = 0;
        bench->past[i + 1].ns[RP_STAMP_BEGIN] = bench->past[i].ns[RP_STAMP_BEGIN];
        bench->past[i].ns[RP_STAMP_END] = bench->past[i + 1].ns[RP_STAMP_END];
    }
    struct rp_measured measured = bench_measure(bench);
    const uint64_t *second = bench->past[bench->count - CYCLE + 1].ns, *before = bench->past[bench->count - 5].ns;
    uint64_t reduction = before[RP_STAMP_GO] - before[RP_STAMP_WAIT];
    uint64_t third = bench->past[bench->count - 6].ns[RP_STAMP_GO];
    assert_int_equal(measured.gap_ns[bench->count - CYCLE], second[RP_STAMP_WAIT] - third - reduction);
    assert_int_equal(measured.gap_ns[bench->count - CYCLE + 1], 0);
    free(measured.gap_ns);
    free(bench);
}

/* Gathers on compute's own stream: who waits there waits for what was computed. */
static void a_late_wait_is_for_something_else(void **state)
{
    (void)state;
    struct bench *bench = bench_cycles(0);
    for (size_t i = 0; i < bench->count; i++) {
        uint64_t *ns = bench->past[i].ns;
        ns[RP_STAMP_WAIT] = ns[RP_STAMP_BEGIN];
        ns[RP_STAMP_GO] = ns[RP_STAMP_END] + 100000;
    }
    assert_gaps(bench, 500, 700, 900);
    free(bench);
}

/* What the table can't hold is said by what it can; the same on rank 0. */
static void long_gaps_saturate(void **state)
{
    (void)state;
    struct bench *bench = bench_make();
    for (uint64_t cycle = 0; cycle < 5; cycle++) {
        bench_gather(bench, 10 * cycle + 1, 1 << 20, UINT64_C(1) << 40, 2000);
        bench_gather(bench, 10 * cycle + 1, 1 << 20, 700, 2000);
        bench_reduce(bench);
    }
    struct rp_measured measured = bench_measure(bench);
    assert_int_equal(measured.gap_ns[bench->count - 3], UINT32_MAX);
    assert_int_equal(measured.gap_ns[bench->count - 2], 700);
    free(measured.gap_ns);
    free(bench);
}

/* Stamps of two streams that are behind one another: the clock goes back where they do, and all differences are true.
 */
static void the_clock_goes_back(void **state)
{
    (void)state;
    struct bench *bench = bench_make();
    struct rp_replay *replay = &bench->replay;
    replay->next = 3;
    rp_trial_stamp(replay, 0, RP_STAMP_BEGIN, 0);
    rp_trial_stamp(replay, 0, RP_STAMP_END, 1000);
    rp_trial_stamp(replay, 1, RP_STAMP_BEGIN, -400);
    rp_trial_stamp(replay, 1, RP_STAMP_END, 1500);
    rp_trial_stamp(replay, 2, RP_STAMP_BEGIN, 100);
    assert_int_equal(bench->past[0].ns[RP_STAMP_END] - bench->past[0].ns[RP_STAMP_BEGIN], 1000);
    assert_int_equal(bench->past[1].ns[RP_STAMP_BEGIN] - bench->past[0].ns[RP_STAMP_BEGIN], 600);
    assert_int_equal(bench->past[1].ns[RP_STAMP_END] - bench->past[1].ns[RP_STAMP_BEGIN], 1500);
    assert_int_equal(bench->past[2].ns[RP_STAMP_BEGIN] - bench->past[0].ns[RP_STAMP_BEGIN], 2200);
    assert_int_equal(bench->past[2].ns[RP_STAMP_END], 0);
    free(bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_gathers_show_the_latency),
        cmocka_unit_test(overlap_is_no_time),
        cmocka_unit_test(missing_stamps_are_unknown),
        cmocka_unit_test(gaps_are_those_of_compute),
        cmocka_unit_test(a_gap_that_is_not_known_is_as_one_alike),
        cmocka_unit_test(a_group_is_waited_for_as_one),
        cmocka_unit_test(a_late_wait_is_for_something_else),
        cmocka_unit_test(long_gaps_saturate),
        cmocka_unit_test(the_clock_goes_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
