/* Which of the means of minitrain_site.h is used. Statics are written before there are threads, and read by any. */
#include "minitrain_site.h"

#include <nvtx3/nvToolsExt.h>
#include <stdio.h>

static enum mt_sites sites;
static nvtxDomainHandle_t ahead;

const char *mt_phase_name(enum mt_phase phase)
{
    static const char *const names[MT_PHASES] = {"forward", "backward", "recompute", "eval", "optimizer", "other"};
    return names[phase];
}

void mt_sites_open(const struct mt_options *options)
{
    sites = (enum mt_sites)options->sites;
    if (sites == MT_SITES_NVTX)
        ahead = nvtxDomainCreateA("ahead");
    if (sites == MT_SITES_PYTHON)
        mt_python_start(options->python);
}

/* `domain`: NULL is the default one. */
static void in_range(nvtxDomainHandle_t domain, enum mt_phase phase, const char *module, mt_work *work, void *argument)
{
    char name[64];
    nvtxEventAttributes_t range = {.version = NVTX_VERSION,
                                   .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
                                   .messageType = NVTX_MESSAGE_TYPE_ASCII,
                                   .message.ascii = name};
    snprintf(name, sizeof name, module ? "%s %s" : "%s", mt_phase_name(phase), module);
    if (domain)
        nvtxDomainRangePushEx(domain, &range);
    else
        nvtxRangePushA(name);
    work(argument);
    if (domain)
        nvtxDomainRangePop(domain);
    else
        nvtxRangePop();
}

void mt_at(enum mt_phase phase, const char *module, mt_work *work, void *argument)
{
    switch (sites) {
    case MT_SITES_OFF:
        work(argument);
        break;
    case MT_SITES_NVTX:
        in_range(NULL, phase, module, work, argument);
        break;
    case MT_SITES_NATIVE:
        mt_names_call(phase, module, work, argument);
        break;
    case MT_SITES_PYTHON:
        mt_python_call(phase, module, work, argument);
        break;
    }
}

void mt_at_ahead(enum mt_phase phase, const char *module, mt_work *work, void *argument)
{
    if (sites == MT_SITES_NVTX)
        in_range(ahead, phase, module, work, argument);
    else
        mt_at(phase, module, work, argument);
}
