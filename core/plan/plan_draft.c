/*
 * Memory of a plan in the making. plan_draft.h has the job and the threads.
 */
#include "core/plan/plan_draft.h"

#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- making */

/* The largest first. */
static enum rp_status sort_by_size(struct rp_draft *draft)
{
    struct rp_plan_sized *sized = calloc(draft->model->count, sizeof(*sized));

    if (sized == NULL)
        return RP_NO_MEMORY;
    bool sorted = true;
    for (size_t place = 0; place < draft->model->count; place++) {
        if (!draft->model->entries[place].gather)
            continue;
        struct rp_plan_sized *next = &sized[draft->gathers++];
        *next = (struct rp_plan_sized){.bytes = draft->unit_bytes[place], .place = place};
        sorted = sorted && (next == sized || next[-1].bytes <= next->bytes);
    }
    if (!sorted)
        qsort(sized, draft->gathers, sizeof(*sized), rp_plan_compare_sized);
    for (size_t i = 0; i < draft->gathers; i++)
        draft->by_size[i] = sized[draft->gathers - 1 - i].place;
    free(sized);
    return RP_OK;
}

/* As many as the budget has room for, or one for each user. */
static size_t most_buffers(const struct rp_draft *draft, const uint64_t *bytes, size_t users)
{
    uint64_t least = draft->gathers == 0 ? 0 : bytes[draft->by_size[draft->gathers - 1]];
    uint64_t most = least == 0 ? 0 : draft->budget / least;
    return most < users ? (size_t)most : users;
}

static enum rp_status make_pools(struct rp_draft *draft)
{
    size_t cycle = draft->model->count;
    size_t slot_most = most_buffers(draft, draft->unit_bytes, draft->gathers);
    size_t snapshot_most = most_buffers(draft, draft->shard_bytes, draft->units);
    enum rp_status slots = rp_pool_make(slot_most, cycle, &draft->slots);
    enum rp_status snapshots = rp_pool_make(snapshot_most, cycle, &draft->snapshots);
    return slots == RP_OK ? snapshots : slots;
}

enum rp_status rp_draft_make(struct rp_model *model, const struct rp_plan *plan, uint32_t nranks, uint64_t budget,
                             uint64_t granule, uint64_t extra, struct rp_draft *draft_out)
{
    size_t count = model->count;
    struct rp_draft draft = {.model = model, .plan = plan->entries, .units = plan->unit_count};

    draft.extra = extra;
    draft.budget = budget < UINT64_MAX ? budget : UINT64_MAX - 1;
    draft.unit_bytes = calloc(count, sizeof(*draft.unit_bytes));
    draft.shard_bytes = calloc(count, sizeof(*draft.shard_bytes));
    draft.by_size = calloc(count, sizeof(*draft.by_size));
    draft.choices = calloc(count, sizeof(*draft.choices));
    draft.slot = calloc(count, sizeof(*draft.slot));
    draft.snapshot = calloc(count, sizeof(*draft.snapshot));
    draft.reached = calloc(count, sizeof(*draft.reached));
    *draft_out = draft;
    if (draft.unit_bytes == NULL || draft.shard_bytes == NULL || draft.by_size == NULL || draft.choices == NULL ||
        draft.slot == NULL || draft.snapshot == NULL || draft.reached == NULL)
        return RP_NO_MEMORY;
    for (size_t place = 0; place < count; place++) {
        draft.unit_bytes[place] = rp_plan_granules(plan->entries[place].bytes, nranks, granule);
        draft.shard_bytes[place] = rp_plan_granules(plan->entries[place].bytes, 1, granule);
    }
    enum rp_status status = sort_by_size(draft_out);
    if (status == RP_OK)
        status = make_pools(draft_out);
    if (status == RP_OK)
        rp_draft_clear(draft_out);
    return status;
}

void rp_draft_free(struct rp_draft *draft)
{
    rp_pool_free(&draft->slots);
    rp_pool_free(&draft->snapshots);
    free(draft->unit_bytes);
    free(draft->shard_bytes);
    free(draft->by_size);
    free(draft->choices);
    free(draft->slot);
    free(draft->snapshot);
    free(draft->reached);
}

void rp_draft_forget_memory(struct rp_draft *draft)
{
    rp_pool_clear(&draft->slots);
    rp_pool_clear(&draft->snapshots);
    memset(draft->slot, 0xff, draft->model->count * sizeof(*draft->slot));         /* RP_NO_SLOT */
    memset(draft->snapshot, 0xff, draft->model->count * sizeof(*draft->snapshot)); /* RP_NO_SLOT */
    memset(draft->reached, 0, draft->model->count * sizeof(*draft->reached));
}

