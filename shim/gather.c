#include "shim/gather.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "core/clock.h"
#include "core/log.h"
#include "core/record/recorder.h"
#include "shim/call.h"
#include "shim/channel.h"
#include "shim/comm.h"
#include "shim/gather_figures.h"
#include "shim/gpu.h"
#include "shim/pause.h"
#include "shim/site.h"
#include "shim/slots.h"

/* Of everything that ranks must do alike: another number is another version. */
#define TERMS "reprise replay 1"

/* A host that waits polls without sleeping this long, then sleeps in between: verdicts come in microseconds. */
#define SPIN_NS 50000u
#define SLEEP_NS 20000

#define NONBLOCKING "it is nonblocking"

/* Asking the driver for free memory takes as long as several calls. */
#define BUDGET_TURNS 64u

struct rp_gather {
    struct rp_gather *next; /* of those that have an engine, for the report */
    struct rp_channel *channel;
    struct rp_replay *replay;
    struct rp_slots *slots;
    const char *why_not; /* it has no channel; NULL: it has */
    char channel_error[160];
    uint32_t number; /* of the communicator */
    int rank;
    int device;
    uint64_t expected; /* position of the next call, and how many of a group are asked about and not done */
    uint64_t ahead;
    bool has_slots;
    unsigned turns; /* since the start, and the budget as it was asked last */
    uint64_t budget;
    bool late; /* a slot was not settled at the bound: others of the group are not waited for as long again */
    _Atomic bool following; /* calls go through the engine */
    _Atomic bool ending;    /* no more waits */
};

static struct rp_gather_options options;
static bool configured;
static pid_t process; /* that has configured it: a child that no fork handler knows of says nothing */

static struct {
    pthread_mutex_t lock; /* over the list and `total` */
    struct rp_gather *first;
    struct rp_replay_figures total; /* of those that have ended */
} all = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The refusal of this thread's last call. */
static _Thread_local char refusal_text[512] __attribute__((tls_model("initial-exec")));

void rp_gather_configure(const struct rp_gather_options *given)
{
    options = *given;
    process = getpid();
    configured = true;
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
    int length = snprintf(text, sizeof text, TERMS "|%llu|%d", (unsigned long long)options.timeout_ns, options.strict);
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

static const char *presence_text(enum rp_status status)
{
    if (status == RP_NOT_FOUND)
        return "not all of its ranks have Reprise in replay mode on this host";
    if (status == RP_VERSION)
        return "its ranks have different versions or options of Reprise";
    return status == RP_UNSUPPORTED ? "two of its ranks are in one process" : rp_status_text(status);
}

/* NULL, or why it is passive. */
static const char *start(struct rp_gather *gather, const struct rp_trace_comm *about, int device, bool blocking)
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
    struct rp_replay_options replay = {
        .strict = options.strict, .timeout_ns = options.timeout_ns, .granule = RP_SLOTS_GRANULE};
    if (rp_replay_create(agree, table, &replay, tell, gather, &gather->replay) != RP_OK)
        return "out of memory";
    return NULL;
}

void rp_gather_start(struct rp_gather *gather, const struct rp_trace_comm *about, int device, bool blocking)
{
    if (gather == NULL)
        return;
    gather->number = about->number;
    gather->rank = about->rank;
    gather->device = device;
    const char *why = start(gather, about, device, blocking);
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

bool rp_gather_follows(const struct rp_gather *gather)
{
    return gather != NULL && atomic_load_explicit(&gather->following, memory_order_relaxed);
}

/* Fingerprints that have come since the last call. */
static void drain_fingerprints(struct rp_gather *gather)
{
    uint64_t position, value[2];
    while (rp_replay_due(gather->replay, &position)) {
        enum rp_fingerprint_state state = rp_comm_fingerprint_read(gather->number, position, value);
        if (state == RP_FINGERPRINT_PENDING)
            return;
        if (state == RP_FINGERPRINT_LOST) {
            rp_replay_fingerprint_lost(gather->replay);
            return;
        }
        rp_replay_fingerprint(gather->replay, position, value);
    }
}

static void ask_budget(struct rp_gather *gather)
{
    uint64_t most = rp_slots_budget(gather->device, options.budget), held = rp_slots_held(gather->device);
    uint64_t own = rp_slots_own(gather->slots), others = held > own ? held - own : 0;
    gather->budget = most > others ? most - others : 0;
}

/* What this lane could have: the device's budget less what other lanes hold. Asked now and then while it is not armed.
 */
static uint64_t budget_now(struct rp_gather *gather)
{
    if (rp_replay_state(gather->replay) == RP_REPLAY_ARMED || gather->turns++ % BUDGET_TURNS != 0)
        return gather->budget;
    ask_budget(gather);
    return gather->budget;
}

/* Another lane may have got what was told of as free. */
static bool get_slots(struct rp_gather *gather, const struct rp_plan *plan)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < plan->slot_count; i++)
        bytes += plan->slot_bytes[i];
    ask_budget(gather);
    gather->has_slots = true; /* also where it has fewer than it wants */
    return bytes <= gather->budget && rp_slots_resize(gather->slots, plan->slot_bytes, plan->slot_count) == RP_OK;
}

