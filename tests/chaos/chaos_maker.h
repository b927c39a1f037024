/*
 * A program while it is made. chaos_program.c draws what it consists of, chaos_schedule.c what a microbatch does,
 * chaos_steps.c the steps with what happens in between, chaos_fault.c the faults.
 */
#ifndef CHAOS_MAKER_H
#define CHAOS_MAKER_H

#include "tests/chaos/chaos.h"
#include "tests/chaos/chaos_random.h"

#define CHAOS_PHASE_MAX 32

/* One operation of a phase: an action without contents and buffers. */
struct chaos_entry {
    uint8_t kind;
    uint8_t unit; /* GATHER, REDUCE_SCATTER */
    uint8_t stream;
    uint8_t bracket;
    uint16_t number; /* of the bracket in the phase, which neighbours share; 0: alone */
    bool poison, late, host_wait;
};

struct chaos_phase {
    struct chaos_entry entries[CHAOS_PHASE_MAX];
    int count;
};

/* A microbatch; backward may have no reductions. */
struct chaos_shape {
    struct chaos_phase forward, backward;
};

struct chaos_maker {
    struct chaos_program *program;
    struct chaos_random random;
    struct chaos_content now[CHAOS_UNITS_MAX][CHAOS_RANKS_MAX];
    struct chaos_shape shapes[2];
    int next_slot[CHAOS_COMMS_MAX];
    int next_scratch[CHAOS_COMMS_MAX];
    uint32_t serial;
    uint32_t version; /* the next `major` or `minor` that no unit has had */
    uint16_t number;
    int step;
    int skipped;                    /* unit left out of this step, or -1 */
    bool gathered[CHAOS_COMMS_MAX]; /* a gather has connected the ranks */
    bool destroyed[CHAOS_COMMS_MAX];
    /* What this program is like, in percent of the places where it could happen. */
    int group_percent, capture_percent, incident_percent, late_percent, poison_percent, any_bits_percent;
    int zero_steps; /* steps without any change at the beginning */
    int returning;  /* contents come back after so many steps; 0: never */
    int microbatches;
    int log_every, eval_every;
    bool pressure; /* BALLOON now and then: all that the device has left */
    bool sparse, swap, optimizer_in_backward, rewrite, alternate, edits, lags, reallocs, host_waits;
    int reorder_step, skip_step, remake_step, destroy_step, hold_step; /* -1: never */
    int remade; /* communicator of remake_step and destroy_step */
};

void chaos_shape_draw(struct chaos_maker *maker, struct chaos_shape *shape);
void chaos_steps_make(struct chaos_maker *maker);
void chaos_faults_make(struct chaos_maker *maker);

/* Adds an action to the step; valid until the next one is added. */
struct chaos_action *chaos_emit(struct chaos_maker *maker, enum chaos_kind kind);

bool chaos_unit_active(const struct chaos_maker *maker, int unit);

static inline bool chaos_draw(struct chaos_maker *maker, int percent)
{
    return chaos_chance(&maker->random, percent);
}

#endif
