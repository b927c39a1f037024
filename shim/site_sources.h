/*
 * What the files of site.c share: what the rules say of one place, how places make the finding of a source, and a cache
 * of places. Private to shim/site*.c.
 */
#ifndef RP_SITE_SOURCES_H
#define RP_SITE_SOURCES_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/event.h"
#include "core/record/seen.h"
#include "core/rules/rule.h"
#include "shim/site.h"

/* One question. */
struct rp_site_query {
    const struct rp_site_tables *tables;
    void *caller;      /* see rp_site_here() */
    bool whole;        /* look at all there is, also where the answer is known: for the list of what was seen */
    uint64_t *counted; /* RP_SEEN_MAX bits, by number: under what it was counted so far; NULL: it is not counted */
};

/* What the rules say of one frame, range or symbol. */
struct rp_site_place {
    uint32_t module;               /* said by text: interned; or RP_MODULE_UNKNOWN */
    uint32_t seen;                 /* its number in the list of what was seen, or RP_SEEN_NONE */
    const struct rp_rule *by_path; /* or NULL: says the module by a path, to be read in the frame */
    uint8_t phase, in_backward;    /* enum rp_phase */
    bool nested, step;
    bool module_of_calls, phase_of_calls; /* that one is not of the launches behind a call (rule.h: calls_only) */
};

/* A place of which no rule says anything, and which is in no list. */
static inline struct rp_site_place rp_site_no_place(void)
{
    return (struct rp_site_place){.seen = RP_SEEN_NONE};
}

/* Asks the rules. `listed`: it is noted as seen. Called with no lock of ours held. */
struct rp_site_place rp_site_ask(const struct rp_site_tables *tables, enum rp_rule_source source, const char *text,
                                 const char *where, bool listed);

#define RP_SITE_NESTED 16 /* modules inside one another that are joined */

/* What one source says of one thing. All zero: nothing. */
struct rp_site_said {
    uint32_t module; /* interned, or RP_MODULE_UNKNOWN */
    enum rp_phase phase;
    enum rp_phase in_backward; /* of the rule that said the phase (rule.h) */
    unsigned nested_count;
    uint32_t nested[RP_SITE_NESTED]; /* the modules of places that are nested, from the innermost outwards */
};

/* What one source says of the calling thread's present place. All zero: nothing. */
struct rp_site_finding {
    struct rp_site_said call, launches; /* alike where no rule of calls alone has matched */
    bool step;                          /* one of the places is in a step */
};

/*
 * Adds the next place outwards, and counts it as one that a collective was under, once however often the stack has it;
 * `module`: of the place, where it is wanted.
 */
void rp_site_take(const struct rp_site_query *query, struct rp_site_finding *finding, const struct rp_site_place *place,
                  uint32_t module);

/* Whether a module of the next place outwards would be used. */
bool rp_site_wants_module(const struct rp_site_finding *finding, const struct rp_site_place *place);

/* Whether no place further out can add anything. */
bool rp_site_done(const struct rp_site_query *query, enum rp_rule_source source, const struct rp_site_finding *finding);

/* After the last place: makes one module of nested ones, for calls and for launches. */
void rp_site_join(const struct rp_site_query *query, struct rp_site_finding *finding);

/* Each fills `finding`, which is all zero, with what its source says. */
void rp_site_from_native(const struct rp_site_query *query, struct rp_site_finding *finding);
void rp_site_from_python(const struct rp_site_query *query, struct rp_site_finding *finding);
void rp_site_from_nvtx(const struct rp_site_query *query, struct rp_site_finding *finding);

/* How often the loader has mapped and unmapped a library: tells when a cached address or a search in vain is stale. */
struct rp_site_loader {
    unsigned long long adds, subs;
};
struct rp_site_loader rp_site_loader_now(void);

/* Finds the unwinder. From rp_site_start(). */
void rp_site_native_start(void);

/* The event that the sources make together, as site.h says. */
struct rp_event rp_site_combine(const struct rp_site_said *python, const struct rp_site_said *nvtx,
                                const struct rp_site_said *native);

/* True once rp_site_start() or rp_site_nvtx_announce() was called: ranges are kept. */
extern _Atomic bool rp_site_on;

/* What rp_site_start() was given, or NULL before. */
const struct rp_site_tables *rp_site_tables(void);

/* Interns a name; an empty one is RP_RULE_ROOT. */
uint32_t rp_site_intern(struct rp_modules *modules, const char *name, size_t length);

/* ---------------------------------------------------------------- site_cache.c */

struct rp_site_cache;

extern struct rp_site_cache rp_site_addresses; /* return addresses of native stacks; starts anew when it is full */
extern struct rp_site_cache rp_site_codes;     /* code objects of Python; takes no more when it is full */

/* Each takes the cache's own short lock; nothing is called and no other lock taken inside. */
bool rp_site_cache_find(struct rp_site_cache *cache, const void *key, struct rp_site_place *place_out);

/* False if this call added nothing: the key was there, the cache is full or memory is out. */
bool rp_site_cache_add(struct rp_site_cache *cache, const void *key, const struct rp_site_place *place);

/* The places of `keys`, from the first on, as far as they are known; returns how many: one lock for a stack. */
size_t rp_site_cache_find_all(struct rp_site_cache *cache, void *const *keys, size_t count,
                              struct rp_site_place *places_out);

void rp_site_cache_clear(struct rp_site_cache *cache);

/* In the child of a fork. If another thread of the parent was inside, what the cache knew is forgotten. */
void rp_site_cache_forked(struct rp_site_cache *cache);

#endif
