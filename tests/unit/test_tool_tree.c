/* What happened as a tree: what is next to each other is put together, and only what repeats alike is folded. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/tool/tree.h"

static void begin(struct rp_tree *tree)
{
    assert_int_equal(rp_tree_begin(tree), RP_OK);
}

static void add(struct rp_tree *tree, const char *phase, const char *module, uint64_t bytes)
{
    const struct rp_tree_figures figures = {.ops = 1, .bytes = bytes, .launches = 2, .ticks = 10};
    assert_int_equal(rp_tree_add(tree, phase, module, &figures), RP_OK);
}

/* "forward:3(layers:3(0:1 1:2))": of every node that is not hidden the label and the ops. */
static void write_node(const struct rp_tree *tree, size_t node, char *text)
{
    const struct rp_tree_node *at = &tree->nodes[node];
    const char *space = "";
    if (at->group > 0)
        sprintf(text + strlen(text), "%zux%zu ", at->times, at->group);
    sprintf(text + strlen(text), "%.*s:%d", (int)at->length, at->label != NULL ? at->label : "", (int)at->figures.ops);
    if (node + 1 == at->end)
        return;
    strcat(text, "(");
    for (size_t child = node + 1; child < at->end; child = tree->nodes[child].end) {
        assert_int_equal(tree->nodes[child].depth, at->depth + 1);
        if (tree->nodes[child].hidden)
            continue;
        strcat(text, space);
        write_node(tree, child, text);
        space = " ";
    }
    strcat(text, ")");
}

static void is(const struct rp_tree *tree, const char *expected)
{
    char text[4000] = "";
    assert_int_equal(tree->nodes[0].end, tree->count);
    write_node(tree, 0, text);
    assert_string_equal(text, expected);
}

static void test_only_neighbours_share_a_node(void **state)
{
    (void)state;
    struct rp_tree tree = {0};
    begin(&tree);
    add(&tree, "forward", "layers.0", 1);
    add(&tree, "forward", "layers.0", 1);
    add(&tree, "forward", "layers.1.mlp", 1);
    add(&tree, "forward", "head", 1);
    add(&tree, "forward", "layers.1.mlp", 1);
    add(&tree, "forward", "layers", 1); /* closes what is below it */
    add(&tree, "forward", "layers.1", 1);
    add(&tree, "backward", NULL, 1);
    add(&tree, "forward", "layers.1", 1);
    rp_tree_fold(&tree);
    is(&tree, ":9(forward:7(layers:3(0:2 1:1(mlp:1)) head:1 layers:3(1:1(mlp:1) 1:1)) backward:1 "
              "forward:1(layers:1(1:1)))");
    assert_int_equal(tree.nodes[0].figures.launches, 18);
    assert_int_equal(tree.nodes[0].figures.ticks, 90);
    rp_tree_free(&tree);
}

static void test_names_that_are_no_paths(void **state)
{
    (void)state;
    struct rp_tree tree = {0};
    char deep[200] = "p";
    begin(&tree);
    add(&tree, "-", "", 1);
    add(&tree, "-", ".", 1);
    add(&tree, "-", "a..b", 1);
    add(&tree, "-", "a.", 1);
    for (int i = 0; i < 60; i++)
        strcat(deep, ".p");
    add(&tree, "other", deep, 1);
    assert_int_equal(tree.nodes[tree.count - 1].depth, RP_TREE_DEPTH - 1);
    assert_int_equal(tree.nodes[tree.count - 1].length, strlen(deep) - 2 * (RP_TREE_DEPTH - 3));
    tree.count -= RP_TREE_DEPTH - 1;
    tree.nodes[0].end = tree.count;
    is(&tree, ":5(-:4(.:1 a:1(.b:1) a.:1))");
    rp_tree_free(&tree);
}

static void add_microbatch(struct rp_tree *tree, uint64_t bytes)
{
    add(tree, "forward", "a", bytes);
    add(tree, "forward", "b", 1);
    add(tree, "backward", "b", 1);
}

