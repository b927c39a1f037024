/*
 * The life of the library in a process: unstarted until the first hook, then off or active for good.
 *
 * Threads: hooks of any thread. Everything per thread is in rp_thread, so a hook takes no lock to know its state.
 */
#ifndef RP_RUNTIME_H
#define RP_RUNTIME_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum rp_run_state { RP_RUN_UNSTARTED, RP_RUN_STARTING, RP_RUN_OFF, RP_RUN_ACTIVE };

extern _Atomic int rp_run_state;

struct rp_thread {
    bool inside;          /* in a hook: calls that come now are the vendor's own or ours */
    unsigned group_depth; /* of ncclGroupStart */
    uint32_t groups;      /* outermost groups so far: the number of the present one */
    uint64_t last_begin;  /* ticks of the last op: the next is larger */
};

extern _Thread_local struct rp_thread rp_thread __attribute__((tls_model("initial-exec")));

/*
 * Starts at the first hook: reads the options. True if active. While one thread does so others wait, so that no
 * communicator is made unseen; for half a second at most.
 */
bool rp_run_start(void);

/* True while recording. */
static inline bool rp_active(void)
{
    int state = atomic_load_explicit(&rp_run_state, memory_order_relaxed);
    if (__builtin_expect(state == RP_RUN_ACTIVE, 1))
        return true;
    return state <= RP_RUN_STARTING && rp_run_start();
}

/* Enters a hook: false if the call must only be passed on (off, or re-entered). Pairs with rp_hook_leave(). */
static inline bool rp_hook_enter(void)
{
    if (!rp_active() || rp_thread.inside)
        return false;
    rp_thread.inside = true;
    return true;
}

static inline void rp_hook_leave(void)
{
    rp_thread.inside = false;
}

/* The first communicator exists: this rank is known, lines for the whole job are due. Once; later calls do nothing. */
void rp_run_announce(int comm_rank);

#endif
