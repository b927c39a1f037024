/*
 * The steps: microbatches, the optimizer, evaluation, logging, and what happens in between.
 */
#include "tests/chaos/chaos_maker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALL_RANKS ((uint8_t)((1 << CHAOS_RANKS_MAX) - 1))
#define LAG_US_MAX 30000

struct chaos_action *chaos_emit(struct chaos_maker *maker, enum chaos_kind kind)
{
    struct chaos_program *program = maker->program;
    if (program->count == program->room) {
        program->room = program->room ? 2 * program->room : 256;
        program->actions = realloc(program->actions, program->room * sizeof *program->actions);
        if (!program->actions) {
            fputs("chaos: out of memory\n", stderr);
            exit(1);
        }
    }
    struct chaos_action *action = &program->actions[program->count++];
    *action = (struct chaos_action){.kind = (uint8_t)kind, .number = ++maker->number};
    return action;
}

bool chaos_unit_active(const struct chaos_maker *maker, int unit)
{
    const struct chaos_unit *it = &maker->program->units[unit];
    return maker->step >= it->first_step && maker->step <= it->last_step && unit != maker->skipped &&
           !maker->destroyed[it->comm];
}

/* Which thread issues what belongs to a communicator. */
static uint8_t thread_of(const struct chaos_maker *maker, int comm, bool backward)
{
    return maker->program->parallel ? comm == 1 : maker->program->threads && backward;
}

/* Contents --------------------------------------------------------------------------------------------------------- */

static void write_emit(struct chaos_maker *maker, int unit, uint8_t ranks, bool backward)
{
    const struct chaos_unit *it = &maker->program->units[unit];
    struct chaos_action *action = chaos_emit(maker, CHAOS_WRITE);
    action->unit = (uint8_t)unit;
    action->comm = it->comm;
    action->thread = thread_of(maker, it->comm, backward);
    /* Threads that issue at once share no stream: one could wait there for what the other has yet to issue. */
    bool first = maker->program->parallel && it->comm == 0;
    action->stream = (uint8_t)(first ? 0 : maker->program->streams - 1);
    action->ranks = ranks;
    memcpy(action->content, maker->now[unit], sizeof action->content);
}

static void content_change(struct chaos_maker *maker, int unit, uint8_t ranks, uint32_t version, bool sparse)
{
    for (int rank = 0; rank < CHAOS_RANKS_MAX; rank++) {
        struct chaos_content *now = &maker->now[unit][rank];
        if (!(ranks >> rank & 1) || rank == maker->program->units[unit].constant)
            continue;
        if (sparse)
            now->minor = version;
        else
            *now = (struct chaos_content){.key = now->key, .major = version};
    }
}

/* Inside a step, behind the back of whoever believes that nothing changes there. */
static void edit(struct chaos_maker *maker, bool backward)
{
    const struct chaos_program *program = maker->program;
    bool one = chaos_draw(maker, 50), sparse = chaos_draw(maker, 40);
    uint8_t ranks = one ? (uint8_t)(1 << chaos_below(&maker->random, program->ranks)) : ALL_RANKS;
    int first = chaos_below(&maker->random, program->unit_count);
    int count = chaos_draw(maker, 60) ? 1 : chaos_between(&maker->random, 1, program->unit_count);
    uint32_t version = maker->version++;
    for (int i = 0; i < count; i++) {
        int unit = (first + i) % program->unit_count;
        if (maker->destroyed[program->units[unit].comm])
            continue;
        content_change(maker, unit, ranks, version, sparse);
        write_emit(maker, unit, ranks, backward);
    }
    chaos_feature(maker->program, one ? CHAOS_HAS_EDIT_ONE : CHAOS_HAS_EDIT_ALL);
}

static bool optimizer_changes(const struct chaos_maker *maker, int unit)
{
    return maker->step >= maker->zero_steps && maker->step != maker->hold_step && !maker->program->units[unit].frozen;
}

