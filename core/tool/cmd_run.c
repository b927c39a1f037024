/*
 * reprise run: becomes the given command, with the library preloaded and recording, or replay, on. The command gets
 * this process: its exit code, signals and terminal are untouched.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/options.h"
#include "core/tool/library.h"
#include "core/tool/tool.h"

struct arguments {
    enum rp_mode mode; /* OFF: neither --record nor --replay */
    const char *directory;
    const char *order; /* or NULL */
    const char *library;
    char **command;
};

static void take_directory(struct argp_state *state, enum rp_mode mode, const char *argument)
{
    struct arguments *arguments = state->input;
    if (argument[0] == '\0' || argument[0] == '-') /* a forgotten DIR would take the next option or the "--" */
        argp_error(state, "--%s wants a directory, not '%s'", rp_options_mode_name(mode), argument);
    if (arguments->mode != RP_MODE_OFF && arguments->mode != mode)
        argp_error(state, "--record and --replay exclude each other");
    arguments->mode = mode;
    arguments->directory = argument;
}

static void take_order(struct argp_state *state, const char *argument)
{
    struct arguments *arguments = state->input;
    if (argument[0] == '\0' || argument[0] == '-')
        argp_error(state, "--order wants a directory, not '%s'", argument);
    arguments->order = argument;
}

static bool is_replay(const struct arguments *arguments)
{
    return arguments->mode == RP_MODE_REPLAY ||
           (arguments->mode == RP_MODE_OFF && rp_options_mode(getenv("REPRISE_MODE")) == RP_MODE_REPLAY);
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
    struct arguments *arguments = state->input;
    switch (key) {
    case 'r':
        take_directory(state, RP_MODE_RECORD, argument);
        return 0;
    case 'p':
        take_directory(state, RP_MODE_REPLAY, argument);
        return 0;
    case 'o':
        take_order(state, argument);
        return 0;
    case 'l':
        arguments->library = argument;
        return 0;
    case '?': /* not argp's own, which has "[OPTION...]" for what must be said */
        printf("Usage: reprise run %s\n", RP_RUN_ARGUMENTS);
        argp_state_help(state, stdout, ARGP_HELP_DOC | ARGP_HELP_LONG | ARGP_HELP_EXIT_OK);
        return 0;
    case ARGP_KEY_ARG: /* the rest belongs to the command */
        arguments->command = &state->argv[state->next - 1];
        state->next = state->argc;
        return 0;
    case ARGP_KEY_END:
        if (arguments->command == NULL)
            argp_error(state, "no command given");
        if (arguments->order != NULL && !is_replay(arguments))
            argp_error(state, "--order is for replay");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* Ranks may start in other directories than this one. Returns 0, or -1 with errno. */
static int set_directory(const char *variable, const char *directory)
{
    char here[PATH_MAX], absolute[2 * PATH_MAX];
    if (directory[0] == '/')
        return setenv(variable, directory, 1);
    if (getcwd(here, sizeof(here)) == NULL)
        return -1;
    snprintf(absolute, sizeof(absolute), "%s/%s", strcmp(here, "/") == 0 ? "" : here, directory);
    return setenv(variable, absolute, 1);
}

static void say_malformed_mode(const char *value, enum rp_mode used)
{
    static const char expected[] =
#define X(name, text) ", " text
        RP_MODES(X)
#undef X
        ;
    char shown[100];
    rp_tool_error("run", "REPRISE_MODE is \"%s\", expected: %s; %s", rp_tool_safe(value, shown, sizeof(shown)),
                  expected + strlen(", "), used == RP_MODE_REPLAY ? "replaying" : "recording");
}

/* What the options say, else what the environment says unless that is to do nothing, else record. */
static enum rp_mode choose_mode(const struct arguments *arguments)
{
    const char *value = getenv("REPRISE_MODE");
    enum rp_mode before = rp_options_mode(value), used = arguments->mode;
    if (used == RP_MODE_OFF)
        used = before != RP_MODE_OFF ? before : RP_MODE_RECORD;
    if (!rp_options_is_mode(value))
        say_malformed_mode(value, used);
    if (arguments->mode == RP_MODE_OFF)
        return used;
    if (before != RP_MODE_OFF && before != arguments->mode)
        rp_tool_error("run", "--%s takes the place of REPRISE_MODE=%s", rp_options_mode_name(arguments->mode),
                      rp_options_mode_name(before));
    return used;
}

static int set_environment(const struct arguments *arguments, const char *library)
{
    char *preload = rp_library_preload(library, getenv("LD_PRELOAD"));
    int result = preload == NULL ? -1 : setenv("LD_PRELOAD", preload, 1);
    if (result == 0)
        result = setenv("REPRISE_MODE", rp_options_mode_name(choose_mode(arguments)), 1);
    if (result == 0 && arguments->directory != NULL)
        result = set_directory("REPRISE_TRACE", arguments->directory);
    if (result == 0 && arguments->order != NULL)
        result = set_directory("REPRISE_ORDER", arguments->order);
    if (result != 0)
        rp_tool_error("run", "%s", strerror(errno));
    free(preload);
    return result;
}

int rp_cmd_run(int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"record", 'r', "DIR", 0,
         "Write the trace to DIR, which must not exist yet (default: reprise-<time>-<pid of rank 0>)", 0},
        {"replay", 'p', "DIR", 0, "Also serve repeated gathers from memory; the trace goes to DIR, as with --record",
         0},
        {"order", 'o', "DIR", 0, "With replay: begin with the order that was recorded in DIR, instead of learning one",
         0},
        {"lib", 'l', "FILE", 0, "Load this libreprise.so instead of the one that belongs to this command", 0},
        {"help", '?', NULL, 0, "Give this help list", -1},
        {"usage", 0, NULL, OPTION_ALIAS | OPTION_HIDDEN, NULL, -1}, /* argp tells of it */
        {0},
    };
    static const struct argp argp = {options,
                                     parse,
                                     RP_RUN_ARGUMENTS,
                                     "Runs COMMAND with Reprise loaded and records it, or replays it.\v"
                                     "With neither: REPRISE_MODE=replay if it is set, else record.",
                                     NULL,
                                     NULL,
                                     NULL};
    struct arguments arguments = {0};
    char library[PATH_MAX];
    rp_tool_parse(&argp, "run", ARGP_IN_ORDER | ARGP_NO_HELP, argc, argv, &arguments);
    if (rp_library_find("run", arguments.library, library) != RP_OK || set_environment(&arguments, library) != 0)
        return RP_EXIT_ERROR;
    execvp(arguments.command[0], arguments.command);
    int code = errno == ENOENT ? RP_EXIT_NO_COMMAND : RP_EXIT_CANNOT_RUN;
    rp_tool_error("run", "%s: %s", arguments.command[0], strerror(errno));
    return code;
}
