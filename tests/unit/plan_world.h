/*
 * A sharded trainer as the learning data that it leaves: steps of microbatches, evaluations, small ops, for tests of
 * plans. Contents are (unit, version); an optimizer step makes a new version of all that is trained.
 */
#ifndef RP_TEST_PLAN_WORLD_H
#define RP_TEST_PLAN_WORLD_H

#include <stdlib.h>

#include "core/plan/plan.h"
#include "core/steps/cycle.h"

#define ROOT_BYTES 65537024u
#define LAYER_BYTES 12584960u
#define LANE_MOST 20000u

/* What the model is; all zero but `layers` and `microbatches` is plain FSDP2. */
struct model {
    size_t layers, microbatches;
    size_t frozen;        /* so many of the first layers are not trained */
    uint64_t equal_until; /* layers have the same content below this version */
    enum { NO_RECOMPUTE, RECOMPUTE } recompute;
    enum { NOT_SHARED, SHARED } shared;             /* a block that runs behind every layer */
    enum { NO_ACTIVATIONS, ACTIVATIONS } activated; /* each layer gathers an activation as well */
    enum { REDUCED, REDUCED_ELSEWHERE } reduced;    /* on another communicator */
};

struct lane {
    struct rp_learned items[LANE_MOST];
    size_t count;
    uint64_t version, activations;
};

/* Never NULL; freed by the caller. */
static inline struct lane *lane_make(void)
{
    struct lane *lane = calloc(1, sizeof(*lane));
    if (lane == NULL)
        abort();
    return lane;
}

static inline void lane_add(struct lane *lane, enum rp_op_kind kind, uint64_t bytes, uint64_t unit, uint64_t version)
{
    struct rp_op op = {.kind = (uint8_t)kind, .dtype = RP_DTYPE_UINT8, .root = -1, .count = bytes};
    if (lane->count == LANE_MOST)
        abort();
    lane->items[lane->count++] = (struct rp_learned){
        .signature = rp_op_signature(&op),
        .bytes = bytes,
        .content = {unit, version},
        .kind = (uint8_t)kind,
    };
}

static inline void add_gather(struct lane *lane, uint64_t bytes, uint64_t unit, uint64_t version)
{
    lane_add(lane, RP_OP_ALL_GATHER, bytes, unit, version);
}

static inline void add_reduce(struct lane *lane, uint64_t bytes)
{
    lane_add(lane, RP_OP_REDUCE_SCATTER, bytes, 0, 0);
}

static inline void add_small(struct lane *lane)
{
    lane_add(lane, RP_OP_ALL_REDUCE, 4, 0, 0);
}

static inline void gather_root(struct lane *lane)
{
    add_gather(lane, ROOT_BYTES, 1, 1 + lane->version);
}

static inline void gather_layer(struct lane *lane, const struct model *model, size_t layer)
{
    uint64_t unit = lane->version < model->equal_until ? 10 : 10 + layer;
    add_gather(lane, LAYER_BYTES, unit, layer < model->frozen ? 0 : 1 + lane->version);
}

static inline void gather_shared(struct lane *lane, const struct model *model)
{
    if (model->shared == SHARED)
        add_gather(lane, LAYER_BYTES + 4096, 2, 1 + lane->version);
}

static inline void gather_activation(struct lane *lane, const struct model *model)
{
    if (model->activated == ACTIVATIONS)
        add_gather(lane, LAYER_BYTES / 2, 3, lane->activations++);
}

static inline void forward(struct lane *lane, const struct model *model)
{
    gather_root(lane);
    for (size_t layer = 0; layer < model->layers; layer++) {
        gather_layer(lane, model, layer);
        gather_activation(lane, model);
        gather_shared(lane, model);
    }
}

static inline void backward(struct lane *lane, const struct model *model)
{
    gather_root(lane);
    for (size_t layer = model->layers; layer-- > 0;) {
        gather_shared(lane, model);
        gather_layer(lane, model, layer);
        gather_activation(lane, model);
        if (model->recompute == RECOMPUTE)
            gather_layer(lane, model, layer);
        if (model->reduced == REDUCED)
            add_reduce(lane, 2 * LAYER_BYTES);
    }
    if (model->reduced == REDUCED)
        add_reduce(lane, 2 * ROOT_BYTES);
}

static inline void step_without_change(struct lane *lane, const struct model *model)
{
    for (size_t i = 0; i < model->microbatches; i++) {
        forward(lane, model);
        backward(lane, model);
    }
}

static inline void step(struct lane *lane, const struct model *model)
{
    step_without_change(lane, model);
    lane->version++;
}

static inline void steps(struct lane *lane, const struct model *model, size_t count)
{
    for (size_t i = 0; i < count; i++)
        step(lane, model);
}

#endif
