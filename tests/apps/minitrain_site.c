/* Which of the means of minitrain_site.h is used. `sites` is written before there are threads, and read by any. */
#include "minitrain_site.h"

#include <nvtx3/nvToolsExt.h>
#include <stdio.h>

static enum mt_sites sites;

const char *mt_phase_name(enum mt_phase phase)
{
    static const char *const names[MT_PHASES] = {"forward", "backward", "recompute", "eval", "optimizer", "other"};
    return names[phase];
}

void mt_sites_open(const struct mt_options *options)
{
    sites = (enum mt_sites)options->sites;
    if (sites == MT_SITES_PYTHON)
        mt_python_start(options->python);
}

static void in_range(enum mt_phase phase, const char *module, mt_work *work, void *argument)
{
    char name[64];
    snprintf(name, sizeof name, module ? "%s %s" : "%s", mt_phase_name(phase), module);
    nvtxRangePushA(name);
    work(argument);
    nvtxRangePop();
}

void mt_at(enum mt_phase phase, const char *module, mt_work *work, void *argument)
{
    switch (sites) {
    case MT_SITES_OFF:
        work(argument);
        break;
    case MT_SITES_NVTX:
        in_range(phase, module, work, argument);
        break;
    case MT_SITES_NATIVE:
        mt_names_call(phase, module, work, argument);
        break;
    case MT_SITES_PYTHON:
        mt_python_call(phase, module, work, argument);
        break;
    }
}
