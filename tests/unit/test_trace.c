/* The trace on disk: what is put in comes out; what is cut, flipped or forged is seen. */
#include "core/trace/trace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "core/trace/trace_format.h"
#include "core/trace/trace_writer.h"
#include "tests/unit/scratch.h"
#include "tests/unit/trace_file.h"

static struct scratch scratch;

static int setup(void **state)
{
    (void)state;
    scratch_make(&scratch);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    scratch_remove(&scratch);
    return 0;
}

static struct rp_trace_identity identity(int32_t rank)
{
    return (struct rp_trace_identity){
        .rank = rank,
        .nranks = 4,
        .pid = 4711,
        .start_wall_ns = 1700000000000000000u,
        .start_ticks = 1000,
        .ticks_per_second = 2000000000u,
        .host = "node7",
        .program = "train",
    };
}

static struct rp_trace_writer *writer_make(int32_t rank)
{
    struct rp_trace_writer *writer = NULL;
    struct rp_trace_identity who = identity(rank);
    assert_int_equal(trace_file_create(scratch.path, &who, &writer), RP_OK);
    return writer;
}

static struct rp_op op_at(uint64_t begin, uint64_t position)
{
    return (struct rp_op){
        .type = 2,
        .kind = RP_OP_ALL_GATHER,
        .dtype = RP_DTYPE_BFLOAT16,
        .redop = RP_REDOP_NONE,
        .phase = RP_PHASE_BACKWARD,
        .flags = RP_OP_IN_PLACE | RP_OP_FINGERPRINTED,
        .root = -1,
        .comm = 3,
        .position = position,
        .begin = begin,
        .end = begin + 10,
        .count = 4096,
        .stream = 0xabcd,
        .module = 2,
    };
}

/* 7 + group launches, of which the last three belong to another event, and one by itself. */
static void put_launches(struct rp_trace_writer *writer, uint64_t begin, unsigned group)
{
    const struct rp_trace_part part = {.event = {1, RP_PHASE_OPTIMIZER}, .first = begin + 30};
    const struct rp_trace_launch launch = {.event = {1, RP_PHASE_OPTIMIZER},
                                           .ticks = begin + 30,
                                           .kernel = 77,
                                           .stream = 0xabcd,
                                           .grid = {1, 2, 3},
                                           .block = {4, 5, 6},
                                           .shared_bytes = 7,
                                           .thread = 5};
    assert_int_equal(rp_trace_put_launches(writer, 5, begin, 4 + group, 1), RP_OK);
    assert_int_equal(rp_trace_put_part(writer, 5, begin, 7 + group, 0xd16e57 + group, 4 + group, &part), RP_OK);
    assert_int_equal(rp_trace_put_launch(writer, begin, &launch), RP_OK);
}

static void put_site(struct rp_trace_writer *writer, unsigned group)
{
    const struct rp_trace_site site = {.number = group,
                                       .source = group % 2 == 0 ? RP_SITE_PYTHON : RP_SITE_NVTX,
                                       .text = "Model.forward",
                                       .where = "train.py",
                                       .module_rule = group == 0 ? "" : "my.ini:a",
                                       .phase_rule = "my.ini:b",
                                       .step_rule = group == 1 ? "my.ini:c" : ""};
    assert_int_equal(rp_trace_put_site(writer, &site), RP_OK);
    assert_int_equal(rp_trace_put_site_count(writer, 0, 10 + group), RP_OK);
}

/* A trace with every kind of record, flushed after each group of records. Returns how many groups. */
#define GROUPS 6
static unsigned write_sample(struct rp_trace_writer *writer, off_t *ends, const char *path)
{
    struct stat info;
    const uint64_t value[2] = {11, 22};
    const struct rp_trace_comm comm = {.number = 3,
                                       .nranks = 4,
                                       .rank = 1,
                                       .parent = RP_NO_COMM,
                                       .key = 99,
                                       .made = 1500,
                                       .origin = RP_COMM_SPLIT,
                                       .name = "data parallel"};
    for (unsigned group = 0; group < GROUPS; group++) {
        struct rp_op op = op_at(2000 + group * 100, group);
        if (group == 0) {
            assert_int_equal(rp_trace_put_comm(writer, &comm), RP_OK);
            assert_int_equal(rp_trace_put_module(writer, 1, "layers.0"), RP_OK);
            assert_int_equal(rp_trace_put_module(writer, 2, "layers.1"), RP_OK);
        }
        assert_int_equal(rp_trace_put_op(writer, 5, &op), RP_OK);
        assert_int_equal(rp_trace_put_kernel(writer, 77, "_Z4gemmPf"), RP_OK);
        put_launches(writer, op.begin, group);
        put_site(writer, group);
        assert_int_equal(rp_trace_put_fingerprint(writer, 3, group, value), RP_OK);
        assert_int_equal(rp_trace_put_issue(writer, &(struct rp_issue){.comm = 3, .number = 1 + group}), RP_OK);
        assert_int_equal(rp_trace_put_issue_use(writer, &(struct rp_issue_use){.comm = 3, .number = 1 + group}), RP_OK);
        assert_int_equal(rp_trace_put_state(writer, RP_STATE_COMM_READY, 3, 1600, "ready"), RP_OK);
        if (group == 4)
            assert_int_equal(rp_trace_put_loss(writer, 5, 3, 2, 1), RP_OK);
        assert_int_equal(rp_trace_put_clock(writer, 2001000, 1700000000001000000u), RP_OK);
        assert_true(rp_trace_pending(writer) > 0);
        assert_int_equal(rp_trace_flush(writer), RP_OK);
        assert_int_equal(rp_trace_pending(writer), 0);
        assert_int_equal(stat(path, &info), 0);
        ends[group] = info.st_size;
    }
    return GROUPS;
}

static void parts_and_launches_of_the_sample(const struct rp_trace *trace)
{
    assert_int_equal(trace->part_count, 2 * GROUPS);
    assert_int_equal(trace->launch_count, GROUPS);
    for (unsigned i = 0; i < GROUPS; i++) {
        const struct rp_trace_part *own = &trace->parts[2 * i], *other = own + 1;
        const struct rp_trace_launch *launch = &trace->launches[i];
        const uint32_t grid[] = {1, 2, 3};
        const uint16_t block[] = {4, 5, 6};
        assert_int_equal(own->op, i);
        assert_int_equal(own->count, 4 + i);
        assert_int_equal(own->first, 2000 + i * 100);
        assert_string_equal(rp_module_name(trace->modules, own->event.module), "layers.1");
        assert_int_equal(own->event.phase, RP_PHASE_BACKWARD);
        assert_int_equal(other->op, i);
        assert_int_equal(other->thread, 5);
        assert_int_equal(other->count, 3);
        assert_int_equal(other->first, 2030 + i * 100);
        assert_string_equal(rp_module_name(trace->modules, other->event.module), "layers.0");
        assert_int_equal(other->event.phase, RP_PHASE_OPTIMIZER);
        assert_int_equal(launch->op, i);
        assert_int_equal(launch->thread, 5);
        assert_int_equal(launch->ticks, 2030 + i * 100);
        assert_int_equal(launch->stream, 0xabcd);
        assert_int_equal(launch->shared_bytes, 7);
        assert_memory_equal(launch->grid, grid, sizeof grid);
        assert_memory_equal(launch->block, block, sizeof block);
        assert_string_equal(rp_trace_kernel_name(trace, launch->kernel), "_Z4gemmPf");
        assert_string_equal(rp_module_name(trace->modules, launch->event.module), "layers.0");
        assert_int_equal(launch->event.phase, RP_PHASE_OPTIMIZER);
    }
    assert_null(rp_trace_kernel_name(trace, 78));
}

