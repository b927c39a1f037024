/*
 * One op or gather ahead a line. Fields are those of `reprise show --csv` under the same names, `null` where that
 * leaves them empty, and wall_ns, the begin in ns since the epoch. A gather that replay issued ahead of its call stands
 * where it was issued, has no field `op` but `used_by`, the op that it was served to, and its number in `ahead`.
 * Numbers of 64 bits and more that are no counts or times are texts.
 *
 * Threads: one at a time.
 */
#include <stdlib.h>

#include "core/tool/export.h"
#include "core/tool/launch_view.h"
#include "core/tool/source.h"
#include "core/tool/tool.h"

#define PROGRESS_OPS 8192

/* `,"name":` */
static void put_key(struct rp_export_out *out, const char *name)
{
    rp_export_text(out, ",\"");
    rp_export_text(out, name);
    rp_export_text(out, "\":");
}

static void put_number(struct rp_export_out *out, const char *name, uint64_t number)
{
    put_key(out, name);
    rp_export_u64(out, number);
}

static void put_number_or_null(struct rp_export_out *out, const char *name, uint64_t number, bool is_there)
{
    put_key(out, name);
    if (is_there)
        rp_export_u64(out, number);
    else
        rp_export_text(out, "null");
}

static void put_time(struct rp_export_out *out, const char *name, double ns)
{
    put_key(out, name);
    rp_export_i64(out, ns < 9e18 && ns > -9e18 ? (int64_t)ns : INT64_MAX);
}

static void put_text(struct rp_export_out *out, const char *name, const char *text)
{
    put_key(out, name);
    rp_export_json_text(out, text);
}

/* One or two words of 64 bits. `before` goes before the first digit. */
static void put_hex(struct rp_export_out *out, const char *name, const char *before, const uint64_t *words, int count,
                    int digits)
{
    put_key(out, name);
    rp_export_text(out, "\"");
    rp_export_text(out, before);
    for (int i = 0; i < count; i++)
        rp_export_hex(out, words[i], digits);
    rp_export_text(out, "\"");
}

static void put_call(struct rp_export_out *out, const struct rp_trace *trace, const struct rp_op *op)
{
    char module[4 * RP_MODULE_NAME_MAX + 5];
    put_number_or_null(out, "position", op->position, op->position != RP_NO_POSITION);
    put_text(out, "module", rp_tool_safe(rp_module_name(trace->modules, op->module), module, sizeof(module)));
    put_text(out, "phase", rp_phase_name((enum rp_phase)op->phase));
    put_text(out, "kind", rp_op_kind_name((enum rp_op_kind)op->kind));
    put_number(out, "bytes", rp_op_bytes(op));
    put_text(out, "dtype", rp_dtype_name((enum rp_dtype)op->dtype));
    put_text(out, "reduction", rp_redop_name((enum rp_redop)op->redop));
    put_number_or_null(out, "root", (uint64_t)(uint32_t)op->root, op->root >= 0);
    put_number_or_null(out, "communicator", op->comm, op->comm != RP_NO_COMM);
}

static void put_wall(struct rp_export_out *out, const struct rp_trace *trace, double begin)
{
    put_key(out, "wall_ns");
    rp_export_u64(out, trace->identity.start_wall_ns + (uint64_t)(int64_t)(begin < 9e18 && begin > -9e18 ? begin : 0));
}

static void put_place(struct rp_export_out *out, const struct rp_trace *trace, const struct rp_trace_op *op)
{
    double begin = rp_trace_ns(trace, op->op.begin);
    put_number(out, "thread", op->thread);
    put_hex(out, "stream", "0x", &op->op.stream, 1, 1);
    put_number(out, "group", op->op.group);
    put_number(out, "flags", op->op.flags);
    put_time(out, "begin_ns", begin);
    put_time(out, "end_ns", rp_trace_ns(trace, op->op.end));
    put_wall(out, trace, begin);
}

