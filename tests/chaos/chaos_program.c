/*
 * What a program consists of: ranks, communicators, units, and how wild it is.
 */
#include "tests/chaos/chaos_maker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool chaos_is_collective(const struct chaos_action *action)
{
    return action->kind >= CHAOS_GATHER && action->kind <= CHAOS_ALL_TO_ALL;
}

bool chaos_is_operation(const struct chaos_action *action)
{
    return action->kind >= CHAOS_GATHER && action->kind <= CHAOS_PEER_SEND;
}

int chaos_members(const struct chaos_program *program, int comm, int rank, int members_out[CHAOS_RANKS_MAX])
{
    int count = 0;
    for (int i = 0; i < program->ranks; i++) {
        int other = program->comms[comm] == CHAOS_COMM_REVERSED ? program->ranks - 1 - i : i;
        if (program->comms[comm] != CHAOS_COMM_PARITY || other % 2 == rank % 2)
            members_out[count++] = other;
    }
    return count;
}

/* Counted as the ranks allocate: every buffer with its guards (chaos_buffer.c). */
size_t chaos_program_memory(const struct chaos_program *program)
{
    size_t guards = 2 * 64, bytes = 0;
    for (int i = 0; i < program->unit_count; i++)
        bytes += 2 * (program->units[i].bytes + program->units[i].offset + guards);
    size_t pools = (size_t)program->slots * (program->slot_bytes + guards);
    pools += CHAOS_SCRATCHES * (program->scratch_bytes + guards);
    bytes += pools * (size_t)program->comm_count;
    return bytes + program->slot_bytes + guards; /* a spare buffer */
}

/* Communicators ---------------------------------------------------------------------------------------------------- */

static void comms_draw(struct chaos_maker *maker)
{
    struct chaos_program *program = maker->program;
    program->comm_count = chaos_draw(maker, 45) ? 2 : 1;
    if (program->comm_count == 2) {
        program->comms[1] = (uint8_t)chaos_below(&maker->random, 4);
        chaos_feature(program, CHAOS_HAS_TWO_COMMS);
    }
    if (chaos_draw(maker, 10)) {
        program->comm_count = CHAOS_PEER_COMM + 1;
        program->comms[CHAOS_PEER_COMM] = CHAOS_COMM_SPLIT;
        chaos_feature(program, CHAOS_HAS_PEER);
    }
    for (int i = 1; i < program->comm_count; i++)
        if (program->comms[i] != CHAOS_COMM_INIT)
            chaos_feature(program, CHAOS_HAS_SPLIT);
    if (program->comms[1] == CHAOS_COMM_PARITY)
        chaos_feature(program, CHAOS_HAS_PARITY);
}

static bool lane_two(const struct chaos_program *program)
{
    return program->features >> CHAOS_HAS_TWO_COMMS & 1;
}

static void threads_draw(struct chaos_maker *maker)
{
    struct chaos_program *program = maker->program;
    bool peer = program->comm_count > CHAOS_PEER_COMM;
    program->parallel = lane_two(program) && !peer && chaos_draw(maker, 25);
    program->threads = !program->parallel && chaos_draw(maker, 20);
    program->nonblocking = !peer && chaos_draw(maker, 6);
    program->legacy = !peer && !program->parallel && chaos_draw(maker, 8);
    program->preconnect = chaos_draw(maker, 15);
    program->streams = chaos_between(&maker->random, program->parallel ? 2 : 1, CHAOS_STREAMS_MAX);
    if (program->parallel)
        chaos_feature(program, CHAOS_HAS_PARALLEL);
    if (program->threads)
        chaos_feature(program, CHAOS_HAS_THREADS);
    if (program->nonblocking)
        chaos_feature(program, CHAOS_HAS_NONBLOCKING);
    if (program->legacy)
        chaos_feature(program, CHAOS_HAS_LEGACY);
    if (program->preconnect)
        chaos_feature(program, CHAOS_HAS_PRECONNECT);
}

/* Units ------------------------------------------------------------------------------------------------------------ */

