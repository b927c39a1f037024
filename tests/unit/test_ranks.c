/* The ranks of a run against each other: every class alone and two together, who is behind, traces that are missing, of
 * another run or have lost calls, communicators that have other numbers, and who comes last. The runs are made in
 * memory: three ranks, four steps, two communicators of all of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/compare/ranks.h"
#include "core/lane.h"

enum { RANKS = 3, STEPS = 8, LAYERS = 2, ROOM = 400, WORLD = 0, NORM = 1, PER_STEP = 3 * LAYERS + 1 };

struct world {
    struct rp_trace *traces[RANKS];
    struct rp_trace_run run;
    struct rp_ranks ranks;
};

/* ---------------------------------------------------------------- making a run */

static struct rp_trace_op *add(struct rp_trace *trace, uint32_t comm, enum rp_op_kind kind, uint64_t count,
                               int32_t root)
{
    assert_true(trace->op_count < ROOM);
    struct rp_trace_op *op = &trace->ops[trace->op_count++];
    *op = (struct rp_trace_op){.has_fingerprint = true};
    op->op =
        (struct rp_op){.kind = (uint8_t)kind,
                       .dtype = RP_DTYPE_FLOAT32,
                       .redop = kind == RP_OP_ALL_REDUCE || kind == RP_OP_REDUCE_SCATTER ? RP_REDOP_SUM : RP_REDOP_NONE,
                       .root = root,
                       .comm = comm,
                       .count = count,
                       .begin = 1000 * trace->op_count,
                       .position = RP_NO_POSITION};
    op->fingerprint[0] = trace->op_count + (kind == RP_OP_ALL_REDUCE ? 0 : 7u * (unsigned)trace->identity.rank);
    return op;
}

static void put_step(struct rp_trace *trace)
{
    for (int layer = 0; layer < LAYERS; layer++)
        add(trace, WORLD, RP_OP_ALL_GATHER, 100, -1);
    for (int layer = 0; layer < LAYERS; layer++) {
        add(trace, WORLD, RP_OP_BROADCAST, 10, 0);
        add(trace, WORLD, RP_OP_REDUCE_SCATTER, 100, -1);
    }
    add(trace, NORM, RP_OP_ALL_REDUCE, 1, -1);
}

static struct rp_trace *make_trace(int32_t rank)
{
    static const struct rp_trace_comm comms[] = {
        {.number = WORLD, .nranks = RANKS, .parent = RP_NO_COMM, .origin = RP_COMM_INIT, .key = 10},
        {.number = NORM, .nranks = RANKS, .parent = WORLD, .origin = RP_COMM_SPLIT, .key = 11},
    };
    struct rp_trace *trace = calloc(1, sizeof(*trace));
    assert_non_null(trace);
    trace->identity = (struct rp_trace_identity){.rank = rank, .nranks = RANKS, .host = "a"};
    trace->ops = calloc(ROOM, sizeof(*trace->ops));
    trace->comms = malloc(sizeof(comms));
    memcpy(trace->comms, comms, sizeof(comms));
    trace->comm_count = 2;
    for (size_t i = 0; i < trace->comm_count; i++)
        trace->comms[i].rank = rank;
    trace->complete = trace->clocked = true;
    trace->ns_per_tick = 1;
    assert_int_equal(rp_modules_create(&trace->modules), RP_OK);
    for (int step = 0; step < STEPS; step++)
        put_step(trace);
    return trace;
}

static int set_up(void **state)
{
    struct world *world = calloc(1, sizeof(*world));
    assert_non_null(world);
    for (int32_t rank = 0; rank < RANKS; rank++)
        world->traces[rank] = make_trace(rank);
    world->run = (struct rp_trace_run){.ranks = world->traces, .count = RANKS};
    *state = world;
    return 0;
}

static int tear_down(void **state)
{
    struct world *world = *state;
    rp_ranks_free(&world->ranks);
    for (int rank = 0; rank < RANKS; rank++)
        rp_trace_free(world->traces[rank]);
    free(world);
    return 0;
}

/* ---------------------------------------------------------------- changing it */

