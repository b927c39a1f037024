/* Learning data: what ranks share of their gathers, how far, and what it is worth when one is ahead or starts again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/replay/learn.h"
#include "plan_world.h"

#define RANKS 3u

struct rank {
    struct rp_agree agree;
    struct rp_learn *learn;
};

struct job {
    void *shared, *table;
    struct rank ranks[RANKS];
};

static struct job *job_make(void)
{
    struct job *job = calloc(1, sizeof(*job));
    assert_non_null(job);
    job->shared = aligned_alloc(64, (rp_agree_bytes(RANKS) + 63) / 64 * 64);
    job->table = aligned_alloc(64, rp_learn_bytes(RANKS));
    assert_non_null(job->shared);
    assert_non_null(job->table);
    memset(job->shared, 0, rp_agree_bytes(RANKS));
    memset(job->table, 0, rp_learn_bytes(RANKS));
    for (uint32_t i = 0; i < RANKS; i++) {
        assert_int_equal(rp_agree_join(&job->ranks[i].agree, job->shared, RANKS, 1, 100 + i), RP_OK);
        assert_int_equal(rp_learn_create(job->table, RANKS, i, &job->ranks[i].learn), RP_OK);
    }
    for (uint32_t i = 0; i < RANKS; i++)
        assert_int_equal(rp_agree_complete(&job->ranks[i].agree, RANKS, i), RP_OK);
    return job;
}

static void job_free(struct job *job)
{
    for (uint32_t i = 0; i < RANKS; i++)
        rp_learn_destroy(job->ranks[i].learn);
    free(job->shared);
    free(job->table);
    free(job);
}

static void see(struct rank *rank, uint64_t position, enum rp_op_kind kind)
{
    struct rp_op op = {.kind = (uint8_t)kind, .dtype = RP_DTYPE_UINT8, .root = -1, .count = 64, .position = position};
    rp_learn_see(rank->learn, &op, 0);
}

static void see_gather(struct rank *rank, uint64_t position)
{
    see(rank, position, RP_OP_ALL_GATHER);
}

static void know(struct rank *rank, uint64_t position, uint64_t low, uint64_t high)
{
    const uint64_t value[2] = {low, high};
    rp_learn_fingerprint(rank->learn, &rank->agree, position, value);
}

static void gather(struct rank *rank, uint64_t position, uint64_t content)
{
    see_gather(rank, position);
    know(rank, position, content, ~content);
}

static uint64_t published(const struct rank *rank)
{
    return rp_agree_least_published(&rank->agree);
}

static struct rp_learned read_one(const struct rank *rank, uint64_t position)
{
    struct rp_learned item;
    assert_int_equal(rp_learn_read(rank->learn, &rank->agree, position, position + 1, &item), RP_OK);
    return item;
}

static enum rp_status try_read(const struct rank *rank, uint64_t from, uint64_t to)
{
    static struct rp_learned items[16384];
    return rp_learn_read(rank->learn, &rank->agree, from, to, items);
}

static void expect_range(const struct rank *rank, uint64_t from, uint64_t to)
{
    uint64_t begin, end;
    rp_learn_range(rank->learn, &rank->agree, &begin, &end);
    assert_int_equal(begin, from);
    assert_int_equal(end, to);
}

/* ---------------------------------------------------------------- the table */

static void the_table_is_bounded(void **state)
{
    (void)state;
    struct rp_learn *learn = NULL;
    for (uint32_t nranks = 1; nranks <= RP_AGREE_RANKS; nranks++) {
        size_t positions = rp_learn_positions(nranks);
        assert_true(positions >= 512 && positions <= 16384 && (positions & (positions - 1)) == 0);
        assert_true(rp_learn_bytes(nranks) >= positions * nranks * 24);
        assert_true(rp_learn_bytes(nranks) <= (6u << 20) + 4 * positions + 128 + 4096);
    }
    assert_int_equal(rp_learn_positions(16), 16384);
    assert_int_equal(rp_learn_positions(0), 0);
    assert_int_equal(rp_learn_positions(RP_AGREE_RANKS + 1), 0);
    assert_int_equal(rp_learn_bytes(RP_AGREE_RANKS + 1), 0);
    assert_int_equal(rp_learn_create(NULL, RP_AGREE_RANKS + 1, 0, &learn), RP_UNSUPPORTED);
    assert_int_equal(rp_learn_create(NULL, 2, 2, &learn), RP_INVALID);
}

/* ---------------------------------------------------------------- times */

