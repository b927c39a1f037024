#include "core/tool/diff_json.h"

#include "core/tool/diff_text.h"
#include "core/tool/diff_totals_view.h"
#include "core/tool/json.h"

#define FORMAT 1 /* grows when a member changes its meaning or goes; new members do not change it */

static const char *verdict_name(const struct rp_diff *diff, bool unread)
{
    switch (diff->verdict) {
    case RP_DIFF_ALIKE:
        if (unread)
            return "undecided";
        return rp_diff_is_retimed(diff) ? "retimed" : "same";
    case RP_DIFF_LEFT_ENDS:
        return "a_ends";
    case RP_DIFF_RIGHT_ENDS:
        return "b_ends";
    default:
        return "different";
    }
}

static void put_run(struct rp_json *json, const char *key, const struct rp_diff_input *input)
{
    rp_json_object(json, key);
    rp_json_text(json, "path", input->path);
    rp_json_array(json, "incomplete");
    for (size_t i = 0; i < input->gap_count; i++) {
        rp_json_object(json, NULL);
        rp_json_number(json, "rank", input->gaps[i].rank);
        rp_json_text(json, "state", input->gaps[i].state);
        rp_json_end_object(json);
    }
    rp_json_end_array(json);
    rp_json_end_object(json);
}

static void put_both(struct rp_json *json, const char *key, uint64_t left, uint64_t right)
{
    rp_json_object(json, key);
    rp_json_number(json, "a", (int64_t)left);
    rp_json_number(json, "b", (int64_t)right);
    rp_json_end_object(json);
}

static void put_counts(struct rp_json *json, const struct rp_diff *diff, const struct rp_diff_input inputs[2])
{
    rp_json_object(json, "ranks");
    rp_json_number(json, "compared", (int64_t)diff->ranks);
    rp_json_number(json, "only_a", (int64_t)diff->ranks_only_left);
    rp_json_number(json, "only_b", (int64_t)diff->ranks_only_right);
    rp_json_number(json, "unreadable_a", (int64_t)rp_diff_input_unread(&inputs[0]));
    rp_json_number(json, "unreadable_b", (int64_t)rp_diff_input_unread(&inputs[1]));
    rp_json_end_object(json);
    put_both(json, "ops", diff->ops_left, diff->ops_right);
    rp_json_object(json, "classes");
    for (int c = 0; c < RP_DIFF_CLASS_COUNT; c++)
        rp_json_number(json, rp_diff_class_key((enum rp_diff_class)c), (int64_t)diff->counts[c]);
    rp_json_end_object(json);
    rp_json_object(json, "fingerprints");
    rp_json_number(json, "compared", (int64_t)diff->fingerprints);
    rp_json_number(json, "of_samples", (int64_t)diff->fingerprints_sampled);
    rp_json_number(json, "not_comparable", (int64_t)diff->fingerprints_unlike);
    rp_json_number(json, "a", (int64_t)diff->fingerprints_left);
    rp_json_number(json, "b", (int64_t)diff->fingerprints_right);
    rp_json_end_object(json);
}

/* ---------------------------------------------------------------- differences */

static void put_side(struct rp_json *json, const char *key, const struct rp_diff *diff, const struct rp_diff_side *side)
{
    const struct rp_op *op = &side->op;
    if (!side->present) {
        rp_json_null(json, key);
        return;
    }
    rp_json_object(json, key);
    rp_json_number(json, "step", (int64_t)side->step + 1);
    rp_json_number(json, "op", (int64_t)side->index);
    rp_json_text(json, "module", rp_module_name(diff->modules, op->module));
    rp_json_text(json, "phase", rp_phase_name((enum rp_phase)op->phase));
    rp_json_text(json, "kind", rp_op_kind_name((enum rp_op_kind)op->kind));
    rp_json_number(json, "bytes", (int64_t)rp_op_bytes(op));
    rp_json_text(json, "dtype", rp_dtype_name((enum rp_dtype)op->dtype));
    rp_json_text(json, "reduction", rp_redop_name((enum rp_redop)op->redop));
    if (op->root >= 0)
        rp_json_number(json, "root", op->root);
    if (op->comm != RP_NO_COMM)
        rp_json_number(json, "communicator", op->comm);
    if (op->position != RP_NO_POSITION)
        rp_json_number(json, "position", (int64_t)op->position);
    rp_json_end_object(json);
}

