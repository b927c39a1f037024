/*
 * Three levels of keys, each between the pairs of the one before: event and signature, event and kind, signature
 * alone. First within pairs of steps, then once more over the whole lane.
 */
#include "core/compare/pair_lane.h"

#include <stdlib.h>
#include <string.h>

#include "core/compare/align_gap.h"
#include "core/compare/pair_moved.h"

static const struct level {
    bool by_signature; /* else by kind */
    bool by_name;      /* too */
} levels[] = {{true, true}, {false, true}, {true, false}};

struct lane {
    const struct rp_pair_lanes *side;
    const uint32_t *index;
    size_t count;
    uint64_t *keys, *names; /* room for as many; where little of a lane is looked at at a time, little is touched */
};

static bool lane_open(const struct rp_pair_lanes *side, size_t number, struct lane *lane)
{
    size_t first = side->first[number], count = side->first[number + 1] - first;
    *lane = (struct lane){.side = side, .index = side->index + first, .count = count};
    lane->keys = malloc((count + 1) * sizeof(*lane->keys));
    lane->names = malloc((count + 1) * sizeof(*lane->names));
    return lane->keys != NULL && lane->names != NULL;
}

static void lane_close(struct lane *lane)
{
    free(lane->keys);
    free(lane->names);
}

/* Keys of part [from, to) of the lane, until those of another part are asked for. */
static struct rp_align_keys lane_keys(const struct lane *lane, size_t from, size_t to, const struct level *level)
{
    for (size_t i = from; i < to; i++) {
        struct rp_pair_key key = rp_pair_key_of(lane->side, lane->index[i]);
        lane->keys[i - from] =
            level->by_signature ? key.signature : rp_packed_call_op(lane->side->packed, lane->index[i])->kind;
        lane->names[i - from] = key.name;
    }
    return (struct rp_align_keys){lane->keys, to - from, level->by_name ? lane->names : NULL};
}

/* ---------------------------------------------------------------- level by level */

/* Undoes pairs in a gap of ops that only look alike. */
static void check_names(const struct lane *left, const struct lane *right, struct rp_align_range gap, uint32_t *match)
{
    for (size_t i = gap.i; i < gap.i_end; i++) {
        if (match[i] == RP_ALIGN_NONE)
            continue;
        const struct rp_op *a = rp_packed_call_op(left->side->packed, left->index[i]);
        const struct rp_op *b = rp_packed_call_op(right->side->packed, right->index[match[i]]);
        if (!rp_pair_may_be_renamed(left->side, a, right->side, b))
            match[i] = RP_ALIGN_NONE;
    }
}

/* Aligns what has no partner yet between two pairs. */
static enum rp_status align_gaps(const struct lane *left, const struct lane *right, struct rp_align_range range,
                                 const struct level *level, uint32_t *match)
{
    enum rp_status status = RP_OK;
    struct rp_align_range gap;
    while (status == RP_OK && rp_align_gap_next(match, &range, &gap)) {
        status = rp_align_gap_fill(lane_keys(left, gap.i, gap.i_end, level), lane_keys(right, gap.j, gap.j_end, level),
                                   gap, match);
        if (!level->by_name)
            check_names(left, right, gap, match);
    }
    return status;
}

static enum rp_status align_levels(const struct lane *left, const struct lane *right, struct rp_align_range range,
                                   uint32_t *match)
{
    enum rp_status status = RP_OK;
    for (size_t level = 0; level < sizeof(levels) / sizeof(levels[0]) && status == RP_OK; level++)
        status = align_gaps(left, right, range, &levels[level], match);
    return status;
}

/* ---------------------------------------------------------------- without steps */

#define AT_ONCE ((size_t)1 << 12) /* ops that are looked at in one go */

/* True if the whole lanes match as they stand; then `match` says so. */
static bool align_equal(const struct lane *left, const struct lane *right, uint32_t *match)
{
    if (left->count != right->count)
        return false;
    for (size_t from = 0; from < left->count; from += AT_ONCE) {
        size_t to = left->count - from < AT_ONCE ? left->count : from + AT_ONCE;
        if (rp_align_head(lane_keys(left, from, to, &levels[0]), lane_keys(right, from, to, &levels[0])) < to - from)
            return false;
    }
    for (size_t i = 0; i < left->count; i++)
        match[i] = (uint32_t)i;
    return true;
}

/* ---------------------------------------------------------------- step by step */

/* The first op of the lane, from `at` on, that is not before op `index` of the trace. */
static size_t skip_to(const struct lane *lane, size_t at, size_t index)
{
    while (at < lane->count && lane->index[at] < index)
        at++;
    return at;
}

/* The lanes' parts in left step `step` and in its partner. `range` is that of the step before, at first empty. */
static bool next_step(const struct lane *left, const struct lane *right, const struct rp_pairs *pairs, size_t step,
                      struct rp_align_range *range)
{
    uint32_t partner = pairs->step_of[step];
    if (partner == RP_PAIR_NONE)
        return false;
    const struct rp_timeline *left_steps = left->side->part->timeline, *right_steps = right->side->part->timeline;
    range->i = skip_to(left, range->i_end, left_steps->steps[step].first);
    range->i_end = skip_to(left, range->i, rp_timeline_end(left_steps, step));
    range->j = skip_to(right, range->j_end, right_steps->steps[partner].first);
    range->j_end = skip_to(right, range->j, rp_timeline_end(right_steps, partner));
    return true;
}

