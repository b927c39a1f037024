/*
 * Start, fork and end. Nothing happens in a process until its first hook runs, but for one environment variable that
 * must be there before the first NVTX range: a preload reaches shells, compilers and launchers, and leaves them alone.
 */
#include "shim/runtime.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "config/options.h"
#include "core/log.h"
#include "core/record/recorder.h"
#include "core/record/seen.h"
#include "shim/annotations.h"
#include "shim/comm.h"
#include "shim/fingerprints.h"
#include "shim/gather.h"
#include "shim/gpu.h"
#include "shim/group.h"
#include "shim/job.h"
#include "shim/launch_names.h"
#include "shim/pause.h"
#include "shim/preset.h"
#include "shim/site.h"
#include "shim/slots.h"
#include "shim/waits.h"

/* How long the end of the process may wait for fingerprints that the device has not delivered. */
#define LAST_FINGERPRINTS_MS 500

/* Half a second, while another thread starts. */
#define START_WAIT_NS 100000
#define START_WAITS 5000

_Atomic int rp_run_state;
_Thread_local struct rp_thread rp_thread;

static struct {
    struct rp_options options;
    struct rp_modules *modules;
    struct rp_rules *rules;
    struct rp_seen *seen;
    _Atomic bool announced;
} run;

/* The child starts anew at its own first hook: threads, files and contexts of the parent do not exist in it. */
static void forked_child(void)
{
    rp_recorder_forked();
    rp_log_forked();
    rp_site_forked();
    rp_comm_forked();
    rp_group_forked();
    rp_gpu_forked();
    rp_fingerprints_forked();
    rp_slots_forked();
    rp_gather_forked();
    rp_preset_forked();
    rp_launch_names_forked();
    rp_waits_forked();
    if (run.modules != NULL)
        rp_modules_forked(run.modules);
    if (run.seen != NULL)
        rp_seen_forked(run.seen);
    rp_thread = (struct rp_thread){0};
    atomic_store(&run.announced, false);
    atomic_store(&rp_run_state, RP_RUN_UNSTARTED);
}

static void forked_parent(void)
{
    rp_recorder_state(RP_STATE_FORKED, RP_NO_COMM, NULL);
}

/* What names are made of; kept by a child that starts anew. */
static bool make_tables(void)
{
    if (run.modules == NULL && rp_modules_create(&run.modules) != RP_OK)
        return false;
    if (run.seen == NULL && rp_seen_create(&run.seen) != RP_OK)
        return false;
    if (run.rules == NULL)
        run.rules = rp_annotations_load(run.options.annotations);
    return run.rules != NULL;
}

static bool record_start(void)
{
    static _Atomic bool fork_handled;
    struct rp_recorder_options options = {.directory = run.options.trace,
                                          .kernel_name = rp_launch_name,
                                          .kernel_rules = rp_site_kernel,
                                          .fingerprint = rp_comm_fingerprint_read,
                                          .single_launches = run.options.detail == RP_DETAIL_LAUNCHES};
    if (!make_tables())
        return false;
    options.modules = run.modules;
    options.seen = run.seen;
    if (rp_recorder_start(&options) != RP_OK)
        return false;
    rp_site_start(&(struct rp_site_tables){.modules = run.modules, .rules = run.rules, .seen = run.seen});
    if (!atomic_exchange(&fork_handled, true))
        pthread_atfork(NULL, forked_parent, forked_child);
    return true;
}

/* Replay records as well: its trace shows where each gather's bytes came from. */
static bool replay_start(void)
{
    struct rp_gather_options gather = {.budget = run.options.budget,
                                       .timeout_ns = run.options.timeout_ns,
                                       .strict = run.options.strict,
                                       .trial = run.options.trial,
                                       .prefetch = run.options.prefetch,
                                       .pack = run.options.pack};
    rp_fingerprints_configure(RP_FINGERPRINTING_FULL); /* a plan rests on all bytes of what it learned from */
    if (!record_start())
        return false;
    gather.modules = run.modules;
    rp_gather_configure(&gather);
    rp_preset_configure(run.options.order, run.modules);
    return true;
}

static bool mode_start(void)
{
    switch (run.options.mode) {
    case RP_MODE_OFF:
        return false;
    case RP_MODE_RECORD:
        rp_fingerprints_configure(run.options.fingerprint);
        return record_start();
    case RP_MODE_REPLAY:
        return replay_start();
    }
    return false;
}

/* A child forked by a third thread meanwhile has no thread that starts: it stays off. */
static bool await_start(void)
{
    int starting = RP_RUN_STARTING;
    for (int i = 0; i < START_WAITS && !rp_thread.inside && atomic_load(&rp_run_state) == starting; i++)
        rp_pause_ns(START_WAIT_NS);
    if (!rp_thread.inside)
        atomic_compare_exchange_strong(&rp_run_state, &starting, RP_RUN_OFF);
    return atomic_load(&rp_run_state) == RP_RUN_ACTIVE;
}

/* No communicator will be seen, so what is wrong with the options is said now, by the rank that the launcher names. */
static void speak_when_off(void)
{
    int rank = rp_job_read().rank;
    if (rank >= 0)
        rp_log_set_rank(rank);
}

bool rp_run_start(void)
{
    int unstarted = RP_RUN_UNSTARTED;
    if (!atomic_compare_exchange_strong(&rp_run_state, &unstarted, RP_RUN_STARTING))
        return await_start();
    rp_thread.inside = true;
    rp_options_read(environ, &run.options);
    rp_log_setup(run.options.log_level, run.options.log_pattern);
    bool active = mode_start();
    if (!active)
        speak_when_off();
    rp_thread.inside = false;
    atomic_store(&rp_run_state, active ? RP_RUN_ACTIVE : RP_RUN_OFF);
    return active;
}

void rp_run_announce(int comm_rank)
{
    if (atomic_exchange(&run.announced, true))
        return;
    struct rp_job job = rp_job_read();
    rp_log_set_rank(job.rank >= 0 ? job.rank : comm_rank);
}

/* Only here, before main(): a program may push its first NVTX range before it calls anything that we hook. */
__attribute__((constructor)) static void loaded(void)
{
    if (rp_options_mode(getenv("REPRISE_MODE")) != RP_MODE_OFF)
        rp_site_nvtx_announce();
}

__attribute__((destructor)) static void unloaded(void)
{
    int active = RP_RUN_ACTIVE;
    if (!atomic_compare_exchange_strong(&rp_run_state, &active, RP_RUN_OFF))
        return;
    rp_gather_report();
    rp_recorder_stop(LAST_FINGERPRINTS_MS);
    if (rp_site_was_asked()) /* behind the stop, which still asks the rules for the last kernels */
        rp_annotations_report(run.rules, rp_gather_configured() ? 0 : rp_site_steps());
}
