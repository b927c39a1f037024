/* The recorder: from rings to a trace, the run's directory, and all that may go wrong on the way. */
#include "core/record/recorder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "core/clock.h"
#include "core/lane.h"
#include "core/record/recorder_mail.h"
#include "core/trace/trace_format.h"
#include "tests/unit/scratch.h"

static struct scratch scratch;

/* There is one recorder a process, so each case runs in a child, which must end by itself. */
#define CHECK(condition)                                                    \
    do {                                                                    \
        if (!(condition)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            _exit(1);                                                       \
        }                                                                   \
    } while (0)

#define LIVENESS_S 120 /* nothing here may take so long on any machine */

static pid_t child_start(void (*body)(void))
{
    pid_t child = fork();
    if (child == 0) {
        alarm(LIVENESS_S);
        body();
        _exit(0);
    }
    return child;
}

static void child_ends_well(pid_t child)
{
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void in_child(void (*body)(void))
{
    child_ends_well(child_start(body));
}

static int setup(void **state)
{
    (void)state;
    scratch_make(&scratch);
    return chdir(scratch.path);
}

static int teardown(void **state)
{
    (void)state;
    scratch_remove(&scratch);
    return chdir("/");
}

/* ---------------------------------------------------------------- what the shim would do */

static struct rp_modules *modules;
static _Atomic unsigned names_asked;

static const char *kernel_name(uint64_t function)
{
    static const char *const names[] = {"gemm", "add", NULL, "copy"};
    names_asked++;
    return names[function % 4];
}

static struct rp_recorder_options options(const char *directory)
{
    if (modules == NULL)
        CHECK(rp_modules_create(&modules) == RP_OK);
    return (struct rp_recorder_options){.directory = directory, .modules = modules, .kernel_name = kernel_name};
}

static void start(const char *directory)
{
    struct rp_recorder_options how = options(directory);
    CHECK(rp_recorder_start(&how) == RP_OK);
}

static struct rp_op op_make(uint64_t position)
{
    return (struct rp_op){.kind = RP_OP_ALL_GATHER,
                          .dtype = RP_DTYPE_FLOAT32,
                          .redop = RP_REDOP_NONE,
                          .root = -1,
                          .comm = 0,
                          .position = position,
                          .begin = rp_ticks(),
                          .end = rp_ticks(),
                          .count = 10};
}

static void push(uint64_t position)
{
    struct rp_op op = op_make(position);
    struct rp_ring *ring = rp_recorder_ring();
    CHECK(ring != NULL);
    CHECK(rp_ring_push_op(ring, &op));
}

/* Until the first op is in the file of rank 0. */
static void wait_for_op(void)
{
    struct stat info = {0};
    for (int i = 0; i < 600 && info.st_size < 500; i++) {
        usleep(50000);
        stat("out/rank-0.rpt", &info);
    }
}

static bool launch(uint64_t function, uint32_t grid)
{
    union rp_record *slot = rp_ring_reserve(rp_recorder_ring(), RP_RECORD_LAUNCH);
    if (slot == NULL)
        return false;
    slot->launch =
        (struct rp_launch){.type = RP_RECORD_LAUNCH, .block = {32, 1, 1}, .grid = {grid, 1, 1}, .function = function};
    rp_ring_commit(rp_recorder_my_ring);
    return true;
}

static struct rp_trace *read_rank(const char *file)
{
    struct rp_trace *trace = NULL;
    assert_int_equal(rp_trace_read(scratch_path(&scratch, file), &trace), RP_OK);
    return trace;
}

/* The directories named reprise-*; returns how many, the name of the last in `name`. */
static unsigned run_directories(char name[256])
{
    DIR *directory = opendir(scratch.path);
    const struct dirent *entry;
    unsigned count = 0;
    while (directory != NULL && (entry = readdir(directory)) != NULL)
        if (strncmp(entry->d_name, "reprise-", 8) == 0) {
            snprintf(name, 256, "%.250s", entry->d_name);
            count++;
        }
    if (directory != NULL)
        closedir(directory);
    return count;
}

/* True if one of the directories here holds `file`; its path is then in `directory`. */
static bool find_run_with(const char *file, char directory[600])
{
    DIR *here = opendir(scratch.path);
    const struct dirent *entry;
    bool found = false;
    while (!found && (entry = readdir(here)) != NULL) {
        char path[900];
        snprintf(directory, 600, "%s/%s", scratch.path, entry->d_name);
        snprintf(path, sizeof path, "%s/%s", directory, file);
        found = access(path, F_OK) == 0;
    }
    closedir(here);
    return found;
}

/* ---------------------------------------------------------------- content */

static void record_some(void)
{
    static const char layer[] = "layers.0";
    start("out");
    struct rp_trace_comm comm = {.number = 0, .nranks = 2, .rank = 0, .parent = RP_NO_COMM, .name = "world"};
    launch(0, 9); /* before the first op */
    rp_recorder_comm(&comm);
    rp_recorder_identify(0, 2, "job");
    uint32_t module = rp_module_intern(modules, layer, strlen(layer));
    for (uint64_t i = 0; i < 100; i++) {
        struct rp_op op = op_make(i);
        op.module = module;
        if (i == 5) { /* served by a gather ahead */
            op.flags = RP_OP_VOTED | RP_OP_HIT | RP_OP_AHEAD;
            rp_ring_push_issue(rp_recorder_ring(), &(struct rp_issue){.number = 1, .begin = op.begin - 1});
            rp_ring_push_issue_use(rp_recorder_ring(), &(struct rp_issue_use){.number = 1, .position = i});
        }
        CHECK(rp_ring_push_op(rp_recorder_ring(), &op));
        for (uint64_t j = 0; j < i % 7; j++)
            launch(j, 5);
    }
    rp_recorder_state(RP_STATE_COMM_DESTROYED, 0, "gone");
    rp_recorder_stop(0);
    CHECK(names_asked == 6); /* once a function */
    rp_recorder_stop(0);
    CHECK(rp_recorder_start(&(struct rp_recorder_options){0}) == RP_INVALID);
}

static void ops_and_launches_reach_the_trace(void **state)
{
    (void)state;
    in_child(record_some);
    struct rp_trace *trace = read_rank("out/rank-0.rpt");
    assert_true(trace->complete);
    assert_int_equal(trace->op_count, 100);
    for (unsigned i = 0; i < 100; i++) {
        assert_int_equal(trace->ops[i].op.position, i);
        assert_int_equal(trace->ops[i].launches, i % 7);
        assert_int_equal(trace->ops[i].launch_digest, trace->ops[i % 7].launch_digest);
        assert_false(trace->ops[i].lossy);
        assert_string_equal(rp_module_name(trace->modules, trace->ops[i].op.module), "layers.0");
    }
    assert_int_not_equal(trace->ops[1].launch_digest, trace->ops[2].launch_digest);
    assert_int_equal(trace->issue_count, 1);
    assert_int_equal(trace->issues[0].op, 5);
    assert_string_equal(rp_trace_find_comm(trace, 0)->name, "world");
    assert_int_equal(trace->state_count, 1);
    assert_int_equal(trace->states[0].state, RP_STATE_COMM_DESTROYED);
    assert_string_equal(trace->states[0].text, "gone");
    assert_int_equal(trace->identity.nranks, 2);
    assert_true(trace->identity.ticks_per_second > 1000000);
    assert_true(trace->ns_per_tick > 0);
    assert_int_equal(trace->lost_ops + trace->lost_launches + trace->lost_fingerprints, 0);
    rp_trace_free(trace);
    char *job = scratch_read(scratch_path(&scratch, "out/job"), NULL);
    assert_string_equal(job, "job\n");
    free(job);
}

/* What a stretch's digest tells apart, and what not: a name at another address is the same. */
static void digest_body(void)
{
    static const uint64_t functions[][2] = {{0, 1}, {4, 5}, {1, 0}, {0, 3}, {2, 1}, {6, 1}, {0, 1}};
    start("out");
    rp_recorder_identify(0, 1, "job");
    for (uint64_t i = 0; i < 7; i++) {
        push(i);
        launch(functions[i][0], 1);
        launch(functions[i][1], i == 6 ? 2 : 1);
    }
    rp_recorder_stop(0);
}

static void digests_tell_launches_apart(void **state)
{
    (void)state;
    in_child(digest_body);
    struct rp_trace *trace = read_rank("out/rank-0.rpt");
    uint64_t digests[7];
    for (int i = 0; i < 7; i++)
        digests[i] = trace->ops[i].launch_digest;
    assert_int_equal(digests[0], digests[1]);     /* other addresses, the same names */
    assert_int_not_equal(digests[0], digests[2]); /* another order */
    assert_int_not_equal(digests[0], digests[3]); /* another name */
    assert_int_equal(digests[4], digests[5]);     /* no name is one name */
    assert_int_not_equal(digests[0], digests[6]); /* another grid */
    rp_trace_free(trace);
}

static void allocation_body(void)
{
    start("out");
    rp_recorder_identify(0, 1, "job");
    for (uint64_t i = 0; i < 2; i++) {
        push(i);
        launch(1, 5);
        launch(2, 5);
        struct rp_op allocation = op_make(RP_NO_POSITION);
        allocation.kind = RP_OP_MALLOC;
        if (i == 1)
            CHECK(rp_ring_push_op(rp_recorder_ring(), &allocation));
        launch(3, 5);
    }
    rp_recorder_stop(0);
}

/* A framework allocates when its own allocator runs dry: the launches around it are one stretch all the same. */
static void allocations_do_not_cut_launches(void **state)
{
    (void)state;
    in_child(allocation_body);
    struct rp_trace *trace = read_rank("out/rank-0.rpt");
    assert_int_equal(trace->op_count, 3);
    assert_int_equal(trace->ops[0].launches, 3);
    assert_int_equal(trace->ops[1].launches, 3);
    assert_int_equal(trace->ops[1].launch_digest, trace->ops[0].launch_digest);
    assert_int_equal(trace->ops[2].op.kind, RP_OP_MALLOC);
    assert_int_equal(trace->ops[2].launches, 0);
    rp_trace_free(trace);
}

/* ---------------------------------------------------------------- whose launches, and what was seen */

static uint32_t intern(const char *name)
{
    return rp_module_intern(modules, name, strlen(name));
}

static const struct rp_rule add_rule = {.source = RP_RULE_KERNEL, .pattern = "add"};
static const struct rp_rule copy_rule = {.source = RP_RULE_KERNEL, .pattern = "copy"};

/* "add" has a module and a phase of its own, "copy" a phase. */
static struct rp_kernel_rules kernel_rules(const char *name)
{
    if (strcmp(name, "add") == 0)
        return (struct rp_kernel_rules){{intern("adder"), RP_PHASE_OPTIMIZER}, &add_rule, &add_rule};
    if (strcmp(name, "copy") == 0)
        return (struct rp_kernel_rules){{RP_MODULE_UNKNOWN, RP_PHASE_OTHER}, NULL, &copy_rule};
    return (struct rp_kernel_rules){0};
}

static struct rp_seen *start_with_rules(bool single_launches)
{
    struct rp_recorder_options how = options("out");
    CHECK(rp_seen_create(&how.seen) == RP_OK);
    how.kernel_rules = kernel_rules;
    how.single_launches = single_launches;
    CHECK(rp_recorder_start(&how) == RP_OK);
    return how.seen;
}

enum { GEMM, ADD, NAMELESS, COPY };

static void push_named(uint64_t position, const char *module, enum rp_phase phase)
{
    struct rp_op op = op_make(position);
    op.module = intern(module);
    op.phase = (uint8_t)phase;
    CHECK(rp_ring_push_op(rp_recorder_ring(), &op));
}

static void launch_all(const uint64_t *functions, size_t count)
{
    for (size_t i = 0; i < count; i++)
        CHECK(launch(functions[i], 1));
}

static void parts_body(void)
{
    static const uint64_t early[] = {GEMM, ADD}, mixed[] = {GEMM, GEMM, ADD, COPY, NAMELESS, ADD}, plain[] = {GEMM};
    start_with_rules(false);
    rp_recorder_identify(0, 1, "job");
    launch_all(early, 2);
    push_named(0, "layers.0", RP_PHASE_FORWARD);
    launch_all(mixed, 6);
    push_named(1, "layers.1", RP_PHASE_BACKWARD);
    launch_all(plain, 1);
    rp_recorder_stop(0);
}

static void a_part_is(const struct rp_trace *trace, size_t index, uint32_t op, uint64_t count, const char *module,
                      enum rp_phase phase)
{
    const struct rp_trace_part *part = &trace->parts[index];
    assert_int_equal(part->op, op);
    assert_int_equal(part->count, count);
    assert_string_equal(rp_module_name(trace->modules, part->event.module), module);
    assert_int_equal(part->event.phase, phase);
}

static void launches_belong_to_the_op_before_or_to_their_rule(void **state)
{
    (void)state;
    in_child(parts_body);
    struct rp_trace *trace = read_rank("out/rank-0.rpt");
    assert_int_equal(trace->part_count, 8);
    a_part_is(trace, 0, RP_TRACE_NO_OP, 1, "-", RP_PHASE_UNKNOWN);
    a_part_is(trace, 1, RP_TRACE_NO_OP, 1, "adder", RP_PHASE_OPTIMIZER);
    a_part_is(trace, 2, 0, 2, "layers.0", RP_PHASE_FORWARD);
    a_part_is(trace, 3, 0, 1, "adder", RP_PHASE_OPTIMIZER);
    a_part_is(trace, 4, 0, 1, "layers.0", RP_PHASE_OTHER);
    a_part_is(trace, 5, 0, 1, "layers.0", RP_PHASE_FORWARD);
    a_part_is(trace, 6, 0, 1, "adder", RP_PHASE_OPTIMIZER);
    a_part_is(trace, 7, 1, 1, "layers.1", RP_PHASE_BACKWARD);
    assert_int_equal(trace->ops[0].launches, 6);
    assert_int_equal(trace->launch_count, 0);
    rp_trace_free(trace);
}

/* Where the thread goes on: until its next op, and what rules say of a kernel counts before it. */
static void places_body(void)
{
    static const uint64_t mixed[] = {GEMM, COPY, ADD, GEMM}, plain[] = {GEMM};
    start_with_rules(false);
    rp_recorder_identify(0, 1, "job");
    push_named(0, "layers.2", RP_PHASE_BACKWARD);
    rp_ring_push_place(rp_recorder_ring(), (struct rp_event){intern("layers.3"), RP_PHASE_BACKWARD});
    launch_all(mixed, 4);
    push_named(1, "layers.1", RP_PHASE_BACKWARD);
    rp_ring_push_place(rp_recorder_ring(), (struct rp_event){intern("layers.2"), RP_PHASE_RECOMPUTE});
    push_named(2, "layers.0", RP_PHASE_BACKWARD);
    launch_all(plain, 1);
    rp_recorder_stop(0);
}

static void launches_belong_to_where_their_thread_goes_on(void **state)
{
    (void)state;
    in_child(places_body);
    struct rp_trace *trace = read_rank("out/rank-0.rpt");
    assert_int_equal(trace->part_count, 5);
    a_part_is(trace, 0, 0, 1, "layers.3", RP_PHASE_BACKWARD);
    a_part_is(trace, 1, 0, 1, "layers.3", RP_PHASE_OTHER);
    a_part_is(trace, 2, 0, 1, "adder", RP_PHASE_OPTIMIZER);
    a_part_is(trace, 3, 0, 1, "layers.3", RP_PHASE_BACKWARD);
    a_part_is(trace, 4, 2, 1, "layers.0", RP_PHASE_BACKWARD);
    assert_int_equal(trace->ops[0].launches, 4);
    assert_string_equal(rp_module_name(trace->modules, trace->ops[0].op.module), "layers.2");
    rp_trace_free(trace);
}

/* Written now and then while it grows, a part stays one. */
static void growing_body(void)
{
    struct rp_recorder_options how = options("out");
    how.flush_ms = 1;
    how.kernel_rules = kernel_rules;
    CHECK(rp_recorder_start(&how) == RP_OK);
    rp_recorder_identify(0, 1, "job");
    push_named(0, "layers.0", RP_PHASE_FORWARD);
    for (uint64_t i = 0; i < 40; i++) {
        CHECK(launch(i < 20 ? GEMM : ADD, 1));
        usleep(3000);
    }
    rp_recorder_stop(0);
}

static void a_part_that_grows_stays_one(void **state)
{
    (void)state;
    in_child(growing_body);
    struct rp_trace *trace = read_rank("out/rank-0.rpt");
    assert_int_equal(trace->part_count, 2);
    a_part_is(trace, 0, 0, 20, "layers.0", RP_PHASE_FORWARD);
    a_part_is(trace, 1, 0, 20, "adder", RP_PHASE_OPTIMIZER);
    assert_int_equal(trace->ops[0].launches, 40);
    rp_trace_free(trace);
}

static void single_body(void)
{
    static const uint64_t before[] = {COPY}, behind[] = {GEMM, ADD};
    start_with_rules(true);
    rp_recorder_identify(0, 1, "job");
    launch_all(before, 1);
    push_named(0, "layers.0", RP_PHASE_FORWARD);
    launch_all(behind, 2);
    rp_recorder_stop(0);
}

static void single_launches_are_recorded_where_asked_for(void **state)
{
    static const struct {
        uint32_t op;
        const char *kernel, *module;
        enum rp_phase phase;
    } expected[] = {{RP_TRACE_NO_OP, "copy", "-", RP_PHASE_OTHER},
                    {0, "gemm", "layers.0", RP_PHASE_FORWARD},
                    {0, "add", "adder", RP_PHASE_OPTIMIZER}};
    (void)state;
    in_child(single_body);
    struct rp_trace *trace = read_rank("out/rank-0.rpt");
    assert_int_equal(trace->launch_count, 3);
    for (size_t i = 0; i < 3; i++) {
        const struct rp_trace_launch *single = &trace->launches[i];
        assert_int_equal(single->op, expected[i].op);
        assert_string_equal(rp_trace_kernel_name(trace, single->kernel), expected[i].kernel);
        assert_string_equal(rp_module_name(trace->modules, single->event.module), expected[i].module);
        assert_int_equal(single->event.phase, expected[i].phase);
        assert_int_equal(single->grid[0], 1);
        assert_int_equal(single->block[0], 32);
    }
    assert_int_equal(trace->ops[0].launches, 2);
    rp_trace_free(trace);
}

static void sites_body(void)
{
    static const uint64_t functions[] = {GEMM, ADD, GEMM, NAMELESS, 4 + GEMM};
    struct rp_seen *seen = start_with_rules(false);
    uint32_t frame = rp_seen_note(seen, RP_RULE_PYTHON, "Model.forward", "train.py", NULL, NULL, &copy_rule);
    rp_recorder_identify(0, 1, "job");
    push(0);
    wait_for_op();
    rp_seen_count(seen, frame);
    rp_seen_count(seen, frame);
    rp_seen_count(seen, rp_seen_note(seen, RP_RULE_NVTX, "forward", "mine", &add_rule, NULL, NULL));
    launch_all(functions, 5);
    rp_recorder_stop(0);
}

static void what_was_seen_reaches_the_trace(void **state)
{
    static const struct {
        const char *text, *where;
        enum rp_site_source source;
        uint64_t count;
        bool module_rule, phase_rule, step_rule;
    } expected[] = {{"Model.forward", "train.py", RP_SITE_PYTHON, 2, false, false, true},
                    {"forward", "mine", RP_SITE_NVTX, 1, true, false, false},
                    {"gemm", "", RP_SITE_KERNEL, 3, false, false, false},
                    {"add", "", RP_SITE_KERNEL, 1, true, true, false},
                    {"?", "", RP_SITE_KERNEL, 1, false, false, false}};
    (void)state;
    in_child(sites_body);
    struct rp_trace *trace = read_rank("out/rank-0.rpt");
    assert_int_equal(trace->site_count, 5);
    for (size_t i = 0; i < 5; i++) {
        const struct rp_trace_site *site = &trace->sites[i];
        assert_string_equal(site->text, expected[i].text);
        assert_string_equal(site->where, expected[i].where);
        assert_int_equal(site->source, expected[i].source);
        assert_int_equal(site->count, expected[i].count);
        assert_int_equal(site->module_rule[0] != '\0', expected[i].module_rule);
        assert_int_equal(site->phase_rule[0] != '\0', expected[i].phase_rule);
        assert_int_equal(site->step_rule[0] != '\0', expected[i].step_rule);
    }
    rp_trace_free(trace);
}

static void names_body(void)
{
    struct rp_recorder_options how = options("out");
    how.flush_ms = 1;
    CHECK(rp_recorder_start(&how) == RP_OK);
    rp_recorder_identify(0, 1, "job");
    for (uint32_t i = 0; i < 40; i++) {
        char name[32];
        snprintf(name, sizeof name, "layers.%u", i);
        struct rp_op op = op_make(i);
        op.module = rp_module_intern(modules, name, strlen(name));
        op.comm = i;
        rp_recorder_comm(&(struct rp_trace_comm){.number = i, .nranks = 1});
        CHECK(rp_ring_push_op(rp_recorder_ring(), &op));
        usleep(3000);
    }
    rp_recorder_stop(0);
}

/* However short the trace is cut, no op in it lacks its communicator or its module. */
static void names_go_before_their_ops(void **state)
{
    (void)state;
    in_child(names_body);
    const char *path = scratch_path(&scratch, "out/rank-0.rpt");
    struct stat info;
    size_t shortened = 0;
    assert_int_equal(stat(path, &info), 0);
    for (off_t length = info.st_size; length >= 64; length -= 8) {
        struct rp_trace *trace = NULL;
        assert_int_equal(truncate(path, length), 0);
        assert_int_equal(rp_trace_read(path, &trace), RP_OK);
        shortened += trace->op_count < 40;
        for (size_t i = 0; i < trace->op_count; i++) {
            char name[32];
            snprintf(name, sizeof name, "layers.%zu", i);
            assert_string_equal(rp_module_name(trace->modules, trace->ops[i].op.module), name);
            assert_non_null(rp_trace_find_comm(trace, (uint32_t)i));
        }
        rp_trace_free(trace);
    }
    assert_true(shortened > 40);
}

static _Atomic unsigned polls;

static enum rp_fingerprint_state fingerprint(uint32_t comm, uint64_t position, uint64_t value_out[2])
{
    polls++;
    if (position % 5 == 4)
        return RP_FINGERPRINT_LOST;
    if (position >= 90 || polls < 200)
        return RP_FINGERPRINT_PENDING;
    value_out[0] = position;
    value_out[1] = comm;
    return RP_FINGERPRINT_READY;
}

static void fingerprints_body(void)
{
    struct rp_recorder_options how = options("out");
    how.fingerprint = fingerprint;
    CHECK(rp_recorder_start(&how) == RP_OK);
    rp_recorder_identify(0, 1, "job");
    for (uint64_t i = 0; i < 100; i++) {
        struct rp_op op = op_make(i);
        op.flags = i == 50 ? 0 : RP_OP_FINGERPRINTED;
        CHECK(rp_ring_push_op(rp_recorder_ring(), &op));
    }
    rp_recorder_stop(300);
}

static void fingerprints_come_late_or_are_counted(void **state)
{
    (void)state;
    in_child(fingerprints_body);
    struct rp_trace *trace = read_rank("out/rank-0.rpt");
    size_t have = 0;
    for (size_t i = 0; i < 100; i++) {
        have += trace->ops[i].has_fingerprint;
        assert_int_equal(trace->ops[i].has_fingerprint, i < 90 && i % 5 != 4 && i != 50);
        if (trace->ops[i].has_fingerprint)
            assert_int_equal(trace->ops[i].fingerprint[0], i);
    }
    assert_int_equal(trace->lost_fingerprints, 99 - have);
    assert_true(trace->complete);
    rp_trace_free(trace);
}

static _Atomic uint64_t launched, launch_lost;

static void *storm(void *argument)
{
    for (uint64_t i = 0; i < 200; i++) {
        push(i);
        for (uint64_t j = 0; j < 2000; j++)
            if (launch(j % 4, 1))
                launched++;
            else
                launch_lost++;
        if (i % 50 == 49)
            usleep(30000); /* room for ops */
    }
    return argument;
}

static void storm_body(void)
{
    pthread_t threads[2];
    start("out");
    rp_recorder_identify(0, 1, "job");
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, storm, NULL) == 0);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    rp_recorder_stop(0);
    char counts[64];
    int length = snprintf(counts, sizeof counts, "%lu %lu", (unsigned long)launched, (unsigned long)launch_lost);
    scratch_write("counts", counts, (size_t)length);
}