static void drop_slots(struct rp_gather *gather)
{
    rp_slots_resize(gather->slots, NULL, 0);
    gather->has_slots = false;
}

static void take_turn(struct rp_gather *gather)
{
    const struct rp_plan *wants = NULL;
    drain_fingerprints(gather);
    rp_replay_turn(gather->replay, budget_now(gather), &wants);
    if (wants != NULL)
        rp_replay_prepared(gather->replay, get_slots(gather, wants));
    else if (gather->has_slots && rp_replay_idle(gather->replay))
        drop_slots(gather);
}

/* The lane is followed no longer; nobody waits for this rank. */
static void stop(struct rp_gather *gather)
{
    atomic_store(&gather->following, false);
    rp_replay_end(gather->replay);
}

static uint64_t position_ahead(const struct rp_gather *gather, const struct rp_call *call)
{
    /* relaxed: the application hands the communicator from thread to thread in order */
    return atomic_load_explicit(&rp_comm_lane(call->comm)->next, memory_order_relaxed) + gather->ahead;
}

/* "reprise: layers.2 backward expected, layers.3 backward observed: expected all-gather 4.0 KiB, observed ..." */
static void note_refusal(const struct rp_gather *gather, const struct rp_call *call)
{
    struct rp_event expected = rp_replay_refused(gather->replay), observed = rp_site_here(call->arguments.caller);
    snprintf(refusal_text, sizeof refusal_text, "reprise: %s %s expected, %s %s observed: %s",
             rp_module_name(options.modules, expected.module), rp_phase_name(expected.phase),
             rp_module_name(options.modules, observed.module), rp_phase_name(observed.phase),
             rp_replay_refusal(gather->replay));
}

/* A position that was not asked about (memory was out) would put the engine behind its lane. */
void rp_gather_before(struct rp_gather *gather, struct rp_call *call)
{
    call->op.position = position_ahead(gather, call);
    if (call->op.position != gather->expected)
        stop(gather);
    gather->expected = call->op.position + 1;
    if (gather->ahead++ == 0)
        take_turn(gather);
    rp_replay_next(gather->replay, &call->op, rp_monotonic_ns(), &call->step);
    call->verdict = RP_VERDICT_YES;
    refusal_text[0] = '\0';
    if (call->step.serve == RP_SERVE_REFUSE)
        note_refusal(gather, call);
}

const char *rp_gather_refusal(void)
{
    return refusal_text[0] != '\0' ? refusal_text : NULL;
}

/* ---------------------------------------------------------------- waiting */

struct wait {
    uint64_t begin, until;
};

static struct wait wait_begin(const struct rp_gather *gather)
{
    uint64_t now = rp_monotonic_ns();
    return (struct wait){.begin = now, .until = now + rp_replay_bound_ns(gather->replay)};
}

/* False: the bound is reached, or the communicator ends, here or on another rank. */
static bool wait_on(const struct rp_gather *gather, const struct wait *wait)
{
    uint64_t now = rp_monotonic_ns();
    if (now >= wait->until || atomic_load(&gather->ending) || rp_agree_given_up(rp_channel_agree(gather->channel)))
        return false;
    if (now - wait->begin > SPIN_NS)
        rp_pause_ns(SLEEP_NS);
    return true;
}

static bool await_settled(struct rp_gather *gather, uint32_t slot, const struct wait *wait)
{
    while (!rp_slots_settled(gather->slots, slot))
        if (!wait_on(gather, wait))
            return false;
    return true;
}

static enum rp_compare await_compare(struct rp_gather *gather, uint64_t ticket, const struct wait *wait)
{
    enum rp_compare compare;
    while ((compare = rp_slots_compared(gather->slots, ticket)) == RP_COMPARE_PENDING)
        if (!wait_on(gather, wait))
            return RP_COMPARE_PENDING;
    return compare;
}

static enum rp_verdict await_verdict(struct rp_gather *gather, const struct rp_replay_step *step,
                                     enum rp_verdict verdict, const struct wait *wait)
{
    struct rp_agree *agree = rp_channel_agree(gather->channel);
    while (verdict == RP_VERDICT_OPEN) {
        if (!wait_on(gather, wait))
            return rp_agree_withdraw(agree, step->arming, step->position);
        verdict = rp_agree_read(agree, step->arming, step->position);
    }
    return verdict;
}

/* ---------------------------------------------------------------- serving */

/*
 * The slot's fill is seen to have ended before anything of ours waits for it on the caller's stream: behind a
 * collective that waits for a peer it would stop work that the application never ordered behind it.
 */
