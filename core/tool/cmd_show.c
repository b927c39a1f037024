/* reprise show: what a recorded run did, one line an op, with module and phase. */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/tool/filter.h"
#include "core/tool/launch_view.h"
#include "core/tool/order_view.h"
#include "core/tool/plan_view.h"
#include "core/tool/rows.h"
#include "core/tool/steps_option.h"
#include "core/tool/summary.h"
#include "core/compare/timeline.h"
#include "core/tool/timeline_view.h"
#include "core/tool/tool.h"
#include "core/tool/tree_view.h"

#define UNCUT_SHOWN 200 /* ops that are shown of a run in which no step was found */

enum view { VIEW_OPS, VIEW_ORDER, VIEW_TREE, VIEW_MODULES, VIEW_PLAN, VIEW_TIMELINE, VIEW_LAUNCHES, VIEW_CSV };

enum { KEY_STEPS = 256, KEY_TREE, KEY_MODULE, KEY_PHASE, KEY_KIND, KEY_COMM }; /* options without a letter */

/* Steps count from 1 for people, as training programs count them, and from 0 in here. */
enum { STEP_REPRESENTATIVE = -1, STEP_ALL = -2, STEP_SEVERAL = -3 };

struct arguments {
    const char *path;
    int32_t rank;
    int32_t step;
    struct rp_tool_steps steps; /* of STEP_SEVERAL */
    enum view view;
    const char *view_option; /* that chose it, or NULL */
    struct rp_filter filter;
};

/* ---------------------------------------------------------------- arguments */

static void take_view(struct argp_state *state, enum view view, const char *option)
{
    struct arguments *arguments = state->input;
    if (arguments->view_option != NULL && arguments->view != view)
        argp_error(state, "%s and %s exclude each other", arguments->view_option, option);
    arguments->view = view;
    arguments->view_option = option;
}

static void take_step(struct argp_state *state, const char *text)
{
    struct arguments *arguments = state->input;
    if (arguments->step == STEP_SEVERAL)
        argp_error(state, "--steps and --step exclude each other");
    arguments->step = strcmp(text, "all") == 0 ? STEP_ALL : rp_tool_number(state, "--step", text, 1) - 1;
}

static void take_steps(struct argp_state *state, const char *text)
{
    struct arguments *arguments = state->input;
    if (arguments->step != STEP_REPRESENTATIVE && arguments->step != STEP_SEVERAL)
        argp_error(state, "--step and --steps exclude each other");
    arguments->steps = rp_tool_take_steps(state, text);
    arguments->step = STEP_SEVERAL;
}

static error_t parse_filter(int key, char *argument, struct argp_state *state)
{
    struct arguments *arguments = state->input;
    switch (key) {
    case KEY_MODULE:
        rp_filter_take_module(&arguments->filter, state, argument);
        return 0;
    case KEY_PHASE:
        rp_filter_take_phase(&arguments->filter, state, argument);
        return 0;
    case KEY_KIND:
        rp_filter_take_kind(&arguments->filter, state, argument);
        return 0;
    case KEY_COMM:
        rp_filter_take_comm(&arguments->filter, state, argument);
        return 0;
    default:
        return rp_tool_take_path(key, argument, state, "trace", &arguments->path);
    }
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
    struct arguments *arguments = state->input;
    switch (key) {
    case 'r':
        arguments->rank = rp_tool_number(state, "--rank", argument, 0);
        return 0;
    case 's':
        take_step(state, argument);
        return 0;
    case KEY_STEPS:
        take_steps(state, argument);
        return 0;
    case 'a':
        arguments->filter.allocations = true;
        return 0;
    case 'o':
        take_view(state, VIEW_ORDER, "--order");
        return 0;
    case KEY_TREE:
        take_view(state, VIEW_TREE, "--tree");
        return 0;
    case 'm':
        take_view(state, VIEW_MODULES, "--modules");
        return 0;
    case 'p':
        take_view(state, VIEW_PLAN, "--plan");
        return 0;
    case 't':
        take_view(state, VIEW_TIMELINE, "--timeline");
        return 0;
    case 'l':
        take_view(state, VIEW_LAUNCHES, "--launches");
        return 0;
    case 'c':
        take_view(state, VIEW_CSV, "--csv");
        return 0;
    default:
        return parse_filter(key, argument, state);
    }
}

