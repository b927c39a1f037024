#include "core/compare/launch_parts.h"

#include <stdlib.h>
#include <string.h>

#include "core/compare/op_name.h"

#define NONE UINT32_MAX
#define THREADS (UINT16_MAX + 1)

static bool says_nothing(const struct rp_trace *trace, const struct rp_trace_part *part)
{
    if (part->op >= trace->op_count)
        return false;
    const struct rp_trace_op *op = &trace->ops[part->op];
    return part->count == op->launches &&
           rp_event_is_same(part->event, (struct rp_event){op->op.module, (enum rp_phase)op->op.phase});
}

void rp_launch_parts_shrink(struct rp_trace *trace)
{
    size_t kept = 0;
    for (size_t i = 0; i < trace->part_count; i++)
        if (!says_nothing(trace, &trace->parts[i]))
            trace->parts[kept++] = trace->parts[i];
    trace->part_count = kept;
    struct rp_trace_part *smaller = realloc(trace->parts, (kept + 1) * sizeof(*smaller));
    if (smaller != NULL)
        trace->parts = smaller;
}

static uint32_t *none(size_t count)
{
    uint32_t *table = malloc((count + 1) * sizeof(*table));
    if (table != NULL)
        memset(table, 0xff, count * sizeof(*table)); /* NONE */
    return table;
}

/* From the last part to the first: the one seen last of a thread follows. False: no memory. */
static bool link_parts(struct rp_launch_parts *parts)
{
    const struct rp_trace *trace = parts->trace;
    uint32_t *later = none(THREADS);
    for (size_t i = trace->part_count; later != NULL && i-- > 0;) {
        const struct rp_trace_part *part = &trace->parts[i];
        uint32_t next = later[part->thread];
        if (next != NONE && trace->parts[next].op == part->op)
            parts->next[i] = next;
        later[part->thread] = (uint32_t)i;
        if (part->op < parts->packed->op_count)
            parts->first[part->op] = (uint32_t)i;
    }
    free(later);
    return later != NULL;
}

enum rp_status rp_launch_parts_create(const struct rp_packed *packed, struct rp_launch_parts *parts_out)
{
    const struct rp_trace *trace = packed->trace;
    struct rp_launch_parts parts = {.trace = trace, .packed = packed};
    if (trace->part_count > 0) {
        parts.first = none(packed->op_count);
        parts.next = none(trace->part_count);
        if (parts.first == NULL || parts.next == NULL || !link_parts(&parts)) {
            rp_launch_parts_free(&parts);
            return RP_NO_MEMORY;
        }
    }
    *parts_out = parts;
    return RP_OK;
}

void rp_launch_parts_free(struct rp_launch_parts *parts)
{
    free(parts->first);
    free(parts->next);
}

/* ---------------------------------------------------------------- the parts of one op */

struct walk {
    const struct rp_launch_parts *parts;
    uint32_t at;                  /* index of the next part, or NONE */
    struct rp_trace_part implied; /* of an op without parts */
};

static struct walk walk_begin(const struct rp_launch_parts *parts, uint32_t i)
{
    const struct rp_packed_op *op = &parts->packed->ops[i];
    const struct rp_op *call = rp_packed_call_op(parts->packed, i);
    struct walk walk = {.parts = parts, .at = parts->first != NULL ? parts->first[i] : NONE};
    if (walk.at == NONE)
        walk.implied = (struct rp_trace_part){
            .event = {call->module, (enum rp_phase)call->phase}, .count = op->launches, .digest = op->launch_digest};
    return walk;
}

/* Of no launches: there are no more. */
static struct rp_trace_part walk_next(struct walk *walk)
{
    struct rp_trace_part part = walk->implied;
    walk->implied.count = 0;
    if (walk->at == NONE)
        return part;
    part = walk->parts->trace->parts[walk->at];
    walk->at = walk->parts->next[walk->at];
    return part;
}

/* ---------------------------------------------------------------- comparing */

static bool events_differ(const struct rp_trace *left, struct rp_event a, const struct rp_trace *right,
                          struct rp_event b)
{
    struct rp_op in_a = {.module = a.module, .phase = (uint8_t)a.phase};
    struct rp_op in_b = {.module = b.module, .phase = (uint8_t)b.phase};
    return rp_op_name_differs(left, &in_a, right, &in_b);
}

/* What is said of two parts that differ. Of one that is not there the count is 0. */
static struct rp_launch_difference difference(const struct rp_trace *left, const struct rp_trace_part *a,
                                              const struct rp_trace *right, const struct rp_trace_part *b)
{
    bool both = a->count > 0 && b->count > 0;
    bool alike = both && !events_differ(left, a->event, right, b->event);
    if (b->count == 0 || (both && rp_event_is_named(a->event)))
        return (struct rp_launch_difference){left, a->event, a->count, alike ? b->count : 0};
    return (struct rp_launch_difference){right, b->event, alike ? a->count : 0, b->count};
}

struct rp_launch_difference rp_launch_parts_compare(const struct rp_launch_parts *left, uint32_t i,
                                                    const struct rp_launch_parts *right, uint32_t j)
{
    struct walk walk_left = walk_begin(left, i), walk_right = walk_begin(right, j);
    struct rp_trace_part a, b;
    do {
        a = walk_next(&walk_left);
        b = walk_next(&walk_right);
        if (a.count != b.count ||
            (a.count > 0 && (a.digest != b.digest || events_differ(left->trace, a.event, right->trace, b.event))))
            return difference(left->trace, &a, right->trace, &b);
    } while (a.count > 0);
    const struct rp_op *op = rp_packed_call_op(left->packed, i); /* a file that contradicts itself */
    return (struct rp_launch_difference){.trace = left->trace, .event = {op->module, (enum rp_phase)op->phase}};
}
