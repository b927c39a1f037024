/*
 * Records of a block, each checked before it is believed: its length against the block and against its kind, the
 * end of its text, its numbers against their range. Kinds that this version does not know are skipped by length.
 *
 * Values of an enum that a newer minor version may have added become "unknown": a reader must name them, never
 * index with them.
 */
#include "core/trace/trace_parse.h"

#include <stdlib.h>
#include <string.h>

#include "core/table.h"

static const char *const text_without_end = "a text has no end";

/* Appends a zeroed element to a table of `parse` or its trace, and points `element` at it; returns on failure. */
#define APPEND(table, count, room, element)                                        \
    do {                                                                           \
        void *larger_ = rp_table_grow((table), (count), &(room), sizeof *(table)); \
        if (larger_ == NULL)                                                       \
            return RP_NO_MEMORY;                                                   \
        (table) = larger_;                                                         \
        (element) = &(table)[(count)++];                                           \
        memset((element), 0, sizeof *(element));                                   \
    } while (0)

/* The text at the end of a record, or NULL if it is not terminated inside it. */
static const char *text_of(const struct rp_file_record *record, size_t offset)
{
    const char *text = (const char *)record + offset;
    return offset >= record->bytes || memchr(text, '\0', record->bytes - offset) == NULL ? NULL : text;
}

static void copy_text(char *to, const char *from, size_t size)
{
    size_t length = strnlen(from, size - 1);
    memcpy(to, from, length);
    to[length] = '\0';
}

/* ---------------------------------------------------------------- one function a kind */

static enum rp_status take_process(struct rp_trace_parse *parse, const struct rp_file_record *record,
                                   const char **cause_out)
{
    const struct rp_file_process *process = (const void *)record;
    struct rp_trace_identity *identity = &parse->trace->identity;
    (void)cause_out;
    identity->ticks_per_second = process->ticks_per_second;
    copy_text(identity->host, process->host, sizeof identity->host);
    copy_text(identity->program, process->program, sizeof identity->program);
    return RP_OK;
}

static enum rp_status take_comm(struct rp_trace_parse *parse, const struct rp_file_record *record,
                                const char **cause_out)
{
    const struct rp_file_comm *from = (const void *)record;
    struct rp_trace *trace = parse->trace;
    struct rp_trace_comm *comm;
    (void)cause_out;
    APPEND(trace->comms, trace->comm_count, parse->comms_room, comm);
    comm->number = from->number;
    comm->nranks = from->nranks;
    comm->rank = from->rank;
    comm->parent = from->parent;
    comm->key = from->key;
    comm->made = from->made;
    comm->origin = from->origin <= RP_COMM_SHRINK ? (enum rp_comm_origin)from->origin : RP_COMM_INIT;
    copy_text(comm->name, from->name, sizeof comm->name);
    return RP_OK;
}

static enum rp_status take_module(struct rp_trace_parse *parse, const struct rp_file_record *record,
                                  const char **cause_out)
{
    const struct rp_file_module *from = (const void *)record;
    const char *name = text_of(record, offsetof(struct rp_file_module, name));
    if (name == NULL) {
        *cause_out = text_without_end;
        return RP_CORRUPT;
    }
    struct rp_file_number *module;
    APPEND(parse->modules, parse->modules_count, parse->modules_room, module);
    module->in_file = from->number;
    module->ours = rp_module_intern(parse->trace->modules, name, strlen(name));
    return RP_OK;
}

static enum rp_status take_op(struct rp_trace_parse *parse, const struct rp_file_record *record, const char **cause_out)
{
    const struct rp_file_op *from = (const void *)record;
    struct rp_trace *trace = parse->trace;
    if (from->thread > RP_THREAD_MAX || trace->op_count >= UINT32_MAX - 1) {
        *cause_out = "a thread number or the number of ops is out of range";
        return RP_CORRUPT;
    }
    struct rp_trace_op *op;
    APPEND(trace->ops, trace->op_count, parse->ops_room, op);
    op->op = from->op;
    op->thread = (uint16_t)from->thread;
    op->op.kind = op->op.kind < RP_OP_KIND_COUNT ? op->op.kind : RP_OP_NONE;
    op->op.dtype = op->op.dtype < RP_DTYPE_COUNT ? op->op.dtype : RP_DTYPE_UNKNOWN;
    op->op.redop = op->op.redop < RP_REDOP_COUNT ? op->op.redop : RP_REDOP_NONE;
    op->op.phase = op->op.phase < RP_PHASE_COUNT ? op->op.phase : RP_PHASE_UNKNOWN;
    parse->last_op[op->thread] = (uint32_t)trace->op_count;
    if (!rp_op_kind_is_allocation((enum rp_op_kind)op->op.kind))
        parse->last_call[op->thread] = (uint32_t)trace->op_count;
    return RP_OK;
}

