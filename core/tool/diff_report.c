#include "core/tool/diff_report.h"

#include <inttypes.h>

#include "core/tool/diff_around.h"
#include "core/tool/diff_text.h"
#include "core/tool/diff_totals_view.h"

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

/* "undecided: rank 1 of B cannot be read; the others are " */
static void print_unread(FILE *out, const struct rp_diff_input inputs[2])
{
    size_t count = rp_diff_inputs_unread(inputs);
    const struct rp_diff_input *input = &inputs[rp_diff_input_unread(&inputs[0]) == 0];
    const struct rp_diff_gap *gap = input->gaps;
    while (!gap->unread)
        gap++;
    fprintf(out, "undecided: rank %" PRId32 " of %c", gap->rank, input->name);
    if (count > 1)
        fprintf(out, " and %zu more", count - 1);
    fprintf(out, " cannot be read; the others are ");
}

static void print_same(FILE *out, const struct rp_diff *diff, const struct rp_diff_input inputs[2])
{
    char retimed[400];
    bool all_bytes = diff->fingerprints > 0 && all_compared(diff) && diff->fingerprints_sampled == 0;
    bool unread = rp_diff_inputs_unread(inputs) > 0;
    if (unread)
        print_unread(out, inputs);
    fprintf(out, "%s%s: %zu rank%s, %" PRIu64 " ops, ", unread || rp_diff_is_retimed(diff) ? "the same" : "same",
            rp_diff_is_retimed(diff) ? ", but retimed" : "", diff->ranks, diff->ranks == 1 ? "" : "s", diff->ops_left);
    if (all_bytes)
        fprintf(out, "also by bytes");
    else
        print_bytes_compared(out, diff);
    if (rp_diff_is_retimed(diff))
        fprintf(out, "; %s", rp_diff_retimed_text(diff, retimed, sizeof(retimed)));
    fputc('\n', out);
}

/* Run `name` ends; `goes_on` has the first op that it lacks. */
static void print_ends(FILE *out, const struct rp_diff *diff, char name, const struct rp_diff_side *ended,
                       const struct rp_diff_point *point)
{
    char what[512], where[RP_DIFF_TEXT_MAX], place[100];
    rp_diff_where(diff, point, where, sizeof(where));
    rp_diff_place_text(point, place, sizeof(place));
    if (ended->op.kind == RP_OP_NONE)
        fprintf(out, "different: %c ends before %s (%s)\n", name, where, place);
    else
        fprintf(out, "different: %c ends after %s; %c goes on with %s (%s)\n", name,
                rp_diff_what(diff, &ended->op, what, sizeof(what)), name == 'A' ? 'B' : 'A', where, place);
}

static void print_verdict(FILE *out, const struct rp_diff *diff, const struct rp_diff_input inputs[2])
{
    char text[RP_DIFF_TEXT_MAX];
    const struct rp_diff_point *point = rp_diff_first(diff);
    if (diff->verdict == RP_DIFF_ALIKE)
        print_same(out, diff, inputs);
    else if (!point->found)
        fprintf(out, "different: the runs have different ranks\n");
    else if (diff->verdict == RP_DIFF_LEFT_ENDS)
        print_ends(out, diff, 'A', &point->left, point);
    else if (diff->verdict == RP_DIFF_RIGHT_ENDS)
        print_ends(out, diff, 'B', &point->right, point);
    else
        fprintf(out, "different: %s\n", rp_diff_point_text(diff, point, text, sizeof(text)));
}

/* ---------------------------------------------------------------- what is missing */

static void print_gaps(FILE *out, const struct rp_diff_input *input)
{
    for (size_t i = 0; i < input->gap_count; i++)
        fprintf(out, "%c, rank %" PRId32 ": %s\n", input->name, input->gaps[i].rank, input->gaps[i].state);
}

