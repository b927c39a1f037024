#include "core/compare/diff.h"

#include <stdlib.h>
#include <string.h>

#include "core/compare/diff_class.h"
#include "core/compare/diff_points.h"
#include "core/compare/pair.h"

const char *rp_diff_class_name(enum rp_diff_class class)
{
    static const char *const names[] = {
#define X(name, text, key) text,
        RP_DIFF_CLASSES(X)
#undef X
    };
    return names[class];
}

const char *rp_diff_class_key(enum rp_diff_class class)
{
    static const char *const keys[] = {
#define X(name, text, key) key,
        RP_DIFF_CLASSES(X)
#undef X
    };
    return keys[class];
}

/* ---------------------------------------------------------------- counting */

/* Counts what was found at a place, and keeps it if it is a first one. */
static enum rp_status count(struct rp_diff *diff, struct rp_diff_rank *rank, struct rp_diff_place place)
{
    for (int c = 0; c < RP_DIFF_CLASS_COUNT; c++)
        diff->counts[c] += (place.classes >> c) & 1;
    if (place.classes == RP_DIFF_BIT(RP_DIFF_SAME))
        return RP_OK;
    diff->places++;
    return rp_diff_note(diff, rank, &place);
}

static void count_fingerprints(struct rp_diff *diff, const struct rp_diff_rank *rank, uint32_t i, uint32_t j)
{
    const struct rp_packed_call *left = rp_packed_call(rank->left.packed, i);
    const struct rp_packed_call *right = rp_packed_call(rank->right.packed, j);
    const struct rp_diff_calls *calls = rp_diff_calls_of(rank, i, j);
    diff->fingerprints_left += left->has_fingerprint;
    diff->fingerprints_right += right->has_fingerprint;
    diff->fingerprints += calls->comparable;
    diff->fingerprints_sampled += calls->comparable && (left->op.flags & RP_OP_SAMPLED) != 0;
    diff->fingerprints_unlike += calls->hashed && !calls->comparable;
}

/* How far the ops with a partner and those without reach, to tell a run that ends early. */
struct extent {
    size_t last_paired;    /* one past it */
    size_t first_unpaired; /* SIZE_MAX: none */
};

static uint32_t *last_of_lane(const struct rp_diff_lanes *lanes, const struct rp_packed *packed, uint32_t index)
{
    return &lanes->last[lanes->of_call[packed->ops[index].call]];
}

static enum rp_status compare_left(struct rp_diff *diff, struct rp_diff_rank *rank, struct extent *extent_out)
{
    struct extent extent = {.first_unpaired = SIZE_MAX};
    enum rp_status status = RP_OK;
    for (uint32_t i = (uint32_t)rank->left.from; i < rank->left.to && status == RP_OK; i++) {
        if (!rp_pair_compares(rp_packed_call_op(rank->left.packed, i)->kind))
            continue;
        diff->ops_left++;
        uint32_t j = rank->pairs.right_of[i];
        uint32_t *last = last_of_lane(&rank->left_lanes, rank->left.packed, i);
        struct rp_diff_place place = {
            .classes = RP_DIFF_BIT(RP_DIFF_ONLY_LEFT), .i = i, .j = j, .before = *last, .place = 2 * (uint64_t)i + 1};
        if (j == RP_PAIR_NONE) {
            status = count(diff, rank, place);
            if (extent.first_unpaired == SIZE_MAX)
                extent.first_unpaired = i;
            continue;
        }
        extent.last_paired = i + 1;
        count_fingerprints(diff, rank, i, j);
        place.classes = rp_diff_classify(rank, i, j);
        status = count(diff, rank, place);
        if (!rank->pairs.moved[i])
            *last = j;
    }
    *extent_out = extent;
    return status;
}

/* The ops of the right side alone. Their place is after the partners of all right ops before them. */
static enum rp_status compare_right(struct rp_diff *diff, struct rp_diff_rank *rank, struct extent *extent_out)
{
    struct extent extent = {.first_unpaired = SIZE_MAX};
    enum rp_status status = RP_OK;
    uint64_t place = 2 * (uint64_t)rank->left.from;
    for (uint32_t j = (uint32_t)rank->right.from; j < rank->right.to && status == RP_OK; j++) {
        if (!rp_pair_compares(rp_packed_call_op(rank->right.packed, j)->kind))
            continue;
        diff->ops_right++;
        uint32_t i = rank->pairs.left_of[j];
        uint32_t *last = last_of_lane(&rank->right_lanes, rank->right.packed, j);
        if (i == RP_PAIR_NONE) {
            status =
                count(diff, rank,
                      (struct rp_diff_place){
                          .classes = RP_DIFF_BIT(RP_DIFF_ONLY_RIGHT), .i = i, .j = j, .before = *last, .place = place});
            if (extent.first_unpaired == SIZE_MAX)
                extent.first_unpaired = j;
            continue;
        }
        extent.last_paired = j + 1;
        uint64_t after = 2 * ((uint64_t)i + 1);
        if (rank->pairs.moved[i])
            continue;
        *last = i;
        place = after > place ? after : place;
    }
    *extent_out = extent;
    return status;
}

