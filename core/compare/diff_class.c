#include "core/compare/diff_class.h"

#include <stdlib.h>
#include <string.h>

#include "core/compare/op_name.h"
#include "core/compare/pair_side.h"

#define THREADS (UINT16_MAX + 1)

/* ---------------------------------------------------------------- one pair of ops */

/* True if the launches after both ops end at the same place: at ops that are partners, behind the compared steps, or at
 * the end of whole traces. */
static bool end_alike(const struct rp_diff_rank *rank, uint32_t i, uint32_t j)
{
    uint32_t left = rank->left_next[i], right = rank->right_next[j];
    if (left == RP_PAIR_NONE || right == RP_PAIR_NONE)
        return left == right && rank->left.trace->complete && rank->right.trace->complete;
    if (left >= rank->left.to || right >= rank->right.to)
        return left >= rank->left.to && right >= rank->right.to;
    return rank->pairs.right_of[left] == right;
}

static bool launches_differ(const struct rp_diff_rank *rank, uint32_t i, uint32_t j)
{
    const struct rp_packed *left = rank->left.packed, *right = rank->right.packed;
    if (rp_packed_call(left, i)->lossy || rp_packed_call(right, j)->lossy || !end_alike(rank, i, j))
        return false;
    return left->ops[i].launches != right->ops[j].launches || left->ops[i].launch_digest != right->ops[j].launch_digest;
}

static bool bytes_differ(const struct rp_diff_rank *rank, uint32_t i, uint32_t j)
{
    const struct rp_packed_op *left = &rank->left.packed->ops[i], *right = &rank->right.packed->ops[j];
    return memcmp(left->fingerprint, right->fingerprint, sizeof(left->fingerprint)) != 0;
}

unsigned rp_diff_classify(const struct rp_diff_rank *rank, uint32_t i, uint32_t j)
{
    const struct rp_diff_calls *calls = rp_diff_calls_of(rank, i, j);
    unsigned classes = calls->classes | (rank->pairs.moved[i] ? RP_DIFF_BIT(RP_DIFF_MOVED) : 0);
    if (calls->comparable && bytes_differ(rank, i, j))
        classes |= RP_DIFF_BIT(RP_DIFF_BYTES);
    if (launches_differ(rank, i, j))
        classes |= RP_DIFF_BIT(RP_DIFF_LAUNCHES);
    return classes == 0 ? RP_DIFF_BIT(RP_DIFF_SAME) : classes;
}

/* ---------------------------------------------------------------- two calls */

static unsigned classify_calls(const struct rp_diff_rank *rank, const struct rp_op *a, const struct rp_op *b)
{
    unsigned classes = 0;
    if (rp_op_bytes(a) != rp_op_bytes(b))
        classes |= RP_DIFF_BIT(RP_DIFF_RESIZED);
    if (a->dtype != b->dtype)
        classes |= RP_DIFF_BIT(RP_DIFF_DTYPE);
    if (a->redop != b->redop)
        classes |= RP_DIFF_BIT(RP_DIFF_REDUCTION);
    if (a->root != b->root)
        classes |= RP_DIFF_BIT(RP_DIFF_ROOT);
    if (rp_op_name_differs(rank->left.trace, a, rank->right.trace, b))
        classes |= RP_DIFF_BIT(RP_DIFF_RENAMED);
    return classes;
}

static bool both_hashed(const struct rp_packed_call *left, const struct rp_packed_call *right)
{
    return left->has_fingerprint && right->has_fingerprint && rp_op_signature(&left->op) == rp_op_signature(&right->op);
}

/* One of all bytes says nothing about one of a sample. */
static bool hashed_alike(const struct rp_packed_call *left, const struct rp_packed_call *right)
{
    return ((left->op.flags ^ right->op.flags) & RP_OP_SAMPLED) == 0;
}