void rp_draft_clear(struct rp_draft *draft)
{
    rp_draft_forget_memory(draft);
    for (size_t place = 0; place < draft->model->count; place++)
        draft->choices[place] = (struct rp_choice){.action = RP_PLAN_NETWORK, .issue = RP_NO_ISSUE};
    draft->prefetches = 0;
}

/* ---------------------------------------------------------------- memory */

struct rp_span rp_draft_span_behind(const struct rp_draft *draft, size_t from, size_t length)
{
    size_t first = from + 1 == draft->model->count ? 0 : from + 1;
    return (struct rp_span){.first = first, .length = length};
}

bool rp_draft_affords(const struct rp_draft *draft, uint64_t slot, uint64_t snapshot, bool prefetches)
{
    uint64_t left = draft->budget;
    const uint64_t wanted[] = {prefetches ? draft->extra : 0, draft->slots.total, draft->snapshots.total, slot,
                               snapshot};

    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
        if (wanted[i] > left)
            return false;
        left -= wanted[i];
    }
    return true;
}

bool rp_draft_may_grow(struct rp_draft *draft, uint64_t slot, uint64_t snapshot, uint64_t limit, bool prefetches)
{
    if (draft->slots.count == draft->slots.most || !rp_draft_affords(draft, slot, snapshot, prefetches))
        return false;
    bool within = slot <= limit && draft->slots.total <= limit - slot;
    draft->limited = draft->limited || !within;
    return within;
}

bool rp_draft_adopt(struct rp_draft *draft, const struct rp_plan *plan)
{
    rp_draft_clear(draft);
    for (size_t slot = 0; slot < plan->slot_count; slot++) {
        if (!rp_draft_may_grow(draft, plan->slot_bytes[slot], 0, UINT64_MAX, false))
            return false;
        rp_pool_grow(&draft->slots, plan->slot_bytes[slot]);
    }
    for (size_t place = 0; place < plan->count; place++) {
        const struct rp_plan_entry *entry = &plan->entries[place];
        draft->slot[place] = entry->slot;
        if (entry->action != RP_PLAN_KEEP)
            continue;
        size_t before = draft->model->entries[place].before;
        draft->choices[place].action = RP_PLAN_KEEP;
        rp_pool_take(&draft->slots, entry->slot,
                     rp_draft_span_behind(draft, before, rp_model_distance(draft->model, before, place)));
    }
    return true;
}

/* A slot for the link, in which one of its ends may be already. */
static uint32_t slot_of_link(struct rp_draft *draft, size_t before, size_t place, struct rp_span span, uint64_t limit)
{
    uint32_t slot = draft->slot[before];

    if (slot == RP_NO_SLOT)
        slot = draft->slot[place];
    else if (draft->slot[place] != RP_NO_SLOT && draft->slot[place] != slot)
        return RP_NO_SLOT;
    if (slot != RP_NO_SLOT)
        return rp_pool_is_free(&draft->slots, slot, span) ? slot : RP_NO_SLOT;
    slot = rp_pool_find(&draft->slots, draft->unit_bytes[place], span);
    if (slot == RP_NO_SLOT && rp_draft_may_grow(draft, draft->unit_bytes[place], 0, limit, draft->prefetches > 0))
        slot = rp_pool_grow(&draft->slots, draft->unit_bytes[place]);
    return slot;
}

bool rp_draft_keep(struct rp_draft *draft, size_t place, uint64_t limit)
{
    const struct rp_model *model = draft->model;
    struct rp_choice *choice = &draft->choices[place];
    size_t before = model->entries[place].before, end = place;
    bool prefetched = choice->action == RP_PLAN_PREFETCH;

    if (before == RP_NO_PLACE || choice->action == RP_PLAN_KEEP)
        return false;
    if (prefetched)
        end = choice->issue; /* from there on it has its slot */
    struct rp_span span = rp_draft_span_behind(draft, before, rp_model_distance(model, before, end));
    uint32_t slot = slot_of_link(draft, before, place, span, limit);
    if (slot == RP_NO_SLOT)
        return false;
    rp_pool_take(&draft->slots, slot, span);
    draft->slot[before] = draft->slot[place] = slot;
    *choice = (struct rp_choice){.action = RP_PLAN_KEEP, .issue = RP_NO_ISSUE};
    draft->prefetches -= prefetched;
    return true;
}

struct rp_span rp_draft_snapshot_span(const struct rp_draft *draft, size_t place)
{
    size_t head = draft->model->entries[place].head;
    if (head == RP_NO_PLACE)
        return (struct rp_span){.first = 0, .length = draft->model->count};
    return (struct rp_span){.first = head, .length = rp_model_distance(draft->model, head, place) + 1};
}

