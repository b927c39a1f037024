#include "core/compare/diff_class.h"

#include <stdlib.h>
#include <string.h>

#include "core/compare/op_name.h"

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
    const struct rp_trace_op *left = &rank->left.trace->ops[i], *right = &rank->right.trace->ops[j];
    if (left->lossy || right->lossy || !end_alike(rank, i, j))
        return false;
    return left->launches != right->launches || left->launch_digest != right->launch_digest;
}

static bool same_call(const struct rp_op *a, const struct rp_op *b)
{
    return a->kind == b->kind && a->dtype == b->dtype && a->redop == b->redop && a->count == b->count &&
           a->root == b->root;
}

bool rp_diff_both_hashed(const struct rp_trace_op *left, const struct rp_trace_op *right)
{
    if (!left->has_fingerprint || !right->has_fingerprint)
        return false;
    return same_call(&left->op, &right->op) || rp_op_signature(&left->op) == rp_op_signature(&right->op);
}

/* One of all bytes says nothing about one of a sample. */
static bool hashed_alike(const struct rp_trace_op *left, const struct rp_trace_op *right)
{
    return ((left->op.flags ^ right->op.flags) & RP_OP_SAMPLED) == 0;
}

bool rp_diff_bytes_comparable(const struct rp_trace_op *left, const struct rp_trace_op *right)
{
    return rp_diff_both_hashed(left, right) && hashed_alike(left, right);
}

unsigned rp_diff_classify(const struct rp_diff_rank *rank, uint32_t i, uint32_t j)
{
    const struct rp_trace_op *left = &rank->left.trace->ops[i], *right = &rank->right.trace->ops[j];
    const struct rp_op *a = &left->op, *b = &right->op;
    unsigned classes = rank->pairs.moved[i] ? RP_DIFF_BIT(RP_DIFF_MOVED) : 0;
    if (rp_op_bytes(a) != rp_op_bytes(b))
        classes |= RP_DIFF_BIT(RP_DIFF_RESIZED);
    if (a->dtype != b->dtype)
        classes |= RP_DIFF_BIT(RP_DIFF_DTYPE);
    if (a->redop != b->redop)
        classes |= RP_DIFF_BIT(RP_DIFF_REDUCTION);
    if (a->root != b->root)
        classes |= RP_DIFF_BIT(RP_DIFF_ROOT);
    if (rp_diff_bytes_comparable(left, right) &&
        memcmp(left->fingerprint, right->fingerprint, sizeof(left->fingerprint)) != 0)
        classes |= RP_DIFF_BIT(RP_DIFF_BYTES);
    if (rp_op_name_differs(rank->left.trace, a, rank->right.trace, b))
        classes |= RP_DIFF_BIT(RP_DIFF_RENAMED);
    if (launches_differ(rank, i, j))
        classes |= RP_DIFF_BIT(RP_DIFF_LAUNCHES);
    return classes == 0 ? RP_DIFF_BIT(RP_DIFF_SAME) : classes;
}

/* ---------------------------------------------------------------- one rank */

/* Of each op the next compared one of its thread, or RP_PAIR_NONE. */
static uint32_t *next_of_threads(const struct rp_trace *trace)
{
    uint32_t *next = malloc((trace->op_count + 1) * sizeof(*next));
    uint32_t *later = malloc(THREADS * sizeof(*later)); /* per thread the op seen last, from the end */
    if (next != NULL && later != NULL) {
        memset(later, 0xff, THREADS * sizeof(*later)); /* RP_PAIR_NONE */
        for (size_t i = trace->op_count; i-- > 0;) {
            next[i] = later[trace->ops[i].thread];
            if (rp_pair_compares((enum rp_op_kind)trace->ops[i].op.kind))
                later[trace->ops[i].thread] = (uint32_t)i;
        }
    } else {
        free(next);
        next = NULL;
    }
    free(later);
    return next;
}

enum rp_status rp_diff_rank_open(struct rp_pair_part left, struct rp_pair_part right, struct rp_diff_rank *rank_out)
{
    struct rp_diff_rank rank = {.left = left, .right = right};
    enum rp_status status = rp_pair_ops(&left, &right, &rank.pairs);
    if (status != RP_OK)
        return status;
    rank.left_next = next_of_threads(left.trace);
    rank.right_next = next_of_threads(right.trace);
    status = rank.left_next == NULL || rank.right_next == NULL ? RP_NO_MEMORY : RP_OK;
    if (status == RP_OK)
        status = rp_launch_parts_create(left.trace, &rank.left_launches);
    if (status == RP_OK)
        status = rp_launch_parts_create(right.trace, &rank.right_launches);
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
    rp_launch_parts_free(&rank->left_launches);
    rp_launch_parts_free(&rank->right_launches);
    rp_pairs_free(&rank->pairs);
}
