#include "core/compare/ranks.h"

#include <stdlib.h>
#include <string.h>

#include "core/compare/ranks_private.h"

const char *rp_ranks_class_name(enum rp_ranks_class class)
{
    static const char *const names[] = {
#define X(name, text) text,
        RP_RANKS_CLASSES(X)
#undef X
    };
    return names[class];
}

/* ---------------------------------------------------------------- calls */

/* Another kind has other sizes and roots by itself. */
unsigned rp_ranks_differences(const struct rp_op *a, const struct rp_op *b)
{
    unsigned classes = 0;
    if (a->kind != b->kind)
        return RP_RANKS_BIT(RP_RANKS_TYPE);
    if (rp_op_bytes(a) != rp_op_bytes(b))
        classes |= RP_RANKS_BIT(RP_RANKS_SIZE);
    if (a->dtype != b->dtype)
        classes |= RP_RANKS_BIT(RP_RANKS_DTYPE);
    if (a->redop != b->redop)
        classes |= RP_RANKS_BIT(RP_RANKS_REDUCTION);
    if (a->root != b->root)
        classes |= RP_RANKS_BIT(RP_RANKS_ROOT);
    return classes;
}

bool rp_ranks_fit(const struct rp_op *a, const struct rp_op *b)
{
    return rp_ranks_differences(a, b) == 0;
}

uint64_t rp_ranks_wall_ns(const struct rp_trace *trace, uint64_t ticks)
{
    double ns = rp_trace_ns(trace, ticks);
    bool sane = ns > -1e18 && ns < 1e18; /* else what the trace says is no time */
    return trace->identity.start_wall_ns + (sane ? (uint64_t)(int64_t)ns : 0);
}

/* ---------------------------------------------------------------- findings */

struct rp_ranks_finding *rp_ranks_add(struct rp_ranks *ranks, size_t comm, unsigned classes, size_t ops)
{
    size_t count = ranks->finding_count;
    if ((count & (count - 1)) == 0) { /* room for a power of two */
        size_t room = count == 0 ? 1 : 2 * count;
        struct rp_ranks_finding *findings = realloc(ranks->findings, room * sizeof(*findings));
        if (findings == NULL)
            return NULL;
        ranks->findings = findings;
    }
    struct rp_ranks_finding *finding = &ranks->findings[count];
    *finding = (struct rp_ranks_finding){.classes = classes,
                                         .comm = comm,
                                         .ops = calloc(ops + 1, sizeof(*finding->ops)),
                                         .usual = RP_RANKS_NONE,
                                         .from = RP_RANKS_NONE,
                                         .to = RP_RANKS_NONE,
                                         .shifted = RP_RANKS_NONE};
    if (finding->ops == NULL)
        return NULL;
    ranks->finding_count++;
    return finding;
}

bool rp_ranks_is_usual(const struct rp_ranks_finding *finding, size_t member)
{
    if (finding->usual == RP_RANKS_NONE || finding->ops[member] == NULL)
        return false;
    const struct rp_trace_op *op = finding->ops[member], *usual = finding->ops[finding->usual];
    if (finding->classes & RP_RANKS_BIT(RP_RANKS_BYTES))
        return memcmp(op->fingerprint, usual->fingerprint, sizeof(op->fingerprint)) == 0;
    return rp_ranks_fit(&op->op, &usual->op);
}

/* What does not fit says more than what is missing behind it, and that more than bytes. */
static int weight(const struct rp_ranks_finding *finding)
{
    if (finding->classes & RP_RANKS_MISMATCH)
        return 0;
    if (finding->classes & RP_RANKS_BIT(RP_RANKS_BYTES))
        return 2;
    return finding->classes & RP_RANKS_BIT(RP_RANKS_UNDECIDED) ? 3 : 1;
}

static int by_weight(const void *left, const void *right)
{
    const struct rp_ranks_finding *a = left, *b = right;
    int order = weight(a) - weight(b);
    if (order == 0)
        order = (a->wall_ns > b->wall_ns) - (a->wall_ns < b->wall_ns);
    return order != 0 ? order : (a->comm > b->comm) - (a->comm < b->comm);
}

