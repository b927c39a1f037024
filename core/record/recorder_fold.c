#include "core/record/recorder_fold.h"

#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "core/trace/trace_format.h"

#define BATCH 512u /* slots are given back to the producer after so many */

/* True if the record is in the trace. */
static bool written(struct rp_fold *fold, enum rp_status status)
{
    fold->broken |= status == RP_IO;
    return status == RP_OK;
}

/* Module names up to that number, so that nothing names one that the trace does not have. */
static void write_modules(struct rp_fold *fold, uint32_t module)
{
    if (module <= fold->modules_written || module >= rp_module_count(fold->options->modules))
        return;
    while (fold->modules_written < module) {
        uint32_t next = fold->modules_written + 1;
        if (!written(fold, rp_trace_put_module(fold->writer, next, rp_module_name(fold->options->modules, next))))
            return;
        fold->modules_written = next;
    }
}

/* ---------------------------------------------------------------- launches */

/* What a stretch's digest is made of; no byte of it is left out of the hash, so none may be padding. */
struct launch_digest {
    uint64_t before;
    uint64_t name;
    uint32_t grid[3];
    uint32_t shared_bytes;
    uint16_t block[3];
    uint16_t zero;
};

_Static_assert(sizeof(struct launch_digest) == 40, "no padding");

static uint64_t digest_of(uint64_t before, uint64_t name, const struct rp_launch *launch)
{
    struct launch_digest digest = {.before = before, .name = name, .shared_bytes = launch->shared_bytes};
    memcpy(digest.grid, launch->grid, sizeof digest.grid);
    memcpy(digest.block, launch->block, sizeof digest.block);
    return XXH64(&digest, sizeof digest, 0);
}

static enum rp_status put_part(struct rp_fold *fold, const struct rp_producer *producer)
{
    const struct rp_stretch *stretch = &producer->stretch;
    struct rp_trace_part part = {.event = stretch->part.event, .first = stretch->part.first};
    if (stretch->after_begin != 0 && stretch->part.before == 0 && rp_event_is_same(part.event, stretch->event))
        return rp_trace_put_launches(fold->writer, producer->number, stretch->after_begin, stretch->count,
                                     stretch->digest);
    write_modules(fold, part.event.module);
    return rp_trace_put_part(fold->writer, producer->number, stretch->after_begin, stretch->count, stretch->digest,
                             stretch->part.before, &part);
}

/* Writes the part as far as it is known, if the trace does not have that yet. */
static void write_part(struct rp_fold *fold, struct rp_producer *producer)
{
    struct rp_stretch *stretch = &producer->stretch;
    if (stretch->count == stretch->written)
        return;
    if (!written(fold, put_part(fold, producer)))
        producer->lost_launches_unsaid += stretch->count - stretch->written;
    stretch->written = stretch->count;
}

/* The next launch is the first of a part. */
static void begin_part(struct rp_stretch *stretch, struct rp_event event, uint64_t ticks)
{
    stretch->part.event = event;
    stretch->part.before = stretch->count;
    stretch->part.first = ticks;
}

static void put_launch(struct rp_fold *fold, const struct rp_producer *producer, const struct rp_launch *launch,
                       uint64_t kernel)
{
    struct rp_trace_launch single = {.event = producer->stretch.part.event,
                                     .ticks = launch->ticks,
                                     .kernel = kernel,
                                     .stream = launch->stream,
                                     .shared_bytes = launch->shared_bytes,
                                     .thread = (uint16_t)producer->number};
    memcpy(single.grid, launch->grid, sizeof single.grid);
    memcpy(single.block, launch->block, sizeof single.block);
    write_modules(fold, single.event.module);
    /* one that finds no room is missed by its reader: the stretch counts it */
    written(fold, rp_trace_put_launch(fold->writer, producer->stretch.after_begin, &single));
}

