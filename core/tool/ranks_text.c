#include "core/tool/ranks_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/tool/rows.h"
#include "core/tool/tool.h"

char *rp_ranks_text_number(uint64_t number, char *text, size_t size)
{
    char digits[24];
    int count = snprintf(digits, sizeof(digits), "%" PRIu64, number);
    text[0] = '\0';
    for (int i = 0; i < count; i++)
        rp_tool_append(text, size, "%s%c", i > 0 && (count - i) % 3 == 0 ? "," : "", digits[i]);
    return text;
}

char *rp_ranks_text_ns(double ns, char *text, size_t size)
{
    if (ns < 1e6)
        snprintf(text, size, "%.1f us", ns * 1e-3);
    else if (ns < 1e9)
        snprintf(text, size, "%.1f ms", ns * 1e-6);
    else
        snprintf(text, size, "%.1f s", ns * 1e-9);
    return text;
}

/* ---------------------------------------------------------------- ranks */

/* Of a list that is too long the beginning. */
char *rp_ranks_text_list(const int32_t *ranks, size_t count, char *text, size_t size)
{
    snprintf(text, size, "%s", count == 0 ? "no rank" : count == 1 ? "rank " : "ranks ");
    for (size_t i = 0, last; i < count; i = last + 1) {
        for (last = i; last + 1 < count && ranks[last + 1] == ranks[last] + 1;)
            last++;
        last = last == i + 1 ? i : last; /* two are no range */
        const char *comma = i > 0 ? ", " : "";
        if (strlen(text) + 32 > size) {
            rp_tool_append(text, size, ", ...");
            break;
        }
        if (last > i)
            rp_tool_append(text, size, "%s%" PRId32 "-%" PRId32, comma, ranks[i], ranks[last]);
        else
            rp_tool_append(text, size, "%s%" PRId32, comma, ranks[i]);
    }
    return text;
}

static int by_value(const void *left, const void *right)
{
    int32_t a = *(const int32_t *)left, b = *(const int32_t *)right;
    return (a > b) - (a < b);
}

/* The memory of a list; without it, its text is "?". */
static char *finish_list(int32_t *list, size_t count, char *text, size_t size)
{
    if (list == NULL) {
        snprintf(text, size, "?");
        return text;
    }
    qsort(list, count, sizeof(*list), by_value);
    rp_ranks_text_list(list, count, text, size);
    free(list);
    return text;
}

char *rp_ranks_text_members(const struct rp_ranks_comm *comm, const bool *marked, char *text, size_t size)
{
    int32_t *list = calloc(comm->member_count + 1, sizeof(*list));
    size_t count = 0;
    for (size_t m = 0; list != NULL && m < comm->member_count; m++) {
        if (marked[m])
            list[count++] = comm->members[m].trace->identity.rank;
    }
    return finish_list(list, count, text, size);
}

/* Also one that cannot be read. */
static bool has_trace(const struct rp_ranks *ranks, int32_t rank)
{
    for (size_t r = 0; r < ranks->rank_count; r++) {
        if (ranks->ranks[r].trace->identity.rank == rank)
            return true;
    }
    for (size_t i = 0; i < ranks->unread_count; i++) {
        if (ranks->unread[i].rank == rank)
            return true;
    }
    return false;
}

#define MISSING_MOST 1000 /* ranks that are looked at for a text, which names fewer */

char *rp_ranks_text_missing(const struct rp_ranks *ranks, char *text, size_t size)
{
    int32_t *list = calloc(MISSING_MOST, sizeof(*list));
    size_t count = 0;
    for (int32_t rank = 0; list != NULL && rank < ranks->expected && count < MISSING_MOST; rank++) {
        if (!has_trace(ranks, rank))
            list[count++] = rank;
    }
    finish_list(list, count, text, size);
    return count == 0 ? NULL : text;
}

/* ---------------------------------------------------------------- calls */

char *rp_ranks_text_call(const struct rp_trace *trace, const struct rp_op *op, char *text, size_t size)
{
    char call[160], event[300];
    rp_op_print(op, call, sizeof(call));
    bool named = op->phase != RP_PHASE_UNKNOWN || strcmp(rp_module_name(trace->modules, op->module), "-") != 0;
    if (named)
        snprintf(text, size, "%s (%s)", call, rp_rows_event(trace, op, event, sizeof(event)));
    else
        snprintf(text, size, "%s", call);
    return text;
}

