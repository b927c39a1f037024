/*
 * What the commands of `reprise` share. A command parses its arguments with argp, prints its result to standard
 * output and what went wrong as one line "reprise show: ..." to standard error, and returns an exit code.
 *
 * Threads: the command line has one.
 */
#ifndef RP_TOOL_H
#define RP_TOOL_H

#include <argp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "core/status.h"
#include "core/trace/trace.h"

#define RP_RUN_ARGUMENTS "[--record=DIR|--replay=DIR [--order=DIR]] [--] COMMAND..."

/* X(name, arguments, summary): every command is a function rp_cmd_<name>() in cmd_<name>.c */
#define RP_COMMANDS(X)                                                                          \
    X(run, RP_RUN_ARGUMENTS, "run a command with Reprise loaded: record it, or replay it")      \
    X(show, "DIR|FILE", "print the ops of a recorded run, step by step, with module and phase") \
    X(sites, "DIR|FILE", "list where calls were issued, with the rules that named them")        \
    X(diff, "A B", "compare two recorded runs and name the first difference")                   \
    X(ranks, "DIR", "check the ranks of a recorded run against each other")                     \
    X(export, "DIR|FILE --format=FORMAT",                                                       \
      "write a recorded run for ui.perfetto.dev, as trace events or as JSON lines")             \
    X(help, "[COMMAND|--markdown]", "print the commands and the REPRISE_* variables, or one command's help")

#define X(name, arguments, summary) int rp_cmd_##name(int argc, char **argv);
RP_COMMANDS(X)
#undef X

enum rp_exit {
    RP_EXIT_OK = 0,
    RP_EXIT_DIFFERENT = 1,  /* diff, ranks: they are not the same, or that cannot be said */
    RP_EXIT_INCOMPLETE = 1, /* export: a rank could not be read; the others were written */
    RP_EXIT_ERROR = 2,
    RP_EXIT_CANNOT_RUN = 126, /* run: as a shell says it */
    RP_EXIT_NO_COMMAND = 127,
};

/* Prints "reprise <command>: ..." to standard error. */
void rp_tool_error(const char *command, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Says that reading or comparing failed, where the one who found out has not said so. Returns RP_EXIT_ERROR. */
int rp_tool_failed(const char *command, enum rp_status status);

/* argp_parse() with messages that begin "reprise <command>"; a wrong argument ends the process with RP_EXIT_ERROR. */
void rp_tool_parse(const struct argp *argp, const char *command, unsigned flags, int argc, char **argv, void *input);

/* The number, at least `least`, that `text` is; a wrong one ends the process as other wrong arguments do. */
int32_t rp_tool_number(struct argp_state *state, const char *option, const char *text, int32_t least);

/*
 * For the keys of argp that an option does not have: the one path that a command takes, of a `what` ("trace"), into
 * `*path`, which is NULL at first; none and a second end the process as other wrong arguments do. ARGP_ERR_UNKNOWN for
 * other keys.
 */
error_t rp_tool_take_path(int key, char *argument, struct argp_state *state, const char *what, const char **path);

/* Prints to the end of what stands in `text`, cut at `size`. */
void rp_tool_append(char *text, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));

/*
 * The trace of that rank, or of the lowest that could be read if `rank` is RP_RANK_FIRST. NULL: there is none, or it
 * could not be read, which is said.
 */
#define RP_RANK_FIRST (-1)
const struct rp_trace *rp_tool_find_rank(const char *command, const char *path, const struct rp_trace_run *run,
                                         int32_t rank);

/* A field of CSV (RFC 4180): text of a trace, made safe, in quotes where it needs them. */
void rp_tool_csv_text(FILE *out, const char *text);

/* Bytes of the UTF-8 character that `text` begins with; 0 if it is none, or one that a terminal would obey. */
size_t rp_tool_printable(const char *text);

/*
 * Copies text of a trace, cut to `size` (terminated): what is not UTF-8, or is a control character, which a terminal
 * would obey, as \xNN. Returns `out`.
 */
char *rp_tool_safe(const char *text, char *out, size_t size);

#endif