/* The n-th collective of that communicator. */
static struct rp_trace_op *at(struct rp_trace *trace, uint32_t comm, int n)
{
    for (size_t i = 0; i < trace->op_count; i++) {
        if (trace->ops[i].op.comm == comm && rp_op_kind_on_lane(trace->ops[i].op.kind) && n-- == 0)
            return &trace->ops[i];
    }
    fail_msg("no such op");
    return NULL;
}

static void leave_out(struct rp_trace *trace, const struct rp_trace_op *op)
{
    size_t index = (size_t)(op - trace->ops);
    trace->op_count--;
    memmove(&trace->ops[index], &trace->ops[index + 1], (trace->op_count - index) * sizeof(*op));
}

/* Leaves out what comes behind `kept` calls. */
static void end_after(struct rp_trace *trace, size_t kept)
{
    trace->op_count = kept;
    trace->complete = false;
}

static void name_all(struct rp_trace *trace)
{
    char name[32];
    for (size_t i = 0; i < trace->op_count; i++) {
        snprintf(name, sizeof(name), "layers.%zu", i % PER_STEP);
        trace->ops[i].op.module = rp_module_intern(trace->modules, name, strlen(name));
        trace->ops[i].op.phase = RP_PHASE_FORWARD;
    }
}

/* Positions as lanes give them; holes are made behind this. */
static void number(struct rp_trace *trace)
{
    uint64_t next[4] = {0};
    for (size_t i = 0; i < trace->op_count; i++) {
        struct rp_op *op = &trace->ops[i].op;
        op->position = rp_lane_counts(op) ? next[op->comm]++ : RP_NO_POSITION;
    }
}

static struct rp_ranks *compare_job(struct world *world, const char *job)
{
    for (int rank = 0; rank < RANKS; rank++)
        number(world->traces[rank]);
    assert_int_equal(rp_ranks_compare(&world->run, job, &world->ranks), RP_OK);
    return &world->ranks;
}

static struct rp_ranks *compare(struct world *world)
{
    return compare_job(world, NULL);
}

/* ---------------------------------------------------------------- expecting */

#define BIT(class) RP_RANKS_BIT(RP_RANKS_##class)

static void assert_agree(const struct rp_ranks *ranks)
{
    assert_int_equal(ranks->verdict, RP_RANKS_AGREE);
    assert_int_equal(ranks->finding_count, 0);
    for (int c = 0; c < RP_RANKS_CLASS_COUNT; c++)
        assert_int_equal(ranks->counts[c], 0);
}

/* The only finding is that one, in which `odd` alone differs from what the others have. */
static void assert_odd(const struct rp_ranks *ranks, unsigned classes, size_t comm, uint64_t position, size_t odd)
{
    assert_int_equal(ranks->verdict, RP_RANKS_DISAGREE);
    assert_int_equal(ranks->finding_count, 1);
    const struct rp_ranks_finding *finding = &ranks->findings[0];
    assert_int_equal(finding->classes, classes);
    assert_int_equal(finding->comm, comm);
    assert_int_equal(finding->position, position);
    for (size_t m = 0; m < RANKS; m++)
        assert_int_equal(rp_ranks_is_usual(finding, m), m != odd);
    for (int c = 0; c < RP_RANKS_CLASS_COUNT; c++)
        assert_int_equal(ranks->counts[c], (classes >> c) & 1);
}

static void test_healthy(void **state)
{
    struct rp_ranks *ranks = compare(*state);
    assert_agree(ranks);
    assert_int_equal(ranks->comm_count, 2);
    assert_int_equal(ranks->collectives, STEPS * PER_STEP);
    assert_int_equal(ranks->messages, 0);
    assert_int_equal(ranks->delivered, STEPS);
    assert_int_equal(ranks->expected, RANKS);
    assert_int_equal(rp_ranks_missing(ranks), 0);
    assert_int_equal(ranks->ranks[2].collectives, STEPS * PER_STEP);
    assert_ptr_equal(ranks->ranks[2].last, at(((struct world *)*state)->traces[2], NORM, STEPS - 1));
}

/* ---------------------------------------------------------------- mismatches */

static void change_type(struct rp_op *op)
{
    op->kind = RP_OP_ALL_TO_ALL; /* all else is then another, too */
    op->count = 7;
    op->redop = RP_REDOP_NONE;
}

static void change_size(struct rp_op *op)
{
    op->count += 1;
}

