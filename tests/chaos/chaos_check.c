/*
 * What was delivered, and whether it is right. Copies are made in the order of the stream that delivered, so looking
 * adds no synchronisation; comparing happens on the host when the device is idle.
 */
#include "tests/chaos/chaos_rank.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WRONG_LINES_MAX 4
#define GUARD_VALUE 0x5a
#define TRANSFER_KEY 0x40000000u

struct chaos_content chaos_transfer_content(const struct chaos_action *action)
{
    return (struct chaos_content){.key = TRANSFER_KEY, .major = action->serial};
}

int chaos_pair(int from, int to)
{
    return from * CHAOS_RANKS_MAX + to;
}

/* UNEVEN: the member at `place` sends (place + 1) parts; where its bytes begin. The root sends none. */
size_t chaos_uneven_offset(const struct chaos_action *action, int root, int place)
{
    size_t parts = (size_t)place * ((size_t)place + 1) / 2;
    return (parts - (place > root ? (size_t)root + 1 : 0)) * action->count;
}

/* Recording ------------------------------------------------------------------------------------------------------- */

/* At most what is delivered between two looks: the arena is never full. */
static size_t arena_need(const struct chaos_program *program)
{
    size_t most = 0;
    for (int step = 0; step < program->steps; step++) {
        int end = step + program->check_every < program->steps ? step + program->check_every : program->steps;
        size_t bytes = 0;
        for (size_t i = program->first[step]; i < program->first[end]; i++) {
            const struct chaos_action *action = &program->actions[i];
            bytes += 2 * CHAOS_GUARD;
            if (action->kind == CHAOS_GATHER)
                bytes += (size_t)program->ranks * action->count;
            else if (chaos_is_operation(action))
                bytes += (size_t)CHAOS_RANKS_MAX * (CHAOS_RANKS_MAX + 1) / 2 * 4 * action->count;
        }
        most = bytes > most ? bytes : most;
    }
    size_t buffers = 2 * CHAOS_UNITS_MAX + CHAOS_COMMS_MAX * (CHAOS_SLOTS_MAX + CHAOS_SCRATCHES) + 2;
    return most + buffers * 2 * CHAOS_GUARD;
}

void chaos_check_start(struct chaos_rank *me)
{
    size_t room = arena_need(me->program), staging = CHAOS_CONTENT_MAX + me->program->scratch_bytes;
    int threads = me->program->threads || me->program->parallel ? 2 : 1;
    for (int i = 0; i < threads; i++) {
        struct chaos_thread *thread = &me->threads[i];
        thread->arena = calloc(1, room);
        thread->arena_room = room;
        thread->delivery_room = me->program->count + 1024;
        thread->deliveries = calloc(thread->delivery_room, sizeof *thread->deliveries);
        thread->staging = malloc(staging);
        if (!thread->arena || !thread->deliveries || !thread->staging)
            chaos_die(me, "out of memory");
        CHAOS_CUDA(me, cudaHostRegister(thread->arena, room, cudaHostRegisterDefault));
    }
}

void chaos_check_end(struct chaos_rank *me)
{
    for (int i = 0; i < CHAOS_THREADS; i++) {
        if (me->threads[i].arena)
            CHAOS_CUDA(me, cudaHostUnregister(me->threads[i].arena));
        free(me->threads[i].arena);
        free(me->threads[i].deliveries);
        free(me->threads[i].staging);
    }
}

void chaos_delivery_copy(struct chaos_rank *me, const struct chaos_delivery *delivery, cudaStream_t stream)
{
    CHAOS_CUDA(me, cudaMemcpyAsync(delivery->host, delivery->device, delivery->bytes, cudaMemcpyDeviceToHost, stream));
}

