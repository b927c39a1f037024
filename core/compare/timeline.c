#include "core/compare/timeline.h"

#include <stdlib.h>

#include "core/steps/fresh.h"

#define FRESH_WINDOW_MAX ((size_t)1 << 16) /* ops; far above two cycles of anything known */

/* ---------------------------------------------------------------- the ops */

struct source {
    const struct rp_trace *trace;
    const struct rp_packed *packed; /* its ops, or NULL: it has them itself */
    size_t op_count;
};

static const struct rp_op *call_at(const struct source *source, size_t index)
{
    return source->packed == NULL ? &source->trace->ops[index].op : rp_packed_call_op(source->packed, index);
}

static bool is_on_lane(const struct rp_op *op, uint32_t comm)
{
    return op->comm == comm && op->position != RP_NO_POSITION;
}

/* NULL: it has none. */
static const uint64_t *fingerprint_at(const struct source *source, size_t index)
{
    if (source->packed != NULL)
        return rp_packed_call(source->packed, index)->has_fingerprint ? source->packed->ops[index].fingerprint : NULL;
    const struct rp_trace_op *op = &source->trace->ops[index];
    return op->has_fingerprint ? op->fingerprint : NULL;
}

/* ---------------------------------------------------------------- the lane */

/* The communicator whose lane has the most gathers, of equals the first; RP_NO_COMM if no op is on a lane. */
static enum rp_status busiest_lane(const struct source *source, uint32_t *comm_out)
{
    const struct rp_trace *trace = source->trace;
    size_t *gathers = calloc(trace->comm_count + 1, sizeof(*gathers));
    if (gathers == NULL)
        return RP_NO_MEMORY;
    uint32_t best = RP_NO_COMM;
    size_t best_count = 0;
    for (size_t i = 0; i < source->op_count; i++) {
        const struct rp_op *op = call_at(source, i);
        const struct rp_trace_comm *comm = rp_trace_find_comm(trace, op->comm);
        if (comm != NULL && op->position != RP_NO_POSITION)
            gathers[comm - trace->comms] += op->kind == RP_OP_ALL_GATHER ? source->op_count + 1 : 1;
    }
    for (size_t i = 0; i < trace->comm_count; i++) {
        if (gathers[i] > best_count) {
            best_count = gathers[i];
            best = trace->comms[i].number;
        }
    }
    free(gathers);
    *comm_out = best;
    return RP_OK;
}

struct lane {
    struct rp_cycle_item *items;
    uint32_t *index; /* of each item in the ops */
    size_t count;
};

static void lane_free(struct lane *lane)
{
    free(lane->items);
    free(lane->index);
}

static void lane_fill(struct lane *lane, const struct source *source, uint32_t comm, struct rp_freshness *freshness)
{
    for (size_t i = 0; i < source->op_count; i++) {
        const struct rp_op *op = call_at(source, i);
        if (!is_on_lane(op, comm))
            continue;
        bool fresh = rp_freshness_see(freshness, op, fingerprint_at(source, i));
        lane->items[lane->count] = rp_cycle_item(op, fresh);
        lane->index[lane->count++] = (uint32_t)i;
    }
}

static enum rp_status lane_create(const struct source *source, uint32_t comm, struct lane *lane_out)
{
    struct rp_freshness *freshness;
    size_t window = source->op_count < FRESH_WINDOW_MAX ? source->op_count + 1 : FRESH_WINDOW_MAX;
    enum rp_status status = rp_freshness_create(window, &freshness);
    if (status != RP_OK)
        return status;
    struct lane lane = {.items = calloc(source->op_count + 1, sizeof(*lane.items)),
                        .index = malloc((source->op_count + 1) * sizeof(*lane.index))};
    status = lane.items == NULL || lane.index == NULL ? RP_NO_MEMORY : RP_OK;
    if (status == RP_OK) {
        lane_fill(&lane, source, comm, freshness);
        *lane_out = lane;
    } else {
        lane_free(&lane);
    }
    rp_freshness_destroy(freshness);
    return status;
}

/* ---------------------------------------------------------------- the steps */

