/*
 * Gathers ahead, from their records to the trace's tables. Nothing that a file says of them is believed but what fits:
 * one gather of a number on a communicator, served to one op at most, that has the flag of it and began no earlier.
 */
#include "core/trace/trace_issue.h"

#include <stdlib.h>
#include <string.h>

#include "core/table.h"
#include "core/trace/trace.h"
#include "core/trace/trace_format.h"

enum rp_status rp_trace_issue_take(struct rp_trace_issue_parse *parse, struct rp_trace *trace,
                                   const struct rp_file_record *record)
{
    const struct rp_file_issue *from = (const void *)record;
    if (trace->issue_count >= UINT32_MAX - 1)
        return RP_CORRUPT;
    void *table = rp_table_grow(trace->issues, trace->issue_count, &parse->issues_room, sizeof *trace->issues);
    if (table == NULL)
        return RP_NO_MEMORY;
    trace->issues = table;
    struct rp_trace_issue *issue = &trace->issues[trace->issue_count++];
    *issue = (struct rp_trace_issue){.of = from->issue, .op = RP_TRACE_NO_OP};
    if (issue->of.source >= RP_ISSUE_SOURCE_COUNT)
        issue->of.source = RP_ISSUE_UNKNOWN; /* one that a newer minor version added */
    return RP_OK;
}

enum rp_status rp_trace_issue_take_use(struct rp_trace_issue_parse *parse, const struct rp_file_record *record)
{
    const struct rp_file_issue_use *from = (const void *)record;
    void *table = rp_table_grow(parse->uses, parse->uses_count, &parse->uses_room, sizeof *parse->uses);
    if (table == NULL)
        return RP_NO_MEMORY;
    parse->uses = table;
    parse->uses[parse->uses_count++] = from->use;
    return RP_OK;
}

void rp_trace_issue_free(struct rp_trace_issue_parse *parse)
{
    free(parse->uses);
}

/* ---------------------------------------------------------------- which op */

static int compare(uint64_t left, uint64_t right)
{
    return (left > right) - (left < right);
}

static int by_number(const void *left, const void *right)
{
    const struct rp_issue *a = &((const struct rp_trace_issue *)left)->of;
    const struct rp_issue *b = &((const struct rp_trace_issue *)right)->of;
    int order = compare(a->comm, b->comm);
    return order != 0 ? order : compare(a->number, b->number);
}

static int by_begin(const void *left, const void *right)
{
    const struct rp_issue *a = &((const struct rp_trace_issue *)left)->of;
    const struct rp_issue *b = &((const struct rp_trace_issue *)right)->of;
    int order = compare(a->begin, b->begin);
    return order != 0 ? order : by_number(left, right);
}

/* Sorted by number, and one of each. */
static void sort_by_number(struct rp_trace *trace)
{
    size_t kept = 1;
    qsort(trace->issues, trace->issue_count, sizeof *trace->issues, by_number);
    for (size_t i = 1; i < trace->issue_count; i++)
        if (by_number(&trace->issues[i], &trace->issues[kept - 1]) != 0)
            trace->issues[kept++] = trace->issues[i];
    trace->issue_count = kept;
}

static struct rp_trace_issue *find_issue(const struct rp_trace *trace, const struct rp_issue_use *use)
{
    const struct rp_trace_issue key = {.of = {.comm = use->comm, .number = use->number}};
    return bsearch(&key, trace->issues, trace->issue_count, sizeof key, by_number);
}

/* An op that a gather ahead was served to. */
struct served {
    uint32_t comm, op;
    uint64_t position;
    bool taken; /* its gather is known */
};

static int by_place(const void *left, const void *right)
{
    const struct served *a = left, *b = right;
    int order = compare(a->comm, b->comm);
    return order != 0 ? order : compare(a->position, b->position);
}

static bool is_served(const struct rp_op *op)
{
    return (op->flags & RP_OP_HIT) != 0 && (op->flags & RP_OP_AHEAD) != 0 && op->position != RP_NO_POSITION;
}

/* Sorted; one element more than there are. NULL: memory is out. */
static struct served *find_served(const struct rp_trace *trace, size_t *count_out)
{
    size_t count = 0;
    for (size_t i = 0; i < trace->op_count; i++)
        count += is_served(&trace->ops[i].op);
    struct served *served = calloc(count + 1, sizeof *served);
    if (served == NULL)
        return NULL;
    *count_out = count;
    count = 0;
    for (size_t i = 0; i < trace->op_count; i++) {
        const struct rp_op *op = &trace->ops[i].op;
        if (is_served(op))
            served[count++] = (struct served){.comm = op->comm, .op = (uint32_t)i, .position = op->position};
    }
    qsort(served, count, sizeof *served, by_place);
    return served;
}

static void join_use(const struct rp_trace *trace, struct served *served, size_t count, const struct rp_issue_use *use)
{
    const struct served key = {.comm = use->comm, .position = use->position};
    struct served *to = bsearch(&key, served, count, sizeof key, by_place);
    struct rp_trace_issue *issue = find_issue(trace, use);
    if (to == NULL || to->taken || issue == NULL || issue->op != RP_TRACE_NO_OP ||
        issue->of.begin > trace->ops[to->op].op.begin)
        return;
    issue->op = to->op;
    to->taken = true;
}

static int by_op(const void *left, const void *right)
{
    const struct rp_trace_used *a = left, *b = right;
    return compare(a->op, b->op);
}

/* The issues have their last places. */
static enum rp_status list_used(struct rp_trace *trace)
{
    trace->used = calloc(trace->issue_count, sizeof *trace->used);
    if (trace->used == NULL)
        return RP_NO_MEMORY;
    for (size_t i = 0; i < trace->issue_count; i++)
        if (trace->issues[i].op != RP_TRACE_NO_OP)
            trace->used[trace->used_count++] = (struct rp_trace_used){trace->issues[i].op, (uint32_t)i};
    qsort(trace->used, trace->used_count, sizeof *trace->used, by_op);
    return RP_OK;
}

enum rp_status rp_trace_issue_join(const struct rp_trace_issue_parse *parse, struct rp_trace *trace)
{
    size_t count;
    if (trace->issue_count == 0)
        return RP_OK;
    struct served *served = find_served(trace, &count);
    if (served == NULL)
        return RP_NO_MEMORY;
    sort_by_number(trace);
    for (size_t i = 0; i < parse->uses_count; i++)
        join_use(trace, served, count, &parse->uses[i]);
    free(served);
    qsort(trace->issues, trace->issue_count, sizeof *trace->issues, by_begin);
    return list_used(trace);
}

const struct rp_trace_issue *rp_trace_issue_of(const struct rp_trace *trace, size_t op)
{
    const struct rp_trace_used key = {.op = (uint32_t)op}, *found;
    if (trace->used_count == 0)
        return NULL;
    found = bsearch(&key, trace->used, trace->used_count, sizeof key, by_op);
    return found == NULL ? NULL : &trace->issues[found->issue];
}
