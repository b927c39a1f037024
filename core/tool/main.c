/*
 * The command line: finds the command in the table and runs it.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/tool/tool.h"

struct command {
    const char *name;
    int (*run)(int argc, char **argv);
};

static const struct command commands[] = {
#define X(name, arguments, summary) {#name, rp_cmd_##name},
    RP_COMMANDS(X)
#undef X
};

static const struct command *find_command(const char *name)
{
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    }
    return NULL;
}

/* What was printed must have arrived: a full disk must not look like a short result. */
static int finish_output(const char *command, int code)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return code;
    rp_tool_error(command, "standard output: %s", strerror(errno));
    return RP_EXIT_ERROR;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "reprise: no command given; 'reprise help' lists them\n");
        return RP_EXIT_ERROR;
    }
    const char *name = argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "-?") == 0)
        name = "help";
    const struct command *command = find_command(name);
    if (command == NULL) {
        fprintf(stderr, "reprise: '%s' is no command; 'reprise help' lists them\n", name);
        return RP_EXIT_ERROR;
    }
    const struct command *topic = argc == 3 && strcmp(name, "help") == 0 ? find_command(argv[2]) : NULL;
    if (topic != NULL) {
        static char option[] = "--help";
        char *arguments[] = {argv[2], option, NULL};
        return finish_output(topic->name, topic->run(2, arguments));
    }
    return finish_output(command->name, command->run(argc - 1, argv + 1));
}
