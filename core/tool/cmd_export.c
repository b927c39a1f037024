/* reprise export: a recorded run in a format that viewers of traces, or other programs, read. */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/tool/export.h"
#include "core/tool/steps_option.h"
#include "core/tool/tool.h"

struct arguments {
    const char *path, *output; /* output NULL: standard output */
    int32_t rank;              /* RP_RANK_FIRST: all */
    struct rp_tool_steps steps;
    const char *format;
};

/* ---------------------------------------------------------------- arguments */

static const char *const formats[] = {"perfetto", "chrome", "jsonl"};

static const char *take_format(struct argp_state *state, const char *text)
{
    for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
        if (strcmp(text, formats[i]) == 0)
            return formats[i];
    }
    argp_error(state, "--format wants perfetto, chrome or jsonl, not '%s'", text);
    return NULL;
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
    struct arguments *arguments = state->input;
    switch (key) {
    case 'f':
        arguments->format = take_format(state, argument);
        return 0;
    case 'o':
        arguments->output = argument;
        return 0;
    case 'r':
        arguments->rank = rp_tool_number(state, "--rank", argument, 0);
        return 0;
    case 's':
        arguments->steps = rp_tool_take_steps(state, argument);
        return 0;
    case ARGP_KEY_END:
        rp_tool_take_path(key, argument, state, "trace", &arguments->path);
        if (arguments->format == NULL)
            argp_error(state, "no format given; --format wants perfetto, chrome or jsonl");
        return 0;
    default:
        return rp_tool_take_path(key, argument, state, "trace", &arguments->path);
    }
}

static void parse_arguments(int argc, char **argv, struct arguments *arguments)
{
    static const struct argp_option options[] = {
        {"format", 'f', "FORMAT", 0,
         "perfetto (ui.perfetto.dev), chrome (JSON trace events) or jsonl (one op or gather ahead a line)", 0},
        {"output", 'o', "FILE", 0, "Write to FILE, which is overwritten (default: standard output)", 0},
        {"rank", 'r', "N", 0, "Export rank N (default: all)", 0},
        {"steps", 's', RP_STEPS_ARGUMENT, 0, "Export only these steps, " RP_STEPS_HELP, 0},
        {0},
    };
    static const struct argp argp = {
        options,
        parse,
        "DIR|FILE",
        "Writes a recorded run in a format of others: a process a rank, on its threads the "
        "steps, events and calls in host time, and what was put on its streams.\vExit code: "
        "0, 1 if a rank could not be read and only the others were written, 2 error.",
        NULL,
        NULL,
        NULL};
    *arguments = (struct arguments){.rank = RP_RANK_FIRST, .steps = {0, RP_STEPS_OPEN}};
    rp_tool_parse(&argp, "export", 0, argc, argv, arguments);
}

/* ---------------------------------------------------------------- ranks */

struct job {
    const struct arguments *arguments;
    const struct rp_trace_run *run;
    struct rp_timeline *timelines; /* one a rank of the run; empty where it is not asked for */
    struct rp_progress progress;
    struct rp_export export;
};

static bool is_asked(const struct job *job, size_t number)
{
    return job->arguments->rank == RP_RANK_FIRST || job->arguments->rank == job->run->ranks[number]->identity.rank;
}

static void free_timelines(struct job *job)
{
    for (size_t i = 0; i < job->run->count; i++)
        rp_timeline_free(&job->timelines[i]);
    free(job->timelines);
}

static enum rp_status make_timelines(struct job *job)
{
    enum rp_status status = RP_OK;
    job->timelines = calloc(job->run->count, sizeof(*job->timelines));
    if (job->timelines == NULL)
        return RP_NO_MEMORY;
    for (size_t i = 0; i < job->run->count && status == RP_OK; i++) {
        if (is_asked(job, i))
            status = rp_timeline_create(job->run->ranks[i], &job->timelines[i]);
    }
    if (status != RP_OK)
        free_timelines(job);
    return status;
}

static enum rp_status export_rank(struct job *job, size_t number)
{
    struct rp_export *export = &job->export;
    const struct rp_trace *trace = job->run->ranks[number];
    const struct rp_timeline *timeline = &job->timelines[number];
    struct rp_export_steps steps = {job->arguments->steps.from, job->arguments->steps.to};
    if (export->format == NULL)
        return rp_export_jsonl(export->out, export->progress, &export->done, trace, timeline, steps);
    return rp_export_rank(export, (uint32_t)number, trace, timeline, steps);
}

static enum rp_status export_ranks(struct job *job)
{
    const struct rp_export_format *format = job->export.format;
    enum rp_status status = RP_OK;
    if (format != NULL)
        format->begin(&job->export);
    for (size_t i = 0; i < job->run->count && status == RP_OK; i++) {
        if (is_asked(job, i))
            status = export_rank(job, i);
    }
    if (format != NULL)
        format->end(&job->export);
    return status;
}