static void change_dtype(struct rp_op *op)
{
    op->dtype = RP_DTYPE_INT32;
}

static void change_reduction(struct rp_op *op)
{
    op->redop = RP_REDOP_MAX;
}

static void change_root(struct rp_op *op)
{
    op->root = 2;
}

static void change_dtype_and_size(struct rp_op *op)
{
    op->dtype = RP_DTYPE_FLOAT16;
}

static void change_reduction_and_size(struct rp_op *op)
{
    op->redop = RP_REDOP_MIN;
    op->count = 3;
}

static void test_mismatches(void **state)
{
    static const struct {
        void (*change)(struct rp_op *op);
        uint32_t comm;
        int position;
        unsigned classes;
    } cases[] = {
        {change_type, WORLD, 3, BIT(TYPE)},
        {change_size, WORLD, 6, BIT(SIZE)},
        {change_dtype, WORLD, 0, BIT(DTYPE)},
        {change_reduction, NORM, 1, BIT(REDUCTION)},
        {change_root, WORLD, 8, BIT(ROOT)},
        {change_dtype_and_size, WORLD, STEPS * (PER_STEP - 1) - 1, BIT(DTYPE) | BIT(SIZE)},
        {change_reduction_and_size, NORM, STEPS - 1, BIT(REDUCTION) | BIT(SIZE)},
    };
    struct world *world = *state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        for (size_t odd = 0; odd < RANKS; odd++) {
            struct rp_trace_op *op = at(world->traces[odd], cases[i].comm, cases[i].position), before = *op;
            cases[i].change(&op->op);
            assert_odd(compare(world), cases[i].classes, cases[i].comm, (uint64_t)cases[i].position, odd);
            *op = before;
            rp_ranks_free(&world->ranks);
        }
    }
}

static void test_two_communicators(void **state)
{
    struct world *world = *state;
    change_reduction(&at(world->traces[2], NORM, 1)->op);
    change_size(&at(world->traces[0], WORLD, 20)->op);
    const struct rp_ranks *ranks = compare(world);
    assert_int_equal(ranks->finding_count, 2);
    assert_int_equal(ranks->findings[0].classes, BIT(REDUCTION)); /* it was called earlier */
    assert_int_equal(ranks->findings[1].classes, BIT(SIZE));
    assert_int_equal(ranks->findings[1].position, 20);
}

/* Of one class on one communicator the first is told and all are counted. */
static void test_again(void **state)
{
    struct world *world = *state;
    for (int n = 4; n < 12; n += 2)
        change_size(&at(world->traces[1], WORLD, n)->op);
    change_root(&at(world->traces[1], WORLD, 14)->op);
    const struct rp_ranks *ranks = compare(world);
    assert_int_equal(ranks->finding_count, 2);
    assert_int_equal(ranks->findings[0].position, 4);
    assert_int_equal(ranks->counts[RP_RANKS_SIZE], 4);
    assert_int_equal(ranks->findings[1].classes, BIT(ROOT));
}

static void test_no_majority(void **state)
{
    struct world *world = *state;
    world->run.count = 2;
    for (int rank = 0; rank < 2; rank++)
        world->traces[rank]->identity.nranks = world->traces[rank]->comms[0].nranks =
            world->traces[rank]->comms[1].nranks = 2;
    change_type(&at(world->traces[1], WORLD, 3)->op);
    const struct rp_ranks *ranks = compare(world);
    assert_int_equal(ranks->findings[0].classes, BIT(TYPE));
    assert_int_equal(ranks->findings[0].usual, RP_RANKS_NONE);
}

/* ---------------------------------------------------------------- one call less, one more */

static void test_left_out(void **state)
{
    struct world *world = *state;
    leave_out(world->traces[1], at(world->traces[1], WORLD, 8));
    const struct rp_ranks *ranks = compare(world);
    const struct rp_ranks_finding *finding = &ranks->findings[0];
    assert_int_equal(ranks->verdict, RP_RANKS_DISAGREE);
    assert_int_equal(finding->classes, BIT(TYPE));
    assert_int_equal(finding->position, 8);
    assert_int_equal(finding->shifted, 1);
    assert_int_equal(finding->shift, 1);
    assert_int_equal(ranks->finding_count, 2); /* what does not fit behind it is no news; the end is */
    assert_int_equal(ranks->findings[1].classes & BIT(MISSING), BIT(MISSING));
    assert_int_equal(ranks->ranks[1].behind, 1);
}