static size_t count_paired(const uint32_t *match, size_t count)
{
    size_t paired = 0;
    for (size_t i = 0; i < count; i++)
        paired += match[i] != RP_ALIGN_NONE;
    return paired;
}

/* Both sides of the pair of steps have something without a partner. */
static bool is_torn(struct rp_align_range range, const uint32_t *match)
{
    size_t paired = count_paired(match + range.i, range.i_end - range.i);
    return paired < range.i_end - range.i && paired < range.j_end - range.j;
}

/* *torn_out: more than one in eight pairs of steps is torn. */
static enum rp_status align_steps(const struct lane *left, const struct lane *right, const struct rp_pairs *pairs,
                                  uint32_t *match, bool *torn_out)
{
    enum rp_status status = RP_OK;
    struct rp_align_range range = {0};
    size_t steps = 0, torn = 0;
    const struct rp_pair_part *part = left->side->part;
    for (size_t step = part->first_step; step < part->end_step && status == RP_OK; step++) {
        if (!next_step(left, right, pairs, step, &range))
            continue;
        status = align_levels(left, right, range, match);
        steps++;
        torn += is_torn(range, match);
    }
    *torn_out = torn > steps / 8;
    return status;
}

/* ---------------------------------------------------------------- the lane */

static void take_pairs(const struct lane *left, const struct lane *right, const uint32_t *match, struct rp_pairs *pairs)
{
    for (size_t i = 0; i < left->count; i++) {
        if (match[i] == RP_ALIGN_NONE)
            continue;
        pairs->right_of[left->index[i]] = right->index[match[i]];
        pairs->left_of[right->index[match[i]]] = left->index[i];
    }
}

static enum rp_status find_moved(const struct lane *left, const struct lane *right, struct rp_pairs *pairs)
{
    enum rp_status status = RP_OK;
    struct rp_align_range range = {0};
    const struct rp_pair_part *part = left->side->part;
    for (size_t step = part->first_step; step < part->end_step && status == RP_OK; step++) {
        if (next_step(left, right, pairs, step, &range))
            status = rp_pair_moved((struct rp_pair_slice){left->side, left->index + range.i, range.i_end - range.i},
                                   (struct rp_pair_slice){right->side, right->index + range.j, range.j_end - range.j},
                                   pairs);
    }
    return status;
}

static size_t count_alone(const struct lane *lane, const uint32_t *partner_of)
{
    return rp_pair_count_alone(lane->index, lane->count, partner_of);
}

/* *sure_out: it is sure that the steps are those of both lanes, or nothing is left to pair. */
static enum rp_status pair_by_steps(const struct lane *left, const struct lane *right, struct rp_pairs *pairs,
                                    uint32_t *match, bool *sure_out)
{
    bool torn = true;
    enum rp_status status = align_steps(left, right, pairs, match, &torn);
    bool sure = pairs->steps_differ && !torn;
    if (status == RP_OK && !sure)
        status = align_levels(left, right, (struct rp_align_range){0, left->count, 0, right->count}, match);
    if (status != RP_OK)
        return status;
    take_pairs(left, right, match, pairs);
    status = find_moved(left, right, pairs);
    *sure_out = sure || count_alone(left, pairs->right_of) == 0 || count_alone(right, pairs->left_of) == 0;
    return status;
}

static void drop_pairs(const struct lane *left, const struct lane *right, struct rp_pairs *pairs)
{
    for (size_t i = 0; i < left->count; i++) {
        pairs->right_of[left->index[i]] = RP_PAIR_NONE;
        pairs->moved[left->index[i]] = false;
    }
    for (size_t j = 0; j < right->count; j++)
        pairs->left_of[right->index[j]] = RP_PAIR_NONE;
}

/* In place of what is paired, if it is more. */
static enum rp_status pair_without_steps(const struct lane *left, const struct lane *right, struct rp_pairs *pairs,
                                         uint32_t *match)
{
    memset(match, 0xff, left->count * sizeof(*match)); /* RP_ALIGN_NONE */
    enum rp_status status = align_levels(left, right, (struct rp_align_range){0, left->count, 0, right->count}, match);
    if (status != RP_OK || count_paired(match, left->count) <= left->count - count_alone(left, pairs->right_of))
        return status;
    drop_pairs(left, right, pairs);
    take_pairs(left, right, match, pairs);
    return RP_OK;
}

static enum rp_status pair_open_lanes(const struct lane *left, const struct lane *right, struct rp_pairs *pairs)
{
    uint32_t *match = malloc((left->count + 1) * sizeof(*match));
    if (match == NULL)
        return RP_NO_MEMORY;
    enum rp_status status = RP_OK;
    bool sure = !pairs->steps_differ && align_equal(left, right, match);
    if (sure) {
        take_pairs(left, right, match, pairs);
    } else {
        memset(match, 0xff, left->count * sizeof(*match)); /* RP_ALIGN_NONE */
        status = pair_by_steps(left, right, pairs, match, &sure);
    }
    if (status == RP_OK && !sure)
        status = pair_without_steps(left, right, pairs, match);
    free(match);
    return status;
}

enum rp_status rp_pair_lane(const struct rp_pair_lanes *left_side, size_t left_number,
                            const struct rp_pair_lanes *right_side, size_t right_number, struct rp_pairs *pairs)
{
    struct lane left = {0}, right = {0};
    enum rp_status status = RP_NO_MEMORY;
    if (lane_open(left_side, left_number, &left) && lane_open(right_side, right_number, &right))
        status = pair_open_lanes(&left, &right, pairs);
    lane_close(&left);
    lane_close(&right);
    return status;
}
