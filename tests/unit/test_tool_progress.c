/*
 * Progress is shown on a terminal alone. The time at which a line is due is set by hand, or the clock is this file's:
 * nothing waits.
 */
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/tool/progress.h"
#include "core/tool/tool.h"
#include "tests/unit/scratch.h"
#include "tests/unit/trace_file.h"

static int kept;       /* the real standard error */
static bool is_slow;   /* every look at the monotonic clock takes a second */
static time_t seconds; /* how many it has taken */

/* In place of the C library's. */
int clock_gettime(clockid_t clock, struct timespec *time)
{
    long status = syscall(SYS_clock_gettime, clock, time);
    if (is_slow && clock == CLOCK_MONOTONIC)
        time->tv_sec += ++seconds;
    return (int)status;
}

static void take_stderr(int descriptor)
{
    fflush(stderr);
    kept = dup(STDERR_FILENO);
    assert_true(kept >= 0 && dup2(descriptor, STDERR_FILENO) >= 0);
}

static void give_back_stderr(void)
{
    fflush(stderr);
    assert_true(dup2(kept, STDERR_FILENO) >= 0);
    close(kept);
}

/* Work of three parts, all of which take longer than the time up to the first line. */
static void work(void)
{
    struct rp_progress progress;
    rp_progress_begin(&progress, "reprise test: working", 1000);
    for (uint64_t done = 0; done <= 1000; done += 500) {
        if (progress.due_ns != UINT64_MAX)
            progress.due_ns = 0;
        rp_progress_at(&progress, done);
    }
    rp_progress_end(&progress);
}

/* What is read up to the dot, which is written last: a terminal passes on in parts, and later. */
static void read_to_dot(int descriptor, char *text, size_t size)
{
    size_t used = 0;
    while (used + 1 < size && (used == 0 || text[used - 1] != '.')) {
        struct pollfd ready = {.fd = descriptor, .events = POLLIN};
        assert_int_equal(poll(&ready, 1, 20000), 1);
        ssize_t got = read(descriptor, text + used, size - 1 - used);
        assert_true(got > 0);
        used += (size_t)got;
    }
    text[used] = '\0';
}

/* A terminal: what is written to `theirs` is read from `ours`. */
struct terminal {
    int ours, theirs;
};

static struct terminal open_terminal(void)
{
    struct terminal terminal = {.ours = posix_openpt(O_RDWR | O_NOCTTY)};
    assert_true(terminal.ours >= 0 && grantpt(terminal.ours) == 0 && unlockpt(terminal.ours) == 0);
    terminal.theirs = open(ptsname(terminal.ours), O_RDWR | O_NOCTTY);
    assert_true(terminal.theirs >= 0);
    return terminal;
}

static void close_terminal(const struct terminal *terminal)
{
    close(terminal->theirs);
    close(terminal->ours);
}

static void a_terminal_shows_it(void **state)
{
    struct terminal terminal = open_terminal();
    char text[300];
    (void)state;
    take_stderr(terminal.theirs);
    work();
    fputc('.', stderr);
    give_back_stderr();
    read_to_dot(terminal.ours, text, sizeof(text));
    assert_string_equal(text, "reprise test: working   0%\rreprise test: working  50%\rreprise test: working 100%\r"
                              "\033[K.");
    close_terminal(&terminal);
}

static void a_pipe_does_not(void **state)
{
    int ends[2];
    char text[300];
    (void)state;
    assert_int_equal(pipe(ends), 0);
    take_stderr(ends[1]);
    work();
    fputc('.', stderr);
    give_back_stderr();
    read_to_dot(ends[0], text, sizeof(text));
    assert_string_equal(text, ".");
    close(ends[0]);
    close(ends[1]);
}

/* Nothing is due at once: short work shows nothing, and leaves nothing to be removed. */
static void short_work_shows_nothing(void **state)
{
    struct terminal terminal = open_terminal();
    struct rp_progress progress;
    char text[300];
    (void)state;
    take_stderr(terminal.theirs);
    rp_progress_begin(&progress, "reprise test: working", 0);
    progress.due_ns = UINT64_MAX - 1; /* the clock does not come there */
    rp_progress_at(&progress, 1);
    rp_progress_end(&progress);
    fputc('.', stderr);
    give_back_stderr();
    read_to_dot(terminal.ours, text, sizeof(text));
    assert_string_equal(text, ".");
    close_terminal(&terminal);
}

/* A command on a run of two ranks, compared with itself if it takes two, on a slow clock; a dot behind it. */
static void run_command(int (*command)(int argc, char **argv), int paths, int descriptor)
{
    struct scratch scratch;
    char name[] = "command", path[PATH_MAX];
    scratch_make(&scratch);
    for (int32_t rank = 0; rank < 2; rank++) {
        struct rp_trace_identity who = {.rank = rank, .nranks = 2, .ticks_per_second = 1000000000};
        struct rp_trace_writer *writer = NULL;
        assert_int_equal(trace_file_create(scratch.path, &who, &writer), RP_OK);
        assert_int_equal(rp_trace_finish(writer), RP_OK);
    }
    snprintf(path, sizeof(path), "%s", scratch.path);
    char *arguments[] = {name, path, path, NULL};
    arguments[1 + paths] = NULL;
    int output = dup(STDOUT_FILENO), nowhere = open("/dev/null", O_WRONLY);
    fflush(stdout);
    assert_true(output >= 0 && dup2(nowhere, STDOUT_FILENO) >= 0);
    take_stderr(descriptor);
    is_slow = true;
    int code = command(1 + paths, arguments);
    is_slow = false;
    fputc('.', stderr);
    give_back_stderr();
    fflush(stdout);
    assert_true(dup2(output, STDOUT_FILENO) >= 0);
    close(output);
    close(nowhere);
    scratch_remove(&scratch);
    assert_int_equal(code, RP_EXIT_OK);
}

static void commands_show_it_on_a_terminal_alone(void **state)
{
    struct terminal terminal = open_terminal();
    int ends[2];
    char text[600];
    (void)state;
    run_command(rp_cmd_diff, 2, terminal.theirs);
    read_to_dot(terminal.ours, text, sizeof(text));
    assert_string_equal(text, "reprise diff: reading and comparing   0%\rreprise diff: reading and comparing  25%\r"
                              "reprise diff: reading and comparing  50%\rreprise diff: reading and comparing  75%\r"
                              "\033[K.");
    run_command(rp_cmd_ranks, 1, terminal.theirs);
    read_to_dot(terminal.ours, text, sizeof(text));
    assert_string_equal(text, "reprise ranks: reading and comparing   0%\rreprise ranks: reading and comparing  33%\r"
                              "reprise ranks: reading and comparing  66%\r\033[K.");
    close_terminal(&terminal);
    assert_int_equal(pipe(ends), 0);
    run_command(rp_cmd_diff, 2, ends[1]);
    read_to_dot(ends[0], text, sizeof(text));
    assert_string_equal(text, ".");
    run_command(rp_cmd_ranks, 1, ends[1]);
    read_to_dot(ends[0], text, sizeof(text));
    assert_string_equal(text, ".");
    close(ends[0]);
    close(ends[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_terminal_shows_it),
        cmocka_unit_test(a_pipe_does_not),
        cmocka_unit_test(short_work_shows_nothing),
        cmocka_unit_test(commands_show_it_on_a_terminal_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
