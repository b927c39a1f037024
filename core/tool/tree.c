#include "core/tool/tree.h"

#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "core/table.h"

#define PERIOD_MOST 64 /* phases that repeat together */

/* ---------------------------------------------------------------- growing */

static enum rp_status open_node(struct rp_tree *tree, const char *label, size_t length)
{
    struct rp_tree_node *nodes = rp_table_grow(tree->nodes, tree->count, &tree->room, sizeof(*nodes));
    if (nodes == NULL)
        return RP_NO_MEMORY;
    tree->nodes = nodes;
    tree->nodes[tree->count] =
        (struct rp_tree_node){.label = label, .length = length, .depth = tree->open_count, .end = tree->count + 1};
    tree->open[tree->open_count++] = tree->count++;
    return RP_OK;
}

enum rp_status rp_tree_begin(struct rp_tree *tree)
{
    tree->count = 0;
    tree->open_count = 0;
    return open_node(tree, NULL, 0);
}

/* Bytes of the first part of a path: up to a dot with something on both of its sides. */
static size_t part_length(const char *path)
{
    size_t length = strlen(path);
    const char *dot = length > 1 ? strchr(path + 1, '.') : NULL;
    return dot != NULL && dot[1] != '\0' ? (size_t)(dot - path) : length;
}

/* Makes the open node at `depth` the one of that label; what was open below another one is closed. */
static enum rp_status enter(struct rp_tree *tree, size_t depth, const char *label, size_t length)
{
    if (depth < tree->open_count) {
        const struct rp_tree_node *node = &tree->nodes[tree->open[depth]];
        if (node->length == length && memcmp(node->label, label, length) == 0)
            return RP_OK;
        tree->open_count = depth;
    }
    return open_node(tree, label, length);
}

void rp_tree_figures_add(struct rp_tree_figures *figures, const struct rp_tree_figures *more)
{
    figures->ops += more->ops;
    figures->bytes += more->bytes;
    figures->launches += more->launches;
    figures->ticks += more->ticks;
}

enum rp_status rp_tree_add(struct rp_tree *tree, const char *phase, const char *module,
                           const struct rp_tree_figures *figures)
{
    size_t depth = 1;
    enum rp_status status = enter(tree, depth++, phase, strlen(phase));
    for (const char *path = module; status == RP_OK && path != NULL && *path != '\0';) {
        size_t length = depth + 1 < RP_TREE_DEPTH ? part_length(path) : strlen(path);
        status = enter(tree, depth++, path, length);
        path += length + (path[length] == '.');
    }
    if (status != RP_OK)
        return status;
    tree->open_count = depth;
    for (size_t i = 0; i < depth; i++) {
        struct rp_tree_node *node = &tree->nodes[tree->open[i]];
        node->end = tree->count;
        rp_tree_figures_add(&node->figures, figures);
    }
    tree->nodes[tree->open[depth - 1]].own = true;
    return RP_OK;
}

/* ---------------------------------------------------------------- folding */

/* Of children before their parents. */
static void find_shapes(struct rp_tree *tree)
{
    for (size_t i = tree->count; i-- > 0;) {
        struct rp_tree_node *node = &tree->nodes[i];
        const uint64_t about[] = {node->own, node->figures.ops, node->figures.bytes, node->length};
        uint64_t shape = XXH64(about, sizeof(about), 0);
        if (node->length > 0)
            shape = XXH64(node->label, node->length, shape);
        for (size_t child = i + 1; child < node->end; child = tree->nodes[child].end)
            shape = XXH64(&tree->nodes[child].shape, sizeof(shape), shape);
        node->shape = shape;
    }
}

/* The sibling `count` further on, or `end`, where there is none. */
static size_t further(const struct rp_tree *tree, size_t node, size_t count, size_t end)
{
    while (count-- > 0 && node < end)
        node = tree->nodes[node].end;
    return node;
}

/*
 * How many times in a row `period` siblings from `first` on are there, and how many of the siblings behind them go on
 * likewise: so many places further on there are as many.
 */
static size_t count_times(const struct rp_tree *tree, size_t first, size_t period, size_t end, size_t *more_out)
{
    size_t here = first, there = further(tree, first, period, end), alike = 0;
    while (there < end && tree->nodes[here].shape == tree->nodes[there].shape) {
        here = tree->nodes[here].end;
        there = tree->nodes[there].end;
        alike++;
    }
    *more_out = alike % period;
    return alike / period + 1;
}

static void add_tree(struct rp_tree_node *into, const struct rp_tree_node *from, size_t count)
{
    for (size_t i = 0; i < count; i++)
        rp_tree_figures_add(&into[i].figures, &from[i].figures);
}

/* Folds `period` siblings that stand `times` times; returns the sibling behind them. */
static size_t fold(struct rp_tree *tree, size_t first, size_t period, size_t times)
{
    size_t here = first, there = first, end = tree->count;
    tree->nodes[first].group = period;
    tree->nodes[first].times = times;
    there = further(tree, there, period, end);
    for (size_t i = 0; i < period * (times - 1); i++) {
        size_t next = tree->nodes[there].end;
        if (i > 0 && i % period == 0)
            here = first;
        add_tree(&tree->nodes[here], &tree->nodes[there], next - there);
        tree->nodes[there].hidden = true;
        here = tree->nodes[here].end;
        there = next;
    }
    return there;
}

static bool has_label_of(const struct rp_tree_node *a, const struct rp_tree_node *b)
{
    return a->length == b->length && memcmp(a->label, b->label, a->length) == 0;
}

/* Of the places from `node` to `more` behind it the first that begins as the step does; else `node`. */
static size_t best_begin(const struct rp_tree *tree, size_t node, size_t more)
{
    size_t begin = node;
    for (size_t i = 0; i <= more; i++, begin = tree->nodes[begin].end) {
        if (has_label_of(&tree->nodes[begin], &tree->nodes[1]))
            return begin;
    }
    return node;
}

void rp_tree_fold(struct rp_tree *tree)
{
    size_t end = tree->count;
    find_shapes(tree);
    for (size_t node = 1; node < end;) {
        size_t times = 1, period = 0, more = 0;
        while (times == 1 && period++ < PERIOD_MOST)
            times = count_times(tree, node, period, end, &more);
        node = times > 1 ? fold(tree, best_begin(tree, node, more), period, times) : tree->nodes[node].end;
    }
}

bool rp_tree_merge(struct rp_tree *into, const struct rp_tree *from)
{
    if (into->count != from->count || into->count == 0 || into->nodes[0].shape != from->nodes[0].shape)
        return false;
    add_tree(into->nodes, from->nodes, into->count);
    return true;
}

/* ---------------------------------------------------------------- reading */

size_t rp_tree_only_child(const struct rp_tree *tree, size_t node)
{
    size_t child = node + 1;
    if (tree->nodes[node].own || child >= tree->nodes[node].end || tree->nodes[child].end != tree->nodes[node].end)
        return 0;
    return child;
}

void rp_tree_free(struct rp_tree *tree)
{
    free(tree->nodes);
    *tree = (struct rp_tree){0};
}
