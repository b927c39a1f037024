/*
 * Serving from the announcement of a communicator to its end: the channel, who is there, the engine and its slots, the
 * figures. What is done for a call stands in gather.c.
 *
 * Threads: as gather.h says.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "core/log.h"
#include "core/record/recorder.h"
#include "shim/gather_figures.h"
#include "shim/gather_private.h"
#include "shim/gpu.h"
#include "shim/live.h"
#include "shim/preset.h"

/* Of everything that ranks must do alike: another number is another version. */
#define TERMS "reprise replay 3"

#define NONBLOCKING "it is nonblocking"

struct rp_gather_options rp_gather_options;
static bool configured;
static pid_t process; /* that has configured it: a child that no fork handler knows of says nothing */

static struct {
    pthread_mutex_t lock; /* over the list and `total` */
    struct rp_gather *first;
    struct rp_replay_figures total; /* of those that have ended */
} all = {.lock = PTHREAD_MUTEX_INITIALIZER};

void rp_gather_configure(const struct rp_gather_options *given)
{
    rp_gather_options = *given;
    process = getpid();
    configured = true;
    if (given->prefetch)
        rp_live_begin();
}

bool rp_gather_configured(void)
{
    return configured;
}

bool rp_gather_names(const struct rp_gather *gather)
{
    if (gather == NULL)
        return !configured;
    enum rp_replay_state state = rp_replay_state(gather->replay);
    return state == RP_REPLAY_LEARNING || state == RP_REPLAY_ARMING;
}

static uint64_t terms(void)
{
    char text[128];
    int length =
        snprintf(text, sizeof text, TERMS "|%llu|%d|%d|%d|%d", (unsigned long long)rp_gather_options.timeout_ns,
                 rp_gather_options.strict, rp_gather_options.trial, rp_gather_options.prefetch, rp_gather_options.pack);
    return XXH3_64bits(text, (size_t)length);
}

/* One line a job for each reason; the trace has it for each communicator. */
static void say_passive(const char *reason)
{
    static _Atomic uint64_t said;
    uint64_t bit = UINT64_C(1) << (XXH3_64bits(reason, strlen(reason)) % 64);
    if ((atomic_fetch_or(&said, bit) & bit) == 0)
        rp_log_job(RP_LOG_WARN, "replay", "a communicator is not replayed: %s", reason);
}

/* Why no communicator of this process can be served, or NULL. */
static const char *hindrance(void)
{
    const char *value = getenv("CUDA_LAUNCH_BLOCKING");
    if (value != NULL && strcmp(value, "0") != 0 && value[0] != '\0')
        return "CUDA_LAUNCH_BLOCKING is set";
    value = getenv("NCCL_COMM_ID");
    if (value != NULL && value[0] != '\0')
        return "NCCL_COMM_ID gives all communicators one id";
    return NULL;
}

struct rp_gather *rp_gather_announce(uint64_t key, uint32_t seats, bool blocking)
{
    struct rp_gather *gather = configured ? calloc(1, sizeof *gather) : NULL;
    if (gather == NULL)
        return NULL;
    pthread_mutex_init(&gather->child_lock, NULL);
    gather->why_not = blocking ? hindrance() : NONBLOCKING;
    if (seats < 2)
        gather->why_not = "it has one rank";
    if (gather->why_not == NULL && rp_channel_open(key, seats, terms(), &gather->channel) != RP_OK)
        gather->why_not = strncpy(gather->channel_error, rp_channel_error(), sizeof gather->channel_error - 1);
    return gather;
}

void rp_gather_arrived(struct rp_gather *gather)
{
    if (gather != NULL && gather->channel != NULL)
        rp_channel_unlink(gather->channel);
}

static void list_add(struct rp_gather *gather)
{
    pthread_mutex_lock(&all.lock);
    gather->next = all.first;
    all.first = gather;
    pthread_mutex_unlock(&all.lock);
}

/* Off the list, its figures kept. */
static void list_remove(struct rp_gather *gather)
{
    struct rp_replay_figures figures;
    rp_replay_figures(gather->replay, &figures);
    pthread_mutex_lock(&all.lock);
    struct rp_gather **link = &all.first;
    while (*link != NULL && *link != gather)
        link = &(*link)->next;
    if (*link != NULL)
        *link = gather->next;
    rp_figures_add(&all.total, &figures);
    pthread_mutex_unlock(&all.lock);
    rp_figures_record(gather->number, &figures);
}

static void tell(void *context, enum rp_replay_state state, const char *text)
{
    struct rp_gather *gather = context;
    /* its end is no news */
    int speaker = atomic_load(&gather->ending) ? -1 : gather->rank;
    rp_figures_tell(gather->number, speaker, state, text);
}

static bool new_id(void *context, struct rp_replay_id *id_out)
{
    const struct rp_gather *gather = context;
    return rp_child_id(gather->real, id_out);
}

