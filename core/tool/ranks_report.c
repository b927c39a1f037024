/* "Rank" without more is the rank of the run; a communicator's number is its place in the table of communicators. */
#include "core/tool/ranks_report.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/tool/ranks_text.h"
#include "core/tool/rows.h"
#include "core/tool/summary.h"
#include "core/tool/tool.h"

#define FINDINGS_SHOWN 20
#define SILENCE_NS 1e9 /* of a rank at its end; a CLOCK record is about as old */

static const char *plural(uint64_t count)
{
    return count == 1 ? "" : "s";
}

/* ---------------------------------------------------------------- the verdict */

static size_t count_compared(const struct rp_ranks *ranks)
{
    size_t count = 0;
    for (size_t r = 0; r < ranks->rank_count; r++)
        count += !ranks->ranks[r].other_run;
    return count;
}

static void print_what_agrees(FILE *out, const struct rp_ranks *ranks)
{
    char collectives[40], messages[40];
    size_t count = count_compared(ranks);
    fprintf(out, "%zu rank%s, %zu communicator%s, %s collective%s", count, plural(count), ranks->comm_count,
            plural(ranks->comm_count), rp_ranks_text_number(ranks->collectives, collectives, sizeof(collectives)),
            plural(ranks->collectives));
    if (ranks->messages > 0)
        fprintf(out, ", %s message%s", rp_ranks_text_number(ranks->messages, messages, sizeof(messages)),
                plural(ranks->messages));
}

static const struct rp_ranks_rank *find_other_run(const struct rp_ranks *ranks)
{
    for (size_t r = 0; r < ranks->rank_count; r++) {
        if (ranks->ranks[r].other_run)
            return &ranks->ranks[r];
    }
    return NULL;
}

static void print_unread_ranks(FILE *out, const struct rp_ranks *ranks)
{
    char text[200];
    int32_t *list = calloc(ranks->unread_count, sizeof(*list));
    for (size_t i = 0; list != NULL && i < ranks->unread_count; i++)
        list[i] = ranks->unread[i].rank;
    fprintf(out, "the trace%s of %s cannot be read", plural(ranks->unread_count),
            list != NULL ? rp_ranks_text_list(list, ranks->unread_count, text, sizeof(text)) : "?");
    free(list);
}

/* Why it cannot be said that the ranks agree, though nothing speaks against it. */
static void print_incomplete(FILE *out, const struct rp_ranks *ranks)
{
    char text[1000];
    const struct rp_ranks_rank *other = find_other_run(ranks);
    fprintf(out, "undecided: ");
    if (other != NULL)
        fprintf(out, "the trace of rank %" PRId32 " is of another run", other->trace->identity.rank);
    else if (ranks->unread_count > 0)
        print_unread_ranks(out, ranks);
    else if (rp_ranks_text_missing(ranks, text, sizeof(text)) != NULL)
        fprintf(out, "no trace of %s", text);
    else
        fprintf(out, "%s", rp_ranks_text_finding(ranks, &ranks->findings[0], text, sizeof(text)));
    fprintf(out, "; what can be compared agrees: ");
    print_what_agrees(out, ranks);
}

static void print_verdict(FILE *out, const struct rp_ranks *ranks)
{
    char text[1000];
    if (ranks->verdict == RP_RANKS_INCOMPLETE) {
        print_incomplete(out, ranks);
    } else if (ranks->verdict == RP_RANKS_AGREE) {
        fprintf(out, "ranks agree: ");
        print_what_agrees(out, ranks);
    } else {
        fprintf(out, "ranks disagree: %s", rp_ranks_text_finding(ranks, &ranks->findings[0], text, sizeof(text)));
    }
    fputc('\n', out);
}

/* ---------------------------------------------------------------- tables */

static char *trace_text(const struct rp_ranks_rank *rank, char *text, size_t size)
{
    char state[200];
    snprintf(text, size, "%s%s", rank->other_run ? "of another run, " : "",
             rp_summary_state(rank->trace, state, sizeof(state)));
    return text;
}