static void test_made_twice(void **state)
{
    struct world *world = *state;
    struct rp_trace *trace = world->traces[2];
    struct rp_trace_op *op = at(trace, WORLD, 9);
    memmove(op + 1, op, (trace->op_count++ - (size_t)(op - trace->ops)) * sizeof(*op));
    const struct rp_ranks_finding *finding = &compare(world)->findings[0];
    assert_int_equal(finding->position, 10);
    assert_int_equal(finding->shifted, 2);
    assert_int_equal(finding->shift, -1);
}

/* The gathers of all layers look alike: only their names say which one was left out. */
static void test_left_out_by_name(void **state)
{
    struct world *world = *state;
    for (int rank = 0; rank < RANKS; rank++)
        name_all(world->traces[rank]);
    leave_out(world->traces[0], at(world->traces[0], WORLD, 6));
    const struct rp_ranks_finding *finding = &compare(world)->findings[0];
    assert_int_equal(finding->position, 7);
    assert_int_equal(finding->unlike, 6);
    assert_non_null(finding->unlike_ops);
    assert_ptr_equal(finding->unlike_ops[1], at(world->traces[1], WORLD, 6));
    assert_int_equal(finding->shifted, 0);
    assert_int_equal(finding->shift, 1);
}

/* Names alone are no difference: NCCL does not know them. */
static void test_other_names(void **state)
{
    struct world *world = *state;
    name_all(world->traces[0]);
    for (int rank = 1; rank < RANKS; rank++)
        world->traces[rank]->ops[3].op.module = rp_module_intern(world->traces[rank]->modules, "x", 1);
    assert_agree(compare(world));
}

/* ---------------------------------------------------------------- the end */

static void test_behind(void **state)
{
    struct world *world = *state;
    end_after(world->traces[1], 3 * PER_STEP + 2);
    const struct rp_ranks *ranks = compare(world);
    assert_int_equal(ranks->verdict, RP_RANKS_DISAGREE);
    assert_int_equal(ranks->finding_count, 2);
    assert_int_equal(ranks->findings[0].classes, BIT(MISSING));
    assert_int_equal(ranks->findings[0].comm, WORLD);
    assert_int_equal(ranks->findings[0].position, 3 * (PER_STEP - 1) + 2);
    assert_null(ranks->findings[0].ops[1]);
    assert_int_equal(ranks->findings[1].comm, NORM);
    assert_int_equal(ranks->findings[1].position, 3);
    assert_int_equal(ranks->ranks[1].behind, 5 * (PER_STEP - 1) - 2);
    assert_int_equal(ranks->ranks[1].ahead, 0);
    assert_int_equal(ranks->ranks[0].behind, 0);
    assert_int_equal(ranks->counts[RP_RANKS_MISSING], 5 * PER_STEP - 2);
}

static void test_wait_for_each_other(void **state)
{
    struct world *world = *state;
    leave_out(world->traces[0], at(world->traces[0], NORM, STEPS - 1));
    leave_out(world->traces[1], at(world->traces[1], WORLD, STEPS * (PER_STEP - 1) - 1));
    const struct rp_ranks *ranks = compare(world);
    assert_int_equal(ranks->finding_count, 2);
    for (int rank = 0; rank < 2; rank++) {
        assert_int_equal(ranks->ranks[rank].behind, 1);
        assert_int_equal(ranks->ranks[rank].ahead, 1);
    }
}

static void test_no_calls(void **state)
{
    struct world *world = *state;
    for (int rank = 0; rank < RANKS; rank++)
        world->traces[rank]->op_count = 0;
    assert_agree(compare(world));
    rp_ranks_free(&world->ranks);
    world->traces[0]->op_count = 1;
    const struct rp_ranks *ranks = compare(world);
    assert_int_equal(ranks->findings[0].classes, BIT(MISSING));
    assert_int_equal(ranks->findings[0].position, 0);
    rp_ranks_free(&world->ranks);
    world->traces[1]->op_count = world->traces[2]->op_count = 1;
    ranks = compare(world);
    assert_agree(ranks);
    assert_int_equal(ranks->collectives, 1);
}

