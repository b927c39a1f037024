/* reprise diff: exit code 0 if two runs are the same, 1 if not, 2 if they could not be compared. */
#include <inttypes.h>
#include <stdio.h>

#include "core/compare/diff.h"
#include "core/tool/diff_report.h"
#include "core/tool/tool.h"

struct arguments {
    const char *paths[2];
    int count;
    int32_t rank;
};

static error_t parse(int key, char *argument, struct argp_state *state)
{
    struct arguments *arguments = state->input;
    switch (key) {
    case 'r':
        arguments->rank = rp_tool_number(state, "--rank", argument, 0);
        return 0;
    case ARGP_KEY_ARG:
        if (arguments->count == 2)
            argp_error(state, "takes two traces");
        arguments->paths[arguments->count++] = argument;
        return 0;
    case ARGP_KEY_END:
        if (arguments->count < 2)
            argp_error(state, "two traces are needed");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static int diff_runs(const struct arguments *arguments, const struct rp_trace_run *left,
                     const struct rp_trace_run *right)
{
    struct rp_diff diff;
    enum rp_status status = rp_diff_runs(left, right, arguments->rank, &diff);
    if (status == RP_NOT_FOUND && arguments->rank != RP_DIFF_ALL_RANKS) {
        rp_tool_error("diff", "rank %" PRId32 " is not in both runs", arguments->rank);
        return RP_EXIT_ERROR;
    }
    if (status == RP_NOT_FOUND) {
        rp_tool_error("diff", "the runs have no rank in common");
        return RP_EXIT_ERROR;
    }
    if (status == RP_OK)
        status = rp_diff_report(stdout, &diff, left, right,
                                (struct rp_diff_paths){arguments->paths[0], arguments->paths[1]});
    if (status != RP_OK)
        return rp_tool_failed("diff", status);
    return diff.verdict == RP_DIFF_ALIKE ? RP_EXIT_OK : RP_EXIT_DIFFERENT;
}

int rp_cmd_diff(int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"rank", 'r', "N", 0, "Compare rank N only (default: all)", 0},
        {0},
    };
    static const struct argp argp = {options,
                                     parse,
                                     "A B",
                                     "Compares two recorded runs: the sequence of ops with module and phase, kernel "
                                     "launches, and bytes.\vExit code: 0 the same, 1 different, 2 error.",
                                     NULL,
                                     NULL,
                                     NULL};
    struct arguments arguments = {.rank = RP_DIFF_ALL_RANKS};
    struct rp_trace_run left, right;
    rp_tool_parse(&argp, "diff", 0, argc, argv, &arguments);
    if (rp_trace_run_read(arguments.paths[0], &left) != RP_OK)
        return RP_EXIT_ERROR;
    int code = RP_EXIT_ERROR;
    if (rp_trace_run_read(arguments.paths[1], &right) == RP_OK) {
        code = diff_runs(&arguments, &left, &right);
        rp_trace_run_free(&right);
    }
    rp_trace_run_free(&left);
    return code;
}