static void print_rank(FILE *out, const struct rp_ranks_rank *rank, int width)
{
    char host[80], call[500] = "-", state[220], last[32] = "-", late[32] = "-", behind[24] = "-";
    const struct rp_trace *trace = rank->trace;
    if (rank->timed > 0) {
        snprintf(last, sizeof(last), "%.1f%%", 100 * (double)rank->times_last / (double)rank->timed);
        rp_ranks_text_ns(rank->late_ns, late, sizeof(late));
    }
    if (rank->behind > 0)
        snprintf(behind, sizeof(behind), "%" PRIu64, rank->behind);
    if (rank->last != NULL)
        rp_ranks_text_call(trace, &rank->last->op, call, sizeof(call));
    fprintf(out, "%4" PRId32 "  %-12s  %8zu  %11" PRIu64 "  %9s  %6s  %11s  %-*s  %s\n", trace->identity.rank,
            rp_tool_safe(trace->identity.host, host, sizeof(host)), trace->op_count, rank->collectives, behind, last,
            late, width, trace_text(rank, state, sizeof(state)), call);
}

/* Those from `unread` on that stand before that rank; returns the next one. */
static size_t print_unread(FILE *out, const struct rp_ranks *ranks, size_t unread, int32_t rank, int width)
{
    for (; unread < ranks->unread_count && (ranks->unread[unread].rank < rank || rank == INT32_MAX); unread++)
        fprintf(out, "%4" PRId32 "  %-12s  %8s  %11s  %9s  %6s  %11s  %-*s  %s\n", ranks->unread[unread].rank, "-", "-",
                "-", "-", "-", "-", width, "unreadable", "-");
    return unread;
}

static void print_unread_causes(FILE *out, const struct rp_ranks *ranks)
{
    for (size_t i = 0; i < ranks->unread_count; i++)
        fprintf(out, "the trace of rank %" PRId32 " cannot be read: %s\n", ranks->unread[i].rank,
                ranks->unread[i].cause);
}

static void print_times_limits(FILE *out, const struct rp_ranks *ranks)
{
    uint64_t timed = 0;
    char number[40];
    for (size_t r = 0; r < ranks->rank_count; r++)
        timed = ranks->ranks[r].timed > timed ? ranks->ranks[r].timed : timed;
    if (timed > 0)
        fprintf(
            out,
            "last: how often the rank was the last to issue a collective; late: how long after the first, median;\n"
            "  of up to %s collectives on communicators of one host, by its wall clock: when hosts issued them, not\n"
            "  when devices ran them\n",
            rp_ranks_text_number(timed, number, sizeof(number)));
    else if (ranks->collectives > 0)
        fprintf(out, "last, late: not known, no communicator has all its ranks on one host with clocks that compare\n");
}

static void print_ranks(FILE *out, const struct rp_ranks *ranks)
{
    char missing[200], state[220];
    int width = (int)strlen(ranks->unread_count > 0 ? "unreadable" : "trace");
    size_t unread = 0;
    for (size_t r = 0; r < ranks->rank_count; r++) {
        int length = (int)strlen(trace_text(&ranks->ranks[r], state, sizeof(state)));
        width = length > width ? length : width;
    }
    fprintf(out, "rank  host               ops  collectives  behind by    last  median late  %-*s  last call\n", width,
            "trace");
    for (size_t r = 0; r < ranks->rank_count; r++) {
        unread = print_unread(out, ranks, unread, ranks->ranks[r].trace->identity.rank, width);
        print_rank(out, &ranks->ranks[r], width);
    }
    print_unread(out, ranks, unread, INT32_MAX, width);
    print_unread_causes(out, ranks);
    if (rp_ranks_text_missing(ranks, missing, sizeof(missing)) != NULL)
        fprintf(out, "no trace of %s\n", missing);
    print_times_limits(out, ranks);
}

/* The number that it has on its ranks, for `reprise show`: one, or "0:1 2:3" where they differ. */
static void number_text(const struct rp_ranks_comm *comm, char *text, size_t size)
{
    bool same = true;
    for (size_t m = 1; m < comm->member_count; m++)
        same = same && comm->members[m].comm->number == comm->members[0].comm->number;
    snprintf(text, size, "%" PRIu32, comm->members[0].comm->number);
    for (size_t m = 0, used = 0; !same && m < comm->member_count && used + 30 < size; m++)
        used += (size_t)snprintf(text + used, size - used, "%s%" PRId32 ":%" PRIu32, m > 0 ? " " : "",
                                 comm->members[m].trace->identity.rank, comm->members[m].comm->number);
}