static void parse_arguments(int argc, char **argv, struct arguments *arguments)
{
    static const struct argp_option options[] = {
        {"rank", 'r', "N", 0, "Show rank N (default: the lowest)", 0},
        {"step", 's', "K|all", 0, "Show step K, counted from 1, or all (default: the second-last whole one)", 0},
        {"steps", KEY_STEPS, RP_STEPS_ARGUMENT, 0, "Show these steps, " RP_STEPS_HELP, 0},
        {"all-ops", 'a', NULL, 0, "Show allocations too", 0},
        {"order", 'o', NULL, 0, "Only the order: modules per phase, in sequence", 0},
        {"tree", KEY_TREE, NULL, 0,
         "Only phases and modules as a tree, as they ran, with ops, bytes, launches and host time", 0},
        {"modules", 'm', NULL, 0, "Only ops, bytes and launches per module and phase", 0},
        {"plan", 'p', NULL, 0, "Only the gathers and where their bytes came from, and what became of replay", 0},
        {"timeline", 't', NULL, 0, "Only when each call came in, how long the host was in it, and gathers by source",
         0},
        {"launches", 'l', NULL, 0, "Only the ops, each with its kernel launches, if they were recorded one by one", 0},
        {"csv", 'c', NULL, 0, "Only the ops, as comma-separated values with every field", 0},
        {"module", KEY_MODULE, "GLOB", 0, "Only ops and launches of these modules (layers.*)", 1},
        {"phase", KEY_PHASE, "NAME", 0,
         "Only those of this phase (forward, backward, recompute, optimizer, other; - for none)", 1},
        {"kind", KEY_KIND, "NAME", 0, "Only calls of this kind (all-gather), with the launches behind them", 1},
        {"comm", KEY_COMM, "N", 0, "Only calls on this communicator, likewise", 1},
        {0},
    };
    static const struct argp argp = {
        options,
        parse,
        "DIR|FILE",
        "Prints a recorded run: what it is, the ops of one step, and their order.\v--module, --phase, "
        "--kind and --comm go with each option that chooses what is printed.\nExit code: 0, or 2 after an error.",
        NULL,
        NULL,
        NULL};
    *arguments = (struct arguments){.rank = RP_RANK_FIRST, .step = STEP_REPRESENTATIVE};
    rp_tool_parse(&argp, "show", 0, argc, argv, arguments);
}

/* ---------------------------------------------------------------- what is shown */

struct range { /* ops [from, to) */
    size_t from, to;
};

static const char no_step[] = "no repeating step found";

static struct rp_tool_steps asked_steps(const struct arguments *arguments, const struct rp_timeline *timeline)
{
    if (arguments->step == STEP_SEVERAL)
        return arguments->steps;
    size_t step = arguments->step >= 0 ? (size_t)arguments->step : rp_timeline_representative(timeline);
    return (struct rp_tool_steps){step, step + 1};
}

/* The ops that were asked for; a heading for them in `title_out`. */
static enum rp_status choose_range(const struct arguments *arguments, const struct rp_timeline *timeline,
                                   struct range *range_out, char *title_out, size_t title_size)
{
    *range_out = (struct range){0, timeline->op_count};
    if (arguments->step == STEP_ALL || timeline->count == 0) {
        snprintf(title_out, title_size, "all steps");
        return RP_OK;
    }
    if (arguments->step == STEP_REPRESENTATIVE && timeline->whole == 0) {
        snprintf(title_out, title_size, "%s", no_step);
        if (timeline->op_count > UNCUT_SHOWN) {
            range_out->to = UNCUT_SHOWN;
            snprintf(title_out, title_size, "%s; the first %d ops (--step all shows all)", no_step, UNCUT_SHOWN);
        }
        return RP_OK;
    }
    struct rp_tool_steps steps = asked_steps(arguments, timeline);
    size_t missing = rp_tool_steps_missing(steps, timeline->count);
    if (missing > 0) {
        rp_tool_error("show", "there is no step %zu; the trace has steps 1 to %zu", missing, timeline->count);
        return RP_NOT_FOUND;
    }
    size_t last = (steps.to < timeline->count ? steps.to : timeline->count) - 1;
    *range_out = (struct range){timeline->steps[steps.from].first, rp_timeline_end(timeline, last)};
    if (last > steps.from)
        snprintf(title_out, title_size, "steps %zu to %zu", steps.from + 1, last + 1);
    else
        snprintf(title_out, title_size, "step %zu%s", last + 1,
                 timeline->steps[last].kind == RP_STEP_WHOLE ? "" : " (not a whole step)");
    return RP_OK;
}

static void print_ops(const struct arguments *arguments, const struct rp_trace *trace, struct range range)
{
    struct rp_rows rows = {0};
    for (size_t i = range.from; i < range.to; i++) {
        if (rp_filter_has(&arguments->filter, trace, &trace->ops[i].op))
            rp_rows_measure(&rows, trace, &trace->ops[i]);
    }
    rp_rows_head(&rows, stdout, "");
    for (size_t i = range.from; i < range.to; i++) {
        if (rp_filter_has(&arguments->filter, trace, &trace->ops[i].op))
            rp_rows_print(&rows, stdout, "", trace, &trace->ops[i]);
    }
}

static enum rp_status print_csv(const struct arguments *arguments, const struct rp_trace *trace,
                                const struct rp_timeline *timeline, struct range range)
{
    uint64_t *named = rp_launch_named(trace);
    if (named == NULL)
        return RP_NO_MEMORY;
    rp_rows_csv_head(stdout);
    for (size_t i = range.from; i < range.to; i++) {
        if (rp_filter_has(&arguments->filter, trace, &trace->ops[i].op))
            rp_rows_csv(stdout, trace, i, rp_timeline_step_of(timeline, i) + 1, named[i]);
    }
    free(named);
    return RP_OK;
}