static void optimize(struct chaos_maker *maker, int unit, uint32_t version, bool backward)
{
    bool changes = optimizer_changes(maker, unit);
    if (maker->destroyed[maker->program->units[unit].comm] || (!changes && !maker->rewrite))
        return;
    if (changes)
        content_change(maker, unit, ALL_RANKS, version, maker->sparse);
    write_emit(maker, unit, ALL_RANKS, backward);
}

/* Equal layers stay equal: all units get one version. */
static uint32_t optimizer_version(struct chaos_maker *maker)
{
    if (maker->returning)
        return 1000000 + (uint32_t)(maker->step % maker->returning);
    return maker->version++;
}

/* Operations ------------------------------------------------------------------------------------------------------- */

static uint8_t scratch_next(struct chaos_maker *maker, int comm)
{
    return (uint8_t)(maker->next_scratch[comm]++ % CHAOS_SCRATCHES);
}

static void gather_fill(struct chaos_maker *maker, const struct chaos_entry *entry, struct chaos_action *action)
{
    const struct chaos_unit *unit = &maker->program->units[entry->unit];
    action->slot = (uint8_t)(maker->next_slot[unit->comm]++ % maker->program->slots);
    action->count = unit->bytes;
    memcpy(action->content, maker->now[entry->unit], sizeof action->content);
    if (entry->host_wait && maker->gathered[unit->comm]) {
        action->host_wait = true;
        chaos_feature(maker->program, CHAOS_HAS_HOST_WAIT);
    }
}

static void transfer_fill(struct chaos_maker *maker, const struct chaos_entry *entry, struct chaos_action *action)
{
    const struct chaos_program *program = maker->program;
    int members[CHAOS_RANKS_MAX];
    uint32_t count = 1 + program->units[entry->unit].bytes / 16;
    action->slot = scratch_next(maker, action->comm);
    action->count = count < 1024 ? count : 1024;
    action->serial = ++maker->serial;
    action->in_place = chaos_draw(maker, 30);
    action->integers = chaos_draw(maker, 30);
    action->maximum = chaos_draw(maker, 20);
    /* A place that every communicator of a split has. */
    int least = chaos_members(program, action->comm, 1, members);
    action->root = (uint8_t)chaos_below(&maker->random, least);
}

static void kind_feature(struct chaos_program *program, int kind)
{
    static const enum chaos_feature features[] = {
        [CHAOS_REDUCE_SCATTER] = CHAOS_HAS_REDUCE,
        [CHAOS_ALL_REDUCE] = CHAOS_HAS_ALL_REDUCE,
        [CHAOS_BROADCAST] = CHAOS_HAS_BROADCAST,
        [CHAOS_ALL_TO_ALL] = CHAOS_HAS_ALL_TO_ALL,
        [CHAOS_RING] = CHAOS_HAS_RING,
        [CHAOS_UNEVEN] = CHAOS_HAS_UNEVEN,
    };
    if (kind != CHAOS_GATHER)
        chaos_feature(program, features[kind]);
}

static struct chaos_action *operate(struct chaos_maker *maker, const struct chaos_entry *entry, bool backward)
{
    const struct chaos_unit *unit = &maker->program->units[entry->unit];
    struct chaos_action *action = chaos_emit(maker, (enum chaos_kind)entry->kind);
    action->unit = entry->unit;
    action->comm = unit->comm;
    action->thread = thread_of(maker, unit->comm, backward);
    action->stream = entry->stream;
    action->poison = entry->poison;
    action->late = entry->late;
    kind_feature(maker->program, entry->kind);
    if (entry->kind == CHAOS_GATHER)
        gather_fill(maker, entry, action);
    else
        transfer_fill(maker, entry, action);
    return action;
}

/* Odd ranks receive before they gather and gather only when they have received; their peers send after they gathered.
 * The ranks must have been connected. */