static uint32_t size_draw(struct chaos_maker *maker, int log2_most)
{
    uint32_t power = (uint32_t)1 << chaos_between(&maker->random, 6, log2_most);
    return power + (uint32_t)chaos_below(&maker->random, (int)power);
}

static void unit_draw(struct chaos_maker *maker, int index, int log2_most)
{
    static const uint8_t sizes[] = {1, 1, 2, 4, 8};
    struct chaos_program *program = maker->program;
    struct chaos_unit *unit = &program->units[index];
    unit->element_bytes = sizes[chaos_below(&maker->random, 5)];
    unit->bytes = size_draw(maker, log2_most) / unit->element_bytes * unit->element_bytes;
    unit->offset = unit->element_bytes * (uint32_t)(chaos_draw(maker, 60) ? 0 : chaos_below(&maker->random, 17));
    unit->key = (uint32_t)index + 1;
    unit->comm = (uint8_t)(lane_two(program) && chaos_draw(maker, 40));
    unit->send = (uint8_t)chaos_below(&maker->random, 3);
    unit->copy_elsewhere = program->streams > 1 && !program->parallel && chaos_draw(maker, 30);
    unit->frozen = chaos_draw(maker, 10);
    unit->constant = (int8_t)(chaos_draw(maker, 12) ? chaos_below(&maker->random, program->ranks) : -1);
    unit->last_step = CHAOS_STEPS_MAX;
}

/* Layers of a model are mostly of one size; some are equal bytes as well. */
static void unit_like_first(struct chaos_maker *maker, int index, bool twin)
{
    struct chaos_unit *unit = &maker->program->units[index];
    const struct chaos_unit *first = &maker->program->units[0];
    unit->bytes = first->bytes;
    unit->element_bytes = first->element_bytes;
    unit->offset = first->offset;
    if (twin)
        unit->key = first->key;
}

static void unit_features(struct chaos_program *program, const struct chaos_unit *unit)
{
    static const enum chaos_feature sends[] = {
        [CHAOS_SEND_IN_PLACE] = CHAOS_HAS_IN_PLACE,
        [CHAOS_SEND_PERSISTENT] = CHAOS_HAS_PERSISTENT,
        [CHAOS_SEND_STAGED] = CHAOS_HAS_STAGED,
    };
    chaos_feature(program, sends[unit->send]);
    if (unit->frozen)
        chaos_feature(program, CHAOS_HAS_FROZEN);
    if (unit->constant >= 0)
        chaos_feature(program, CHAOS_HAS_CONSTANT);
}

/* In most of these programs all of them; else any bits come as bfloat16 too. */
static void unit_of_weights(struct chaos_maker *maker, struct chaos_unit *unit)
{
    if (unit->key == CHAOS_KEY_ZEROS || (unit->key & CHAOS_KEY_ALIKE))
        return;
    unit->element_bytes = 2;
    unit->bytes &= ~1u;
    unit->offset &= ~1u;
    if (!chaos_draw(maker, maker->any_bits_percent))
        unit->key |= CHAOS_KEY_WEIGHTS;
}

static void units_draw(struct chaos_maker *maker)
{
    struct chaos_program *program = maker->program;
    static const uint8_t largest[] = {9, 11, 13, 15};
    int log2_most = program->packs ? 15 : largest[chaos_below(&maker->random, 4)];
    bool alike = chaos_draw(maker, 50), twins = alike && chaos_draw(maker, 25), uniform = chaos_draw(maker, 40);
    uint32_t special = chaos_draw(maker, 8) ? (chaos_draw(maker, 50) ? CHAOS_KEY_ZEROS : CHAOS_KEY_ALIKE | 1) : 1;
    program->unit_count = chaos_between(&maker->random, 2, program->tight ? 3 : CHAOS_UNITS_MAX - 1);
    for (int i = 0; i < program->unit_count; i++) {
        unit_draw(maker, i, log2_most);
        if (i == 0)
            program->units[0].key = special;
        else if (program->tight || (alike && chaos_draw(maker, 85)))
            unit_like_first(maker, i, twins && chaos_draw(maker, 60));
        if (uniform)
            program->units[i].send = program->units[0].send;
        if (program->packs)
            unit_of_weights(maker, &program->units[i]);
        unit_features(program, &program->units[i]);
    }
    if (twins)
        chaos_feature(program, CHAOS_HAS_TWINS);
}

