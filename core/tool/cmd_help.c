/* reprise help: the commands and the REPRISE_* variables. */
#include <stdbool.h>
#include <stdio.h>

#include "config/options.h"
#include "core/tool/tool.h"

/* main() knows "help COMMAND". */
static error_t parse(int key, char *argument, struct argp_state *state)
{
    bool *markdown = state->input;
    if (key == 'm')
        *markdown = true;
    else if (key == ARGP_KEY_ARG)
        argp_error(state, "'%s' is no command; 'reprise help' lists them", argument);
    else
        return ARGP_ERR_UNKNOWN;
    return 0;
}

static void print_commands(void)
{
    printf(
        "Reprise records the collectives and kernel launches of a sharded training run, and serves repeated gathers\n"
        "from memory.\n\nCommands:\n");
#define X(name, arguments, summary) printf("  reprise %-6s %-44s %s\n", #name, arguments, summary);
    RP_COMMANDS(X)
#undef X
    printf("'reprise help COMMAND' lists a command's options.\n\nEnvironment of libreprise.so:\n");
}

int rp_cmd_help(int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"markdown", 'm', NULL, 0, "Only the table of REPRISE_* variables, as Markdown", 0},
        {0},
    };
    static const struct argp argp = {
        options, parse, "[COMMAND]", "Prints the commands and the REPRISE_* variables, or the help of one command.",
        NULL,    NULL,  NULL};
    bool markdown = false;
    rp_tool_parse(&argp, "help", 0, argc, argv, &markdown);
    if (!markdown)
        print_commands();
    rp_options_print(stdout, markdown);
    return RP_EXIT_OK;
}