static void fold_launch(struct rp_fold *fold, struct rp_producer *producer, const struct rp_launch *launch)
{
    struct rp_stretch *stretch = &producer->stretch;
    struct rp_kernel kernel = rp_kernel_names_find(&fold->kernels, launch->function, fold->writer);
    struct rp_event event = rp_event_filled(kernel.event, stretch->place); /* where rules do not say it */
    if (stretch->count == stretch->part.before || !rp_event_is_same(event, stretch->part.event)) {
        write_part(fold, producer);
        begin_part(stretch, event, launch->ticks);
    }
    stretch->digest = digest_of(stretch->digest, kernel.hash, launch);
    stretch->count++;
    if (fold->options->seen != NULL)
        rp_seen_count(fold->options->seen, kernel.seen);
    if (fold->options->single_launches)
        put_launch(fold, producer, launch, kernel.hash);
}

void rp_fold_stretch(struct rp_fold *fold, struct rp_producer *producer)
{
    struct rp_stretch *stretch = &producer->stretch;
    write_part(fold, producer);
    if (stretch->after_begin == 0) /* a thread that never has an op: its parts say about when they were */
        stretch->part.before = stretch->count;
}

/* ---------------------------------------------------------------- losses */

/* `force`: also if there is nothing to count, to mark the stretch that is open. */
static void say_losses(struct rp_fold *fold, struct rp_producer *producer, bool force)
{
    if (!force && producer->lost_launches_unsaid == 0 && producer->lost_ops_unsaid == 0)
        return;
    enum rp_status status =
        rp_trace_put_loss(fold->writer, producer->number, producer->lost_launches_unsaid, producer->lost_ops_unsaid, 0);
    if (!written(fold, status))
        return;
    producer->lost_launches_unsaid = 0;
    producer->lost_ops_unsaid = 0;
}

/*
 * Looks at the ring's counters. What was lost since the last look was lost somewhere after the records of that time:
 * in the stretch that is open now, or in one of those about to be read; all of them are marked.
 */
static void look_for_losses(struct rp_producer *producer)
{
    struct rp_ring *ring = producer->ring;
    uint64_t launches = atomic_load_explicit(&ring->lost_launches, memory_order_relaxed);
    uint64_t ops = atomic_load_explicit(&ring->lost_ops, memory_order_relaxed);
    producer->lossy = launches != producer->lost_launches_seen || ops != producer->lost_ops_seen;
    producer->lost_launches_unsaid += launches - producer->lost_launches_seen;
    producer->lost_ops_unsaid += ops - producer->lost_ops_seen;
    producer->lost_launches_seen = launches;
    producer->lost_ops_seen = ops;
}

/* ---------------------------------------------------------------- fingerprints */

static void want_fingerprint(struct rp_fold *fold, const struct rp_op *op)
{
    if (fold->options->fingerprint == NULL || op->position == RP_NO_POSITION)
        return;
    if (fold->wanted_count == RP_FINGERPRINTS_UNDER_WAY) {
        fold->fingerprints_lost_unsaid++;
        return;
    }
    fold->wanted[fold->wanted_count++] = (struct rp_fingerprint_wanted){op->position, op->comm};
}

/* True if it is settled. */
static bool settle_fingerprint(struct rp_fold *fold, const struct rp_fingerprint_wanted *wanted)
{
    uint64_t value[2];
    enum rp_fingerprint_state state = fold->options->fingerprint(wanted->comm, wanted->position, value);
    if (state == RP_FINGERPRINT_PENDING)
        return false;
    if (state == RP_FINGERPRINT_LOST ||
        !written(fold, rp_trace_put_fingerprint(fold->writer, wanted->comm, wanted->position, value)))
        fold->fingerprints_lost_unsaid++;
    return true;
}

static void say_lost_fingerprints(struct rp_fold *fold)
{
    if (fold->fingerprints_lost_unsaid == 0)
        return;
    if (written(fold, rp_trace_put_loss(fold->writer, RP_THREAD_NONE, 0, 0, fold->fingerprints_lost_unsaid)))
        fold->fingerprints_lost_unsaid = 0;
}

void rp_fold_fingerprints(struct rp_fold *fold)
{
    uint32_t left = 0;
    for (uint32_t i = 0; i < fold->wanted_count; i++)
        if (!settle_fingerprint(fold, &fold->wanted[i]))
            fold->wanted[left++] = fold->wanted[i];
    fold->wanted_count = left;
    say_lost_fingerprints(fold);
}

