/* The left run is called A, the right one B. */
#include "core/tool/diff_report.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "core/compare/pair.h"
#include "core/compare/timeline.h"
#include "core/tool/rows.h"
#include "core/tool/summary.h"
#include "core/tool/tool.h"

#define BEFORE 3 /* ops of the lane shown before a difference */

static const char *class_name(enum rp_diff_class class)
{
    if (class == RP_DIFF_ONLY_LEFT)
        return "only in A";
    return class == RP_DIFF_ONLY_RIGHT ? "only in B" : rp_diff_class_name(class);
}

/* "other size, other data type" */
static char *classes_text(unsigned classes, char *text, size_t size)
{
    text[0] = '\0';
    for (int c = 0; c < RP_DIFF_CLASS_COUNT; c++) {
        size_t used = strlen(text);
        if (classes & RP_DIFF_BIT(c))
            snprintf(text + used, size - used, "%s%s", used > 0 ? ", " : "", class_name((enum rp_diff_class)c));
    }
    return text;
}

/* ---------------------------------------------------------------- where */

/* The side by which a difference is named: A, unless only B has the op. */
static const struct rp_diff_side *named_side(const struct rp_diff_point *point)
{
    return point->left.op != NULL ? &point->left : &point->right;
}

static enum rp_status step_of(const struct rp_diff_side *side, size_t index, size_t *step_out)
{
    struct rp_timeline timeline;
    enum rp_status status = rp_timeline_create(side->trace, &timeline);
    if (status != RP_OK)
        return status;
    *step_out = rp_timeline_step_of(&timeline, index);
    rp_timeline_free(&timeline);
    return RP_OK;
}

/* "rank 0, step 3, communicator 0, position 25" */
static enum rp_status place_text(const struct rp_diff_point *point, char *text, size_t size)
{
    const struct rp_diff_side *side = named_side(point);
    const struct rp_op *op = &side->op->op;
    size_t step;
    enum rp_status status = step_of(side, side->index, &step);
    if (status != RP_OK)
        return status;
    int used = snprintf(text, size, "rank %" PRId32 ", step %zu", point->rank, step + 1);
    if (op->comm != RP_NO_COMM)
        used += snprintf(text + used, size - (size_t)used, ", communicator %" PRIu32, op->comm);
    if (op->position != RP_NO_POSITION)
        snprintf(text + used, size - (size_t)used, ", position %" PRIu64, op->position);
    return RP_OK;
}

/* "layers.1 forward, all-gather 2.0 KiB bfloat16" */
static char *what_text(const struct rp_diff_side *side, char *text, size_t size)
{
    char event[300], op[128];
    snprintf(text, size, "%s, %s", rp_rows_event(side->trace, &side->op->op, event, sizeof(event)),
             rp_op_print(&side->op->op, op, sizeof(op)));
    return text;
}

/* ---------------------------------------------------------------- the neighbourhood */

static bool in_lane(const struct rp_diff_side *side, const struct rp_op *op, const struct rp_op *other)
{
    if (side->op != NULL)
        return rp_pair_same_lane(op, &side->op->op);
    bool beside = op->position == RP_NO_POSITION, other_beside = other->position == RP_NO_POSITION;
    uint32_t comm = side->comm != NULL ? side->comm->number : RP_NO_COMM;
    return rp_pair_compares((enum rp_op_kind)op->kind) && beside == other_beside && op->comm == comm;
}

struct around {
    size_t index[BEFORE + 1]; /* ops of the lane, the place last */
    size_t count;
    bool has_place; /* the last one is at the place, not before it */
};

/* The ops of the lane before the place, and the one at it or, where there is none, the next. */
static struct around find_around(const struct rp_diff_side *side, const struct rp_op *other)
{
    struct around around = {.count = 0};
    size_t before[BEFORE], before_count = 0;
    for (size_t i = side->index; i-- > 0 && before_count < BEFORE;) {
        if (in_lane(side, &side->trace->ops[i].op, other))
            before[before_count++] = i;
    }
    while (before_count > 0)
        around.index[around.count++] = before[--before_count];
    for (size_t i = side->index; i < side->trace->op_count && !around.has_place; i++) {
        if (in_lane(side, &side->trace->ops[i].op, other)) {
            around.index[around.count++] = i;
            around.has_place = true;
        }
    }
    return around;
}

static void measure_around(struct rp_rows *rows, const struct rp_diff_side *side, const struct around *around)
{
    for (size_t i = 0; i < around->count; i++)
        rp_rows_measure(rows, side->trace, &side->trace->ops[around->index[i]]);
}

