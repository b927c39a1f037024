/* reprise sites: what was seen where calls were issued, which rules named it, and how to write one more. */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>

#include "core/tool/sites_view.h"
#include "core/tool/tool.h"

struct arguments {
    const char *path;
    int32_t rank;
    bool only_unmatched, csv;
};

static error_t parse(int key, char *argument, struct argp_state *state)
{
    struct arguments *arguments = state->input;
    switch (key) {
    case 'r':
        arguments->rank = rp_tool_number(state, "--rank", argument, 0);
        return 0;
    case 'u':
        arguments->only_unmatched = true;
        return 0;
    case 'c':
        arguments->csv = true;
        return 0;
    default:
        return rp_tool_take_path(key, argument, state, "trace", &arguments->path);
    }
}

static void parse_arguments(int argc, char **argv, struct arguments *arguments)
{
    static const struct argp_option options[] = {
        {"rank", 'r', "N", 0, "List those of rank N (default: the lowest)", 0},
        {"unmatched", 'u', NULL, 0, "Only what no rule gave a module, a phase or the beginning of a step", 0},
        {"csv", 'c', NULL, 0, "As comma-separated values, uncut, with mangled and demangled names", 0},
        {0},
    };
    static const struct argp argp = {
        options,
        parse,
        "DIR|FILE",
        "Lists what was seen where collectives were issued (Python frames, NVTX ranges, native frames) and the kernels "
        "that were launched, how often, and which rule (file:section) gave a module, a phase or the beginning of a "
        "step there, and shows how a "
        "rule for the rest is written.",
        NULL,
        NULL,
        NULL};
    *arguments = (struct arguments){.rank = RP_RANK_FIRST};
    rp_tool_parse(&argp, "sites", 0, argc, argv, arguments);
}

static void print_summary(const char *path, const struct rp_trace *trace)
{
    size_t all[2] = {0}, unmatched[2] = {0}; /* places, kernels */
    for (size_t i = 0; i < trace->site_count; i++) {
        int kernel = trace->sites[i].source == RP_SITE_KERNEL;
        all[kernel]++;
        unmatched[kernel] += rp_site_is_unmatched(&trace->sites[i]);
    }
    printf("%s: rank %" PRId32 ": ", path, trace->identity.rank);
    if (trace->site_count == 0)
        printf("nothing was seen: no rule can be written from this trace\n");
    else
        printf("%zu places of collectives, %zu of them without a rule; %zu kernels, %zu of them without\n", all[0],
               unmatched[0], all[1], unmatched[1]);
}

static enum rp_status print_sites(const struct arguments *arguments, const struct rp_trace *trace)
{
    if (arguments->csv)
        return rp_sites_view_csv(stdout, trace, arguments->only_unmatched);
    print_summary(arguments->path, trace);
    if (trace->site_count == 0)
        return RP_OK;
    enum rp_status status = rp_sites_view_print(stdout, trace, arguments->only_unmatched);
    if (status == RP_OK)
        rp_sites_hint_print(stdout, trace);
    return status;
}

int rp_cmd_sites(int argc, char **argv)
{
    struct arguments arguments;
    struct rp_trace_run run;
    parse_arguments(argc, argv, &arguments);
    if (rp_trace_run_read(arguments.path, &run) != RP_OK)
        return RP_EXIT_ERROR;
    int code = RP_EXIT_ERROR;
    const struct rp_trace *trace = rp_tool_find_rank("sites", arguments.path, &run, arguments.rank);
    if (trace != NULL) {
        enum rp_status status = print_sites(&arguments, trace);
        code = status == RP_OK ? RP_EXIT_OK : rp_tool_failed("sites", status);
    }
    rp_trace_run_free(&run);
    return code;
}