static const char *presence_text(enum rp_status status)
{
    if (status == RP_NOT_FOUND)
        return "not all of its ranks have Reprise in replay mode on this host";
    if (status == RP_VERSION)
        return "its ranks have different versions or options of Reprise";
    return status == RP_UNSUPPORTED ? "two of its ranks are in one process" : rp_status_text(status);
}

/* NULL, or why it is passive; `options` has a preset order, then the engine's, or none. */
static const char *start(struct rp_gather *gather, const struct rp_trace_comm *about, int device, bool blocking,
                         struct rp_replay_options *options)
{
    if (gather->why_not != NULL)
        return gather->why_not;
    if (!blocking)
        return NONBLOCKING;
    if (about->nranks < 2)
        return "it has one rank";
    struct rp_agree *agree = rp_channel_agree(gather->channel);
    enum rp_status status = rp_agree_complete(agree, (uint32_t)about->nranks, (uint32_t)about->rank);
    if (status != RP_OK)
        return presence_text(status);
    void *table = rp_channel_table(gather->channel);
    if (table == NULL)
        return rp_channel_error();
    if (rp_slots_create(device, (uint32_t)about->nranks, (uint32_t)about->rank, &gather->slots) != RP_OK)
        return rp_gpu_error();
    options->granule = rp_slots_granule(gather->slots);
    status = rp_replay_create(agree, table, options, tell, gather, &gather->replay);
    options->preset = NULL;
    return status == RP_OK ? NULL : "out of memory";
}

void rp_gather_start(struct rp_gather *gather, const struct rp_trace_comm *about, int device, bool blocking)
{
    if (gather == NULL)
        return;
    gather->number = about->number;
    gather->rank = about->rank;
    gather->device = device;
    struct rp_replay_options options = {.strict = rp_gather_options.strict,
                                        .trial = rp_gather_options.trial,
                                        .packs = rp_gather_options.pack,
                                        .timeout_ns = rp_gather_options.timeout_ns,
                                        .new_id = rp_gather_options.prefetch ? new_id : NULL};
    if (about->nranks > 1)
        rp_preset_find(about, &options); /* also where it is passive: the next one like it is the next there */
    const char *why = start(gather, about, device, blocking, &options);
    free(options.preset);
    if (why == NULL) {
        list_add(gather);
        atomic_store(&gather->following, true);
        return;
    }
    /* the others must not wait for what this rank will never answer */
    if (gather->channel != NULL)
        rp_agree_give_up(rp_channel_agree(gather->channel));
    rp_recorder_state(RP_STATE_REPLAY_PASSIVE, about->number, why);
    if (about->nranks > 1)
        say_passive(why);
}

/* ---------------------------------------------------------------- the end */

void rp_gather_end(struct rp_gather *gather, bool aborted)
{
    if (gather == NULL)
        return;
    if (aborted) {
        atomic_store(&gather->aborted, true);
        rp_gather_cut_child(gather);
    }
    atomic_store(&gather->ending, true);
    atomic_store(&gather->following, false);
    if (gather->channel != NULL)
        rp_agree_give_up(rp_channel_agree(gather->channel)); /* nobody waits for this rank's votes */
}

void rp_gather_close(struct rp_gather *gather)
{
    if (gather == NULL)
        return;
    atomic_store(&gather->following, false);
    rp_gather_watch(gather, false);
    if (gather->child != NULL && !atomic_load(&gather->aborted))
        rp_child_finish(gather->child, rp_gather_options.timeout_ns);
    rp_gather_drop_child(gather);
    if (gather->replay != NULL) {
        rp_replay_end(gather->replay);
        list_remove(gather);
        rp_replay_destroy(gather->replay);
    }
    if (gather->slots != NULL)
        rp_slots_destroy(gather->slots);
    rp_channel_close(gather->channel); /* NULL is allowed */
    free(gather->sends);
    pthread_mutex_destroy(&gather->child_lock);
    free(gather);
}

void rp_gather_report(void)
{
    if (!configured || process != getpid())
        return;
    pthread_mutex_lock(&all.lock);
    struct rp_replay_figures total = all.total;
    for (const struct rp_gather *gather = all.first; gather != NULL; gather = gather->next) {
        struct rp_replay_figures figures;
        rp_replay_figures(gather->replay, &figures);
        rp_figures_record(gather->number, &figures);
        rp_figures_add(&total, &figures);
    }
    pthread_mutex_unlock(&all.lock);
    rp_figures_say(&total);
}

/* What the parent had is its own: not freed, not unmapped where it is not mapped. */
void rp_gather_forked(void)
{
    pthread_mutex_init(&all.lock, NULL);
    all.first = NULL;
    rp_gather_ahead_forked();
    rp_live_forked();
    all.total = (struct rp_replay_figures){0};
}
