/* The result of comparing a run's ranks, for programs. */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>

#include "core/tool/json.h"
#include "core/tool/ranks_report.h"
#include "core/tool/ranks_text.h"
#include "core/tool/summary.h"
#include "core/tool/tool.h"

static void json_classes(FILE *out, unsigned classes)
{
    const char *comma = "";
    fputc('[', out);
    for (int c = 0; c < RP_RANKS_CLASS_COUNT; c++) {
        if ((classes & RP_RANKS_BIT(c)) == 0)
            continue;
        fputs(comma, out);
        rp_json_string(out, rp_ranks_class_name((enum rp_ranks_class)c));
        comma = ", ";
    }
    fputc(']', out);
}

static void json_rank(FILE *out, const struct rp_ranks_rank *rank)
{
    char state[200];
    const struct rp_trace *trace = rank->trace;
    fprintf(out, "    {\"rank\": %" PRId32 ", \"host\": ", trace->identity.rank);
    rp_json_string(out, trace->identity.host);
    fprintf(out, ", \"trace\": ");
    rp_json_string(out, rp_summary_state(trace, state, sizeof(state)));
    fprintf(out, ", \"other_run\": %s, \"ops\": %zu, \"collectives\": %" PRIu64 ", \"messages\": %" PRIu64,
            rank->other_run ? "true" : "false", trace->op_count, rank->collectives, rank->messages);
    fprintf(out,
            ", \"behind\": %" PRIu64 ", \"ahead\": %" PRIu64 ", \"timed\": %" PRIu64 ", \"times_last\": %" PRIu64
            ", \"median_late_ns\": %.0f}",
            rank->behind, rank->ahead, rank->timed, rank->times_last, rank->late_ns);
}

static void json_unread(FILE *out, const struct rp_trace_unread *unread)
{
    static const char *const members[] = {"other_run", "ops",   "collectives", "messages",      "behind",
                                          "ahead",     "timed", "times_last",  "median_late_ns"};
    fprintf(out, "    {\"rank\": %" PRId32 ", \"host\": null, \"trace\": \"unreadable\", \"cause\": ", unread->rank);
    rp_json_string(out, unread->cause);
    for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++)
        fprintf(out, ", \"%s\": null", members[i]);
    fputc('}', out);
}

static void csv_unread(FILE *out, const struct rp_trace_unread *unread)
{
    char text[RP_TRACE_CAUSE_MAX + 20];
    snprintf(text, sizeof(text), "unreadable: %s", unread->cause);
    fprintf(out, "%" PRId32 ",,", unread->rank);
    rp_tool_csv_text(out, text);
    fputs(",,,,,,,,,,\n", out);
}

static void json_comm(FILE *out, const struct rp_ranks_comm *comm)
{
    const struct rp_trace_comm *about = comm->members[0].comm;
    fprintf(out, "    {\"size\": %" PRId32 ", \"key\": \"%016" PRIx64 "\", \"name\": ", about->nranks, about->key);
    rp_json_string(out, about->name);
    fprintf(out, ", \"collectives\": %" PRIu64 ", \"members\": [", comm->end);
    for (size_t m = 0; m < comm->member_count; m++) {
        const struct rp_ranks_member *member = &comm->members[m];
        fprintf(out,
                "%s{\"rank\": %" PRId32 ", \"own_rank\": %" PRId32 ", \"number\": %" PRIu32 ", \"end\": %" PRIu64 "}",
                m > 0 ? ", " : "", member->trace->identity.rank, member->comm->rank, member->comm->number, member->end);
    }
    fputs("]}", out);
}

static void json_call(FILE *out, const struct rp_trace *trace, const struct rp_trace_op *op)
{
    fprintf(out, "{\"rank\": %" PRId32, trace->identity.rank);
    if (op != NULL) {
        fprintf(out, ", \"kind\": \"%s\", \"bytes\": %" PRIu64 ", \"dtype\": \"%s\", \"reduction\": \"%s\"",
                rp_op_kind_name((enum rp_op_kind)op->op.kind), rp_op_bytes(&op->op),
                rp_dtype_name((enum rp_dtype)op->op.dtype), rp_redop_name((enum rp_redop)op->op.redop));
        fprintf(out, ", \"root\": %" PRId32 ", \"phase\": \"%s\", \"module\": ", op->op.root,
                rp_phase_name((enum rp_phase)op->op.phase));
        rp_json_string(out, rp_module_name(trace->modules, op->op.module));
    }
    fputc('}', out);
}

static void json_calls(FILE *out, const struct rp_ranks_comm *comm, const struct rp_ranks_finding *finding)
{
    if (finding->from != RP_RANKS_NONE) {
        json_call(out, comm->members[finding->from].trace, finding->ops[0]);
        fputs(", ", out);
        json_call(out, comm->members[finding->to].trace, finding->ops[1]);
        return;
    }
    for (size_t m = 0; m < comm->member_count; m++) {
        fputs(m > 0 ? ", " : "", out);
        json_call(out, comm->members[m].trace, finding->ops[m]);
    }
}