/* One step that is no cycle: what there is when no lane can be cut. */
static enum rp_status cut_nothing(size_t op_count, struct rp_step **steps_out, size_t *count_out)
{
    struct rp_step *step = malloc(sizeof(*step));
    if (step == NULL)
        return RP_NO_MEMORY;
    *step = (struct rp_step){.first = 0, .kind = RP_STEP_OTHER};
    *steps_out = step;
    *count_out = op_count > 0;
    return RP_OK;
}

/* CONTENT: half of the whole steps, and two, have a gather that sends what was not sent before. Indices: the lane's. */
static enum rp_timeline_basis basis_of(const struct lane *lane, const struct rp_step *steps, size_t count)
{
    size_t whole = 0, fresh = 0;
    for (size_t step = 0; step < count; step++) {
        size_t end = step + 1 < count ? steps[step + 1].first : lane->count;
        bool is_fresh = false;
        for (size_t i = steps[step].first; i < end; i++) {
            if (lane->items[i].step)
                return RP_TIMELINE_ANNOTATION;
            is_fresh = is_fresh || lane->items[i].class == RP_CYCLE_FRESH;
        }
        whole += steps[step].kind == RP_STEP_WHOLE;
        fresh += steps[step].kind == RP_STEP_WHOLE && is_fresh;
    }
    return fresh >= 2 && fresh >= whole - fresh ? RP_TIMELINE_CONTENT : RP_TIMELINE_REPETITION;
}

static enum rp_status cut_lane(const struct source *source, uint32_t comm, struct rp_timeline *timeline)
{
    struct lane lane;
    enum rp_status status = lane_create(source, comm, &lane);
    if (status != RP_OK)
        return status;
    status = rp_steps_cut(lane.items, lane.count, &timeline->steps, &timeline->count);
    if (status == RP_OK)
        timeline->basis = basis_of(&lane, timeline->steps, timeline->count);
    for (size_t i = 1; status == RP_OK && i < timeline->count; i++)
        timeline->steps[i].first = lane.index[timeline->steps[i].first];
    lane_free(&lane);
    return status;
}

static enum rp_status create(const struct source *source, struct rp_timeline *timeline_out)
{
    uint32_t comm;
    struct rp_timeline timeline = {.op_count = source->op_count};
    enum rp_status status = busiest_lane(source, &comm);
    if (status != RP_OK)
        return status;
    if (comm == RP_NO_COMM)
        status = cut_nothing(source->op_count, &timeline.steps, &timeline.count);
    else
        status = cut_lane(source, comm, &timeline);
    if (status != RP_OK)
        return status;
    for (size_t i = 0; i < timeline.count; i++)
        timeline.whole += timeline.steps[i].kind == RP_STEP_WHOLE;
    *timeline_out = timeline;
    return RP_OK;
}

enum rp_status rp_timeline_create(const struct rp_trace *trace, struct rp_timeline *timeline_out)
{
    return create(&(struct source){.trace = trace, .op_count = trace->op_count}, timeline_out);
}

enum rp_status rp_timeline_create_packed(const struct rp_packed *packed, struct rp_timeline *timeline_out)
{
    return create(&(struct source){packed->trace, packed, packed->op_count}, timeline_out);
}

void rp_timeline_free(struct rp_timeline *timeline)
{
    free(timeline->steps);
    *timeline = (struct rp_timeline){0};
}

size_t rp_timeline_step_of(const struct rp_timeline *timeline, size_t index)
{
    size_t low = 0, high = timeline->count; /* the step lies in [low, high) */
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (timeline->steps[middle].first <= index)
            low = middle;
        else
            high = middle;
    }
    return low;
}

size_t rp_timeline_end(const struct rp_timeline *timeline, size_t step)
{
    return step + 1 < timeline->count ? timeline->steps[step + 1].first : timeline->op_count;
}

size_t rp_timeline_representative(const struct rp_timeline *timeline)
{
    size_t passed = 0;
    size_t wanted = timeline->whole < 2 ? 1 : 2;
    for (size_t i = timeline->count; i-- > 0;) {
        if (timeline->steps[i].kind == RP_STEP_WHOLE && ++passed == wanted)
            return i;
    }
    return timeline->count > 0 ? timeline->count - 1 : 0;
}
