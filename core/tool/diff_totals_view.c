#include "core/tool/diff_totals_view.h"

#include <inttypes.h>
#include <string.h>

#include "core/tool/tool.h"

#define MODULE_MAX 200 /* bytes of a module's name in text */

static const char *module_text(const struct rp_diff *diff, const struct rp_diff_total *total, char *text)
{
    return rp_tool_safe(rp_module_name(diff->modules, total->event.module), text, MODULE_MAX);
}

/* ---------------------------------------------------------------- retimed */

bool rp_diff_is_retimed(const struct rp_diff *diff)
{
    return diff->totals->step_retimed || diff->counts[RP_DIFF_RETIMED] > 0;
}

static double change(const struct rp_diff_total *total)
{
    double change = total->time[RP_DIFF_B].median - total->time[RP_DIFF_A].median;
    return change < 0 ? -change : change;
}

static const struct rp_diff_total *most_changed(const struct rp_diff_totals *totals)
{
    const struct rp_diff_total *most = NULL;
    for (size_t i = 0; i < totals->count; i++) {
        if (totals->rows[i].retimed && (most == NULL || change(&totals->rows[i]) > change(most)))
            most = &totals->rows[i];
    }
    return most;
}

char *rp_diff_retimed_text(const struct rp_diff *diff, char *text, size_t size)
{
    char module[MODULE_MAX], what[MODULE_MAX + 60] = "a step";
    const struct rp_diff_time *time = diff->totals->step;
    const struct rp_diff_total *most = most_changed(diff->totals);
    if (!diff->totals->step_retimed && most != NULL) {
        time = most->time;
        snprintf(what, sizeof(what), "of a step %s %s", module_text(diff, most, module),
                 rp_phase_name(most->event.phase));
    }
    snprintf(text, size, "%s takes %.2f ms in A, %.2f ms in B (host time, median of %zu and %zu steps)", what,
             time[RP_DIFF_A].median * 1e-6, time[RP_DIFF_B].median * 1e-6, time[RP_DIFF_A].samples,
             time[RP_DIFF_B].samples);
    return text;
}

/* ---------------------------------------------------------------- the table */

bool rp_diff_total_differs(const struct rp_diff_total *total)
{
    return total->ops[RP_DIFF_A] != total->ops[RP_DIFF_B] || total->bytes[RP_DIFF_A] != total->bytes[RP_DIFF_B] ||
           total->launches[RP_DIFF_A] != total->launches[RP_DIFF_B] || total->retimed;
}

/* "12.20 +-0.10": the median, and how far the quartiles are from it at most. */
static char *time_text(const struct rp_diff_time *time, char *text, size_t size)
{
    double below = time->median - time->low, above = time->high - time->median;
    if (time->samples == 0)
        snprintf(text, size, "-");
    else
        snprintf(text, size, "%.2f +-%.2f", time->median * 1e-6, (below > above ? below : above) * 1e-6);
    return text;
}

static void print_row(FILE *out, int width, const char *module, const char *phase, const struct rp_diff_total *total)
{
    char left[40], right[40];
    fprintf(out, "  %-*s  %-9s", width, module, phase);
    fprintf(out, "  %8" PRIu64 "  %8" PRIu64 "  %10" PRIu64 "  %10" PRIu64 "  %14" PRIu64 "  %14" PRIu64,
            total->ops[RP_DIFF_A], total->ops[RP_DIFF_B], total->launches[RP_DIFF_A], total->launches[RP_DIFF_B],
            total->bytes[RP_DIFF_A], total->bytes[RP_DIFF_B]);
    fprintf(out, "  %16s  %16s%s\n", time_text(&total->time[RP_DIFF_A], left, sizeof(left)),
            time_text(&total->time[RP_DIFF_B], right, sizeof(right)), total->retimed ? "  retimed" : "");
}

static void add(struct rp_diff_total *sum, const struct rp_diff_total *total)
{
    for (int which = RP_DIFF_A; which <= RP_DIFF_B; which++) {
        sum->ops[which] += total->ops[which];
        sum->launches[which] += total->launches[which];
        sum->bytes[which] += total->bytes[which];
    }
}

static void print_head(FILE *out, const struct rp_diff *diff, int width, bool all)
{
    const struct rp_diff_time *step = diff->totals->step;
    fprintf(out, "\nper module and phase%s; ", all ? "" : ", where they differ");
    if (step[RP_DIFF_A].samples == 0 || step[RP_DIFF_B].samples == 0)
        fprintf(out, "no times: no whole steps with the same ops\n");
    else
        fprintf(out,
                "ms: host time in a step, from a call to the rank's next one, median of %zu steps in A and %zu in B\n",
                step[RP_DIFF_A].samples, step[RP_DIFF_B].samples);
    fprintf(out, "  %-*s  %-9s  %8s  %8s  %10s  %10s  %14s  %14s  %16s  %16s\n", width, "module", "phase", "ops A",
            "ops B", "launches A", "launches B", "bytes A", "bytes B", "ms A", "ms B");
}

void rp_diff_totals_print(FILE *out, const struct rp_diff *diff, size_t most, bool all)
{
    const struct rp_diff_totals *totals = diff->totals;
    char module[MODULE_MAX];
    size_t rows = 0;
    int width = (int)strlen("module");
    struct rp_diff_total sum = {.retimed = totals->step_retimed, .time = {totals->step[0], totals->step[1]}};
    for (size_t i = 0; i < totals->count; i++) {
        add(&sum, &totals->rows[i]);
        int length = (int)strlen(module_text(diff, &totals->rows[i], module));
        if (!all && !rp_diff_total_differs(&totals->rows[i]))
            continue;
        width = rows++ < most && length > width ? length : width;
    }
    if (rows == 0 && !totals->step_retimed)
        return;
    print_head(out, diff, width, all);
    size_t printed = 0;
    for (size_t i = 0; i < totals->count && printed < most; i++) {
        if (!all && !rp_diff_total_differs(&totals->rows[i]))
            continue;
        print_row(out, width, module_text(diff, &totals->rows[i], module), rp_phase_name(totals->rows[i].event.phase),
                  &totals->rows[i]);
        printed++;
    }
    if (rows > printed)
        fprintf(out, "  ... and %zu more (--top)\n", rows - printed);
    print_row(out, width, "all", "", &sum);
}
