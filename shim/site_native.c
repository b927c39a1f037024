/*
 * The native stack of a call: return addresses from libunwind, names from the dynamic symbol table, rules by name.
 *
 * Naming an address costs microseconds (dladdr), so what the rules say is kept by return address: a known stack costs
 * look-ups in a hash alone, and a new one names only the frames that no stack before it had. dladdr takes the loader's
 * lock; it is called with no lock of ours held.
 *
 * Limits. Only the innermost FRAMES frames are seen, and only symbols that a library exports have names; what has none
 * is "library+0xoffset". When the loader unmaps a library the cache is dropped; libunwind's own cache of frame layouts
 * is not, so a library mapped where another was may give a short or odd stack until then: a name is lost, and libunwind
 * checks what it reads.
 *
 * Threads: any.
 */
#include "shim/site_sources.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#ifndef RP_UNWIND_DLOPEN
#define UNW_LOCAL_ONLY
#include <libunwind.h>
#endif

#include "core/log.h"

/* From a collective out to the autograd engine: 40 to 70 frames with Python 3.11 and later, twice that with 3.10. */
#define FRAMES 192
#define TOGETHER 32 /* looked for in the cache under one lock */

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

/* The file's name without folders. */
static const char *base_name(const char *file)
{
    const char *slash = strrchr(file, '/');
    return slash != NULL ? slash + 1 : file;
}

/*
 * A return address may be the first byte of the next function, so the byte before it is asked about. One without a
 * symbol is known by its library and offset, as in a backtrace; a list of those would say nothing to anyone.
 */
static struct rp_site_place look_up(const struct rp_site_tables *tables, const char *address)
{
    char text[RP_SEEN_TEXT_MAX];
    Dl_info info;
    if (dladdr(address - 1, &info) == 0 || info.dli_fname == NULL)
        return rp_site_no_place();
    if (info.dli_sname != NULL)
        return rp_site_ask(tables, RP_RULE_NATIVE, info.dli_sname, info.dli_fname, true);
    snprintf(text, sizeof(text), "%s+0x%tx", base_name(info.dli_fname), address - (const char *)info.dli_fbase);
    return rp_site_ask(tables, RP_RULE_NATIVE, text, info.dli_fname, false);
}

static void drop_what_was_unmapped(void)
{
    static _Atomic unsigned long long seen;
    unsigned long long subs = rp_site_loader_now().subs;
    if (atomic_exchange_explicit(&seen, subs, memory_order_relaxed) != subs)
        rp_site_cache_clear(&rp_site_addresses);
}

static void look_up_and_take(const struct rp_site_query *query, void *address, struct rp_site_finding *finding)
{
    struct rp_site_place place = look_up(query->tables, address);
    rp_site_cache_add(&rp_site_addresses, address, &place);
    rp_site_take(query, finding, &place, place.module);
}

void rp_site_from_native(const struct rp_site_query *query, struct rp_site_finding *finding)
{
    void *frames[FRAMES];
    struct rp_site_place places[TOGETHER];
    int depth = backtrace_into != NULL ? backtrace_into(frames, FRAMES) : 0;
    size_t count = depth > 0 ? (size_t)depth : 0;
    drop_what_was_unmapped();
    for (size_t i = first_of_application(frames, count, query->caller); i < count;) {
        size_t left = count - i, together = left < TOGETHER ? left : TOGETHER;
        size_t known = rp_site_cache_find_all(&rp_site_addresses, frames + i, together, places);
        for (size_t j = 0; j < known; j++)
            rp_site_take(query, finding, &places[j], places[j].module);
        i += known;
        if (known < together)
            look_up_and_take(query, frames[i++], finding);
    }
    rp_site_join(query, finding);
}
