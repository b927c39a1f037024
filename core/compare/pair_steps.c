#include "core/compare/pair_steps.h"

#include <stdlib.h>

#include "core/compare/align_gap.h"

struct step_key {
    uint64_t ops;  /* the sum of the ops' signatures: in any order, since threads may take turns in another one */
    uint64_t kind; /* enum rp_step_kind */
};

static uint64_t sum_of_ops(const struct rp_pair_lanes *side, size_t from, size_t to)
{
    uint64_t sum = 0;
    for (size_t i = from; i < to; i++) {
        if (rp_pair_compares((enum rp_op_kind)rp_packed_call_op(side->packed, i)->kind))
            sum += rp_pair_key_of(side, i).signature;
    }
    return sum;
}

static struct step_key *step_keys(const struct rp_pair_lanes *side)
{
    const struct rp_pair_part *part = side->part;
    size_t count = part->end_step - part->first_step;
    struct step_key *keys = calloc(count + 1, sizeof(*keys));
    for (size_t i = 0; keys != NULL && i < count; i++) {
        size_t step = part->first_step + i;
        keys[i].ops = sum_of_ops(side, part->timeline->steps[step].first, rp_timeline_end(part->timeline, step));
        keys[i].kind = part->timeline->steps[step].kind;
    }
    return keys;
}

enum level { BY_OPS, BY_KIND, BY_PLACE, LEVELS };

static uint64_t key_at(enum level level, const struct step_key *key)
{
    return level == BY_OPS ? key->ops : level == BY_KIND ? key->kind : 0;
}

struct aligned {
    const struct step_key *left, *right;
    size_t left_count, right_count;
    uint64_t *left_keys, *right_keys; /* room for one level's */
    uint32_t *match;
};

/* Aligns the steps that have no partner yet between two pairs. */
static enum rp_status align_level(const struct aligned *aligned, enum level level)
{
    enum rp_status status = RP_OK;
    struct rp_align_range rest = {0, aligned->left_count, 0, aligned->right_count}, gap;
    for (size_t i = 0; i < aligned->left_count; i++)
        aligned->left_keys[i] = key_at(level, &aligned->left[i]);
    for (size_t j = 0; j < aligned->right_count; j++)
        aligned->right_keys[j] = key_at(level, &aligned->right[j]);
    while (status == RP_OK && rp_align_gap_next(aligned->match, &rest, &gap)) {
        status = rp_align_gap_fill((struct rp_align_keys){aligned->left_keys + gap.i, gap.i_end - gap.i, NULL},
                                   (struct rp_align_keys){aligned->right_keys + gap.j, gap.j_end - gap.j, NULL}, gap,
                                   aligned->match);
    }
    return status;
}

/* Pairs are of the n-th steps: what has no partner is behind them all. */
static bool only_tail_is_alone(const struct aligned *aligned)
{
    size_t i = 0;
    while (i < aligned->left_count && aligned->match[i] == i)
        i++;
    return i == aligned->left_count || i == aligned->right_count;
}

static bool is_alike(const struct aligned *aligned, size_t i)
{
    uint32_t j = aligned->match[i];
    return j != RP_ALIGN_NONE && aligned->left[i].ops == aligned->right[j].ops;
}

static bool most_differ(const struct aligned *aligned)
{
    size_t pairs = 0, alike = 0;
    for (size_t i = 0; i < aligned->left_count; i++) {
        pairs += aligned->match[i] != RP_ALIGN_NONE;
        alike += is_alike(aligned, i);
    }
    return pairs - alike > alike;
}

/* From the parts' steps, where `match` is, to those of the traces. */
static void take_pairs(const struct aligned *aligned, const struct rp_pair_part *left, const struct rp_pair_part *right,
                       struct rp_pairs *pairs)
{
    bool known = left->timeline->basis != RP_TIMELINE_REPETITION && left->timeline->basis == right->timeline->basis;
    pairs->steps_differ = known && only_tail_is_alone(aligned) && most_differ(aligned);
    for (size_t i = 0; i < aligned->left_count; i++)
        pairs->step_alike[left->first_step + i] = is_alike(aligned, i);
    for (size_t i = 0; i < aligned->left_count; i++) {
        if (aligned->match[i] != RP_ALIGN_NONE)
            aligned->match[i] += (uint32_t)right->first_step;
    }
}

enum rp_status rp_pair_steps(const struct rp_pair_lanes *left_side, const struct rp_pair_lanes *right_side,
                             struct rp_pairs *pairs)
{
    const struct rp_pair_part *left = left_side->part, *right = right_side->part;
    size_t left_count = left->end_step - left->first_step, right_count = right->end_step - right->first_step;
    struct step_key *left_steps = step_keys(left_side), *right_steps = step_keys(right_side);
    struct aligned aligned = {.left = left_steps,
                              .right = right_steps,
                              .left_count = left_count,
                              .right_count = right_count,
                              .left_keys = malloc((left_count + 1) * sizeof(uint64_t)),
                              .right_keys = malloc((right_count + 1) * sizeof(uint64_t)),
                              .match = pairs->step_of + left->first_step};
    enum rp_status status = RP_NO_MEMORY;
    if (left_steps == NULL || right_steps == NULL || aligned.left_keys == NULL || aligned.right_keys == NULL)
        goto out;
    status = RP_OK;
    for (int level = BY_OPS; level < LEVELS && status == RP_OK; level++)
        status = align_level(&aligned, (enum level)level);
    if (status == RP_OK)
        take_pairs(&aligned, left, right, pairs);
out:
    free(aligned.left_keys);
    free(aligned.right_keys);
    free(left_steps);
    free(right_steps);
    return status;
}