/* Far more launches than rings hold: none vanishes uncounted, no op is lost, and a whole stretch is never doubted. */
static void a_storm_of_launches_is_accounted_for(void **state)
{
    (void)state;
    unsigned long pushed, lost;
    in_child(storm_body);
    char *counts = scratch_read("counts", NULL);
    assert_int_equal(sscanf(counts, "%lu %lu", &pushed, &lost), 2);
    free(counts);
    struct rp_trace *trace = read_rank("out/rank-0.rpt");
    uint64_t folded = 0;
    assert_int_equal(trace->op_count, 400);
    assert_int_equal(trace->lost_ops, 0);
    assert_int_equal(trace->lost_launches, lost);
    for (size_t i = 0; i < trace->op_count; i++) {
        folded += trace->ops[i].launches;
        if (!trace->ops[i].lossy)
            assert_int_equal(trace->ops[i].launches, 2000);
    }
    assert_int_equal(folded, pushed);
    rp_trace_free(trace);
}

/* ---------------------------------------------------------------- threads that come and go */

static void *one_op(void *position)
{
    push((uint64_t)(uintptr_t)position);
    launch(0, 1);
    return NULL;
}

static void *my_ring(void *unused)
{
    (void)unused;
    return rp_recorder_ring();
}

static bool seen_before(void *const *rings, unsigned count, const void *ring)
{
    for (unsigned i = 0; i < count; i++)
        if (rings[i] == ring)
            return true;
    return false;
}

