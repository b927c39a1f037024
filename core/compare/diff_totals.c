#include "core/compare/diff_totals.h"

#include <stdlib.h>
#include <string.h>

#include "core/compare/select.h"
#include "core/table.h"

#define NO_ROW UINT32_MAX

/* The time of one row in one step. */
struct sample {
    uint32_t row; /* SAMPLE_STEP: of the whole step; else that of an event, plus 1 */
    float ns;
};
#define SAMPLE_STEP 0u

struct sample_list {
    struct sample *of;
    size_t count, room;
};

struct rp_diff_samples {
    struct sample_list list[2]; /* by enum rp_diff_which */
    size_t rows_room;
    uint32_t *row_of; /* by module * RP_PHASE_COUNT + phase, or NO_ROW */
    size_t row_of_count;
};

enum rp_status rp_diff_totals_create(struct rp_diff_totals **totals_out)
{
    struct rp_diff_totals *totals = calloc(1, sizeof(*totals));
    struct rp_diff_samples *samples = calloc(1, sizeof(*samples));
    if (totals == NULL || samples == NULL) {
        free(totals);
        free(samples);
        return RP_NO_MEMORY;
    }
    totals->samples = samples;
    *totals_out = totals;
    return RP_OK;
}

void rp_diff_totals_free(struct rp_diff_totals *totals)
{
    if (totals == NULL)
        return;
    free(totals->samples->list[RP_DIFF_A].of);
    free(totals->samples->list[RP_DIFF_B].of);
    free(totals->samples->row_of);
    free(totals->samples);
    free(totals->rows);
    free(totals);
}

/* ---------------------------------------------------------------- rows */

/* The row of an event, made if it is new. NO_ROW: no memory. */
static uint32_t find_row(struct rp_diff_totals *totals, struct rp_event event)
{
    struct rp_diff_samples *samples = totals->samples;
    size_t place = (size_t)event.module * RP_PHASE_COUNT + event.phase;
    if (place >= samples->row_of_count) {
        size_t count = 2 * (place + RP_PHASE_COUNT);
        uint32_t *larger = realloc(samples->row_of, count * sizeof(*larger));
        if (larger == NULL)
            return NO_ROW;
        memset(larger + samples->row_of_count, 0xff, (count - samples->row_of_count) * sizeof(*larger)); /* NO_ROW */
        samples->row_of = larger;
        samples->row_of_count = count;
    }
    if (samples->row_of[place] != NO_ROW)
        return samples->row_of[place];
    struct rp_diff_total *rows = rp_table_grow(totals->rows, totals->count, &samples->rows_room, sizeof(*rows));
    if (rows == NULL)
        return NO_ROW;
    totals->rows = rows;
    rows[totals->count] = (struct rp_diff_total){.event = event};
    samples->row_of[place] = (uint32_t)totals->count;
    return (uint32_t)totals->count++;
}

/* One part while it is added. */
struct adding {
    struct rp_diff_totals *totals;
    struct rp_modules *modules;
    enum rp_diff_which which;
    const struct rp_pair_part *part;
    uint32_t *row_at;  /* by the trace's own module and phase, or NO_ROW: not looked for yet */
    double *ns;        /* by row, of the step at hand */
    uint32_t *touched; /* rows with a time in it */
    size_t touched_count;
};

/* `event`: of the trace. */
static uint32_t row_at(struct adding *adding, struct rp_event event)
{
    const struct rp_modules *own = adding->part->trace->modules;
    uint32_t module = event.module < rp_module_count(own) ? event.module : RP_MODULE_UNKNOWN;
    uint32_t *row = &adding->row_at[(size_t)module * RP_PHASE_COUNT + event.phase];
    if (*row == NO_ROW) {
        const char *name = rp_module_name(own, module);
        *row = find_row(adding->totals,
                        (struct rp_event){rp_module_intern(adding->modules, name, strlen(name)), event.phase});
    }
    return *row;
}

static uint32_t row_of_op(struct adding *adding, size_t index)
{
    const struct rp_op *op = rp_packed_call_op(adding->part->packed, index);
    return row_at(adding, (struct rp_event){op->module, (enum rp_phase)op->phase});
}

static enum rp_status count_ops(struct adding *adding)
{
    for (size_t i = adding->part->from; i < adding->part->to; i++) {
        const struct rp_op *op = rp_packed_call_op(adding->part->packed, i);
        if (!rp_pair_compares((enum rp_op_kind)op->kind))
            continue;
        uint32_t row = row_of_op(adding, i);
        if (row == NO_ROW)
            return RP_NO_MEMORY;
        adding->totals->rows[row].ops[adding->which]++;
        adding->totals->rows[row].launches[adding->which] += adding->part->packed->ops[i].launches;
        adding->totals->rows[row].bytes[adding->which] += rp_op_bytes(op);
    }
    return RP_OK;
}

