/*
 * The collectives of one communicator, position by position.
 *
 * Threads: pure.
 */
#include <stdlib.h>
#include <string.h>

#include "core/compare/op_name.h"
#include "core/compare/ranks_private.h"

#define SHIFT_MOST 64   /* calls that a rank may lack or have besides, and still be seen to fit behind them */
#define SHIFT_WINDOW 16 /* calls that must fit there, or as many as there are */
#define SHIFT_LEAST 4   /* fewer say nothing */

struct lane {
    struct rp_ranks *ranks;
    size_t number; /* of the communicator */
    const struct rp_ranks_comm *comm;
    struct rp_ranks_walk walk;
    unsigned seen;                         /* classes that have a finding */
    bool parted;                           /* a rank is some calls off: what does not fit from here on is no news */
    uint64_t unlike;                       /* position since which names differ; RP_NO_POSITION: they do not */
    const struct rp_trace_op **unlike_ops; /* the calls there */
};

/* ---------------------------------------------------------------- one position */

static const struct rp_trace_op *first_op(const struct lane *lane)
{
    size_t m = 0;
    while (lane->walk.ops[m] == NULL)
        m++;
    return lane->walk.ops[m];
}

/* The classes of members that have no call here. */
static unsigned absences(const struct lane *lane)
{
    unsigned classes = 0;
    for (size_t m = 0; m < lane->comm->member_count; m++) {
        const struct rp_ranks_member *member = &lane->comm->members[m];
        if (lane->walk.ops[m] != NULL)
            continue;
        bool not_issued = lane->walk.position >= member->end && member->trace->lost_ops == 0;
        classes |= RP_RANKS_BIT(not_issued ? RP_RANKS_MISSING : RP_RANKS_UNDECIDED);
    }
    return classes;
}

/* True if all ranks say what an all-reduce delivered to them, and all of it or all of a sample. */
static bool delivered_is_known(const struct lane *lane, const struct rp_trace_op *first)
{
    for (size_t m = 0; m < lane->comm->member_count; m++) {
        const struct rp_trace_op *op = lane->walk.ops[m];
        if (op == NULL || !op->has_fingerprint || ((op->op.flags ^ first->op.flags) & RP_OP_SAMPLED) != 0)
            return false;
    }
    return lane->comm->member_count > 1;
}

static unsigned compare_delivered(const struct lane *lane, const struct rp_trace_op *first)
{
    bool mismatched = (lane->seen & RP_RANKS_MISMATCH) != 0;
    if (mismatched || first->op.kind != RP_OP_ALL_REDUCE || !delivered_is_known(lane, first))
        return 0;
    lane->ranks->delivered++;
    for (size_t m = 0; m < lane->comm->member_count; m++) {
        const struct rp_trace_op *op = lane->walk.ops[m];
        if (op != NULL && memcmp(op->fingerprint, first->fingerprint, sizeof(first->fingerprint)) != 0)
            return RP_RANKS_BIT(RP_RANKS_BYTES);
    }
    return 0;
}

static unsigned classify(const struct lane *lane)
{
    const struct rp_trace_op *first = first_op(lane);
    unsigned classes = 0;
    for (size_t m = 0; m < lane->comm->member_count; m++) {
        if (lane->walk.ops[m] != NULL)
            classes |= rp_ranks_differences(&first->op, &lane->walk.ops[m]->op);
    }
    if (lane->walk.present < lane->comm->member_count)
        classes |= absences(lane);
    return classes == 0 ? compare_delivered(lane, first) : classes;
}

/* ---------------------------------------------------------------- names */

