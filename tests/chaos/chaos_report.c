/*
 * Sums over programs, and the lines at the end.
 */
#include "tests/chaos/chaos_run.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void chaos_report_program(struct chaos_report *report, const struct chaos_program *program,
                          const struct chaos_shared *shared)
{
    for (int rank = 0; rank < program->ranks; rank++) {
        const struct chaos_figures *figures = &shared->ranks[rank];
        report->operations += figures->operations;
        report->bytes += figures->bytes;
        report->wrong_buffers += figures->wrong;
        report->error += figures->errors;
        report->no_memory += figures->no_memory;
    }
    report->driver += (uint64_t)program->fault_driver;
    for (int i = 0; i < CHAOS_FEATURE_COUNT; i++)
        report->covered[i] += program->features >> i & 1;
}

/* " ..., 300 of the hits prefetched, 500 packed, ..."; left out where it is 0. */
static uint64_t packed_of(const char *figures)
{
    static const char before[] = " prefetched, ";
    const char *place = strstr(figures, before);
    char *end;
    uint64_t packed = place ? strtoull(place + strlen(before), &end, 10) : 0;
    return place && strncmp(end, " packed", strlen(" packed")) == 0 ? packed : 0;
}

void chaos_report_output(struct chaos_report *report, FILE *output)
{
    char line[1024];
    uint64_t hits, repaired, withdrawn, ahead = 0, before = report->hits;
    while (fgets(line, sizeof line, output)) {
        const char *figures = strstr(line, " hits, ");
        while (figures && figures > line && figures[-1] >= '0' && figures[-1] <= '9')
            figures--;
        if (figures &&
            sscanf(figures,
                   "%" SCNu64 " hits, %" SCNu64 " repaired, %" SCNu64 " withdrawn, %" SCNu64 " of the hits prefetched",
                   &hits, &repaired, &withdrawn, &ahead) == 4) {
            report->hits += hits;
            report->ahead += ahead;
            report->packed += packed_of(figures);
            report->repaired += repaired;
            report->withdrawn += withdrawn;
        }
        report->lag += strstr(line, "fault: collective") && strstr(line, "late");
        report->scribble += strstr(line, "fault: a bit of") != NULL;
    }
    report->served += report->hits > before;
}

static const char *const names[] = {
#define X(name, text) text,
    CHAOS_FEATURES(X)
#undef X
};

static void coverage_print(const struct chaos_report *report)
{
    fputs("chaos: programs with", stdout);
    for (int i = 0; i < CHAOS_FEATURE_COUNT; i++)
        printf("%s %s %" PRIu64, i ? "," : "", names[i], report->covered[i]);
    putchar('\n');
}

bool chaos_report_covers(const struct chaos_report *report, bool hits)
{
    bool all = !hits || (report->hits > 0 && report->ahead > 0 && report->packed > 0);
    if (!all)
        printf("chaos: error: nothing was %s\n", report->hits == 0    ? "served from memory"
                                                 : report->ahead == 0 ? "gathered ahead and served"
                                                                      : "served from packed memory");
    for (int i = 0; i < CHAOS_FEATURE_COUNT; i++)
        if (report->covered[i] == 0) {
            printf("chaos: error: no program with %s\n", names[i]);
            all = false;
        }
    return all;
}

void chaos_report_print(const struct chaos_report *report)
{
    uint64_t programs = 0;
    for (int i = 0; i < CHAOS_OUTCOME_COUNT; i++)
        programs += report->outcomes[i];
    coverage_print(report);
    printf("chaos: %" PRIu64 " programs, %" PRIu64 " ops, %" PRIu64 " bytes compared, faults: %" PRIu64 " lag, %" PRIu64
           " error, %" PRIu64 " memory refused, %" PRIu64 " driver memory (planned), %" PRIu64 " scribble, %" PRIu64
           " kill; replay: %" PRIu64 " hits in %" PRIu64 " programs, %" PRIu64 " of them prefetched, %" PRIu64
           " packed, %" PRIu64 " repaired, %" PRIu64 " withdrawn; %" PRIu64 " wrong, %" PRIu64 " hangs, %" PRIu64
           " failed\n",
           programs, report->operations, report->bytes, report->lag, report->error, report->no_memory, report->driver,
           report->scribble, report->killed, report->hits, report->served, report->ahead, report->packed,
           report->repaired, report->withdrawn, report->outcomes[CHAOS_IS_WRONG], report->outcomes[CHAOS_IS_HANG],
           report->outcomes[CHAOS_IS_FAILED]);
}
