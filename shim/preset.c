#include "shim/preset.h"

#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/replay/learn.h"
#include "core/trace/trace_lane.h"
#include "shim/job.h"

#define DIRECTORY_SHOWN 48 /* bytes of the directory's name, so that there is room for the cause */

/* One of the recorded communicators. */
struct recorded {
    struct recorded *next;
    struct rp_trace_comm about;
    struct rp_preset *preset; /* NULL: no calls that can be used */
    bool gathers;             /* its calls have gathers */
};

static struct {
    pthread_mutex_t lock; /* over all below */
    const char *directory;
    struct rp_modules *modules;
    bool read, said;
    enum rp_preset_lack lack; /* of the trace as a whole; UNTOLD: it was read */
    char cause[RP_PRESET_CAUSE_MAX];
    struct recorded *first; /* in the order in which they were made */
} order = {.lock = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local char cause_text[RP_PRESET_CAUSE_MAX] __attribute__((tls_model("initial-exec")));

void rp_preset_configure(const char *directory, struct rp_modules *modules)
{
    order.directory = directory;
    order.modules = modules;
}

/* ---------------------------------------------------------------- reading */

static struct rp_event event_of(const struct rp_trace *trace, const struct rp_op *op)
{
    const char *name = rp_module_name(trace->modules, op->module);
    uint32_t module = RP_MODULE_UNKNOWN;
    if (op->module != RP_MODULE_UNKNOWN)
        module = rp_module_intern(order.modules, name, strlen(name));
    return (struct rp_event){.module = module, .phase = (enum rp_phase)op->phase};
}

/* How many calls at the beginning can be used: up to the first gather whose content is not known. */
static size_t usable(const struct rp_trace_lane *lane)
{
    for (size_t i = 0; i < lane->count; i++) {
        const struct rp_trace_op *op = lane->ops[i];
        if ((op->op.kind == RP_OP_ALL_GATHER && !op->has_fingerprint) || op->op.count >= RP_OP_BYTES_MOST)
            return i;
    }
    return lane->count;
}

static struct rp_preset *make_preset(const struct rp_trace *trace, const struct rp_trace_comm *comm,
                                     const struct rp_trace_lane *lane)
{
    size_t count = usable(lane);
    struct rp_preset *preset = count == 0 ? NULL : malloc(sizeof *preset + count * sizeof preset->calls[0]);
    if (preset == NULL)
        return NULL;
    preset->key = comm->key;
    preset->count = count;
    for (size_t i = 0; i < count; i++) {
        const struct rp_trace_op *op = lane->ops[i];
        preset->calls[i] = (struct rp_preset_call){
            .signature = rp_op_signature(&op->op),
            .bytes = rp_op_bytes(&op->op),
            .content = {op->fingerprint[0], op->fingerprint[1]},
            .name = {.event = event_of(trace, &op->op), .begins_step = (op->op.flags & RP_OP_STEP) != 0},
            .kind = op->op.kind,
            .packable = rp_learned_packable((enum rp_op_kind)op->op.kind, (enum rp_dtype)op->op.dtype)};
    }
    return preset;
}

/* Memory that is out is a communicator without calls. */
static struct recorded *keep_comm(const struct rp_trace *trace, const struct rp_trace_comm *comm)
{
    struct rp_trace_lane lane = {0};
    size_t most = comm->nranks < 2 ? 0 : rp_learn_positions((uint32_t)comm->nranks);
    struct recorded *recorded = calloc(1, sizeof *recorded);
    if (recorded == NULL)
        return NULL;
    recorded->about = *comm;
    if (most > 0 && rp_trace_lane_make(trace, comm->number, most, &lane) == RP_OK) {
        for (size_t i = 0; i < lane.count; i++)
            recorded->gathers |= lane.ops[i]->op.kind == RP_OP_ALL_GATHER;
        recorded->preset = recorded->gathers ? make_preset(trace, comm, &lane) : NULL;
    }
    rp_trace_lane_free(&lane);
    return recorded;
}

static void keep_comms(const struct rp_trace *trace)
{
    struct recorded **end = &order.first;
    for (size_t i = 0; i < trace->comm_count; i++) {
        *end = keep_comm(trace, &trace->comms[i]);
        if (*end != NULL)
            end = &(*end)->next;
    }
}

__attribute__((format(printf, 2, 3))) static void lack(enum rp_preset_lack lack, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(order.cause, sizeof order.cause, format, arguments);
    va_end(arguments);
    order.lack = lack;
}

static enum rp_preset_lack lack_of(enum rp_status status)
{
    if (status == RP_NOT_FOUND)
        return RP_PRESET_NO_TRACE;
    return status == RP_VERSION ? RP_PRESET_VERSION : RP_PRESET_UNREADABLE;
}

/* The end of a long one says most. */
static const char *directory_name(char *name, size_t size)
{
    size_t length = strlen(order.directory);
    bool fits = length <= DIRECTORY_SHOWN;
    snprintf(name, size, "%s%s", fits ? "" : "...", order.directory + (fits ? 0 : length - DIRECTORY_SHOWN));
    return name;
}

/* A launcher says which rank this is and of how many; else the first communicator, which then should have them all. */
static void read_trace(const struct rp_trace_comm *about)
{
    struct rp_job job = rp_job_read();
    int rank = job.rank >= 0 ? job.rank : about->rank, nranks = job.nranks > 0 ? job.nranks : about->nranks;
    char file[PATH_MAX], cause[120];
    struct rp_trace *trace;
    snprintf(file, sizeof file, "%s/rank-%d.rpt", order.directory, rank);
    enum rp_status status = rp_trace_read_head(file, RP_PRESET_BYTES, cause, sizeof cause, &trace);
    if (status != RP_OK) {
        char name[DIRECTORY_SHOWN + sizeof "..."];
        lack(lack_of(status), "rank-%d.rpt of REPRISE_ORDER (%s): %s", rank, directory_name(name, sizeof name), cause);
        return;
    }
    if (trace->identity.nranks != 0 && trace->identity.nranks != nranks)
        lack(RP_PRESET_NRANKS, "REPRISE_ORDER is of a run of %d ranks, not %d", trace->identity.nranks, nranks);
    else
        keep_comms(trace);
    rp_trace_free(trace);
}

/* ---------------------------------------------------------------- finding */

/* The first one that is like it and was not found yet is off the list then. */
static struct recorded *take_like(const struct rp_trace_comm *about)
{
    for (struct recorded **link = &order.first; *link != NULL; link = &(*link)->next) {
        struct recorded *recorded = *link;
        const struct rp_trace_comm *there = &recorded->about;
        if (there->origin != about->origin || there->nranks != about->nranks || there->rank != about->rank)
            continue;
        *link = recorded->next;
        return recorded;
    }
    return NULL;
}

static void give(const struct rp_trace_comm *about, struct rp_replay_options *options)
{
    struct recorded *recorded = take_like(about);
    if (recorded == NULL) {
        options->preset_lack = RP_PRESET_NO_COMM;
        snprintf(cause_text, sizeof cause_text, "REPRISE_ORDER has no such communicator of %d ranks", about->nranks);
    } else if (!recorded->gathers) {
        options->preset_lack = RP_PRESET_SAID; /* nothing on it is replayed */
    } else if (recorded->preset == NULL) {
        options->preset_lack = RP_PRESET_NO_CONTENT;
        snprintf(cause_text, sizeof cause_text, "REPRISE_ORDER has no calls with fingerprints of it");
    } else {
        options->preset = recorded->preset;
    }
    free(recorded);
}

void rp_preset_find(const struct rp_trace_comm *about, struct rp_replay_options *options)
{
    if (order.directory == NULL)
        return;
    cause_text[0] = '\0';
    options->preset_cause = cause_text;
    pthread_mutex_lock(&order.lock);
    if (!order.read)
        read_trace(about);
    order.read = true;
    if (order.lack == RP_PRESET_UNTOLD) {
        give(about, options);
    } else {
        options->preset_lack = order.said ? RP_PRESET_SAID : order.lack;
        memcpy(cause_text, order.cause, sizeof cause_text);
        order.said = true;
    }
    pthread_mutex_unlock(&order.lock);
}

/* What the parent has read stays its own. */
void rp_preset_forked(void)
{
    pthread_mutex_init(&order.lock, NULL);
    order.read = order.said = false;
    order.lack = RP_PRESET_UNTOLD;
    order.first = NULL;
}
