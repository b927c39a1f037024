/*
 * Stretches of launches as they are read: kept until the ops are in order. A lean read gives a stretch to its op at
 * once, as long as all of it belongs to the op's event; when it comes to have parts, what was given is the first one.
 */
#include "core/table.h"
#include "core/trace/trace_parse.h"

void rp_trace_parse_give_launches(struct rp_trace_op *op, const struct rp_file_stretch *stretch)
{
    uint32_t launches = stretch->count < UINT32_MAX ? (uint32_t)stretch->count : UINT32_MAX;
    if (launches < op->launches)
        return;
    op->launches = launches;
    op->launch_digest = stretch->digest;
}

/* The op that a stretch follows, if it is the last one of its thread so far, or but allocations; else NULL. */
static struct rp_trace_op *last_op_before(const struct rp_trace_parse *parse, const struct rp_file_stretch *read)
{
    const uint32_t last[] = {parse->last_call[read->thread], parse->last_op[read->thread]};
    for (int i = 0; i < 2; i++) {
        if (last[i] != 0 && parse->trace->ops[last[i] - 1].op.begin == read->after_begin)
            return &parse->trace->ops[last[i] - 1];
    }
    return NULL;
}

/* The part of which `read` says more: the thread's last one, if it is the same. NULL: `read` is a new one. */
static struct rp_file_stretch *same_part(const struct rp_trace_parse *parse, const struct rp_file_stretch *read)
{
    uint32_t last = parse->last_stretch[read->thread];
    struct rp_file_stretch *stretch = last == 0 ? NULL : &parse->stretches[last - 1];
    bool same = stretch != NULL && stretch->after_begin == read->after_begin && stretch->before == read->before &&
                stretch->first == read->first;
    return same ? stretch : NULL;
}

static enum rp_status append_stretch(struct rp_trace_parse *parse, const struct rp_file_stretch *read)
{
    struct rp_file_stretch *stretches =
        rp_table_grow(parse->stretches, parse->stretches_count, &parse->stretches_room, sizeof *stretches);
    if (stretches == NULL)
        return RP_NO_MEMORY;
    parse->stretches = stretches;
    stretches[parse->stretches_count++] = *read;
    parse->last_stretch[read->thread] = (uint32_t)parse->stretches_count;
    return RP_OK;
}

/* *taken_out: `read` was given to its op, and need not be kept. */
static enum rp_status take_lean(struct rp_trace_parse *parse, const struct rp_file_stretch *read, bool *taken_out)
{
    struct rp_trace_op *op = last_op_before(parse, read);
    *taken_out = op != NULL && !read->says_event;
    if (*taken_out)
        rp_trace_parse_give_launches(op, read);
    if (op == NULL || *taken_out || op->launches == 0 || op->launches != read->before)
        return RP_OK;
    struct rp_file_stretch given = {
        .after_begin = read->after_begin, .count = op->launches, .digest = op->launch_digest, .thread = read->thread};
    op->launches = 0;
    return append_stretch(parse, &given);
}

enum rp_status rp_trace_parse_take_stretch(struct rp_trace_parse *parse, const struct rp_file_stretch *read)
{
    bool taken = false;
    enum rp_status status = parse->lean ? take_lean(parse, read, &taken) : RP_OK;
    if (status != RP_OK || taken)
        return status;
    struct rp_file_stretch *stretch = same_part(parse, read);
    if (stretch == NULL)
        return append_stretch(parse, read);
    *stretch = *read;
    return RP_OK;
}