static void sites_of_the_sample(const struct rp_trace *trace)
{
    assert_int_equal(trace->site_count, GROUPS);
    for (unsigned i = 0; i < GROUPS; i++) {
        const struct rp_trace_site *site = &trace->sites[i];
        assert_int_equal(site->number, i);
        assert_int_equal(site->source, i % 2 == 0 ? RP_SITE_PYTHON : RP_SITE_NVTX);
        assert_int_equal(site->count, i == 0 ? 9 + GROUPS : 0); /* the last count of a site holds */
        assert_string_equal(site->text, "Model.forward");
        assert_string_equal(site->where, "train.py");
        assert_string_equal(site->module_rule, i == 0 ? "" : "my.ini:a");
        assert_string_equal(site->phase_rule, "my.ini:b");
        assert_string_equal(site->step_rule, i == 1 ? "my.ini:c" : "");
    }
}

static bool part_is(const struct rp_trace_part *a, const struct rp_trace_part *b)
{
    return rp_event_is_same(a->event, b->event) && a->count == b->count && a->first == b->first && a->op == b->op &&
           a->thread == b->thread;
}

/* The op that it follows says as much. */
static bool part_says_nothing(const struct rp_trace *trace, const struct rp_trace_part *part)
{
    const struct rp_trace_op *op = part->op == RP_TRACE_NO_OP ? NULL : &trace->ops[part->op];
    return op != NULL && part->count <= op->launches &&
           rp_event_is_same(part->event, (struct rp_event){op->op.module, (enum rp_phase)op->op.phase});
}

/* Read lean, a file gives the same ops, and all parts that are needed. Returns how many. */
static size_t assert_lean_alike(const char *path, const struct rp_trace *whole)
{
    struct rp_trace *trace = NULL;
    char cause[RP_TRACE_CAUSE_MAX];
    size_t kept = 0;
    assert_int_equal(rp_trace_read_lean(path, cause, sizeof cause, &trace), RP_OK);
    assert_int_equal(trace->op_count, whole->op_count);
    if (whole->op_count > 0)
        assert_int_equal(memcmp(trace->ops, whole->ops, whole->op_count * sizeof *whole->ops), 0);
    for (size_t i = 0; i < whole->part_count; i++) {
        if (kept < trace->part_count && part_is(&trace->parts[kept], &whole->parts[i]))
            kept++;
        else
            assert_true(part_says_nothing(whole, &whole->parts[i]));
    }
    assert_int_equal(kept, trace->part_count);
    assert_int_equal(trace->launch_count, 0);
    assert_int_equal(trace->site_count, whole->site_count);
    assert_int_equal(trace->complete, whole->complete);
    assert_int_equal(trace->lost_launches, whole->lost_launches);
    rp_trace_free(trace);
    return kept;
}

static void what_is_put_comes_out(void **state)
{
    (void)state;
    off_t ends[GROUPS];
    struct rp_trace *trace = NULL;
    const char *path = scratch_path(&scratch, "rank-1.rpt");
    struct rp_trace_writer *writer = writer_make(1);
    write_sample(writer, ends, path);
    assert_int_equal(rp_trace_finish(writer), RP_OK);
    assert_int_equal(rp_trace_read(path, &trace), RP_OK);

    struct rp_trace_identity who = identity(1);
    assert_memory_equal(&trace->identity, &who, sizeof who);
    assert_true(trace->complete);
    assert_int_equal(trace->dropped_bytes, 0);
    assert_int_equal(trace->op_count, GROUPS);
    for (unsigned i = 0; i < GROUPS; i++) {
        const struct rp_trace_op *op = &trace->ops[i];
        struct rp_op expected = op_at(2000 + i * 100, i);
        expected.module = op->op.module;
        assert_memory_equal(&op->op, &expected, sizeof expected);
        assert_string_equal(rp_module_name(trace->modules, op->op.module), "layers.1");
        assert_int_equal(op->thread, 5);
        assert_int_equal(op->launches, 7 + i);
        assert_int_equal(op->launch_digest, 0xd16e57 + i);
        assert_true(op->has_fingerprint);
        assert_int_equal(op->fingerprint[0], 11);
        assert_int_equal(op->fingerprint[1], 22);
        assert_int_equal(op->lossy, i == 4);
    }
    parts_and_launches_of_the_sample(trace);
    sites_of_the_sample(trace);
    assert_lean_alike(path, trace);
    assert_int_equal(trace->comm_count, 1);
    assert_null(rp_trace_find_comm(trace, 2));
    const struct rp_trace_comm *comm = rp_trace_find_comm(trace, 3);
    assert_non_null(comm);
    assert_string_equal(comm->name, "data parallel");
    assert_int_equal(comm->origin, RP_COMM_SPLIT);
    assert_int_equal(comm->parent, RP_NO_COMM);
    assert_int_equal(comm->key, 99);
    assert_int_equal(trace->state_count, GROUPS);
    assert_string_equal(trace->states[0].text, "ready");
    assert_int_equal(trace->issue_count, GROUPS);
    assert_int_equal(trace->lost_launches, 3);
    assert_int_equal(trace->lost_ops, 2);
    assert_int_equal(trace->lost_fingerprints, 1);
    /* 2,000,000 ticks in 1,000,000 ns */
    assert_true(trace->ns_per_tick > 0.4999 && trace->ns_per_tick < 0.5001);
    assert_true(trace->clocked);
    assert_int_equal(trace->last_clock, 2001000);
    assert_true(rp_trace_ns(trace, 3000) > 999 && rp_trace_ns(trace, 3000) < 1001);
    assert_true(rp_trace_ns(trace, 0) < 0);
    rp_trace_free(trace);
}

/*
 * A stretch that grows while allocations pass, one that is whole when the next call has come, one before its op, one of
 * no op, one that comes to have two parts: what is behind each call is the last that was said of it.
 */
static void stretches_around_allocations(void **state)
{
    (void)state;
    struct rp_trace *trace = NULL;
    struct rp_trace_writer *writer = writer_make(0);
    struct rp_op first = op_at(100, 0), allocation = op_at(200, RP_NO_POSITION), second = op_at(300, 1),
                 third = op_at(400, 2);
    const struct rp_trace_part part = {.event = {RP_MODULE_UNKNOWN, RP_PHASE_OPTIMIZER}, .first = 450};
    allocation.kind = RP_OP_MALLOC;
    rp_trace_put_launches(writer, 0, 0, 5, 1);
    rp_trace_put_launches(writer, 0, 100, 1, 2);
    rp_trace_put_op(writer, 0, &first);
    rp_trace_put_launches(writer, 0, 100, 2, 3);
    rp_trace_put_op(writer, 0, &allocation);
    rp_trace_put_launches(writer, 0, 100, 4, 4);
    rp_trace_put_op(writer, 0, &second);
    rp_trace_put_launches(writer, 0, 300, 6, 5);
    rp_trace_put_launches(writer, 0, 100, 7, 6);
    rp_trace_put_launches(writer, 0, 250, 9, 7);
    rp_trace_put_op(writer, 0, &third);
    rp_trace_put_launches(writer, 0, 400, 2, 8);
    rp_trace_put_launches(writer, 0, 400, 3, 9);
    rp_trace_put_part(writer, 0, 400, 5, 10, 3, &part);
    rp_trace_put_part(writer, 0, 400, 9, 11, 3, &part);
    assert_int_equal(rp_trace_finish(writer), RP_OK);
    assert_int_equal(rp_trace_read(scratch_path(&scratch, "rank-0.rpt"), &trace), RP_OK);
    assert_int_equal(trace->op_count, 4);
    static const unsigned launches[] = {7, 0, 6, 9}, digests[] = {6, 0, 5, 11};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(trace->ops[i].launches, launches[i]);
        assert_int_equal(trace->ops[i].launch_digest, digests[i]);
    }
    /* behind no op two, behind the first, of which a record came too early, one, behind the third two */
    assert_int_equal(assert_lean_alike(scratch_path(&scratch, "rank-0.rpt"), trace), 5);
    rp_trace_free(trace);
}

