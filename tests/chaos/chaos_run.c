/*
 * Runs random programs: starts their ranks, waits for them within a bound, judges, and prints how to run again what
 * went wrong. Exit code: 0 all right; 1 something was wrong, hung or failed; 2 wrong command line.
 */
#include "tests/chaos/chaos_run.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define GRACE_MS 4000 /* from the first rank that ended badly to the end of the others */
#define LOOK_MS 50

struct job {
    bool running;
    struct chaos_program program;
    struct chaos_shared *shared;
    FILE *output; /* of all ranks */
    pid_t pids[CHAOS_RANKS_MAX];
    int statuses[CHAOS_RANKS_MAX];
    int left;         /* ranks that have not ended */
    int64_t deadline; /* ms */
    bool bad;         /* a rank ended badly, which explains that others do not end */
    bool late;        /* killed at the bound */
};

static struct job jobs[CHAOS_JOBS_MAX];
static struct chaos_report report;

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static _Noreturn void give_up(const char *what)
{
    fprintf(stderr, "chaos: error: %s: %s\n", what, strerror(errno));
    exit(1);
}

/* Starting -------------------------------------------------------------------------------------------------------- */

static _Noreturn void become_rank(const struct chaos_settings *settings, const struct job *job, int rank, int memory)
{
    char place[16], seed[32], descriptor[16];
    sigset_t none;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    dup2(fileno(job->output), STDOUT_FILENO);
    dup2(fileno(job->output), STDERR_FILENO);
    chaos_guise_wear(settings, &job->program, rank);
    snprintf(place, sizeof place, "%d", rank);
    snprintf(seed, sizeof seed, "%" PRIu64, job->program.seed);
    snprintf(descriptor, sizeof descriptor, "%d", memory);
    execl(settings->program, settings->program, place, seed, descriptor, (char *)NULL);
    fprintf(stderr, "chaos: error: cannot run %s: %s\n", settings->program, strerror(errno));
    _exit(CHAOS_FAILED);
}

static int memory_make(size_t bytes, const char *name)
{
    int descriptor = memfd_create(name, 0);
    if (descriptor < 0 || ftruncate(descriptor, (off_t)bytes) != 0)
        give_up("shared memory");
    return descriptor;
}

/* Appending, so that the ranks' lines do not overwrite one another. */
static FILE *output_make(void)
{
    int descriptor = memfd_create("chaos output", MFD_CLOEXEC);
    if (descriptor < 0 || fcntl(descriptor, F_SETFL, O_APPEND) != 0)
        give_up("output");
    FILE *output = fdopen(descriptor, "w+");
    if (!output)
        give_up("output");
    return output;
}

