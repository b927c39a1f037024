/*
 * One writer of log lines: "reprise: [rank 3] warn lane: text". Lower case, one line, the object named. Safe in a
 * hook: formats into the stack and makes one write(2); takes no lock while it writes; errno is kept.
 *
 * Two audiences. rp_log() is for what concerns this process. rp_log_job() is for what all ranks would say alike: it
 * is held back (the first 16 lines, 400 bytes each) until rp_log_set_rank() says which rank this is, then printed by
 * rank 0 and forgotten by others; a process that never learns a rank (bash, gcc, a launcher) prints nothing.
 */
#ifndef RP_LOG_H
#define RP_LOG_H

#include <stdbool.h>

/* X(enumerator, name): error = we stop, warn = we go on, info = state changes, debug */
#define RP_LOG_LEVELS(X) \
    X(NONE, "none")      \
    X(ERROR, "error")    \
    X(WARN, "warn")      \
    X(INFO, "info")      \
    X(DEBUG, "debug")

enum rp_log_level {
#define X(name, text) RP_LOG_##name,
    RP_LOG_LEVELS(X)
#undef X
        RP_LOG_LEVEL_COUNT
};

const char *rp_log_level_name(enum rp_log_level level);

/*
 * Level (default info) and file pattern (NULL or "": standard error; %h host, %p pid, %% a percent sign). The file is
 * opened for appending at the first line that is due; if that fails, one line on standard error says so and lines go
 * there. May be called again.
 */
void rp_log_setup(enum rp_log_level level, const char *pattern);

/* From now on lines carry "[rank N]"; held lines of rp_log_job() are printed (rank 0) or dropped. Once. */
void rp_log_set_rank(int rank);

/* True if a line of that level would be printed: guard costly arguments. */
bool rp_log_enabled(enum rp_log_level level);

/* `object`: what the line is about ("lane", "trace", "options"). At most 32 lines a second per process are printed;
 * the next one then says how many were dropped. */
void rp_log(enum rp_log_level level, const char *object, const char *format, ...) __attribute__((format(printf, 3, 4)));
void rp_log_job(enum rp_log_level level, const char *object, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* As rp_log_job(), for the one line at a process's end: printed however many came before it in its second. */
void rp_log_end(enum rp_log_level level, const char *object, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* In the child of a fork: forgets the rank, the held lines and the file. */
void rp_log_forked(void);

#endif