/* Set in the middle of the run, the wall clock says nothing of the ticks, and times are those of the estimate. */
static void a_clock_that_was_set(void **state)
{
    (void)state;
    struct rp_trace *trace = NULL;
    struct rp_trace_writer *writer = writer_make(0);
    assert_int_equal(rp_trace_put_clock(writer, 2001000, 1700000003600000000u), RP_OK);
    assert_int_equal(rp_trace_finish(writer), RP_OK);
    assert_int_equal(rp_trace_read(scratch_path(&scratch, "rank-0.rpt"), &trace), RP_OK);
    assert_false(trace->clocked);
    assert_int_equal(trace->last_clock, 2001000);
    assert_true(trace->ns_per_tick > 0.4999 && trace->ns_per_tick < 0.5001);
    rp_trace_free(trace);
}

/* Two threads, written as they come; one stretch written twice as it grows; launches of an op that was lost. */
static void ops_are_in_order_and_own_their_launches(void **state)
{
    (void)state;
    struct rp_trace *trace = NULL;
    struct rp_trace_writer *writer = writer_make(0);
    const uint64_t begins[] = {500, 300, 300, 100};
    const uint32_t threads[] = {0, 0, 1, 1};
    for (int i = 0; i < 4; i++) {
        struct rp_op op = op_at(begins[i], (uint64_t)i);
        assert_int_equal(rp_trace_put_op(writer, threads[i], &op), RP_OK);
    }
    rp_trace_put_launches(writer, 1, 300, 4, 40);
    rp_trace_put_launches(writer, 1, 300, 9, 90);
    rp_trace_put_launches(writer, 0, 300, 2, 20);
    rp_trace_put_launches(writer, 0, 400, 1, 10);
    assert_int_equal(rp_trace_finish(writer), RP_OK);
    assert_int_equal(rp_trace_read(scratch_path(&scratch, "rank-0.rpt"), &trace), RP_OK);
    const uint64_t sorted[] = {100, 300, 300, 500};
    const unsigned launches[] = {0, 2, 9, 0};
    assert_int_equal(trace->op_count, 4);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(trace->ops[i].op.begin, sorted[i]);
        assert_int_equal(trace->ops[i].launches, launches[i]);
        assert_false(trace->ops[i].has_fingerprint);
        /* no module record: the name is unknown, not out of bounds */
        assert_int_equal(trace->ops[i].op.module, RP_MODULE_UNKNOWN);
    }
    assert_int_equal(trace->ops[2].launch_digest, 90);
    assert_lean_alike(scratch_path(&scratch, "rank-0.rpt"), trace);
    assert_int_equal(trace->part_count, 3);
    assert_int_equal(trace->parts[0].op, 2);
    assert_int_equal(trace->parts[0].count, 9);
    assert_int_equal(trace->parts[2].op, RP_TRACE_NO_OP);
    assert_int_equal(trace->parts[2].first, 400);
    rp_trace_free(trace);
}

/* Before the first op of a thread, and of a later thread of the same number. */
static void launches_without_an_op_are_kept(void **state)
{
    (void)state;
    struct rp_trace *trace = NULL;
    struct rp_trace_writer *writer = writer_make(0);
    struct rp_trace_part part = {.event = {RP_MODULE_UNKNOWN, RP_PHASE_UNKNOWN}, .first = 50};
    const struct rp_trace_launch launch = {.ticks = 50, .thread = 1};
    assert_int_equal(rp_trace_put_launch(writer, 0, &launch), RP_OK);
    rp_trace_put_part(writer, 1, 0, 4, 1, 0, &part);
    rp_trace_put_part(writer, 1, 0, 6, 2, 0, &part);
    part.first = 60;
    rp_trace_put_part(writer, 1, 0, 8, 3, 6, &part);
    part.first = 70;
    rp_trace_put_part(writer, 1, 0, 5, 4, 0, &part);
    part.event = (struct rp_event){99, (enum rp_phase)77}; /* a module that has no record, a phase of later days */
    rp_trace_put_part(writer, 1, 0, 6, 5, 5, &part);
    assert_int_equal(rp_trace_finish(writer), RP_OK);
    assert_int_equal(rp_trace_read(scratch_path(&scratch, "rank-0.rpt"), &trace), RP_OK);
    static const uint64_t counts[] = {6, 2, 5, 1}, firsts[] = {50, 60, 70, 70};
    assert_int_equal(trace->part_count, 4);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(trace->parts[i].op, RP_TRACE_NO_OP);
        assert_int_equal(trace->parts[i].count, counts[i]);
        assert_int_equal(trace->parts[i].first, firsts[i]);
        assert_int_equal(trace->parts[i].event.module, RP_MODULE_UNKNOWN);
        assert_int_equal(trace->parts[i].event.phase, RP_PHASE_UNKNOWN);
    }
    assert_int_equal(trace->launches[0].op, RP_TRACE_NO_OP);
    rp_trace_free(trace);
}

/* A thread that has no op yet: what its process was at, by time; a rule for kernels still says what it says. */
static void launches_before_the_first_op_of_a_thread_belong_to_the_op_of_another(void **state)
{
    (void)state;
    struct rp_trace *trace = NULL;
    struct rp_trace_writer *writer = writer_make(0);
    const struct rp_op named = op_at(100, 0);
    const struct rp_op allocation = {.type = 2, .kind = RP_OP_MALLOC, .comm = RP_NO_COMM, .begin = 150, .end = 160};
    const struct rp_trace_launch launch = {.ticks = 170, .thread = 1};
    assert_int_equal(rp_trace_put_module(writer, 1, "rule"), RP_OK);
    assert_int_equal(rp_trace_put_module(writer, 2, "layers.1"), RP_OK);
    assert_int_equal(rp_trace_put_op(writer, 0, &named), RP_OK);
    assert_int_equal(rp_trace_put_op(writer, 0, &allocation), RP_OK);
    struct rp_trace_part part = {.first = 90};
    rp_trace_put_part(writer, 1, 0, 1, 1, 0, &part);
    part.first = 170;
    rp_trace_put_part(writer, 1, 0, 3, 2, 1, &part);
    part = (struct rp_trace_part){.event = {1, RP_PHASE_UNKNOWN}, .first = 180};
    rp_trace_put_part(writer, 1, 0, 4, 3, 3, &part);
    assert_int_equal(rp_trace_put_launch(writer, 0, &launch), RP_OK);
    assert_int_equal(rp_trace_finish(writer), RP_OK);
    assert_int_equal(rp_trace_read(scratch_path(&scratch, "rank-0.rpt"), &trace), RP_OK);
    static const char *const modules[] = {"-", "layers.1", "rule"};
    static const enum rp_phase phases[] = {RP_PHASE_UNKNOWN, RP_PHASE_BACKWARD, RP_PHASE_BACKWARD};
    assert_int_equal(trace->part_count, 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(trace->parts[i].op, RP_TRACE_NO_OP);
        assert_string_equal(rp_module_name(trace->modules, trace->parts[i].event.module), modules[i]);
        assert_int_equal(trace->parts[i].event.phase, phases[i]);
    }
    assert_string_equal(rp_module_name(trace->modules, trace->launches[0].event.module), "layers.1");
    rp_trace_free(trace);
}