/* ---------------------------------------------------------------- the verdict */

static bool only_tail_is_unpaired(struct extent extent)
{
    return extent.first_unpaired != SIZE_MAX && extent.first_unpaired >= extent.last_paired;
}

/* The verdict on one rank, from what comparing it added to `diff`. */
static enum rp_diff_verdict judge(const struct rp_diff *before, const struct rp_diff *after, struct extent left,
                                  struct extent right)
{
    uint64_t added[RP_DIFF_CLASS_COUNT], structural = 0, any = 0;
    for (int c = 0; c < RP_DIFF_CLASS_COUNT; c++) {
        added[c] = after->counts[c] - before->counts[c];
        if (c != RP_DIFF_SAME)
            any += added[c];
        if (RP_DIFF_STRUCTURE & RP_DIFF_BIT(c))
            structural += added[c];
    }
    if (any == 0)
        return RP_DIFF_ALIKE;
    if (structural > 0 && structural == added[RP_DIFF_ONLY_LEFT] && only_tail_is_unpaired(left))
        return RP_DIFF_RIGHT_ENDS;
    if (structural > 0 && structural == added[RP_DIFF_ONLY_RIGHT] && only_tail_is_unpaired(right))
        return RP_DIFF_LEFT_ENDS;
    return RP_DIFF_DIFFERENT;
}

static enum rp_diff_verdict join(enum rp_diff_verdict a, enum rp_diff_verdict b)
{
    if (a == RP_DIFF_ALIKE || a == b)
        return b;
    return b == RP_DIFF_ALIKE ? a : RP_DIFF_DIFFERENT;
}

const struct rp_diff_point *rp_diff_first(const struct rp_diff *diff)
{
    if (diff->structure.found)
        return &diff->structure;
    return diff->bytes.found ? &diff->bytes : &diff->launches;
}

/* ---------------------------------------------------------------- rank by rank */

enum rp_status rp_diff_create(const struct rp_diff_options *options, struct rp_diff *diff_out)
{
    struct rp_diff diff = {.options = *options};
    diff.points = malloc((options->top + 1) * sizeof(*diff.points));
    enum rp_status status = diff.points == NULL ? RP_NO_MEMORY : rp_modules_create(&diff.modules);
    if (status == RP_OK)
        status = rp_diff_totals_create(&diff.totals);
    if (status == RP_OK)
        *diff_out = diff;
    else
        rp_diff_free(&diff);
    return status;
}

void rp_diff_free(struct rp_diff *diff)
{
    free(diff->points);
    if (diff->modules != NULL)
        rp_modules_destroy(diff->modules);
    rp_diff_totals_free(diff->totals);
    *diff = (struct rp_diff){0};
}

enum rp_status rp_diff_add(struct rp_diff *diff, const struct rp_packed *left, const struct rp_timeline *left_steps,
                           const struct rp_packed *right, const struct rp_timeline *right_steps)
{
    struct rp_diff_rank rank;
    const struct rp_diff_options *options = &diff->options;
    enum rp_status status =
        rp_diff_rank_open(rp_pair_part_of(left, left_steps, options->first_step, options->end_step),
                          rp_pair_part_of(right, right_steps, options->first_step, options->end_step), &rank);
    if (status != RP_OK)
        return status;
    struct rp_diff before = *diff;
    struct extent left_extent, right_extent;
    status = compare_left(diff, &rank, &left_extent);
    if (status == RP_OK)
        status = compare_right(diff, &rank, &right_extent);
    if (status == RP_OK) {
        rp_diff_list(diff, &rank);
        diff->verdict = join(diff->verdict, judge(&before, diff, left_extent, right_extent));
        diff->ranks++;
        status = rp_diff_totals_add(diff->totals, diff->modules, &rank.left, &rank.right, &rank.pairs);
    }
    rp_diff_rank_close(&rank);
    return status;
}

void rp_diff_add_alone(struct rp_diff *diff, bool is_left)
{
    *(is_left ? &diff->ranks_only_left : &diff->ranks_only_right) += 1;
}

enum rp_status rp_diff_finish(struct rp_diff *diff)
{
    size_t retimed;
    if (diff->ranks == 0)
        return RP_NOT_FOUND;
    if (diff->ranks_only_left + diff->ranks_only_right > 0)
        diff->verdict = RP_DIFF_DIFFERENT;
    enum rp_status status = rp_diff_totals_finish(diff->totals, &retimed);
    if (status == RP_OK)
        diff->counts[RP_DIFF_RETIMED] = retimed;
    return status;
}