static void job_start(const struct chaos_settings *settings, struct job *job, uint64_t seed)
{
    *job = (struct job){.running = true, .deadline = now_ms() + (int64_t)settings->bound_s * 1000};
    chaos_program_make(seed, &job->program);
    int memory = memory_make(sizeof *job->shared, "chaos");
    job->shared = mmap(NULL, sizeof *job->shared, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    if (job->shared == MAP_FAILED)
        give_up("shared memory");
    job->output = output_make();
    for (int rank = 0; rank < job->program.ranks; rank++) {
        pid_t pid = fork();
        if (pid < 0)
            give_up("fork");
        if (pid == 0)
            become_rank(settings, job, rank, memory);
        job->pids[rank] = pid;
        job->left++;
    }
    close(memory);
    if (settings->stopped)
        kill(job->pids[job->program.ranks - 1], SIGSTOP);
}

/* Judging --------------------------------------------------------------------------------------------------------- */

static bool killed_by_fault(const struct job *job, int status)
{
    return job->program.fault_kill && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && !job->late;
}

static enum chaos_outcome judge(const struct job *job)
{
    bool killed = false, expired = false, failed = false, wrong = false;
    for (int rank = 0; rank < job->program.ranks; rank++) {
        int status = job->statuses[rank];
        if (killed_by_fault(job, status))
            killed = true;
        else if (WIFEXITED(status) && WEXITSTATUS(status) == CHAOS_EXPIRED)
            expired = true;
        else if (WIFEXITED(status) && WEXITSTATUS(status) == CHAOS_WRONG)
            wrong = true;
        else
            failed = failed || status != 0;
    }
    report.killed += killed;
    if (wrong)
        return CHAOS_IS_WRONG;
    if (job->late && !job->bad)
        return CHAOS_IS_HANG;
    if (failed)
        return CHAOS_IS_FAILED;
    return expired && !killed ? CHAOS_IS_HANG : CHAOS_IS_RIGHT;
}

static void output_show(FILE *output)
{
    char line[1024];
    rewind(output);
    while (fgets(line, sizeof line, output))
        printf("    | %s", line);
}

static void say(const struct chaos_settings *settings, const struct job *job, enum chaos_outcome outcome)
{
    static const char *const names[] = {
#define X(name, text) text,
        CHAOS_OUTCOMES(X)
#undef X
    };
    printf("chaos: seed %" PRIu64 ": %s; ranks at action", job->program.seed, names[outcome]);
    for (int rank = 0; rank < job->program.ranks; rank++)
        printf(" %u", job->shared->ranks[rank].action);
    printf(" of %zu, ended with", job->program.count);
    for (int rank = 0; rank < job->program.ranks; rank++)
        printf(" %s%d", WIFSIGNALED(job->statuses[rank]) ? "signal " : "",
               WIFSIGNALED(job->statuses[rank]) ? WTERMSIG(job->statuses[rank]) : WEXITSTATUS(job->statuses[rank]));
    putchar('\n');
    output_show(job->output);
    if (outcome != CHAOS_IS_RIGHT)
        printf("    again: %s_run --mode %s --timeout %s --library %s --programs 1 --seed %" PRIu64 " --verbose\n",
               settings->program, chaos_mode_names[settings->mode], settings->timeout, settings->library,
               job->program.seed);
    fflush(stdout);
}

static int remove_one(const char *path, const struct stat *about, int kind, struct FTW *where)
{
    (void)about, (void)kind, (void)where;
    return remove(path);
}

static void job_end(const struct chaos_settings *settings, struct job *job)
{
    char trace[PATH_MAX];
    enum chaos_outcome outcome = judge(job);
    report.outcomes[outcome]++;
    chaos_report_program(&report, &job->program, job->shared);
    rewind(job->output);
    chaos_report_output(&report, job->output);
    if (outcome != CHAOS_IS_RIGHT || settings->verbose)
        say(settings, job, outcome);
    if (chaos_guise_trace(settings, job->program.seed, trace, sizeof trace))
        nftw(trace, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    fclose(job->output);
    munmap(job->shared, sizeof *job->shared);
    chaos_program_free(&job->program);
    job->running = false;
}

/* Waiting --------------------------------------------------------------------------------------------------------- */

static void rank_ended(struct job *job, int rank, int status)
{
    job->statuses[rank] = status;
    job->pids[rank] = 0;
    job->left--;
    bool expected = status == 0 || killed_by_fault(job, status) ||
                    (WIFEXITED(status) && WEXITSTATUS(status) == CHAOS_WRONG) ||
                    (job->program.fault_kill && WIFEXITED(status) && WEXITSTATUS(status) == CHAOS_EXPIRED);
    if (expected || job->bad || job->late)
        return;
    job->bad = true;
    if (job->deadline > now_ms() + GRACE_MS)
        job->deadline = now_ms() + GRACE_MS;
}

static void reap(const struct chaos_settings *settings)
{
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
        for (int i = 0; i < settings->jobs; i++)
            for (int rank = 0; jobs[i].running && rank < jobs[i].program.ranks; rank++)
                if (jobs[i].pids[rank] == pid)
                    rank_ended(&jobs[i], rank, status);
}

static void overdue_kill(struct job *job)
{
    if (job->late || now_ms() < job->deadline)
        return;
    job->late = true;
    for (int rank = 0; rank < job->program.ranks; rank++)
        if (job->pids[rank] > 0)
            kill(job->pids[rank], SIGKILL);
}

/* Ends jobs that are through; returns how many are running. */
static int jobs_look(const struct chaos_settings *settings)
{
    int running = 0;
    reap(settings);
    for (int i = 0; i < settings->jobs; i++) {
        if (!jobs[i].running)
            continue;
        overdue_kill(&jobs[i]);
        if (jobs[i].left == 0)
            job_end(settings, &jobs[i]);
        running += jobs[i].running;
    }
    return running;
}

static void run_all(const struct chaos_settings *settings)
{
    const struct timespec nap = {.tv_nsec = LOOK_MS * 1000000};
    uint64_t next = settings->first_seed, end = settings->first_seed + settings->programs;
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child, NULL);
    for (int running = 0; next < end || running > 0; running = jobs_look(settings)) {
        for (int i = 0; i < settings->jobs && next < end; i++)
            if (!jobs[i].running)
                job_start(settings, &jobs[i], next++);
        sigtimedwait(&child, NULL, &nap);
    }
}

/* The whole run --------------------------------------------------------------------------------------------------- */

/* A folder for traces, removed at the end. The loader splits LD_PRELOAD at spaces and colons: a link in it helps. */
static void scratch_make(struct chaos_settings *settings, char *folder, char *library)
{
    const char *temporary = getenv("TMPDIR");
    snprintf(folder, PATH_MAX / 2, "%s/chaos.XXXXXX", temporary && *temporary ? temporary : "/tmp");
    if (!mkdtemp(folder))
        give_up(folder);
    settings->scratch = folder;
    snprintf(library, PATH_MAX, "%s/libreprise.so", folder);
    char *real = realpath(settings->library, NULL);
    if (settings->mode != CHAOS_MODE_PLAIN && (!real || symlink(real, library) != 0))
        give_up(settings->library);
    free(real);
}

int main(int argc, char **argv)
{
    static char folder[PATH_MAX / 2], link[PATH_MAX];
    struct chaos_settings settings;
    setvbuf(stdout, NULL, _IOLBF, 0); /* a failure is said when it happens, not at the end of a long run */
    chaos_options_read(&settings, argc, argv);
    scratch_make(&settings, folder, link);
    settings.preload = link;
    int64_t begin = now_ms();
    run_all(&settings);
    nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    chaos_report_print(&report);
    printf("chaos: mode %s, seeds %" PRIu64 " to %" PRIu64 ", %.1f s\n", chaos_mode_names[settings.mode],
           settings.first_seed, settings.first_seed + settings.programs - 1, (double)(now_ms() - begin) / 1e3);
    uint64_t bad = 0;
    for (int i = CHAOS_IS_RIGHT + 1; i < CHAOS_OUTCOME_COUNT; i++)
        bad += report.outcomes[i];
    if (settings.covering && !chaos_report_covers(&report, settings.mode == CHAOS_MODE_REPLAY))
        return 1;
    return bad > 0;
}