static void contents_begin(struct chaos_maker *maker)
{
    struct chaos_program *program = maker->program;
    for (int i = 0; i < program->unit_count; i++)
        for (int rank = 0; rank < CHAOS_RANKS_MAX; rank++)
            maker->now[i][rank] = (struct chaos_content){.key = program->units[i].key};
    memcpy(program->initial, maker->now, sizeof program->initial);
}

/* How wild it is --------------------------------------------------------------------------------------------------- */

static int step_draw(struct chaos_maker *maker, int percent)
{
    return chaos_draw(maker, percent) ? chaos_between(&maker->random, 1, maker->program->steps - 1) : -1;
}

static void extra_draw(struct chaos_maker *maker)
{
    struct chaos_program *program = maker->program;
    if (!chaos_draw(maker, 12))
        return;
    struct chaos_unit *unit = &program->units[program->unit_count - 1];
    unit->first_step = (uint8_t)chaos_between(&maker->random, 1, program->steps - 1);
    if (chaos_draw(maker, 50))
        unit->last_step = unit->first_step;
    chaos_feature(program, CHAOS_HAS_EXTRA);
}

static void events_draw(struct chaos_maker *maker)
{
    struct chaos_program *program = maker->program;
    extra_draw(maker);
    maker->edits = chaos_draw(maker, 45);
    maker->lags = chaos_draw(maker, 12);
    maker->reallocs = chaos_draw(maker, 35);
    maker->host_waits = !program->parallel && !program->nonblocking && chaos_draw(maker, 6);
    maker->incident_percent = chaos_between(&maker->random, 2, 12);
    maker->log_every = chaos_draw(maker, 35) ? chaos_between(&maker->random, 1, 3) : 0;
    maker->eval_every = chaos_draw(maker, 25) ? chaos_between(&maker->random, 1, 4) : 0;
    maker->swap = maker->eval_every && chaos_draw(maker, 40);
    maker->reorder_step = step_draw(maker, 12);
    maker->skip_step = step_draw(maker, 15);
    maker->hold_step = step_draw(maker, 12);
    maker->remade = lane_two(program) && chaos_draw(maker, 75);
    maker->remake_step = step_draw(maker, 12);
    maker->destroy_step = maker->remade == 1 && maker->remake_step < 0 ? step_draw(maker, 12) : -1;
}

static void changes_draw(struct chaos_maker *maker)
{
    maker->zero_steps = chaos_draw(maker, 15) ? chaos_between(&maker->random, 1, 4) : 0;
    maker->returning = chaos_draw(maker, 7) ? chaos_between(&maker->random, 1, 3) : 0;
    maker->sparse = chaos_draw(maker, 15);
    maker->rewrite = chaos_draw(maker, 20);
    maker->optimizer_in_backward = chaos_draw(maker, 12);
    if (maker->zero_steps)
        chaos_feature(maker->program, CHAOS_HAS_ZERO_RATE);
    if (maker->returning)
        chaos_feature(maker->program, CHAOS_HAS_RETURNING);
    if (maker->sparse)
        chaos_feature(maker->program, CHAOS_HAS_SPARSE);
}