static void test_what_repeats_alike_is_folded(void **state)
{
    (void)state;
    struct rp_tree tree = {0};
    begin(&tree);
    add_microbatch(&tree, 7);
    add_microbatch(&tree, 1);
    add_microbatch(&tree, 1);
    add_microbatch(&tree, 1);
    add(&tree, "optimizer", NULL, 1);
    rp_tree_fold(&tree);
    is(&tree, ":13(forward:2(a:1 b:1) backward:1(b:1) 3x2 forward:6(a:3 b:3) backward:3(b:3) optimizer:1)");
    begin(&tree); /* and a forward that has no backward is not part of it */
    add_microbatch(&tree, 1);
    add_microbatch(&tree, 1);
    add(&tree, "forward", "a", 1);
    add(&tree, "forward", "b", 1);
    rp_tree_fold(&tree);
    is(&tree, ":8(2x2 forward:4(a:2 b:2) backward:2(b:2) forward:2(a:1 b:1))");
    rp_tree_free(&tree);
}

static void test_another_count_or_path_is_not_alike(void **state)
{
    (void)state;
    struct rp_tree tree = {0};
    begin(&tree);
    add(&tree, "forward", "a", 1);
    add(&tree, "backward", NULL, 1);
    add(&tree, "forward", "a", 1);
    add(&tree, "forward", "a", 1);
    add(&tree, "backward", NULL, 1);
    add(&tree, "forward", "ab", 2);
    add(&tree, "backward", NULL, 1);
    add(&tree, "forward", "a.b", 2);
    add(&tree, "backward", NULL, 1);
    rp_tree_fold(&tree);
    is(&tree, ":9(forward:1(a:1) backward:1 forward:2(a:2) backward:1 forward:1(ab:1) backward:1 "
              "forward:1(a:1(b:1)) backward:1)");
    rp_tree_free(&tree);
}

static void test_trees_that_are_alike_are_merged(void **state)
{
    (void)state;
    struct rp_tree tree = {0}, alike = {0}, other = {0};
    begin(&tree);
    begin(&alike);
    begin(&other);
    for (int i = 0; i < 2; i++) {
        add_microbatch(&tree, 1);
        add_microbatch(&alike, 1);
        add_microbatch(&other, 2);
    }
    rp_tree_fold(&tree);
    rp_tree_fold(&alike);
    rp_tree_fold(&other);
    assert_true(rp_tree_merge(&tree, &alike));
    is(&tree, ":12(2x2 forward:8(a:4 b:4) backward:4(b:4))");
    assert_false(rp_tree_merge(&tree, &other));
    is(&tree, ":12(2x2 forward:8(a:4 b:4) backward:4(b:4))");
    rp_tree_free(&tree);
    rp_tree_free(&alike);
    rp_tree_free(&other);
}

static void test_only_children(void **state)
{
    (void)state;
    struct rp_tree tree = {0};
    begin(&tree);
    add(&tree, "forward", "a.b", 1);
    assert_int_equal(rp_tree_only_child(&tree, 2), 3);
    assert_int_equal(rp_tree_only_child(&tree, 3), 0);
    add(&tree, "forward", "a.c", 1);
    assert_int_equal(rp_tree_only_child(&tree, 2), 0);
    begin(&tree);
    add(&tree, "forward", "a", 1);
    add(&tree, "forward", "a.b", 1);
    assert_int_equal(rp_tree_only_child(&tree, 2), 0);
    rp_tree_free(&tree);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_only_neighbours_share_a_node),
        cmocka_unit_test(test_names_that_are_no_paths),
        cmocka_unit_test(test_what_repeats_alike_is_folded),
        cmocka_unit_test(test_another_count_or_path_is_not_alike),
        cmocka_unit_test(test_trees_that_are_alike_are_merged),
        cmocka_unit_test(test_only_children),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
