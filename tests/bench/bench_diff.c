/*
 * reprise diff on large runs: 1,000,000 ops a side, written by mktrace. Prints wall time, processor time and peak
 * memory of one comparison each; reading is part of it, from files that were just written.
 *
 *   bench_diff BUILD      where `reprise` and `tests/mktrace` are; traces (350 MB) go to a directory of its own under
 *                         TMPDIR
 */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ARGUMENTS_MAX 8
#define REPEATS 3

/* 101 ops a step that are compared, and an allocation. */
#define EIGHT "ranks=8", "layers=33", "steps=1250"
#define TWO "ranks=2", "layers=33", "steps=5000"
#define ONE "ranks=1", "layers=33", "steps=10000"

static const struct {
    const char *what;
    const char *left[ARGUMENTS_MAX], *right[ARGUMENTS_MAX]; /* settings of mktrace */
} table[] = {
    {"8 ranks, the same", {EIGHT}, {EIGHT}},
    {"8 ranks, other bytes everywhere", {EIGHT}, {EIGHT, "seed=1"}},
    {"8 ranks, a layer more", {EIGHT}, {"ranks=8", "layers=34", "steps=1250"}},
    {"8 ranks, a microbatch more", {EIGHT}, {"ranks=8", "layers=33", "steps=625", "microbatches=2"}},
    {"8 ranks, a layer moved in each step", {EIGHT}, {EIGHT, "move=7", "at=0"}},
    {"8 ranks, a layer of another name and one skipped", {EIGHT}, {EIGHT, "rename=3", "skip=7", "at=0"}},
    {"2 ranks, the same", {TWO}, {TWO}},
    {"1 rank, the same", {ONE}, {ONE}},
    {"1 rank, other bytes everywhere", {ONE}, {ONE, "seed=1"}},
    {"1 rank, a layer more", {ONE}, {"ranks=1", "layers=34", "steps=10000"}},
};

/* Runs a program, standard output thrown away; its exit code, or -1. */
static int run(char *const arguments[], struct rusage *usage_out)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        int nowhere = open("/dev/null", O_WRONLY);
        if (nowhere >= 0)
            dup2(nowhere, STDOUT_FILENO);
        execv(arguments[0], arguments);
        _exit(127);
    }
    if (child < 0 || wait4(child, &status, 0, usage_out) != child || !WIFEXITED(status))
        return -1;
    return WEXITSTATUS(status);
}

static bool make_trace(const char *build, const char *name, const char *const settings[ARGUMENTS_MAX])
{
    char program[PATH_MAX + 32];
    char *arguments[ARGUMENTS_MAX + 3] = {program, (char *)name};
    struct rusage usage;
    snprintf(program, sizeof(program), "%s/tests/mktrace", build);
    for (int i = 0; i < ARGUMENTS_MAX && settings[i] != NULL; i++)
        arguments[i + 2] = (char *)settings[i];
    return run(arguments, &usage) == 0;
}

static int remove_one(const char *path, const struct stat *info, int type, struct FTW *place)
{
    (void)info;
    (void)type;
    (void)place;
    return remove(path);
}

static void remove_trace(const char *name)
{
    nftw(name, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static double seconds(struct timeval time)
{
    return (double)time.tv_sec + 1e-6 * (double)time.tv_usec;
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static bool measure(const char *build, const char *what)
{
    char program[PATH_MAX + 32];
    char *arguments[] = {program, "diff", "a", "b", NULL};
    struct rusage usage, best_usage = {0};
    double best = 0;
    int code = -1;
    snprintf(program, sizeof(program), "%s/reprise", build);
    for (int i = 0; i < REPEATS; i++) {
        double begin = now();
        code = run(arguments, &usage);
        double wall = now() - begin;
        if (code != 0 && code != 1)
            return false;
        if (i == 0 || wall < best) {
            best = wall;
            best_usage = usage;
        }
    }
    printf("%-50s  %6.2f  %6.2f  %8.1f  %s\n", what, best, seconds(best_usage.ru_utime) + seconds(best_usage.ru_stime),
           (double)best_usage.ru_maxrss / 1024, code == 0 ? "same" : "different");
    fflush(stdout);
    return true;
}

static bool bench(const char *build)
{
    printf("%-50s  %6s  %6s  %8s  %s\n", "diff, 1,000,000 ops a side", "wall s", "cpu s", "peak MiB", "verdict");
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        bool done = make_trace(build, "a", table[i].left) && make_trace(build, "b", table[i].right) &&
                    measure(build, table[i].what);
        remove_trace("a");
        remove_trace("b");
        if (!done) {
            fprintf(stderr, "bench_diff: %s: failed\n", table[i].what);
            return false;
        }
    }
    return true;
}

int main(int argc, char **argv)
{
    const char *temporary = getenv("TMPDIR");
    char folder[PATH_MAX], build[PATH_MAX];
    if (argc != 2 || realpath(argv[1], build) == NULL) {
        fprintf(stderr, "usage: bench_diff BUILD\n");
        return 2;
    }
    snprintf(folder, sizeof(folder), "%s/bench_diff.XXXXXX", temporary != NULL ? temporary : "/tmp");
    if (mkdtemp(folder) == NULL || chdir(folder) != 0) {
        fprintf(stderr, "bench_diff: %s: %s\n", folder, strerror(errno));
        return 2;
    }
    bool done = bench(build);
    if (chdir("/") == 0)
        remove_trace(folder);
    return done ? 0 : 1;
}