/* ---------------------------------------------------------------- output */

static uint64_t count_ops(const struct job *job)
{
    uint64_t ops = 0;
    for (size_t i = 0; i < job->run->count; i++)
        ops += is_asked(job, i) ? job->run->ranks[i]->op_count : 0;
    return ops;
}

static const struct rp_export_format *format_of(const char *name)
{
    if (strcmp(name, "perfetto") == 0)
        return &rp_export_perfetto;
    return strcmp(name, "chrome") == 0 ? &rp_export_chrome : NULL;
}

/* The result as an exit code; what went wrong has been said. */
static int write_to(struct job *job, FILE *file)
{
    static struct rp_export_out out;
    const char *output = job->arguments->output;
    if (rp_export_names_create(&job->export.names) != RP_OK)
        return rp_tool_failed("export", RP_NO_MEMORY);
    job->export.format = format_of(job->arguments->format);
    job->export.base_wall_ns = rp_export_base(job->run);
    job->export.out = &out;
    job->export.progress = &job->progress;
    rp_export_out_begin(&out, file);
    rp_progress_begin(&job->progress, "reprise export: writing", count_ops(job));
    enum rp_status status = export_ranks(job);
    rp_progress_end(&job->progress);
    rp_export_names_destroy(job->export.names);
    if (status != RP_OK)
        return rp_tool_failed("export", status);
    if (rp_export_out_end(&out) == RP_OK)
        return RP_EXIT_OK;
    rp_tool_error("export", "%s: %s", output != NULL ? output : "standard output", strerror(out.error));
    return RP_EXIT_ERROR;
}

/* A recording cannot be made again: no export is written over one, of this run or of another, whatever its version. */
static bool is_trace(const char *path)
{
    char cause[RP_TRACE_CAUSE_MAX];
    struct rp_trace *head = NULL;
    enum rp_status status = rp_trace_read_head(path, 0, cause, sizeof(cause), &head);
    rp_trace_free(head);
    return status == RP_OK || status == RP_VERSION;
}

static int write_output(struct job *job)
{
    const char *output = job->arguments->output;
    if (output == NULL && strcmp(job->arguments->format, "perfetto") == 0 && isatty(STDOUT_FILENO)) {
        rp_tool_error("export", "perfetto is no text for a terminal; give --output=FILE");
        return RP_EXIT_ERROR;
    }
    if (output == NULL)
        return write_to(job, stdout);
    if (is_trace(output)) {
        rp_tool_error("export", "%s: is a trace, which would be lost; give another file to --output", output);
        return RP_EXIT_ERROR;
    }
    FILE *file = fopen(output, "wbe");
    if (file == NULL) {
        rp_tool_error("export", "%s: cannot be opened: %s", output, strerror(errno));
        return RP_EXIT_ERROR;
    }
    int code = write_to(job, file);
    if (fclose(file) != 0 && code == RP_EXIT_OK) {
        rp_tool_error("export", "%s: %s", output, strerror(errno));
        return RP_EXIT_ERROR;
    }
    return code;
}

/* False, which is said, if no rank has a step that is asked for. */
static bool has_steps(const struct job *job)
{
    size_t most = 0;
    for (size_t i = 0; i < job->run->count; i++)
        most = job->timelines[i].count > most ? job->timelines[i].count : most;
    size_t missing = rp_tool_steps_missing(job->arguments->steps, most);
    if (missing == 0)
        return true;
    rp_tool_error("export", "there is no step %zu; the trace has steps 1 to %zu", missing, most);
    return false;
}

static int export_run(const struct arguments *arguments, const struct rp_trace_run *run)
{
    struct job job = {.arguments = arguments, .run = run};
    if (rp_tool_find_rank("export", arguments->path, run, arguments->rank) == NULL)
        return RP_EXIT_ERROR;
    enum rp_status status = make_timelines(&job);
    if (status != RP_OK)
        return rp_tool_failed("export", status);
    int code = has_steps(&job) ? write_output(&job) : RP_EXIT_ERROR;
    free_timelines(&job);
    return code;
}

int rp_cmd_export(int argc, char **argv)
{
    struct arguments arguments;
    struct rp_trace_run run;
    parse_arguments(argc, argv, &arguments);
    if (rp_trace_run_read(arguments.path, &run) != RP_OK)
        return RP_EXIT_ERROR;
    int code = export_run(&arguments, &run);
    if (code == RP_EXIT_OK && arguments.rank == RP_RANK_FIRST && run.unread_count > 0) {
        rp_tool_error("export", "%zu of %zu ranks could not be read, and are not in what was written", run.unread_count,
                      run.count + run.unread_count);
        code = RP_EXIT_INCOMPLETE;
    }
    rp_trace_run_free(&run);
    return code;
}