static void test_not_counted(void **state)
{
    struct world *world = *state;
    add(world->traces[1], WORLD, RP_OP_ALL_GATHER, 5, -1)->op.flags = RP_OP_FAILED;
    add(world->traces[1], WORLD, RP_OP_ALL_GATHER, 0, -1);
    add(world->traces[1], WORLD, RP_OP_SEND, 0, 2);
    add(world->traces[1], WORLD, RP_OP_SEND, 9, 2)->op.flags = RP_OP_FAILED;
    assert_agree(compare(world));
}

/* ---------------------------------------------------------------- communicators */

static void test_not_made(void **state)
{
    struct world *world = *state;
    struct rp_trace *trace = world->traces[2];
    for (int n = 0; n < STEPS; n++)
        leave_out(trace, at(trace, NORM, 0));
    trace->comm_count = 1;
    const struct rp_ranks *ranks = compare(world);
    assert_int_equal(ranks->verdict, RP_RANKS_DISAGREE);
    assert_int_equal(ranks->finding_count, 1);
    assert_int_equal(ranks->findings[0].classes, BIT(NOT_MADE));
    assert_int_equal(ranks->findings[0].comm, NORM);
    assert_int_equal(ranks->comms[NORM].absent, 1);
}

/* What a rank calls a communicator is its own matter. */
static void test_other_numbers(void **state)
{
    struct world *world = *state;
    struct rp_trace *trace = world->traces[1];
    struct rp_trace_comm first = trace->comms[0];
    trace->comms[0] = trace->comms[1];
    trace->comms[1] = first;
    trace->comms[0].number = 0;
    trace->comms[1].number = 1;
    for (size_t i = 0; i < trace->op_count; i++)
        trace->ops[i].op.comm = 1 - trace->ops[i].op.comm;
    assert_agree(compare(world));
    assert_int_equal(world->ranks.comms[WORLD].members[1].comm->number, 1);
}

/* Several that share all but the order in which they were made. */
static void test_same_keys(void **state)
{
    struct world *world = *state;
    for (int rank = 0; rank < RANKS; rank++) {
        world->traces[rank]->comms[1].key = world->traces[rank]->comms[0].key;
        world->traces[rank]->comms[1].origin = RP_COMM_INIT;
    }
    assert_agree(compare(world));
    assert_int_equal(world->ranks.comm_count, 2);
    assert_int_equal(world->ranks.comms[0].end, STEPS * (PER_STEP - 1));
    assert_int_equal(world->ranks.comms[1].end, STEPS);
}

/* Two threads took turns, and the later position began first. */
static void test_turns(void **state)
{
    struct world *world = *state;
    struct rp_trace *trace = world->traces[0];
    for (int rank = 0; rank < RANKS; rank++)
        number(world->traces[rank]);
    struct rp_trace_op op = trace->ops[1];
    trace->ops[1] = trace->ops[2];
    trace->ops[2] = op;
    assert_int_equal(rp_ranks_compare(&world->run, NULL, &world->ranks), RP_OK);
    assert_agree(&world->ranks);
}

/* ---------------------------------------------------------------- messages */

static struct rp_trace_op *put_send(struct world *world, int from, int to, uint64_t count)
{
    return add(world->traces[from], WORLD, RP_OP_SEND, count, to);
}

static struct rp_trace_op *put_receive(struct world *world, int from, int to, uint64_t count)
{
    return add(world->traces[to], WORLD, RP_OP_RECV, count, from);
}

/* An all-to-all of unequal parts, which NCCL has only as sends and receives; also to itself, in any order. */
static void test_messages(void **state)
{
    struct world *world = *state;
    for (int from = 0; from < RANKS; from++) {
        for (int to = 0; to < RANKS; to++)
            put_send(world, from, to, 1 + 10 * (unsigned)from + (unsigned)to);
    }
    for (int from = RANKS; from-- > 0;) {
        for (int to = 0; to < RANKS; to++)
            put_receive(world, from, to, 1 + 10 * (unsigned)from + (unsigned)to);
    }
    const struct rp_ranks *ranks = compare(world);
    assert_agree(ranks);
    assert_int_equal(ranks->messages, RANKS * RANKS);
    assert_int_equal(ranks->ranks[1].messages, 2 * RANKS);
}

