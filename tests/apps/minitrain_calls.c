/* One file a rank; a line a call, in the order of issue. */
#include "minitrain_calls.h"

#include "minitrain_host.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static FILE *calls;

void mt_calls_open(const char *file, int rank)
{
    char path[4096];
    if (!file)
        return;
    snprintf(path, sizeof path, "%s.%d", file, rank);
    calls = fopen(path, "we");
    if (!calls)
        mt_die("--calls: %s: %s", path, strerror(errno));
}

void mt_called(const char *module, enum mt_phase phase, const char *op)
{
    if (calls)
        fprintf(calls, "%s %s %s\n", module, mt_phase_name(phase), op);
}

void mt_calls_close(void)
{
    if (!calls)
        return;
    int failed = ferror(calls);
    if (fclose(calls) != 0 || failed)
        mt_die("--calls: %s", strerror(errno));
    calls = NULL;
}