static enum rp_status take_launches(struct rp_trace_parse *parse, const struct rp_file_record *record,
                                    const char **cause_out)
{
    const struct rp_file_part *from = (const void *)record; /* its fields behind `stretch` only if they are there */
    struct rp_file_stretch read = {.after_begin = from->stretch.after_begin,
                                   .count = from->stretch.count,
                                   .digest = from->stretch.digest,
                                   .thread = from->stretch.thread,
                                   .says_event = record->bytes >= sizeof *from};
    if (read.says_event) {
        read.before = from->before;
        read.first = from->first;
        read.module = from->module;
        read.phase = from->phase;
    }
    if (read.thread > RP_THREAD_MAX || read.before > read.count || parse->stretches_count >= UINT32_MAX - 1) {
        *cause_out = "a thread number or a number of launches is out of range";
        return RP_CORRUPT;
    }
    return rp_trace_parse_take_stretch(parse, &read);
}

static enum rp_status take_launch(struct rp_trace_parse *parse, const struct rp_file_record *record,
                                  const char **cause_out)
{
    const struct rp_file_launch *from = (const void *)record;
    if (from->thread > RP_THREAD_MAX) {
        *cause_out = "a thread number is out of range";
        return RP_CORRUPT;
    }
    if (parse->lean)
        return RP_OK;
    struct rp_file_launch *launch;
    APPEND(parse->launches, parse->launches_count, parse->launches_room, launch);
    memcpy(launch, from, sizeof *launch);
    return RP_OK;
}

/* The texts at the end of a site, one after the other. */
/* Those behind the least that there are may be missing: they are the empty end of the last one. */
static bool site_texts(const struct rp_file_record *record, const char *texts_out[RP_SITE_TEXTS])
{
    size_t offset = offsetof(struct rp_file_site, texts);
    for (int i = 0; i < RP_SITE_TEXTS; i++) {
        if (i >= RP_SITE_TEXTS_LEAST && offset == record->bytes)
            offset--;
        texts_out[i] = text_of(record, offset);
        if (texts_out[i] == NULL)
            return false;
        offset += strlen(texts_out[i]) + 1;
    }
    return true;
}

/* Its texts are one allocation, which `text` begins. */
static bool site_fill(struct rp_trace_site *site, const char *const texts[RP_SITE_TEXTS])
{
    const char *end = texts[RP_SITE_TEXTS - 1] + strlen(texts[RP_SITE_TEXTS - 1]) + 1;
    char *copy = malloc((size_t)(end - texts[0]));
    if (copy == NULL)
        return false;
    memcpy(copy, texts[0], (size_t)(end - texts[0]));
    site->text = copy;
    site->where = copy + (texts[1] - texts[0]);
    site->module_rule = copy + (texts[2] - texts[0]);
    site->phase_rule = copy + (texts[3] - texts[0]);
    site->step_rule = copy + (texts[4] - texts[0]);
    return true;
}

static enum rp_status take_site(struct rp_trace_parse *parse, const struct rp_file_record *record,
                                const char **cause_out)
{
    const struct rp_file_site *from = (const void *)record;
    struct rp_trace *trace = parse->trace;
    const char *texts[RP_SITE_TEXTS];
    if (!site_texts(record, texts) || from->number > RP_SITE_MAX) {
        *cause_out = "a text has no end, or the number of a site is out of range";
        return RP_CORRUPT;
    }
    struct rp_trace_site site = {.number = from->number, .source = (enum rp_site_source)from->source};
    if (from->source >= RP_SITE_SOURCE_COUNT)
        return RP_OK; /* one that a newer minor version added */
    struct rp_trace_site *sites = rp_table_grow(trace->sites, trace->site_count, &parse->sites_room, sizeof *sites);
    if (sites == NULL)
        return RP_NO_MEMORY;
    trace->sites = sites;
    if (!site_fill(&site, texts))
        return RP_NO_MEMORY;
    sites[trace->site_count++] = site;
    return RP_OK;
}

