/* reprise ranks: exit code 0 if the ranks of a run agree, 1 if not or if that cannot be said, 2 on an error. */
#include <stdbool.h>
#include <stdio.h>

#include "core/compare/ranks.h"
#include "core/tool/progress.h"
#include "core/tool/ranks_report.h"
#include "core/tool/tool.h"
#include "core/trace/run_directory.h"

enum view { VIEW_TEXT, VIEW_JSON, VIEW_CSV };

struct arguments {
    const char *path;
    enum view view;
};

static void take_view(struct argp_state *state, enum view view)
{
    struct arguments *arguments = state->input;
    if (arguments->view != VIEW_TEXT && arguments->view != view)
        argp_error(state, "--json and --csv exclude each other");
    arguments->view = view;
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
    struct arguments *arguments = state->input;
    switch (key) {
    case 'j':
        take_view(state, VIEW_JSON);
        return 0;
    case 'c':
        take_view(state, VIEW_CSV);
        return 0;
    default:
        return rp_tool_take_path(key, argument, state, "run", &arguments->path);
    }
}

/* Comparing takes about as long as reading a file. */
static void watch_reading(void *argument, size_t done, size_t total)
{
    struct rp_progress *progress = argument;
    progress->total = total + 1;
    rp_progress_at(progress, done);
}

static enum rp_status read_run(const struct arguments *arguments, struct rp_progress *progress,
                               struct rp_trace_run *run_out)
{
    rp_progress_begin(progress, "reprise ranks: reading and comparing", 0);
    enum rp_status status = rp_trace_run_read_watched(arguments->path, watch_reading, progress, run_out);
    if (status == RP_OK)
        rp_progress_at(progress, progress->total - 1);
    else
        rp_progress_end(progress);
    return status;
}

static int compare_ranks(const struct arguments *arguments, const struct rp_trace_run *run,
                         struct rp_progress *progress)
{
    struct rp_ranks ranks;
    char job[RP_RUN_JOB_MAX], failure[200];
    bool has_failure = rp_run_directory_failure(arguments->path, failure, sizeof(failure)) == RP_OK;
    bool has_job = rp_run_directory_job(arguments->path, job) == RP_OK;
    enum rp_status status = rp_ranks_compare(run, has_job ? job : NULL, &ranks);
    rp_progress_end(progress);
    if (status != RP_OK)
        return rp_tool_failed("ranks", status);
    if (arguments->view == VIEW_JSON)
        rp_ranks_report_json(stdout, &ranks);
    else if (arguments->view == VIEW_CSV)
        rp_ranks_report_csv(stdout, &ranks);
    else
        rp_ranks_report(stdout, &ranks, arguments->path, has_failure ? failure : NULL);
    int code = ranks.verdict == RP_RANKS_AGREE ? RP_EXIT_OK : RP_EXIT_DIFFERENT;
    rp_ranks_free(&ranks);
    return code;
}

int rp_cmd_ranks(int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"json", 'j', NULL, 0, "Everything, as JSON", 0},
        {"csv", 'c', NULL, 0, "Only the ranks, as comma-separated values", 0},
        {0},
    };
    static const struct argp argp = {options,
                                     parse,
                                     "DIR",
                                     "Checks the ranks of a recorded run against each other, by communicator: which "
                                     "collectives and messages do not fit, who is behind at the end, who comes last, "
                                     "which traces are missing, unreadable or cut short.\vExit code: 0 the ranks "
                                     "agree, 1 they do not or traces that could say so are missing or cannot be read, "
                                     "2 error: no trace can be read.",
                                     NULL,
                                     NULL,
                                     NULL};
    struct arguments arguments = {.view = VIEW_TEXT};
    struct rp_trace_run run;
    struct rp_progress progress;
    rp_tool_parse(&argp, "ranks", 0, argc, argv, &arguments);
    if (read_run(&arguments, &progress, &run) != RP_OK)
        return RP_EXIT_ERROR;
    int code = compare_ranks(&arguments, &run, &progress);
    rp_trace_run_free(&run);
    return code;
}