static void long_texts_are_cut(void **state)
{
    (void)state;
    struct rp_trace *trace = NULL;
    struct rp_trace_writer *writer = writer_make(0);
    struct rp_trace_comm comm = {.number = 0};
    char *text = malloc(100001);
    memset(text, 'x', 100000);
    text[100000] = '\0';
    memset(comm.name, 'n', sizeof comm.name); /* not terminated */
    assert_int_equal(rp_trace_put_module(writer, 1, text), RP_OK);
    assert_int_equal(rp_trace_put_kernel(writer, 1, text), RP_OK);
    assert_int_equal(rp_trace_put_state(writer, RP_STATE_COMM_ERROR, 0, 1, text), RP_OK);
    assert_int_equal(rp_trace_put_state(writer, RP_STATE_FORKED, RP_NO_COMM, 2, NULL), RP_OK);
    assert_int_equal(rp_trace_put_comm(writer, &comm), RP_OK);
    const struct rp_trace_site site = {
        .text = text, .where = text, .module_rule = text, .phase_rule = text, .step_rule = text};
    assert_int_equal(rp_trace_put_site(writer, &site), RP_OK);
    struct rp_op op = op_at(1, 0);
    op.module = 1;
    assert_int_equal(rp_trace_put_op(writer, 0, &op), RP_OK);
    assert_int_equal(rp_trace_finish(writer), RP_OK);
    free(text);
    assert_int_equal(rp_trace_read(scratch_path(&scratch, "rank-0.rpt"), &trace), RP_OK);
    assert_int_equal(strlen(rp_module_name(trace->modules, trace->ops[0].op.module)), RP_MODULE_NAME_MAX);
    assert_int_equal(strlen(trace->states[0].text), RP_STATE_TEXT_MAX);
    assert_string_equal(trace->states[1].text, "");
    assert_int_equal(strlen(trace->comms[0].name), RP_COMM_NAME_MAX - 1);
    assert_int_equal(strlen(rp_trace_kernel_name(trace, 1)), RP_KERNEL_NAME_MAX);
    assert_int_equal(strlen(trace->sites[0].text), RP_SITE_TEXT_MAX);
    assert_int_equal(strlen(trace->sites[0].phase_rule), RP_SITE_TEXT_MAX);
    assert_int_equal(strlen(trace->sites[0].step_rule), RP_SITE_TEXT_MAX);
    rp_trace_free(trace);
}

/* What became of replay: flags of ops, and states with their texts, in the order of the file. */
static void replay_is_kept(void **state)
{
    static const uint16_t flags[] = {RP_OP_STORED, RP_OP_VOTED | RP_OP_HIT, RP_OP_VOTED, RP_OP_VOTED | RP_OP_WITHDRAWN,
                                     RP_OP_VOTED | RP_OP_HIT | RP_OP_AHEAD};
    static const struct {
        enum rp_trace_state state;
        const char *text;
    } changes[] = {
        {RP_STATE_REPLAY_LEARNING, ""},
        {RP_STATE_REPLAY_ARMED, "from position 64"},
        {RP_STATE_REPLAY_RESTING, "a rank waited longer than the bound"},
        {RP_STATE_REPLAY_PASSIVE, "nothing repeats"},
        {RP_STATE_REPLAY_FIGURES, "12 gathers from memory"},
    };
    (void)state;
    struct rp_trace *trace = NULL;
    struct rp_trace_writer *writer = writer_make(0);
    for (uint64_t i = 0; i < 5; i++) {
        struct rp_op op = op_at(i + 1, i);
        op.flags = flags[i];
        assert_int_equal(rp_trace_put_op(writer, 0, &op), RP_OK);
    }
    for (uint64_t i = 0; i < 5; i++)
        assert_int_equal(rp_trace_put_state(writer, changes[i].state, 3, 10 + i, changes[i].text), RP_OK);
    assert_int_equal(rp_trace_finish(writer), RP_OK);
    assert_int_equal(rp_trace_read(scratch_path(&scratch, "rank-0.rpt"), &trace), RP_OK);
    assert_int_equal(trace->op_count, 5);
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(trace->ops[i].op.flags, flags[i]);
    assert_int_equal(trace->state_count, 5);
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(trace->states[i].state, changes[i].state);
        assert_int_equal(trace->states[i].comm, 3);
        assert_int_equal(trace->states[i].ticks, 10 + i);
        assert_string_equal(trace->states[i].text, changes[i].text);
    }
    rp_trace_free(trace);
}

/* ---------------------------------------------------------------- damage */

/* The sample without its end, as bytes. */
static unsigned char *sample_bytes(size_t *size_out, off_t *ends)
{
    const char *path = scratch_path(&scratch, "rank-0.rpt");
    struct rp_trace_writer *writer = writer_make(0);
    write_sample(writer, ends, path);
    assert_int_equal(rp_trace_finish(writer), RP_OK);
    return (unsigned char *)scratch_read(path, size_out);
}

static void cut_anywhere_is_a_good_part(void **state)
{
    (void)state;
    off_t ends[GROUPS];
    size_t size;
    free(sample_bytes(&size, ends));
    const char *path = scratch_path(&scratch, "rank-0.rpt");
    rp_log_setup(RP_LOG_NONE, NULL);
    for (size_t length = size; length-- > 0;) {
        struct rp_trace *trace = NULL;
        assert_int_equal(truncate(path, (off_t)length), 0);
        enum rp_status status = rp_trace_read(path, &trace);
        if (length < sizeof(struct rp_file_header)) {
            assert_int_equal(status, RP_TRUNCATED);
            continue;
        }
        assert_int_equal(status, RP_OK);
        size_t whole = 0;
        while (whole < GROUPS && (size_t)ends[whole] <= length)
            whole++;
        assert_int_equal(trace->op_count, whole);
        assert_false(trace->complete);
        if (whole > 0)
            assert_int_equal(trace->dropped_bytes, length - (size_t)ends[whole - 1]);
        rp_trace_free(trace);
    }
}

static void every_flipped_byte_is_seen(void **state)
{
    (void)state;
    off_t ends[GROUPS];
    size_t size;
    unsigned char *bytes = sample_bytes(&size, ends);
    const char *path = scratch_path(&scratch, "rank-0.rpt");
    int file = open(path, O_WRONLY);
    assert_true(file >= 0);
    rp_log_setup(RP_LOG_NONE, NULL);
    for (size_t at = 0; at < size; at++) {
        static const unsigned char flips[] = {0x01, 0x80, 0xff};
        for (size_t i = 0; i < sizeof flips; i++) {
            struct rp_trace *trace = NULL;
            unsigned char flipped = bytes[at] ^ flips[i];
            assert_int_equal(pwrite(file, &flipped, 1, (off_t)at), 1);
            enum rp_status status = rp_trace_read(path, &trace);
            assert_true(status == RP_CORRUPT || status == RP_VERSION);
            assert_null(trace);
        }
        assert_int_equal(pwrite(file, &bytes[at], 1, (off_t)at), 1);
    }
    close(file);
    free(bytes);
}