static void print_around(FILE *out, const struct rp_rows *rows, char name, const struct rp_diff_side *side,
                         const struct rp_diff_side *other, const struct around *around)
{
    bool is_comm_missing = side->comm == NULL && other->comm != NULL;
    for (size_t i = 0; i < around->count; i++) {
        bool at_place = around->has_place && i + 1 == around->count;
        char indent[8];
        snprintf(indent, sizeof(indent), "  %c%c ", name, at_place && side->op != NULL ? '>' : ' ');
        if (at_place && side->op == NULL)
            fprintf(out, "  %c> (no such op here; next:)\n", name);
        rp_rows_print(rows, out, indent, side->trace, &side->trace->ops[around->index[i]]);
    }
    if (!around->has_place)
        fprintf(out, "  %c> (no %s here)\n", name, is_comm_missing ? "such communicator" : "more ops");
}

static bool same_place(const struct rp_diff_point *a, const struct rp_diff_point *b)
{
    return a->found && a->rank == b->rank && a->left.op == b->left.op && a->right.op == b->right.op;
}

static enum rp_status print_point(FILE *out, const char *title, const struct rp_diff_point *point)
{
    char place[128], what[512], classes[200];
    const struct rp_op *op = &named_side(point)->op->op;
    enum rp_status status = place_text(point, place, sizeof(place));
    if (status != RP_OK)
        return status;
    fprintf(out, "\n%s: %s\n  %s: %s\n", title, place, what_text(named_side(point), what, sizeof(what)),
            classes_text(point->classes, classes, sizeof(classes)));
    struct around left = find_around(&point->left, op), right = find_around(&point->right, op);
    struct rp_rows rows = {0};
    measure_around(&rows, &point->left, &left);
    measure_around(&rows, &point->right, &right);
    rp_rows_head(&rows, out, "     ");
    print_around(out, &rows, 'A', &point->left, &point->right, &left);
    print_around(out, &rows, 'B', &point->right, &point->left, &right);
    return RP_OK;
}

/* ---------------------------------------------------------------- the verdict */

/* How far bytes were compared. */
static void print_bytes_compared(FILE *out, const struct rp_diff *diff)
{
    uint64_t more =
        diff->fingerprints_left > diff->fingerprints_right ? diff->fingerprints_left : diff->fingerprints_right;
    const char *who = diff->fingerprints_left == 0 ? "A" : "B";
    if (more == 0)
        fprintf(out, "bytes not comparable: no fingerprints in A and B");
    else if (diff->fingerprints_left == 0 || diff->fingerprints_right == 0)
        fprintf(out, "bytes not comparable: no fingerprints in %s", who);
    else if (diff->fingerprints < more)
        fprintf(out, "bytes compared for %" PRIu64 " of %" PRIu64 " ops with a fingerprint", diff->fingerprints, more);
    else
        fprintf(out, "bytes compared for %" PRIu64 " ops", diff->fingerprints);
    if (diff->fingerprints_sampled > 0)
        fprintf(out, ", %" PRIu64 " of them by samples", diff->fingerprints_sampled);
    if (diff->fingerprints_unlike > 0)
        fprintf(out, "; %" PRIu64 " not comparable: one run hashed all bytes, the other a sample",
                diff->fingerprints_unlike);
}

/* Every fingerprint of one run has met one of the other. */
static bool all_compared(const struct rp_diff *diff)
{
    return diff->fingerprints == diff->fingerprints_left && diff->fingerprints == diff->fingerprints_right;
}

static void print_same(FILE *out, const struct rp_diff *diff)
{
    bool all_bytes = diff->fingerprints > 0 && all_compared(diff) && diff->fingerprints_sampled == 0;
    fprintf(out, "same: %zu rank%s, %" PRIu64 " ops, ", diff->ranks, diff->ranks == 1 ? "" : "s", diff->ops_left);
    if (all_bytes)
        fprintf(out, "also by bytes");
    else
        print_bytes_compared(out, diff);
    fputc('\n', out);
}

/* Run `name` ends; `goes_on` has the first op that it lacks. */
static void print_ends(FILE *out, char name, const struct rp_diff_side *ended, const struct rp_diff_side *goes_on,
                       const char *place)
{
    char what[512];
    if (ended->index == 0) {
        fprintf(out, "different: %c ends before ", name);
    } else {
        struct rp_diff_side last = {.trace = ended->trace, .op = &ended->trace->ops[ended->index - 1]};
        fprintf(out, "different: %c ends after %s; ", name, what_text(&last, what, sizeof(what)));
        fprintf(out, "%c goes on with ", name == 'A' ? 'B' : 'A');
    }
    fprintf(out, "%s (%s)\n", what_text(goes_on, what, sizeof(what)), place);
}