/* All ranks read what rank 0 has written, over the table's end, and contents beside them stay. */
static void times_are_for_all_ranks(void **state)
{
    (void)state;
    enum { COUNT = 6 };
    static const uint64_t written[COUNT] = {1, 0, 5000, UINT32_MAX, UINT64_C(1) << 40, 7};
    static const uint64_t expected[COUNT] = {1, 0, 5000, UINT32_MAX, UINT32_MAX, 7};
    struct job *job = job_make();
    uint64_t from = rp_learn_positions(RANKS) - 3, seen[COUNT];
    for (uint32_t i = 0; i < RANKS; i++)
        gather(&job->ranks[i], from, 9);
    struct rp_learned before = read_one(&job->ranks[1], from);
    rp_learn_set_gaps(job->ranks[0].learn, from, from + COUNT, written);
    for (uint32_t i = 0; i < RANKS; i++) {
        rp_learn_gaps(job->ranks[i].learn, from, from + COUNT, seen);
        assert_memory_equal(seen, expected, sizeof(seen));
    }
    assert_memory_equal(read_one(&job->ranks[1], from).content, before.content, sizeof(before.content));
    job_free(job);
}

static void without_a_table_no_times(void **state)
{
    (void)state;
    struct rp_learn *learn;
    uint64_t seen[2] = {4, 4};
    assert_int_equal(rp_learn_create(NULL, RANKS, 0, &learn), RP_OK);
    rp_learn_set_gaps(learn, 0, 2, seen);
    rp_learn_gaps(learn, 0, 2, seen);
    assert_int_equal(seen[0] + seen[1], 0);
    rp_learn_destroy(learn);
}

/* ---------------------------------------------------------------- contents */

static void gather_everywhere(struct job *job, uint64_t position, const uint64_t contents[RANKS])
{
    for (uint32_t i = 0; i < RANKS; i++)
        gather(&job->ranks[i], position, contents[i]);
}

static bool equal_at(const struct job *job, uint64_t a, uint64_t b)
{
    struct rp_learned left = read_one(&job->ranks[0], a), right = read_one(&job->ranks[0], b);
    return memcmp(left.content, right.content, sizeof(left.content)) == 0;
}

static void a_content_repeats_if_all_ranks_repeat(void **state)
{
    (void)state;
    static const uint64_t contents[][RANKS] = {
        {1, 2, 3}, {1, 2, 3},            /* the same */
        {1, 2, 4}, {9, 2, 3},            /* one rank alone */
        {2, 1, 3}, {3, 1, 2}, {1, 3, 2}, /* exchanged */
        {7, 7, 3}, {8, 8, 3}, {7, 8, 3}, /* equal shards, changing alike */
        {0, 0, 0}, {1, 1, 1}, {5, 5, 5}, /* all equal */
    };
    size_t count = sizeof(contents) / sizeof(contents[0]);
    struct job *job = job_make();
    for (size_t i = 0; i < count; i++)
        gather_everywhere(job, i, contents[i]);
    for (size_t a = 0; a < count; a++) {
        for (size_t b = a + 1; b < count; b++)
            assert_int_equal(equal_at(job, a, b), a == 0 && b == 1);
    }
    job_free(job);
}

static void both_words_count(void **state)
{
    (void)state;
    struct job *job = job_make();
    static const uint64_t values[][2] = {{1, 2}, {1, 3}, {4, 2}, {2, 1}, {1, 2}};
    for (uint64_t position = 0; position < 5; position++) {
        for (uint32_t i = 0; i < RANKS; i++) {
            see_gather(&job->ranks[i], position);
            know(&job->ranks[i], position, values[position][0], values[position][1]);
        }
    }
    for (uint64_t a = 0; a < 5; a++) {
        for (uint64_t b = a + 1; b < 5; b++)
            assert_int_equal(equal_at(job, a, b), a == 0 && b == 4);
    }
    job_free(job);
}

static void all_ranks_read_the_same(void **state)
{
    (void)state;
    struct job *job = job_make();
    for (uint64_t position = 0; position < 50; position++) {
        const uint64_t contents[RANKS] = {position, position / 2, position / 3};
        gather_everywhere(job, position, contents);
    }
    struct rp_learned items[RANKS][50];
    memset(items, 0, sizeof(items));
    for (uint32_t i = 0; i < RANKS; i++) {
        assert_int_equal(rp_learn_read(job->ranks[i].learn, &job->ranks[i].agree, 0, 50, items[i]), RP_OK);
        for (size_t k = 0; k < 50; k++) {
            assert_memory_equal(items[i][k].content, items[0][k].content, sizeof(items[0][k].content));
            assert_true(items[i][k].signature == items[0][k].signature && items[i][k].bytes == 64);
        }
    }
    job_free(job);
}

