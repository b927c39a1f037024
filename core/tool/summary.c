#include "core/tool/summary.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

#include "core/tool/states.h"
#include "core/tool/tool.h"

static const char *origin_name(enum rp_comm_origin origin)
{
    static const char *const names[] = {
#define X(name, text) text,
        RP_COMM_ORIGINS(X)
#undef X
    };
    return (size_t)origin < sizeof(names) / sizeof(names[0]) ? names[origin] : "?";
}

static const char *plural(uint64_t count)
{
    return count == 1 ? "" : "s";
}

static void add_loss(char *text, size_t size, uint64_t count, const char *what)
{
    size_t used = strlen(text);
    if (count > 0)
        snprintf(text + used, size - used, ", lost %" PRIu64 " %s%s", count, what, plural(count));
}

char *rp_summary_state(const struct rp_trace *trace, char *text, size_t size)
{
    if (trace->complete)
        snprintf(text, size, "complete");
    else if (trace->dropped_bytes == 0)
        snprintf(text, size, "cut short");
    else
        snprintf(text, size, "cut short (%" PRIu64 " bytes of an unfinished block)", trace->dropped_bytes);
    add_loss(text, size, trace->lost_ops, "op");
    add_loss(text, size, trace->lost_launches, "launch record");
    add_loss(text, size, trace->lost_fingerprints, "fingerprint");
    return text;
}

/* Seconds from the first to the end of the last op. */
static double duration(const struct rp_trace *trace)
{
    uint64_t last = 0;
    for (size_t i = 0; i < trace->op_count; i++)
        last = trace->ops[i].op.end > last ? trace->ops[i].op.end : last;
    if (trace->op_count == 0 || last < trace->ops[0].op.begin) /* counters of two processors may differ */
        return 0;
    return (double)(last - trace->ops[0].op.begin) * trace->ns_per_tick * 1e-9;
}

/* Those from `unread` on that stand before that rank; returns the next one. */
static size_t print_unread(FILE *out, const struct rp_trace_run *run, size_t unread, int32_t rank)
{
    for (; unread < run->unread_count && (run->unread[unread].rank < rank || rank == INT32_MAX); unread++)
        fprintf(out, "%4" PRId32 "  %-12s  %7s  %8s  %8s  unreadable: %s\n", run->unread[unread].rank, "-", "-", "-",
                "-", run->unread[unread].cause);
    return unread;
}

void rp_summary_run(FILE *out, const char *path, const struct rp_trace_run *run)
{
    char program[300], host[80], state[200], start[40];
    const struct rp_trace_identity *first = &run->ranks[0]->identity;
    time_t seconds = (time_t)(first->start_wall_ns / 1000000000u);
    struct tm utc;
    strftime(start, sizeof(start), "%Y-%m-%d %H:%M:%S UTC", gmtime_r(&seconds, &utc));
    fprintf(out, "%s: %s, recorded %s, %zu rank%s", path, rp_tool_safe(first->program, program, sizeof(program)), start,
            run->count, plural(run->count));
    if (first->nranks > 0)
        fprintf(out, " of %" PRId32, first->nranks);
    fprintf(out, "\n\nrank  host              pid       ops   seconds  trace\n");
    size_t unread = 0;
    for (size_t i = 0; i < run->count; i++) {
        const struct rp_trace *trace = run->ranks[i];
        unread = print_unread(out, run, unread, trace->identity.rank);
        fprintf(out, "%4" PRId32 "  %-12s  %7" PRIu64 "  %8zu  %8.2f  %s\n", trace->identity.rank,
                rp_tool_safe(trace->identity.host, host, sizeof(host)), trace->identity.pid, trace->op_count,
                duration(trace), rp_summary_state(trace, state, sizeof(state)));
    }
    print_unread(out, run, unread, INT32_MAX);
}

static void print_comms(FILE *out, const struct rp_trace *trace)
{
    fprintf(out, "communicator  ranks  own rank  made by  of  name\n");
    for (size_t i = 0; i < trace->comm_count; i++) {
        const struct rp_trace_comm *comm = &trace->comms[i];
        char name[4 * RP_COMM_NAME_MAX + 1], parent[16] = "-";
        if (comm->parent != RP_NO_COMM)
            snprintf(parent, sizeof(parent), "%" PRIu32, comm->parent);
        rp_tool_safe(comm->name[0] != '\0' ? comm->name : "-", name, sizeof(name));
        fprintf(out, "%12" PRIu32 "  %5" PRId32 "  %8" PRId32 "  %-7s  %2s  %s\n", comm->number, comm->nranks,
                comm->rank, origin_name(comm->origin), parent, name);
    }
}

static bool has_fingerprints(const struct rp_trace *trace)
{
    for (size_t i = 0; i < trace->op_count; i++)
        if (trace->ops[i].has_fingerprint)
            return true;
    return false;
}

void rp_summary_rank(FILE *out, const struct rp_trace *trace, const struct rp_timeline *timeline)
{
    fprintf(out, "\nrank %" PRId32 ": %zu op%s in %zu step%s, %zu of them whole; %zu communicator%s\n",
            trace->identity.rank, trace->op_count, plural(trace->op_count), timeline->count, plural(timeline->count),
            timeline->whole, trace->comm_count, plural(trace->comm_count));
    if (timeline->whole > 0 && !has_fingerprints(trace))
        fprintf(out, "no fingerprints: steps are cut where calls repeat, and one may be a microbatch\n");
    rp_states_line(out, trace);
    fputc('\n', out);
    if (trace->comm_count > 0)
        print_comms(out, trace);
}