/* Whether they are behind an op of the compared steps; where no op of their thread is before them, by their time. */
static bool is_in(const struct rp_pair_part *part, const struct rp_trace_part *launches)
{
    const struct rp_packed *packed = part->packed;
    if (launches->op != RP_TRACE_NO_OP)
        return launches->op >= part->from && launches->op < part->to;
    return (part->from == 0 || launches->first >= packed->ops[part->from].begin) &&
           (part->to == packed->op_count || launches->first < packed->ops[part->to].begin);
}

/* What was counted with their op, or with none, belongs to an event of its own. */
static enum rp_status move_launches(struct adding *adding, const struct rp_trace_part *launches)
{
    uint32_t to = row_at(adding, launches->event);
    uint32_t from = launches->op != RP_TRACE_NO_OP ? row_of_op(adding, launches->op) : to;
    if (to == NO_ROW || from == NO_ROW)
        return RP_NO_MEMORY;
    if (launches->op != RP_TRACE_NO_OP)
        adding->totals->rows[from].launches[adding->which] -= launches->count;
    adding->totals->rows[to].launches[adding->which] += launches->count;
    return RP_OK;
}

/* Those of ops that have parts (launch_parts.h). */
static enum rp_status move_all_launches(struct adding *adding)
{
    const struct rp_trace *trace = adding->part->trace;
    enum rp_status status = RP_OK;
    for (size_t i = 0; i < trace->part_count && status == RP_OK; i++)
        if (is_in(adding->part, &trace->parts[i]))
            status = move_launches(adding, &trace->parts[i]);
    return status;
}

/* ---------------------------------------------------------------- times of steps */

static enum rp_status add_sample(struct sample_list *list, uint32_t row, double ns)
{
    struct sample *of = rp_table_grow(list->of, list->count, &list->room, sizeof(*of));
    if (of == NULL)
        return RP_NO_MEMORY;
    list->of = of;
    of[list->count++] = (struct sample){row, (float)ns};
    return RP_OK;
}

static double ns_between(const struct adding *adding, size_t op, size_t later)
{
    const struct rp_packed_op *ops = adding->part->packed->ops;
    return (double)(ops[later].begin - ops[op].begin) * adding->part->trace->ns_per_tick;
}

static void add_time(struct adding *adding, size_t op, size_t next)
{
    uint32_t row = row_of_op(adding, op);
    double ns = ns_between(adding, op, next);
    if (adding->ns[row] < 0) {
        adding->ns[row] = 0;
        adding->touched[adding->touched_count++] = row;
    }
    adding->ns[row] += ns;
}

/* The step has a next one, whose first op ends the time of its last. */
static enum rp_status time_step(struct adding *adding, size_t step)
{
    const struct rp_timeline *timeline = adding->part->timeline;
    const struct rp_packed *packed = adding->part->packed;
    struct sample_list *list = &adding->totals->samples->list[adding->which];
    size_t i = timeline->steps[step].first, end = rp_timeline_end(timeline, step);
    while (i < end && !rp_pair_compares((enum rp_op_kind)rp_packed_call_op(packed, i)->kind))
        i++;
    size_t first = i, last = i;
    for (i++; i <= end; i++) {
        if (i < end && !rp_pair_compares((enum rp_op_kind)rp_packed_call_op(packed, i)->kind))
            continue;
        add_time(adding, last, i);
        last = i;
    }
    enum rp_status status = add_sample(list, SAMPLE_STEP, ns_between(adding, first, last));
    for (; adding->touched_count > 0; adding->touched_count--) {
        uint32_t row = adding->touched[adding->touched_count - 1];
        if (status == RP_OK)
            status = add_sample(list, row + 1, adding->ns[row]);
        adding->ns[row] = -1;
    }
    return status;
}

/* A whole step that is not the trace's last: of that it is not known when it ended. */
static bool is_timed(const struct rp_timeline *timeline, size_t step)
{
    return timeline->steps[step].kind == RP_STEP_WHOLE && step + 1 < timeline->count;
}

/* Steps of other ops are timed only where they surely are steps of both: else one may be a microbatch. */
static enum rp_status time_steps(struct adding *left, struct adding *right, const struct rp_pairs *pairs)
{
    enum rp_status status = RP_OK;
    for (size_t step = left->part->first_step; step < left->part->end_step && status == RP_OK; step++) {
        uint32_t partner = pairs->step_of[step];
        bool comparable = pairs->step_alike[step] || pairs->steps_differ;
        if (partner == RP_PAIR_NONE || !comparable || !is_timed(left->part->timeline, step) ||
            !is_timed(right->part->timeline, partner))
            continue;
        status = time_step(left, step);
        if (status == RP_OK)
            status = time_step(right, partner);
    }
    return status;
}

/* ---------------------------------------------------------------- one rank */

static enum rp_status adding_open(struct adding *adding)
{
    size_t events = (size_t)rp_module_count(adding->part->trace->modules) * RP_PHASE_COUNT;
    adding->row_at = malloc((events + 1) * sizeof(*adding->row_at));
    if (adding->row_at == NULL)
        return RP_NO_MEMORY;
    memset(adding->row_at, 0xff, events * sizeof(*adding->row_at)); /* NO_ROW */
    enum rp_status status = count_ops(adding);
    return status == RP_OK ? move_all_launches(adding) : status;
}