/* Layers of a model are called alike: their names tell of a rank that left one out before the calls do. */
static void follow_names(struct lane *lane)
{
    const struct rp_ranks_member *members = lane->comm->members;
    bool unlike = false;
    if (lane->walk.present < lane->comm->member_count)
        return;
    for (size_t m = 1; m < lane->comm->member_count; m++)
        unlike = unlike ||
                 rp_op_name_differs(members[0].trace, &lane->walk.ops[0]->op, members[m].trace, &lane->walk.ops[m]->op);
    if (unlike && lane->unlike == RP_NO_POSITION) {
        lane->unlike = lane->walk.position;
        memcpy(lane->unlike_ops, lane->walk.ops, lane->comm->member_count * sizeof(*lane->unlike_ops));
    } else if (!unlike) {
        lane->unlike = RP_NO_POSITION;
    }
}

static enum rp_status keep_names(const struct lane *lane, struct rp_ranks_finding *finding)
{
    finding->unlike = finding->position;
    if (lane->unlike == RP_NO_POSITION)
        return RP_OK;
    size_t bytes = lane->comm->member_count * sizeof(*lane->unlike_ops);
    finding->unlike_ops = malloc(bytes);
    if (finding->unlike_ops == NULL)
        return RP_NO_MEMORY;
    memcpy(finding->unlike_ops, lane->unlike_ops, bytes);
    finding->unlike = lane->unlike;
    return RP_OK;
}

/* ---------------------------------------------------------------- who is it */

/* The member that more than half agree with: the one left when unlike ones cancel each other, if it stands a count. */
static size_t find_usual(struct rp_ranks_finding *finding, size_t members)
{
    size_t surplus = 0, present = 0, alike = 0;
    for (size_t m = 0; m < members; m++) {
        if (finding->ops[m] == NULL)
            continue;
        present++;
        if (surplus == 0)
            finding->usual = m;
        surplus += rp_ranks_is_usual(finding, m) ? 1 : (size_t)-1;
    }
    for (size_t m = 0; m < members; m++)
        alike += rp_ranks_is_usual(finding, m);
    return 2 * alike > present ? finding->usual : RP_RANKS_NONE;
}

struct run_of_calls {
    const struct rp_ranks_member *member;
    size_t from; /* in its lane */
};

/* True if both calls fit and, as far as is known, are of one module and phase. */
static bool call_fits(struct run_of_calls a, struct run_of_calls b)
{
    const struct rp_op *left = &a.member->trace->ops[a.member->lane[a.from]].op;
    const struct rp_op *right = &b.member->trace->ops[b.member->lane[b.from]].op;
    return rp_ranks_fit(left, right) && !rp_op_name_differs(a.member->trace, left, b.member->trace, right);
}

static bool run_fits(struct run_of_calls a, struct run_of_calls b)
{
    size_t count = 0;
    for (; count < SHIFT_WINDOW && a.from < a.member->lane_count && b.from < b.member->lane_count; count++) {
        if (!call_fits(a, b))
            return false;
        a.from++;
        b.from++;
    }
    return count >= SHIFT_LEAST;
}

/* Steps look alike, so calls of a later one seem to fit; whole lanes are then not so many calls apart. */
static bool is_plausible(const struct rp_ranks_member *odd, const struct rp_ranks_member *other, int64_t shift)
{
    if (!odd->trace->complete || !other->trace->complete)
        return true;
    return (int64_t)other->lane_count - (int64_t)odd->lane_count == shift;
}

/* How many calls the odd rank lacks (> 0) or has besides (< 0); 0: it goes on like the other, or in no such way. */
static int64_t find_shift(struct run_of_calls odd, struct run_of_calls other)
{
    struct run_of_calls odd_next = {odd.member, odd.from + 1}, other_next = {other.member, other.from + 1};
    if (run_fits(odd_next, other_next))
        return 0;
    for (int64_t shift = 1; shift <= SHIFT_MOST; shift++) {
        struct run_of_calls later = {other.member, other.from + (size_t)shift};
        if (is_plausible(odd.member, other.member, shift) && run_fits(odd, later))
            return shift;
        later = (struct run_of_calls){odd.member, odd.from + (size_t)shift};
        if (is_plausible(odd.member, other.member, -shift) && run_fits(later, other))
            return -shift;
    }
    return 0;
}

