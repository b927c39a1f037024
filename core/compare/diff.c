#include "core/compare/diff.h"

#include <stdlib.h>
#include <string.h>

#include "core/compare/pair.h"

#define THREADS (UINT16_MAX + 1)
#define NO_NEXT UINT32_MAX

const char *rp_diff_class_name(enum rp_diff_class class)
{
    static const char *const names[] = {
#define X(name, text) text,
        RP_DIFF_CLASSES(X)
#undef X
    };
    return names[class];
}

/* ---------------------------------------------------------------- one pair of ops */

/* One rank of both runs while it is compared. */
struct ranks {
    const struct rp_trace *left, *right;
    struct rp_pairs pairs;
    uint32_t *left_next, *right_next; /* per op the next one of its thread, or NO_NEXT */
};

static const char *module_of(const struct rp_trace *trace, const struct rp_op *op)
{
    return rp_module_name(trace->modules, op->module);
}

/* True if both runs know a module, or a phase, and not the same one. */
static bool renamed(const struct ranks *ranks, const struct rp_op *left, const struct rp_op *right)
{
    bool phases = left->phase != RP_PHASE_UNKNOWN && right->phase != RP_PHASE_UNKNOWN;
    bool modules = rp_pair_knows_module(ranks->left, left) && rp_pair_knows_module(ranks->right, right);
    return (phases && left->phase != right->phase) ||
           (modules && strcmp(module_of(ranks->left, left), module_of(ranks->right, right)) != 0);
}

/* True if the launches after both ops end at the same place: at ops that are partners, or at the end of whole traces.
 */
static bool end_alike(const struct ranks *ranks, uint32_t i, uint32_t j)
{
    uint32_t left = ranks->left_next[i], right = ranks->right_next[j];
    if (left == NO_NEXT || right == NO_NEXT)
        return left == right && ranks->left->complete && ranks->right->complete;
    return ranks->pairs.right_of[left] == right;
}

static bool launches_differ(const struct ranks *ranks, uint32_t i, uint32_t j)
{
    const struct rp_trace_op *left = &ranks->left->ops[i], *right = &ranks->right->ops[j];
    if (left->lossy || right->lossy || !end_alike(ranks, i, j))
        return false;
    return left->launches != right->launches || left->launch_digest != right->launch_digest;
}

/* Both have fingerprints, and of the same kind of bytes. */
static bool both_hashed(const struct rp_trace_op *left, const struct rp_trace_op *right)
{
    return left->has_fingerprint && right->has_fingerprint && rp_op_signature(&left->op) == rp_op_signature(&right->op);
}

/* One of all bytes says nothing about one of a sample. */
static bool hashed_alike(const struct rp_trace_op *left, const struct rp_trace_op *right)
{
    return ((left->op.flags ^ right->op.flags) & RP_OP_SAMPLED) == 0;
}

static bool bytes_comparable(const struct rp_trace_op *left, const struct rp_trace_op *right)
{
    return both_hashed(left, right) && hashed_alike(left, right);
}

static void count_fingerprints(struct rp_diff *diff, const struct rp_trace_op *left, const struct rp_trace_op *right)
{
    bool comparable = bytes_comparable(left, right);
    diff->fingerprints_left += left->has_fingerprint;
    diff->fingerprints_right += right->has_fingerprint;
    diff->fingerprints += comparable;
    diff->fingerprints_sampled += comparable && (left->op.flags & RP_OP_SAMPLED) != 0;
    diff->fingerprints_unlike += both_hashed(left, right) && !comparable;
}

/* The classes of the pair of left op i and right op j. */
static unsigned classify(const struct ranks *ranks, uint32_t i, uint32_t j)
{
    const struct rp_trace_op *left = &ranks->left->ops[i], *right = &ranks->right->ops[j];
    const struct rp_op *a = &left->op, *b = &right->op;
    unsigned classes = 0;
    if (rp_op_bytes(a) != rp_op_bytes(b))
        classes |= RP_DIFF_BIT(RP_DIFF_RESIZED);
    if (a->dtype != b->dtype)
        classes |= RP_DIFF_BIT(RP_DIFF_DTYPE);
    if (a->redop != b->redop)
        classes |= RP_DIFF_BIT(RP_DIFF_REDUCTION);
    if (a->root != b->root)
        classes |= RP_DIFF_BIT(RP_DIFF_ROOT);
    if (bytes_comparable(left, right) && memcmp(left->fingerprint, right->fingerprint, sizeof(left->fingerprint)) != 0)
        classes |= RP_DIFF_BIT(RP_DIFF_BYTES);
    if (renamed(ranks, a, b))
        classes |= RP_DIFF_BIT(RP_DIFF_RENAMED);
    if (launches_differ(ranks, i, j))
        classes |= RP_DIFF_BIT(RP_DIFF_LAUNCHES);
    return classes == 0 ? RP_DIFF_BIT(RP_DIFF_SAME) : classes;
}