char *rp_ranks_text_classes(unsigned classes, char *text, size_t size)
{
    text[0] = '\0';
    for (int c = 0; c < RP_RANKS_CLASS_COUNT; c++) {
        if (classes & RP_RANKS_BIT(c))
            rp_tool_append(text, size, "%s%s", text[0] != '\0' ? ", " : "",
                           rp_ranks_class_name((enum rp_ranks_class)c));
    }
    return text;
}

static int32_t run_rank(const struct rp_ranks *ranks, const struct rp_ranks_finding *finding, size_t member)
{
    return ranks->comms[finding->comm].members[member].trace->identity.rank;
}

char *rp_ranks_text_place(const struct rp_ranks *ranks, const struct rp_ranks_finding *finding, char *text, size_t size)
{
    if (finding->classes & RP_RANKS_BIT(RP_RANKS_NOT_MADE))
        snprintf(text, size, "communicator %zu", finding->comm);
    else if (finding->from == RP_RANKS_NONE)
        snprintf(text, size, "communicator %zu, position %" PRIu64, finding->comm, finding->position);
    else
        snprintf(text, size, "communicator %zu, message %" PRIu64 " from rank %" PRId32 " to rank %" PRId32,
                 finding->comm, finding->position, run_rank(ranks, finding, finding->from),
                 run_rank(ranks, finding, finding->to));
    return text;
}

char *rp_ranks_text_shift(const struct rp_ranks *ranks, const struct rp_ranks_finding *finding, char *text, size_t size)
{
    uint64_t calls = (uint64_t)(finding->shift > 0 ? finding->shift : -finding->shift);
    snprintf(text, size, "rank %" PRId32 " has %" PRIu64 " call%s %s from position %" PRIu64 " on; then they fit",
             run_rank(ranks, finding, finding->shifted), calls, calls == 1 ? "" : "s",
             finding->shift > 0 ? "less" : "more", finding->unlike);
    return text;
}

/* ---------------------------------------------------------------- a finding in one line */

/* Per member, whether its call is like `op`, or whether it has none if that is NULL. The caller frees it. */
static bool *mark(const struct rp_ranks_comm *comm, const struct rp_ranks_finding *finding,
                  const struct rp_trace_op *op)
{
    bool *marked = calloc(comm->member_count, sizeof(*marked));
    for (size_t m = 0; marked != NULL && m < comm->member_count; m++) {
        const struct rp_trace_op *own = finding->ops[m];
        marked[m] = own == NULL ? op == NULL : op != NULL && rp_ranks_fit(&own->op, &op->op);
    }
    return marked;
}

static char *ranks_with(const struct rp_ranks_comm *comm, const struct rp_ranks_finding *finding,
                        const struct rp_trace_op *op, char *text, size_t size)
{
    bool *marked = mark(comm, finding, op);
    snprintf(text, size, "?");
    if (marked != NULL)
        rp_ranks_text_members(comm, marked, text, size);
    free(marked);
    return text;
}

/* The first member that has a call; if it can be, not one of the majority. */
static size_t odd_member(const struct rp_ranks_comm *comm, const struct rp_ranks_finding *finding)
{
    size_t some = RP_RANKS_NONE;
    for (size_t m = 0; m < comm->member_count; m++) {
        if (finding->ops[m] == NULL)
            continue;
        if (!rp_ranks_is_usual(finding, m))
            return m;
        some = some == RP_RANKS_NONE ? m : some;
    }
    return some;
}

/* The first member, or that of the majority, whose call is another than that of `odd`. */
static size_t other_member(const struct rp_ranks_comm *comm, const struct rp_ranks_finding *finding, size_t odd)
{
    if (finding->usual != RP_RANKS_NONE)
        return finding->usual;
    for (size_t m = 0; m < comm->member_count; m++) {
        if (finding->ops[m] != NULL && !rp_ranks_fit(&finding->ops[m]->op, &finding->ops[odd]->op))
            return m;
    }
    return odd;
}

/* True if some rank's call is none of the two. */
static bool has_third(const struct rp_ranks_comm *comm, const struct rp_ranks_finding *finding, size_t a, size_t b)
{
    for (size_t m = 0; m < comm->member_count; m++) {
        const struct rp_trace_op *op = finding->ops[m];
        if (op != NULL && !rp_ranks_fit(&op->op, &finding->ops[a]->op) && !rp_ranks_fit(&op->op, &finding->ops[b]->op))
            return true;
    }
    return false;
}

