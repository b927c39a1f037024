/*
 * Programs for replay_sim.h: lists of actions that all ranks take, and the order in which FSDP2 issues its calls.
 *
 * Unit 0 is the root, 1 and up are layers of one size.
 */
#ifndef RP_TEST_REPLAY_PROGRAM_H
#define RP_TEST_REPLAY_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#define SIM_RANKS 4
#define ALL_RANKS 0xffu

enum sim_act {
    SIM_GATHER,     /* of `unit` */
    SIM_REDUCE,     /* of `unit`, `bytes` */
    SIM_CHANGE,     /* new content of `unit` on `ranks`; UINT32_MAX: of every unit */
    SIM_LOSE,       /* memory of slots goes on `ranks` */
    SIM_UNPACKABLE, /* `ranks` find bytes that don't fit into the packed form */
    SIM_GIVE_UP,    /* `ranks` give the lane up */
    SIM_STRAY       /* `ranks` have issued other gathers ahead than the others */
};

struct sim_action {
    enum sim_act act;
    uint32_t unit;
    uint64_t bytes;
    unsigned ranks;            /* a bit each; an op only some issue is a program error, on purpose */
    bool fails;                /* the call returns an error */
    unsigned refused;          /* on these ranks it does so at first, and is made again */
    bool grouped;              /* in one group with the action before */
    bool withdrawn;            /* a rank never votes on it in time */
    uint64_t shard[SIM_RANKS]; /* of a gather: what each rank sends; filled in by sim_finish() */
    bool repeated;             /* the last gather of its unit sent the same */
    int served, plain;         /* ranks that did */
    bool issued;               /* a rank has come by: what it then issued ahead, and warmed, as a hash */
    uint64_t issues;
};

struct sim_program {
    struct sim_action *actions;
    size_t count, capacity;
};

static inline struct sim_action *sim_add(struct sim_program *program, struct sim_action action)
{
    if (program->count == program->capacity) {
        program->capacity = program->capacity == 0 ? 1024 : program->capacity * 2;
        program->actions = realloc(program->actions, program->capacity * sizeof(*program->actions));
        if (program->actions == NULL)
            abort();
    }
    program->actions[program->count] = action;
    return &program->actions[program->count++];
}

static inline uint64_t sim_bytes(uint32_t unit)
{
    return unit == 0 ? 3u << 20 : 2u << 20; /* the root, and equal layers */
}

static inline struct sim_action *sim_gather(struct sim_program *program, uint32_t unit)
{
    return sim_add(program,
                   (struct sim_action){.act = SIM_GATHER, .unit = unit, .bytes = sim_bytes(unit), .ranks = ALL_RANKS});
}

static inline struct sim_action *sim_reduce(struct sim_program *program, uint32_t unit, uint64_t bytes)
{
    return sim_add(program, (struct sim_action){.act = SIM_REDUCE, .unit = unit, .bytes = bytes, .ranks = ALL_RANKS});
}

static inline void sim_change(struct sim_program *program, uint32_t unit, unsigned ranks)
{
    sim_add(program, (struct sim_action){.act = SIM_CHANGE, .unit = unit, .ranks = ranks});
}

static inline void sim_forward(struct sim_program *program, uint32_t layers, uint32_t skipped)
{
    sim_gather(program, 0);
    for (uint32_t layer = 1; layer <= layers; layer++)
        if (layer != skipped)
            sim_gather(program, layer);
}

/* Two gathers ahead of the first reduction. */
static inline void sim_backward(struct sim_program *program, uint32_t layers, uint32_t skipped, bool recompute)
{
    uint32_t ahead = 0;

    sim_gather(program, 0);
    for (uint32_t layer = layers; layer >= 1; layer--) {
        if (layer == skipped)
            continue;
        sim_gather(program, layer);
        if (recompute)
            sim_gather(program, layer);
        if (ahead++ > 0)
            sim_reduce(program, layer, sim_bytes(1));
    }
    sim_reduce(program, 1, sim_bytes(1));
    sim_reduce(program, 0, sim_bytes(0));
}

static inline void sim_step(struct sim_program *program, uint32_t layers, uint32_t microbatches)
{
    for (uint32_t i = 0; i < microbatches; i++) {
        sim_forward(program, layers, 0);
        sim_backward(program, layers, 0, false);
    }
}

static inline void sim_optimize(struct sim_program *program)
{
    sim_change(program, UINT32_MAX, ALL_RANKS);
}

/* Steps of two microbatches, each through all layers, there and back. */
static inline void sim_there_and_back(struct sim_program *program, uint32_t layers, uint32_t steps)
{
    for (uint32_t step = 0; step < steps; step++) {
        for (uint32_t microbatch = 0; microbatch < 2; microbatch++) {
            for (uint32_t unit = 0; unit < layers; unit++)
                sim_gather(program, unit);
            for (uint32_t unit = 0; unit < layers; unit++)
                sim_gather(program, layers - 1 - unit);
            sim_reduce(program, 1, 5u << 20);
        }
        sim_change(program, UINT32_MAX, ALL_RANKS);
    }
}

#endif