static void recycled_body(void)
{
    enum { TRIES = 500 };
    void *rings[TRIES], *ring = NULL;
    pthread_t thread;
    start("out");
    rp_recorder_identify(0, 1, "job");
    for (uint64_t i = 0; i < 64; i++) {
        CHECK(pthread_create(&thread, NULL, one_op, (void *)(uintptr_t)i) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
    }
    bool again = false; /* once the background thread has seen the end of one, a later thread gets its ring */
    for (unsigned count = 0; count < TRIES && !again; count++) {
        usleep(20000);
        CHECK(pthread_create(&thread, NULL, my_ring, NULL) == 0);
        CHECK(pthread_join(thread, &ring) == 0);
        again = seen_before(rings, count, ring);
        rings[count] = ring;
    }
    CHECK(again);
    rp_recorder_stop(0);
}

static void rings_of_ended_threads_are_used_again(void **state)
{
    (void)state;
    in_child(recycled_body);
    struct rp_trace *trace = read_rank("out/rank-0.rpt");
    assert_int_equal(trace->op_count, 64);
    for (size_t i = 0; i < 64; i++) {
        assert_int_equal(trace->ops[i].op.position, i);
        assert_int_equal(trace->ops[i].launches, 1);
    }
    rp_trace_free(trace);
}

static bool memory_is_out;

/* In the place of the C library's, for rings: a real limit would hit what belongs to sanitizers too. */
void *mmap(void *address, size_t length, int protection, int flags, int descriptor, off_t offset)
{
    if (!memory_is_out)
        return (void *)syscall(SYS_mmap, address, length, protection, flags, descriptor, offset);
    errno = ENOMEM;
    return MAP_FAILED;
}

static void *without_ring(void *unused)
{
    (void)unused;
    for (int i = 0; i < 1000; i++)
        CHECK(rp_recorder_ring() == NULL);
    return NULL;
}

static void refused_body(void)
{
    pthread_t threads[2];
    start("out");
    rp_recorder_identify(0, 1, "job");
    push(0);
    memory_is_out = true;
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, without_ring, NULL) == 0);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    memory_is_out = false;
    push(1);
    rp_recorder_stop(0);
}