/* Where gathers are sent from is known if every rank says so, and changes if any rank's does. */
static void where_all_send_from(void **state)
{
    (void)state;
    static const uint64_t from[][RANKS] = {{7, 8, 9}, {7, 8, 9}, {7, 7, 9}, {8, 7, 9}, {7, 0, 9}, {0, 0, 0}};
    const size_t count = sizeof(from) / sizeof(from[0]);
    struct rp_learned items[sizeof(from) / sizeof(from[0])];
    struct job *job = job_make();

    for (uint64_t position = 0; position < count; position++) {
        for (uint32_t i = 0; i < RANKS; i++) {
            struct rp_op op = {.kind = RP_OP_ALL_GATHER, .dtype = RP_DTYPE_UINT8, .count = 64, .position = position};
            rp_learn_see(job->ranks[i].learn, &op, from[position][i]);
            know(&job->ranks[i], position, 1, 2);
        }
    }
    assert_int_equal(rp_learn_read(job->ranks[0].learn, &job->ranks[0].agree, 0, count, items), RP_OK);
    assert_true(items[0].send != 0 && items[0].send == items[1].send);
    assert_true(items[2].send != 0 && items[2].send != items[1].send);
    assert_true(items[3].send != 0 && items[3].send != items[1].send && items[3].send != items[2].send);
    assert_true(items[4].send == 0 && items[5].send == 0);
    job_free(job);
}

static void what_is_no_gather_has_no_content(void **state)
{
    (void)state;
    struct job *job = job_make();
    for (uint32_t i = 0; i < RANKS; i++) {
        see(&job->ranks[i], 0, RP_OP_REDUCE_SCATTER);
        gather(&job->ranks[i], 1, 5);
    }
    struct rp_learned item = read_one(&job->ranks[1], 0);
    assert_int_equal(item.kind, RP_OP_REDUCE_SCATTER);
    assert_true(item.content[0] == 0 && item.content[1] == 0);
    item = read_one(&job->ranks[1], 1);
    assert_int_equal(item.kind, RP_OP_ALL_GATHER);
    assert_true(item.content[0] != 0 && item.content[1] != 0);
    job_free(job);
}

/* ---------------------------------------------------------------- what is due, what is published */

static void fingerprints_come_in_order(void **state)
{
    (void)state;
    struct job *job = job_make();
    struct rank *rank = &job->ranks[0];
    uint64_t due = 99;
    for (uint32_t i = 1; i < RANKS; i++)
        rp_agree_set_published(&job->ranks[i].agree, 1000);
    assert_false(rp_learn_due(rank->learn, &due));
    see(rank, 0, RP_OP_ALL_REDUCE);
    assert_false(rp_learn_due(rank->learn, &due));
    see_gather(rank, 1);
    see(rank, 2, RP_OP_REDUCE_SCATTER);
    see_gather(rank, 3);
    see(rank, 4, RP_OP_ALL_REDUCE);
    assert_true(rp_learn_due(rank->learn, &due));
    assert_int_equal(due, 1);
    assert_int_equal(published(rank), 0);
    know(rank, 3, 1, 1); /* not its turn */
    know(rank, 0, 1, 1); /* no gather */
    assert_int_equal(published(rank), 0);
    know(rank, 1, 1, 1);
    assert_int_equal(published(rank), 3);
    assert_true(rp_learn_due(rank->learn, &due));
    assert_int_equal(due, 3);
    know(rank, 3, 2, 2);
    assert_int_equal(published(rank), 5); /* what has no content is behind it */
    assert_false(rp_learn_due(rank->learn, &due));
    know(rank, 3, 3, 3);
    assert_int_equal(published(rank), 5);
    job_free(job);
}

static void only_what_all_have_published_is_read(void **state)
{
    (void)state;
    struct job *job = job_make();
    expect_range(&job->ranks[0], 0, 0);
    for (uint64_t position = 10; position < 20; position++) { /* learning need not begin at 0 */
        gather(&job->ranks[0], position, 1);
        gather(&job->ranks[1], position, 1);
    }
    expect_range(&job->ranks[0], 10, 10);
    assert_int_equal(try_read(&job->ranks[0], 10, 11), RP_NOT_FOUND);
    gather(&job->ranks[2], 10, 1);
    gather(&job->ranks[2], 11, 1);
    expect_range(&job->ranks[0], 10, 12);
    expect_range(&job->ranks[2], 10, 12);
    assert_int_equal(try_read(&job->ranks[0], 10, 12), RP_OK);
    assert_int_equal(try_read(&job->ranks[0], 10, 13), RP_NOT_FOUND);
    assert_int_equal(try_read(&job->ranks[0], 9, 12), RP_NOT_FOUND);
    assert_int_equal(try_read(&job->ranks[0], 12, 11), RP_NOT_FOUND);
    assert_int_equal(try_read(&job->ranks[0], 12, 12), RP_OK);
    job_free(job);
}