/* ---------------------------------------------------------------- the first place */

/* Fills the side that has the op with that index. Returns its trace's op. */
static void fill_side(struct rp_diff_side *side, const struct rp_trace *trace, size_t index)
{
    const struct rp_trace_op *op = &trace->ops[index];
    const struct rp_trace_comm *comm = op->op.comm == RP_NO_COMM ? NULL : rp_trace_find_comm(trace, op->op.comm);
    *side = (struct rp_diff_side){.trace = trace, .op = op, .index = index, .comm = comm};
}

/* Fills the side that lacks a partner of `has`: its place is after the partner of the last op before in the lane. */
static void fill_missing(struct rp_diff_side *side, const struct rp_trace *trace, const struct rp_diff_side *has,
                         const uint32_t *partner_of)
{
    *side = (struct rp_diff_side){.trace = trace};
    if (has->comm != NULL)
        side->comm = rp_pair_comm(has->trace, has->comm, trace);
    for (size_t i = has->index; i-- > 0;) {
        if (partner_of[i] != RP_PAIR_NONE && rp_pair_same_lane(&has->trace->ops[i].op, &has->op->op)) {
            side->index = (size_t)partner_of[i] + 1;
            return;
        }
    }
}

static bool is_earlier(const struct rp_diff_point *point, uint64_t place)
{
    return !point->found || place < point->place; /* ranks come in order: a tie stays with the lower */
}

/* Remembers the place if it is the earliest. `i` or `j` is RP_PAIR_NONE on the side that has no op. */
static void note(struct rp_diff_point *point, const struct ranks *ranks, unsigned classes, uint64_t place, uint32_t i,
                 uint32_t j)
{
    if (!is_earlier(point, place))
        return;
    *point =
        (struct rp_diff_point){.found = true, .classes = classes, .rank = ranks->left->identity.rank, .place = place};
    if (i != RP_PAIR_NONE)
        fill_side(&point->left, ranks->left, i);
    if (j != RP_PAIR_NONE)
        fill_side(&point->right, ranks->right, j);
    if (i == RP_PAIR_NONE)
        fill_missing(&point->left, ranks->left, &point->right, ranks->pairs.left_of);
    if (j == RP_PAIR_NONE)
        fill_missing(&point->right, ranks->right, &point->left, ranks->pairs.right_of);
}

/* Counts what was found at a place, and keeps it if it is a first one. */
static void count(struct rp_diff *diff, const struct ranks *ranks, unsigned classes, uint64_t place, uint32_t i,
                  uint32_t j)
{
    for (int c = 0; c < RP_DIFF_CLASS_COUNT; c++)
        diff->counts[c] += (classes >> c) & 1;
    if (classes & RP_DIFF_STRUCTURE)
        note(&diff->structure, ranks, classes, place, i, j);
    if (classes & RP_DIFF_BIT(RP_DIFF_LAUNCHES))
        note(&diff->launches, ranks, classes, place, i, j);
    if (classes & RP_DIFF_BIT(RP_DIFF_BYTES))
        note(&diff->bytes, ranks, classes, place, i, j);
}

/* ---------------------------------------------------------------- one rank */

/* How far the ops with a partner and those without reach, to tell a run that ends early. */
struct extent {
    size_t last_paired;    /* one past it */
    size_t first_unpaired; /* SIZE_MAX: none */
};

static struct extent compare_left(struct rp_diff *diff, const struct ranks *ranks)
{
    struct extent extent = {.first_unpaired = SIZE_MAX};
    for (uint32_t i = 0; i < ranks->left->op_count; i++) {
        const struct rp_trace_op *left = &ranks->left->ops[i];
        if (!rp_pair_compares(left->op.kind))
            continue;
        diff->ops_left++;
        uint32_t j = ranks->pairs.right_of[i];
        uint64_t place = 2 * (uint64_t)i + 1;
        if (j == RP_PAIR_NONE) {
            count(diff, ranks, RP_DIFF_BIT(RP_DIFF_ONLY_LEFT), place, i, j);
            if (extent.first_unpaired == SIZE_MAX)
                extent.first_unpaired = i;
            continue;
        }
        extent.last_paired = i + 1;
        count_fingerprints(diff, left, &ranks->right->ops[j]);
        count(diff, ranks, classify(ranks, i, j), place, i, j);
    }
    return extent;
}

