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
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "shim/site_python.h"
#include "shim/site_ranges.h"
#include "shim/site_sources.h"

/* Of so many collectives all frames and ranges are looked at, so that a user sees what there is to write rules for. */
#define WHOLE_FIRST 512

_Atomic bool rp_site_on;
static struct rp_site_tables given;
static _Atomic(const struct rp_site_tables *) site_tables; /* released by rp_site_start(), acquired by its readers */
static _Atomic unsigned asked;                             /* collectives, up to WHOLE_FIRST; relaxed: a count */
static _Atomic uint64_t steps; /* relaxed: who opened the range or is in the frame sees it */
/* Was this thread's last collective under such a frame? UNSEEN: it was not looked at. */
static _Thread_local enum { OUTSIDE, INSIDE, UNSEEN } in_step;

void rp_site_start(const struct rp_site_tables *tables)
{
    rp_site_native_start();
    given = *tables;
    atomic_store_explicit(&rp_site_on, true, memory_order_relaxed);
    atomic_store_explicit(&site_tables, &given, memory_order_release);
}

const struct rp_site_tables *rp_site_tables(void)
{
    return atomic_load_explicit(&site_tables, memory_order_acquire);
}

uint64_t rp_site_steps(void)
{
    return atomic_load_explicit(&steps, memory_order_relaxed);
}

void rp_site_step(void)
{
    atomic_fetch_add_explicit(&steps, 1, memory_order_relaxed);
}

bool rp_site_frames_begin_steps(void)
{
    const struct rp_site_tables *tables = rp_site_tables();
    return tables != NULL &&
           (rp_rules_have_steps(tables->rules, RP_RULE_PYTHON) || rp_rules_have_steps(tables->rules, RP_RULE_NATIVE));
}

static uint32_t first_module(const struct rp_site_said *a, const struct rp_site_said *b, const struct rp_site_said *c)
{
    if (a->module != RP_MODULE_UNKNOWN)
        return a->module;
    return b->module != RP_MODULE_UNKNOWN ? b->module : c->module;
}

static enum rp_phase phase_in_backward(const struct rp_site_said *said)
{
    if (said->phase == RP_PHASE_RECOMPUTE)
        return RP_PHASE_RECOMPUTE;
    if (said->phase == RP_PHASE_FORWARD && said->in_backward != RP_PHASE_UNKNOWN)
        return said->in_backward;
    return RP_PHASE_BACKWARD;
}

struct rp_event rp_site_combine(const struct rp_site_said *python, const struct rp_site_said *nvtx,
                                const struct rp_site_said *native)
{
    const struct rp_site_said *said = python->phase != RP_PHASE_UNKNOWN ? python : nvtx;
    struct rp_event event = {.module = first_module(python, nvtx, native), .phase = said->phase};
    if (native->phase == RP_PHASE_BACKWARD)
        event.phase = phase_in_backward(said);
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

static bool native_may_add(struct rp_event said)
{
    return said.module == RP_MODULE_UNKNOWN || (said.phase != RP_PHASE_BACKWARD && said.phase != RP_PHASE_RECOMPUTE);
}

/* Whether the native stack, which costs most, could change what the others say together. */
static bool native_matters(const struct rp_site_query *query, const struct rp_site_events *said)
{
    return query->whole || rp_rules_have_steps(query->tables->rules, RP_RULE_NATIVE) || native_may_add(said->call) ||
           native_may_add(said->launches);
}

static void see_step(bool now)
{
    if (now && in_step == OUTSIDE)
        rp_site_step();
    in_step = now ? INSIDE : OUTSIDE;
}

void rp_site_not_asked(void)
{
    in_step = UNSEEN;
}

static struct rp_site_events combine(const struct rp_site_finding *python, const struct rp_site_finding *nvtx,
                                     const struct rp_site_finding *native)
{
    return (struct rp_site_events){.call = rp_site_combine(&python->call, &nvtx->call, &native->call),
                                   .launches = rp_site_combine(&python->launches, &nvtx->launches, &native->launches)};
}

static struct rp_site_events ask(const struct rp_site_query *query)
{
    struct rp_site_finding native = {0}, nvtx = {0}, python = {0};
    rp_site_from_python(query, &python);
    rp_site_from_nvtx(query, &nvtx);
    struct rp_site_events said = combine(&python, &nvtx, &native);
    if (native_matters(query, &said)) {
        rp_site_from_native(query, &native);
        said = combine(&python, &nvtx, &native);
    }
    see_step(python.step || native.step);
    said.launches = rp_event_filled(said.launches, said.call);
    return said;
}

static bool is_one_of_the_first(void)
{
    return atomic_load_explicit(&asked, memory_order_relaxed) < WHOLE_FIRST &&
           atomic_fetch_add_explicit(&asked, 1, memory_order_relaxed) < WHOLE_FIRST;
}

bool rp_site_was_asked(void)
{
    return atomic_load_explicit(&asked, memory_order_relaxed) > 0;
}

struct rp_site_events rp_site_here(void *caller)
{
    uint64_t counted[RP_SEEN_MAX / 64] = {0};
    struct rp_site_query query = {.tables = rp_site_tables(), .caller = caller, .counted = counted};
    if (query.tables == NULL)
        return (struct rp_site_events){0};
    int kept_errno = errno;
    query.whole = is_one_of_the_first();
    struct rp_site_events events = ask(&query);
    errno = kept_errno;
    return events;
}

static void nvtx_forked(void)
{
    rp_site_ranges_forked();
    rp_site_domains_forked();
}

void rp_site_nvtx_announce(void)
{
    char file[PATH_MAX];
    Dl_info info;
    pthread_atfork(NULL, NULL, nvtx_forked); /* ranges are kept from here on, rp_site_forked() is called later */
    atomic_store_explicit(&rp_site_on, true, memory_order_relaxed);
    /* the path as preloaded may be relative, and the application may change its directory */
    if (dladdr((void *)&site_tables, &info) != 0 && realpath(info.dli_fname, file) != NULL)
        setenv("NVTX_INJECTION64_PATH", file, 0);
}

void rp_site_forked(void)
{
    rp_site_cache_forked(&rp_site_addresses);
    rp_site_cache_forked(&rp_site_codes);
    rp_python_forked();
    nvtx_forked();
}
