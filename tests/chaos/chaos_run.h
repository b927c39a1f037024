/*
 * The runner: random programs, several at a time, and what came of them.
 *
 * Threads: one.
 */
#ifndef CHAOS_RUN_H
#define CHAOS_RUN_H

#include <stdio.h>
#include <sys/types.h>

#include "tests/chaos/chaos.h"
#include "tests/chaos/chaos_shared.h"

#define CHAOS_JOBS_MAX 64

enum chaos_mode { CHAOS_MODE_PLAIN, CHAOS_MODE_OFF, CHAOS_MODE_RECORD, CHAOS_MODE_REPLAY, CHAOS_MODES };

struct chaos_settings {
    uint64_t first_seed, programs;
    int jobs;
    int bound_s; /* a program that takes longer hangs */
    enum chaos_mode mode;
    const char *timeout; /* REPRISE_TIMEOUT */
    const char *library; /* as named */
    const char *preload; /* a path of it without spaces */
    const char *program; /* path of the ranks' program */
    const char *runtime; /* folder of the stand-in */
    const char *scratch; /* directory for traces, or NULL */
    bool untold;         /* a bit of a gather is flipped, and the program does not know */
    bool stopped;        /* a rank is stopped and never goes on */
    bool covering;       /* to leave out a feature, or every hit, is a failure */
    bool verbose;        /* everything that programs print */
};

/* chaos_options.c: a wrong command line ends the process with exit code 2. */
void chaos_options_read(struct chaos_settings *settings, int argc, char **argv);

/* chaos_guise.c: the environment of a rank, set in the child that becomes it. */
extern const char *const chaos_mode_names[CHAOS_MODES];
void chaos_guise_wear(const struct chaos_settings *settings, const struct chaos_program *program, int rank);
/* Where the program's ranks write their trace. False: nowhere. */
bool chaos_guise_trace(const struct chaos_settings *settings, uint64_t seed, char *path, size_t size);

/* X(enumerator, name) */
#define CHAOS_OUTCOMES(X) \
    X(RIGHT, "right")     \
    X(WRONG, "wrong")     \
    X(HANG, "hang")       \
    X(FAILED, "failed")

enum chaos_outcome {
#define X(name, text) CHAOS_IS_##name,
    CHAOS_OUTCOMES(X)
#undef X
        CHAOS_OUTCOME_COUNT
};

/* chaos_report.c: sums over programs. */
struct chaos_report {
    uint64_t outcomes[CHAOS_OUTCOME_COUNT];
    uint64_t operations, bytes, wrong_buffers;
    uint64_t covered[CHAOS_FEATURE_COUNT];
    uint64_t lag, scribble, error, no_memory, driver, killed; /* faults that struck; driver: asked for */
    uint64_t hits, ahead, packed, repaired, withdrawn;
    uint64_t served; /* programs with hits */
};

void chaos_report_program(struct chaos_report *report, const struct chaos_program *program,
                          const struct chaos_shared *shared);
/* What a program printed. */
void chaos_report_output(struct chaos_report *report, FILE *output);
void chaos_report_print(const struct chaos_report *report);
/* False, with one line, if no program had some feature, or (`hits`) nothing was served. */
bool chaos_report_covers(const struct chaos_report *report, bool hits);

#endif