static void damage_is_named(void **state)
{
    (void)state;
    off_t ends[GROUPS];
    size_t size;
    char expected[300];
    struct rp_trace *trace = NULL;
    unsigned char *bytes = sample_bytes(&size, ends);
    const char *path = scratch_path(&scratch, "rank-0.rpt");
    bytes[ends[1] + 100] ^= 1;
    scratch_write(path, bytes, size);
    assert_int_equal(rp_trace_read(path, &trace), RP_CORRUPT);
    snprintf(expected, sizeof expected, "error trace: %s: byte %ld: the hash of a block is wrong", path, (long)ends[1]);
    assert_int_equal(scratch_lines_with(&scratch, expected), 1);

    scratch_write(path, "not a trace at all, but long enough to hold a header; some text of a README", 74);
    assert_int_equal(rp_trace_read(path, &trace), RP_CORRUPT);
    assert_int_equal(scratch_lines_with(&scratch, "byte 0: not a trace"), 1);
    scratch_write(path, "", 0);
    assert_int_equal(rp_trace_read(path, &trace), RP_TRUNCATED);
    assert_int_equal(scratch_lines_with(&scratch, "byte 0: the file ends inside its header"), 1);
    assert_int_equal(rp_trace_read(scratch_path(&scratch, "absent"), &trace), RP_IO);
    assert_int_equal(scratch_lines_with(&scratch, "absent: cannot be opened: No such file"), 1);
    assert_int_equal(rp_trace_read(scratch.path, &trace), RP_IO);
    assert_int_equal(scratch_lines_with(&scratch, "not a regular file"), 1);
    free(bytes);
}

/* A block taken out, and one put twice, have good hashes and are seen nevertheless. */
static void a_missing_block_is_seen(void **state)
{
    (void)state;
    off_t ends[GROUPS];
    size_t size;
    struct rp_trace *trace = NULL;
    unsigned char *bytes = sample_bytes(&size, ends);
    const char *path = scratch_path(&scratch, "rank-0.rpt");
    memmove(bytes + ends[1], bytes + ends[2], size - (size_t)ends[2]);
    scratch_write(path, bytes, size - (size_t)(ends[2] - ends[1]));
    assert_int_equal(rp_trace_read(path, &trace), RP_CORRUPT);
    assert_int_equal(scratch_lines_with(&scratch, "a block is missing or out of its place"), 1);
    free(bytes);
}

/* ---------------------------------------------------------------- forged files, hashes right */

struct forged {
    unsigned char bytes[4096];
    size_t size;
};

static void forge_header(struct forged *forged, uint16_t major, uint16_t minor, uint32_t header_bytes)
{
    struct rp_file_header header = {
        .major = major, .minor = minor, .header_bytes = header_bytes, .byte_order = RP_FILE_BYTE_ORDER};
    memcpy(header.magic, RP_FILE_MAGIC, 8);
    header.hash = XXH64(&header, offsetof(struct rp_file_header, hash), 0);
    memset(forged, 0, sizeof *forged);
    memcpy(forged->bytes, &header, sizeof header);
    forged->size = header_bytes < sizeof header ? sizeof header : header_bytes;
}

static void forge_block(struct forged *forged, uint32_t number, const void *payload, uint32_t bytes)
{
    struct rp_file_block head = {.magic = RP_BLOCK_MAGIC, .bytes = bytes, .number = number};
    head.hash = XXH64(payload, bytes, 0);
    head.check = (uint32_t)XXH64(&head, offsetof(struct rp_file_block, check), 0);
    memcpy(forged->bytes + forged->size, &head, sizeof head);
    memcpy(forged->bytes + forged->size + sizeof head, payload, bytes);
    forged->size += sizeof head + bytes;
}

static enum rp_status read_forged(const struct forged *forged, struct rp_trace **trace_out)
{
    const char *path = scratch_path(&scratch, "forged.rpt");
    scratch_write(path, forged->bytes, forged->size);
    return rp_trace_read(path, trace_out);
}

static void versions(void **state)
{
    (void)state;
    struct forged forged;
    struct rp_trace *trace = NULL;
    struct rp_file_op op = {{RP_FILE_OP, 0, sizeof op}, 0, 0, op_at(5, 0)};
    struct rp_file_record unknown[3] = {{200, 7, 24}, {0xffff, 0xffff, 0xffffffff}, {1, 2, 3}};

    forge_header(&forged, RP_TRACE_VERSION + 1, 0, 64);
    assert_int_equal(read_forged(&forged, &trace), RP_VERSION);
    assert_int_equal(scratch_lines_with(&scratch, "another version"), 1);
    forge_header(&forged, 0, 0, 64);
    assert_int_equal(read_forged(&forged, &trace), RP_VERSION);

    /* A newer minor version: a longer header, an unknown record, a known one with more at its end and flags that are
     * not known, an unknown state before a known one. */
    forge_header(&forged, RP_TRACE_VERSION, RP_FILE_MINOR + 1, 96);
    forge_block(&forged, 0, unknown, sizeof unknown);
    unsigned char longer[sizeof op + 16] = {0};
    op.record.bytes = sizeof longer;
    op.op.flags = 0xffff;
    memcpy(longer, &op, sizeof op);
    forge_block(&forged, 1, longer, sizeof longer);
    union {
        struct rp_file_state state;
        unsigned char bytes[32];
    } newer = {{{RP_FILE_STATE, 0, 32}, RP_STATE_COUNT, 0, 0}},
      known = {{{RP_FILE_STATE, 0, 32}, RP_STATE_REPLAY_ARMED, 0, 0}};
    forge_block(&forged, 2, &newer, sizeof newer);
    forge_block(&forged, 3, &known, sizeof known);
    assert_int_equal(read_forged(&forged, &trace), RP_OK);
    assert_int_equal(trace->op_count, 1);
    assert_int_equal(trace->ops[0].op.begin, 5);
    assert_int_equal(trace->ops[0].op.flags, 0xffff);
    assert_int_equal(trace->state_count, 1);
    assert_int_equal(trace->states[0].state, RP_STATE_REPLAY_ARMED);
    rp_trace_free(trace);

    forge_header(&forged, RP_TRACE_VERSION, 0, 64); /* an older one */
    assert_int_equal(read_forged(&forged, &trace), RP_OK);
    rp_trace_free(trace);

    forge_header(&forged, RP_TRACE_VERSION, 0, 16);
    assert_int_equal(read_forged(&forged, &trace), RP_CORRUPT);
}

/* Values of an enum beyond those known become "unknown": nothing may index with them. */
static void numbers_out_of_range(void **state)
{
    (void)state;
    struct forged forged;
    struct rp_trace *trace = NULL;
    struct rp_file_op op = {{RP_FILE_OP, 0, sizeof op}, RP_THREAD_MAX, 0, op_at(5, 0)};
    op.op.kind = op.op.dtype = op.op.redop = op.op.phase = 0xff;
    op.op.module = UINT32_MAX;
    struct rp_file_comm comm = {{RP_FILE_COMM, 0, sizeof comm}, .number = 9, .origin = 77};
    memset(comm.name, 'n', sizeof comm.name);
    struct rp_file_loss loss = {{RP_FILE_LOSS, 0, sizeof loss}, RP_THREAD_NONE, 0, 1, 2, 3};
    union {
        struct rp_file_state state;
        unsigned char bytes[32];
    } odd = {{{RP_FILE_STATE, 0, 32}, 1000, 0, 0}};
    forge_header(&forged, RP_TRACE_VERSION, 0, 64);
    forge_block(&forged, 0, &op, sizeof op);
    forge_block(&forged, 1, &comm, sizeof comm);
    forge_block(&forged, 2, &loss, sizeof loss);
    forge_block(&forged, 3, &odd, sizeof odd);
    assert_int_equal(read_forged(&forged, &trace), RP_OK);
    assert_int_equal(trace->ops[0].op.kind, RP_OP_NONE);
    assert_int_equal(trace->ops[0].op.dtype, RP_DTYPE_UNKNOWN);
    assert_int_equal(trace->ops[0].op.redop, RP_REDOP_NONE);
    assert_int_equal(trace->ops[0].op.phase, RP_PHASE_UNKNOWN);
    assert_int_equal(trace->ops[0].op.module, RP_MODULE_UNKNOWN);
    assert_int_equal(trace->comms[0].origin, RP_COMM_INIT);
    assert_int_equal(strlen(trace->comms[0].name), RP_COMM_NAME_MAX - 1);
    assert_int_equal(trace->state_count, 0);
    assert_int_equal(trace->lost_fingerprints, 3);
    rp_trace_free(trace);

    op.thread = RP_THREAD_MAX + 1;
    forge_header(&forged, RP_TRACE_VERSION, 0, 64);
    forge_block(&forged, 0, &op, sizeof op);
    assert_int_equal(read_forged(&forged, &trace), RP_CORRUPT);
}

