/* reprise diff: exit code 0 if two runs are the same, 1 if not, 2 if they could not be compared. */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>

#include "core/compare/diff.h"
#include "core/tool/diff_input.h"
#include "core/tool/diff_json.h"
#include "core/tool/diff_report.h"
#include "core/tool/progress.h"
#include "core/tool/steps_option.h"
#include "core/tool/tool.h"

#define ALL_RANKS (-1)
#define TOP_DEFAULT 10
#define TOP_MAX 100000

struct arguments {
    const char *paths[2];
    int count;
    int32_t rank;
    bool json, all;
    struct rp_tool_steps steps;
    size_t top;
};

/* ---------------------------------------------------------------- arguments */

static error_t parse(int key, char *argument, struct argp_state *state)
{
    struct arguments *arguments = state->input;
    switch (key) {
    case 'r':
        arguments->rank = rp_tool_number(state, "--rank", argument, 0);
        return 0;
    case 's':
        arguments->steps = rp_tool_take_steps(state, argument);
        return 0;
    case 't':
        arguments->top = (size_t)rp_tool_number(state, "--top", argument, 0);
        if (arguments->top > TOP_MAX)
            argp_error(state, "--top wants a number to %d, not '%s'", TOP_MAX, argument);
        return 0;
    case 'a':
        arguments->all = true;
        return 0;
    case 'j':
        arguments->json = true;
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

/* ---------------------------------------------------------------- comparing */

_Static_assert(RP_STEPS_OPEN == RP_DIFF_ALL_STEPS, "open ends mean the same");

/* RP_IO after it was said. */
static enum rp_status check_steps(const struct arguments *arguments, const struct rp_diff_input *input)
{
    size_t missing = rp_tool_steps_missing(arguments->steps, input->timeline.count);
    if (missing == 0)
        return RP_OK;
    rp_tool_error("diff", "there is no step %zu: %c, rank %" PRId32 " has steps 1 to %zu", missing, input->name,
                  input->trace->identity.rank, input->timeline.count);
    return RP_IO;
}

struct comparing {
    const struct arguments *arguments;
    struct rp_diff diff;
    struct rp_diff_input *inputs; /* of A and B */
    struct rp_progress progress;
    uint64_t done; /* reading a rank of both is one part of the work, comparing it another */
};

static bool is_asked(const struct comparing *comparing, int32_t rank)
{
    return comparing->arguments->rank == ALL_RANKS || comparing->arguments->rank == rank;
}

/* One rank of which both runs have a file. What one of them cannot read is compared with nothing. */
static enum rp_status add_rank(struct comparing *comparing, int32_t rank)
{
    struct rp_diff_input *left = &comparing->inputs[0], *right = &comparing->inputs[1];
    enum rp_status status[2];
    rp_progress_at(&comparing->progress, comparing->done++);
    rp_diff_inputs_load(comparing->inputs, rank, status);
    rp_progress_at(&comparing->progress, comparing->done++);
    for (int i = 0; i < 2; i++) {
        if (status[i] == RP_NO_MEMORY)
            return status[i];
        if (status[i] == RP_OK && check_steps(comparing->arguments, &comparing->inputs[i]) != RP_OK)
            return RP_IO;
    }
    if (status[0] != RP_OK || status[1] != RP_OK)
        return RP_OK;
    return rp_diff_add(&comparing->diff, &left->packed, &left->timeline, &right->packed, &right->timeline);
}

static uint64_t count_pairs(const struct comparing *comparing)
{
    const struct rp_trace_files *files = &comparing->inputs[0].files;
    uint64_t pairs = 0;
    for (size_t i = 0; i < files->count; i++)
        pairs += is_asked(comparing, files->of[i].rank) && rp_diff_input_has(&comparing->inputs[1], files->of[i].rank);
    return pairs;
}

static enum rp_status add_ranks(struct comparing *comparing)
{
    enum rp_status status = RP_OK;
    rp_progress_begin(&comparing->progress, "reprise diff: reading and comparing", 2 * count_pairs(comparing));
    for (int side = 0; side < 2; side++) {
        const struct rp_trace_files *files = &comparing->inputs[side].files;
        for (size_t i = 0; i < files->count && status == RP_OK; i++) {
            int32_t rank = files->of[i].rank;
            if (!is_asked(comparing, rank))
                continue;
            if (!rp_diff_input_has(&comparing->inputs[1 - side], rank))
                rp_diff_add_alone(&comparing->diff, side == 0);
            else if (side == 0)
                status = add_rank(comparing, rank);
        }
    }
    status = status == RP_OK ? rp_diff_finish(&comparing->diff) : status;
    rp_progress_end(&comparing->progress);
    return status;
}

/* Says what reading has not said yet. */
static int failed(const struct comparing *comparing, enum rp_status status)
{
    bool unread = rp_diff_inputs_unread(comparing->inputs) > 0;
    int32_t rank = comparing->arguments->rank;
    if (status == RP_NO_MEMORY || status == RP_UNSUPPORTED)
        return rp_tool_failed("diff", status);
    if (status == RP_NOT_FOUND && !unread && rank != ALL_RANKS)
        rp_tool_error("diff", "rank %" PRId32 " is not in both runs", rank);
    else if (status == RP_NOT_FOUND && !unread)
        rp_tool_error("diff", "the runs have no rank in common");
    return RP_EXIT_ERROR;
}

static int diff_runs(const struct arguments *arguments, struct rp_diff_input inputs[2])
{
    const struct rp_diff_options options = {
        .first_step = arguments->steps.from, .end_step = arguments->steps.to, .top = arguments->top};
    struct comparing comparing = {.arguments = arguments, .inputs = inputs};
    struct rp_diff *diff = &comparing.diff;
    enum rp_status status = rp_diff_create(&options, diff);
    if (status != RP_OK)
        return rp_tool_failed("diff", status);
    status = add_ranks(&comparing);
    if (status == RP_OK && arguments->json)
        rp_diff_json(stdout, diff, inputs);
    else if (status == RP_OK)
        status = rp_diff_report(stdout, diff, inputs, arguments->all);
    bool same = diff->verdict == RP_DIFF_ALIKE && rp_diff_inputs_unread(inputs) == 0;
    int code = status != RP_OK ? failed(&comparing, status) : same ? RP_EXIT_OK : RP_EXIT_DIFFERENT;
    rp_diff_free(diff);
    return code;
}

int rp_cmd_diff(int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"rank", 'r', "N", 0, "Compare rank N only (default: all)", 0},
        {"steps", 's', RP_STEPS_ARGUMENT, 0, "Compare only these steps of both, " RP_STEPS_HELP, 0},
        {"top", 't', "N", 0, "List at most N differences, and N modules and phases (default: 10)", 0},
        {"all", 'a', NULL, 0, "Show all modules and phases, not only those that differ", 0},
        {"json", 'j', NULL, 0, "Print one JSON object in place of text (core/compare/README.md)", 0},
        {0},
    };
    static const struct argp argp = {options,
                                     parse,
                                     "A B",
                                     "Compares two recorded runs: the sequence of ops with module and phase, kernel "
                                     "launches, bytes, and host time.\vExit code: 0 the same (also if it took another "
                                     "time), 1 different, or a rank could not be read, 2 error.",
                                     NULL,
                                     NULL,
                                     NULL};
    struct arguments arguments = {.rank = ALL_RANKS, .steps = {0, RP_STEPS_OPEN}, .top = TOP_DEFAULT};
    struct rp_diff_input inputs[2];
    rp_tool_parse(&argp, "diff", 0, argc, argv, &arguments);
    if (rp_diff_input_open(arguments.paths[0], 'A', &inputs[0]) != RP_OK)
        return RP_EXIT_ERROR;
    int code = RP_EXIT_ERROR;
    if (rp_diff_input_open(arguments.paths[1], 'B', &inputs[1]) == RP_OK) {
        code = diff_runs(&arguments, inputs);
        rp_diff_input_close(&inputs[1]);
    }
    rp_diff_input_close(&inputs[0]);
    return code;
}