static void assert_message(const struct rp_ranks *ranks, unsigned classes, uint64_t position)
{
    assert_int_equal(ranks->verdict, RP_RANKS_DISAGREE);
    assert_int_equal(ranks->finding_count, 1);
    assert_int_equal(ranks->findings[0].classes, classes);
    assert_int_equal(ranks->findings[0].position, position);
    assert_int_equal(ranks->findings[0].from, 0);
    assert_int_equal(ranks->findings[0].to, 2);
}

static void test_unmatched_send(void **state)
{
    struct world *world = *state;
    put_send(world, 0, 2, 5);
    const struct rp_trace_op *second = put_send(world, 0, 2, 5);
    put_send(world, 0, 2, 5);
    put_receive(world, 0, 2, 5);
    assert_message(compare(world), BIT(SEND), 1);
    assert_ptr_equal(world->ranks.findings[0].ops[0], second);
    assert_null(world->ranks.findings[0].ops[1]);
    assert_int_equal(world->ranks.counts[RP_RANKS_SEND], 2);
    assert_int_equal(world->ranks.messages, 3);
}

static void test_unmatched_receive(void **state)
{
    struct world *world = *state;
    const struct rp_trace_op *receive = put_receive(world, 0, 2, 5);
    put_send(world, 0, 1, 5);
    put_receive(world, 0, 1, 5);
    assert_message(compare(world), BIT(RECEIVE), 0);
    assert_null(world->ranks.findings[0].ops[0]);
    assert_ptr_equal(world->ranks.findings[0].ops[1], receive);
}

/* In the other order they are other messages. */
static void test_message_size(void **state)
{
    struct world *world = *state;
    put_send(world, 0, 2, 5);
    put_send(world, 0, 2, 6);
    put_receive(world, 0, 2, 6);
    put_receive(world, 0, 2, 5);
    assert_message(compare(world), BIT(SIZE), 0);
    assert_int_equal(world->ranks.counts[RP_RANKS_SIZE], 2);
}

static void test_message_size_and_dtype(void **state)
{
    struct world *world = *state;
    put_send(world, 0, 2, 5);
    put_receive(world, 0, 2, 5)->op.dtype = RP_DTYPE_INT8;
    assert_message(compare(world), BIT(SIZE) | BIT(DTYPE), 0);
}

/* ---------------------------------------------------------------- bytes */

static void test_delivered(void **state)
{
    struct world *world = *state;
    at(world->traces[1], NORM, 2)->fingerprint[1] = 1;
    assert_odd(compare(world), BIT(BYTES), NORM, 2, 1);
}

static void test_not_comparable(void **state)
{
    struct world *world = *state;
    at(world->traces[1], NORM, 2)->fingerprint[1] = 1;
    at(world->traces[2], NORM, 2)->has_fingerprint = false;
    at(world->traces[1], NORM, 3)->fingerprint[1] = 1;
    at(world->traces[1], NORM, 3)->op.flags |= RP_OP_SAMPLED;
    assert_agree(compare(world));
    assert_int_equal(world->ranks.delivered, STEPS - 2);
}

/* Behind a mismatch it is not the same all-reduce any more. */
static void test_mismatch_before_bytes(void **state)
{
    struct world *world = *state;
    change_reduction(&at(world->traces[1], NORM, 2)->op);
    at(world->traces[1], NORM, 3)->fingerprint[1] = 1;
    assert_odd(compare(world), BIT(REDUCTION), NORM, 2, 1);
}

static void test_bytes_before_mismatch(void **state)
{
    struct world *world = *state;
    at(world->traces[1], NORM, 1)->fingerprint[1] = 1;
    change_size(&at(world->traces[2], NORM, 3)->op);
    const struct rp_ranks *ranks = compare(world);
    assert_int_equal(ranks->finding_count, 2);
    assert_int_equal(ranks->findings[0].classes, BIT(SIZE));
    assert_int_equal(ranks->findings[1].classes, BIT(BYTES));
}

/* ---------------------------------------------------------------- what traces lack */