/* Of launches and sites. */
static void more_numbers_out_of_range(void **state)
{
    (void)state;
    struct forged forged;
    struct rp_trace *trace = NULL;
    struct rp_file_part part = {{{RP_FILE_LAUNCHES, 0, sizeof part}, .thread = 1, .count = 4}, .before = 4};
    struct rp_file_launch launch = {{RP_FILE_LAUNCH, 0, sizeof launch}, .thread = RP_THREAD_MAX + 1};
    struct rp_file_launches short_one = {{RP_FILE_LAUNCHES, 0, sizeof short_one}, .thread = RP_THREAD_MAX + 1};
    struct rp_file_site_count count = {{RP_FILE_SITE_COUNT, 0, sizeof count}, .number = UINT32_MAX, .count = 3};
    union {
        struct rp_file_site site;
        unsigned char bytes[24]; /* three texts fit behind the fields, and one more ends at the record's last byte */
    } site = {{{RP_FILE_SITE, 0, 24}, .number = RP_SITE_MAX, .source = RP_SITE_KERNEL}};
    forge_header(&forged, RP_TRACE_VERSION, 0, 64);
    forge_block(&forged, 0, &part, sizeof part);
    forge_block(&forged, 1, &site, sizeof site);
    forge_block(&forged, 2, &count, sizeof count);
    site.site.source = RP_SITE_SOURCE_COUNT; /* one of a newer version */
    forge_block(&forged, 3, &site, sizeof site);
    assert_int_equal(read_forged(&forged, &trace), RP_OK);
    assert_int_equal(trace->part_count, 1);
    assert_int_equal(trace->parts[0].count, 0);
    assert_int_equal(trace->site_count, 1);
    assert_int_equal(trace->sites[0].source, RP_SITE_KERNEL);
    assert_int_equal(trace->sites[0].count, 0);
    rp_trace_free(trace);

    part.before = 5;
    const void *const wrong[] = {&part, &launch, &short_one, &site};
    const uint32_t sizes[] = {sizeof part, sizeof launch, sizeof short_one, sizeof site};
    site.site.number = RP_SITE_MAX + 1;
    for (size_t i = 0; i < 4; i++) {
        forge_header(&forged, RP_TRACE_VERSION, 0, 64);
        forge_block(&forged, 0, wrong[i], sizes[i]);
        assert_int_equal(read_forged(&forged, &trace), RP_CORRUPT);
    }
    site.site.number = 0;
    site.site.source = RP_SITE_NATIVE;
    memset(site.bytes + 16, 'x', 8);
    for (size_t texts = 0; texts <= 4; texts++) { /* the last of them ends where the record does */
        if (texts > 0)
            site.bytes[19 + texts] = '\0';
        forge_header(&forged, RP_TRACE_VERSION, 0, 64);
        forge_block(&forged, 0, &site, sizeof site);
        assert_int_equal(read_forged(&forged, &trace), texts < 4 ? RP_CORRUPT : RP_OK);
    }
    assert_string_equal(trace->sites[0].text, "xxxx");
    assert_string_equal(trace->sites[0].phase_rule, "");
    assert_string_equal(trace->sites[0].step_rule, ""); /* of 3.1: there is no room for a fifth */
    rp_trace_free(trace);
}

static void records_that_lie(void **state)
{
    (void)state;
    static const struct rp_file_record lies[] = {
        {RP_FILE_END, 0, 0},        {RP_FILE_END, 0, 4},           {RP_FILE_END, 0, 12},
        {RP_FILE_END, 0, 40},       {RP_FILE_END, 0, 0xfffffff8u}, {RP_FILE_OP, 0, 32},
        {RP_FILE_PROCESS, 0, 32},   {RP_FILE_COMM, 0, 32},         {RP_FILE_LAUNCHES, 0, 32},
        {RP_FILE_CLOCK, 0, 16},     {RP_FILE_MODULE, 0, 8},        {RP_FILE_FINGERPRINT, 0, 32},
        {RP_FILE_KERNEL, 0, 8},     {RP_FILE_STATE, 0, 16},        {RP_FILE_LOSS, 0, 32},
        {RP_FILE_MODULE, 0, 32},    {RP_FILE_KERNEL, 0, 32},       {RP_FILE_STATE, 0, 32},
        {RP_FILE_SITE, 0, 8},       {RP_FILE_SITE, 0, 16},         {RP_FILE_SITE, 0, 32},
        {RP_FILE_LAUNCH, 0, 32},    {RP_FILE_SITE_COUNT, 0, 16},   {RP_FILE_ISSUE, 0, 32},
        {RP_FILE_ISSUE_USE, 0, 24},
    };
    rp_log_setup(RP_LOG_NONE, NULL); /* more lines than a second has */
    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        unsigned char payload[32];
        struct forged forged;
        struct rp_trace *trace = NULL;
        memset(payload, 'x', sizeof payload); /* no text in it has an end */
        memcpy(payload, &lies[i], sizeof lies[i]);
        forge_header(&forged, RP_TRACE_VERSION, 0, 64);
        forge_block(&forged, 0, payload, sizeof payload);
        assert_int_equal(read_forged(&forged, &trace), RP_CORRUPT);
    }
    rp_log_setup(RP_LOG_DEBUG, scratch.log);
    struct rp_file_record end_and_more[] = {{RP_FILE_END, 0, 8}, {200, 0, 8}};
    struct forged forged;
    struct rp_trace *trace = NULL;
    forge_header(&forged, RP_TRACE_VERSION, 0, 64);
    forge_block(&forged, 0, end_and_more, sizeof end_and_more);
    assert_int_equal(read_forged(&forged, &trace), RP_CORRUPT);
    assert_int_equal(scratch_lines_with(&scratch, "byte 96: a record follows the end"), 1);
}