const struct rp_diff_calls *rp_diff_calls_of(const struct rp_diff_rank *rank, uint32_t i, uint32_t j)
{
    const struct rp_packed_call *left = rp_packed_call(rank->left.packed, i);
    const struct rp_packed_call *right = rp_packed_call(rank->right.packed, j);
    struct rp_diff_calls *calls = &rank->calls[rank->left.packed->ops[i].call];
    if (calls->right == rank->right.packed->ops[j].call)
        return calls;
    calls->right = rank->right.packed->ops[j].call;
    calls->classes = classify_calls(rank, &left->op, &right->op);
    calls->hashed = both_hashed(left, right);
    calls->comparable = calls->hashed && hashed_alike(left, right);
    return calls;
}

/* ---------------------------------------------------------------- one rank */

/* Of each op the next compared one of its thread, or RP_PAIR_NONE. */
static uint32_t *next_of_threads(const struct rp_packed *packed)
{
    uint32_t *next = malloc((packed->op_count + 1) * sizeof(*next));
    uint32_t *later = malloc(THREADS * sizeof(*later)); /* per thread the op seen last, from the end */
    if (next != NULL && later != NULL) {
        memset(later, 0xff, THREADS * sizeof(*later)); /* RP_PAIR_NONE */
        for (size_t i = packed->op_count; i-- > 0;) {
            const struct rp_packed_call *call = rp_packed_call(packed, i);
            next[i] = later[call->thread];
            if (rp_pair_compares((enum rp_op_kind)call->op.kind))
                later[call->thread] = (uint32_t)i;
        }
    } else {
        free(next);
        next = NULL;
    }
    free(later);
    return next;
}

static struct rp_diff_calls *no_calls(const struct rp_packed *left)
{
    struct rp_diff_calls *calls = malloc((left->call_count + 1) * sizeof(*calls));
    for (size_t i = 0; calls != NULL && i < left->call_count; i++)
        calls[i].right = RP_PAIR_NONE;
    return calls;
}

static enum rp_status open_lanes(const struct rp_packed *packed, struct rp_diff_lanes *lanes)
{
    size_t bytes = 2 * (packed->trace->comm_count + 1) * sizeof(*lanes->last);
    lanes->of_call = malloc((packed->call_count + 1) * sizeof(*lanes->of_call));
    lanes->last = malloc(bytes);
    if (lanes->of_call == NULL || lanes->last == NULL)
        return RP_NO_MEMORY;
    memset(lanes->last, 0xff, bytes); /* RP_PAIR_NONE */
    for (size_t i = 0; i < packed->call_count; i++)
        lanes->of_call[i] = (uint32_t)rp_pair_lane_of(packed->trace, &packed->calls[i].op);
    return RP_OK;
}

static void close_lanes(struct rp_diff_lanes *lanes)
{
    free(lanes->of_call);
    free(lanes->last);
}

enum rp_status rp_diff_rank_open(struct rp_pair_part left, struct rp_pair_part right, struct rp_diff_rank *rank_out)
{
    struct rp_diff_rank rank = {.left = left, .right = right};
    enum rp_status status = rp_pair_ops(&left, &right, &rank.pairs);
    if (status != RP_OK)
        return status;
    rank.left_next = next_of_threads(left.packed);
    rank.right_next = next_of_threads(right.packed);
    rank.calls = no_calls(left.packed);
    bool made = rank.left_next != NULL && rank.right_next != NULL && rank.calls != NULL;
    status = made ? rp_launch_parts_create(left.packed, &rank.left_launches) : RP_NO_MEMORY;
    if (status == RP_OK)
        status = rp_launch_parts_create(right.packed, &rank.right_launches);
    if (status == RP_OK)
        status = open_lanes(left.packed, &rank.left_lanes);
    if (status == RP_OK)
        status = open_lanes(right.packed, &rank.right_lanes);
    if (status == RP_OK)
        *rank_out = rank;
    else
        rp_diff_rank_close(&rank);
    return status;
}

void rp_diff_rank_close(struct rp_diff_rank *rank)
{
    free(rank->left_next);
    free(rank->right_next);
    free(rank->calls);
    rp_launch_parts_free(&rank->left_launches);
    rp_launch_parts_free(&rank->right_launches);
    close_lanes(&rank->left_lanes);
    close_lanes(&rank->right_lanes);
    free(rank->listed);
    rp_pairs_free(&rank->pairs);
}
