#include "core/tool/order_view.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/tool/tool.h"

#define LINE_WIDTH 100
#define INDENT 13 /* before the modules: two spaces, the longest phase, two spaces */

static bool is_event(const struct rp_op *op)
{
    bool allocation = rp_op_kind_is_allocation((enum rp_op_kind)op->kind);
    return !allocation && (op->module != RP_MODULE_UNKNOWN || op->phase != RP_PHASE_UNKNOWN);
}

/* ---------------------------------------------------------------- the order */

struct writer {
    FILE *out;
    size_t column;
    struct rp_event last; /* phase RP_PHASE_COUNT: nothing yet */
};

static void write_event(struct writer *writer, const struct rp_trace *trace, struct rp_event event)
{
    char module[200];
    rp_tool_safe(rp_module_name(trace->modules, event.module), module, sizeof(module));
    if (event.phase != writer->last.phase) {
        fprintf(writer->out, "%s  %-*s", writer->column > 0 ? "\n" : "", INDENT - 2, rp_phase_name(event.phase));
        writer->column = INDENT;
    } else if (writer->column + strlen(module) >= LINE_WIDTH) {
        fprintf(writer->out, "\n%*s", INDENT, "");
        writer->column = INDENT;
    }
    fprintf(writer->out, "%s%s", writer->column > INDENT ? " " : "", module);
    writer->column += strlen(module) + 1;
    writer->last = event;
}

void rp_order_view_print(FILE *out, const struct rp_trace *trace, size_t from, size_t to,
                         const struct rp_filter *filter)
{
    struct writer writer = {.out = out, .last = {.phase = RP_PHASE_COUNT}};
    for (size_t i = from; i < to; i++) {
        const struct rp_op *op = &trace->ops[i].op;
        struct rp_event event = {.module = op->module, .phase = (enum rp_phase)op->phase};
        if (!rp_filter_has(filter, trace, op))
            continue;
        if (is_event(op) && (event.module != writer.last.module || event.phase != writer.last.phase))
            write_event(&writer, trace, event);
    }
    fputs(writer.column > 0 ? "\n" : "  no op has a module or a phase\n", out);
}

/* ---------------------------------------------------------------- per module */

struct total {
    uint64_t ops, bytes, launches;
};

static void print_total(FILE *out, const struct rp_trace *trace, uint32_t module, enum rp_phase phase,
                        const struct total *total)
{
    char name[200];
    fprintf(out, "%8" PRIu64 "  %14" PRIu64 "  %8" PRIu64 "  %-9s  %s\n", total->ops, total->bytes, total->launches,
            rp_phase_name(phase), rp_tool_safe(rp_module_name(trace->modules, module), name, sizeof(name)));
}

/* Those behind the ops [from, to), to the event that each belongs to. */
static void add_launches(const struct rp_trace *trace, size_t from, size_t to, const struct rp_filter *filter,
                         struct total *totals, uint32_t modules)
{
    for (size_t i = 0; i < trace->part_count; i++) {
        const struct rp_trace_part *part = &trace->parts[i];
        if (part->op >= from && part->op < to && rp_event_is_named(part->event) && part->event.module < modules &&
            rp_filter_has_part(filter, trace, part))
            totals[(size_t)part->event.module * RP_PHASE_COUNT + part->event.phase].launches += part->count;
    }
}

/* Modules are numbered in order of first use in the run, so that the table follows the model. */
enum rp_status rp_order_view_modules(FILE *out, const struct rp_trace *trace, size_t from, size_t to,
                                     const struct rp_filter *filter)
{
    uint32_t modules = rp_module_count(trace->modules);
    struct total *totals = calloc((size_t)modules * RP_PHASE_COUNT + 1, sizeof(*totals));
    if (totals == NULL)
        return RP_NO_MEMORY;
    for (size_t i = from; i < to; i++) {
        const struct rp_trace_op *op = &trace->ops[i];
        if (!is_event(&op->op) || op->op.module >= modules || op->op.phase >= RP_PHASE_COUNT ||
            !rp_filter_has(filter, trace, &op->op))
            continue;
        struct total *total = &totals[(size_t)op->op.module * RP_PHASE_COUNT + op->op.phase];
        total->ops++;
        total->bytes += rp_op_bytes(&op->op);
    }
    add_launches(trace, from, to, filter, totals, modules);
    fprintf(out, "%8s  %14s  %8s  %-9s  %s\n", "ops", "bytes", "launches", "phase", "module");
    for (size_t i = 0; i < (size_t)modules * RP_PHASE_COUNT; i++) {
        if (totals[i].ops > 0 || totals[i].launches > 0)
            print_total(out, trace, (uint32_t)(i / RP_PHASE_COUNT), (enum rp_phase)(i % RP_PHASE_COUNT), &totals[i]);
    }
    free(totals);
    return RP_OK;
}
