/*
 * Which trace is of which rank, which communicators of theirs are one, and which calls each made on it.
 *
 * Threads: pure.
 */
#include <stdlib.h>
#include <string.h>

#include "core/compare/ranks_private.h"

/* ---------------------------------------------------------------- ranks */

static bool has_key(const struct rp_trace *trace, uint64_t key)
{
    for (size_t i = 0; i < trace->comm_count; i++) {
        if (trace->comms[i].key == key)
            return true;
    }
    return false;
}

static bool shares_a_communicator(const struct rp_trace_run *run, const struct rp_trace *trace)
{
    for (size_t r = 0; r < run->count; r++) {
        for (size_t i = 0; run->ranks[r] != trace && i < trace->comm_count; i++) {
            if (has_key(run->ranks[r], trace->comms[i].key))
                return true;
        }
    }
    return false;
}

static bool has_peers(const struct rp_trace *trace)
{
    for (size_t i = 0; i < trace->comm_count; i++) {
        if (trace->comms[i].nranks > 1)
            return true;
    }
    return false;
}

/*
 * A job's key is that of the largest communicator of its ranks, or a launcher's. A trace whose communicators are
 * neither that one nor those of any other trace is of another run.
 */
static bool has_other_keys(const struct rp_trace_run *run, const struct rp_trace *trace, const char *job)
{
    static const char prefix[] = "comm=";
    if (trace->comm_count == 0)
        return false;
    if (job != NULL && strncmp(job, prefix, sizeof(prefix) - 1) == 0)
        return !has_key(trace, strtoull(job + sizeof(prefix) - 1, NULL, 16));
    return run->count > 1 && has_peers(trace) && !shares_a_communicator(run, trace);
}

/* A second trace of a rank is of another run, too. */
static bool is_second(const struct rp_ranks *ranks, size_t rank)
{
    for (size_t r = 0; r < rank; r++) {
        if (!ranks->ranks[r].other_run &&
            ranks->ranks[r].trace->identity.rank == ranks->ranks[rank].trace->identity.rank)
            return true;
    }
    return false;
}