static enum rp_status take_site_count(struct rp_trace_parse *parse, const struct rp_file_record *record,
                                      const char **cause_out)
{
    struct rp_file_site_count *count;
    (void)cause_out;
    APPEND(parse->site_counts, parse->site_counts_count, parse->site_counts_room, count);
    memcpy(count, record, sizeof *count);
    return RP_OK;
}

static enum rp_status take_fingerprint(struct rp_trace_parse *parse, const struct rp_file_record *record,
                                       const char **cause_out)
{
    const struct rp_file_fingerprint *from = (const void *)record;
    struct rp_trace_op *op = rp_trace_parse_next_fingerprinted(parse, from);
    struct rp_file_fingerprint *fingerprint;
    (void)cause_out;
    if (op != NULL) {
        memcpy(op->fingerprint, from->value, sizeof op->fingerprint);
        op->has_fingerprint = true;
        return RP_OK;
    }
    APPEND(parse->fingerprints, parse->fingerprints_count, parse->fingerprints_room, fingerprint);
    memcpy(fingerprint, record, sizeof *fingerprint);
    return RP_OK;
}

static enum rp_status take_issue(struct rp_trace_parse *parse, const struct rp_file_record *record,
                                 const char **cause_out)
{
    *cause_out = "the number of gathers ahead is out of range";
    return rp_trace_issue_take(&parse->issues, parse->trace, record);
}

static enum rp_status take_issue_use(struct rp_trace_parse *parse, const struct rp_file_record *record,
                                     const char **cause_out)
{
    (void)cause_out;
    return rp_trace_issue_take_use(&parse->issues, record);
}

static enum rp_status take_kernel(struct rp_trace_parse *parse, const struct rp_file_record *record,
                                  const char **cause_out)
{
    const struct rp_file_kernel *from = (const void *)record;
    struct rp_trace *trace = parse->trace;
    const char *name = text_of(record, offsetof(struct rp_file_kernel, name));
    if (name == NULL) {
        *cause_out = text_without_end;
        return RP_CORRUPT;
    }
    struct rp_trace_kernel *kernels =
        rp_table_grow(trace->kernels, trace->kernel_count, &parse->kernels_room, sizeof *kernels);
    if (kernels == NULL)
        return RP_NO_MEMORY;
    trace->kernels = kernels;
    char *copy = strdup(name);
    if (copy == NULL)
        return RP_NO_MEMORY;
    kernels[trace->kernel_count++] = (struct rp_trace_kernel){from->name_hash, copy};
    return RP_OK;
}

static enum rp_status take_state(struct rp_trace_parse *parse, const struct rp_file_record *record,
                                 const char **cause_out)
{
    const struct rp_file_state *from = (const void *)record;
    struct rp_trace *trace = parse->trace;
    const char *text = text_of(record, offsetof(struct rp_file_state, text));
    if (text == NULL) {
        *cause_out = text_without_end;
        return RP_CORRUPT;
    }
    if (from->state >= RP_STATE_COUNT)
        return RP_OK; /* one that a newer minor version added */
    char *copy = strdup(text);
    if (copy == NULL)
        return RP_NO_MEMORY;
    struct rp_trace_change *states =
        rp_table_grow(trace->states, trace->state_count, &parse->states_room, sizeof *states);
    if (states == NULL) {
        free(copy);
        return RP_NO_MEMORY;
    }
    trace->states = states;
    states[trace->state_count++] =
        (struct rp_trace_change){(enum rp_trace_state)from->state, from->comm, from->ticks, copy};
    return RP_OK;
}

static enum rp_status take_loss(struct rp_trace_parse *parse, const struct rp_file_record *record,
                                const char **cause_out)
{
    const struct rp_file_loss *loss = (const void *)record;
    struct rp_trace *trace = parse->trace;
    (void)cause_out;
    trace->lost_launches += loss->launches;
    trace->lost_ops += loss->ops;
    trace->lost_fingerprints += loss->fingerprints;
    uint32_t last = loss->thread <= RP_THREAD_MAX ? parse->last_op[loss->thread] : 0;
    if (last != 0)
        trace->ops[last - 1].lossy = true;
    return RP_OK;
}

