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

static bool comms_alike(const struct rp_trace_comm *a, const struct rp_trace_comm *b)
{
    return a->origin == b->origin && a->nranks == b->nranks && a->rank == b->rank;
}

const struct rp_trace_comm *rp_pair_comm(const struct rp_trace *trace, const struct rp_trace_comm *comm,
                                         const struct rp_trace *other)
{
    size_t before = 0;
    for (const struct rp_trace_comm *c = trace->comms; c < comm; c++)
        before += comms_alike(c, comm);
    for (size_t i = 0; i < other->comm_count; i++) {
        if (comms_alike(&other->comms[i], comm) && before-- == 0)
            return &other->comms[i];
    }
    return NULL;
}

/* ---------------------------------------------------------------- all lanes */

static enum rp_status pair_lanes(const struct rp_pair_lanes *left, const struct rp_pair_lanes *right,
                                 struct rp_pairs *pairs)
{
    enum rp_status status = RP_OK;
    for (size_t lane = 0; lane < left->lane_count && status == RP_OK; lane++) {
        size_t right_place = right->trace->comm_count;
        if (lane / 2 < left->trace->comm_count) {
            const struct rp_trace_comm *partner =
                rp_pair_comm(left->trace, &left->trace->comms[lane / 2], right->trace);
            if (partner == NULL)
                continue;
            right_place = (size_t)(partner - right->trace->comms);
        }
        status = rp_pair_lane(left, lane, right, 2 * right_place + lane % 2, pairs);
    }
    return status;
}

static enum rp_status pair_parts(const struct rp_pair_part *left, const struct rp_pair_part *right,
                                 struct rp_pairs *pairs)
{
    struct rp_pair_lanes left_lanes = {0}, right_lanes = {0};
    enum rp_status status = rp_pair_lanes_create(left, &left_lanes);
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
                             .step_alike = calloc(left->timeline->count + 1, sizeof(bool))};
    bool has_memory = pairs.right_of != NULL && pairs.left_of != NULL && pairs.moved != NULL && pairs.step_of != NULL &&
                      pairs.step_alike != NULL;
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
    *pairs = (struct rp_pairs){0};
}