/* The longest that any slot is free before the entry, up to `length`. */
static size_t longest_free(struct rp_draft *draft, size_t place, size_t length, uint32_t *slot_out)
{
    if (draft->slot[place] == RP_NO_SLOT)
        return rp_pool_find_before(&draft->slots, draft->unit_bytes[place], place, length, slot_out);
    *slot_out = draft->slot[place];
    return rp_pool_free_before(&draft->slots, *slot_out, place, length);
}

/* Where the snapshot of a unit has to be in addition, for a prefetch of `place`; nowhere: it is there. */
static struct rp_span snapshot_missing(const struct rp_draft *draft, size_t place)
{
    struct rp_span span = rp_draft_snapshot_span(draft, place);
    size_t reached = draft->reached[draft->plan[place].unit];

    if (reached >= span.length)
        return (struct rp_span){.length = 0};
    span.first += reached;
    span.first -= span.first >= draft->model->count ? draft->model->count : 0;
    span.length -= reached;
    return span;
}

/* What a prefetch needs beside a slot: bytes, 0: nothing new; and where, RP_NO_SLOT: in a new one. False: not to be
 * had. */
static bool find_snapshot(struct rp_draft *draft, size_t place, uint64_t *cost_out, uint32_t *snapshot_out)
{
    uint32_t snapshot = draft->snapshot[draft->plan[place].unit];
    struct rp_span span = snapshot_missing(draft, place);

    *cost_out = 0;
    *snapshot_out = snapshot;
    if (draft->model->entries[place].live || span.length == 0)
        return true;
    if (snapshot != RP_NO_SLOT)
        return rp_pool_is_free(&draft->snapshots, snapshot, span);
    *snapshot_out = rp_pool_find(&draft->snapshots, draft->shard_bytes[place], span);
    *cost_out = *snapshot_out == RP_NO_SLOT ? draft->shard_bytes[place] : 0;
    return true;
}

static void take_snapshot(struct rp_draft *draft, size_t place, uint32_t snapshot)
{
    uint32_t unit = draft->plan[place].unit;
    struct rp_span span = snapshot_missing(draft, place);

    if (draft->model->entries[place].live || span.length == 0)
        return;
    if (snapshot == RP_NO_SLOT)
        snapshot = rp_pool_grow(&draft->snapshots, draft->shard_bytes[place]);
    draft->snapshot[unit] = snapshot;
    draft->reached[unit] += span.length;
    rp_pool_take(&draft->snapshots, snapshot, span);
}

size_t rp_draft_prefetch(struct rp_draft *draft, size_t place, size_t length, uint64_t limit)
{
    uint32_t slot = RP_NO_SLOT, snapshot = RP_NO_SLOT;
    uint64_t cost;

    if (!find_snapshot(draft, place, &cost, &snapshot))
        return 0;
    size_t longest = longest_free(draft, place, length, &slot);
    if (longest < length && draft->slot[place] == RP_NO_SLOT &&
        rp_draft_may_grow(draft, draft->unit_bytes[place], cost, limit, true)) {
        slot = rp_pool_grow(&draft->slots, draft->unit_bytes[place]);
        longest = length;
    }
    while (longest > 0 && !rp_model_may_issue(draft->model, place, longest))
        longest--;
    if (longest == 0 || !rp_draft_affords(draft, 0, cost, true))
        return 0;
    size_t issue = rp_model_back(draft->model, place, longest);
    rp_pool_take(&draft->slots, slot, rp_draft_span_behind(draft, issue, longest));
    take_snapshot(draft, place, snapshot);
    draft->slot[place] = slot;
    draft->choices[place] = (struct rp_choice){.action = RP_PLAN_PREFETCH, .issue = (uint32_t)issue};
    draft->prefetches++;
    return longest;
}

/* ---------------------------------------------------------------- score */

struct rp_score rp_draft_score(struct rp_draft *draft, struct rp_model_trace *trace)
{
    struct rp_score score = {.memory = draft->slots.total + draft->snapshots.total};

    for (size_t i = 0; i < draft->gathers; i++) {
        if (draft->choices[draft->by_size[i]].action != RP_PLAN_KEEP)
            score.sent += draft->plan[draft->by_size[i]].bytes;
    }
    score.memory += draft->prefetches > 0 ? draft->extra : 0;
    score.waits = rp_model_run(draft->model, draft->choices, trace);
    return score;
}

bool rp_score_better(const struct rp_score *a, const struct rp_score *b)
{
    if (a->waits != b->waits)
        return a->waits < b->waits;
    return a->sent != b->sent ? a->sent < b->sent : a->memory < b->memory;
}
