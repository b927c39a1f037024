#include "core/tool/tree_view.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/tool/tool.h"
#include "core/tool/tree.h"

#define LABEL_MAX 400 /* bytes of a label in text */

/* ---------------------------------------------------------------- printing */

/* Steps that are alike, and their tree. */
struct steps {
    size_t first, last;
    bool whole;
    struct rp_tree tree;
};

static void print_line(FILE *out, const struct rp_trace *trace, const struct rp_tree_figures *figures, size_t indent,
                       const char *label)
{
    char bytes[32], time[32] = "-";
    if (figures->ops > 0)
        snprintf(time, sizeof(time), "%.3f", (double)figures->ticks * trace->ns_per_tick * 1e-6);
    fprintf(out, "%8" PRIu64 "  %10s  %8" PRIu64 "  %10s  %*s%s\n", figures->ops,
            rp_bytes_print(figures->bytes, bytes, sizeof(bytes)), figures->launches, time, (int)(2 * indent), "",
            label);
}

static void add_label(const struct rp_tree_node *node, char *text, size_t size)
{
    char label[LABEL_MAX], safe[LABEL_MAX];
    snprintf(label, sizeof(label), "%.*s", node->length < LABEL_MAX ? (int)node->length : LABEL_MAX, node->label);
    rp_tool_append(text, size, "%s%s", text[0] != '\0' ? "." : "", rp_tool_safe(label, safe, sizeof(safe)));
}

/* A line for the node, and for those below it of a module in which nothing else is; returns the last of these. */
static size_t print_node(FILE *out, const struct rp_trace *trace, const struct rp_tree *tree, size_t node,
                         size_t indent)
{
    char label[2 * LABEL_MAX] = "";
    add_label(&tree->nodes[node], label, sizeof(label));
    for (size_t child; tree->nodes[node].depth > 1 && (child = rp_tree_only_child(tree, node)) != 0; node = child)
        add_label(&tree->nodes[child], label, sizeof(label));
    print_line(out, trace, &tree->nodes[node].figures, indent, label);
    return node;
}

/* The node and all that is below it. */
static void print_subtree(FILE *out, const struct rp_trace *trace, const struct rp_tree *tree, size_t node,
                          size_t indent)
{
    size_t indents[RP_TREE_DEPTH + 1]; /* by depth, since some levels share a line */
    size_t end = tree->nodes[node].end;
    indents[tree->nodes[node].depth] = indent;
    for (size_t i = node; i < end; i++) {
        size_t here = indents[tree->nodes[i].depth];
        i = print_node(out, trace, tree, i, here);
        indents[tree->nodes[i].depth + 1] = here + 1;
    }
}

/* The line above phases that repeat together: their sum. */
static void print_group(FILE *out, const struct rp_trace *trace, const struct rp_tree *tree, size_t first)
{
    struct rp_tree_figures sum = {0};
    char label[40];
    size_t node = first;
    for (size_t i = 0; i < tree->nodes[first].group; i++) {
        rp_tree_figures_add(&sum, &tree->nodes[node].figures);
        node = tree->nodes[node].end;
    }
    snprintf(label, sizeof(label), "%zu times", tree->nodes[first].times);
    print_line(out, trace, &sum, 1, label);
}

static void print_steps(FILE *out, const struct rp_trace *trace, const struct steps *steps)
{
    const struct rp_tree *tree = &steps->tree;
    char label[80];
    snprintf(label, sizeof(label), "step %zu", steps->first + 1);
    if (steps->last > steps->first)
        snprintf(label, sizeof(label), "steps %zu to %zu, %zu alike", steps->first + 1, steps->last + 1,
                 steps->last - steps->first + 1);
    rp_tool_append(label, sizeof(label), "%s", steps->whole ? "" : " (not whole)");
    print_line(out, trace, &tree->nodes[0].figures, 0, label);
    size_t grouped = 0; /* siblings of a group that are still to come */
    for (size_t node = 1; node < tree->count; node = tree->nodes[node].end) {
        if (tree->nodes[node].hidden)
            continue;
        if (tree->nodes[node].group > 0) {
            print_group(out, trace, tree, node);
            grouped = tree->nodes[node].group;
        }
        print_subtree(out, trace, tree, node, grouped > 0 ? 2 : 1);
        grouped -= grouped > 0;
    }
}

/* ---------------------------------------------------------------- from the trace */

struct view {
    FILE *out;
    const struct rp_trace *trace;
    const struct rp_timeline *timeline;
    const struct rp_filter *filter;
    size_t *first, *order;    /* the parts of op i are order[first[i]] to order[first[i + 1] - 1] */
    struct steps shown, next; /* what was not printed yet, since the next step may be alike; what is being filled */
};