static bool is_of_launches(enum view view)
{
    return view == VIEW_OPS || view == VIEW_MODULES || view == VIEW_LAUNCHES;
}

/* How many launches belong to an event: of what is shown, and of the whole run. */
static void print_launch_figures(const struct rp_trace *trace, struct range range, const char *title)
{
    putchar('\n');
    rp_launch_view_figures_head(stdout);
    rp_launch_view_figures(stdout, trace, range.from, range.to, title);
    if (range.from > 0 || range.to < trace->op_count)
        rp_launch_view_figures(stdout, trace, 0, trace->op_count, "whole run");
}

/* True if the filter has an op, or launches behind one. */
static bool is_anything(const struct arguments *arguments, const struct rp_trace *trace, struct range range)
{
    for (size_t i = range.from; i < range.to; i++) {
        if (rp_filter_has(&arguments->filter, trace, &trace->ops[i].op))
            return true;
    }
    for (size_t i = 0; i < trace->part_count; i++) {
        const struct rp_trace_part *part = &trace->parts[i];
        if (part->op >= range.from && part->op < range.to && rp_filter_has_part(&arguments->filter, trace, part))
            return true;
    }
    return false;
}

static enum rp_status print_view(const struct arguments *arguments, const struct rp_trace *trace,
                                 const struct rp_timeline *timeline, struct range range, const char *title)
{
    const struct rp_filter *filter = &arguments->filter;
    char only[400];
    if (range.from == range.to) {
        printf("\n%s: no ops\n", title);
        return RP_OK;
    }
    printf("\n%s, ops %zu to %zu%s\n", title, range.from, range.to - 1, rp_filter_text(filter, only, sizeof(only)));
    if (rp_filter_is_set(filter) && !is_anything(arguments, trace, range)) {
        printf("none here\n");
        return RP_OK;
    }
    if (arguments->view == VIEW_TREE)
        return rp_tree_view_print(stdout, trace, timeline, range.from, range.to, filter);
    if (arguments->view == VIEW_MODULES)
        return rp_order_view_modules(stdout, trace, range.from, range.to, filter);
    if (arguments->view == VIEW_LAUNCHES)
        return rp_launch_view_print(stdout, trace, range.from, range.to, filter);
    if (arguments->view == VIEW_PLAN)
        return rp_plan_view_print(stdout, trace, range.from, range.to, title, filter);
    if (arguments->view == VIEW_TIMELINE) {
        rp_timeline_view_print(stdout, trace, range.from, range.to, filter);
        return RP_OK;
    }
    if (arguments->view == VIEW_OPS) {
        print_ops(arguments, trace, range);
        printf("\norder of %s\n", strncmp(title, no_step, strlen(no_step)) == 0 ? "these ops" : title);
    }
    rp_order_view_print(stdout, trace, range.from, range.to, filter);
    return RP_OK;
}

static enum rp_status print_rank(const struct arguments *arguments, const struct rp_trace_run *run,
                                 const struct rp_trace *trace, const struct rp_timeline *timeline, struct range range,
                                 const char *title)
{
    rp_summary_run(stdout, arguments->path, run);
    rp_summary_rank(stdout, trace, timeline);
    if (is_of_launches(arguments->view) && !rp_filter_is_set(&arguments->filter))
        print_launch_figures(trace, range, title);
    return print_view(arguments, trace, timeline, range, title);
}

static enum rp_status show_rank(const struct arguments *arguments, const struct rp_trace_run *run,
                                const struct rp_trace *trace)
{
    struct rp_timeline timeline;
    struct range range;
    char title[100];
    enum rp_status status = rp_timeline_create(trace, &timeline);
    if (status != RP_OK) {
        rp_tool_failed("show", status);
        return status;
    }
    status = choose_range(arguments, &timeline, &range, title, sizeof(title));
    if (status == RP_OK)
        status = rp_filter_check(&arguments->filter, "show", trace);
    if (status == RP_OK) {
        status = arguments->view == VIEW_CSV ? print_csv(arguments, trace, &timeline, range)
                                             : print_rank(arguments, run, trace, &timeline, range, title);
        if (status != RP_OK)
            rp_tool_failed("show", status);
    }
    rp_timeline_free(&timeline);
    return status;
}

int rp_cmd_show(int argc, char **argv)
{
    struct arguments arguments;
    struct rp_trace_run run;
    parse_arguments(argc, argv, &arguments);
    if (rp_trace_run_read(arguments.path, &run) != RP_OK)
        return RP_EXIT_ERROR;
    int code = RP_EXIT_ERROR;
    const struct rp_trace *trace = rp_tool_find_rank("show", arguments.path, &run, arguments.rank);
    if (trace != NULL && show_rank(&arguments, &run, trace) == RP_OK)
        code = RP_EXIT_OK;
    rp_trace_run_free(&run);
    return code;
}