void rp_gather_offer(struct rp_gather *gather, struct rp_call *call, bool willing)
{
    const struct rp_replay_step *step = &call->step;
    struct wait wait = wait_begin(gather);
    call->offer = RP_OFFER_NONE;
    if (!willing || step->vote != RP_VERDICT_YES || !rp_comm_healthy(call->comm))
        return;
    if (!rp_slots_present(gather->slots, step->slot)) {
        rp_replay_lost(gather->replay);
        return;
    }
    if (gather->late)
        wait.until = wait.begin;
    gather->late = !await_settled(gather, step->slot, &wait);
    if (gather->late) {
        call->offer = RP_OFFER_LATE;
        return;
    }
    const struct rp_call_arguments *a = &call->arguments;
    if (rp_slots_serve(gather->slots, step->slot, a->stream, a->send, a->receive, step->bytes, step->expected,
                       &call->ticket))
        call->offer = RP_OFFER_MADE;
}

/* What this rank votes, once its compare has spoken. */
static enum rp_verdict own_vote(struct rp_gather *gather, struct rp_call *call, const struct wait *wait)
{
    const struct rp_replay_step *step = &call->step;
    if (step->vote != RP_VERDICT_YES)
        return step->vote;
    if (rp_agree_dead(rp_channel_agree(gather->channel), step->arming, step->position))
        return RP_VERDICT_NO; /* a withdrawal before it in the group: no wait of its own */
    if (call->offer == RP_OFFER_LATE)
        return RP_VERDICT_WITHDRAWN;
    if (call->offer != RP_OFFER_MADE)
        return RP_VERDICT_NO;
    enum rp_compare compare = await_compare(gather, call->ticket, wait);
    if (compare == RP_COMPARE_PENDING)
        return RP_VERDICT_WITHDRAWN;
    return compare == RP_COMPARE_EQUAL ? RP_VERDICT_YES : RP_VERDICT_NO;
}

bool rp_gather_decide(struct rp_gather *gather, struct rp_call *call)
{
    const struct rp_replay_step *step = &call->step;
    struct wait wait = wait_begin(gather);
    enum rp_verdict vote = own_vote(gather, call, &wait);
    struct rp_agree *agree = rp_channel_agree(gather->channel);
    call->verdict = rp_agree_vote(agree, step->arming, step->position, step->digest, vote);
    call->verdict = await_verdict(gather, step, call->verdict, &wait);
    /* one bound is paid, though another rank's no came first: that is not to go on from gather to gather */
    if (vote == RP_VERDICT_WITHDRAWN && call->verdict != RP_VERDICT_WITHDRAWN)
        rp_agree_kill(agree, step->arming, step->position + 1);
    call->op.flags |= RP_OP_VOTED;
    if (call->verdict == RP_VERDICT_YES)
        call->op.flags |= RP_OP_HIT;
    else if (call->verdict == RP_VERDICT_WITHDRAWN)
        call->op.flags |= RP_OP_WITHDRAWN;
    /* ended by another thread meanwhile: the communicator may be gone at any moment, and delivers nothing any more */
    return call->verdict == RP_VERDICT_YES || atomic_load(&gather->ending);
}

/*
 * True if the real call's result is to go into the slot. One that was late is still being filled: it stays as it is.
 * What goes on in the background is not enqueued yet, and a copy would come before it.
 */
static bool stores(const struct rp_call *call)
{
    if (call->background)
        return false;
    if (call->step.serve == RP_SERVE_STORE)
        return true;
    return call->step.serve == RP_SERVE_KEEP && call->verdict != RP_VERDICT_YES && call->offer != RP_OFFER_LATE;
}

void rp_gather_after(struct rp_gather *gather, struct rp_call *call, bool accepted)
{
    const struct rp_call_arguments *a = &call->arguments;
    const struct rp_replay_step *step = &call->step;
    if (accepted && stores(call) && rp_slots_present(gather->slots, step->slot) &&
        rp_slots_store(gather->slots, step->slot, a->stream, a->receive, step->bytes, step->serial))
        call->op.flags |= RP_OP_STORED;
    struct rp_replay_result result = {.verdict = call->verdict,
                                      .failed = !accepted,
                                      .event = {.module = call->op.module, .phase = (enum rp_phase)call->op.phase}};
    rp_replay_done(gather->replay, &call->op, step, &result);
    gather->ahead--;
    gather->late = gather->late && gather->ahead > 0;
    if (accepted ? call->op.position != step->position : gather->ahead > 0)
        stop(gather); /* part of a group failed: positions are no longer what was asked about */
    gather->expected = position_ahead(gather, call);
    if (rp_replay_state(gather->replay) == RP_REPLAY_PASSIVE && gather->ahead == 0) {
        drop_slots(gather);
        rp_channel_table_drop(gather->channel);
        atomic_store(&gather->following, false);
    }
}

/* ---------------------------------------------------------------- the end */

void rp_gather_end(struct rp_gather *gather)
{
    if (gather == NULL)
        return;
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
    if (gather->replay != NULL) {
        rp_replay_end(gather->replay);
        list_remove(gather);
        rp_replay_destroy(gather->replay);
    }
    if (gather->slots != NULL)
        rp_slots_destroy(gather->slots);
    rp_channel_close(gather->channel); /* NULL is allowed */
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
    all.total = (struct rp_replay_figures){0};
}
