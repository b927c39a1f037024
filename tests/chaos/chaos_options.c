/*
 * The runner's command line.
 */
#include "tests/chaos/chaos_run.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usage[] =
    "usage: chaos_run [options]\n"
    "  --programs N      how many programs (100)\n"
    "  --seed S          seed of the first one; the next has the next number (1)\n"
    "  --mode MODE       plain, off, record or replay (replay)\n"
    "  --timeout TIME    REPRISE_TIMEOUT (20ms)\n"
    "  --library PATH    libreprise.so (beside this program)\n"
    "  --jobs N          programs at a time (as many as processors)\n"
    "  --bound SECONDS   a program that takes longer hangs (60)\n"
    "  --untold          flips bits that the programs do not know of: all must be reported as wrong\n"
    "  --stopped         stops a rank of every program: all must be reported as hangs\n"
    "  --covering        some program must have each feature, and something must be served in mode replay\n"
    "  --verbose         prints what every program prints\n"
    "  --help            prints this\n";

static _Noreturn __attribute__((format(printf, 1, 2))) void misuse(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("chaos: error: ", stderr);
    vfprintf(stderr, format, arguments);
    fputs("; chaos_run --help lists the options\n", stderr);
    va_end(arguments);
    exit(2);
}

static uint64_t number_of(const char *name, const char *text, uint64_t least, uint64_t most)
{
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (strspn(text, "0123456789") != strlen(text) || errno || end == text || value < least || value > most)
        misuse("%s '%s' is no whole number from %" PRIu64 " to %" PRIu64, name, text, least, most);
    return value;
}

static enum chaos_mode mode_of(const char *text)
{
    for (int i = 0; i < CHAOS_MODES; i++)
        if (strcmp(text, chaos_mode_names[i]) == 0)
            return (enum chaos_mode)i;
    misuse("MODE (--mode) '%s' is none of plain, off, record, replay", text);
}

/* chaos, fake/ and libreprise.so are where this program is. */
static void neighbours(struct chaos_settings *settings)
{
    static char program[PATH_MAX], library[PATH_MAX], runtime[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    char *slash = length > 0 ? strrchr(program, '/') : NULL;
    if (!slash)
        misuse("/proc/self/exe cannot be read");
    snprintf(library, sizeof library, "%.*s/libreprise.so", (int)(slash - program), program);
    snprintf(runtime, sizeof runtime, "%.*s/fake", (int)(slash - program), program);
    snprintf(slash, sizeof program - (size_t)(slash - program), "/chaos");
    settings->program = program;
    settings->runtime = runtime;
    settings->library = library;
}

static struct chaos_settings defaults(void)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    struct chaos_settings settings = {
        .first_seed = 1, .programs = 100, .bound_s = 60, .mode = CHAOS_MODE_REPLAY, .timeout = "20ms"};
    settings.jobs = processors > 0 && processors < CHAOS_JOBS_MAX ? (int)processors : 1;
    neighbours(&settings);
    return settings;
}

void chaos_options_read(struct chaos_settings *settings, int argc, char **argv)
{
    enum { PROGRAMS = 1, SEED, MODE, TIMEOUT, LIBRARY, JOBS, BOUND, UNTOLD, STOPPED, COVERING, VERBOSE, HELP };
    static const struct option options[] = {{"programs", 1, NULL, PROGRAMS},
                                            {"seed", 1, NULL, SEED},
                                            {"mode", 1, NULL, MODE},
                                            {"timeout", 1, NULL, TIMEOUT},
                                            {"library", 1, NULL, LIBRARY},
                                            {"jobs", 1, NULL, JOBS},
                                            {"bound", 1, NULL, BOUND},
                                            {"untold", 0, NULL, UNTOLD},
                                            {"stopped", 0, NULL, STOPPED},
                                            {"covering", 0, NULL, COVERING},
                                            {"verbose", 0, NULL, VERBOSE},
                                            {"help", 0, NULL, HELP},
                                            {0}};
    *settings = defaults();
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (option) {
        case PROGRAMS:
            settings->programs = number_of("N (--programs)", optarg, 1, UINT32_MAX);
            break;
        case SEED:
            settings->first_seed = number_of("SEED (--seed)", optarg, 0, UINT64_MAX / 2);
            break;
        case MODE:
            settings->mode = mode_of(optarg);
            break;
        case TIMEOUT:
            settings->timeout = optarg;
            break;
        case LIBRARY:
            settings->library = optarg;
            break;
        case JOBS:
            settings->jobs = (int)number_of("--jobs", optarg, 1, CHAOS_JOBS_MAX);
            break;
        case BOUND:
            settings->bound_s = (int)number_of("--bound", optarg, 1, 3600);
            break;
        case UNTOLD:
            settings->untold = true;
            break;
        case STOPPED:
            settings->stopped = true;
            break;
        case COVERING:
            settings->covering = true;
            break;
        case VERBOSE:
            settings->verbose = true;
            break;
        case HELP:
            fputs(usage, stdout);
            exit(0);
        default: /* getopt has said why */
            misuse("wrong option");
        }
    }
    if (optind < argc)
        misuse("'%s' is no option", argv[optind]);
}
