#include "core/tool/diff_around.h"

#include <stdbool.h>

#include "core/compare/pair.h"
#include "core/tool/diff_text.h"
#include "core/tool/rows.h"

#define BEFORE 3 /* ops of the lane shown before a difference */

struct around {
    const struct rp_packed *packed;
    const struct rp_diff_side *side;
    size_t index[BEFORE + 1]; /* ops of the lane, the place last */
    size_t count;
    bool has_place; /* the last one is at the place, not before it */
};

/* `named` is the op of the difference, on the side that has it. */
static bool in_lane(const struct rp_diff_side *side, const struct rp_op *op, const struct rp_op *named)
{
    if (side->present)
        return rp_pair_same_lane(op, &side->op);
    bool beside = op->position == RP_NO_POSITION, named_beside = named->position == RP_NO_POSITION;
    return rp_pair_compares((enum rp_op_kind)op->kind) && beside == named_beside && op->comm == side->comm;
}

/* The ops of the lane before the place, and the one at it or, where there is none, the next. */
static struct around find_around(const struct rp_packed *packed, const struct rp_diff_side *side,
                                 const struct rp_op *named)
{
    struct around around = {.packed = packed, .side = side};
    size_t before[BEFORE], before_count = 0;
    /* the file was read again, and may have become a shorter one */
    for (size_t i = side->index < packed->op_count ? side->index : packed->op_count;
         i-- > 0 && before_count < BEFORE;) {
        if (in_lane(side, rp_packed_call_op(packed, i), named))
            before[before_count++] = i;
    }
    while (before_count > 0)
        around.index[around.count++] = before[--before_count];
    for (size_t i = side->index; i < packed->op_count && !around.has_place; i++) {
        if (in_lane(side, rp_packed_call_op(packed, i), named)) {
            around.index[around.count++] = i;
            around.has_place = true;
        }
    }
    return around;
}

static void measure_around(struct rp_rows *rows, const struct around *around)
{
    for (size_t i = 0; i < around->count; i++) {
        struct rp_trace_op op = rp_packed_op(around->packed, around->index[i]);
        rp_rows_measure(rows, around->packed->trace, &op);
    }
}

static void print_around(FILE *out, const struct rp_rows *rows, char name, const struct around *around,
                         const struct rp_diff_side *other)
{
    bool is_comm_missing = around->side->comm == RP_NO_COMM && other->comm != RP_NO_COMM;
    for (size_t i = 0; i < around->count; i++) {
        bool at_place = around->has_place && i + 1 == around->count;
        char indent[8];
        snprintf(indent, sizeof(indent), "  %c%c ", name, at_place && around->side->present ? '>' : ' ');
        if (at_place && !around->side->present)
            fprintf(out, "  %c> (no such op here; next:)\n", name);
        struct rp_trace_op op = rp_packed_op(around->packed, around->index[i]);
        rp_rows_print(rows, out, indent, around->packed->trace, &op);
    }
    if (!around->has_place)
        fprintf(out, "  %c> (no %s here)\n", name, is_comm_missing ? "such communicator" : "more ops");
}

void rp_diff_around_print(FILE *out, const struct rp_diff_point *point, const struct rp_packed *left_ops,
                          const struct rp_packed *right_ops)
{
    const struct rp_op *named = &rp_diff_named_side(point)->op;
    struct around left = find_around(left_ops, &point->left, named);
    struct around right = find_around(right_ops, &point->right, named);
    struct rp_rows rows = {0};
    measure_around(&rows, &left);
    measure_around(&rows, &right);
    rp_rows_head(&rows, out, "     ");
    print_around(out, &rows, 'A', &left, &point->right);
    print_around(out, &rows, 'B', &right, &point->left);
}