static void print_comms(FILE *out, const struct rp_ranks *ranks)
{
    if (ranks->comm_count == 0)
        return;
    fprintf(out, "\ncommunicator  size  collectives  shown as  name, ranks\n");
    for (size_t c = 0; c < ranks->comm_count; c++) {
        const struct rp_ranks_comm *comm = &ranks->comms[c];
        char name[4 * RP_COMM_NAME_MAX + 1], numbers[100], who[200] = "?";
        bool *all = malloc(comm->member_count * sizeof(*all));
        if (all != NULL) {
            memset(all, true, comm->member_count * sizeof(*all));
            rp_ranks_text_members(comm, all, who, sizeof(who));
        }
        free(all);
        number_text(comm, numbers, sizeof(numbers));
        rp_tool_safe(comm->members[0].comm->name, name, sizeof(name));
        fprintf(out, "%12zu  %4" PRId32 "  %11" PRIu64 "  %-8s  %s%s%s\n", c, comm->members[0].comm->nranks, comm->end,
                numbers, name, name[0] != '\0' ? ", " : "", who);
    }
}

/* ---------------------------------------------------------------- findings */

/* The last call of a member before the position, or NULL. */
static const struct rp_trace_op *call_before(const struct rp_ranks_member *member, uint64_t position)
{
    size_t low = 0, high = member->lane_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (member->trace->ops[member->lane[middle]].op.position < position)
            low = middle + 1;
        else
            high = middle;
    }
    return low == 0 ? NULL : &member->trace->ops[member->lane[low - 1]];
}

/* A rank that has no call here: what it did last, and for how long it has been silent. */
static void print_absent(FILE *out, const struct rp_ranks_member *member, uint64_t position)
{
    char call[500], silence[32];
    const struct rp_trace_op *before = call_before(member, position);
    fprintf(out, "  rank %" PRId32 ": none", member->trace->identity.rank);
    if (before != NULL)
        fprintf(out, "; its last one here: position %" PRIu64 ", %s", before->op.position,
                rp_ranks_text_call(member->trace, &before->op, call, sizeof(call)));
    if (before != NULL && member->end <= position && member->trace->last_clock > before->op.begin) {
        double ns = (double)(member->trace->last_clock - before->op.begin) * member->trace->ns_per_tick;
        if (ns >= SILENCE_NS)
            fprintf(out, ", then nothing for %s", rp_ranks_text_ns(ns, silence, sizeof(silence)));
    }
    fprintf(out, "%s\n",
            member->trace->complete ? "" : "; its trace is cut short: calls of its last moment may be missing");
}

/* True if two members are to be told in one line. */
static bool is_like(const struct rp_ranks_comm *comm, const struct rp_trace_op *const *ops, bool bytes, size_t m,
                    size_t n)
{
    char a[500], b[500];
    if (ops[m] == NULL || ops[n] == NULL)
        return false;
    if (bytes && memcmp(ops[m]->fingerprint, ops[n]->fingerprint, sizeof(ops[m]->fingerprint)) != 0)
        return false;
    rp_ranks_text_call(comm->members[m].trace, &ops[m]->op, a, sizeof(a));
    rp_ranks_text_call(comm->members[n].trace, &ops[n]->op, b, sizeof(b));
    return strcmp(a, b) == 0;
}

/* One line for all members that do the same as `first`, which are marked as told. */
static void print_alike(FILE *out, const struct rp_ranks_comm *comm, const struct rp_trace_op *const *ops, bool bytes,
                        size_t first, bool *told, bool *alike)
{
    char who[200], call[500];
    memset(alike, 0, comm->member_count * sizeof(*alike));
    for (size_t m = first; m < comm->member_count; m++) {
        alike[m] = m == first || (!told[m] && is_like(comm, ops, bytes, first, m));
        told[m] = told[m] || alike[m];
    }
    fprintf(out, "  %s: %s", rp_ranks_text_members(comm, alike, who, sizeof(who)),
            rp_ranks_text_call(comm->members[first].trace, &ops[first]->op, call, sizeof(call)));
    if (bytes)
        fprintf(out, ", delivered %08" PRIx32, (uint32_t)(ops[first]->fingerprint[0] >> 32));
    fputc('\n', out);
}

static void print_calls(FILE *out, const struct rp_ranks_comm *comm, const struct rp_trace_op *const *ops,
                        uint64_t position, bool bytes)
{
    bool *told = calloc(2 * comm->member_count, sizeof(*told));
    for (size_t m = 0; told != NULL && m < comm->member_count; m++) {
        if (ops[m] == NULL)
            print_absent(out, &comm->members[m], position);
        else if (!told[m])
            print_alike(out, comm, ops, bytes, m, told, told + comm->member_count);
    }
    free(told);
}

