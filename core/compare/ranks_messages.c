/*
 * The sends and receives of one communicator: NCCL pairs the sends of one rank to another with that one's receives in
 * the order in which each was called, whatever is called between.
 *
 * Threads: pure.
 */
#include <stdlib.h>

#include "core/compare/ranks_private.h"

struct message {
    int32_t from, to; /* ranks of the communicator */
    bool receive;
    size_t order;
    const struct rp_trace_op *op;
};

/* The messages of one rank to another one: sends, then as many receives. */
struct pair {
    const struct message *sends, *receives;
    size_t send_count, receive_count;
};

static int by_pair(const void *left, const void *right)
{
    const struct message *a = left, *b = right;
    if (a->from != b->from)
        return a->from < b->from ? -1 : 1;
    if (a->to != b->to)
        return a->to < b->to ? -1 : 1;
    if (a->receive != b->receive)
        return a->receive ? 1 : -1;
    return (a->order > b->order) - (a->order < b->order);
}

static struct message *take_messages(const struct rp_ranks_comm *comm, size_t *count_out)
{
    size_t count = 0;
    for (size_t m = 0; m < comm->member_count; m++)
        count += comm->members[m].message_count;
    struct message *messages = malloc((count + 1) * sizeof(*messages));
    if (messages == NULL)
        return NULL;
    count = 0;
    for (size_t m = 0; m < comm->member_count; m++) {
        const struct rp_ranks_member *member = &comm->members[m];
        for (size_t i = 0; i < member->message_count; i++) {
            const struct rp_trace_op *op = &member->trace->ops[member->messages[i]];
            bool receive = op->op.kind == RP_OP_RECV;
            int32_t own = member->comm->rank, peer = op->op.root;
            messages[count] = (struct message){receive ? peer : own, receive ? own : peer, receive, count, op};
            count++;
        }
    }
    qsort(messages, count, sizeof(*messages), by_pair);
    *count_out = count;
    return messages;
}

/* The member with that rank in the communicator, or RP_RANKS_NONE. */
static size_t find_member(const struct rp_ranks_comm *comm, int32_t rank)
{
    size_t low = 0, high = comm->member_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (comm->members[middle].comm->rank < rank)
            low = middle + 1;
        else
            high = middle;
    }
    return low < comm->member_count && comm->members[low].comm->rank == rank ? low : RP_RANKS_NONE;
}

/* ---------------------------------------------------------------- one pair of ranks */

struct check {
    struct rp_ranks *ranks;
    size_t number; /* of the communicator */
    const struct rp_ranks_comm *comm;
    unsigned seen; /* classes that have a finding */
    size_t from, to;
};

/* Of the send, or else of the receive. */
static uint64_t wall_ns(const struct check *check, const struct rp_trace_op *send, const struct rp_trace_op *receive)
{
    if (send != NULL)
        return rp_ranks_wall_ns(check->comm->members[check->from].trace, send->op.begin);
    return receive == NULL ? 0 : rp_ranks_wall_ns(check->comm->members[check->to].trace, receive->op.begin);
}

static enum rp_status note(struct check *check, unsigned classes, size_t place, const struct rp_trace_op *send,
                           const struct rp_trace_op *receive)
{
    if ((classes & ~check->seen) == 0)
        return RP_OK;
    struct rp_ranks_finding *finding = rp_ranks_add(check->ranks, check->number, classes, 2);
    if (finding == NULL)
        return RP_NO_MEMORY;
    check->seen |= classes;
    finding->ops[0] = send;
    finding->ops[1] = receive;
    finding->position = finding->unlike = place;
    finding->wall_ns = wall_ns(check, send, receive);
    finding->from = check->from;
    finding->to = check->to;
    return RP_OK;
}

static enum rp_status match(struct check *check, size_t place, const struct rp_trace_op *send,
                            const struct rp_trace_op *receive)
{
    unsigned classes = 0;
    if (rp_op_bytes(&send->op) != rp_op_bytes(&receive->op))
        classes |= RP_RANKS_BIT(RP_RANKS_SIZE);
    if (send->op.dtype != receive->op.dtype)
        classes |= RP_RANKS_BIT(RP_RANKS_DTYPE);
    check->ranks->counts[RP_RANKS_SIZE] += (classes >> RP_RANKS_SIZE) & 1;
    check->ranks->counts[RP_RANKS_DTYPE] += (classes >> RP_RANKS_DTYPE) & 1;
    return note(check, classes, place, send, receive);
}

/* What is left of sends, or of receives, when the other side has no more. */
static enum rp_status match_rest(struct check *check, const struct pair *pair)
{
    bool sends = pair->send_count > pair->receive_count;
    size_t place = sends ? pair->receive_count : pair->send_count;
    size_t rest = (sends ? pair->send_count : pair->receive_count) - place;
    const struct rp_trace *other = check->comm->members[sends ? check->to : check->from].trace;
    if (rest == 0)
        return RP_OK;
    enum rp_ranks_class class = sends ? RP_RANKS_SEND : RP_RANKS_RECEIVE;
    if (other->lost_ops > 0)
        class = RP_RANKS_UNDECIDED;
    check->ranks->counts[class] += rest;
    return note(check, RP_RANKS_BIT(class), place, sends ? pair->sends[place].op : NULL,
                sends ? NULL : pair->receives[place].op);
}

static enum rp_status match_pair(struct check *check, const struct pair *pair)
{
    size_t both = pair->send_count < pair->receive_count ? pair->send_count : pair->receive_count;
    enum rp_status status = RP_OK;
    check->ranks->messages += pair->send_count > both ? pair->send_count : pair->receive_count;
    for (size_t i = 0; status == RP_OK && i < both; i++)
        status = match(check, i, pair->sends[i].op, pair->receives[i].op);
    return status == RP_OK ? match_rest(check, pair) : status;
}

/* Takes the messages of one pair off the front of the list. */
static struct pair take_pair(const struct message *messages, size_t count)
{
    struct pair pair = {.sends = messages};
    size_t end = 0;
    while (end < count && messages[end].from == messages->from && messages[end].to == messages->to)
        pair.send_count += !messages[end++].receive;
    pair.receives = messages + pair.send_count;
    pair.receive_count = end - pair.send_count;
    return pair;
}

enum rp_status rp_ranks_check_messages(struct rp_ranks *ranks, size_t comm)
{
    struct check check = {.ranks = ranks, .number = comm, .comm = &ranks->comms[comm]};
    size_t count = 0;
    struct message *messages = take_messages(check.comm, &count);
    enum rp_status status = messages == NULL ? RP_NO_MEMORY : RP_OK;
    for (size_t at = 0; status == RP_OK && at < count;) {
        struct pair pair = take_pair(messages + at, count - at);
        check.from = find_member(check.comm, messages[at].from);
        check.to = find_member(check.comm, messages[at].to);
        if (check.from != RP_RANKS_NONE && check.to != RP_RANKS_NONE)
            status = match_pair(&check, &pair);
        at += pair.send_count + pair.receive_count;
    }
    free(messages);
    return status;
}