static void peer_exchange(struct chaos_maker *maker, const struct chaos_entry *entry)
{
    const struct chaos_program *program = maker->program;
    const struct chaos_unit *unit = &program->units[entry->unit];
    uint8_t slot = scratch_next(maker, CHAOS_PEER_COMM);
    uint32_t serial = ++maker->serial;
    for (int i = 0; i < 3; i++) {
        if (i == 1) {
            operate(maker, entry, false)->after_peer = true;
            continue;
        }
        struct chaos_action *action = chaos_emit(maker, i == 0 ? CHAOS_PEER_RECV : CHAOS_PEER_SEND);
        action->comm = CHAOS_PEER_COMM;
        action->slot = slot;
        action->serial = serial;
        action->count = 1 + unit->bytes / 16;
        action->count = action->count < 1024 ? action->count : 1024;
    }
}

/* In between ------------------------------------------------------------------------------------------------------- */

static void lag(struct chaos_maker *maker)
{
    struct chaos_action *action = chaos_emit(maker, CHAOS_LAG);
    action->root = (uint8_t)chaos_below(&maker->random, maker->program->ranks);
    action->count = (uint32_t)chaos_below(&maker->random, LAG_US_MAX);
    chaos_feature(maker->program, CHAOS_HAS_LAG);
}

static void reallocate(struct chaos_maker *maker)
{
    const struct chaos_program *program = maker->program;
    int comm = program->parallel || maker->destroyed[1] || program->comm_count < 2 ? 0 : chaos_below(&maker->random, 2);
    struct chaos_action *action = chaos_emit(maker, CHAOS_REALLOC);
    action->comm = (uint8_t)comm;
    action->slot = (uint8_t)chaos_below(&maker->random, program->slots);
    action->root = (uint8_t)chaos_below(&maker->random, CHAOS_REALLOCS);
    chaos_feature(maker->program, CHAOS_HAS_REALLOC);
}

static void incident(struct chaos_maker *maker, bool backward)
{
    if (!chaos_draw(maker, maker->incident_percent))
        return;
    int which = chaos_below(&maker->random, 8);
    if (which < 4 && maker->edits)
        edit(maker, backward);
    else if (which == 4 && maker->lags)
        lag(maker);
    else if (which == 5 && maker->reallocs)
        reallocate(maker);
    else if (which == 6)
        chaos_emit(maker, CHAOS_SYNC);
}

static bool peer_due(struct chaos_maker *maker, const struct chaos_entry *entry)
{
    return maker->program->comm_count > CHAOS_PEER_COMM && maker->step > 0 && entry->kind == CHAOS_GATHER &&
           entry->bracket == CHAOS_ALONE && maker->gathered[maker->program->units[entry->unit].comm] &&
           chaos_draw(maker, 25);
}

/* `optimizer_version`: of an optimizer that runs inside backward, else 0. */
static void phase_emit(struct chaos_maker *maker, const struct chaos_phase *phase, bool backward,
                       uint32_t optimizer_version_or_0)
{
    uint16_t from = 0, to = 0;
    for (int i = 0; i < phase->count; i++) {
        const struct chaos_entry *entry = &phase->entries[i];
        bool inside = entry->number != 0 && entry->number == from;
        if (!chaos_unit_active(maker, entry->unit))
            continue;
        if (!inside)
            incident(maker, backward);
        if (!backward && !inside && peer_due(maker, entry)) {
            peer_exchange(maker, entry);
            continue;
        }
        struct chaos_action *action = operate(maker, entry, backward);
        action->bracket = entry->bracket;
        if (inside)
            action->number = to;
        from = entry->number;
        to = action->number;
        if (entry->kind == CHAOS_GATHER)
            maker->gathered[action->comm] = true;
        if (optimizer_version_or_0 && entry->kind == CHAOS_REDUCE_SCATTER && entry->bracket == CHAOS_ALONE)
            optimize(maker, entry->unit, optimizer_version_or_0, backward);
    }
}

static void loss_log(struct chaos_maker *maker)
{
    struct chaos_action *action = chaos_emit(maker, CHAOS_ALL_REDUCE);
    action->slot = scratch_next(maker, 0);
    action->count = 1;
    action->serial = ++maker->serial;
    chaos_feature(maker->program, CHAOS_HAS_LOG);
    if (chaos_draw(maker, 50))
        chaos_emit(maker, CHAOS_SYNC);
}

