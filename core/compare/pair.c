#include "core/compare/pair.h"

#include <stdlib.h>
#include <string.h>

#include "core/compare/pair_lane.h"
#include "core/compare/pair_side.h"
#include "core/compare/pair_steps.h"

#define OPS_MAX (UINT32_C(1) << 30)

bool rp_pair_compares(enum rp_op_kind kind)
{
    return kind != RP_OP_NONE && !rp_op_kind_is_allocation(kind);
}

static bool on_lane(const struct rp_op *op)
{
    return op->position != RP_NO_POSITION;
}

bool rp_pair_same_lane(const struct rp_op *a, const struct rp_op *b)
{
    return rp_pair_compares(a->kind) && rp_pair_compares(b->kind) && a->comm == b->comm && on_lane(a) == on_lane(b);
}

/* ---------------------------------------------------------------- communicators */

#define ORDER(a, b) ((a) > (b)) - ((a) < (b))

static int by_making(const struct rp_trace_comm *a, const struct rp_trace_comm *b)
{
    int order = ORDER(a->origin, b->origin);
    if (order == 0)
        order = ORDER(a->nranks, b->nranks);
    return order != 0 ? order : ORDER(a->rank, b->rank);
}

static int by_making_and_place(const void *left, const void *right)
{
    const struct rp_trace_comm *a = *(const struct rp_trace_comm *const *)left;
    const struct rp_trace_comm *b = *(const struct rp_trace_comm *const *)right;
    int order = by_making(a, b);
    return order != 0 ? order : ORDER(a, b);
}

/* Those that were made alike stand together, in the order of the trace. NULL: no memory. */
static const struct rp_trace_comm **sort_comms(const struct rp_trace *trace)
{
    const struct rp_trace_comm **sorted = malloc((trace->comm_count + 1) * sizeof(const struct rp_trace_comm *));
    if (sorted == NULL)
        return NULL;
    for (size_t i = 0; i < trace->comm_count; i++)
        sorted[i] = &trace->comms[i];
    qsort(sorted, trace->comm_count, sizeof(const struct rp_trace_comm *), by_making_and_place);
    return sorted;
}

static enum rp_status pair_comms(const struct rp_trace *left, const struct rp_trace *right, struct rp_pairs *pairs)
{
    const struct rp_trace_comm **left_comms = sort_comms(left), **right_comms = sort_comms(right);
    enum rp_status status = left_comms == NULL || right_comms == NULL ? RP_NO_MEMORY : RP_OK;
    for (size_t i = 0, j = 0; status == RP_OK && i < left->comm_count && j < right->comm_count;) {
        int order = by_making(left_comms[i], right_comms[j]);
        if (order == 0) {
            pairs->right_comm_of[left_comms[i] - left->comms] = (uint32_t)(right_comms[j] - right->comms);
            pairs->left_comm_of[right_comms[j] - right->comms] = (uint32_t)(left_comms[i] - left->comms);
        }
        i += order <= 0;
        j += order >= 0;
    }
    free(left_comms);
    free(right_comms);
    return status;
}

/* ---------------------------------------------------------------- all lanes */

static enum rp_status pair_lanes(const struct rp_pair_lanes *left, const struct rp_pair_lanes *right,
                                 struct rp_pairs *pairs)
{
    enum rp_status status = RP_OK;
    for (size_t lane = 0; lane < left->lane_count && status == RP_OK; lane++) {
        size_t right_place = right->trace->comm_count;
        if (lane / 2 < left->trace->comm_count) {
            right_place = pairs->right_comm_of[lane / 2];
            if (right_place == RP_PAIR_NONE)
                continue;
        }
        status = rp_pair_lane(left, lane, right, 2 * right_place + lane % 2, pairs);
    }
    return status;
}

static enum rp_status pair_parts(const struct rp_pair_part *left, const struct rp_pair_part *right,
                                 struct rp_pairs *pairs)
{
    struct rp_pair_lanes left_lanes = {0}, right_lanes = {0};
    enum rp_status status = pair_comms(left->trace, right->trace, pairs);
    if (status == RP_OK)
        status = rp_pair_lanes_create(left, &left_lanes);
    if (status == RP_OK)
        status = rp_pair_lanes_create(right, &right_lanes);
    if (status == RP_OK)
        status = rp_pair_steps(&left_lanes, &right_lanes, pairs);
    if (status == RP_OK)
        status = pair_lanes(&left_lanes, &right_lanes, pairs);
    rp_pair_lanes_free(&left_lanes);
    rp_pair_lanes_free(&right_lanes);
    return status;
}

/* ---------------------------------------------------------------- the whole */

struct rp_pair_part rp_pair_part_of(const struct rp_packed *packed, const struct rp_timeline *timeline, size_t first,
                                    size_t end)
{
    struct rp_pair_part part = {
        .packed = packed, .trace = packed->trace, .timeline = timeline, .first_step = first, .end_step = end};
    if (part.end_step > timeline->count)
        part.end_step = timeline->count;
    if (part.first_step >= part.end_step) {
        part.first_step = part.end_step;
        return part;
    }
    part.from = timeline->steps[part.first_step].first;
    part.to = rp_timeline_end(timeline, part.end_step - 1);
    return part;
}

static uint32_t *no_partners(size_t count)
{
    uint32_t *partners = malloc((count + 1) * sizeof(*partners));
    if (partners != NULL)
        memset(partners, 0xff, count * sizeof(*partners)); /* RP_PAIR_NONE */
    return partners;
}

enum rp_status rp_pair_ops(const struct rp_pair_part *left, const struct rp_pair_part *right,
                           struct rp_pairs *pairs_out)
{
    if (left->packed->op_count > OPS_MAX || right->packed->op_count > OPS_MAX)
        return RP_UNSUPPORTED;
    struct rp_pairs pairs = {.right_of = no_partners(left->packed->op_count),
                             .left_of = no_partners(right->packed->op_count),
                             .moved = calloc(left->packed->op_count + 1, sizeof(bool)),
                             .step_of = no_partners(left->timeline->count),
                             .step_alike = calloc(left->timeline->count + 1, sizeof(bool)),
                             .right_comm_of = no_partners(left->trace->comm_count),
                             .left_comm_of = no_partners(right->trace->comm_count)};
    bool has_memory = pairs.right_of != NULL && pairs.left_of != NULL && pairs.moved != NULL && pairs.step_of != NULL &&
                      pairs.step_alike != NULL && pairs.right_comm_of != NULL && pairs.left_comm_of != NULL;
    enum rp_status status = has_memory ? pair_parts(left, right, &pairs) : RP_NO_MEMORY;
    if (status == RP_OK)
        *pairs_out = pairs;
    else
        rp_pairs_free(&pairs);
    return status;
}

void rp_pairs_free(struct rp_pairs *pairs)
{
    free(pairs->right_of);
    free(pairs->left_of);
    free(pairs->moved);
    free(pairs->step_of);
    free(pairs->step_alike);
    free(pairs->right_comm_of);
    free(pairs->left_comm_of);
    *pairs = (struct rp_pairs){0};
}
