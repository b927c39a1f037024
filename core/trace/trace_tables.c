/*
 * What a trace has besides ops, sorted by its number or hash: communicators, kernels, sites with their counts.
 */
#include "core/trace/trace_parse.h"

#include <stdlib.h>

/* ---------------------------------------------------------------- communicators */

static int by_comm_number(const void *left, const void *right)
{
    const struct rp_trace_comm *a = left, *b = right;
    return (a->number > b->number) - (a->number < b->number);
}

/* Sorted, and one of each number. */
static void sort_comms(struct rp_trace *trace)
{
    if (trace->comm_count < 2)
        return;
    qsort(trace->comms, trace->comm_count, sizeof *trace->comms, by_comm_number);
    size_t kept = 1;
    for (size_t i = 1; i < trace->comm_count; i++)
        if (trace->comms[i].number != trace->comms[kept - 1].number)
            trace->comms[kept++] = trace->comms[i];
    trace->comm_count = kept;
}

/* ---------------------------------------------------------------- kernels */

static int by_hash(const void *left, const void *right)
{
    const struct rp_trace_kernel *a = left, *b = right;
    return (a->hash > b->hash) - (a->hash < b->hash);
}

static void sort_kernels(struct rp_trace *trace)
{
    if (trace->kernel_count > 1)
        qsort(trace->kernels, trace->kernel_count, sizeof *trace->kernels, by_hash);
}

const char *rp_trace_kernel_name(const struct rp_trace *trace, uint64_t hash)
{
    const struct rp_trace_kernel key = {.hash = hash}, *found;
    if (trace->kernel_count == 0)
        return NULL;
    found = bsearch(&key, trace->kernels, trace->kernel_count, sizeof key, by_hash);
    return found == NULL ? NULL : found->name;
}

/* ---------------------------------------------------------------- sites */

static int by_site_number(const void *left, const void *right)
{
    const struct rp_trace_site *a = left, *b = right;
    return (a->number > b->number) - (a->number < b->number);
}

/* Sorted, and one of each number. */
static void sort_sites(struct rp_trace *trace)
{
    if (trace->site_count < 2)
        return;
    qsort(trace->sites, trace->site_count, sizeof *trace->sites, by_site_number);
    size_t kept = 1;
    for (size_t i = 1; i < trace->site_count; i++)
        if (trace->sites[i].number != trace->sites[kept - 1].number)
            trace->sites[kept++] = trace->sites[i];
        else
            free((char *)trace->sites[i].text);
    trace->site_count = kept;
}

/* The last count of a site is the one that holds. */
static void join_site_counts(struct rp_trace_parse *parse)
{
    struct rp_trace *trace = parse->trace;
    for (size_t i = 0; i < parse->site_counts_count && trace->site_count > 0; i++) {
        const struct rp_trace_site key = {.number = parse->site_counts[i].number};
        struct rp_trace_site *site = bsearch(&key, trace->sites, trace->site_count, sizeof key, by_site_number);
        if (site != NULL)
            site->count = parse->site_counts[i].count;
    }
}

void rp_trace_parse_sort_tables(struct rp_trace_parse *parse)
{
    sort_comms(parse->trace);
    sort_kernels(parse->trace);
    sort_sites(parse->trace);
    join_site_counts(parse);
}