static void test_missing_trace(void **state)
{
    struct world *world = *state;
    world->run.count = 2;
    put_send(world, 1, 2, 5); /* who knows */
    const struct rp_ranks *ranks = compare(world);
    assert_int_equal(ranks->verdict, RP_RANKS_INCOMPLETE);
    assert_int_equal(ranks->finding_count, 0);
    assert_int_equal(rp_ranks_missing(ranks), 1);
    assert_int_equal(ranks->expected, RANKS);
    rp_ranks_free(&world->ranks);
    change_size(&at(world->traces[1], WORLD, 2)->op);
    assert_int_equal(compare(world)->verdict, RP_RANKS_DISAGREE);
}

static void test_expected_by_communicator(void **state)
{
    struct world *world = *state;
    world->run.count = 2;
    world->traces[0]->identity.nranks = world->traces[1]->identity.nranks = 0;
    assert_int_equal(compare(world)->expected, RANKS);
}

static void assert_other_run(const struct rp_ranks *ranks, size_t rank)
{
    assert_int_equal(ranks->verdict, RP_RANKS_INCOMPLETE);
    for (size_t r = 0; r < RANKS; r++)
        assert_int_equal(ranks->ranks[r].other_run, r == rank);
    assert_int_equal(ranks->comms[0].member_count, 2);
    assert_int_equal(ranks->finding_count, 0);
}

static void test_other_run(void **state)
{
    struct world *world = *state;
    world->traces[1]->comms[0].key = 77;
    world->traces[1]->comms[1].key = 78;
    assert_other_run(compare(world), 1);
}

/* The file `job` says which run it is. */
static void test_other_run_by_job(void **state)
{
    struct world *world = *state;
    assert_agree(compare_job(world, "comm=000000000000000a"));
    rp_ranks_free(&world->ranks);
    world->traces[0]->comms[0].key = 77;
    assert_other_run(compare_job(world, "comm=000000000000000a"), 0);
}

static void test_rank_twice(void **state)
{
    struct world *world = *state;
    world->traces[2]->identity.rank = 1;
    assert_other_run(compare(world), 2);
}

/* Of two traces of one rank the one that has the job's communicators is it, wherever it stands. */
static void test_rank_twice_and_other_run(void **state)
{
    struct world *world = *state;
    world->traces[1]->identity.rank = 0;
    world->traces[0]->comms[0].key = 77;
    world->traces[0]->comms[1].key = 78;
    assert_other_run(compare_job(world, "comm=000000000000000a"), 0);
}

static void test_lost_call(void **state)
{
    struct world *world = *state;
    for (int rank = 0; rank < RANKS; rank++)
        number(world->traces[rank]);
    leave_out(world->traces[1], at(world->traces[1], WORLD, 5));
    world->traces[1]->lost_ops = 1;
    assert_int_equal(rp_ranks_compare(&world->run, NULL, &world->ranks), RP_OK);
    assert_int_equal(world->ranks.verdict, RP_RANKS_INCOMPLETE);
    assert_int_equal(world->ranks.finding_count, 1);
    assert_int_equal(world->ranks.findings[0].classes, BIT(UNDECIDED));
    assert_int_equal(world->ranks.findings[0].position, 5);
    assert_int_equal(world->ranks.counts[RP_RANKS_UNDECIDED], 1);
}

/* A rank that has lost calls is not said to be behind, nor to have received nothing. */
static void test_lost_end(void **state)
{
    struct world *world = *state;
    put_send(world, 0, 1, 5);
    end_after(world->traces[1], 3 * PER_STEP);
    world->traces[1]->lost_ops = 100;
    const struct rp_ranks *ranks = compare(world);
    assert_int_equal(ranks->verdict, RP_RANKS_INCOMPLETE);
    for (size_t i = 0; i < ranks->finding_count; i++)
        assert_int_equal(ranks->findings[i].classes, BIT(UNDECIDED));
    assert_int_equal(ranks->counts[RP_RANKS_UNDECIDED], 5 * PER_STEP + 1);
}

