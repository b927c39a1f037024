/*
 * The records of a trace, one function a kind, each put into the writer's block (trace_write.c).
 *
 * Threads: as the writer, one at a time.
 */
#include "core/trace/trace.h"

#include <stddef.h>
#include <string.h>

#include "core/trace/trace_format.h"
#include "core/trace/trace_writer.h"

/* A record of `fixed` bytes that ends in `text`, cut at `max` bytes and terminated. NULL: `*status_out` says why. */
static void *reserve_with_text(struct rp_trace_writer *writer, enum rp_file_record_type type, size_t fixed,
                               const char *text, size_t max, enum rp_status *status_out)
{
    size_t length = strnlen(text, max);
    char *record = rp_trace_reserve(writer, type, fixed + length + 1, status_out);
    if (record != NULL)
        memcpy(record + fixed, text, length);
    return record;
}

enum rp_status rp_trace_put_comm(struct rp_trace_writer *writer, const struct rp_trace_comm *comm)
{
    enum rp_status status;
    struct rp_file_comm *record = rp_trace_reserve(writer, RP_FILE_COMM, sizeof *record, &status);
    if (record == NULL)
        return status;
    record->number = comm->number;
    record->nranks = comm->nranks;
    record->rank = comm->rank;
    record->parent = comm->parent;
    record->key = comm->key;
    record->made = comm->made;
    record->origin = comm->origin;
    memcpy(record->name, comm->name, strnlen(comm->name, sizeof record->name - 1));
    return RP_OK;
}

enum rp_status rp_trace_put_module(struct rp_trace_writer *writer, uint32_t module, const char *name)
{
    enum rp_status status;
    struct rp_file_module *record = reserve_with_text(writer, RP_FILE_MODULE, offsetof(struct rp_file_module, name),
                                                      name, RP_MODULE_NAME_MAX, &status);
    if (record != NULL)
        record->number = module;
    return status;
}

enum rp_status rp_trace_put_op(struct rp_trace_writer *writer, uint32_t thread, const struct rp_op *op)
{
    enum rp_status status;
    struct rp_file_op *record = rp_trace_reserve(writer, RP_FILE_OP, sizeof *record, &status);
    if (record == NULL)
        return status;
    record->thread = thread;
    record->op = *op;
    return RP_OK;
}

enum rp_status rp_trace_put_launches(struct rp_trace_writer *writer, uint32_t thread, uint64_t after_begin,
                                     uint64_t count, uint64_t digest)
{
    enum rp_status status;
    struct rp_file_launches *record = rp_trace_reserve(writer, RP_FILE_LAUNCHES, sizeof *record, &status);
    if (record == NULL)
        return status;
    record->thread = thread;
    record->after_begin = after_begin;
    record->count = count;
    record->digest = digest;
    return RP_OK;
}

enum rp_status rp_trace_put_part(struct rp_trace_writer *writer, uint32_t thread, uint64_t after_begin, uint64_t count,
                                 uint64_t digest, uint64_t before, const struct rp_trace_part *part)
{
    enum rp_status status;
    struct rp_file_part *record = rp_trace_reserve(writer, RP_FILE_LAUNCHES, sizeof *record, &status);
    if (record == NULL)
        return status;
    record->stretch.thread = thread;
    record->stretch.after_begin = after_begin;
    record->stretch.count = count;
    record->stretch.digest = digest;
    record->before = before;
    record->first = part->first;
    record->module = part->event.module;
    record->phase = part->event.phase;
    return RP_OK;
}

enum rp_status rp_trace_put_launch(struct rp_trace_writer *writer, uint64_t after_begin,
                                   const struct rp_trace_launch *launch)
{
    enum rp_status status;
    struct rp_file_launch *record = rp_trace_reserve(writer, RP_FILE_LAUNCH, sizeof *record, &status);
    if (record == NULL)
        return status;
    record->thread = launch->thread;
    record->module = launch->event.module;
    record->phase = (uint16_t)launch->event.phase;
    record->after_begin = after_begin;
    record->ticks = launch->ticks;
    record->name_hash = launch->kernel;
    record->stream = launch->stream;
    record->shared_bytes = launch->shared_bytes;
    memcpy(record->grid, launch->grid, sizeof record->grid);
    memcpy(record->block, launch->block, sizeof record->block);
    return RP_OK;
}