static void put_content(struct rp_export_out *out, const struct rp_trace_op *op, uint64_t launches_named)
{
    enum rp_source source = rp_source_of(&op->op);
    put_number(out, "launches", op->launches);
    put_hex(out, "launch_digest", "", &op->launch_digest, 1, 16);
    put_number(out, "launches_lost", op->lossy);
    if (op->has_fingerprint)
        put_hex(out, "fingerprint", "", op->fingerprint, 2, 16);
    else
        put_number_or_null(out, "fingerprint", 0, false);
    put_number(out, "launches_named", launches_named);
    if (source != RP_SOURCE_NONE)
        put_text(out, "source", rp_source_name(source));
    else
        put_number_or_null(out, "source", 0, false);
}

static void put_op(struct rp_export_out *out, const struct rp_trace *trace, size_t step, size_t index,
                   uint64_t launches_named)
{
    const struct rp_trace_op *op = &trace->ops[index];
    rp_export_text(out, "{\"rank\":");
    rp_export_i64(out, trace->identity.rank);
    put_number(out, "step", step + 1);
    put_number(out, "op", index);
    put_call(out, trace, &op->op);
    put_place(out, trace, op);
    put_content(out, op, launches_named);
    rp_export_text(out, "}\n");
}

/* ---------------------------------------------------------------- gathers ahead */

static void put_issue(struct rp_export_out *out, const struct rp_trace *trace, size_t step,
                      const struct rp_trace_issue *issue)
{
    const struct rp_issue *of = &issue->of;
    double begin = rp_trace_ns(trace, of->begin);
    bool is_used = issue->op != RP_TRACE_NO_OP;
    rp_export_text(out, "{\"rank\":");
    rp_export_i64(out, trace->identity.rank);
    put_number(out, "step", step + 1);
    put_number(out, "ahead", of->number);
    put_number(out, "communicator", of->comm);
    put_number(out, "bytes", of->bytes);
    put_text(out, "sends", rp_issue_source_name((enum rp_issue_source)of->source));
    put_number(out, "behind", of->behind);
    put_number(out, "expected", of->position);
    put_number_or_null(out, "used_by", issue->op, is_used);
    put_number_or_null(out, "position", is_used ? trace->ops[issue->op].op.position : 0, is_used);
    put_time(out, "begin_ns", begin);
    put_time(out, "end_ns", rp_trace_ns(trace, of->end));
    put_wall(out, trace, begin);
    rp_export_text(out, "}\n");
}

/* Those from `*next` on that were issued before the op begins; all that are left, if there is no such op. */
static void put_issues(struct rp_export_out *out, const struct rp_trace *trace, size_t step, size_t op, size_t *next)
{
    for (; *next < trace->issue_count; ++*next) {
        if (op < trace->op_count && trace->issues[*next].of.begin >= trace->ops[op].op.begin)
            return;
        put_issue(out, trace, step, &trace->issues[*next]);
    }
}

/* The first that was issued within the steps from op `from` on. */
static size_t first_issue(const struct rp_trace *trace, size_t from)
{
    size_t first = 0;
    while (from > 0 && first < trace->issue_count &&
           (from >= trace->op_count || trace->issues[first].of.begin < trace->ops[from].op.begin))
        first++;
    return first;
}

enum rp_status rp_export_jsonl(struct rp_export_out *out, struct rp_progress *progress, uint64_t *done,
                               const struct rp_trace *trace, const struct rp_timeline *timeline,
                               struct rp_export_steps steps)
{
    uint64_t *named = rp_launch_named(trace);
    if (named == NULL)
        return RP_NO_MEMORY;
    size_t next = steps.from < timeline->count ? first_issue(trace, timeline->steps[steps.from].first) : 0;
    for (size_t step = steps.from; step < steps.to && step < timeline->count; step++) {
        for (size_t i = timeline->steps[step].first; i < rp_timeline_end(timeline, step); i++) {
            put_issues(out, trace, step, i, &next);
            put_op(out, trace, step, i, named[i]);
            if (++*done % PROGRESS_OPS == 0)
                rp_progress_at(progress, *done);
        }
        put_issues(out, trace, step, rp_timeline_end(timeline, step), &next);
    }
    free(named);
    return RP_OK;
}