/* All rows are known. */
static enum rp_status adding_prepare_times(struct adding *adding)
{
    size_t rows = adding->totals->count;
    adding->ns = malloc((rows + 1) * sizeof(*adding->ns));
    adding->touched = malloc((rows + 1) * sizeof(*adding->touched));
    if (adding->ns == NULL || adding->touched == NULL)
        return RP_NO_MEMORY;
    for (size_t i = 0; i < rows; i++)
        adding->ns[i] = -1;
    return RP_OK;
}

static void adding_close(struct adding *adding)
{
    free(adding->row_at);
    free(adding->ns);
    free(adding->touched);
}

enum rp_status rp_diff_totals_add(struct rp_diff_totals *totals, struct rp_modules *modules,
                                  const struct rp_pair_part *left_part, const struct rp_pair_part *right_part,
                                  const struct rp_pairs *pairs)
{
    struct adding left = {.totals = totals, .modules = modules, .which = RP_DIFF_A, .part = left_part};
    struct adding right = {.totals = totals, .modules = modules, .which = RP_DIFF_B, .part = right_part};
    enum rp_status status = adding_open(&left);
    if (status == RP_OK)
        status = adding_open(&right);
    if (status == RP_OK)
        status = adding_prepare_times(&left);
    if (status == RP_OK)
        status = adding_prepare_times(&right);
    if (status == RP_OK)
        status = time_steps(&left, &right, pairs);
    adding_close(&left);
    adding_close(&right);
    return status;
}

/* ---------------------------------------------------------------- medians */

static struct rp_diff_time summarise(double *values, size_t count)
{
    if (count == 0)
        return (struct rp_diff_time){0};
    size_t low = count < 4 ? 0 : (count - 1) / 4, middle = (count - 1) / 2;
    struct rp_diff_time time = {.samples = count, .low = rp_select(values, count, low)};
    time.median = rp_select(values, count, middle);
    if (count % 2 == 0)
        time.median = (time.median + rp_select(values, count, middle + 1)) / 2;
    time.high = rp_select(values, count, count - 1 - low);
    return time;
}

static struct rp_diff_time *time_of(struct rp_diff_totals *totals, size_t row, enum rp_diff_which which)
{
    return row == SAMPLE_STEP ? &totals->step[which] : &totals->rows[row - 1].time[which];
}

/* Deals the samples out by row, and sums each row up. */
static enum rp_status summarise_all(struct rp_diff_totals *totals, enum rp_diff_which which)
{
    struct sample_list *list = &totals->samples->list[which];
    size_t rows = totals->count + 1;
    size_t *end = calloc(rows + 1, sizeof(*end));
    double *values = calloc(list->count + 1, sizeof(*values));
    if (end == NULL || values == NULL) {
        free(end);
        free(values);
        return RP_NO_MEMORY;
    }
    for (size_t i = 0; i < list->count; i++)
        end[list->of[i].row + 1]++;
    for (size_t row = 1; row <= rows; row++)
        end[row] += end[row - 1];
    for (size_t i = 0; i < list->count; i++)
        values[end[list->of[i].row]++] = list->of[i].ns;
    for (size_t row = 0; row < rows; row++) {
        size_t first = row == 0 ? 0 : end[row - 1];
        *time_of(totals, row, which) = summarise(values + first, end[row] - first);
    }
    free(end);
    free(values);
    return RP_OK;
}

static bool is_retimed(const struct rp_diff_time time[2], double least)
{
    if (time[RP_DIFF_A].samples < 2 || time[RP_DIFF_B].samples < 2)
        return false;
    double noise = time[RP_DIFF_A].high - time[RP_DIFF_A].low + time[RP_DIFF_B].high - time[RP_DIFF_B].low;
    double later = time[RP_DIFF_B].median - time[RP_DIFF_A].median;
    double apart = later < 0 ? -later : later;
    return apart > noise && apart > least;
}

enum rp_status rp_diff_totals_finish(struct rp_diff_totals *totals, size_t *retimed_out)
{
    enum rp_status status = summarise_all(totals, RP_DIFF_A);
    if (status == RP_OK)
        status = summarise_all(totals, RP_DIFF_B);
    if (status != RP_OK)
        return status;
    double a = totals->step[RP_DIFF_A].median, b = totals->step[RP_DIFF_B].median;
    double least = RP_RETIMED_LEAST_SHARE * (a > b ? a : b);
    if (least < RP_RETIMED_LEAST_NS)
        least = RP_RETIMED_LEAST_NS;
    size_t retimed = 0;
    bool same_ops = true;
    for (size_t i = 0; i < totals->count; i++) {
        struct rp_diff_total *row = &totals->rows[i];
        bool has_same_ops = row->ops[RP_DIFF_A] == row->ops[RP_DIFF_B];
        row->retimed = has_same_ops && is_retimed(row->time, least);
        retimed += row->retimed;
        same_ops = same_ops && has_same_ops;
    }
    totals->step_retimed = same_ops && is_retimed(totals->step, least);
    *retimed_out = retimed;
    return RP_OK;
}
