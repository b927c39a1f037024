/*
 * The site of an op: where the application issued it, as (module, phase). Asked by the collective hooks only, while
 * recording, with no lock of ours held.
 *
 * Sources, each in a file of its own: native stack (site_native.c, libunwind), Python frames (site_python.c, the
 * public C API found at run time), NVTX ranges (site_nvtx.c, as an NVTX injection library). The rules that turn them
 * into names are core/rule.h.
 */
#ifndef RP_SITE_H
#define RP_SITE_H

#include <stdint.h>

#include "core/event.h"

/* `modules` is where names are interned; it must outlive all calls. Called once, before the first rp_site_here(). */
void rp_site_start(struct rp_modules *modules);

/*
 * The event of the calling thread's present place. The module comes from the innermost source that names one:
 * Python frame, else NVTX range, else native frame. The phase: a native backward frame with a Python or NVTX forward
 * is RECOMPUTE where the rule says so, and what they call RECOMPUTE stays it, else BACKWARD; then what Python, else
 * NVTX says; else UNKNOWN. The native stack is asked only where that can change the answer.
 * `caller` is the return address of the hook: where the native stack of the application begins.
 */
struct rp_event rp_site_here(void *caller);

/* Sets NVTX_INJECTION64_PATH to the file of this library if it is unset. From the constructor, when not off. */
void rp_site_nvtx_announce(void);

/* In the child of a fork: locks are made anew, caches kept. */
void rp_site_forked(void);

#endif
