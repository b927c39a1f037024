/* The list of the first differences, and runs of a size at which what is not linear takes minutes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/unit/diff_world.h"

enum { MANY = 100000 };

static struct rp_diff make_diff(struct rp_trace **left, struct rp_trace **right, size_t ranks, size_t top)
{
    const struct rp_diff_options options = {.end_step = RP_DIFF_ALL_STEPS, .top = top};
    struct rp_diff diff;
    assert_int_equal(rp_diff_create(&options, &diff), RP_OK);
    for (size_t i = 0; i < ranks; i++)
        add_rank(&diff, left[i], right[i]);
    assert_int_equal(rp_diff_finish(&diff), RP_OK);
    return diff;
}

static bool is_in_order(const struct rp_diff_point *a, const struct rp_diff_point *b)
{
    if (a->step != b->step)
        return a->step < b->step;
    if (a->place != b->place)
        return a->place < b->place;
    return a->rank != b->rank ? a->rank < b->rank : a->right.index < b->right.index;
}

/* On two ranks gathers that changed, came in and went away, early and late: each rank is in front at some places. */
static void change_ranks(struct rp_trace **left, struct rp_trace **right)
{
    for (int rank = 0; rank < 2; rank++) {
        left[rank] = make_run(rank, STEPS, LAYERS);
        right[rank] = make_run(rank, STEPS, LAYERS);
        for (int step = 0; step < STEPS; step++)
            right[rank]->ops[at(step, 2 * rank + step)].op.count++;
        remove_op(right[rank], at(2, 1));
        remove_op(right[rank], at(1, 3 + rank));
        remove_op(left[rank], at(3, rank));
        remove_op(left[rank], at(0, 4));
        remove_op(left[rank], at(0, 4));
    }
}

static void the_first_ones_are_listed(void **state)
{
    (void)state;
    struct rp_trace *left[2], *right[2];
    change_ranks(left, right);
    struct rp_diff all = make_diff(left, right, 2, 1000);
    assert_true(all.places > 12);
    assert_int_equal(all.point_count, all.places);
    for (size_t i = 1; i < all.point_count; i++)
        assert_true(is_in_order(&all.points[i - 1], &all.points[i]));
    for (size_t top = 0; top <= all.point_count + 1; top++) {
        struct rp_diff diff = make_diff(left, right, 2, top);
        assert_int_equal(diff.point_count, top < all.point_count ? top : all.point_count);
        for (size_t i = 0; i < diff.point_count; i++) {
            assert_int_equal(diff.points[i].rank, all.points[i].rank);
            assert_int_equal(diff.points[i].place, all.points[i].place);
            assert_int_equal(diff.points[i].left.index, all.points[i].left.index);
            assert_int_equal(diff.points[i].right.index, all.points[i].right.index);
        }
        assert_int_equal(diff.structure.place, all.structure.place);
        rp_diff_free(&diff);
    }
    rp_diff_free(&all);
    for (int rank = 0; rank < 2; rank++) {
        rp_trace_free(left[rank]);
        rp_trace_free(right[rank]);
    }
}

/* Lanes without a partner: every op of either run is listed, those of the right one in front. */
static void many_places(void **state)
{
    (void)state;
    struct rp_trace *runs[2] = {make_trace(0), make_trace(0)};
    for (int side = 0; side < 2; side++) {
        make_room(runs[side], MANY);
        for (int i = 0; i < MANY; i++)
            add(runs[side], RP_OP_ALL_GATHER, 1000, layer_name(i % LAYERS), RP_PHASE_FORWARD);
    }
    runs[1]->comms[WORLD].nranks = 4;
    struct rp_diff diff = make_diff(&runs[0], &runs[1], 1, MANY);
    assert_int_equal(diff.places, 2 * MANY);
    assert_int_equal(diff.point_count, MANY);
    for (size_t i = 0; i < MANY; i++)
        assert_int_equal(diff.points[i].right.index, i);
    rp_diff_free(&diff);
    rp_trace_free(runs[0]);
    rp_trace_free(runs[1]);
}

/* A program that makes a communicator and forgets it, again and again. */
static void many_communicators(void **state)
{
    (void)state;
    struct rp_trace *run = make_trace(0);
    make_room(run, MANY);
    run->comms = realloc(run->comms, MANY * sizeof(*run->comms));
    assert_non_null(run->comms);
    run->comm_count = MANY;
    for (uint32_t i = 0; i < MANY; i++) {
        run->comms[i] = (struct rp_trace_comm){.number = i, .nranks = 2, .parent = RP_NO_COMM};
        add(run, RP_OP_ALL_GATHER, 1000, layer_name(0), RP_PHASE_FORWARD)->op.comm = i;
    }
    assert_int_equal(diff_traces(run, run).verdict, RP_DIFF_ALIKE);
    rp_trace_free(run);
}

/* Launches of two events behind each op, of as many threads as there can be; those of the second differ. */
static void give_parts(struct rp_trace *run, uint64_t digest)
{
    run->parts = calloc(2 * run->op_count, sizeof(*run->parts));
    assert_non_null(run->parts);
    for (uint32_t i = 0; i < run->op_count; i++) {
        struct rp_trace_op *op = &run->ops[i];
        op->thread = (uint16_t)i;
        op->launch_digest = digest;
        struct rp_event own = {op->op.module, (enum rp_phase)op->op.phase};
        struct rp_event other = {module_number(run, "head"), RP_PHASE_OPTIMIZER};
        run->parts[i] = (struct rp_trace_part){.event = own, .count = 2, .digest = 7, .op = i, .thread = op->thread};
        run->parts[run->op_count + i] =
            (struct rp_trace_part){.event = other, .count = 3, .digest = digest, .op = i, .thread = op->thread};
    }
    run->part_count = 2 * run->op_count;
}

static void many_threads(void **state)
{
    (void)state;
    enum { THREADS = UINT16_MAX + 1 };
    struct rp_trace *runs[2] = {make_trace(0), make_trace(0)};
    for (int side = 0; side < 2; side++) {
        make_room(runs[side], THREADS);
        for (int i = 0; i < THREADS; i++)
            add(runs[side], RP_OP_ALL_GATHER, 1000, layer_name(0), RP_PHASE_FORWARD);
        give_parts(runs[side], 8 + (uint64_t)side);
    }
    struct rp_diff diff = make_diff(&runs[0], &runs[1], 1, THREADS);
    assert_int_equal(diff.counts[RP_DIFF_LAUNCHES], THREADS);
    assert_int_equal(diff.point_count, THREADS);
    for (size_t i = 0; i < THREADS; i++) {
        assert_int_equal(diff.points[i].launches.event.phase, RP_PHASE_OPTIMIZER);
        assert_int_equal(diff.points[i].launches.left, 3);
    }
    rp_diff_free(&diff);
    rp_trace_free(runs[0]);
    rp_trace_free(runs[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_ones_are_listed),
        cmocka_unit_test(many_places),
        cmocka_unit_test(many_communicators),
        cmocka_unit_test(many_threads),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    forget_diff();
    return failed;
}