static void put_launches(struct rp_json *json, const struct rp_diff *diff, const struct rp_diff_point *point)
{
    if ((point->classes & RP_DIFF_BIT(RP_DIFF_LAUNCHES)) == 0)
        return;
    rp_json_object(json, "launches");
    rp_json_text(json, "module", rp_module_name(diff->modules, point->launches.event.module));
    rp_json_text(json, "phase", rp_phase_name(point->launches.event.phase));
    rp_json_number(json, "a", (int64_t)point->launches.left);
    rp_json_number(json, "b", (int64_t)point->launches.right);
    rp_json_end_object(json);
}

static void put_point(struct rp_json *json, const char *key, const struct rp_diff *diff,
                      const struct rp_diff_point *point)
{
    char text[RP_DIFF_TEXT_MAX];
    if (!point->found) {
        rp_json_null(json, key);
        return;
    }
    rp_json_object(json, key);
    rp_json_text(json, "text", rp_diff_point_text(diff, point, text, sizeof(text)));
    rp_json_number(json, "rank", point->rank);
    rp_json_array(json, "classes");
    for (int c = 0; c < RP_DIFF_CLASS_COUNT; c++) {
        if (point->classes & RP_DIFF_BIT(c))
            rp_json_text(json, NULL, rp_diff_class_key((enum rp_diff_class)c));
    }
    rp_json_end_array(json);
    put_side(json, "a", diff, &point->left);
    put_side(json, "b", diff, &point->right);
    put_launches(json, diff, point);
    rp_json_end_object(json);
}

static void put_points(struct rp_json *json, const struct rp_diff *diff)
{
    put_point(json, "first", diff, rp_diff_first(diff));
    put_point(json, "first_structure", diff, &diff->structure);
    put_point(json, "first_bytes", diff, &diff->bytes);
    put_point(json, "first_launches", diff, &diff->launches);
    rp_json_number(json, "places", (int64_t)diff->places);
    rp_json_array(json, "differences");
    for (size_t i = 0; i < diff->point_count; i++)
        put_point(json, NULL, diff, &diff->points[i]);
    rp_json_end_array(json);
}

/* ---------------------------------------------------------------- totals */

static void put_time(struct rp_json *json, const char *key, const struct rp_diff_time *time)
{
    if (time->samples == 0) {
        rp_json_null(json, key);
        return;
    }
    rp_json_object(json, key);
    rp_json_number(json, "steps", (int64_t)time->samples);
    rp_json_real(json, "median", time->median);
    rp_json_real(json, "low", time->low);
    rp_json_real(json, "high", time->high);
    rp_json_end_object(json);
}

static void put_times(struct rp_json *json, const struct rp_diff_time time[2], bool retimed)
{
    rp_json_object(json, "host_ns");
    put_time(json, "a", &time[RP_DIFF_A]);
    put_time(json, "b", &time[RP_DIFF_B]);
    rp_json_end_object(json);
    rp_json_flag(json, "retimed", retimed);
}

static void put_totals(struct rp_json *json, const struct rp_diff *diff)
{
    const struct rp_diff_totals *totals = diff->totals;
    rp_json_object(json, "step");
    put_times(json, totals->step, totals->step_retimed);
    rp_json_end_object(json);
    rp_json_array(json, "events");
    for (size_t i = 0; i < totals->count; i++) {
        const struct rp_diff_total *total = &totals->rows[i];
        rp_json_object(json, NULL);
        rp_json_text(json, "module", rp_module_name(diff->modules, total->event.module));
        rp_json_text(json, "phase", rp_phase_name(total->event.phase));
        put_both(json, "ops", total->ops[RP_DIFF_A], total->ops[RP_DIFF_B]);
        put_both(json, "launches", total->launches[RP_DIFF_A], total->launches[RP_DIFF_B]);
        put_both(json, "bytes", total->bytes[RP_DIFF_A], total->bytes[RP_DIFF_B]);
        put_times(json, total->time, total->retimed);
        rp_json_end_object(json);
    }
    rp_json_end_array(json);
}

void rp_diff_json(FILE *out, const struct rp_diff *diff, const struct rp_diff_input inputs[2])
{
    bool unread = rp_diff_inputs_unread(inputs) > 0;
    struct rp_json json = {.out = out};
    rp_json_object(&json, NULL);
    rp_json_number(&json, "format", FORMAT);
    rp_json_text(&json, "verdict", verdict_name(diff, unread));
    rp_json_flag(&json, "same", diff->verdict == RP_DIFF_ALIKE && !unread);
    put_run(&json, "a", &inputs[0]);
    put_run(&json, "b", &inputs[1]);
    put_counts(&json, diff, inputs);
    put_points(&json, diff);
    put_totals(&json, diff);
    rp_json_end_object(&json);
}