enum rp_status rp_trace_put_site(struct rp_trace_writer *writer, const struct rp_trace_site *site)
{
    const char *const texts[RP_SITE_TEXTS] = {site->text, site->where, site->module_rule, site->phase_rule,
                                              site->step_rule};
    size_t lengths[RP_SITE_TEXTS], bytes = offsetof(struct rp_file_site, texts) + RP_SITE_TEXTS;
    enum rp_status status;
    for (size_t i = 0; i < RP_SITE_TEXTS; i++) {
        lengths[i] = strnlen(texts[i], RP_SITE_TEXT_MAX);
        bytes += lengths[i];
    }
    struct rp_file_site *record = rp_trace_reserve(writer, RP_FILE_SITE, bytes, &status);
    if (record == NULL)
        return status;
    record->number = site->number;
    record->source = site->source;
    char *to = record->texts;
    for (size_t i = 0; i < RP_SITE_TEXTS; i++) {
        memcpy(to, texts[i], lengths[i]);
        to += lengths[i] + 1;
    }
    return RP_OK;
}

enum rp_status rp_trace_put_site_count(struct rp_trace_writer *writer, uint32_t number, uint64_t count)
{
    enum rp_status status;
    struct rp_file_site_count *record = rp_trace_reserve(writer, RP_FILE_SITE_COUNT, sizeof *record, &status);
    if (record == NULL)
        return status;
    record->number = number;
    record->count = count;
    return RP_OK;
}

enum rp_status rp_trace_put_fingerprint(struct rp_trace_writer *writer, uint32_t comm, uint64_t position,
                                        const uint64_t value[2])
{
    enum rp_status status;
    struct rp_file_fingerprint *record = rp_trace_reserve(writer, RP_FILE_FINGERPRINT, sizeof *record, &status);
    if (record == NULL)
        return status;
    record->comm = comm;
    record->position = position;
    record->value[0] = value[0];
    record->value[1] = value[1];
    return RP_OK;
}

enum rp_status rp_trace_put_kernel(struct rp_trace_writer *writer, uint64_t name_hash, const char *name)
{
    enum rp_status status;
    struct rp_file_kernel *record = reserve_with_text(writer, RP_FILE_KERNEL, offsetof(struct rp_file_kernel, name),
                                                      name, RP_KERNEL_NAME_MAX, &status);
    if (record != NULL)
        record->name_hash = name_hash;
    return status;
}

enum rp_status rp_trace_put_state(struct rp_trace_writer *writer, enum rp_trace_state state, uint32_t comm,
                                  uint64_t ticks, const char *text)
{
    enum rp_status status;
    struct rp_file_state *record = reserve_with_text(writer, RP_FILE_STATE, offsetof(struct rp_file_state, text),
                                                     text == NULL ? "" : text, RP_STATE_TEXT_MAX, &status);
    if (record == NULL)
        return status;
    record->state = state;
    record->comm = comm;
    record->ticks = ticks;
    return RP_OK;
}

enum rp_status rp_trace_put_loss(struct rp_trace_writer *writer, uint32_t thread, uint64_t launches, uint64_t ops,
                                 uint64_t fingerprints)
{
    enum rp_status status;
    struct rp_file_loss *record = rp_trace_reserve(writer, RP_FILE_LOSS, sizeof *record, &status);
    if (record == NULL)
        return status;
    record->thread = thread;
    record->launches = launches;
    record->ops = ops;
    record->fingerprints = fingerprints;
    return RP_OK;
}

enum rp_status rp_trace_put_issue(struct rp_trace_writer *writer, const struct rp_issue *issue)
{
    enum rp_status status;
    struct rp_file_issue *record = rp_trace_reserve(writer, RP_FILE_ISSUE, sizeof *record, &status);
    if (record != NULL)
        record->issue = *issue;
    return status;
}

enum rp_status rp_trace_put_issue_use(struct rp_trace_writer *writer, const struct rp_issue_use *use)
{
    enum rp_status status;
    struct rp_file_issue_use *record = rp_trace_reserve(writer, RP_FILE_ISSUE_USE, sizeof *record, &status);
    if (record != NULL)
        record->use = *use;
    return status;
}

enum rp_status rp_trace_put_clock(struct rp_trace_writer *writer, uint64_t ticks, uint64_t wall_ns)
{
    enum rp_status status;
    struct rp_file_clock *record = rp_trace_reserve(writer, RP_FILE_CLOCK, sizeof *record, &status);
    if (record == NULL)
        return status;
    record->ticks = ticks;
    record->wall_ns = wall_ns;
    return RP_OK;
}
