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

static const char *launches_event_text(const struct rp_diff *diff, const struct rp_diff_point *point, char *text,
                                       size_t size)
{
    struct rp_event event = point->launches.event;
    return event_text(diff, &(struct rp_op){.module = event.module, .phase = (uint8_t)event.phase}, text, size);
}

/* Whether the launches that differ belong to another event than the op before them. */
static bool launches_are_elsewhere(const struct rp_diff_point *point)
{
    const struct rp_op *op = &rp_diff_named_side(point)->op;
    return !rp_event_is_same(point->launches.event, (struct rp_event){op->module, (enum rp_phase)op->phase});
}

/* "layers.3 backward, launches behind all-gather 2.0 KiB bfloat16 of layers.2 backward" */
static char *launches_what(const struct rp_diff *diff, const struct rp_diff_point *point, char *text, size_t size)
{
    char event[300], call[128];
    const struct rp_op *op = &rp_diff_named_side(point)->op;
    snprintf(text, size, "%s, launches behind %s", launches_event_text(diff, point, event, sizeof(event)),
             rp_op_print(op, call, sizeof(call)));
    if (launches_are_elsewhere(point))
        rp_tool_append(text, size, " of %s", event_text(diff, op, event, sizeof(event)));
    return text;
}

char *rp_diff_what(const struct rp_diff *diff, const struct rp_op *op, char *text, size_t size)
{
    char event[300], call[128];
    snprintf(text, size, "%s, %s", event_text(diff, op, event, sizeof(event)), rp_op_print(op, call, sizeof(call)));
    return text;
}

char *rp_diff_where(const struct rp_diff *diff, const struct rp_diff_point *point, char *text, size_t size)
{
    char what[800];
    bool launches_alone = point->classes == RP_DIFF_BIT(RP_DIFF_LAUNCHES);
    const struct rp_diff_side *side = rp_diff_named_side(point);
    bool both = point->left.present && point->right.present;
    snprintf(text, size, "step %zu", side->step + 1);
    if (both && point->left.step != point->right.step)
        rp_tool_append(text, size, " (B: %zu)", point->right.step + 1);
    if (launches_alone)
        launches_what(diff, point, what, sizeof(what));
    else
        rp_diff_what(diff, &side->op, what, sizeof(what));
    rp_tool_append(text, size, ", %s, rank %" PRId32, what, point->rank);
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

/* "other kernel launches of layers.3 backward, 7 in A, 8 in B" */
static void append_launches(const struct rp_diff *diff, const struct rp_diff_point *point, char *text, size_t size)
{
    char event[300];
    if (point->classes != RP_DIFF_BIT(RP_DIFF_LAUNCHES) && launches_are_elsewhere(point))
        rp_tool_append(text, size, " of %s", launches_event_text(diff, point, event, sizeof(event)));
    if (point->launches.left != point->launches.right)
        rp_tool_append(text, size, ", %" PRIu64 " in A, %" PRIu64 " in B", point->launches.left, point->launches.right);
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
        if (c == RP_DIFF_LAUNCHES)
            append_launches(diff, point, text, size);
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