/* Where the member's calls first were unlike the others': here, or where their names began to differ. */
static struct run_of_calls parting(const struct lane *lane, size_t m)
{
    size_t back = lane->unlike == RP_NO_POSITION ? 0 : (size_t)(lane->walk.position - lane->unlike);
    size_t here = lane->walk.next[m] - 1;
    return (struct run_of_calls){&lane->comm->members[m], back <= here ? here - back : here};
}

/* Of two ranks the one that has less is named: it is more often the one that went wrong. */
static void note_shift(struct lane *lane, struct rp_ranks_finding *finding)
{
    size_t reference = finding->usual == RP_RANKS_NONE ? 0 : finding->usual;
    for (size_t m = 0; m < lane->comm->member_count; m++) {
        if (finding->ops[m] == NULL || finding->ops[reference] == NULL ||
            rp_ranks_fit(&finding->ops[m]->op, &finding->ops[reference]->op))
            continue;
        finding->shift = find_shift(parting(lane, m), parting(lane, reference));
        if (finding->shift == 0)
            continue;
        bool turn = finding->usual == RP_RANKS_NONE && finding->shift < 0 && lane->comm->member_count == 2;
        finding->shifted = turn ? reference : m;
        finding->shift = turn ? -finding->shift : finding->shift;
        lane->parted = true;
        return;
    }
}

/* ---------------------------------------------------------------- findings */

static uint64_t first_wall_ns(const struct lane *lane)
{
    uint64_t first = UINT64_MAX;
    for (size_t m = 0; m < lane->comm->member_count; m++) {
        if (lane->walk.ops[m] == NULL)
            continue;
        uint64_t now = rp_ranks_wall_ns(lane->comm->members[m].trace, lane->walk.ops[m]->op.begin);
        first = now < first ? now : first;
    }
    return first;
}

static enum rp_status note(struct lane *lane, unsigned classes)
{
    size_t members = lane->comm->member_count;
    struct rp_ranks_finding *finding = rp_ranks_add(lane->ranks, lane->number, classes, members);
    if (finding == NULL)
        return RP_NO_MEMORY;
    memcpy(finding->ops, lane->walk.ops, members * sizeof(*finding->ops));
    finding->position = lane->walk.position;
    finding->wall_ns = first_wall_ns(lane);
    finding->usual = find_usual(finding, members);
    if (classes & RP_RANKS_MISMATCH)
        note_shift(lane, finding);
    return keep_names(lane, finding);
}

/* What is new of the classes at a position. Behind a rank that is some calls off, only that calls are missing. */
static unsigned news(const struct lane *lane, unsigned classes)
{
    unsigned fresh = classes & ~lane->seen;
    if (lane->parted)
        fresh &= ~RP_RANKS_MISMATCH;
    return fresh;
}

static enum rp_status check_position(struct lane *lane)
{
    unsigned classes = classify(lane), fresh = news(lane, classes);
    for (int c = 0; c < RP_RANKS_CLASS_COUNT; c++)
        lane->ranks->counts[c] += (classes >> c) & 1;
    lane->ranks->collectives++;
    lane->seen |= classes;
    enum rp_status status = fresh == 0 ? RP_OK : note(lane, classes);
    follow_names(lane);
    return status;
}

enum rp_status rp_ranks_check_lane(struct rp_ranks *ranks, size_t comm)
{
    struct lane lane = {.ranks = ranks, .number = comm, .comm = &ranks->comms[comm], .unlike = RP_NO_POSITION};
    lane.unlike_ops = calloc(lane.comm->member_count, sizeof(*lane.unlike_ops));
    enum rp_status status = lane.unlike_ops == NULL ? RP_NO_MEMORY : rp_ranks_walk_open(lane.comm, &lane.walk);
    if (status == RP_OK) {
        while (status == RP_OK && rp_ranks_walk_next(&lane.walk))
            status = check_position(&lane);
        rp_ranks_walk_close(&lane.walk);
    }
    free(lane.unlike_ops);
    return status;
}