/* ---------------------------------------------------------------- communicators */

/* That ranks without a trace may have made it says nothing. */
static enum rp_status check_made(struct rp_ranks *ranks, size_t number)
{
    const struct rp_ranks_comm *comm = &ranks->comms[number];
    if (comm->absent <= rp_ranks_missing(ranks))
        return RP_OK;
    struct rp_ranks_finding *finding = rp_ranks_add(ranks, number, RP_RANKS_BIT(RP_RANKS_NOT_MADE), comm->member_count);
    if (finding == NULL)
        return RP_NO_MEMORY;
    finding->wall_ns = rp_ranks_wall_ns(comm->members[0].trace, comm->members[0].comm->made);
    ranks->counts[RP_RANKS_NOT_MADE]++;
    return RP_OK;
}

static void note_behind(struct rp_ranks *ranks, struct rp_ranks_comm *comm)
{
    uint64_t least = UINT64_MAX;
    for (size_t m = 0; m < comm->member_count; m++) {
        uint64_t end = comm->members[m].end;
        comm->end = end > comm->end ? end : comm->end;
        least = end < least ? end : least;
    }
    for (size_t m = 0; m < comm->member_count; m++) {
        struct rp_ranks_rank *rank = &ranks->ranks[comm->members[m].rank];
        uint64_t behind = comm->end - comm->members[m].end, ahead = comm->members[m].end - least;
        rank->behind = behind > rank->behind ? behind : rank->behind;
        rank->ahead = ahead > rank->ahead ? ahead : rank->ahead;
    }
}

static enum rp_status check_all(struct rp_ranks *ranks)
{
    enum rp_status status = RP_OK;
    for (size_t c = 0; status == RP_OK && c < ranks->comm_count; c++) {
        note_behind(ranks, &ranks->comms[c]);
        status = check_made(ranks, c);
        if (status == RP_OK)
            status = rp_ranks_check_lane(ranks, c);
        if (status == RP_OK)
            status = rp_ranks_check_messages(ranks, c);
    }
    return status == RP_OK ? rp_ranks_time(ranks) : status;
}

/* ---------------------------------------------------------------- the run */

static enum rp_ranks_verdict judge(const struct rp_ranks *ranks)
{
    bool incomplete = rp_ranks_missing(ranks) > 0;
    for (size_t r = 0; r < ranks->rank_count; r++)
        incomplete = incomplete || ranks->ranks[r].other_run;
    for (size_t i = 0; i < ranks->finding_count; i++) {
        if (ranks->findings[i].classes & ~RP_RANKS_BIT(RP_RANKS_UNDECIDED))
            return RP_RANKS_DISAGREE;
        incomplete = true;
    }
    return incomplete ? RP_RANKS_INCOMPLETE : RP_RANKS_AGREE;
}

enum rp_status rp_ranks_compare(const struct rp_trace_run *run, const char *job, struct rp_ranks *ranks_out)
{
    struct rp_ranks ranks = {0};
    enum rp_status status = rp_ranks_group(run, job, &ranks);
    if (status == RP_OK)
        status = check_all(&ranks);
    if (status != RP_OK) {
        rp_ranks_free(&ranks);
        return status;
    }
    if (ranks.finding_count > 1)
        qsort(ranks.findings, ranks.finding_count, sizeof(*ranks.findings), by_weight);
    ranks.verdict = judge(&ranks);
    *ranks_out = ranks;
    return RP_OK;
}

void rp_ranks_free(struct rp_ranks *ranks)
{
    for (size_t i = 0; i < ranks->finding_count; i++) {
        free(ranks->findings[i].ops);
        free(ranks->findings[i].unlike_ops);
    }
    for (size_t c = 0; c < ranks->comm_count; c++)
        free(ranks->comms[c].members);
    free(ranks->findings);
    free(ranks->comms);
    free(ranks->ranks);
    free(ranks->indices);
    *ranks = (struct rp_ranks){0};
}