/* Any byte of a payload changed and its hash made good: whatever comes of it, nothing is read out of bounds. */
static void forged_payloads_do_not_crash(void **state)
{
    (void)state;
    off_t ends[GROUPS];
    size_t size, accepted = 0, refused = 0;
    unsigned char *bytes = sample_bytes(&size, ends);
    const char *path = scratch_path(&scratch, "rank-0.rpt");
    struct rp_file_block *head = (void *)(bytes + ends[0]);
    unsigned char *payload = bytes + ends[0] + sizeof *head;
    rp_log_setup(RP_LOG_NONE, NULL);
    for (uint32_t at = 0; at < head->bytes; at++) {
        static const unsigned char flips[] = {0x01, 0x10, 0x80, 0xff};
        for (size_t i = 0; i < sizeof flips; i++) {
            struct rp_trace *trace = NULL;
            payload[at] ^= flips[i];
            head->hash = XXH64(payload, head->bytes, 0);
            head->check = (uint32_t)XXH64(head, offsetof(struct rp_file_block, check), 0);
            scratch_write(path, bytes, size);
            if (rp_trace_read(path, &trace) == RP_OK)
                accepted++;
            else
                refused++;
            rp_trace_free(trace);
            payload[at] ^= flips[i];
        }
    }
    assert_true(accepted > 0 && refused > 0);
    free(bytes);
}

/* ---------------------------------------------------------------- the writer's failures */

static void a_file_is_never_overwritten(void **state)
{
    (void)state;
    struct rp_trace_writer *writer = NULL;
    struct rp_trace_identity who = identity(2);
    scratch_write(scratch_path(&scratch, "rank-2.rpt"), "mine", 4);
    assert_int_equal(trace_file_create(scratch.path, &who, &writer), RP_EXISTS);
    char *kept = scratch_read(scratch_path(&scratch, "rank-2.rpt"), NULL);
    assert_string_equal(kept, "mine");
    free(kept);
    assert_int_equal(scratch_lines_with(&scratch, "rank-2.rpt: cannot be made: File exists"), 1);
    assert_int_equal(trace_file_create(scratch_path(&scratch, "no/where"), &who, &writer), RP_IO);
    assert_int_equal(scratch_lines_with(&scratch, "cannot be made: No such file or directory"), 1);
    assert_null(writer);
}

/* In a child: writes until the file may not grow; returns how many ops were taken before. */
static int fill_until_full(void)
{
    const struct rlimit limit = {100000, 100000};
    struct rp_trace_writer *writer = writer_make(0);
    signal(SIGXFSZ, SIG_IGN);
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0)
        return 2;
    for (uint64_t i = 0; i < 100000; i++) {
        struct rp_op op = op_at(i + 1, i);
        if (rp_trace_put_op(writer, 0, &op) == RP_OK)
            continue;
        bool broken = rp_trace_put_op(writer, 0, &op) == RP_IO && rp_trace_flush(writer) == RP_IO &&
                      rp_trace_pending(writer) == 0 && rp_trace_finish(writer) == RP_IO;
        return broken ? 0 : 3;
    }
    return 4;
}

static void a_full_disk_leaves_whole_blocks(void **state)
{
    (void)state;
    int status;
    struct rp_trace *trace = NULL;
    pid_t child = fork();
    if (child == 0)
        _exit(fill_until_full());
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_equal(scratch_lines_with(&scratch, "write failed: File too large; recording ends"), 1);
    assert_int_equal(rp_trace_read(scratch_path(&scratch, "rank-0.rpt"), &trace), RP_OK);
    assert_true(trace->op_count > 500);
    assert_false(trace->complete);
    assert_int_equal(trace->dropped_bytes, 0);
    rp_trace_free(trace);
}

static int create_where_nothing_fits(void)
{
    struct rp_trace_writer *writer = NULL;
    struct rp_trace_identity who = identity(0);
    signal(SIGXFSZ, SIG_IGN);
    if (setrlimit(RLIMIT_FSIZE, &(struct rlimit){40, 40}) != 0)
        return 2;
    return trace_file_create(scratch.path, &who, &writer) == RP_IO ? 0 : 3;
}

static void a_file_without_a_header_is_not_left(void **state)
{
    (void)state;
    int status;
    rp_log_setup(RP_LOG_NONE, NULL);
    pid_t child = fork();
    if (child == 0)
        _exit(create_where_nothing_fits());
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_not_equal(access(scratch_path(&scratch, "rank-0.rpt"), F_OK), 0);
}

static void a_removed_file_is_not_written_on(void **state)
{
    (void)state;
    struct rp_trace_writer *writer = writer_make(0);
    struct rp_op op = op_at(1, 0);
    assert_int_equal(rp_trace_put_op(writer, 0, &op), RP_OK);
    assert_int_equal(rp_trace_flush(writer), RP_OK);
    assert_int_equal(unlink(scratch_path(&scratch, "rank-0.rpt")), 0);
    assert_int_equal(rp_trace_put_op(writer, 0, &op), RP_OK);
    assert_int_equal(rp_trace_flush(writer), RP_IO);
    assert_int_equal(rp_trace_finish(writer), RP_IO);
    assert_int_equal(scratch_lines_with(&scratch, "write failed: No such file or directory; recording ends"), 1);
}

/* The program closes our descriptor and opens a file of its own under the same number. */
static void a_stolen_descriptor_is_not_written_to(void **state)
{
    (void)state;
    struct rp_trace_writer *writer = writer_make(0);
    const char *path = scratch_path(&scratch, "mine");
    scratch_write(path, "mine", 4);
    int mine = open(path, O_WRONLY | O_APPEND);
    assert_true(mine >= 0);
    char target[PATH_MAX];
    int stolen = -1;
    for (int number = 3; number < 1024 && stolen < 0; number++) {
        char link[64];
        snprintf(link, sizeof link, "/proc/self/fd/%d", number);
        ssize_t length = readlink(link, target, sizeof target - 1);
        if (length > 10 && memcmp(target + length - 10, "rank-0.rpt", 10) == 0)
            stolen = number;
    }
    assert_true(stolen >= 0);
    assert_int_equal(dup2(mine, stolen), stolen);
    struct rp_op op = op_at(1, 0);
    assert_int_equal(rp_trace_put_op(writer, 0, &op), RP_OK);
    assert_int_equal(rp_trace_flush(writer), RP_IO);
    assert_int_equal(rp_trace_finish(writer), RP_IO);
    assert_true(fcntl(stolen, F_GETFD) >= 0);
    char *kept = scratch_read(path, NULL);
    assert_string_equal(kept, "mine");
    free(kept);
    close(stolen);
    close(mine);
}

/* Records put before the file exists are kept in order, bounded, and written when it does. */
static void a_spool_is_bounded(void **state)
{
    (void)state;
    struct rp_trace *trace = NULL;
    struct rp_trace_writer *writer = NULL;
    struct rp_trace_identity who = identity(0);
    uint64_t kept = 0;
    assert_int_equal(rp_trace_spool_create(1 << 20, &writer), RP_OK);
    for (uint64_t i = 0; i < 100000; i++) {
        struct rp_op op = op_at(i + 1, i);
        enum rp_status status = rp_trace_put_op(writer, 0, &op);
        assert_true(status == RP_OK || status == RP_FULL);
        kept += status == RP_OK;
    }
    assert_true(kept > 10000 && kept < 20000);
    assert_true(rp_trace_pending(writer) <= (1 << 20) + (1 << 17));
    assert_int_equal(rp_trace_flush(writer), RP_OK);
    assert_int_equal(rp_trace_put_module(writer, 1, "late"), RP_OK);
    assert_int_equal(rp_trace_spool_attach(writer, scratch.path, &who), RP_OK);
    assert_int_equal(rp_trace_finish(writer), RP_OK);
    assert_int_equal(rp_trace_read(scratch_path(&scratch, "rank-0.rpt"), &trace), RP_OK);
    assert_int_equal(trace->op_count, kept);
    assert_true(trace->complete);
    for (uint64_t i = 0; i < kept; i++)
        assert_int_equal(trace->ops[i].op.position, i);
    rp_trace_free(trace);
}

