#include "core/tool/rows.h"

#include <inttypes.h>
#include <string.h>

#include "core/tool/source.h"
#include "core/tool/tool.h"

#define MODULE_MAX 200 /* bytes of a module's name in text */

/* ---------------------------------------------------------------- text */

struct row {
    char position[24], module[MODULE_MAX], op[160], comm[16], launches[24], fingerprint[20];
    const char *phase, *source;
};

static const char *const titles[] = {"position",     "module",   "phase",       "op",
                                     "communicator", "launches", "fingerprint", "source"};
#define CELLS (sizeof(titles) / sizeof(titles[0]))

/* What a person should know of how the call went. */
static const char *op_remark(const struct rp_op *op)
{
    if (op->flags & RP_OP_FAILED)
        return " (failed)";
    if (op->flags & RP_OP_SIMULATED)
        return " (simulated)";
    if (op->flags & RP_OP_CAPTURED)
        return " (captured)";
    return "";
}

static void fill_row(struct row *row, const struct rp_trace *trace, const struct rp_trace_op *op)
{
    char text[128];
    snprintf(row->position, sizeof(row->position), "-");
    if (op->op.position != RP_NO_POSITION)
        snprintf(row->position, sizeof(row->position), "%" PRIu64, op->op.position);
    rp_tool_safe(rp_module_name(trace->modules, op->op.module), row->module, sizeof(row->module));
    row->phase = rp_phase_name((enum rp_phase)op->op.phase);
    row->source = rp_source_name(rp_source_of(&op->op));
    snprintf(row->op, sizeof(row->op), "%s%s", rp_op_print(&op->op, text, sizeof(text)), op_remark(&op->op));
    snprintf(row->comm, sizeof(row->comm), "-");
    if (op->op.comm != RP_NO_COMM)
        snprintf(row->comm, sizeof(row->comm), "%" PRIu32, op->op.comm);
    snprintf(row->launches, sizeof(row->launches), "%" PRIu32 "%s", op->launches, op->lossy ? "+" : "");
    snprintf(row->fingerprint, sizeof(row->fingerprint), "-");
    if (op->has_fingerprint)
        snprintf(row->fingerprint, sizeof(row->fingerprint), "%s%08" PRIx32,
                 (op->op.flags & RP_OP_SAMPLED) != 0 ? "~" : "", (uint32_t)(op->fingerprint[0] >> 32));
}

static void widen(int *width, const char *title, const char *text)
{
    int length = (int)strlen(text), title_length = (int)strlen(title);
    if (length > *width)
        *width = length;
    if (title_length > *width)
        *width = title_length;
}

void rp_rows_measure(struct rp_rows *rows, const struct rp_trace *trace, const struct rp_trace_op *op)
{
    struct row row = {.phase = "-"};
    fill_row(&row, trace, op);
    widen(&rows->position, titles[0], row.position);
    widen(&rows->module, titles[1], row.module);
    widen(&rows->phase, titles[2], row.phase);
    widen(&rows->op, titles[3], row.op);
    widen(&rows->comm, titles[4], row.comm);
    widen(&rows->launches, titles[5], row.launches);
}

static void print_row(const struct rp_rows *rows, FILE *out, const char *indent, const char *const cells[CELLS])
{
    fprintf(out, "%s%*s  %-*s  %-*s  %-*s  %*s  ", indent, rows->position, cells[0], rows->module, cells[1],
            rows->phase, cells[2], rows->op, cells[3], rows->comm, cells[4]);
    if (rows->view == RP_ROWS_PLAN)
        fprintf(out, "%s\n", cells[7]);
    else
        fprintf(out, "%*s  %s\n", rows->launches, cells[5], cells[6]);
}

void rp_rows_head(const struct rp_rows *rows, FILE *out, const char *indent)
{
    print_row(rows, out, indent, titles);
}

void rp_rows_print(const struct rp_rows *rows, FILE *out, const char *indent, const struct rp_trace *trace,
                   const struct rp_trace_op *op)
{
    struct row row = {.phase = "-"};
    fill_row(&row, trace, op);
    print_row(rows, out, indent,
              (const char *const[CELLS]){row.position, row.module, row.phase, row.op, row.comm, row.launches,
                                         row.fingerprint, row.source});
}

char *rp_rows_event(const struct rp_trace *trace, const struct rp_op *op, char *text, size_t size)
{
    char module[MODULE_MAX];
    const char *phase = rp_phase_name((enum rp_phase)op->phase);
    rp_tool_safe(rp_module_name(trace->modules, op->module), module, sizeof(module));
    bool has_module = strcmp(module, "-") != 0, has_phase = op->phase != RP_PHASE_UNKNOWN;
    if (!has_module && !has_phase)
        snprintf(text, size, "an unnamed op");
    else
        snprintf(text, size, "%s%s%s", has_module ? module : "", has_module && has_phase ? " " : "",
                 has_phase ? phase : "");
    return text;
}

/* ---------------------------------------------------------------- CSV */

void rp_rows_csv_head(FILE *out)
{
    fputs("rank,step,op,position,module,phase,kind,bytes,dtype,reduction,root,communicator,thread,stream,group,flags,"
          "begin_ns,end_ns,launches,launch_digest,launches_lost,fingerprint,launches_named,source\n",
          out);
}

/* Empty where there is none. */
static void csv_position_and_names(FILE *out, const struct rp_trace *trace, const struct rp_op *op)
{
    if (op->position != RP_NO_POSITION)
        fprintf(out, "%" PRIu64, op->position);
    fputc(',', out);
    rp_tool_csv_text(out, rp_module_name(trace->modules, op->module));
    fprintf(out, ",%s,", rp_phase_name((enum rp_phase)op->phase));
}

static void csv_call(FILE *out, const struct rp_op *op)
{
    fprintf(out, "%s,%" PRIu64 ",%s,%s,", rp_op_kind_name((enum rp_op_kind)op->kind), rp_op_bytes(op),
            rp_dtype_name((enum rp_dtype)op->dtype), rp_redop_name((enum rp_redop)op->redop));
    if (op->root >= 0)
        fprintf(out, "%" PRId32, op->root);
    fputc(',', out);
    if (op->comm != RP_NO_COMM)
        fprintf(out, "%" PRIu32, op->comm);
    fputc(',', out);
}

void rp_rows_csv(FILE *out, const struct rp_trace *trace, size_t index, size_t step, uint64_t launches_named)
{
    const struct rp_trace_op *op = &trace->ops[index];
    fprintf(out, "%" PRId32 ",%zu,%zu,", trace->identity.rank, step, index);
    csv_position_and_names(out, trace, &op->op);
    csv_call(out, &op->op);
    fprintf(out, "%u,0x%" PRIx64 ",%" PRIu32 ",0x%x,%.0f,%.0f,", op->thread, op->op.stream, op->op.group, op->op.flags,
            rp_trace_ns(trace, op->op.begin), rp_trace_ns(trace, op->op.end));
    fprintf(out, "%" PRIu32 ",%016" PRIx64 ",%d,", op->launches, op->launch_digest, op->lossy);
    if (op->has_fingerprint)
        fprintf(out, "%016" PRIx64 "%016" PRIx64, op->fingerprint[0], op->fingerprint[1]);
    fprintf(out, ",%" PRIu64 ",", launches_named);
    enum rp_source source = rp_source_of(&op->op);
    if (source != RP_SOURCE_NONE)
        rp_tool_csv_text(out, rp_source_name(source));
    fputc('\n', out);
}
