#include "core/tool/plan_view.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "core/op.h"
#include "core/tool/rows.h"
#include "core/tool/source.h"
#include "core/tool/states.h"

/* ---------------------------------------------------------------- gathers */

static bool is_gather(const struct rp_trace *trace, size_t index, const struct rp_filter *filter)
{
    const struct rp_op *op = &trace->ops[index].op;
    return op->kind == RP_OP_ALL_GATHER && rp_filter_has(filter, trace, op);
}

static void print_gathers(FILE *out, const struct rp_trace *trace, size_t from, size_t to,
                          const struct rp_filter *filter)
{
    struct rp_rows rows = {.view = RP_ROWS_PLAN};
    for (size_t i = from; i < to; i++) {
        if (is_gather(trace, i, filter))
            rp_rows_measure(&rows, trace, &trace->ops[i]);
    }
    rp_rows_head(&rows, out, "");
    for (size_t i = from; i < to; i++) {
        if (is_gather(trace, i, filter))
            rp_rows_print(&rows, out, "", trace, &trace->ops[i]);
    }
}

/* ---------------------------------------------------------------- totals */

struct totals {
    uint64_t gathers;
    uint64_t by_source[RP_SOURCE_COUNT];
    uint64_t bytes; /* of one rank's parts that were not sent */
};

static struct totals add_up(const struct rp_trace *trace, size_t from, size_t to, const struct rp_filter *filter)
{
    struct totals totals = {0};
    for (size_t i = from; i < to; i++) {
        const struct rp_op *op = &trace->ops[i].op;
        if (!is_gather(trace, i, filter))
            continue;
        enum rp_source source = rp_source_of(op);
        totals.by_source[source]++;
        totals.gathers += source != RP_SOURCE_NONE;
        totals.bytes += source == RP_SOURCE_MEMORY ? rp_op_bytes(op) : 0;
    }
    return totals;
}

/* A number is as wide as the name of its column. */
static void print_totals_head(FILE *out)
{
    fputs(" gathers", out);
    for (size_t s = RP_SOURCE_NONE + 1; s < RP_SOURCE_COUNT; s++)
        fprintf(out, "  %8s", rp_source_name((enum rp_source)s));
    fprintf(out, "  %14s\n", "bytes not sent");
}

static void print_totals(FILE *out, const struct totals *totals, const char *of)
{
    char bytes[32];
    fprintf(out, "%8" PRIu64, totals->gathers);
    for (size_t s = RP_SOURCE_NONE + 1; s < RP_SOURCE_COUNT; s++) {
        int width = (int)strlen(rp_source_name((enum rp_source)s));
        fprintf(out, "  %*" PRIu64, width > 8 ? width : 8, totals->by_source[s]);
    }
    fprintf(out, "  %14s  %s\n", rp_bytes_print(totals->bytes, bytes, sizeof(bytes)), of);
}

enum rp_status rp_plan_view_print(FILE *out, const struct rp_trace *trace, size_t from, size_t to, const char *title,
                                  const struct rp_filter *filter)
{
    struct totals chosen = add_up(trace, from, to, filter);
    struct totals all = add_up(trace, 0, trace->op_count, filter);
    print_gathers(out, trace, from, to, filter);
    fputc('\n', out);
    print_totals_head(out);
    if (to - from < trace->op_count)
        print_totals(out, &chosen, title);
    print_totals(out, &all, "whole run");
    fputc('\n', out);
    return rp_states_replay(out, trace);
}