static void add_mismatch(const struct rp_ranks_comm *comm, const struct rp_ranks_finding *finding, char *text,
                         size_t size)
{
    char who[100], call[160];
    size_t odd = odd_member(comm, finding), other = other_member(comm, finding, odd);
    bool third = has_third(comm, finding, odd, other);
    rp_tool_append(text, size, "%s %s, ", ranks_with(comm, finding, finding->ops[odd], who, sizeof(who)),
                   rp_op_print(&finding->ops[odd]->op, call, sizeof(call)));
    ranks_with(comm, finding, finding->ops[other], who, sizeof(who));
    if (finding->usual != RP_RANKS_NONE)
        snprintf(who, sizeof(who), "%s", third ? "most others" : "others");
    rp_tool_append(text, size, "%s %s", who, rp_op_print(&finding->ops[other]->op, call, sizeof(call)));
    if (third && finding->usual == RP_RANKS_NONE)
        rp_tool_append(text, size, ", and others otherwise");
}

static void add_missing(const struct rp_ranks_comm *comm, const struct rp_ranks_finding *finding, char *text,
                        size_t size)
{
    char who[100], call[500];
    size_t has = odd_member(comm, finding);
    bool lost = (finding->classes & RP_RANKS_BIT(RP_RANKS_UNDECIDED)) != 0;
    rp_tool_append(text, size, "%s %s: %s", lost ? "lost by the trace of" : "not issued by",
                   ranks_with(comm, finding, NULL, who, sizeof(who)),
                   rp_ranks_text_call(comm->members[has].trace, &finding->ops[has]->op, call, sizeof(call)));
}

static void add_bytes(const struct rp_ranks_comm *comm, const struct rp_ranks_finding *finding, char *text, size_t size)
{
    char who[100], call[500];
    bool *marked = calloc(comm->member_count, sizeof(*marked));
    for (size_t m = 0; marked != NULL && m < comm->member_count; m++)
        marked[m] = !rp_ranks_is_usual(finding, m);
    rp_ranks_text_call(comm->members[0].trace, &finding->ops[0]->op, call, sizeof(call));
    snprintf(who, sizeof(who), "?");
    if (marked != NULL)
        rp_ranks_text_members(comm, marked, who, sizeof(who));
    if (finding->usual == RP_RANKS_NONE)
        rp_tool_append(text, size, "ranks were delivered different bytes by %s", call);
    else
        rp_tool_append(text, size, "%s %s delivered other bytes than the others by %s", who,
                       strncmp(who, "ranks", 5) == 0 ? "were" : "was", call);
    free(marked);
}

static void add_message(const struct rp_ranks_comm *comm, const struct rp_ranks_finding *finding, char *text,
                        size_t size)
{
    char sent[500], received[500];
    const struct rp_trace_op *send = finding->ops[0], *receive = finding->ops[1];
    if (send != NULL)
        rp_ranks_text_call(comm->members[finding->from].trace, &send->op, sent, sizeof(sent));
    if (receive != NULL)
        rp_ranks_text_call(comm->members[finding->to].trace, &receive->op, received, sizeof(received));
    if (receive == NULL)
        rp_tool_append(text, size, "no receive for %s", sent);
    else if (send == NULL)
        rp_tool_append(text, size, "no send for %s", received);
    else
        rp_tool_append(text, size, "%s, but %s", sent, received);
}

static void add_not_made(const struct rp_ranks_comm *comm, char *text, size_t size)
{
    char who[100];
    bool *marked = malloc(comm->member_count * sizeof(*marked));
    snprintf(who, sizeof(who), "?");
    if (marked != NULL) {
        memset(marked, true, comm->member_count * sizeof(*marked));
        rp_ranks_text_members(comm, marked, who, sizeof(who));
    }
    rp_tool_append(text, size, "has %" PRId32 " ranks, but only %s made it", comm->members[0].comm->nranks, who);
    free(marked);
}

char *rp_ranks_text_finding(const struct rp_ranks *ranks, const struct rp_ranks_finding *finding, char *text,
                            size_t size)
{
    const struct rp_ranks_comm *comm = &ranks->comms[finding->comm];
    rp_ranks_text_place(ranks, finding, text, size);
    rp_tool_append(text, size, ": ");
    if (finding->classes & RP_RANKS_BIT(RP_RANKS_NOT_MADE))
        add_not_made(comm, text, size);
    else if (finding->from != RP_RANKS_NONE)
        add_message(comm, finding, text, size);
    else if (finding->classes & RP_RANKS_MISMATCH)
        add_mismatch(comm, finding, text, size);
    else if (finding->classes & RP_RANKS_BIT(RP_RANKS_BYTES))
        add_bytes(comm, finding, text, size);
    else
        add_missing(comm, finding, text, size);
    return text;
}