static void habits_draw(struct chaos_maker *maker)
{
    struct chaos_program *program = maker->program;
    /* An order needs four or five steps to be known, and one more until it is used. */
    program->steps =
        chaos_draw(maker, 50) ? chaos_between(&maker->random, 6, 11) : chaos_between(&maker->random, 12, 22);
    program->tight = chaos_draw(maker, 10);
    if (program->tight)
        chaos_feature(program, CHAOS_HAS_TIGHT);
    if (program->tight && program->steps < 12)
        program->steps += 8;
    program->ahead = !program->tight && chaos_draw(maker, 25);
    if (program->ahead) /* joining the child takes some more, and its first cycle is not gathered ahead */
        program->steps = chaos_between(&maker->random, 22, 34);
    program->packs = !program->tight && !program->ahead && chaos_draw(maker, 20);
    if (program->packs)
        program->steps = chaos_between(&maker->random, 14, 26);
    maker->any_bits_percent = chaos_draw(maker, 25) ? 30 : 0;
    program->check_every = chaos_draw(maker, 70) ? 1 : chaos_between(&maker->random, 2, 4);
    program->ending = (enum chaos_ending)chaos_below(&maker->random, CHAOS_ENDINGS);
    program->slots = chaos_between(&maker->random, CHAOS_BRACKET_MAX, CHAOS_SLOTS_MAX);
    maker->microbatches = chaos_between(&maker->random, program->tight || program->ahead ? 2 : 1, 3);
    maker->group_percent = chaos_draw(maker, 45) ? chaos_between(&maker->random, 10, 60) : 0;
    maker->capture_percent = !program->parallel && !program->nonblocking && !program->legacy && chaos_draw(maker, 8)
                                 ? chaos_between(&maker->random, 10, 30)
                                 : 0;
    maker->late_percent = chaos_draw(maker, 50) ? 30 : 0;
    maker->poison_percent = chaos_draw(maker, 60) ? 60 : 0;
    maker->pressure = chaos_draw(maker, 12);
    maker->alternate = chaos_draw(maker, 8);
    if (maker->alternate)
        chaos_feature(program, CHAOS_HAS_ALTERNATE);
    if (program->ending == CHAOS_END_ABORT)
        chaos_feature(program, CHAOS_HAS_ABORT);
    if (program->ending == CHAOS_END_ABORT_BUSY)
        chaos_feature(program, CHAOS_HAS_ABORT_BUSY);
}

static void never(struct chaos_maker *maker)
{
    maker->remade = 1;
    maker->reorder_step = maker->skip_step = maker->remake_step = maker->destroy_step = maker->hold_step = -1;
    chaos_feature(maker->program, CHAOS_HAS_CALM);
}

/* Buffers are as large as the largest use. */
static void buffers_measure(struct chaos_program *program)
{
    size_t ranks = (size_t)program->ranks;
    for (int i = 0; i < program->unit_count; i++) {
        const struct chaos_unit *unit = &program->units[i];
        size_t bytes = unit->offset + ranks * unit->bytes;
        program->slot_bytes = bytes > program->slot_bytes ? bytes : program->slot_bytes;
    }
    for (size_t i = 0; i < program->count; i++) {
        const struct chaos_action *action = &program->actions[i];
        if (!chaos_is_operation(action) || action->kind == CHAOS_GATHER)
            continue;
        size_t bytes = ranks * (ranks + 1) * 4 * action->count; /* both halves, UNEVEN with 4-byte elements */
        program->scratch_bytes = bytes > program->scratch_bytes ? bytes : program->scratch_bytes;
    }
    program->scratch_bytes += 64;
}

void chaos_program_make(uint64_t seed, struct chaos_program *program_out)
{
    struct chaos_maker *maker = calloc(1, sizeof *maker);
    if (!maker) {
        fputs("chaos: out of memory\n", stderr);
        exit(1);
    }
    *program_out = (struct chaos_program){.seed = seed};
    maker->program = program_out;
    maker->random.state = chaos_mix(seed);
    maker->version = 1;
    program_out->ranks = 2 + (chaos_draw(maker, 60) ? chaos_draw(maker, 50) + chaos_draw(maker, 50) : 0);
    comms_draw(maker);
    threads_draw(maker);
    habits_draw(maker);
    units_draw(maker);
    contents_begin(maker);
    changes_draw(maker);
    if (chaos_draw(maker, 30))
        never(maker);
    else
        events_draw(maker);
    chaos_steps_make(maker);
    buffers_measure(program_out);
    chaos_faults_make(maker);
    free(maker);
}

void chaos_program_free(struct chaos_program *program)
{
    free(program->actions);
    *program = (struct chaos_program){0};
}
