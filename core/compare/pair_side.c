#include "core/compare/pair_side.h"

#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "core/compare/op_name.h"

void rp_pair_lanes_free(struct rp_pair_lanes *lanes)
{
    free(lanes->keys);
    free(lanes->names);
    free(lanes->known);
    free(lanes->first);
    free(lanes->index);
}

/* ---------------------------------------------------------------- lanes */

size_t rp_pair_lane_of(const struct rp_trace *trace, const struct rp_op *op)
{
    size_t place = op->comm; /* numbers count up from 0, so it is mostly there */
    if (place >= trace->comm_count || trace->comms[place].number != op->comm) {
        const struct rp_trace_comm *comm = op->comm == RP_NO_COMM ? NULL : rp_trace_find_comm(trace, op->comm);
        place = comm == NULL ? trace->comm_count : (size_t)(comm - trace->comms);
    }
    return 2 * place + (op->position == RP_NO_POSITION);
}

/* Counts the ops of each lane into first[lane + 2], sums up, and deals them out while first[lane + 1] moves on. */
static void sort_by_lane(struct rp_pair_lanes *lanes)
{
    const struct rp_trace *trace = lanes->trace;
    const struct rp_pair_part *part = lanes->part;
    for (size_t i = part->from; i < part->to; i++) {
        const struct rp_op *op = rp_packed_call_op(part->packed, i);
        if (rp_pair_compares(op->kind))
            lanes->first[rp_pair_lane_of(trace, op) + 2]++;
    }
    for (size_t lane = 2; lane < lanes->lane_count + 2; lane++)
        lanes->first[lane] += lanes->first[lane - 1];
    for (size_t i = part->from; i < part->to; i++) {
        const struct rp_op *op = rp_packed_call_op(part->packed, i);
        if (rp_pair_compares(op->kind))
            lanes->index[lanes->first[rp_pair_lane_of(trace, op) + 1]++] = (uint32_t)i;
    }
}

size_t rp_pair_count_alone(const uint32_t *index, size_t count, const uint32_t *partner_of)
{
    size_t alone = 0;
    for (size_t i = 0; i < count; i++)
        alone += partner_of[index[i]] == RP_PAIR_NONE;
    return alone;
}

/* ---------------------------------------------------------------- names */

static int by_value(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

/* Sorts the hashes of the modules that ops have. `known` marks them first. */
static void find_known(struct rp_pair_lanes *lanes)
{
    const struct rp_trace *trace = lanes->trace;
    uint32_t modules = rp_module_count(trace->modules);
    for (size_t i = 0; i < lanes->packed->call_count; i++) {
        uint32_t module = lanes->packed->calls[i].op.module;
        if (module < modules)
            lanes->known[module] = 1;
    }
    for (uint32_t i = 0; i < modules; i++) {
        if (lanes->known[i] != 0)
            lanes->known[lanes->known_count++] = lanes->names[i];
    }
    qsort(lanes->known, lanes->known_count, sizeof(*lanes->known), by_value);
}

/* ---------------------------------------------------------------- keys */

/* Hash of the module's name; that of "-" if it is not known. */
static uint64_t module_key(const struct rp_pair_lanes *lanes, const struct rp_op *op)
{
    return lanes->names[op->module < rp_module_count(lanes->trace->modules) ? op->module : RP_MODULE_UNKNOWN];
}

static uint64_t name_key(const struct rp_pair_lanes *lanes, const struct rp_op *op)
{
    uint64_t module = module_key(lanes, op) & ~RP_ALIGN_PART;
    return (rp_op_name_has_module(lanes->trace, op) ? module : 0) | op->phase;
}

static uint64_t signature_key(const struct rp_op *op)
{
    uint64_t parts[2] = {rp_op_signature(op), (uint32_t)op->root};
    return XXH3_64bits(parts, sizeof(parts));
}

static void fill_keys(struct rp_pair_lanes *lanes)
{
    for (size_t i = 0; i < lanes->packed->call_count; i++) {
        const struct rp_op *op = &lanes->packed->calls[i].op;
        lanes->keys[i] = (struct rp_pair_key){signature_key(op), name_key(lanes, op)};
    }
}

/* ---------------------------------------------------------------- the side */

enum rp_status rp_pair_lanes_create(const struct rp_pair_part *part, struct rp_pair_lanes *lanes_out)
{
    const struct rp_trace *trace = part->trace;
    uint32_t modules = rp_module_count(trace->modules);
    struct rp_pair_lanes lanes = {
        .part = part, .trace = trace, .packed = part->packed, .lane_count = 2 * (trace->comm_count + 1)};
    lanes.keys = malloc((part->packed->call_count + 1) * sizeof(*lanes.keys));
    lanes.names = calloc(modules + (size_t)1, sizeof(*lanes.names));
    lanes.known = calloc(modules + (size_t)1, sizeof(*lanes.known));
    lanes.first = calloc(lanes.lane_count + 2, sizeof(*lanes.first));
    lanes.index = malloc((part->to - part->from + 1) * sizeof(*lanes.index));
    if (lanes.keys == NULL || lanes.names == NULL || lanes.known == NULL || lanes.first == NULL ||
        lanes.index == NULL) {
        rp_pair_lanes_free(&lanes);
        return RP_NO_MEMORY;
    }
    for (uint32_t i = 0; i < modules; i++) {
        const char *name = rp_module_name(trace->modules, i);
        lanes.names[i] = XXH3_64bits(name, strlen(name));
    }
    find_known(&lanes);
    fill_keys(&lanes);
    sort_by_lane(&lanes);
    *lanes_out = lanes;
    return RP_OK;
}

/* ---------------------------------------------------------------- renamed */

static bool knows_module(const struct rp_pair_lanes *lanes, uint64_t module)
{
    return bsearch(&module, lanes->known, lanes->known_count, sizeof(module), by_value) != NULL;
}

bool rp_pair_may_be_renamed(const struct rp_pair_lanes *left, const struct rp_op *a, const struct rp_pair_lanes *right,
                            const struct rp_op *b)
{
    uint64_t from = module_key(left, a), to = module_key(right, b);
    if (from == to || !rp_op_name_has_module(left->trace, a) || !rp_op_name_has_module(right->trace, b))
        return true;
    return !knows_module(right, from) || !knows_module(left, to);
}