/* What a reader lets through, because it is no matter of the format. */
static void test_strange_values(void **state)
{
    struct world *world = *state;
    for (int rank = 0; rank < RANKS; rank++)
        number(world->traces[rank]);
    put_send(world, 0, 1 << 30, 5);
    put_receive(world, -7, 2, 5);
    world->traces[0]->ops[3].op.position = RP_NO_POSITION - 1;
    world->traces[1]->ops[4].op.position = world->traces[1]->ops[5].op.position;
    world->traces[1]->ops[6].op.begin = UINT64_MAX;
    world->traces[2]->ops[7].op.count = UINT64_MAX;
    world->traces[2]->ops[8].op.comm = 99;
    world->traces[2]->comms[1].nranks = -5;
    world->traces[2]->identity.rank = INT32_MAX;
    world->traces[1]->ns_per_tick = 1e300;
    assert_int_equal(rp_ranks_compare(&world->run, NULL, &world->ranks), RP_OK);
    assert_int_equal(world->ranks.verdict, RP_RANKS_DISAGREE);
    assert_int_equal(world->ranks.expected, INT32_MAX);
}

/* ---------------------------------------------------------------- times */

/* Rank 2 is always 300 ns behind, but for one call of rank 1, and its clock began 5 us earlier. */
static void test_late(void **state)
{
    struct world *world = *state;
    for (size_t i = 0; i < world->traces[2]->op_count; i++)
        world->traces[2]->ops[i].op.begin += 5300;
    world->traces[0]->identity.start_wall_ns = world->traces[1]->identity.start_wall_ns = 2000005000;
    world->traces[2]->identity.start_wall_ns = 2000000000;
    at(world->traces[1], WORLD, 3)->op.begin += 500;
    const struct rp_ranks *ranks = compare(world);
    assert_agree(ranks);
    assert_int_equal(ranks->ranks[0].timed, STEPS * PER_STEP);
    assert_int_equal(ranks->ranks[2].times_last, STEPS * PER_STEP - 1);
    assert_int_equal(ranks->ranks[1].times_last, 1);
    assert_int_equal(ranks->ranks[0].times_last, 0);
    assert_true(ranks->ranks[2].late_ns > 299 && ranks->ranks[2].late_ns < 301);
    assert_true(ranks->ranks[1].late_ns < 1);
}

static void test_together(void **state)
{
    const struct rp_ranks *ranks = compare(*state);
    for (size_t r = 0; r < RANKS; r++) {
        assert_int_equal(ranks->ranks[r].timed, STEPS * PER_STEP);
        assert_int_equal(ranks->ranks[r].times_last, 0);
    }
}

static void test_no_times(void **state)
{
    struct world *world = *state;
    strcpy(world->traces[1]->identity.host, "b");
    assert_int_equal(compare(world)->ranks[0].timed, 0);
    rp_ranks_free(&world->ranks);
    strcpy(world->traces[1]->identity.host, "a");
    world->traces[1]->clocked = false;
    assert_int_equal(compare(world)->ranks[0].timed, 0);
    rp_ranks_free(&world->ranks);
    world->traces[1]->clocked = true;
    change_size(&at(world->traces[1], WORLD, 10)->op);
    assert_int_equal(compare(world)->ranks[0].timed, 10 + STEPS);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_healthy),
        TEST(test_mismatches),
        TEST(test_two_communicators),
        TEST(test_again),
        TEST(test_no_majority),
        TEST(test_left_out),
        TEST(test_made_twice),
        TEST(test_left_out_by_name),
        TEST(test_other_names),
        TEST(test_behind),
        TEST(test_wait_for_each_other),
        TEST(test_no_calls),
        TEST(test_not_counted),
        TEST(test_not_made),
        TEST(test_other_numbers),
        TEST(test_same_keys),
        TEST(test_turns),
        TEST(test_messages),
        TEST(test_unmatched_send),
        TEST(test_unmatched_receive),
        TEST(test_message_size),
        TEST(test_message_size_and_dtype),
        TEST(test_delivered),
        TEST(test_not_comparable),
        TEST(test_mismatch_before_bytes),
        TEST(test_bytes_before_mismatch),
        TEST(test_missing_trace),
        TEST(test_expected_by_communicator),
        TEST(test_other_run),
        TEST(test_other_run_by_job),
        TEST(test_rank_twice),
        TEST(test_rank_twice_and_other_run),
        TEST(test_lost_call),
        TEST(test_lost_end),
        TEST(test_strange_values),
        TEST(test_late),
        TEST(test_together),
        TEST(test_no_times),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
