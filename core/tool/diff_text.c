#include "core/tool/diff_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/tool/rows.h"
#include "core/tool/tool.h"

const struct rp_diff_side *rp_diff_named_side(const struct rp_diff_point *point)
{
    return point->left.present ? &point->left : &point->right;
}

const char *rp_diff_class_text(enum rp_diff_class class)
{
    if (class == RP_DIFF_ONLY_LEFT)
        return "only in A";
    return class == RP_DIFF_ONLY_RIGHT ? "only in B" : rp_diff_class_name(class);
}

static const char *event_text(const struct rp_diff *diff, const struct rp_op *op, char *text, size_t size)
{
    const struct rp_trace names = {.modules = diff->modules}; /* all that is looked at */
    return rp_rows_event(&names, op, text, size);
}

char *rp_diff_what(const struct rp_diff *diff, const struct rp_op *op, char *text, size_t size)
{
    char event[300], call[128];
    snprintf(text, size, "%s, %s", event_text(diff, op, event, sizeof(event)), rp_op_print(op, call, sizeof(call)));
    return text;
}

char *rp_diff_where(const struct rp_diff *diff, const struct rp_diff_point *point, char *text, size_t size)
{
    char what[512];
    const struct rp_diff_side *side = rp_diff_named_side(point);
    bool both = point->left.present && point->right.present;
    snprintf(text, size, "step %zu", side->step + 1);
    if (both && point->left.step != point->right.step)
        rp_tool_append(text, size, " (B: %zu)", point->right.step + 1);
    rp_tool_append(text, size, ", %s, rank %" PRId32, rp_diff_what(diff, &side->op, what, sizeof(what)), point->rank);
    return text;
}

char *rp_diff_place_text(const struct rp_diff_point *point, char *text, size_t size)
{
    const struct rp_op *op = &rp_diff_named_side(point)->op;
    text[0] = '\0';
    if (op->comm != RP_NO_COMM)
        rp_tool_append(text, size, "communicator %" PRIu32, op->comm);
    if (op->position != RP_NO_POSITION)
        rp_tool_append(text, size, ", position %" PRIu64, op->position);
    if ((point->classes & RP_DIFF_BIT(RP_DIFF_MOVED)) && op->position != RP_NO_POSITION)
        rp_tool_append(text, size, ", in B %" PRIu64, point->right.op.position);
    return text;
}

/* "other size, other module or phase: layers.1 recompute" */
static void append_classes(const struct rp_diff *diff, const struct rp_diff_point *point, char *text, size_t size)
{
    char event[300];
    const char *separator = ": ";
    for (int c = 0; c < RP_DIFF_CLASS_COUNT; c++) {
        if ((point->classes & RP_DIFF_BIT(c)) == 0)
            continue;
        rp_tool_append(text, size, "%s%s", separator, rp_diff_class_text((enum rp_diff_class)c));
        separator = ", ";
        if (c == RP_DIFF_RENAMED)
            rp_tool_append(text, size, ", in B %s", event_text(diff, &point->right.op, event, sizeof(event)));
    }
}

char *rp_diff_point_text(const struct rp_diff *diff, const struct rp_diff_point *point, char *text, size_t size)
{
    char place[100];
    rp_diff_where(diff, point, text, size);
    append_classes(diff, point, text, size);
    rp_diff_place_text(point, place, sizeof(place));
    if (place[0] != '\0')
        rp_tool_append(text, size, " (%s)", place);
    return text;
}
