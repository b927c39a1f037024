#include "core/trace/trace_packed.h"

#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "core/table.h"

_Static_assert(sizeof(struct rp_packed_op) <= sizeof(struct rp_trace_op), "ops are packed where they lie");

/* While ops are packed: finds calls. Open addressing, at most half full. */
struct packer {
    struct rp_packed *packed;
    size_t calls_room;
    uint32_t *slots; /* number of a call + 1; 0: empty */
    size_t mask;
};

static struct rp_packed_call call_of(const struct rp_trace_op *op)
{
    struct rp_packed_call call = {
        .op = op->op, .thread = op->thread, .has_fingerprint = op->has_fingerprint, .lossy = op->lossy};
    call.op.type = 0;
    call.op.position = op->op.position == RP_NO_POSITION ? RP_NO_POSITION : 0;
    call.op.begin = 0;
    call.op.end = 0;
    call.op.stream = 0;
    call.op.group = 0;
    return call;
}

static bool calls_equal(const struct rp_packed_call *a, const struct rp_packed_call *b)
{
    return memcmp(&a->op, &b->op, sizeof a->op) == 0 && a->thread == b->thread &&
           a->has_fingerprint == b->has_fingerprint && a->lossy == b->lossy;
}

/* Of all that tells calls apart: threads that issue the same ones must not share slots. */
static uint64_t hash_of(const struct rp_packed_call *call)
{
    uint64_t seed = (uint64_t)call->thread << 2 | (uint64_t)call->has_fingerprint << 1 | (uint64_t)call->lossy;
    return XXH3_64bits_withSeed(&call->op, sizeof call->op, seed);
}

/* The slot that holds the call, or the empty one where it would go. */
static uint32_t *find_slot(const struct packer *packer, const struct rp_packed_call *call)
{
    for (size_t at = hash_of(call) & packer->mask;; at = (at + 1) & packer->mask) {
        uint32_t *slot = &packer->slots[at];
        if (*slot == 0 || calls_equal(&packer->packed->calls[*slot - 1], call))
            return slot;
    }
}

/* Room for one more call, and a table of twice as many slots as that at least. */
static bool make_room(struct packer *packer)
{
    struct rp_packed *packed = packer->packed;
    size_t room = packer->calls_room;
    struct rp_packed_call *calls = rp_table_grow(packed->calls, packed->call_count, &packer->calls_room, sizeof *calls);
    if (calls == NULL)
        return false;
    packed->calls = calls;
    if (packer->calls_room == room)
        return true;
    free(packer->slots);
    packer->slots = calloc(2 * packer->calls_room, sizeof *packer->slots);
    packer->mask = 2 * packer->calls_room - 1;
    for (size_t i = 0; packer->slots != NULL && i < packed->call_count; i++)
        *find_slot(packer, &packed->calls[i]) = (uint32_t)i + 1;
    return packer->slots != NULL;
}

static bool pack(struct packer *packer, const struct rp_trace_op *op, struct rp_packed_op *packed_out)
{
    struct rp_packed *packed = packer->packed;
    struct rp_packed_call call = call_of(op);
    uint32_t *slot = find_slot(packer, &call);
    if (*slot == 0) {
        packed->calls[packed->call_count++] = call;
        *slot = (uint32_t)packed->call_count;
    }
    *packed_out = (struct rp_packed_op){.fingerprint = {op->fingerprint[0], op->fingerprint[1]},
                                        .launch_digest = op->launch_digest,
                                        .begin = op->op.begin,
                                        .position = op->op.position,
                                        .launches = op->launches,
                                        .call = *slot - 1};
    return make_room(packer);
}

/* Each op is packed at or before its own place, which no later one needs. */
static enum rp_status pack_all(struct packer *packer, struct rp_trace_op *ops, size_t count)
{
    struct rp_packed *packed = packer->packed;
    packed->ops = (void *)ops;
    if (!make_room(packer))
        return RP_NO_MEMORY;
    for (; packed->op_count < count; packed->op_count++) {
        struct rp_trace_op op = ops[packed->op_count];
        if (!pack(packer, &op, &packed->ops[packed->op_count]))
            return RP_NO_MEMORY;
    }
    struct rp_packed_op *shrunk = realloc(packed->ops, (count + 1) * sizeof *shrunk);
    if (shrunk != NULL)
        packed->ops = shrunk;
    return RP_OK;
}

enum rp_status rp_packed_create(struct rp_trace *trace, struct rp_packed *packed_out)
{
    struct rp_packed packed = {.trace = trace};
    struct packer packer = {.packed = &packed};
    enum rp_status status = pack_all(&packer, trace->ops, trace->op_count);
    free(packer.slots);
    trace->ops = NULL;
    trace->op_count = 0;
    if (status == RP_OK)
        *packed_out = packed;
    else
        rp_packed_free(&packed);
    return status;
}

void rp_packed_free(struct rp_packed *packed)
{
    free(packed->ops);
    free(packed->calls);
    *packed = (struct rp_packed){0};
}

struct rp_trace_op rp_packed_op(const struct rp_packed *packed, size_t index)
{
    const struct rp_packed_op *of = &packed->ops[index];
    const struct rp_packed_call *call = &packed->calls[of->call];
    struct rp_trace_op op = {.op = call->op,
                             .fingerprint = {of->fingerprint[0], of->fingerprint[1]},
                             .launch_digest = of->launch_digest,
                             .launches = of->launches,
                             .thread = call->thread,
                             .has_fingerprint = call->has_fingerprint,
                             .lossy = call->lossy};
    op.op.begin = of->begin;
    op.op.position = of->position;
    return op;
}