void rp_fold_fingerprints_give_up(struct rp_fold *fold)
{
    fold->fingerprints_lost_unsaid += fold->wanted_count;
    fold->wanted_count = 0;
    say_lost_fingerprints(fold);
}

/* ---------------------------------------------------------------- ops and notes */

static void fold_op(struct rp_fold *fold, struct rp_producer *producer, const struct rp_op *op)
{
    write_modules(fold, op->module);
    if (!rp_op_kind_is_allocation((enum rp_op_kind)op->kind)) {
        rp_fold_stretch(fold, producer);
        struct rp_event event = {op->module, (enum rp_phase)op->phase};
        producer->stretch = (struct rp_stretch){.after_begin = op->begin, .event = event, .place = event};
    }
    if (!written(fold, rp_trace_put_op(fold->writer, producer->number, op))) {
        producer->lost_ops_unsaid++;
        return;
    }
    if (producer->lossy)
        say_losses(fold, producer, true);
    if (op->flags & RP_OP_FINGERPRINTED)
        want_fingerprint(fold, op);
}

void rp_fold_sites(struct rp_fold *fold, bool counts)
{
    if (written(fold, rp_sites_write(&fold->sites, fold->writer)) && counts)
        written(fold, rp_sites_write_counts(&fold->sites, fold->writer));
}

void rp_fold_notes(struct rp_fold *fold)
{
    struct rp_note *note = rp_mail_take(fold->mail);
    while (note != NULL) {
        struct rp_note *next = note->next;
        written(fold, note->kind == RP_NOTE_COMM
                          ? rp_trace_put_comm(fold->writer, &note->comm)
                          : rp_trace_put_state(fold->writer, note->state, note->state_comm, note->ticks, note->text));
        free(note);
        note = next;
    }
}

static void fold_record(struct rp_fold *fold, struct rp_producer *producer, const union rp_record *record)
{
    if (record->type == RP_RECORD_LAUNCH)
        fold_launch(fold, producer, &record->launch);
    else if (record->type == RP_RECORD_OP)
        fold_op(fold, producer, &record->op);
    else if (record->type == RP_RECORD_PLACE)
        producer->stretch.place = (struct rp_event){record->place.module, (enum rp_phase)record->place.phase};
    else if (record->type == RP_RECORD_ISSUE) /* one that finds no room is missed by its number */
        written(fold, rp_trace_put_issue(fold->writer, &record->issue.issue));
    else if (record->type == RP_RECORD_ISSUE_USE)
        written(fold, rp_trace_put_issue_use(fold->writer, &record->issue.use));
}

static void fold_records(struct rp_fold *fold, struct rp_producer *producer, uint64_t first, uint64_t count)
{
    struct rp_ring *ring = producer->ring;
    while (count > 0) {
        uint64_t batch = count < BATCH ? count : BATCH;
        for (uint64_t i = 0; i < batch; i++)
            fold_record(fold, producer, &ring->slots[(first + i) & ring->mask]);
        rp_ring_consume(ring, batch);
        first += batch;
        count -= batch;
    }
}

/* The next thread that gets this producer starts a stretch of its own. */
static void retire(struct rp_fold *fold, struct rp_producer *producer)
{
    rp_fold_stretch(fold, producer);
    producer->stretch = (struct rp_stretch){0};
    /* pairs with the acquire in producer.c, find_free() */
    atomic_store_explicit(&producer->state, RP_PRODUCER_FREE, memory_order_release);
}

uint64_t rp_fold_producer(struct rp_fold *fold, struct rp_producer *producer)
{
    /* The state first: an ended thread pushes no more, so what is peeked after it is all there will be. */
    int state = atomic_load_explicit(&producer->state, memory_order_acquire);
    uint64_t first;
    uint64_t count = rp_ring_peek(producer->ring, &first);
    look_for_losses(producer);
    say_losses(fold, producer, false);
    if (count > 0) {
        /* After the peek: a communicator was announced before its ops were pushed. */
        rp_fold_notes(fold);
        fold_records(fold, producer, first, count);
    }
    if (state == RP_PRODUCER_ENDED)
        retire(fold, producer);
    return count;
}