/* Forward without backward. With other weights for its length, as of a moving average, which then go away again. */
static void evaluate(struct chaos_maker *maker, const struct chaos_shape *shape)
{
    struct chaos_content kept[CHAOS_UNITS_MAX][CHAOS_RANKS_MAX];
    const struct chaos_program *program = maker->program;
    memcpy(kept, maker->now, sizeof kept);
    uint32_t version = 2000000 + (uint32_t)(maker->step / 3);
    for (int i = 0; maker->swap && i < program->unit_count; i++)
        if (!maker->destroyed[program->units[i].comm]) {
            content_change(maker, i, ALL_RANKS, version, false);
            write_emit(maker, i, ALL_RANKS, false);
        }
    int passes = chaos_between(&maker->random, 1, 2);
    for (int i = 0; i < passes; i++)
        phase_emit(maker, &shape->forward, false, 0);
    if (maker->swap)
        memcpy(maker->now, kept, sizeof kept);
    for (int i = 0; maker->swap && i < program->unit_count; i++)
        if (!maker->destroyed[program->units[i].comm])
            write_emit(maker, i, ALL_RANKS, false);
    chaos_feature(maker->program, maker->swap ? CHAOS_HAS_SWAP : CHAOS_HAS_EVAL);
}

static void comm_change(struct chaos_maker *maker, enum chaos_kind kind)
{
    struct chaos_action *action = chaos_emit(maker, kind);
    action->comm = (uint8_t)maker->remade;
    action->in_place = chaos_draw(maker, 50);
    maker->gathered[maker->remade] = false;
    if (kind == CHAOS_DESTROY)
        maker->destroyed[maker->remade] = true;
    chaos_feature(maker->program, kind == CHAOS_DESTROY ? CHAOS_HAS_DESTROY : CHAOS_HAS_REMAKE);
}

static void microbatches_emit(struct chaos_maker *maker, const struct chaos_shape *shape)
{
    uint32_t version = optimizer_version(maker);
    for (int i = 0; i < maker->microbatches; i++) {
        bool last = i + 1 == maker->microbatches;
        phase_emit(maker, &shape->forward, false, 0);
        phase_emit(maker, &shape->backward, true, last && maker->optimizer_in_backward ? version : 0);
    }
    for (int i = 0; i < maker->program->unit_count; i++)
        optimize(maker, i, version, false);
}

static void step_emit(struct chaos_maker *maker)
{
    if (maker->pressure && chaos_draw(maker, 30))
        chaos_emit(maker, CHAOS_BALLOON);
    if (maker->step == maker->reorder_step) {
        chaos_shape_draw(maker, &maker->shapes[0]);
        chaos_feature(maker->program, CHAOS_HAS_REORDER);
    }
    if (maker->step == maker->remake_step)
        comm_change(maker, CHAOS_REMAKE);
    if (maker->step == maker->destroy_step)
        comm_change(maker, CHAOS_DESTROY);
    maker->skipped = -1;
    if (maker->step == maker->skip_step) {
        maker->skipped = chaos_below(&maker->random, maker->program->unit_count);
        chaos_feature(maker->program, CHAOS_HAS_SKIP);
    }
    const struct chaos_shape *shape = &maker->shapes[maker->alternate && maker->step % 2];
    microbatches_emit(maker, shape);
    if (maker->log_every && maker->step % maker->log_every == 0)
        loss_log(maker);
    if (maker->eval_every && maker->step % maker->eval_every == 0)
        evaluate(maker, shape);
}

void chaos_steps_make(struct chaos_maker *maker)
{
    struct chaos_program *program = maker->program;
    for (int i = 0; i < 2; i++)
        chaos_shape_draw(maker, &maker->shapes[i]);
    for (maker->step = 0; maker->step < program->steps; maker->step++) {
        program->first[maker->step] = program->count;
        step_emit(maker);
    }
    program->first[program->steps] = program->count;
}