/* The ops of the right side alone. Their place is after the partners of all right ops before them. */
static struct extent compare_right(struct rp_diff *diff, const struct ranks *ranks)
{
    struct extent extent = {.first_unpaired = SIZE_MAX};
    uint64_t place = 0;
    for (uint32_t j = 0; j < ranks->right->op_count; j++) {
        if (!rp_pair_compares(ranks->right->ops[j].op.kind))
            continue;
        diff->ops_right++;
        uint32_t i = ranks->pairs.left_of[j];
        if (i == RP_PAIR_NONE) {
            count(diff, ranks, RP_DIFF_BIT(RP_DIFF_ONLY_RIGHT), place, i, j);
            if (extent.first_unpaired == SIZE_MAX)
                extent.first_unpaired = j;
            continue;
        }
        extent.last_paired = j + 1;
        uint64_t after = 2 * ((uint64_t)i + 1);
        place = after > place ? after : place;
    }
    return extent;
}

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

/* Of each op the next compared one of its thread, or NO_NEXT. */
static uint32_t *next_of_threads(const struct rp_trace *trace)
{
    uint32_t *next = malloc((trace->op_count + 1) * sizeof(*next));
    uint32_t *later = malloc(THREADS * sizeof(*later)); /* per thread the op seen last, from the end */
    if (next != NULL && later != NULL) {
        memset(later, 0xff, THREADS * sizeof(*later)); /* NO_NEXT */
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

static enum rp_status compare_rank(struct rp_diff *diff, const struct rp_trace *left, const struct rp_trace *right)
{
    struct ranks ranks = {.left = left, .right = right};
    enum rp_status status = rp_pair_ops(left, right, &ranks.pairs);
    if (status != RP_OK)
        return status;
    ranks.left_next = next_of_threads(left);
    ranks.right_next = next_of_threads(right);
    status = ranks.left_next == NULL || ranks.right_next == NULL ? RP_NO_MEMORY : RP_OK;
    if (status == RP_OK) {
        struct rp_diff before = *diff;
        struct extent left_extent = compare_left(diff, &ranks), right_extent = compare_right(diff, &ranks);
        diff->verdict = join(diff->verdict, judge(&before, diff, left_extent, right_extent));
        diff->ranks++;
    }
    free(ranks.left_next);
    free(ranks.right_next);
    rp_pairs_free(&ranks.pairs);
    return status;
}

/* ---------------------------------------------------------------- all ranks */

static const struct rp_trace *find_rank(const struct rp_trace_run *run, int32_t rank)
{
    for (size_t i = 0; i < run->count; i++) {
        if (run->ranks[i]->identity.rank == rank)
            return run->ranks[i];
    }
    return NULL;
}

/* How many ranks of `run` that are asked for the other run does not have. */
static size_t count_alone(const struct rp_trace_run *run, const struct rp_trace_run *other, int32_t rank)
{
    size_t alone = 0;
    for (size_t i = 0; i < run->count; i++) {
        int32_t mine = run->ranks[i]->identity.rank;
        if (rank == RP_DIFF_ALL_RANKS || rank == mine)
            alone += find_rank(other, mine) == NULL;
    }
    return alone;
}

enum rp_status rp_diff_runs(const struct rp_trace_run *left, const struct rp_trace_run *right, int32_t rank,
                            struct rp_diff *diff_out)
{
    struct rp_diff diff = {.ranks_only_left = count_alone(left, right, rank),
                           .ranks_only_right = count_alone(right, left, rank)};
    for (size_t i = 0; i < left->count; i++) {
        int32_t mine = left->ranks[i]->identity.rank;
        const struct rp_trace *partner = find_rank(right, mine);
        if (partner == NULL || (rank != RP_DIFF_ALL_RANKS && rank != mine))
            continue;
        enum rp_status status = compare_rank(&diff, left->ranks[i], partner);
        if (status != RP_OK)
            return status;
    }
    if (diff.ranks == 0)
        return RP_NOT_FOUND;
    if (diff.ranks_only_left + diff.ranks_only_right > 0)
        diff.verdict = RP_DIFF_DIFFERENT;
    *diff_out = diff;
    return RP_OK;
}
