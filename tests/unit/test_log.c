/* Log lines: levels, ranks, files, the rate limit, held lines, and what a broken pipe does to the program: nothing. */
#include "core/log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/unit/scratch.h"

static struct scratch scratch;

/* The log's state is one per process, so each case runs in a child; its exit code says what failed, by line. */
static int failed_line;
#define CHECK(condition)                      \
    do {                                      \
        if (!(condition) && failed_line == 0) \
            failed_line = __LINE__;           \
    } while (0)

static void in_child(void (*body)(void))
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        body();
        if (failed_line != 0)
            fprintf(stderr, "test_log.c:%d: check failed\n", failed_line);
        fflush(NULL);
        _exit(failed_line != 0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

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

static char *log_text(void)
{
    return scratch_read(scratch.log, NULL);
}

static void levels_body(void)
{
    rp_log_setup(RP_LOG_WARN, scratch.log);
    CHECK(rp_log_enabled(RP_LOG_ERROR) && rp_log_enabled(RP_LOG_WARN));
    CHECK(!rp_log_enabled(RP_LOG_INFO) && !rp_log_enabled(RP_LOG_NONE));
    errno = ERANGE;
    rp_log(RP_LOG_WARN, "lane", "position %d", 17);
    rp_log(RP_LOG_INFO, "lane", "not this");
    rp_log(RP_LOG_NONE, "lane", "nor this");
    CHECK(errno == ERANGE);
    rp_log_set_rank(3);
    rp_log(RP_LOG_ERROR, "trace", "two\nlines\tand \x1b[1m");
    rp_log_setup(RP_LOG_NONE, scratch.log);
    rp_log(RP_LOG_ERROR, "trace", "off");
    char *text = log_text();
    CHECK(strcmp(text, "reprise: warn lane: position 17\n"
                       "reprise: [rank 3] error trace: two lines and  [1m\n") == 0);
    free(text);
    CHECK(strcmp(rp_log_level_name(RP_LOG_DEBUG), "debug") == 0);
    CHECK(strcmp(rp_log_level_name((enum rp_log_level)99), "?") == 0);
}

static void levels_and_form(void **state)
{
    (void)state;
    in_child(levels_body);
}

static void long_line_body(void)
{
    char *word = malloc(5001);
    memset(word, 'w', 5000);
    word[5000] = '\0';
    rp_log(RP_LOG_WARN, "trace", "%s", word);
    rp_log(RP_LOG_WARN, word, "hidden");
    rp_log_job(RP_LOG_WARN, "options", "%s", word);
    rp_log_set_rank(0);
    free(word);
    char *text = log_text(), *end = strchr(text, '\n');
    CHECK(end != NULL && end - text < 1100 && memcmp(end - 3, "...", 3) == 0);
    size_t lines = 0;
    for (const char *at = text; *at != '\0'; at++)
        lines += *at == '\n';
    CHECK(lines == 3);
    free(text);
}

static void long_lines_are_cut(void **state)
{
    (void)state;
    in_child(long_line_body);
}

static void rate_body(void)
{
    char *text;
    for (int i = 0; i < 1000; i++)
        rp_log(RP_LOG_WARN, "lane", "storm %d", i);
    size_t lines = scratch_lines_with(&scratch, "storm");
    CHECK(lines >= 32 && lines <= 96); /* a storm may go on over the end of a second or two */
    for (int tries = 0; tries < 300 && scratch_lines_with(&scratch, "were dropped)") == 0; tries++) {
        usleep(50000);
        rp_log(RP_LOG_WARN, "lane", "calm");
    }
    text = log_text();
    CHECK(strstr(text, "lines before this one were dropped)") != NULL);
    free(text);
}

static void a_storm_is_limited_and_says_so(void **state)
{
    (void)state;
    in_child(rate_body);
}

/* However much was said: what the run came to is said too. */
static void end_body(void)
{
    rp_log_set_rank(0);
    for (int i = 0; i < 1000; i++)
        rp_log_end(RP_LOG_WARN, "replay", "end %d", i);
    CHECK(scratch_lines_with(&scratch, "end") == 1000);
}

static void the_line_at_the_end_is_not_limited(void **state)
{
    (void)state;
    in_child(end_body);
}

static void held_rank_zero_body(void)
{
    for (int i = 0; i < 20; i++)
        rp_log_job(RP_LOG_WARN, "options", "held %d", i);
    rp_log_job(RP_LOG_DEBUG, "options", "seventeenth");
    CHECK(scratch_lines_with(&scratch, "held") == 0);
    rp_log_set_rank(0);
    CHECK(scratch_lines_with(&scratch, "[rank 0] warn options: held") == 16);
    CHECK(scratch_lines_with(&scratch, "held 15 (5 lines before this one were dropped)") == 1);
    rp_log_set_rank(1); /* the first counts */
    rp_log_job(RP_LOG_INFO, "trace", "after");
    CHECK(scratch_lines_with(&scratch, "[rank 0] info trace: after") == 1);
}

static void held_other_rank_body(void)
{
    rp_log_job(RP_LOG_WARN, "options", "before");
    rp_log_set_rank(5);
    rp_log_job(RP_LOG_WARN, "options", "after");
    rp_log(RP_LOG_WARN, "lane", "own");
    CHECK(scratch_lines_with(&scratch, "options") == 0);
    CHECK(scratch_lines_with(&scratch, "[rank 5] warn lane: own") == 1);
}

static void held_no_rank_body(void)
{
    rp_log_job(RP_LOG_ERROR, "options", "never");
}

static void lines_of_the_job_come_from_rank_zero(void **state)
{
    (void)state;
    in_child(held_rank_zero_body);
}

static void other_ranks_and_strangers_keep_quiet(void **state)
{
    (void)state;
    in_child(held_other_rank_body);
    in_child(held_no_rank_body);
    assert_int_equal(scratch_lines_with(&scratch, "never"), 0);
}

/* Standard error goes to the scratch log, so that what is said there can be read. */
static void stderr_to_log(void)
{
    int file = open(scratch.log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    CHECK(file >= 0 && dup2(file, STDERR_FILENO) == STDERR_FILENO);
}

static void pattern_body(void)
{
    char pattern[400], path[600], host[256];
    snprintf(pattern, sizeof pattern, "%s/%%h-%%p-100%%%%-%%x.txt", scratch.path);
    CHECK(gethostname(host, sizeof host) == 0);
    snprintf(path, sizeof path, "%s/%s-%ld-100%%-%%x.txt", scratch.path, host, (long)getpid());
    rp_log_setup(RP_LOG_INFO, pattern);
    CHECK(access(path, F_OK) != 0); /* not before a line is due */
    rp_log(RP_LOG_DEBUG, "log", "no");
    CHECK(access(path, F_OK) != 0);
    rp_log(RP_LOG_INFO, "log", "yes");
    char *text = scratch_read(path, NULL);
    CHECK(strcmp(text, "reprise: info log: yes\n") == 0);
    free(text);
}

static void a_pattern_names_the_file(void **state)
{
    (void)state;
    in_child(pattern_body);
}

static void unopenable_body(void)
{
    stderr_to_log();
    rp_log_setup(RP_LOG_INFO, "/proc/no/such/file");
    rp_log(RP_LOG_INFO, "lane", "first");
    rp_log(RP_LOG_INFO, "lane", "second");
    CHECK(scratch_lines_with(&scratch, "warn log: /proc/no/such/file cannot be opened: No such file") == 1);
    CHECK(scratch_lines_with(&scratch, "info lane: first") == 1);
    CHECK(scratch_lines_with(&scratch, "info lane: second") == 1);
    char *pattern = malloc(20001);
    memset(pattern, 'p', 20000);
    pattern[20000] = '\0';
    rp_log_setup(RP_LOG_INFO, pattern);
    rp_log(RP_LOG_INFO, "lane", "third");
    CHECK(scratch_lines_with(&scratch, "info lane: third") == 1);
    free(pattern);
}

static void without_its_file_it_uses_standard_error(void **state)
{
    (void)state;
    in_child(unopenable_body);
}

static volatile sig_atomic_t signals_seen;

static void count_signal(int number)
{
    (void)number;
    signals_seen++;
}

static void pipe_body(void)
{
    int ends[2];
    rp_log_setup(RP_LOG_INFO, NULL);
    signal(SIGPIPE, count_signal);
    CHECK(pipe(ends) == 0 && dup2(ends[1], STDERR_FILENO) == STDERR_FILENO);
    close(ends[1]);
    close(ends[0]);
    errno = 0;
    rp_log(RP_LOG_ERROR, "lane", "into nothing");
    CHECK(errno == 0 && signals_seen == 0);
    /* one that the application has pending itself is not taken away */
    sigset_t set, pending;
    sigemptyset(&set);
    sigaddset(&set, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    raise(SIGPIPE);
    rp_log(RP_LOG_ERROR, "lane", "into nothing");
    sigpending(&pending);
    CHECK(sigismember(&pending, SIGPIPE) == 1);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    CHECK(signals_seen == 1);
}

static void full_file_body(void)
{
    const struct rlimit limit = {1000, 1000};
    signal(SIGXFSZ, count_signal);
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    for (int i = 0; i < 30; i++)
        rp_log(RP_LOG_INFO, "lane", "a line of some sixty bytes or so, to fill the file, number %d", i);
    CHECK(signals_seen == 0);
}

static void full_pipe_body(void)
{
    int ends[2];
    static char filling[65536];
    rp_log_setup(RP_LOG_INFO, NULL);
    CHECK(pipe(ends) == 0 && dup2(ends[1], STDERR_FILENO) == STDERR_FILENO);
    CHECK(fcntl(ends[1], F_SETFL, O_NONBLOCK) == 0);
    while (write(ends[1], filling, sizeof filling) > 0)
        ;
    CHECK(fcntl(ends[1], F_SETFL, 0) == 0);
    alarm(60); /* ends the test if a line that nobody reads is waited for for ever */
    rp_log(RP_LOG_ERROR, "lane", "nobody reads this");
    rp_log(RP_LOG_ERROR, "lane", "nor this");
}

static void writing_never_harms_the_program(void **state)
{
    (void)state;
    in_child(pipe_body);
    in_child(full_file_body);
    in_child(full_pipe_body);
}

static void forked_body(void)
{
    char pattern[400], mine[600];
    snprintf(pattern, sizeof pattern, "%s/%%p.txt", scratch.path);
    rp_log_setup(RP_LOG_INFO, pattern);
    rp_log_job(RP_LOG_INFO, "options", "held by the parent");
    rp_log(RP_LOG_INFO, "log", "parent");
    pid_t child = fork();
    if (child == 0) {
        rp_log_forked();
        rp_log_set_rank(0);
        rp_log(RP_LOG_INFO, "log", "child");
        snprintf(mine, sizeof mine, "%s/%ld.txt", scratch.path, (long)getpid());
        char *text = scratch_read(mine, NULL);
        _exit(strcmp(text, "reprise: [rank 0] info log: child\n") != 0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    rp_log_set_rank(0);
    snprintf(mine, sizeof mine, "%s/%ld.txt", scratch.path, (long)getpid());
    char *text = scratch_read(mine, NULL);
    CHECK(strcmp(text, "reprise: info log: parent\nreprise: [rank 0] info options: held by the parent\n") == 0);
    free(text);
}

static void a_child_begins_anew(void **state)
{
    (void)state;
    in_child(forked_body);
}

static void stolen_body(void)
{
    const char *path = scratch_path(&scratch, "mine");
    stderr_to_log();
    char pattern[400];
    snprintf(pattern, sizeof pattern, "%s/log.txt", scratch.path);
    rp_log_setup(RP_LOG_INFO, pattern);
    rp_log(RP_LOG_INFO, "log", "one");
    closefrom(3);
    scratch_write(path, "mine", 4);
    int mine = open(path, O_WRONLY | O_APPEND);
    for (int number = 3; number < 600; number++)
        dup2(mine, number);
    rp_log(RP_LOG_INFO, "log", "two");
    char *text = scratch_read(path, NULL);
    CHECK(strcmp(text, "mine") == 0);
    CHECK(scratch_lines_with(&scratch, "info log: two") == 1);
    free(text);
}

static void a_stolen_descriptor_is_not_written_to(void **state)
{
    (void)state;
    in_child(stolen_body);
}

static void *many_lines(void *argument)
{
    for (int i = 0; i < 8; i++)
        rp_log(RP_LOG_INFO, "thread", "%s of thread %s", "a whole line", (const char *)argument);
    return NULL;
}

static void threads_body(void)
{
    pthread_t threads[3];
    char names[3][2] = {"a", "b", "c"};
    for (int i = 0; i < 3; i++)
        CHECK(pthread_create(&threads[i], NULL, many_lines, names[i]) == 0);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    CHECK(scratch_lines_with(&scratch, "reprise: info thread: a whole line of thread") == 24);
}

static void lines_of_threads_stay_whole(void **state)
{
    (void)state;
    in_child(threads_body);
}

/* With a cancellation pending, which the first cancellation point would carry out. */
static void *log_while_cancelled(void *unused)
{
    (void)unused;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    CHECK(pthread_cancel(pthread_self()) == 0);
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
    rp_log(RP_LOG_INFO, "thread", "this opens the file"); /* under the lock */
    rp_log_set_rank(0);
    rp_log_job(RP_LOG_INFO, "thread", "the thread is still there");
    pthread_testcancel();
    return NULL;
}

static void cancel_body(void)
{
    pthread_t thread;
    void *result = NULL;
    CHECK(pthread_create(&thread, NULL, log_while_cancelled, NULL) == 0);
    CHECK(pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED);
    rp_log(RP_LOG_INFO, "main", "the lock is free");
    CHECK(scratch_lines_with(&scratch, "this opens the file") == 1);
    CHECK(scratch_lines_with(&scratch, "the thread is still there") == 1);
    CHECK(scratch_lines_with(&scratch, "the lock is free") == 1);
}

static void a_line_is_no_cancellation_point(void **state)
{
    (void)state;
    in_child(cancel_body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        TEST(levels_and_form),
        TEST(long_lines_are_cut),
        TEST(a_storm_is_limited_and_says_so),
        TEST(the_line_at_the_end_is_not_limited),
        TEST(lines_of_the_job_come_from_rank_zero),
        TEST(other_ranks_and_strangers_keep_quiet),
        TEST(a_pattern_names_the_file),
        TEST(without_its_file_it_uses_standard_error),
        TEST(writing_never_harms_the_program),
        TEST(a_child_begins_anew),
        TEST(a_stolen_descriptor_is_not_written_to),
        TEST(lines_of_threads_stay_whole),
        TEST(a_line_is_no_cancellation_point),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
