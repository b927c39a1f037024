#include "core/compare/pair.h"

#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "core/compare/align.h"

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

bool rp_pair_knows_module(const struct rp_trace *trace, const struct rp_op *op)
{
    return op->module != RP_MODULE_UNKNOWN && op->module < rp_module_count(trace->modules);
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

/* ---------------------------------------------------------------- one trace, by lane */

/*
 * Lane 2c holds the ops on the lane of comms[c], 2c + 1 those beside it; the last two those of no known communicator.
 * index[first[lane] .. first[lane + 1]) are a lane's ops, in the unified order.
 */
struct side {
    const struct rp_trace *trace;
    uint64_t *names; /* hash per module number */
    uint64_t *known; /* those of modules that ops have, sorted */
    size_t known_count;
    size_t *first;
    uint32_t *index;
    size_t lane_count;
};

static void side_free(struct side *side)
{
    free(side->names);
    free(side->known);
    free(side->first);
    free(side->index);
}

static size_t lane_of(const struct rp_trace *trace, const struct rp_op *op)
{
    const struct rp_trace_comm *comm = op->comm == RP_NO_COMM ? NULL : rp_trace_find_comm(trace, op->comm);
    size_t place = comm == NULL ? trace->comm_count : (size_t)(comm - trace->comms);
    return 2 * place + !on_lane(op);
}

/* Counts the ops of each lane into first[lane + 2], sums up, and deals them out while first[lane + 1] moves on. */
static void side_sort(struct side *side)
{
    const struct rp_trace *trace = side->trace;
    for (size_t i = 0; i < trace->op_count; i++) {
        if (rp_pair_compares(trace->ops[i].op.kind))
            side->first[lane_of(trace, &trace->ops[i].op) + 2]++;
    }
    for (size_t lane = 2; lane < side->lane_count + 2; lane++)
        side->first[lane] += side->first[lane - 1];
    for (size_t i = 0; i < trace->op_count; i++) {
        if (rp_pair_compares(trace->ops[i].op.kind))
            side->index[side->first[lane_of(trace, &trace->ops[i].op) + 1]++] = (uint32_t)i;
    }
}

static int by_value(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

/* Sorts the hashes of the modules that ops have. `side->known` marks them first. */
static void side_know(struct side *side)
{
    const struct rp_trace *trace = side->trace;
    uint32_t modules = rp_module_count(trace->modules);
    for (size_t i = 0; i < trace->op_count; i++) {
        if (trace->ops[i].op.module < modules)
            side->known[trace->ops[i].op.module] = 1;
    }
    for (uint32_t i = 0; i < modules; i++) {
        if (side->known[i] != 0)
            side->known[side->known_count++] = side->names[i];
    }
    qsort(side->known, side->known_count, sizeof(*side->known), by_value);
}

static enum rp_status side_create(const struct rp_trace *trace, struct side *side_out)
{
    uint32_t modules = rp_module_count(trace->modules);
    struct side side = {.trace = trace, .lane_count = 2 * (trace->comm_count + 1)};
    side.names = calloc(modules + (size_t)1, sizeof(*side.names));
    side.known = calloc(modules + (size_t)1, sizeof(*side.known));
    side.first = calloc(side.lane_count + 2, sizeof(*side.first));
    side.index = malloc((trace->op_count + 1) * sizeof(*side.index));
    if (side.names == NULL || side.known == NULL || side.first == NULL || side.index == NULL) {
        side_free(&side);
        return RP_NO_MEMORY;
    }
    for (uint32_t i = 0; i < modules; i++) {
        const char *name = rp_module_name(trace->modules, i);
        side.names[i] = XXH3_64bits(name, strlen(name));
    }
    side_know(&side);
    side_sort(&side);
    *side_out = side;
    return RP_OK;
}

/* ---------------------------------------------------------------- keys */

static uint64_t module_key(const struct side *side, const struct rp_op *op)
{
    return side->names[op->module < rp_module_count(side->trace->modules) ? op->module : RP_MODULE_UNKNOWN];
}

/* Module and phase as the two parts of a name (align.h). */
static uint64_t name_of(const struct side *side, const struct rp_op *op)
{
    uint64_t module = module_key(side, op) & ~RP_ALIGN_PART;
    return (rp_pair_knows_module(side->trace, op) ? module : 0) | op->phase;
}

/* The signature, and the peer of a send or receive, which a signature leaves out. */
static uint64_t signature_key(const struct rp_op *op)
{
    uint64_t parts[2] = {rp_op_signature(op), (uint32_t)op->root};
    return XXH3_64bits(parts, sizeof(parts));
}

static uint64_t kind_key(const struct rp_op *op)
{
    return op->kind;
}

static const struct level {
    uint64_t (*key)(const struct rp_op *op);
    bool by_name; /* too */
} levels[] = {{signature_key, true}, {kind_key, true}, {signature_key, false}};

/* ---------------------------------------------------------------- one pair of lanes */

struct lane {
    const struct side *side;
    const uint32_t *index;
    size_t count;
    uint64_t *keys, *names;
};

static bool lane_open(const struct side *side, size_t number, struct lane *lane)
{
    size_t first = side->first[number], count = side->first[number + 1] - first;
    *lane = (struct lane){.side = side, .index = side->index + first, .count = count};
    lane->keys = malloc((count + 1) * sizeof(*lane->keys));
    lane->names = malloc((count + 1) * sizeof(*lane->names));
    if (lane->keys == NULL || lane->names == NULL)
        return false;
    for (size_t i = 0; i < count; i++)
        lane->names[i] = name_of(side, &side->trace->ops[lane->index[i]].op);
    return true;
}

static void lane_close(struct lane *lane)
{
    free(lane->keys);
    free(lane->names);
}

/* Keys of part [from, to) of the lane. */
static struct rp_align_keys lane_keys(struct lane *lane, size_t from, size_t to, const struct level *level)
{
    for (size_t i = from; i < to; i++)
        lane->keys[i] = level->key(&lane->side->trace->ops[lane->index[i]].op);
    return (struct rp_align_keys){lane->keys + from, to - from, level->by_name ? lane->names + from : NULL};
}

static bool knows_module(const struct side *side, uint64_t module)
{
    return bsearch(&module, side->known, side->known_count, sizeof(module), by_value) != NULL;
}

/* Two modules that both runs have are not one that was renamed. An op without a module may be any. */
static bool may_be_renamed(const struct side *left, const struct rp_op *a, const struct side *right,
                           const struct rp_op *b)
{
    uint64_t from = module_key(left, a), to = module_key(right, b);
    if (from == to || !rp_pair_knows_module(left->trace, a) || !rp_pair_knows_module(right->trace, b))
        return true;
    return !knows_module(right, from) || !knows_module(left, to);
}

/* Undoes pairs [i, i_end) of ops that only look alike. */
static void check_names(const struct lane *left, size_t i, size_t i_end, const struct lane *right, uint32_t *match)
{
    const struct rp_trace_op *left_ops = left->side->trace->ops, *right_ops = right->side->trace->ops;
    for (; i < i_end; i++) {
        if (match[i] != RP_ALIGN_NONE && !may_be_renamed(left->side, &left_ops[left->index[i]].op, right->side,
                                                         &right_ops[right->index[match[i]]].op))
            match[i] = RP_ALIGN_NONE;
    }
}

/* Aligns what has no partner yet between two pairs: left [i, i_end), right [j, j_end). */
static enum rp_status align_gap(struct lane *left, size_t i, size_t i_end, struct lane *right, size_t j, size_t j_end,
                                const struct level *level, uint32_t *match)
{
    if (i == i_end || j == j_end)
        return RP_OK;
    enum rp_status status = rp_align(lane_keys(left, i, i_end, level), lane_keys(right, j, j_end, level), match + i);
    for (size_t k = i; k < i_end; k++) {
        if (match[k] != RP_ALIGN_NONE)
            match[k] += (uint32_t)j;
    }
    if (!level->by_name)
        check_names(left, i, i_end, right, match);
    return status;
}

static enum rp_status align_gaps(struct lane *left, struct lane *right, const struct level *level, uint32_t *match)
{
    enum rp_status status = RP_OK;
    size_t i = 0, j = 0;
    while (i < left->count && status == RP_OK) {
        size_t i_end = i;
        while (i_end < left->count && match[i_end] == RP_ALIGN_NONE)
            i_end++;
        size_t j_end = i_end < left->count ? match[i_end] : right->count;
        status = align_gap(left, i, i_end, right, j, j_end, level, match);
        i = i_end + 1;
        j = j_end + 1;
    }
    return status;
}

static enum rp_status pair_lanes(const struct side *left_side, size_t left_number, const struct side *right_side,
                                 size_t right_number, struct rp_pairs *pairs)
{
    enum rp_status status = RP_NO_MEMORY;
    struct lane left = {0}, right = {0};
    uint32_t *match = NULL;
    if (!lane_open(left_side, left_number, &left) || !lane_open(right_side, right_number, &right))
        goto out;
    match = malloc((left.count + 1) * sizeof(*match));
    if (match == NULL)
        goto out;
    memset(match, 0xff, left.count * sizeof(*match)); /* RP_ALIGN_NONE */
    status = RP_OK;
    for (size_t level = 0; level < sizeof(levels) / sizeof(levels[0]) && status == RP_OK; level++)
        status = align_gaps(&left, &right, &levels[level], match);
    for (size_t i = 0; i < left.count && status == RP_OK; i++) {
        if (match[i] == RP_ALIGN_NONE)
            continue;
        pairs->right_of[left.index[i]] = right.index[match[i]];
        pairs->left_of[right.index[match[i]]] = left.index[i];
    }
out:
    free(match);
    lane_close(&left);
    lane_close(&right);
    return status;
}

/* ---------------------------------------------------------------- all lanes */

static enum rp_status pair_sides(const struct side *left, const struct side *right, struct rp_pairs *pairs)
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
        status = pair_lanes(left, lane, right, 2 * right_place + lane % 2, pairs);
    }
    return status;
}

static uint32_t *no_partners(size_t count)
{
    uint32_t *partners = malloc((count + 1) * sizeof(*partners));
    if (partners != NULL)
        memset(partners, 0xff, count * sizeof(*partners)); /* RP_PAIR_NONE */
    return partners;
}

enum rp_status rp_pair_ops(const struct rp_trace *left, const struct rp_trace *right, struct rp_pairs *pairs_out)
{
    if (left->op_count > OPS_MAX || right->op_count > OPS_MAX)
        return RP_UNSUPPORTED;
    struct side left_side = {0}, right_side = {0};
    struct rp_pairs pairs = {no_partners(left->op_count), no_partners(right->op_count)};
    enum rp_status status = pairs.right_of == NULL || pairs.left_of == NULL ? RP_NO_MEMORY : RP_OK;
    if (status == RP_OK)
        status = side_create(left, &left_side);
    if (status == RP_OK)
        status = side_create(right, &right_side);
    if (status == RP_OK)
        status = pair_sides(&left_side, &right_side, &pairs);
    side_free(&left_side);
    side_free(&right_side);
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
    *pairs = (struct rp_pairs){0};
}
