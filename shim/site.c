/*
 * Combines what the sources of a site say (site.h). Asked once per collective; nothing here takes a lock.
 *
 * Threads: any.
 */
#include "shim/site.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

#include "shim/site_python.h"
#include "shim/site_sources.h"

_Atomic bool rp_site_on;
static _Atomic(struct rp_modules *) site_modules; /* released by rp_site_start(), acquired by rp_site_here() */

void rp_site_start(struct rp_modules *modules)
{
    rp_site_native_start();
    atomic_store_explicit(&rp_site_on, true, memory_order_relaxed);
    atomic_store_explicit(&site_modules, modules, memory_order_release);
}

void rp_site_take_phase(struct rp_site_finding *finding, const struct rp_rule *rule)
{
    if (finding->phase != RP_PHASE_UNKNOWN || rule == NULL)
        return;
    finding->phase = rule->phase;
    finding->forward_in_backward = rule->forward_in_backward;
}

uint32_t rp_site_intern(struct rp_modules *modules, const char *name, size_t length)
{
    if (length == 0)
        return rp_module_intern(modules, RP_RULE_ROOT, strlen(RP_RULE_ROOT));
    return rp_module_intern(modules, name, length);
}

static uint32_t first_module(const struct rp_site_finding *a, const struct rp_site_finding *b,
                             const struct rp_site_finding *c)
{
    if (a->module != RP_MODULE_UNKNOWN)
        return a->module;
    return b->module != RP_MODULE_UNKNOWN ? b->module : c->module;
}

static enum rp_phase in_backward(const struct rp_site_finding *said)
{
    if (said->phase == RP_PHASE_RECOMPUTE)
        return RP_PHASE_RECOMPUTE;
    if (said->phase == RP_PHASE_FORWARD && said->forward_in_backward != RP_PHASE_UNKNOWN)
        return said->forward_in_backward;
    return RP_PHASE_BACKWARD;
}

struct rp_event rp_site_combine(const struct rp_site_finding *python, const struct rp_site_finding *nvtx,
                                const struct rp_site_finding *native)
{
    const struct rp_site_finding *said = python->phase != RP_PHASE_UNKNOWN ? python : nvtx;
    struct rp_event event = {.module = first_module(python, nvtx, native), .phase = said->phase};
    if (native->phase == RP_PHASE_BACKWARD)
        event.phase = in_backward(said);
    else if (said->phase == RP_PHASE_UNKNOWN)
        event.phase = native->phase;
    return event;
}

/* The counters are the loader's and the same in every entry, so the first entry is enough. */
static int take_counters(struct dl_phdr_info *info, size_t size, void *loader_out)
{
    if (size >= offsetof(struct dl_phdr_info, dlpi_subs) + sizeof(info->dlpi_subs))
        *(struct rp_site_loader *)loader_out = (struct rp_site_loader){info->dlpi_adds, info->dlpi_subs};
    return 1;
}

struct rp_site_loader rp_site_loader_now(void)
{
    struct rp_site_loader loader = {0};
    dl_iterate_phdr(take_counters, &loader);
    return loader;
}

/* Whether the native stack, which costs most, could change what the others say together. */
static bool native_matters(const struct rp_event *said)
{
    return said->module == RP_MODULE_UNKNOWN || (said->phase != RP_PHASE_BACKWARD && said->phase != RP_PHASE_RECOMPUTE);
}

static struct rp_event ask(struct rp_modules *modules, void *caller)
{
    struct rp_site_finding native = {0}, nvtx = {0}, python = {0};
    rp_site_from_python(modules, &python);
    rp_site_from_nvtx(modules, &nvtx);
    struct rp_event said = rp_site_combine(&python, &nvtx, &native);
    if (!native_matters(&said))
        return said;
    rp_site_from_native(modules, caller, &native);
    return rp_site_combine(&python, &nvtx, &native);
}

struct rp_event rp_site_here(void *caller)
{
    struct rp_modules *modules = atomic_load_explicit(&site_modules, memory_order_acquire);
    if (modules == NULL)
        return (struct rp_event){RP_MODULE_UNKNOWN, RP_PHASE_UNKNOWN};
    int kept_errno = errno;
    struct rp_event event = ask(modules, caller);
    errno = kept_errno;
    return event;
}

void rp_site_nvtx_announce(void)
{
    char file[PATH_MAX];
    Dl_info info;
    atomic_store_explicit(&rp_site_on, true, memory_order_relaxed);
    /* the path as preloaded may be relative, and the application may change its directory */
    if (dladdr((void *)&site_modules, &info) != 0 && realpath(info.dli_fname, file) != NULL)
        setenv("NVTX_INJECTION64_PATH", file, 0);
}

void rp_site_forked(void)
{
    rp_site_cache_forked(&rp_site_addresses);
    rp_site_cache_forked(&rp_site_codes);
    rp_python_forked();
}
