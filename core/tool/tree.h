/*
 * What happened in a step, as a tree in the order in which it happened: phases, in them the parts of modules' paths.
 *
 *     step          node 0
 *       forward     node 1    depth 1: a phase, as long as it lasts without another one between
 *         layers    node 2    depth 2 and more: "layers.0" is part "0" of part "layers"
 *           0       node 3
 *           1       node 4
 *       backward    node 5
 *
 * Nothing is sorted or put together but what is next to each other: a module that comes twice has two nodes. A node's
 * figures are the sums of its own and of those below it.
 *
 * Phases that repeat in a row with the same modules, ops and bytes in them, as microbatches do, are folded: the figures
 * of the later ones are added to the first ones', and the later ones are hidden.
 *
 * Threads: one at a time.
 */
#ifndef RP_TOOL_TREE_H
#define RP_TOOL_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/status.h"

#define RP_TREE_DEPTH 34 /* a path of more parts has the rest of its text in the last one */

struct rp_tree_figures {
    uint64_t ops, bytes, launches, ticks;
};

void rp_tree_figures_add(struct rp_tree_figures *figures, const struct rp_tree_figures *more);

struct rp_tree_node {
    const char *label; /* `length` bytes, not terminated; of the root NULL */
    size_t length;
    size_t depth;
    size_t end; /* one past its last descendant: in a tree in pre-order its next sibling, if it has one */
    struct rp_tree_figures figures;
    bool own;       /* something happened in it, not only below it */
    bool hidden;    /* folded, with all below it */
    uint64_t shape; /* after rp_tree_fold(): alike in all below it but launches and times */
    size_t group;   /* > 0: with the next group - 1 siblings it stands `times` times in a row */
    size_t times;
};

/* Zero-initialised; nodes in pre-order, the step first. Labels are the caller's and must outlive it. */
struct rp_tree {
    struct rp_tree_node *nodes;
    size_t count, room;
    size_t open[RP_TREE_DEPTH]; /* the node that something was added to last, with those above it */
    size_t open_count;
};

/* Empties it. RP_NO_MEMORY. */
enum rp_status rp_tree_begin(struct rp_tree *tree);

/* Adds what happened next. `module` NULL: it happened in none. RP_NO_MEMORY. */
enum rp_status rp_tree_add(struct rp_tree *tree, const char *phase, const char *module,
                           const struct rp_tree_figures *figures);

/* Folds what repeats: when all has been added. */
void rp_tree_fold(struct rp_tree *tree);

/* Both folded: if they are alike, adds the figures of `from` to those of `into`; else returns false. */
bool rp_tree_merge(struct rp_tree *into, const struct rp_tree *from);

/* The only child of a node in which nothing happened by itself, or 0. */
size_t rp_tree_only_child(const struct rp_tree *tree, size_t node);

void rp_tree_free(struct rp_tree *tree);

#endif
