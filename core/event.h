/*
 * Events: (module, phase). Module names are interned once per process or trace; an event holds the number.
 *
 * Threads: a `struct rp_modules` may be used by any number of threads; interning takes a short lock inside, and
 * names stay valid and in place until rp_modules_destroy().
 */
#ifndef RP_EVENT_H
#define RP_EVENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/status.h"

/* X(enumerator, name). UNKNOWN is what no rule named. */
#define RP_PHASES(X)          \
    X(UNKNOWN, "-")           \
    X(FORWARD, "forward")     \
    X(BACKWARD, "backward")   \
    X(RECOMPUTE, "recompute") \
    X(OPTIMIZER, "optimizer") \
    X(OTHER, "other")

enum rp_phase {
#define X(name, text) RP_PHASE_##name,
    RP_PHASES(X)
#undef X
        RP_PHASE_COUNT
};

/* Name of a phase; "-" for a value that is none. Static storage. */
const char *rp_phase_name(enum rp_phase phase);

/* The phase of that name, or RP_PHASE_UNKNOWN. `length` bytes of `name`, which need not be terminated. */
enum rp_phase rp_phase_from_name(const char *name, size_t length);

#define RP_MODULE_UNKNOWN 0u /* the number of the name "-" in every table */

struct rp_event {
    uint32_t module; /* number in a struct rp_modules */
    enum rp_phase phase;
};

/* True if it has a module or a phase. */
static inline bool rp_event_is_named(struct rp_event event)
{
    return event.module != RP_MODULE_UNKNOWN || event.phase != RP_PHASE_UNKNOWN;
}

static inline bool rp_event_is_same(struct rp_event a, struct rp_event b)
{
    return a.module == b.module && a.phase == b.phase;
}

/* The event, with what it does not know taken from another. */
static inline struct rp_event rp_event_filled(struct rp_event event, struct rp_event other)
{
    return (struct rp_event){.module = event.module != RP_MODULE_UNKNOWN ? event.module : other.module,
                             .phase = event.phase != RP_PHASE_UNKNOWN ? event.phase : other.phase};
}

/* What a call is called. */
struct rp_name {
    struct rp_event event;
    struct rp_event launches; /* of its thread's launches behind it; what it does not know is the call's */
    bool begins_step;         /* an annotation rule says that a step begins with it */
};

static inline bool rp_name_is_known(struct rp_name name)
{
    return name.begins_step || rp_event_is_named(name.event);
}

struct rp_modules;

/* A table that holds "-" as number 0. The caller owns it. RP_NO_MEMORY. */
enum rp_status rp_modules_create(struct rp_modules **modules_out);
void rp_modules_destroy(struct rp_modules *modules);

/*
 * In the child of a fork: the lock is made anew. If another thread was adding a name just then, the table takes no
 * new ones from here on (they read as "-").
 */
void rp_modules_forked(struct rp_modules *modules);

/*
 * The number of `name` (length bytes, not terminated; cut at RP_MODULE_NAME_MAX bytes), added if new. Numbers count
 * up from 1 in order of first use. Returns RP_MODULE_UNKNOWN when memory is out or there are RP_MODULES_MAX names (a
 * program may make one up for each step): a name is lost, never the run.
 */
#define RP_MODULE_NAME_MAX 4000
#define RP_MODULES_MAX (1u << 20)
uint32_t rp_module_intern(struct rp_modules *modules, const char *name, size_t length);

/* How many numbers exist: valid ones are below it. */
uint32_t rp_module_count(const struct rp_modules *modules);

/* Name of a number, terminated, owned by the table; "-" if there is no such number. */
const char *rp_module_name(const struct rp_modules *modules, uint32_t module);

#endif