/* The parts of an op keep their order. */
static enum rp_status index_parts(struct view *view)
{
    const struct rp_trace *trace = view->trace;
    size_t *next = calloc(trace->op_count + 2, sizeof(*next));
    view->first = calloc(trace->op_count + 2, sizeof(*view->first));
    view->order = calloc(trace->part_count + 1, sizeof(*view->order));
    if (next == NULL || view->first == NULL || view->order == NULL) {
        free(next);
        return RP_NO_MEMORY;
    }
    for (size_t i = 0; i < trace->part_count; i++) {
        if (trace->parts[i].op < trace->op_count)
            view->first[trace->parts[i].op + 1]++;
    }
    for (size_t i = 0; i < trace->op_count; i++)
        view->first[i + 1] += view->first[i];
    memcpy(next, view->first, (trace->op_count + 1) * sizeof(*next));
    for (size_t i = 0; i < trace->part_count; i++) {
        if (trace->parts[i].op < trace->op_count)
            view->order[next[trace->parts[i].op]++] = i;
    }
    free(next);
    return RP_OK;
}

static enum rp_status add(struct view *view, struct rp_event event, const struct rp_tree_figures *figures)
{
    const char *module = event.module == RP_MODULE_UNKNOWN ? NULL : rp_module_name(view->trace->modules, event.module);
    return rp_tree_add(&view->next.tree, rp_phase_name(event.phase), module, figures);
}

/* Up to the next call; of the last one, while it lasted. */
static uint64_t ticks_of(const struct view *view, size_t index, size_t next)
{
    const struct rp_op *op = &view->trace->ops[index].op;
    if (next < view->trace->op_count)
        return view->trace->ops[next].op.begin - op->begin;
    return op->end > op->begin ? op->end - op->begin : 0;
}

static enum rp_status add_op(struct view *view, size_t index, size_t next)
{
    const struct rp_trace *trace = view->trace;
    const struct rp_op *op = &trace->ops[index].op;
    enum rp_status status = RP_OK;
    if (rp_filter_has(view->filter, trace, op)) {
        const struct rp_tree_figures figures = {
            .ops = 1, .bytes = rp_op_bytes(op), .ticks = ticks_of(view, index, next)};
        status = add(view, (struct rp_event){op->module, (enum rp_phase)op->phase}, &figures);
    }
    for (size_t i = view->first[index]; status == RP_OK && i < view->first[index + 1]; i++) {
        const struct rp_trace_part *part = &trace->parts[view->order[i]];
        const struct rp_tree_figures figures = {.launches = part->count};
        if (rp_filter_has_part(view->filter, trace, part))
            status = add(view, part->event, &figures);
    }
    return status;
}

/* The step that was filled is added to the one before it if it is alike, else it takes its place. */
static void end_step(struct view *view)
{
    struct steps *shown = &view->shown, *next = &view->next, swapped;
    if (next->tree.count <= 1)
        return;
    rp_tree_fold(&next->tree);
    if (shown->tree.count > 0 && shown->whole == next->whole && shown->last + 1 == next->first &&
        rp_tree_merge(&shown->tree, &next->tree)) {
        shown->last = next->first;
        return;
    }
    if (shown->tree.count > 0)
        print_steps(view->out, view->trace, shown);
    swapped = *shown;
    *shown = *next;
    *next = swapped;
}

static enum rp_status add_steps(struct view *view, size_t from, size_t to)
{
    const struct rp_timeline *timeline = view->timeline;
    enum rp_status status = RP_OK;
    size_t next = from;
    for (size_t i = from, step_end = from; status == RP_OK && i < to; i++) {
        if (i == step_end) {
            size_t step = rp_timeline_step_of(timeline, i);
            if (i > from)
                end_step(view);
            view->next.first = view->next.last = step;
            view->next.whole = timeline->steps[step].kind == RP_STEP_WHOLE;
            status = rp_tree_begin(&view->next.tree);
            step_end = rp_timeline_end(timeline, step);
        }
        for (next = next > i ? next : i + 1; next < view->trace->op_count && !view->filter->allocations &&
                                             rp_op_kind_is_allocation((enum rp_op_kind)view->trace->ops[next].op.kind);)
            next++;
        if (status == RP_OK)
            status = add_op(view, i, next);
    }
    return status;
}

enum rp_status rp_tree_view_print(FILE *out, const struct rp_trace *trace, const struct rp_timeline *timeline,
                                  size_t from, size_t to, const struct rp_filter *filter)
{
    struct view view = {.out = out, .trace = trace, .timeline = timeline, .filter = filter};
    enum rp_status status = index_parts(&view);
    if (status == RP_OK) {
        fprintf(out, "%8s  %10s  %8s  %10s  %s\n", "ops", "bytes", "launches", "host ms", "event");
        status = add_steps(&view, from, to);
    }
    if (status == RP_OK) {
        end_step(&view);
        if (view.shown.tree.count > 1)
            print_steps(out, trace, &view.shown);
    }
    rp_tree_free(&view.shown.tree);
    rp_tree_free(&view.next.tree);
    free(view.first);
    free(view.order);
    return status;
}