/* ---------------------------------------------------------------- runs, size */

static void a_run_is_sorted_by_rank(void **state)
{
    (void)state;
    struct rp_trace_run run;
    assert_int_equal(rp_trace_run_read(scratch.path, &run), RP_NOT_FOUND);
    assert_int_equal(scratch_lines_with(&scratch, "holds no trace"), 1);
    assert_int_equal(rp_trace_run_read(scratch_path(&scratch, "absent"), &run), RP_NOT_FOUND);
    static const int32_t ranks[] = {10, 2, 0, 9, 1};
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(rp_trace_finish(writer_make(ranks[i])), RP_OK);
    scratch_write(scratch_path(&scratch, "rank-x.rpt"), "x", 1);
    scratch_write(scratch_path(&scratch, "rank-3.rpt~"), "x", 1);
    scratch_write(scratch_path(&scratch, "job"), "key\n", 4);
    assert_int_equal(rp_trace_run_read(scratch.path, &run), RP_OK);
    assert_int_equal(run.count, 5);
    static const int32_t sorted[] = {0, 1, 2, 9, 10};
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(run.ranks[i]->identity.rank, sorted[i]);
    rp_trace_run_free(&run);
    assert_int_equal(run.count, 0);

    struct rp_trace_files files;
    assert_int_equal(rp_trace_files_list(scratch.path, &files), RP_OK);
    assert_int_equal(files.count, 5);
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(files.of[i].rank, sorted[i]);
    rp_trace_files_free(&files);
    assert_int_equal(rp_trace_files_list(scratch_path(&scratch, "rank-9.rpt"), &files), RP_OK);
    assert_int_equal(files.count, 1);
    assert_int_equal(files.of[0].rank, 9);
    rp_trace_files_free(&files);
    assert_int_equal(rp_trace_run_read(scratch_path(&scratch, "rank-9.rpt"), &run), RP_OK);
    assert_int_equal(run.count, 1);
    rp_trace_run_free(&run);
}

static void count_files(void *argument, size_t done, size_t total)
{
    size_t *seen = argument;
    assert_int_equal(done, *seen);
    assert_int_equal(total, 4);
    ++*seen;
}

/* What a process leaves that was killed as it made its file, or one of another version, must not keep others from it.
 */
static void a_rank_that_cannot_be_read_is_listed(void **state)
{
    (void)state;
    struct rp_trace_run run;
    scratch_write(scratch_path(&scratch, "rank-4.rpt"), "RPTR", 4);
    assert_int_equal(rp_trace_run_read(scratch_path(&scratch, "rank-4.rpt"), &run), RP_TRUNCATED);
    assert_int_equal(rp_trace_run_read(scratch.path, &run), RP_TRUNCATED);
    assert_int_equal(scratch_lines_with(&scratch, "holds no trace"), 0);
    assert_int_equal(rp_trace_finish(writer_make(1)), RP_OK);
    assert_int_equal(rp_trace_run_read(scratch.path, &run), RP_OK);
    assert_int_equal(run.count, 1);
    assert_int_equal(run.ranks[0]->identity.rank, 1);
    assert_int_equal(run.unread_count, 1);
    assert_int_equal(run.unread[0].rank, 4);
    assert_string_equal(run.unread[0].cause, "byte 4: the file ends inside its header");
    rp_trace_run_free(&run);
    assert_int_equal(scratch_lines_with(&scratch, "rank-4.rpt: byte 4: the file ends inside its header"), 3);
    scratch_write(scratch_path(&scratch, "rank-5.rpt"), "x", 1);
    scratch_write(scratch_path(&scratch, "rank-6.rpt"),
                  "not a trace, but longer than the header of one would be.........", 64);
    size_t seen = 0;
    assert_int_equal(rp_trace_run_read_watched(scratch.path, count_files, &seen, &run), RP_OK);
    assert_int_equal(seen, 4);
    assert_int_equal(run.count, 1);
    assert_int_equal(run.unread_count, 3);
    assert_int_equal(run.unread[2].rank, 6);
    assert_string_equal(run.unread[2].cause, "byte 0: not a trace");
    rp_trace_run_free(&run);
    assert_int_equal(run.unread_count, 0);
    assert_int_equal(scratch_lines_with(&scratch, "rank-6.rpt: byte 0: not a trace"), 1);
    assert_int_equal(unlink(scratch_path(&scratch, "rank-1.rpt")), 0);
    assert_int_equal(rp_trace_run_read(scratch.path, &run), RP_TRUNCATED); /* the first one's */
}

#define MANY 1000000u

/* A million ops, from two threads that interleave, each with launches and a fingerprint that come later. */
static void a_million_ops(void **state)
{
    (void)state;
    struct rp_trace *trace = NULL;
    struct rp_trace_writer *writer = writer_make(0);
    assert_int_equal(sizeof(struct rp_trace_op), 96);
    for (uint64_t i = 0; i < MANY; i++) {
        struct rp_op op = op_at((i ^ 3) + 1, i);
        assert_int_equal(rp_trace_put_op(writer, (uint32_t)(i % 2), &op), RP_OK);
        assert_int_equal(rp_trace_put_launches(writer, (uint32_t)(i % 2), (i ^ 3) + 1, i % 100, i), RP_OK);
        if (i % 1000 == 999)
            for (uint64_t j = i - 999; j <= i; j++)
                rp_trace_put_fingerprint(writer, 3, j, (const uint64_t[2]){j, ~j});
    }
    assert_int_equal(rp_trace_finish(writer), RP_OK);
    assert_int_equal(rp_trace_read(scratch_path(&scratch, "rank-0.rpt"), &trace), RP_OK);
    assert_int_equal(trace->op_count, MANY);
    size_t wrong = 0;
    for (uint64_t i = 0; i < MANY; i++) {
        const struct rp_trace_op *op = &trace->ops[i];
        uint64_t put = i ^ 3; /* the order they were put in */
        wrong += op->op.begin != i + 1 || op->op.position != put || op->launches != put % 100 ||
                 op->launch_digest != put || !op->has_fingerprint || op->fingerprint[0] != put ||
                 op->fingerprint[1] != ~put;
    }
    assert_int_equal(wrong, 0);
    assert_int_equal(assert_lean_alike(scratch_path(&scratch, "rank-0.rpt"), trace), 0);
    rp_trace_free(trace);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        TEST(what_is_put_comes_out),
        TEST(replay_is_kept),
        TEST(ops_are_in_order_and_own_their_launches),
        TEST(stretches_around_allocations),
        TEST(a_clock_that_was_set),
        TEST(launches_without_an_op_are_kept),
        TEST(launches_before_the_first_op_of_a_thread_belong_to_the_op_of_another),
        TEST(long_texts_are_cut),
        TEST(cut_anywhere_is_a_good_part),
        TEST(every_flipped_byte_is_seen),
        TEST(damage_is_named),
        TEST(a_missing_block_is_seen),
        TEST(versions),
        TEST(numbers_out_of_range),
        TEST(more_numbers_out_of_range),
        TEST(records_that_lie),
        TEST(forged_payloads_do_not_crash),
        TEST(a_file_is_never_overwritten),
        TEST(a_full_disk_leaves_whole_blocks),
        TEST(a_file_without_a_header_is_not_left),
        TEST(a_removed_file_is_not_written_on),
        TEST(a_stolen_descriptor_is_not_written_to),
        TEST(a_spool_is_bounded),
        TEST(a_run_is_sorted_by_rank),
        TEST(a_rank_that_cannot_be_read_is_listed),
        TEST(a_million_ops),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
