/*
 * The site of an op: where the application issued it, as (module, phase). Asked by the collective hooks only, while
 * recording, with no lock of ours held.
 *
 * Sources, each in a file of its own: native stack (site_native.c, libunwind), Python frames (site_python.c, the
 * public C API found at run time), NVTX ranges (site_ranges.c; site_nvtx.c, as an NVTX injection library). The rules
 * that turn them into names are core/rules/rule.h.
 */
#ifndef RP_SITE_H
#define RP_SITE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/event.h"
#include "core/record/seen.h"
#include "core/rules/rule.h"

/* Each must outlive all calls. */
struct rp_site_tables {
    struct rp_modules *modules; /* where names are interned */
    const struct rp_rules *rules;
    struct rp_seen *seen; /* what was looked at; or NULL */
};

/* Called once, before the first rp_site_here(). The tables are copied. */
void rp_site_start(const struct rp_site_tables *tables);

/* All zero: unknown. */
struct rp_site_events {
    struct rp_event call;     /* of the collective that is issued here */
    struct rp_event launches; /* of the thread's launches behind it: where the thread goes on */
};

/*
 * The events of the calling thread's present place. The module comes from the innermost source that names one:
 * Python frame, else NVTX range, else native frame. The phase: a native backward frame with a Python or NVTX forward
 * is RECOMPUTE where the rule says so, and what they call RECOMPUTE stays it, else BACKWARD; then what Python, else
 * NVTX says; else UNKNOWN. The native stack is asked only where that can change the answer.
 *
 * The launches' event is found in the same way, without what rules of calls alone say (rule.h: calls_only): such a
 * place may act for another module, as one that gathers ahead, and the thread goes on with what is around it. What then
 * has no name is the call's. `caller` is the return address of the hook: where the native stack of the application
 * begins.
 */
struct rp_site_events rp_site_here(void *caller);

/*
 * How often a step has begun in this process so far, by a rule that says so: a range was opened, or a collective was
 * under a frame where its thread's one before was not. Frames count only where rp_site_here() was asked.
 */
uint64_t rp_site_steps(void);

/* One more step has begun. */
void rp_site_step(void);

/* Whether a rule begins steps by frames. Where none does, every step is seen: ranges tell theirs unasked. */
bool rp_site_frames_begin_steps(void);

/* The calling thread issues a collective whose place is not asked for. */
void rp_site_not_asked(void);

/* Whether any collective's site was asked for: else no rule could match. */
bool rp_site_was_asked(void);

/* What the rules say of the launches of a kernel, whose name is mangled. From the recorder's thread, once a kernel. */
struct rp_kernel_rules rp_site_kernel(const char *name);

/* Sets NVTX_INJECTION64_PATH to the file of this library if it is unset. From the constructor, when not off. */
void rp_site_nvtx_announce(void);

/* In the child of a fork: locks are made anew, caches kept. */
void rp_site_forked(void);

#endif
