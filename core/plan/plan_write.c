/*
 * The plan of a finished search: actions, slots and snapshots numbered in the order of their first use, and what each
 * entry issues. plan_ahead.h has the threads.
 */
#include "core/plan/plan_ahead.h"

#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- entries */

static bool leaves_unit(const struct rp_search *search, size_t place)
{
    size_t after = search->model.entries[place].after;
    return search->best.choices[place].action != RP_PLAN_NETWORK ||
           (after != RP_NO_PLACE && search->best.choices[after].action == RP_PLAN_KEEP);
}

static size_t behind_head(const struct rp_search *search, size_t place)
{
    size_t head = search->model.entries[place].head;
    return head == RP_NO_PLACE || head == place ? 0 : rp_model_distance(&search->model, head, place);
}

/* Of each unit: how far from its first gather the last prefetch from its snapshot is used, 0: none is. */
static void find_reached(const struct rp_search *search, size_t *reached)
{
    for (size_t place = 0; place < search->model.count; place++) {
        size_t behind = behind_head(search, place) + 1, *most = &reached[search->draft.plan[place].unit];
        if (search->best.choices[place].action == RP_PLAN_PREFETCH && !search->model.entries[place].live &&
            behind > *most)
            *most = behind;
    }
}

static void write_entry(const struct rp_search *search, const size_t *reached, size_t place, struct rp_plan *plan)
{
    const struct rp_choice *choice = &search->best.choices[place];
    struct rp_plan_entry *entry = &plan->entries[place];

    entry->slot = leaves_unit(search, place) ? search->best.slot[place] : RP_NO_SLOT;
    if (behind_head(search, place) < reached[entry->unit])
        entry->snapshot = search->best.snapshot[entry->unit];
    entry->action = choice->action;
    if (choice->action == RP_PLAN_NETWORK && entry->slot == RP_NO_SLOT && entry->snapshot == RP_NO_SLOT)
        entry->action = RP_PLAN_PASS;
    if (choice->action == RP_PLAN_KEEP) {
        plan->keeps++;
        plan->saved += entry->bytes;
    }
    if (choice->action == RP_PLAN_PREFETCH) {
        plan->prefetches++;
        entry->issue = choice->issue;
        entry->source = search->model.entries[place].live ? RP_PLAN_FROM_LIVE : RP_PLAN_FROM_SNAPSHOT;
    }
}

static enum rp_status write_entries(const struct rp_search *search, struct rp_plan *plan)
{
    size_t *reached = calloc(search->draft.units + 1, sizeof(*reached));

    if (reached == NULL)
        return RP_NO_MEMORY;
    find_reached(search, reached);
    memcpy(plan->entries, search->plan->entries, plan->count * sizeof(*plan->entries));
    for (size_t place = 0; place < plan->count; place++) {
        plan->entries[place].action = RP_PLAN_PASS;
        plan->entries[place].slot = RP_NO_SLOT;
        if (search->model.entries[place].gather)
            write_entry(search, reached, place, plan);
    }
    free(reached);
    return RP_OK;
}

/* ---------------------------------------------------------------- buffers */

/* The number of a buffer, a new one at its first use; its bytes are the largest that it holds. */
static uint32_t number_of(uint32_t *numbers, uint32_t buffer, uint64_t bytes, uint64_t *sizes, size_t *count)
{
    if (buffer == RP_NO_SLOT)
        return RP_NO_SLOT;
    if (numbers[buffer] == RP_NO_SLOT)
        numbers[buffer] = (uint32_t)(*count)++;
    if (sizes[numbers[buffer]] < bytes)
        sizes[numbers[buffer]] = bytes;
    return numbers[buffer];
}

static enum rp_status number_buffers(const struct rp_search *search, struct rp_plan *plan)
{
    uint32_t *slots = malloc(plan->count * sizeof(*slots)), *snapshots = malloc(plan->count * sizeof(*snapshots));

    plan->slot_bytes = calloc(plan->count, sizeof(*plan->slot_bytes));
    plan->snapshot_bytes = calloc(plan->count, sizeof(*plan->snapshot_bytes));
    if (slots != NULL && snapshots != NULL && plan->slot_bytes != NULL && plan->snapshot_bytes != NULL) {
        memset(slots, 0xff, plan->count * sizeof(*slots));         /* RP_NO_SLOT */
        memset(snapshots, 0xff, plan->count * sizeof(*snapshots)); /* RP_NO_SLOT */
        for (size_t place = 0; place < plan->count; place++) {
            struct rp_plan_entry *entry = &plan->entries[place];
            entry->slot =
                number_of(slots, entry->slot, search->draft.unit_bytes[place], plan->slot_bytes, &plan->slot_count);
            entry->snapshot = number_of(snapshots, entry->snapshot, search->draft.shard_bytes[place],
                                        plan->snapshot_bytes, &plan->snapshot_count);
        }
    }
    bool made = slots != NULL && snapshots != NULL && plan->slot_bytes != NULL && plan->snapshot_bytes != NULL;
    free(slots);
    free(snapshots);
    return made ? RP_OK : RP_NO_MEMORY;
}

/* ---------------------------------------------------------------- issues */

static void add_issues(struct rp_plan *plan, uint32_t *filled, bool crossing)
{
    for (uint32_t place = 0; place < plan->count; place++) {
        const struct rp_plan_entry *entry = &plan->entries[place];
        if (entry->action == RP_PLAN_PREFETCH && (entry->issue >= place) == crossing)
            plan->issues[plan->issues_at[entry->issue] + filled[entry->issue]++] = place;
    }
}

static enum rp_status write_issues(struct rp_plan *plan)
{
    uint32_t *filled = calloc(plan->count, sizeof(*filled));

    plan->issues = calloc(plan->prefetches + 1, sizeof(*plan->issues));
    plan->issues_at = calloc(plan->count + 1, sizeof(*plan->issues_at));
    if (filled != NULL && plan->issues != NULL && plan->issues_at != NULL) {
        for (size_t place = 0; place < plan->count; place++) {
            if (plan->entries[place].action == RP_PLAN_PREFETCH)
                plan->issues_at[plan->entries[place].issue + 1]++;
        }
        for (size_t place = 0; place < plan->count; place++)
            plan->issues_at[place + 1] += plan->issues_at[place];
        add_issues(plan, filled, false);
        add_issues(plan, filled, true);
    }
    bool made = filled != NULL && plan->issues != NULL && plan->issues_at != NULL;
    free(filled);
    return made ? RP_OK : RP_NO_MEMORY;
}

enum rp_status rp_search_write(const struct rp_search *search, struct rp_plan *plan)
{
    struct rp_plan made = {.count = plan->count, .unit_count = plan->unit_count};

    made.first = plan->first;
    made.end = plan->end;
    made.waits = plan->waits;
    made.waits.planned = search->best.score.waits;
    made.entries = malloc(made.count * sizeof(*made.entries));
    enum rp_status status = made.entries == NULL ? RP_NO_MEMORY : write_entries(search, &made);
    if (status == RP_OK)
        status = number_buffers(search, &made);
    if (status == RP_OK && made.prefetches > 0)
        status = write_issues(&made);
    if (status != RP_OK) {
        rp_plan_free(&made);
        return status;
    }
    rp_plan_free(plan);
    *plan = made;
    return RP_OK;
}