static int32_t larger(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

/* Where no launcher said how many ranks there are, the largest communicator does. */
static int32_t expected_ranks(const struct rp_ranks *ranks)
{
    int32_t said = 0, seen = 0;
    for (size_t r = 0; r < ranks->rank_count; r++) {
        const struct rp_trace *trace = ranks->ranks[r].trace;
        if (ranks->ranks[r].other_run)
            continue;
        said = larger(said, trace->identity.nranks);
        seen = larger(seen, trace->identity.rank < INT32_MAX ? trace->identity.rank + 1 : INT32_MAX);
        for (size_t i = 0; said == 0 && i < trace->comm_count; i++)
            seen = larger(seen, trace->comms[i].nranks);
    }
    for (size_t i = 0; i < ranks->unread_count; i++)
        seen = larger(seen, ranks->unread[i].rank < INT32_MAX ? ranks->unread[i].rank + 1 : INT32_MAX);
    return larger(said, seen);
}

size_t rp_ranks_missing(const struct rp_ranks *ranks)
{
    size_t present = 0;
    for (size_t r = 0; r < ranks->rank_count; r++)
        present += !ranks->ranks[r].other_run;
    return (size_t)ranks->expected > present ? (size_t)ranks->expected - present : 0;
}

static enum rp_status take_ranks(const struct rp_trace_run *run, const char *job, struct rp_ranks *ranks)
{
    ranks->ranks = calloc(run->count + 1, sizeof(*ranks->ranks));
    if (ranks->ranks == NULL)
        return RP_NO_MEMORY;
    ranks->rank_count = run->count;
    ranks->unread = run->unread;
    ranks->unread_count = run->unread_count;
    for (size_t r = 0; r < run->count; r++) {
        if (run->ranks[r]->op_count >= UINT32_MAX)
            return RP_UNSUPPORTED;
        ranks->ranks[r].trace = run->ranks[r];
        ranks->ranks[r].other_run = has_other_keys(run, run->ranks[r], job) || is_second(ranks, r);
    }
    ranks->expected = expected_ranks(ranks);
    return RP_OK;
}

/* ---------------------------------------------------------------- communicators */

/* A communicator of one trace. */
struct seat {
    const struct rp_trace_comm *comm;
    size_t rank;
    size_t ordinal; /* which one of those of its trace that are alike */
};

#define ORDER(a, b) ((a) > (b)) - ((a) < (b))

static int by_kind(const struct rp_trace_comm *a, const struct rp_trace_comm *b)
{
    int order = ORDER(a->key, b->key);
    if (order == 0)
        order = ORDER(a->origin, b->origin);
    return order != 0 ? order : ORDER(a->nranks, b->nranks);
}

/* Seats of a trace that are alike stand together, in the order in which they were made. */
static int by_rank(const void *left, const void *right)
{
    const struct seat *a = left, *b = right;
    int order = by_kind(a->comm, b->comm);
    if (order == 0)
        order = ORDER(a->rank, b->rank);
    if (order == 0)
        order = ORDER(a->comm->rank, b->comm->rank);
    return order != 0 ? order : ORDER(a->comm->number, b->comm->number);
}

/* Seats of one communicator stand together. */
static int by_comm(const void *left, const void *right)
{
    const struct seat *a = left, *b = right;
    int order = by_kind(a->comm, b->comm);
    if (order == 0)
        order = ORDER(a->ordinal, b->ordinal);
    if (order == 0)
        order = ORDER(a->comm->rank, b->comm->rank);
    return order != 0 ? order : ORDER(a->rank, b->rank);
}

static struct seat *make_seats(const struct rp_ranks *ranks, size_t *count_out)
{
    size_t count = 0;
    for (size_t r = 0; r < ranks->rank_count; r++)
        count += ranks->ranks[r].trace->comm_count;
    struct seat *seats = calloc(count + 1, sizeof(*seats));
    if (seats == NULL)
        return NULL;
    count = 0;
    for (size_t r = 0; r < ranks->rank_count; r++) {
        const struct rp_trace *trace = ranks->ranks[r].trace;
        for (size_t i = 0; !ranks->ranks[r].other_run && i < trace->comm_count; i++)
            seats[count++] = (struct seat){.comm = &trace->comms[i], .rank = r};
    }
    qsort(seats, count, sizeof(*seats), by_rank);
    for (size_t i = 1; i < count; i++) {
        const struct seat *before = &seats[i - 1];
        if (before->rank == seats[i].rank && before->comm->rank == seats[i].comm->rank &&
            by_kind(before->comm, seats[i].comm) == 0)
            seats[i].ordinal = before->ordinal + 1;
    }
    qsort(seats, count, sizeof(*seats), by_comm);
    *count_out = count;
    return seats;
}

static bool same_comm(const struct seat *a, const struct seat *b)
{
    return by_kind(a->comm, b->comm) == 0 && a->ordinal == b->ordinal;
}

static enum rp_status add_comm(struct rp_ranks *ranks, const struct seat *seats, size_t count)
{
    struct rp_ranks_comm *comm = &ranks->comms[ranks->comm_count];
    comm->members = calloc(count, sizeof(*comm->members));
    if (comm->members == NULL)
        return RP_NO_MEMORY;
    ranks->comm_count++;
    comm->member_count = count;
    for (size_t m = 0; m < count; m++) {
        const struct rp_trace *trace = ranks->ranks[seats[m].rank].trace;
        comm->members[m] = (struct rp_ranks_member){.rank = seats[m].rank, .trace = trace, .comm = seats[m].comm};
    }
    size_t size = (size_t)larger(seats[0].comm->nranks, 0);
    comm->absent = size > count ? size - count : 0;
    return RP_OK;
}

/* Its number on the lowest rank of the run that has it. */
static const struct rp_ranks_member *first_member(const struct rp_ranks_comm *comm)
{
    const struct rp_ranks_member *first = &comm->members[0];
    for (size_t m = 1; m < comm->member_count; m++) {
        if (comm->members[m].rank < first->rank)
            first = &comm->members[m];
    }
    return first;
}

static int by_making(const void *left, const void *right)
{
    const struct rp_ranks_member *a = first_member(left), *b = first_member(right);
    int order = ORDER(a->comm->number, b->comm->number);
    return order != 0 ? order : ORDER(a->rank, b->rank);
}

static enum rp_status deal_seats(struct rp_ranks *ranks, const struct seat *seats, size_t count)
{
    enum rp_status status = RP_OK;
    ranks->comms = calloc(count + 1, sizeof(*ranks->comms));
    if (ranks->comms == NULL)
        return RP_NO_MEMORY;
    for (size_t from = 0, to; status == RP_OK && from < count; from = to) {
        for (to = from + 1; to < count && same_comm(&seats[from], &seats[to]);)
            to++;
        status = add_comm(ranks, &seats[from], to - from);
    }
    qsort(ranks->comms, ranks->comm_count, sizeof(*ranks->comms), by_making);
    return status;
}

static enum rp_status take_comms(struct rp_ranks *ranks)
{
    size_t count = 0;
    struct seat *seats = make_seats(ranks, &count);
    enum rp_status status = seats == NULL ? RP_NO_MEMORY : deal_seats(ranks, seats, count);
    free(seats);
    return status;
}

/* ---------------------------------------------------------------- calls */

/* The calls of one trace on one of its communicators. */
struct share {
    struct rp_ranks_member *member; /* NULL: it is not compared */
    uint32_t *lane, *messages;
};

static bool is_message(const struct rp_op *op)
{
    bool enqueued = op->count > 0 && (op->flags & (RP_OP_FAILED | RP_OP_SIMULATED | RP_OP_CAPTURED)) == 0;
    return enqueued && (op->kind == RP_OP_SEND || op->kind == RP_OP_RECV);
}

static bool is_collective(const struct rp_op *op)
{
    return op->position != RP_NO_POSITION && rp_op_kind_on_lane((enum rp_op_kind)op->kind);
}

static struct share *find_share(const struct rp_trace *trace, struct share *shares, uint32_t number)
{
    const struct rp_trace_comm *comm = number == RP_NO_COMM ? NULL : rp_trace_find_comm(trace, number);
    return comm == NULL ? NULL : &shares[comm - trace->comms];
}

static void count_calls(struct rp_ranks_rank *rank, struct share *shares)
{
    const struct rp_trace *trace = rank->trace;
    for (size_t i = 0; i < trace->op_count; i++) {
        const struct rp_op *op = &trace->ops[i].op;
        struct share *share = find_share(trace, shares, op->comm);
        if (share == NULL || share->member == NULL)
            continue;
        rank->last = &trace->ops[i];
        share->member->lane_count += is_collective(op);
        share->member->message_count += is_message(op);
        rank->collectives += is_collective(op);
        rank->messages += is_message(op);
    }
}

static void deal_calls(const struct rp_trace *trace, struct share *shares)
{
    for (size_t i = 0; i < trace->op_count; i++) {
        const struct rp_op *op = &trace->ops[i].op;
        struct share *share = find_share(trace, shares, op->comm);
        if (share == NULL || share->member == NULL)
            continue;
        if (is_collective(op))
            *share->lane++ = (uint32_t)i;
        else if (is_message(op))
            *share->messages++ = (uint32_t)i;
    }
}

static int by_position(const void *left, const void *right, void *context)
{
    const struct rp_trace_op *ops = context;
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    int order = ORDER(ops[a].op.position, ops[b].op.position);
    return order != 0 ? order : ORDER(a, b);
}

/* Threads that take turns on a communicator may begin a call before the one of the position before has begun. */
static void sort_lane(struct rp_ranks_member *member, uint32_t *lane)
{
    const struct rp_trace_op *ops = member->trace->ops;
    bool sorted = true;
    for (size_t i = 1; i < member->lane_count; i++)
        sorted = sorted && ops[lane[i - 1]].op.position < ops[lane[i]].op.position;
    if (!sorted)
        qsort_r(lane, member->lane_count, sizeof(*lane), by_position, member->trace->ops);
    if (member->lane_count > 0)
        member->end = ops[lane[member->lane_count - 1]].op.position + 1;
}

/* The shares of a trace point to its members; then its calls go into `indices`. Returns what it used of them. */
static size_t take_calls(struct rp_ranks_rank *rank, struct share *shares, uint32_t *indices)
{
    const struct rp_trace *trace = rank->trace;
    uint32_t *next = indices;
    count_calls(rank, shares);
    for (size_t c = 0; c < trace->comm_count; c++) {
        struct rp_ranks_member *member = shares[c].member;
        if (member == NULL)
            continue;
        member->lane = shares[c].lane = next;
        member->messages = shares[c].messages = next + member->lane_count;
        next += member->lane_count + member->message_count;
    }
    deal_calls(trace, shares);
    for (size_t c = 0; c < trace->comm_count; c++) {
        if (shares[c].member != NULL)
            sort_lane(shares[c].member, shares[c].lane - shares[c].member->lane_count);
    }
    return (size_t)(next - indices);
}

static void find_members(const struct rp_ranks *ranks, size_t rank, struct share *shares)
{
    for (size_t c = 0; c < ranks->comm_count; c++) {
        const struct rp_ranks_comm *comm = &ranks->comms[c];
        for (size_t m = 0; m < comm->member_count; m++) {
            struct rp_ranks_member *member = &comm->members[m];
            if (member->rank == rank)
                shares[member->comm - member->trace->comms].member = member;
        }
    }
}

static enum rp_status take_all_calls(struct rp_ranks *ranks)
{
    size_t room = 0, used = 0;
    for (size_t r = 0; r < ranks->rank_count; r++)
        room += ranks->ranks[r].trace->op_count;
    ranks->indices = malloc((room + 1) * sizeof(*ranks->indices));
    if (ranks->indices == NULL)
        return RP_NO_MEMORY;
    for (size_t r = 0; r < ranks->rank_count; r++) {
        struct share *shares = calloc(ranks->ranks[r].trace->comm_count + 1, sizeof(*shares));
        if (shares == NULL)
            return RP_NO_MEMORY;
        find_members(ranks, r, shares);
        used += take_calls(&ranks->ranks[r], shares, ranks->indices + used);
        free(shares);
    }
    return RP_OK;
}

enum rp_status rp_ranks_group(const struct rp_trace_run *run, const char *job, struct rp_ranks *ranks)
{
    enum rp_status status = take_ranks(run, job, ranks);
    if (status == RP_OK)
        status = take_comms(ranks);
    return status == RP_OK ? take_all_calls(ranks) : status;
}
