#include "core/tool/progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "core/clock.h"

#define FIRST_NS 500000000u /* work that is done by then shows nothing */
#define NEXT_NS 100000000u

void rp_progress_begin(struct rp_progress *progress, const char *what, uint64_t total)
{
    *progress = (struct rp_progress){.what = what, .total = total, .due_ns = UINT64_MAX};
    if (isatty(STDERR_FILENO))
        progress->due_ns = rp_monotonic_ns() + FIRST_NS;
}

/* Percent, rounded down; the product of large numbers has no room. */
static unsigned percent(uint64_t done, uint64_t total)
{
    double share = total > 0 ? (double)done * 100.0 / (double)total : 100.0;
    return share < 100.0 ? (unsigned)share : 100;
}

void rp_progress_at(struct rp_progress *progress, uint64_t done)
{
    if (progress->due_ns == UINT64_MAX)
        return;
    uint64_t now = rp_monotonic_ns();
    if (now < progress->due_ns)
        return;
    /* The cursor waits at the beginning: an error line that comes meanwhile is written over this one. */
    fprintf(stderr, "%s %3u%%\r", progress->what, percent(done, progress->total));
    fflush(stderr);
    progress->shown = true;
    progress->due_ns = now + NEXT_NS;
}

void rp_progress_end(struct rp_progress *progress)
{
    if (progress->shown)
        fputs("\033[K", stderr); /* ECMA-48: erase to the end of the line */
    progress->shown = false;
    progress->due_ns = UINT64_MAX;
}