/* ---------------------------------------------------------------- ahead, overrun, again */

static void what_a_rank_ahead_has_overwritten_is_not_read(void **state)
{
    (void)state;
    struct job *job = job_make();
    uint64_t positions = rp_learn_positions(RANKS);
    for (uint64_t position = 0; position < 100; position++) {
        for (uint32_t i = 0; i < RANKS; i++)
            gather(&job->ranks[i], position, position);
    }
    for (uint64_t position = 100; position < positions; position++)
        gather(&job->ranks[2], position, position);
    /* It has published up to `positions`: the next that it writes is in the place of 0, and may be half there. */
    expect_range(&job->ranks[0], 1, 100);
    assert_int_equal(try_read(&job->ranks[0], 0, 100), RP_NOT_FOUND);
    assert_int_equal(try_read(&job->ranks[0], 1, 100), RP_OK);
    for (uint64_t position = positions; position < positions + 40; position++)
        gather(&job->ranks[2], position, position);
    expect_range(&job->ranks[0], 41, 100);
    assert_int_equal(try_read(&job->ranks[0], 40, 100), RP_NOT_FOUND);
    assert_int_equal(try_read(&job->ranks[0], 41, 100), RP_OK);
    /* The others come after: the same places serve again. */
    for (uint64_t position = 100; position < positions + 40; position++) {
        gather(&job->ranks[0], position, position);
        gather(&job->ranks[1], position, position);
    }
    expect_range(&job->ranks[0], 41, positions + 40);
    assert_int_equal(try_read(&job->ranks[0], 41, positions + 40), RP_OK);
    job_free(job);
}

static void a_restart_counts_for_all(void **state)
{
    (void)state;
    struct job *job = job_make();
    uint64_t due;
    for (uint64_t position = 0; position < 30; position++) {
        gather(&job->ranks[0], position, position);
        gather(&job->ranks[2], position, position);
        see_gather(&job->ranks[1], position); /* ranks[1] loses the fingerprints from 20 on */
        if (position < 20)
            know(&job->ranks[1], position, position, ~position);
    }
    expect_range(&job->ranks[0], 0, 20);
    rp_learn_restart(job->ranks[1].learn);
    assert_false(rp_learn_due(job->ranks[1].learn, &due));
    know(&job->ranks[1], 20, 20, ~20ull); /* comes too late */
    expect_range(&job->ranks[0], 0, 20);
    for (uint64_t position = 30; position < 40; position++) {
        for (uint32_t i = 0; i < RANKS; i++)
            gather(&job->ranks[i], position, position);
    }
    /* Nobody takes what ranks[1] never wrote for its contents. */
    for (uint32_t i = 0; i < RANKS; i++) {
        expect_range(&job->ranks[i], 30, 40);
        assert_int_equal(try_read(&job->ranks[i], 29, 40), RP_NOT_FOUND);
        assert_int_equal(try_read(&job->ranks[i], 30, 40), RP_OK);
    }
    job_free(job);
}

static void a_gap_is_a_restart(void **state)
{
    (void)state;
    struct job *job = job_make();
    uint64_t due = 0;
    for (uint32_t i = 0; i < RANKS; i++) {
        gather(&job->ranks[i], 5, 1);
        see_gather(&job->ranks[i], 6);
        see_gather(&job->ranks[i], 8);
        assert_true(rp_learn_due(job->ranks[i].learn, &due));
        assert_int_equal(due, 8);
        know(&job->ranks[i], 8, 1, 1);
    }
    expect_range(&job->ranks[0], 8, 9);
    job_free(job);
}

static void fingerprints_that_never_come_do_not_grow(void **state)
{
    (void)state;
    struct job *job = job_make();
    struct rank *rank = &job->ranks[0];
    uint64_t positions = rp_learn_positions(RANKS), due = 0;
    for (uint64_t position = 0; position < positions; position++)
        see_gather(rank, position);
    assert_true(rp_learn_due(rank->learn, &due));
    assert_int_equal(due, 0);
    see_gather(rank, positions);
    assert_true(rp_learn_due(rank->learn, &due));
    assert_int_equal(due, positions);
    job_free(job);
}