static enum rp_status take_clock(struct rp_trace_parse *parse, const struct rp_file_record *record,
                                 const char **cause_out)
{
    (void)cause_out;
    memcpy(&parse->clock, record, sizeof parse->clock);
    return RP_OK;
}

static enum rp_status take_end(struct rp_trace_parse *parse, const struct rp_file_record *record,
                               const char **cause_out)
{
    (void)record;
    (void)cause_out;
    parse->ended = true;
    return RP_OK;
}

/* ---------------------------------------------------------------- blocks */

static const struct {
    size_t bytes; /* the least that a record of the kind has */
    enum rp_status (*take)(struct rp_trace_parse *, const struct rp_file_record *, const char **);
} kinds[] = {
    [RP_FILE_PROCESS] = {sizeof(struct rp_file_process), take_process},
    [RP_FILE_COMM] = {sizeof(struct rp_file_comm), take_comm},
    [RP_FILE_MODULE] = {sizeof(struct rp_file_module), take_module},
    [RP_FILE_OP] = {sizeof(struct rp_file_op), take_op},
    [RP_FILE_LAUNCHES] = {sizeof(struct rp_file_launches), take_launches},
    [RP_FILE_FINGERPRINT] = {sizeof(struct rp_file_fingerprint), take_fingerprint},
    [RP_FILE_KERNEL] = {sizeof(struct rp_file_kernel), take_kernel},
    [RP_FILE_STATE] = {sizeof(struct rp_file_state), take_state},
    [RP_FILE_LOSS] = {sizeof(struct rp_file_loss), take_loss},
    [RP_FILE_CLOCK] = {sizeof(struct rp_file_clock), take_clock},
    [RP_FILE_END] = {sizeof(struct rp_file_record), take_end},
    [RP_FILE_SITE] = {sizeof(struct rp_file_site), take_site},
    [RP_FILE_SITE_COUNT] = {sizeof(struct rp_file_site_count), take_site_count},
    [RP_FILE_LAUNCH] = {sizeof(struct rp_file_launch), take_launch},
    [RP_FILE_ISSUE] = {sizeof(struct rp_file_issue), take_issue},
    [RP_FILE_ISSUE_USE] = {sizeof(struct rp_file_issue_use), take_issue_use},
};

static enum rp_status take_record(struct rp_trace_parse *parse, const struct rp_file_record *record,
                                  const char **cause_out)
{
    if (record->type >= sizeof kinds / sizeof kinds[0] || kinds[record->type].take == NULL)
        return RP_OK; /* a kind that a newer minor version added */
    if (record->bytes >= kinds[record->type].bytes)
        return kinds[record->type].take(parse, record, cause_out);
    *cause_out = "a record is shorter than its kind";
    return RP_CORRUPT;
}

enum rp_status rp_trace_parse_block(struct rp_trace_parse *parse, const unsigned char *payload, size_t bytes,
                                    size_t *offset_out, const char **cause_out)
{
    for (size_t at = 0; at < bytes;) {
        const struct rp_file_record *record = (const void *)(payload + at);
        *offset_out = at;
        if (parse->ended) {
            *cause_out = "a record follows the end";
            return RP_CORRUPT;
        }
        if (bytes - at < sizeof *record || record->bytes < sizeof *record || record->bytes % 8 != 0 ||
            record->bytes > bytes - at) {
            *cause_out = "the length of a record is out of range";
            return RP_CORRUPT;
        }
        enum rp_status status = take_record(parse, record, cause_out);
        if (status != RP_OK)
            return status;
        at += record->bytes;
    }
    return RP_OK;
}

void rp_trace_parse_free(struct rp_trace_parse *parse)
{
    free(parse->stretches);
    free(parse->launches);
    free(parse->site_counts);
    free(parse->fingerprints);
    free(parse->modules);
    free(parse->last_op);
    free(parse->last_call);
    free(parse->last_stretch);
    free(parse->calls_before);
    rp_trace_issue_free(&parse->issues);
}