/* What would make the calls fit: that a rank lacks some, or has made some more. */
static void json_hint(FILE *out, const struct rp_ranks *ranks, const struct rp_ranks_finding *finding)
{
    char text[200];
    if (finding->shifted == RP_RANKS_NONE) {
        fputs("null", out);
        return;
    }
    fprintf(out, "{\"rank\": %" PRId32 ", \"calls\": %" PRId64 ", \"position\": %" PRIu64 ", \"text\": ",
            ranks->comms[finding->comm].members[finding->shifted].trace->identity.rank, -finding->shift,
            finding->unlike);
    rp_json_string(out, rp_ranks_text_shift(ranks, finding, text, sizeof(text)));
    fputc('}', out);
}

static void json_finding(FILE *out, const struct rp_ranks *ranks, const struct rp_ranks_finding *finding)
{
    char text[1000];
    fprintf(out, "    {\"classes\": ");
    json_classes(out, finding->classes);
    fprintf(out, ", \"communicator\": %zu, \"%s\": %" PRIu64 ", \"text\": ", finding->comm,
            finding->from == RP_RANKS_NONE ? "position" : "message", finding->position);
    rp_json_string(out, rp_ranks_text_finding(ranks, finding, text, sizeof(text)));
    fputs(", \"hint\": ", out);
    json_hint(out, ranks, finding);
    if (finding->unlike_ops != NULL)
        fprintf(out, ", \"names_differ_from\": %" PRIu64, finding->unlike);
    else
        fputs(", \"names_differ_from\": null", out);
    fprintf(out, ",\n     \"calls\": [");
    json_calls(out, &ranks->comms[finding->comm], finding);
    fputs("]}", out);
}

/* Ranks stand in order, with those that cannot be read: true if one of these is the next. */
static bool is_unread_next(const struct rp_ranks *ranks, size_t rank, size_t unread)
{
    if (unread == ranks->unread_count)
        return false;
    return rank == ranks->rank_count || ranks->unread[unread].rank < ranks->ranks[rank].trace->identity.rank;
}

void rp_ranks_report_json(FILE *out, const struct rp_ranks *ranks)
{
    static const char *const verdicts[] = {"agree", "disagree", "undecided"};
    fprintf(out, "{\n  \"format\": 1, \"verdict\": \"%s\", \"expected_ranks\": %" PRId32 ", \"collectives\": %" PRIu64,
            verdicts[ranks->verdict], ranks->expected, ranks->collectives);
    fprintf(out, ", \"messages\": %" PRIu64 ", \"delivered_compared\": %" PRIu64 ",\n  \"ranks\": [\n", ranks->messages,
            ranks->delivered);
    for (size_t r = 0, unread = 0; r < ranks->rank_count || unread < ranks->unread_count;) {
        fputs(r + unread > 0 ? ",\n" : "", out);
        if (is_unread_next(ranks, r, unread))
            json_unread(out, &ranks->unread[unread++]);
        else
            json_rank(out, &ranks->ranks[r++]);
    }
    fprintf(out, "\n  ],\n  \"communicators\": [\n");
    for (size_t c = 0; c < ranks->comm_count; c++) {
        json_comm(out, &ranks->comms[c]);
        fputs(c + 1 < ranks->comm_count ? ",\n" : "\n", out);
    }
    fprintf(out, "  ],\n  \"findings\": [\n");
    for (size_t i = 0; i < ranks->finding_count; i++) {
        json_finding(out, ranks, &ranks->findings[i]);
        fputs(i + 1 < ranks->finding_count ? ",\n" : "\n", out);
    }
    fprintf(out, "  ]\n}\n");
}

static void csv_rank(FILE *out, const struct rp_ranks_rank *rank)
{
    char text[500];
    fprintf(out, "%" PRId32 ",", rank->trace->identity.rank);
    rp_tool_csv_text(out, rank->trace->identity.host);
    fputc(',', out);
    rp_tool_csv_text(out, rp_summary_state(rank->trace, text, sizeof(text)));
    fprintf(out, ",%d,%zu,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64, rank->other_run, rank->trace->op_count,
            rank->collectives, rank->messages, rank->behind, rank->ahead);
    fprintf(out, ",%" PRIu64 ",%" PRIu64 ",%.0f,", rank->timed, rank->times_last, rank->late_ns);
    if (rank->last != NULL)
        rp_tool_csv_text(out, rp_ranks_text_call(rank->trace, &rank->last->op, text, sizeof(text)));
    fputc('\n', out);
}

void rp_ranks_report_csv(FILE *out, const struct rp_ranks *ranks)
{
    fprintf(out, "rank,host,trace,other_run,ops,collectives,messages,behind,ahead,timed,times_last,median_late_ns,"
                 "last_call\n");
    for (size_t r = 0, unread = 0; r < ranks->rank_count || unread < ranks->unread_count;) {
        if (is_unread_next(ranks, r, unread))
            csv_unread(out, &ranks->unread[unread++]);
        else
            csv_rank(out, &ranks->ranks[r++]);
    }
}
