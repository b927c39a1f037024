/*
 * Which rank comes last at collectives. What is compared is when hosts issued them, not when devices ran them: a host
 * that runs ahead of its device is late by less than it seems, and one that waits for it by more.
 *
 * The clocks of two hosts differ by more than ranks do. So only communicators count whose ranks are all on one host,
 * and all have a trace whose ticks were measured against the wall clock; and only up to their first mismatch.
 *
 * Threads: pure.
 */
#include <stdlib.h>
#include <string.h>

#include "core/compare/ranks_private.h"
#include "core/compare/select.h"

struct times {
    struct rp_ranks *ranks;
    double **late; /* by rank: what it was late by at each collective that counts, ns */
};

static bool on_one_clock(const struct rp_ranks_comm *comm)
{
    const char *host = comm->members[0].trace->identity.host;
    for (size_t m = 0; m < comm->member_count; m++) {
        const struct rp_trace *trace = comm->members[m].trace;
        if (!trace->clocked || strcmp(trace->identity.host, host) != 0)
            return false;
    }
    return comm->member_count > 1 && comm->absent == 0;
}

/* Nanoseconds from the start of the first member's trace. */
static double begin_ns(const struct rp_ranks_comm *comm, size_t m, const struct rp_trace_op *op)
{
    const struct rp_trace *trace = comm->members[m].trace;
    int64_t apart = (int64_t)(trace->identity.start_wall_ns - comm->members[0].trace->identity.start_wall_ns);
    return (double)apart + rp_trace_ns(trace, op->op.begin);
}

static void take_position(struct times *times, const struct rp_ranks_walk *walk)
{
    const struct rp_ranks_comm *comm = walk->comm;
    double first = begin_ns(comm, 0, walk->ops[0]), last = first;
    size_t last_member = 0, last_count = 1;
    for (size_t m = 1; m < comm->member_count; m++) {
        double now = begin_ns(comm, m, walk->ops[m]);
        first = now < first ? now : first;
        last_count = now > last ? 1 : last_count + (now == last);
        last_member = now > last ? m : last_member;
        last = now > last ? now : last;
    }
    for (size_t m = 0; m < comm->member_count; m++) {
        struct rp_ranks_rank *rank = &times->ranks->ranks[comm->members[m].rank];
        times->late[comm->members[m].rank][rank->timed++] = begin_ns(comm, m, walk->ops[m]) - first;
    }
    if (last_count == 1)
        times->ranks->ranks[comm->members[last_member].rank].times_last++;
}

static bool all_fit(const struct rp_ranks_walk *walk)
{
    for (size_t m = 0; m < walk->comm->member_count; m++) {
        if (walk->ops[m] == NULL || !rp_ranks_fit(&walk->ops[0]->op, &walk->ops[m]->op))
            return false;
    }
    return true;
}

static enum rp_status take_comm(struct times *times, const struct rp_ranks_comm *comm)
{
    struct rp_ranks_walk walk;
    if (!on_one_clock(comm))
        return RP_OK;
    enum rp_status status = rp_ranks_walk_open(comm, &walk);
    if (status != RP_OK)
        return status;
    while (rp_ranks_walk_next(&walk) && all_fit(&walk))
        take_position(times, &walk);
    rp_ranks_walk_close(&walk);
    return RP_OK;
}

static enum rp_status take_times(struct times *times)
{
    struct rp_ranks *ranks = times->ranks;
    enum rp_status status = RP_OK;
    for (size_t r = 0; r < ranks->rank_count; r++) {
        times->late[r] = calloc(ranks->ranks[r].collectives + 1, sizeof(**times->late));
        if (times->late[r] == NULL)
            return RP_NO_MEMORY;
    }
    for (size_t c = 0; status == RP_OK && c < ranks->comm_count; c++)
        status = take_comm(times, &ranks->comms[c]);
    for (size_t r = 0; status == RP_OK && r < ranks->rank_count; r++) {
        size_t count = ranks->ranks[r].timed;
        if (count > 0)
            ranks->ranks[r].late_ns = rp_select(times->late[r], count, count / 2);
    }
    return status;
}

enum rp_status rp_ranks_time(struct rp_ranks *ranks)
{
    struct times times = {ranks, calloc(ranks->rank_count + 1, sizeof(*times.late))};
    if (times.late == NULL)
        return RP_NO_MEMORY;
    enum rp_status status = take_times(&times);
    for (size_t r = 0; r < ranks->rank_count; r++)
        free(times.late[r]);
    free(times.late);
    return status;
}