/* What else is known of the calls of a lane that do not fit. */
static void print_hints(FILE *out, const struct rp_ranks *ranks, const struct rp_ranks_finding *finding)
{
    char call[500];
    const struct rp_ranks_comm *comm = &ranks->comms[finding->comm];
    const struct rp_trace_op *before = call_before(&comm->members[0], finding->position);
    if (before != NULL)
        fprintf(out, "  before it: position %" PRIu64 ", %s\n", before->op.position,
                rp_ranks_text_call(comm->members[0].trace, &before->op, call, sizeof(call)));
    if (finding->shifted != RP_RANKS_NONE)
        fprintf(out, "  %s\n", rp_ranks_text_shift(ranks, finding, call, sizeof(call)));
    if (finding->unlike_ops != NULL) {
        fprintf(out, "  their names differ since position %" PRIu64 ":\n", finding->unlike);
        print_calls(out, comm, finding->unlike_ops, finding->unlike, false);
    }
}

static void print_finding(FILE *out, const struct rp_ranks *ranks, const struct rp_ranks_finding *finding)
{
    char place[200], classes[300], text[1000];
    const struct rp_ranks_comm *comm = &ranks->comms[finding->comm];
    bool in_lane = finding->from == RP_RANKS_NONE && (finding->classes & RP_RANKS_BIT(RP_RANKS_NOT_MADE)) == 0;
    if (!in_lane) {
        fprintf(out, "\n%s\n  %s\n", rp_ranks_text_classes(finding->classes, classes, sizeof(classes)),
                rp_ranks_text_finding(ranks, finding, text, sizeof(text)));
        return;
    }
    fprintf(out, "\n%s: %s\n", rp_ranks_text_place(ranks, finding, place, sizeof(place)),
            rp_ranks_text_classes(finding->classes, classes, sizeof(classes)));
    print_calls(out, comm, finding->ops, finding->position, (finding->classes & RP_RANKS_BIT(RP_RANKS_BYTES)) != 0);
    if (finding->classes & RP_RANKS_MISMATCH)
        print_hints(out, ranks, finding);
}

static const char *counted_as(int class)
{
    if (class == RP_RANKS_SEND || class == RP_RANKS_RECEIVE)
        return "messages";
    return class == RP_RANKS_NOT_MADE ? "communicators" : "positions";
}

/* Who others wait for: a rank that is behind somewhere, and ahead nowhere. */
static void print_culprit(FILE *out, const struct rp_ranks *ranks)
{
    char who[200];
    size_t behind = 0, culprits = 0;
    int32_t *list = calloc(ranks->rank_count + 1, sizeof(*list));
    for (size_t r = 0; list != NULL && r < ranks->rank_count; r++) {
        const struct rp_ranks_rank *rank = &ranks->ranks[r];
        behind += rank->behind > 0;
        if (rank->behind > 0 && rank->ahead == 0)
            list[culprits++] = rank->trace->identity.rank;
    }
    if (culprits > 0)
        fprintf(out, "\nbehind, and ahead of no other rank: %s\n",
                rp_ranks_text_list(list, culprits, who, sizeof(who)));
    else if (behind > 0)
        fprintf(out, "\nevery rank that is behind on one communicator is ahead on another: they may wait for each "
                     "other\n");
    free(list);
}

static void print_counts(FILE *out, const struct rp_ranks *ranks)
{
    char number[40];
    fputc('\n', out);
    for (int c = 0; c < RP_RANKS_CLASS_COUNT; c++) {
        if (ranks->counts[c] > 0)
            fprintf(out, "%10s  %s: %s\n", rp_ranks_text_number(ranks->counts[c], number, sizeof(number)),
                    counted_as(c), rp_ranks_class_name((enum rp_ranks_class)c));
    }
    fprintf(out, "%10s  all-reduce%s whose delivered bytes were compared\n",
            rp_ranks_text_number(ranks->delivered, number, sizeof(number)), plural(ranks->delivered));
}

void rp_ranks_report(FILE *out, const struct rp_ranks *ranks, const char *path, const char *failure)
{
    char safe[500];
    print_verdict(out, ranks);
    fprintf(out, "%s\n\n", path);
    print_ranks(out, ranks);
    if (failure != NULL)
        fprintf(out, "a recording failed: %s\n", rp_tool_safe(failure, safe, sizeof(safe)));
    print_comms(out, ranks);
    print_culprit(out, ranks);
    for (size_t i = 0; i < ranks->finding_count && i < FINDINGS_SHOWN; i++)
        print_finding(out, ranks, &ranks->findings[i]);
    if (ranks->finding_count > FINDINGS_SHOWN)
        fprintf(out, "\n%zu more findings: --json has all\n", ranks->finding_count - FINDINGS_SHOWN);
    print_counts(out, ranks);
}