void chaos_delivered(struct chaos_rank *me, const struct chaos_delivery *what, int thread, cudaStream_t stream,
                     struct chaos_buffer *buffer)
{
    struct chaos_thread *mine = &me->threads[thread];
    if (mine->delivery_count == mine->delivery_room || what->bytes > mine->arena_room - mine->arena_used)
        chaos_die(me, "more is delivered than the program says");
    struct chaos_delivery *delivery = &mine->deliveries[mine->delivery_count++];
    *delivery = *what;
    delivery->host = mine->arena + mine->arena_used;
    mine->arena_used += delivery->bytes;
    if (buffer) {
        buffer->pending = delivery;
        buffer->pending_stream = stream;
    } else {
        chaos_delivery_copy(me, delivery, stream);
    }
}

/* Comparing ------------------------------------------------------------------------------------------------------- */

struct wrong {
    const struct chaos_delivery *delivery;
    size_t at; /* first wrong byte */
    int from;  /* rank whose part it is in, or -1 */
};

static int step_of(const struct chaos_program *program, const struct chaos_action *action)
{
    size_t index = (size_t)(action - program->actions);
    int step = 0;
    while (step + 1 < program->steps && index >= program->first[step + 1])
        step++;
    return step;
}

/* A part that is all old is the fault that matters most: say which. */
static void say_stale(struct chaos_rank *me, const struct wrong *wrong)
{
    const struct chaos_program *program = me->program;
    const struct chaos_action *action = wrong->delivery->action;
    const char *part = wrong->delivery->host + wrong->at / action->count * action->count;
    for (size_t i = 0; i < program->count; i++) {
        const struct chaos_action *other = &program->actions[i];
        if (other->kind != CHAOS_GATHER || other->count != action->count ||
            chaos_content_differs(part, action->count, &other->content[wrong->from], wrong->from) < action->count)
            continue;
        fprintf(stderr, "chaos: [rank %d]     the part is what action %zu gathers (step %d, unit %d)\n", me->rank, i,
                step_of(program, other), other->unit);
        return;
    }
    fprintf(stderr, "chaos: [rank %d]     the part is what no gather of the program delivers\n", me->rank);
}

static void say_wrong(struct chaos_rank *me, const struct wrong *wrong)
{
    static const char *const names[] = {
#define X(name, text) text,
        CHAOS_KINDS(X)
#undef X
    };
    struct chaos_figures *figures = chaos_figures_of(me);
    if (figures->wrong++ >= WRONG_LINES_MAX)
        return;
    const struct chaos_action *action = wrong->delivery->action;
    if (!action) {
        fprintf(stderr, "chaos: [rank %d] wrong: a byte beside a buffer was written\n", me->rank);
        return;
    }
    fprintf(stderr,
            "chaos: [rank %d] wrong: step %d, action %zu, %s of unit %d on communicator %d: byte %zu of %zu is 0x%02x"
            " (part of rank %d)\n",
            me->rank, step_of(me->program, action), (size_t)(action - me->program->actions), names[action->kind],
            action->unit, action->comm, wrong->at, wrong->delivery->bytes,
            (unsigned char)wrong->delivery->host[wrong->at], wrong->from);
    if (action->kind == CHAOS_GATHER)
        say_stale(me, wrong);
}

struct part {
    size_t offset, bytes;
    struct chaos_content content;
    int salt; /* for chaos_content_write() */
    int from;
};

static void part_check(struct chaos_rank *me, const struct chaos_delivery *delivery, const struct part *part)
{
    size_t at = chaos_content_differs(delivery->host + part->offset, part->bytes, &part->content, part->salt);
    if (at < part->bytes)
        say_wrong(me, &(struct wrong){delivery, part->offset + at, part->from});
}

static int32_t expected_value(const struct chaos_action *action, const int *members, int count, size_t index)
{
    int32_t value = chaos_value(action->serial, members[0], index);
    for (int i = 1; i < count; i++) {
        int32_t other = chaos_value(action->serial, members[i], index);
        if (!action->maximum)
            value += other;
        else if (other > value)
            value = other;
    }
    return value;
}