static void print_ranks_alone(FILE *out, const struct rp_diff *diff)
{
    if (diff->ranks_only_left > 0)
        fprintf(out, "%zu rank%s only in A\n", diff->ranks_only_left, diff->ranks_only_left == 1 ? "" : "s");
    if (diff->ranks_only_right > 0)
        fprintf(out, "%zu rank%s only in B\n", diff->ranks_only_right, diff->ranks_only_right == 1 ? "" : "s");
}

/* ---------------------------------------------------------------- the differences */

struct report {
    FILE *out;
    const struct rp_diff *diff;
    struct rp_diff_input *inputs; /* of A and B */
};

static enum rp_status print_point(const struct report *report, const char *title, const struct rp_diff_point *point)
{
    char text[RP_DIFF_TEXT_MAX];
    enum rp_status status[2];
    rp_diff_inputs_load(report->inputs, point->rank, status);
    if (status[0] != RP_OK || status[1] != RP_OK)
        return status[0] != RP_OK ? status[0] : status[1];
    fprintf(report->out, "\n%s\n  %s\n", title, rp_diff_point_text(report->diff, point, text, sizeof(text)));
    rp_diff_around_print(report->out, point, &report->inputs[0].packed, &report->inputs[1].packed);
    return RP_OK;
}

static bool same_place(const struct rp_diff_point *a, const struct rp_diff_point *b)
{
    return a->found && a->rank == b->rank && a->left.present == b->left.present &&
           a->right.present == b->right.present && a->left.index == b->left.index && a->right.index == b->right.index;
}

static enum rp_status print_points(const struct report *report)
{
    const struct rp_diff *diff = report->diff;
    enum rp_status status = RP_OK;
    if (diff->structure.found)
        status = print_point(report, "first difference", &diff->structure);
    if (status == RP_OK && diff->bytes.found && !same_place(&diff->structure, &diff->bytes))
        status = print_point(report,
                             all_compared(diff) ? "first difference of bytes"
                                                : "first difference of bytes among the ops that can be compared",
                             &diff->bytes);
    if (status == RP_OK && diff->launches.found && !same_place(&diff->structure, &diff->launches))
        status = print_point(report, "first difference of kernel launches", &diff->launches);
    return status;
}

static void print_list(FILE *out, const struct rp_diff *diff)
{
    char text[RP_DIFF_TEXT_MAX];
    if (diff->places < 2 || diff->point_count == 0)
        return;
    fprintf(out, "\ndifferences, the first %zu of %" PRIu64 "\n", diff->point_count, diff->places);
    for (size_t i = 0; i < diff->point_count; i++)
        fprintf(out, "  %s\n", rp_diff_point_text(diff, &diff->points[i], text, sizeof(text)));
}

static void print_counts(FILE *out, const struct rp_diff *diff)
{
    fprintf(out, "\n%10s  compared over %zu rank%s (A has %" PRIu64 ", B has %" PRIu64 ")\n", "ops", diff->ranks,
            diff->ranks == 1 ? "" : "s", diff->ops_left, diff->ops_right);
    for (int c = 0; c < RP_DIFF_CLASS_COUNT; c++)
        fprintf(out, "%10" PRIu64 "  %s%s\n", diff->counts[c], rp_diff_class_text((enum rp_diff_class)c),
                c == RP_DIFF_RETIMED ? " (modules and phases)" : "");
    print_bytes_compared(out, diff);
    fputc('\n', out);
}

enum rp_status rp_diff_report(FILE *out, const struct rp_diff *diff, struct rp_diff_input inputs[2], bool all)
{
    enum rp_status status = RP_OK;
    print_verdict(out, diff, inputs);
    fprintf(out, "A: %s\nB: %s\n", inputs[0].path, inputs[1].path);
    print_gaps(out, &inputs[0]);
    print_gaps(out, &inputs[1]);
    if (diff->verdict != RP_DIFF_ALIKE) {
        print_ranks_alone(out, diff);
        status = print_points(&(struct report){out, diff, inputs});
        print_list(out, diff);
        print_counts(out, diff);
    }
    rp_diff_totals_print(out, diff, all ? SIZE_MAX : diff->options.top, all);
    return status;
}
