/*
 * Memory for all choices of a draft at once: the largest units first, from the end of the cycle on, each where the
 * smallest buffer has room. plan_draft.h has the threads.
 */
#include "core/plan/plan_draft.h"

static bool is_served(const struct rp_draft *draft, size_t place)
{
    return draft->choices[place].action == RP_PLAN_KEEP || draft->choices[place].action == RP_PLAN_PREFETCH;
}

/* Gathers that one slot serves one after the other, from the one that fills it. */
struct run {
    size_t last, first;
    struct rp_span span;
};

static bool goes_on(const struct rp_draft *draft, size_t place)
{
    size_t after = draft->model->entries[place].after;
    return after != RP_NO_PLACE && draft->choices[after].action == RP_PLAN_KEEP;
}

/* Back from its last gather; a unit that is always kept has none and goes all round. */
static struct run run_to(const struct rp_draft *draft, size_t last)
{
    const struct rp_model *model = draft->model;
    struct run run = {.last = last, .first = last};
    size_t length = 0, from = last;

    while (draft->choices[run.first].action == RP_PLAN_KEEP) {
        from = model->entries[run.first].before;
        length += rp_model_distance(model, from, run.first);
        run.first = from;
        if (from == last)
            break;
    }
    if (draft->choices[run.first].action == RP_PLAN_PREFETCH) {
        from = draft->choices[run.first].issue;
        length += rp_model_distance(model, from, run.first);
    }
    run.span = rp_draft_span_behind(draft, from, length);
    return run;
}

/* Does a run end here? All round: where it goes over the cycle's end. */
static bool ends_run(const struct rp_draft *draft, size_t place)
{
    const struct rp_model_entry *entry = &draft->model->entries[place];

    if (!is_served(draft, place))
        return false;
    if (!goes_on(draft, place))
        return true;
    return entry->head == RP_NO_PLACE && entry->before >= place && run_to(draft, place).first == place &&
           draft->choices[place].action == RP_PLAN_KEEP;
}

/*
 * Not one that would meet itself in its slot: where links wind, or the first gather is issued before the last one of
 * the generation before.
 */
static bool place_run(struct rp_draft *draft, const struct run *run)
{
    uint64_t bytes = draft->unit_bytes[run->last];

    if (run->span.length > draft->model->count)
        return false;
    uint32_t slot = rp_pool_find(&draft->slots, bytes, run->span);
    if (slot == RP_NO_SLOT) {
        if (!rp_draft_may_grow(draft, bytes, 0, UINT64_MAX, draft->prefetches > 0))
            return false;
        slot = rp_pool_grow(&draft->slots, bytes);
    }
    rp_pool_take(&draft->slots, slot, run->span);
    size_t place = run->last;
    draft->slot[place] = slot;
    while (draft->choices[place].action == RP_PLAN_KEEP) {
        place = draft->model->entries[place].before;
        draft->slot[place] = slot;
        if (place == run->last)
            break;
    }
    return true;
}

static void drop_run(struct rp_draft *draft, const struct run *run)
{
    size_t place = run->last;

    while (is_served(draft, place)) {
        bool kept = draft->choices[place].action == RP_PLAN_KEEP;
        draft->prefetches -= !kept;
        draft->choices[place] = (struct rp_choice){.action = RP_PLAN_NETWORK, .issue = RP_NO_ISSUE};
        if (!kept)
            break;
        place = draft->model->entries[place].before;
    }
}

static bool has_snapshot(const struct rp_draft *draft, const struct run *run)
{
    return draft->choices[run->first].action != RP_PLAN_PREFETCH || draft->model->entries[run->first].live ||
           draft->snapshot[draft->plan[run->first].unit] != RP_NO_SLOT;
}

/*
 * Of by_size[from, to), all of one size: those over the cycle's end first, they fit worst. What does not fit is
 * dropped, or ends it.
 */
static bool place_runs(struct rp_draft *draft, size_t from, size_t to, bool drop)
{
    for (int crossing = 1; crossing >= 0; crossing--) {
        for (size_t i = from; i < to; i++) {
            if (draft->slot[draft->by_size[i]] != RP_NO_SLOT || !ends_run(draft, draft->by_size[i]))
                continue;
            struct run run = run_to(draft, draft->by_size[i]);
            bool crosses = run.span.first + run.span.length > draft->model->count;
            if (crosses != (crossing == 1) || (has_snapshot(draft, &run) && place_run(draft, &run)))
                continue;
            if (!drop)
                return false;
            drop_run(draft, &run);
        }
    }
    return true;
}

static void find_reached(struct rp_draft *draft)
{
    draft->prefetches = 0;
    for (size_t place = 0; place < draft->model->count; place++) {
        if (draft->choices[place].action != RP_PLAN_PREFETCH)
            continue;
        draft->prefetches++;
        size_t length = rp_draft_snapshot_span(draft, place).length,
               *reached = &draft->reached[draft->plan[place].unit];
        if (!draft->model->entries[place].live && length > *reached)
            *reached = length;
    }
}

/* True: the unit needs none, or it has one. */
static bool place_snapshot(struct rp_draft *draft, size_t place)
{
    uint32_t unit = draft->plan[place].unit;
    size_t head = draft->model->entries[place].head;
    struct rp_span span = {.first = head == RP_NO_PLACE ? 0 : head, .length = draft->reached[unit]};

    if (span.length == 0 || draft->snapshot[unit] != RP_NO_SLOT)
        return true;
    uint32_t snapshot = rp_pool_find(&draft->snapshots, draft->shard_bytes[place], span);
    if (snapshot == RP_NO_SLOT && rp_draft_affords(draft, 0, draft->shard_bytes[place], true))
        snapshot = rp_pool_grow(&draft->snapshots, draft->shard_bytes[place]);
    if (snapshot == RP_NO_SLOT)
        return false;
    rp_pool_take(&draft->snapshots, snapshot, span);
    draft->snapshot[unit] = snapshot;
    return true;
}

static bool place_all(struct rp_draft *draft, bool drop)
{
    for (size_t i = 0; i < draft->gathers; i++) {
        if (!place_snapshot(draft, draft->by_size[i])) {
            if (!drop)
                return false;
            draft->reached[draft->plan[draft->by_size[i]].unit] = 0;
        }
    }
    for (size_t from = 0, to = 0; from < draft->gathers; from = to) {
        uint64_t bytes = draft->unit_bytes[draft->by_size[from]];
        while (to < draft->gathers && draft->unit_bytes[draft->by_size[to]] == bytes)
            to++;
        if (!place_runs(draft, from, to, drop))
            return false;
    }
    return true;
}

bool rp_draft_pack(struct rp_draft *draft)
{
    rp_draft_forget_memory(draft);
    find_reached(draft);
    return place_all(draft, false);
}

bool rp_draft_pack_around(struct rp_draft *draft, size_t place)
{
    size_t last = place;

    rp_draft_forget_memory(draft);
    find_reached(draft);
    while (goes_on(draft, last) && draft->model->entries[last].after != place)
        last = draft->model->entries[last].after;
    struct run run = run_to(draft, last);
    if (is_served(draft, last) &&
        (!place_snapshot(draft, place) || !has_snapshot(draft, &run) || !place_run(draft, &run)))
        return false;
    return place_all(draft, true);
}