/* ---------------------------------------------------------------- repeats */

static void repeats_are_counted(void **state)
{
    (void)state;
    uint64_t gathers, repeats;
    struct job *job = job_make();
    struct rp_learn *alone = NULL;
    struct rank *rank = &job->ranks[1];
    for (uint64_t position = 0; position < 100; position++)
        gather(rank, position, position);
    rp_learn_repeats(rank->learn, &gathers, &repeats);
    assert_true(gathers == 100 && repeats == 0);
    for (uint64_t position = 100; position < 130; position++)
        gather(rank, position, position - 50);
    see_gather(rank, 130); /* not known */
    rp_learn_repeats(rank->learn, &gathers, &repeats);
    assert_true(gathers == 130 && repeats == 30);
    rp_learn_restart(rank->learn);
    rp_learn_repeats(rank->learn, &gathers, &repeats);
    assert_true(gathers == 0 && repeats == 0);

    /* Without a table too; nothing is published then. */
    struct rp_agree agree = job->ranks[0].agree;
    assert_int_equal(rp_learn_create(NULL, RANKS, 0, &alone), RP_OK);
    struct rank other = {.agree = agree, .learn = alone};
    gather(&other, 0, 1);
    gather(&other, 1, 1);
    rp_learn_repeats(alone, &gathers, &repeats);
    assert_true(gathers == 2 && repeats == 1);
    assert_int_equal(rp_agree_largest_published(&agree), 130);
    expect_range(&other, 0, 0);
    rp_learn_destroy(alone);
    job_free(job);
}

/* ---------------------------------------------------------------- to a plan */

/* Every rank feeds its own shards; all compile the same plan from what they read. */
static void ranks_compile_the_same_plan(void **state)
{
    (void)state;
    const struct model model = {.layers = 6, .microbatches = 2, .frozen = 1};
    struct lane *lane = lane_make(), *read = lane_make();
    struct job *job = job_make();
    uint64_t hashes[RANKS] = {0};
    steps(lane, &model, 4);
    for (uint64_t position = 0; position < lane->count; position++) {
        const struct rp_learned *item = &lane->items[position];
        for (uint32_t i = 0; i < RANKS; i++) {
            struct rp_op op = {
                .kind = item->kind, .dtype = RP_DTYPE_UINT8, .root = -1, .count = item->bytes, .position = position};
            rp_learn_see(job->ranks[i].learn, &op, 0);
            if (item->kind == RP_OP_ALL_GATHER) /* some ranks have the same shard of every layer */
                know(&job->ranks[i], position, i == 0 ? item->content[0] : 77, item->content[1]);
        }
    }
    uint64_t from, to;
    rp_learn_range(job->ranks[0].learn, &job->ranks[0].agree, &from, &to);
    assert_true(from == 0 && to < lane->count && lane->items[to].kind != RP_OP_ALL_GATHER); /* up to the last gather */
    for (uint32_t i = 0; i < RANKS; i++) {
        struct rp_plan plan = {0};
        assert_int_equal(rp_learn_read(job->ranks[i].learn, &job->ranks[i].agree, from, to, read->items), RP_OK);
        assert_int_equal(rp_plan_compile(read->items, to, RANKS, UINT64_MAX, 1, &plan), RP_OK);
        assert_int_equal(plan.count, 42);
        assert_int_equal(plan.unit_count, 7);
        hashes[i] = plan.hash;
        rp_plan_free(&plan);
    }
    assert_true(hashes[0] == hashes[1] && hashes[1] == hashes[2]);
    job_free(job);
    free(lane);
    free(read);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_table_is_bounded),
        cmocka_unit_test(times_are_for_all_ranks),
        cmocka_unit_test(without_a_table_no_times),
        cmocka_unit_test(a_content_repeats_if_all_ranks_repeat),
        cmocka_unit_test(both_words_count),
        cmocka_unit_test(all_ranks_read_the_same),
        cmocka_unit_test(where_all_send_from),
        cmocka_unit_test(what_is_no_gather_has_no_content),
        cmocka_unit_test(fingerprints_come_in_order),
        cmocka_unit_test(only_what_all_have_published_is_read),
        cmocka_unit_test(what_a_rank_ahead_has_overwritten_is_not_read),
        cmocka_unit_test(a_restart_counts_for_all),
        cmocka_unit_test(a_gap_is_a_restart),
        cmocka_unit_test(fingerprints_that_never_come_do_not_grow),
        cmocka_unit_test(repeats_are_counted),
        cmocka_unit_test(ranks_compile_the_same_plan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