static void reduction_check(struct chaos_rank *me, const struct chaos_delivery *delivery, const int *members, int count,
                            int place)
{
    const struct chaos_action *action = delivery->action;
    size_t first = action->kind == CHAOS_REDUCE_SCATTER ? (size_t)place * action->count : 0;
    for (size_t i = 0; i < action->count; i++) {
        int32_t value = expected_value(action, members, count, first + i);
        float number = (float)value;
        const void *expected = action->integers ? (const void *)&value : (const void *)&number;
        if (memcmp(delivery->host + 4 * i, expected, 4) == 0)
            continue;
        say_wrong(me, &(struct wrong){delivery, 4 * i, -1});
        return;
    }
}

/* The parts of the operations that only move bytes; returns how many. */
static int parts_of(const struct chaos_rank *me, const struct chaos_action *action, const int *members, int count,
                    struct part parts_out[CHAOS_RANKS_MAX])
{
    int place = 0, parts = 0;
    while (members[place] != me->rank)
        place++;
    struct chaos_content content = chaos_transfer_content(action);
    size_t bytes = action->count;
    int from;
    switch (action->kind) {
    case CHAOS_GATHER:
        for (; parts < count; parts++)
            parts_out[parts] = (struct part){(size_t)parts * bytes, bytes, action->content[members[parts]],
                                             members[parts], members[parts]};
        return parts;
    case CHAOS_ALL_TO_ALL:
        for (; parts < count; parts++)
            parts_out[parts] = (struct part){(size_t)parts * bytes, bytes, content,
                                             chaos_pair(members[parts], me->rank), members[parts]};
        return parts;
    case CHAOS_UNEVEN:
        for (int i = 0; i < count; i++)
            if (i != action->root)
                parts_out[parts++] = (struct part){chaos_uneven_offset(action, action->root, i),
                                                   (size_t)(i + 1) * bytes, content, members[i], members[i]};
        return parts;
    case CHAOS_BROADCAST:
        from = members[action->root];
        break;
    case CHAOS_RING:
        from = members[(place + count - 1) % count];
        break;
    default: /* PEER_RECV */
        from = me->rank - 1;
    }
    parts_out[0] = (struct part){0, bytes, content, from, from};
    return 1;
}

static void delivery_check(struct chaos_rank *me, const struct chaos_delivery *delivery)
{
    const struct chaos_action *action = delivery->action;
    struct part parts[CHAOS_RANKS_MAX];
    int members[CHAOS_RANKS_MAX], place = 0;
    chaos_figures_of(me)->bytes += delivery->bytes;
    if (!action) {
        for (size_t i = 0; i < delivery->bytes; i++)
            if (delivery->host[i] != GUARD_VALUE) {
                say_wrong(me, &(struct wrong){delivery, i, -1});
                return;
            }
        return;
    }
    int count = chaos_members(me->program, action->comm, me->rank, members);
    while (members[place] != me->rank)
        place++;
    if (action->kind == CHAOS_REDUCE_SCATTER || action->kind == CHAOS_ALL_REDUCE) {
        reduction_check(me, delivery, members, count, place);
        return;
    }
    int part_count = parts_of(me, action, members, count, parts);
    for (int i = 0; i < part_count; i++)
        part_check(me, delivery, &parts[i]);
}

void chaos_check_all(struct chaos_rank *me)
{
    chaos_park_if_expired(me);
    for (int i = 0; i < CHAOS_THREADS; i++) {
        struct chaos_thread *thread = &me->threads[i];
        for (size_t k = 0; k < thread->delivery_count; k++)
            delivery_check(me, &thread->deliveries[k]);
        thread->delivery_count = thread->arena_used = 0;
        while (thread->graph_count > 0)
            CHAOS_CUDA(me, cudaGraphExecDestroy(thread->graphs[--thread->graph_count]));
    }
}