static void threads_without_a_ring_are_said_once(void **state)
{
    (void)state;
    in_child(refused_body);
    assert_int_equal(scratch_lines_with(&scratch, "no ring for a thread"), 1);
    assert_int_equal(scratch_lines_with(&scratch, "dropped"), 0);
    struct rp_trace *trace = read_rank("out/rank-0.rpt");
    assert_int_equal(trace->op_count, 2);
    assert_true(trace->state_count >= 1);
    const struct rp_trace_change *last = &trace->states[trace->state_count - 1];
    assert_int_equal(last->state, RP_STATE_THREADS_LEFT_OUT);
    assert_string_equal(last->text, "2 so far");
    rp_trace_free(trace);
}

static pthread_key_t late_key;

static void late_destructor(void *value)
{
    (void)value;
    push(7);
}

static void *late_thread(void *unused)
{
    (void)unused;
    pthread_setspecific(late_key, "x");
    push(6);
    return NULL;
}

static void late_body(void)
{
    pthread_t thread;
    start("out");
    CHECK(pthread_key_create(&late_key, late_destructor) == 0); /* runs after the recorder's */
    rp_recorder_identify(0, 1, "job");
    CHECK(pthread_create(&thread, NULL, late_thread, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    rp_recorder_stop(0);
}

static void what_destructors_issue_is_recorded(void **state)
{
    (void)state;
    in_child(late_body);
    struct rp_trace *trace = read_rank("out/rank-0.rpt");
    assert_int_equal(trace->op_count, 2);
    assert_int_equal(trace->ops[0].thread, trace->ops[1].thread);
    rp_trace_free(trace);
}

static _Atomic int signals_seen;

static void count_signal(int number)
{
    (void)number;
    signals_seen++;
}

static void signals_body(void)
{
    sigset_t set, pending;
    signal(SIGUSR1, count_signal);
    start("out");
    rp_recorder_identify(0, 1, "job");
    push(0); /* the thread exists from here on */
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    CHECK(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
    CHECK(kill(getpid(), SIGUSR1) == 0);
    usleep(50000);
    CHECK(signals_seen == 0);
    CHECK(sigpending(&pending) == 0 && sigismember(&pending, SIGUSR1) == 1);
    rp_recorder_stop(0);
}

static void handlers_never_run_on_our_thread(void **state)
{
    (void)state;
    in_child(signals_body);
}

/* ---------------------------------------------------------------- killed, stopped, forked */

struct progress {
    _Atomic uint64_t pushed;
};
static struct progress *progress;

static void record_until_killed(void)
{
    start("out");
    rp_recorder_identify(0, 1, "job");
    for (uint64_t i = 0;; i++) {
        push(i);
        launch(i % 3, 1);
        progress->pushed = i + 1;
        usleep(1000);
    }
}

static void what_is_older_than_a_second_survives_a_kill(void **state)
{
    (void)state;
    progress = mmap(NULL, sizeof *progress, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t child = child_start(record_until_killed);
    while (progress->pushed < 500)
        usleep(1000);
    uint64_t old = progress->pushed;
    usleep(1000000);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    struct rp_trace *trace = read_rank("out/rank-0.rpt");
    assert_false(trace->complete);
    assert_true(trace->op_count >= old);
    for (size_t i = 0; i < trace->op_count; i++)
        assert_int_equal(trace->ops[i].op.position, i);
    for (size_t i = 0; i < old; i++)
        assert_int_equal(trace->ops[i].launches, 1);
    rp_trace_free(trace);
    munmap(progress, sizeof *progress);
}

static void nothing_body(void)
{
    rp_recorder_stop(10);
    CHECK(rp_recorder_ring() == NULL);
    rp_recorder_identify(0, 1, "job");
    rp_recorder_comm(&(struct rp_trace_comm){0});
    rp_recorder_state(RP_STATE_FORKED, RP_NO_COMM, NULL);
    rp_recorder_forked();
    start("out");
    rp_recorder_comm(&(struct rp_trace_comm){0});
    rp_recorder_stop(10); /* no thread was ever started */
    CHECK(rp_recorder_ring() == NULL);
}

static void unnamed_body(void)
{
    start("out");
    push(0);
    rp_recorder_stop(0); /* never identified: nothing to write to */
    for (uint64_t i = 0; i < 20000; i++)
        if (rp_recorder_ring() != NULL && !rp_ring_push_op(rp_recorder_ring(), &(struct rp_op){.position = i}))
            break;
    CHECK(atomic_load(&rp_recorder_my_ring->lost_ops) == 1);
}

static void stop_is_safe_at_any_time(void **state)
{
    (void)state;
    in_child(nothing_body);
    in_child(unnamed_body);
    assert_int_not_equal(access("out", F_OK), 0);
}

static enum rp_fingerprint_state stuck(uint32_t comm, uint64_t position, uint64_t value_out[2])
{
    (void)comm;
    (void)position;
    (void)value_out;
    while (access("never", F_OK) != 0)
        pause();
    return RP_FINGERPRINT_PENDING;
}

static void stuck_body(void)
{
    struct rp_recorder_options how = options("out");
    how.fingerprint = stuck; /* as a write to a file system that is gone would be */
    CHECK(rp_recorder_start(&how) == RP_OK);
    struct rp_op op = op_make(0);
    op.flags = RP_OP_FINGERPRINTED;
    CHECK(rp_ring_push_op(rp_recorder_ring(), &op));
    rp_recorder_stop(100);
    rp_recorder_stop(100);
    CHECK(scratch_lines_with(&scratch, "could not be written in time") >= 1);
}

static void stop_does_not_wait_for_ever(void **state)
{
    (void)state;
    in_child(stuck_body);
}

/* exit() in a signal handler that came while this thread held the lock */
static void stop_does_not_wait_for_its_own_lock(void **state)
{
    (void)state;
    struct rp_mail mail;
    rp_mail_init(&mail);
    pthread_mutex_lock(&mail.lock);
    assert_false(rp_mail_stop(&mail, 0, 10));
    pthread_mutex_unlock(&mail.lock);
    assert_true(rp_mail_stop(&mail, 0, 10));
}

/* A child made without the C library's knowledge runs the destructors of its parent, but has no background thread. */
static void cloned_body(void)
{
    start("out");
    rp_recorder_identify(0, 1, "job");
    push(0);
    pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
    if (child == 0) {
        rp_recorder_stop(0);
        _exit(0);
    }
    CHECK(waitpid(child, NULL, 0) == child);
    rp_recorder_stop(0);
}

static void a_cloned_child_has_nothing_to_stop(void **state)
{
    (void)state;
    in_child(cloned_body);
    assert_int_equal(scratch_lines_with(&scratch, "could not be written in time"), 0);
    struct rp_trace *trace = read_rank("out/rank-0.rpt");
    assert_true(trace->complete);
    rp_trace_free(trace);
}

static void fork_body(void)
{
    int status;
    start("parent");
    rp_recorder_identify(0, 1, "parent");
    push(0);
    while (access("parent/rank-0.rpt", F_OK) != 0)
        usleep(1000);
    pid_t child = fork();
    if (child == 0) {
        alarm(LIVENESS_S);
        rp_recorder_forked();
        CHECK(rp_recorder_ring() == NULL);
        start("child");
        rp_recorder_identify(0, 1, "child");
        for (uint64_t i = 100; i < 103; i++)
            push(i);
        rp_recorder_stop(0);
        _exit(0);
    }
    push(1);
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    push(2);
    rp_recorder_stop(0);
}

static void a_forked_child_records_for_itself(void **state)
{
    (void)state;
    in_child(fork_body);
    struct rp_trace *parent = read_rank("parent/rank-0.rpt");
    struct rp_trace *child = read_rank("child/rank-0.rpt");
    assert_true(parent->complete && child->complete);
    assert_int_equal(parent->op_count, 3);
    assert_int_equal(child->op_count, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(parent->ops[i].op.position, i);
        assert_int_equal(child->ops[i].op.position, 100 + i);
    }
    assert_int_not_equal(parent->identity.pid, child->identity.pid);
    rp_trace_free(parent);
    rp_trace_free(child);
}

/* Without the address sanitizer: its allocator's locks do not survive a fork in gcc 12, and the child would hang. */
#ifndef __SANITIZE_ADDRESS__
static atomic_bool hammering = true;

static void *hammer(void *unused)
{
    for (uint32_t i = 0; hammering; i++) {
        rp_recorder_comm(&(struct rp_trace_comm){.number = i});
        rp_ring_push_op(rp_recorder_ring(), &(struct rp_op){.kind = RP_OP_SEND, .position = RP_NO_POSITION});
        if (i % 64 == 0)
            usleep(500);
    }
    return unused;
}

static void fork_locked_body(void)
{
    pthread_t threads[2];
    start("parent");
    rp_recorder_identify(0, 1, "parent");
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, hammer, NULL) == 0);
    for (int i = 0; i < 30; i++) {
        int status;
        pid_t child = fork();
        if (child == 0) {
            alarm(LIVENESS_S);
            rp_recorder_forked();
            start("unused");
            rp_recorder_comm(&(struct rp_trace_comm){.number = 1});
            push(1);
            rp_recorder_stop(0);
            _exit(0);
        }
        CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    hammering = false;
    for (int i = 0; i < 2; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    rp_recorder_stop(0);
}

static void a_fork_while_locks_are_held(void **state)
{
    (void)state;
    in_child(fork_locked_body);
}
#endif

/* ---------------------------------------------------------------- the directory */

static int32_t next_rank;
static const char *next_directory, *next_key = "job";

static void record_as_rank(void)
{
    rp_log_set_rank(next_rank);
    start(next_directory);
    push(0); /* where the directory is another's, the identity ends the recording at once */
    rp_recorder_identify(next_rank, 4, next_key);
    rp_recorder_stop(0);
}

static void run_rank(int32_t rank, const char *directory, const char *key)
{
    next_rank = rank;
    next_directory = directory;
    next_key = key;
    in_child(record_as_rank);
}

static void record_slowly(void)
{
    start(next_directory);
    rp_recorder_identify(next_rank, 4, next_key);
    push(0);
    for (int i = 0; i < 600 && access("go", F_OK) != 0; i++)
        usleep(50000);
    rp_recorder_stop(0);
}

static pid_t start_rank(int32_t rank, const char *directory, const char *key)
{
    next_rank = rank;
    next_directory = directory;
    next_key = key;
    return child_start(record_slowly);
}

static void ranks_meet_in_the_directory_of_rank_zero(void **state)
{
    (void)state;
    char name[256] = "", path[600];
    struct rp_trace_run run;
    assert_int_equal(mkdir("reprise-20200101-000000-1", 0777), 0);
    scratch_write("reprise-20200101-000000-1/job", "job of yesterday\n", 17);
    assert_int_equal(mkdir("reprise-empty", 0777), 0);
    pid_t others[] = {start_rank(1, NULL, "job"), start_rank(2, NULL, "job"), start_rank(3, NULL, "job")};
    usleep(300000);
    pid_t zero = start_rank(0, NULL, "job");
    for (int i = 0; i < 600 && !find_run_with("rank-3.rpt", path); i++)
        usleep(50000);
    scratch_write("go", "", 0);
    child_ends_well(zero);
    for (int i = 0; i < 3; i++)
        child_ends_well(others[i]);

    assert_int_equal(run_directories(name), 3); /* one more than there were */
    assert_true(find_run_with("rank-0.rpt", path));
    assert_int_equal(rp_trace_run_read(path, &run), RP_OK);
    assert_int_equal(run.count, 4);
    rp_trace_run_free(&run);
    unsigned day, clock, pid;
    assert_int_equal(sscanf(strrchr(path, '/'), "/reprise-%8u-%6u-%u", &day, &clock, &pid), 3);
    assert_int_equal(pid, zero);
    assert_true(day > 20200101 && clock < 240000);
}

static void a_rank_that_finds_none_makes_its_own(void **state)
{
    (void)state;
    char name[256] = "";
    run_rank(3, NULL, "job");
    assert_int_equal(run_directories(name), 1);
    assert_non_null(strstr(name, "-rank3"));
    assert_int_equal(scratch_lines_with(&scratch, "warn trace: found no directory of this run"), 1);
    char file[300];
    snprintf(file, sizeof file, "%s/rank-3.rpt", name);
    struct rp_trace *trace = read_rank(file);
    assert_true(trace->complete);
    assert_int_equal(trace->op_count, 1);
    rp_trace_free(trace);
}

static void a_named_directory_is_joined_by_key_only(void **state)
{
    (void)state;
    struct rp_trace_run run;
    for (int32_t rank = 3; rank >= 0; rank--)
        run_rank(rank, "out", "job");
    assert_int_equal(rp_trace_run_read(scratch_path(&scratch, "out"), &run), RP_OK);
    assert_int_equal(run.count, 4);
    rp_trace_run_free(&run);
    assert_int_equal(scratch_lines_with(&scratch, "error"), 0);

    run_rank(4, "out", "another job");
    assert_int_not_equal(access("out/rank-4.rpt", F_OK), 0);
    assert_int_equal(scratch_lines_with(&scratch, "error"), 0); /* it is for rank 0 to say */
    run_rank(0, "out", "another job");
    assert_int_equal(scratch_lines_with(&scratch, "out: exists and is not of this run"), 1);
    /* the same key, but the rank's file is there already */
    size_t size, size_after;
    free(scratch_read("out/rank-2.rpt", &size));
    run_rank(2, "out", "job");
    free(scratch_read("out/rank-2.rpt", &size_after));
    assert_int_equal(size, size_after);
    assert_int_equal(scratch_lines_with(&scratch, "rank-2.rpt: cannot be made: File exists"), 1);
    assert_int_equal(scratch_lines_with(&scratch, "error"), 2);
}

/* All processes think that they are rank 0: one of them records, one of the others says so. */
static void ranks_of_one_number_collide_quietly(void **state)
{
    (void)state;
    char cause[100] = "";
    for (int i = 0; i < 4; i++)
        run_rank(0, "out", "job");
    assert_int_equal(scratch_lines_with(&scratch, "rank-0.rpt: cannot be made: File exists; recording ends"), 3);
    assert_int_equal(scratch_lines_with(&scratch, "error"), 1);
    assert_true(readlink("out/failed", cause, sizeof cause - 1) > 0);
    assert_string_equal(cause, "rank 0: File exists");
    struct rp_trace *trace = read_rank("out/rank-0.rpt");
    assert_true(trace->complete);
    rp_trace_free(trace);
}

static void slashes_at_the_end_do_not_count(void **state)
{
    (void)state;
    run_rank(0, "out//", "job");
    run_rank(1, "out/", "job");
    run_rank(2, scratch_path(&scratch, "out/"), "job");
    assert_int_equal(access("out/rank-0.rpt", F_OK), 0);
    assert_int_equal(access("out/rank-1.rpt", F_OK), 0);
    assert_int_equal(access("out/rank-2.rpt", F_OK), 0);
    run_rank(0, "/", "job");
    assert_int_equal(scratch_lines_with(&scratch, "/: exists and is not of this run"), 1);
}

static void removed_body(void)
{
    start("out");
    rp_recorder_identify(0, 1, "job");
    push(0);
    wait_for_op();
    CHECK(unlink("out/rank-0.rpt") == 0 && unlink("out/job") == 0 && rmdir("out") == 0);
    push(1);
    rp_recorder_stop(0);
}

static void a_directory_that_is_removed_is_missed(void **state)
{
    (void)state;
    in_child(removed_body);
    assert_int_equal(scratch_lines_with(&scratch, "write failed: No such file or directory; recording ends"), 1);
    assert_int_not_equal(access("out", F_OK), 0);
}

static void many_ranks_make_it_at_once(void **state)
{
    (void)state;
    struct rp_trace_run run;
    pid_t ranks[8];
    for (int32_t i = 0; i < 8; i++)
        ranks[i] = start_rank(i, "out", "job");
    for (int i = 0; i < 600 && access("out/rank-7.rpt", F_OK) != 0; i++)
        usleep(20000);
    scratch_write("go", "", 0);
    for (int i = 0; i < 8; i++)
        child_ends_well(ranks[i]);
    assert_int_equal(rp_trace_run_read(scratch_path(&scratch, "out"), &run), RP_OK);
    assert_int_equal(run.count, 8);
    rp_trace_run_free(&run);
    /* nothing is left of what was made aside */
    DIR *directory = opendir(scratch.path);
    const struct dirent *entry;
    while ((entry = readdir(directory)) != NULL)
        assert_null(strstr(entry->d_name, ".new-"));
    closedir(directory);
}

static void what_exists_is_left_alone(void **state)
{
    (void)state;
    assert_int_equal(mkdir("empty", 0777), 0);
    scratch_write("file", "mine", 4);
    assert_int_equal(mkdir("full", 0777), 0);
    scratch_write("full/notes.txt", "mine", 4);
    assert_int_equal(symlink("nowhere", "link"), 0);
    static const char *const names[] = {"empty", "file", "full", "link"};
    for (size_t i = 0; i < 4; i++) {
        char expected[100];
        run_rank(0, names[i], "job");
        snprintf(expected, sizeof expected, "%s: exists and is not of this run; nothing is recorded", names[i]);
        assert_int_equal(scratch_lines_with(&scratch, expected), 1);
    }
    assert_int_equal(rmdir("empty"), 0);
    assert_int_equal(unlink("full/notes.txt"), 0);
    assert_int_equal(rmdir("full"), 0);
    char *kept = scratch_read("file", NULL);
    assert_string_equal(kept, "mine");
    free(kept);
    assert_int_not_equal(access("nowhere", F_OK), 0);
}

/* As a user who may not write here; root may write everywhere. */
static void unwritable_body(void)
{
    CHECK(chmod(scratch.path, 0555) == 0);
    CHECK(chmod(scratch.log, 0666) == 0);
    CHECK(geteuid() != 0 || setuid(65534) == 0);
    record_as_rank();
}

static void where_nothing_can_be_made_one_line_says_so(void **state)
{
    (void)state;
    run_rank(0, "no/parent", "job");
    assert_int_equal(scratch_lines_with(&scratch, "no/parent: cannot be made: No such file or directory"), 1);
    scratch_write("file", "", 0);
    run_rank(0, "file/below", "job");
    assert_int_equal(scratch_lines_with(&scratch, "file/below: cannot be made: Not a directory"), 1);
    char *name = malloc(5001);
    memset(name, 'n', 5000);
    name[5000] = '\0';
    run_rank(0, name, "job");
    free(name);
    assert_int_equal(scratch_lines_with(&scratch, "path is too long"), 1);
    assert_int_equal(scratch_lines_with(&scratch, "error"), 3);

    rp_log_setup(RP_LOG_DEBUG, scratch.log);
    next_rank = 0;
    next_directory = NULL;
    in_child(unwritable_body);
    assert_int_equal(chmod(scratch.path, 0755), 0);
    assert_int_equal(scratch_lines_with(&scratch, "cannot be made: Permission denied; nothing is recorded"), 1);
}

static void full_body(void)
{
    const struct rlimit limit = {200000, 200000};
    signal(SIGXFSZ, count_signal);
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    rp_log_set_rank(next_rank);
    start("out");
    rp_recorder_identify(next_rank, 2, "job");
    char said[100];
    snprintf(said, sizeof said, "rank-%d.rpt: write failed: File too large; recording ends", next_rank);
    for (uint64_t i = 0; i < 50 && scratch_lines_with(&scratch, said) == 0; i++) {
        for (uint64_t j = 0; j < 1000; j++)
            if (rp_recorder_ring() != NULL)
                rp_ring_push_op(rp_recorder_ring(), &(struct rp_op){.kind = RP_OP_SEND, .begin = i * 1000 + j});
        usleep(50000);
    }
    /* the program goes on */
    for (uint64_t j = 0; j < 100000; j++)
        if (rp_recorder_ring() != NULL)
            rp_ring_push_op(rp_recorder_ring(), &(struct rp_op){.kind = RP_OP_SEND});
    rp_recorder_stop(0);
    CHECK(signals_seen == 0);
}

static void a_full_disk_ends_the_recording_only(void **state)
{
    (void)state;
    static const char *const files[] = {"out/rank-0.rpt", "out/rank-1.rpt"};
    char cause[100] = "";
    for (next_rank = 1; next_rank >= 0; next_rank--)
        in_child(full_body);
    /* both ranks by name, but only the first for everybody */
    assert_int_equal(scratch_lines_with(&scratch, "write failed: File too large; recording ends"), 2);
    assert_int_equal(scratch_lines_with(&scratch, "error"), 1);
    assert_int_equal(scratch_lines_with(&scratch, "[rank 1] error trace: "), 1);
    assert_true(readlink("out/failed", cause, sizeof cause - 1) > 0);
    assert_string_equal(cause, "rank 1: File too large");
    for (int i = 0; i < 2; i++) {
        struct rp_trace *trace = read_rank(files[i]);
        assert_false(trace->complete);
        assert_true(trace->op_count > 100);
        rp_trace_free(trace);
    }
}

#define MANY 900000u

/* More than is kept before it is known where the trace goes. */
static void unidentified_body(void)
{
    start("out");
    for (uint64_t i = 0; i < MANY; i++)
        while (!rp_ring_push_op(rp_recorder_ring(), &(struct rp_op){.kind = RP_OP_SEND, .position = i, .begin = i + 1}))
            usleep(1000);
    while (atomic_load(&rp_recorder_my_ring->tail) != atomic_load(&rp_recorder_my_ring->head))
        usleep(1000); /* what is still in the ring when the file is there is recorded after the gap */
    rp_recorder_identify(0, 1, "job");
    struct stat info = {0}; /* on a slow disk this takes longer than stop() may wait */
    for (int tries = 0; tries < 60000 && info.st_size < 60 << 20; tries++) {
        usleep(1000);
        stat("out/rank-0.rpt", &info);
    }
    rp_recorder_stop(0);
    char lost[32];
    int length = snprintf(lost, sizeof lost, "%lu", (unsigned long)atomic_load(&rp_recorder_my_ring->lost_ops));
    scratch_write("lost", lost, (size_t)length);
}

static void memory_before_the_identity_is_bounded(void **state)
{
    (void)state;
    in_child(unidentified_body);
    char *lost = scratch_read("lost", NULL);
    uint64_t refused = strtoull(lost, NULL, 10); /* by the ring, and pushed again */
    free(lost);
    struct stat info;
    assert_int_equal(stat("out/rank-0.rpt", &info), 0);
    assert_true(info.st_size > (60 << 20) && info.st_size < (68 << 20));
    struct rp_trace *trace = read_rank("out/rank-0.rpt");
    assert_true(trace->lost_ops > refused);
    assert_int_equal(trace->op_count + trace->lost_ops, MANY + refused);
    for (size_t i = 0; i < trace->op_count; i++)
        assert_int_equal(trace->ops[i].op.position, i);
    assert_true(trace->complete);
    rp_trace_free(trace);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        TEST(ops_and_launches_reach_the_trace),
        TEST(digests_tell_launches_apart),
        TEST(allocations_do_not_cut_launches),
        TEST(launches_belong_to_the_op_before_or_to_their_rule),
        TEST(launches_belong_to_where_their_thread_goes_on),
        TEST(a_part_that_grows_stays_one),
        TEST(single_launches_are_recorded_where_asked_for),
        TEST(what_was_seen_reaches_the_trace),
        TEST(names_go_before_their_ops),
        TEST(fingerprints_come_late_or_are_counted),
        TEST(a_storm_of_launches_is_accounted_for),
        TEST(rings_of_ended_threads_are_used_again),
        TEST(threads_without_a_ring_are_said_once),
        TEST(what_destructors_issue_is_recorded),
        TEST(handlers_never_run_on_our_thread),
        TEST(what_is_older_than_a_second_survives_a_kill),
        TEST(stop_is_safe_at_any_time),
        TEST(stop_does_not_wait_for_ever),
        TEST(stop_does_not_wait_for_its_own_lock),
        TEST(a_cloned_child_has_nothing_to_stop),
        TEST(a_forked_child_records_for_itself),
#ifndef __SANITIZE_ADDRESS__
        TEST(a_fork_while_locks_are_held),
#endif
        TEST(ranks_meet_in_the_directory_of_rank_zero),
        TEST(a_rank_that_finds_none_makes_its_own),
        TEST(a_named_directory_is_joined_by_key_only),
        TEST(ranks_of_one_number_collide_quietly),
        TEST(slashes_at_the_end_do_not_count),
        TEST(a_directory_that_is_removed_is_missed),
        TEST(many_ranks_make_it_at_once),
        TEST(what_exists_is_left_alone),
        TEST(where_nothing_can_be_made_one_line_says_so),
        TEST(a_full_disk_ends_the_recording_only),
        TEST(memory_before_the_identity_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
