/*
 * What the files of site.c share: the finding of one source, and a cache of what the rules say of an address.
 * Private to shim/site*.c.
 */
#ifndef RP_SITE_SOURCES_H
#define RP_SITE_SOURCES_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/event.h"
#include "core/rule.h"

/* What one source says of the calling thread's present place. All zero: nothing. */
struct rp_site_finding {
    uint32_t module; /* interned, or RP_MODULE_UNKNOWN */
    enum rp_phase phase;
    enum rp_phase forward_in_backward; /* of the rule that said the phase (rule.h) */
};

/* Each fills `finding`, which is all zero, with what its source says. `caller`: see rp_site_here(). */
void rp_site_from_native(struct rp_modules *modules, void *caller, struct rp_site_finding *finding);
void rp_site_from_python(struct rp_modules *modules, struct rp_site_finding *finding);
void rp_site_from_nvtx(struct rp_modules *modules, struct rp_site_finding *finding);

/* How often the loader has mapped and unmapped a library: tells when a cached address or a search in vain is stale. */
struct rp_site_loader {
    unsigned long long adds, subs;
};
struct rp_site_loader rp_site_loader_now(void);

/* Finds the unwinder. From rp_site_start(). */
void rp_site_native_start(void);

/* The event that three findings make together, as site.h says. */
struct rp_event rp_site_combine(const struct rp_site_finding *python, const struct rp_site_finding *nvtx,
                                const struct rp_site_finding *native);

/* True once rp_site_start() or rp_site_nvtx_announce() was called: ranges are kept. */
extern _Atomic bool rp_site_on;

/* Puts the phase that a NATIVE or PYTHON rule (or NULL) says into `finding`, unless it has one. */
void rp_site_take_phase(struct rp_site_finding *finding, const struct rp_rule *rule);

/* Interns a name; an empty one is RP_RULE_ROOT. */
uint32_t rp_site_intern(struct rp_modules *modules, const char *name, size_t length);

/* ---------------------------------------------------------------- site_cache.c */

struct rp_site_cache;

/* What the rules said of a key; both rules NULL: nothing. */
struct rp_site_cached {
    const struct rp_rule *module_rule, *phase_rule;
};

extern struct rp_site_cache rp_site_addresses; /* return addresses of native stacks; starts anew when it is full */
extern struct rp_site_cache rp_site_codes;     /* code objects of Python; takes no more when it is full */

/* Each takes the cache's own short lock; nothing is called and no other lock taken inside. */
bool rp_site_cache_find(struct rp_site_cache *cache, const void *key, struct rp_site_cached *cached_out);

/* False if this call added nothing: the key was there, the cache is full or memory is out. */
bool rp_site_cache_add(struct rp_site_cache *cache, const void *key, const struct rp_site_cached *cached);

/* How many of `keys`, from the first on, are known to match no rule: one lock for a stack. */
size_t rp_site_cache_skip(struct rp_site_cache *cache, void *const *keys, size_t count);

void rp_site_cache_clear(struct rp_site_cache *cache);

/* In the child of a fork. If another thread of the parent was inside, what the cache knew is forgotten. */
void rp_site_cache_forked(struct rp_site_cache *cache);

#endif
