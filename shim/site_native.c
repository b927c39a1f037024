/*
 * The native stack of a call: return addresses from libunwind, names from the dynamic symbol table, rules by name.
 *
 * Naming an address costs microseconds (dladdr), so what the rules say is kept by return address. dladdr takes the
 * loader's lock; it is called with no lock of ours held.
 *
 * Limits. Only the innermost FRAMES frames are seen, and only symbols that a library exports have names. When the
 * loader unmaps a library the cache is dropped; libunwind's own cache of frame layouts is not, so a library mapped
 * where another was may give a short or odd stack until then: a name is lost, and libunwind checks what it reads.
 *
 * Threads: any.
 */
#include "shim/site_sources.h"

#include <dlfcn.h>
#include <string.h>

#ifndef RP_UNWIND_DLOPEN
#define UNW_LOCAL_ONLY
#include <libunwind.h>
#endif

#include "core/log.h"

/* From a collective out to the autograd engine: 40 to 70 frames with Python 3.11 and later, twice that with 3.10. */
#define FRAMES 192

#ifdef RP_UNWIND_DLOPEN
static int (*backtrace_into)(void **, int);

void rp_site_native_start(void)
{
    void *library = dlopen("libunwind.so.8", RTLD_NOW | RTLD_LOCAL);
    void *found = library != NULL ? dlsym(library, "unw_backtrace") : NULL;
    if (found == NULL) {
        rp_log_job(RP_LOG_WARN, "site", "no libunwind.so.8, so backward is told by python frames alone");
        return;
    }
    memcpy(&backtrace_into, &found, sizeof(found)); /* ISO C has no cast from object to function pointer */
}
#else
static int (*const backtrace_into)(void **, int) = unw_backtrace;

void rp_site_native_start(void)
{
}
#endif

/* The index of the first frame of the application: that of `caller`, or 0 if it is not on the stack. */
static size_t first_of_application(void *const *frames, size_t count, const void *caller)
{
    for (size_t i = 0; i < count; i++)
        if (frames[i] == caller)
            return i;
    return 0;
}

/* A return address may be the first byte of the next function, so the byte before it is asked about. */
static struct rp_site_cached look_up(const char *address)
{
    Dl_info info;
    struct rp_rule_match match;
    if (dladdr(address - 1, &info) == 0 || info.dli_sname == NULL ||
        !rp_rule_match(RP_RULE_NATIVE, info.dli_sname, &match))
        return (struct rp_site_cached){0};
    return (struct rp_site_cached){match.module_rule, match.phase_rule};
}

static struct rp_site_cached rules_of(void *address)
{
    struct rp_site_cached cached;
    if (rp_site_cache_find(&rp_site_addresses, address, &cached))
        return cached;
    cached = look_up(address);
    rp_site_cache_add(&rp_site_addresses, address, &cached);
    return cached;
}

static void drop_what_was_unmapped(void)
{
    static _Atomic unsigned long long seen;
    unsigned long long subs = rp_site_loader_now().subs;
    if (atomic_exchange_explicit(&seen, subs, memory_order_relaxed) != subs)
        rp_site_cache_clear(&rp_site_addresses);
}

void rp_site_from_native(struct rp_modules *modules, void *caller, struct rp_site_finding *finding)
{
    void *frames[FRAMES];
    int depth = backtrace_into != NULL ? backtrace_into(frames, FRAMES) : 0;
    size_t count = depth > 0 ? (size_t)depth : 0;
    drop_what_was_unmapped();
    for (size_t i = first_of_application(frames, count, caller); i < count; i++) {
        i += rp_site_cache_skip(&rp_site_addresses, frames + i, count - i);
        if (i == count)
            break;
        struct rp_site_cached rules = rules_of(frames[i]);
        rp_site_take_phase(finding, rules.phase_rule);
        if (finding->module == RP_MODULE_UNKNOWN && rules.module_rule != NULL)
            finding->module = rp_site_intern(modules, rules.module_rule->module, strlen(rules.module_rule->module));
    }
}