/* The first difference: of structure if there is one, else of bytes, else of launches. */
static const struct rp_diff_point *first_point(const struct rp_diff *diff)
{
    if (diff->structure.found)
        return &diff->structure;
    return diff->bytes.found ? &diff->bytes : &diff->launches;
}

static enum rp_status print_verdict(FILE *out, const struct rp_diff *diff)
{
    char place[128], what[512], classes[200];
    const struct rp_diff_point *point = first_point(diff);
    if (diff->verdict == RP_DIFF_ALIKE) {
        print_same(out, diff);
        return RP_OK;
    }
    if (!point->found) {
        fprintf(out, "different: the runs have different ranks\n");
        return RP_OK;
    }
    enum rp_status status = place_text(point, place, sizeof(place));
    if (status != RP_OK)
        return status;
    if (diff->verdict == RP_DIFF_LEFT_ENDS)
        print_ends(out, 'A', &point->left, &point->right, place);
    else if (diff->verdict == RP_DIFF_RIGHT_ENDS)
        print_ends(out, 'B', &point->right, &point->left, place);
    else
        fprintf(out, "different: %s: %s (%s)\n", what_text(named_side(point), what, sizeof(what)),
                classes_text(point->classes, classes, sizeof(classes)), place);
    return RP_OK;
}

/* ---------------------------------------------------------------- the rest */

static bool is_whole(const struct rp_trace *trace)
{
    return trace->complete && trace->lost_ops == 0 && trace->lost_launches == 0 && trace->lost_fingerprints == 0;
}

/* What is known to be missing in the traces. */
static void print_gaps(FILE *out, char name, const struct rp_trace_run *run)
{
    char state[200];
    for (size_t i = 0; i < run->count; i++) {
        if (!is_whole(run->ranks[i]))
            fprintf(out, "%c, rank %" PRId32 ": %s\n", name, run->ranks[i]->identity.rank,
                    rp_summary_state(run->ranks[i], state, sizeof(state)));
    }
}

static void print_ranks_alone(FILE *out, const struct rp_diff *diff)
{
    if (diff->ranks_only_left > 0)
        fprintf(out, "%zu rank%s only in A\n", diff->ranks_only_left, diff->ranks_only_left == 1 ? "" : "s");
    if (diff->ranks_only_right > 0)
        fprintf(out, "%zu rank%s only in B\n", diff->ranks_only_right, diff->ranks_only_right == 1 ? "" : "s");
}

static void print_counts(FILE *out, const struct rp_diff *diff)
{
    fprintf(out, "\n%10s  compared over %zu rank%s (A has %" PRIu64 ", B has %" PRIu64 ")\n", "ops", diff->ranks,
            diff->ranks == 1 ? "" : "s", diff->ops_left, diff->ops_right);
    for (int c = 0; c < RP_DIFF_CLASS_COUNT; c++)
        fprintf(out, "%10" PRIu64 "  %s\n", diff->counts[c], class_name((enum rp_diff_class)c));
    print_bytes_compared(out, diff);
    fputc('\n', out);
}

enum rp_status rp_diff_report(FILE *out, const struct rp_diff *diff, const struct rp_trace_run *left,
                              const struct rp_trace_run *right, struct rp_diff_paths paths)
{
    enum rp_status status = print_verdict(out, diff);
    fprintf(out, "A: %s\nB: %s\n", paths.left, paths.right);
    print_gaps(out, 'A', left);
    print_gaps(out, 'B', right);
    if (diff->verdict == RP_DIFF_ALIKE)
        return status;
    print_ranks_alone(out, diff);
    if (status == RP_OK && diff->structure.found)
        status = print_point(out, "first difference", &diff->structure);
    if (status == RP_OK && diff->bytes.found && !same_place(&diff->structure, &diff->bytes))
        status = print_point(out,
                             all_compared(diff) ? "first difference of bytes"
                                                : "first difference of bytes among the ops that can be compared",
                             &diff->bytes);
    if (status == RP_OK && diff->launches.found && !same_place(&diff->structure, &diff->launches))
        status = print_point(out, "first difference of kernel launches", &diff->launches);
    print_counts(out, diff);
    return status;
}
