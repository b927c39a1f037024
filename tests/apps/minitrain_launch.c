/*
 * The parent process: starts the ranks, waits for all of them, leaves nothing behind.
 *
 * A rank dies with its parent (PR_SET_PDEATHSIG), a signal to the parent kills the ranks, and the private folder of
 * the job's messages is removed at the end. One thread; the signal handler reads `children`, which is filled with
 * signals blocked.
 */
#include "minitrain_launch.h"

#include "minitrain_host.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static const int handled[] = {SIGINT, SIGTERM, SIGHUP, SIGALRM};
#define HANDLED (sizeof handled / sizeof handled[0])

static pid_t *children;
static int child_count;

static void kill_children(int signal_number)
{
    (void)signal_number;
    for (int i = 0; i < child_count; i++)
        if (children[i] > 0)
            kill(children[i], SIGKILL);
}

static void set_number(const char *name, int value)
{
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    setenv(name, text, 1);
}

static void become_rank(int rank, int ranks, pid_t parent, char **argv)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(MT_EXIT_FAILED);
    set_number("RANK", rank);
    set_number("LOCAL_RANK", rank);
    set_number("WORLD_SIZE", ranks);
    for (size_t i = 0; i < HANDLED; i++)
        signal(handled[i], SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execv("/proc/self/exe", argv);
    fprintf(stderr, "minitrain: error: cannot start rank %d: %s\n", rank, strerror(errno));
    _exit(MT_EXIT_FAILED);
}

static bool start_children(int ranks, char **argv)
{
    struct sigaction action = {.sa_handler = kill_children};
    sigset_t block, before;
    pid_t parent = getpid();
    sigemptyset(&block);
    for (size_t i = 0; i < HANDLED; i++) {
        sigaction(handled[i], &action, NULL);
        sigaddset(&block, handled[i]);
    }
    sigprocmask(SIG_BLOCK, &block, &before);
    children = calloc((size_t)ranks, sizeof *children);
    while (children && child_count < ranks) {
        pid_t pid = fork();
        if (pid == 0)
            become_rank(child_count, ranks, parent, argv);
        if (pid < 0)
            break;
        children[child_count++] = pid;
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    return child_count == ranks;
}

/* The pid may be given to another process once it is reaped. */
static void forget(pid_t pid)
{
    for (int i = 0; i < child_count; i++)
        if (children[i] == pid)
            children[i] = 0;
}

static int wait_for_children(int seconds)
{
    int own_code = 0, signal_code = 0, status;
    for (int left = child_count; left > 0;) {
        pid_t pid = wait(&status);
        if (pid < 0 && errno == EINTR)
            continue;
        if (pid < 0)
            break;
        forget(pid);
        left--;
        if (status == 0)
            continue;
        if (own_code == 0 && signal_code == 0)
            alarm((unsigned)seconds);
        if (WIFEXITED(status) && own_code == 0)
            own_code = WEXITSTATUS(status);
        if (WIFSIGNALED(status) && signal_code == 0)
            signal_code = 128 + WTERMSIG(status);
    }
    alarm(0);
    return own_code ? own_code : signal_code;
}

static void remove_folder(const char *folder)
{
    DIR *list = opendir(folder);
    const struct dirent *entry;
    while (list && (entry = readdir(list)))
        unlinkat(dirfd(list), entry->d_name, 0);
    if (list)
        closedir(list);
    rmdir(folder);
}

int mt_launch(int ranks, int seconds, char **argv)
{
    const char *temporary = getenv("TMPDIR");
    char folder[4000], id_file[4096];
    snprintf(folder, sizeof folder, "%s/minitrain.XXXXXX", temporary && *temporary ? temporary : "/tmp");
    if (!mkdtemp(folder)) {
        fprintf(stderr, "minitrain: error: no private folder %s: %s\n", folder, strerror(errno));
        return MT_EXIT_FAILED;
    }
    snprintf(id_file, sizeof id_file, "%s/id", folder);
    setenv("MINITRAIN_ID_FILE", id_file, 1);
    int code = MT_EXIT_FAILED;
    if (start_children(ranks, argv)) {
        code = wait_for_children(seconds);
    } else {
        fprintf(stderr, "minitrain: error: cannot start %d ranks: %s\n", ranks, strerror(errno));
        kill_children(0);
        wait_for_children(seconds);
    }
    remove_folder(folder);
    free(children);
    return code;
}
