/*
 * Follows a lane through its plan. See the header for what is possible and why; threads as there.
 */
#include "core/replay/replay_cursor.h"

#include <stdlib.h>
#include <string.h>

struct rp_known {
    uint64_t signature;
    uint32_t entry;
};

/* ---------------------------------------------------------------- life */

static int compare_known(const void *left, const void *right)
{
    const struct rp_known *a = left, *b = right;

    if (a->signature != b->signature)
        return a->signature < b->signature ? -1 : 1;
    return (a->entry > b->entry) - (a->entry < b->entry);
}

enum rp_status rp_cursor_create(const struct rp_plan *plan, struct rp_cursor *cursor_out)
{
    struct rp_cursor cursor = {.entries = plan->entries, .count = (uint32_t)plan->count};

    cursor.actions = calloc(plan->count, sizeof(*cursor.actions));
    cursor.known = calloc(plan->count, sizeof(*cursor.known));
    cursor.here.at = calloc(plan->count, sizeof(*cursor.here.at));
    cursor.others.at = calloc(plan->count, sizeof(*cursor.others.at));
    if (cursor.actions == NULL || cursor.known == NULL || cursor.here.at == NULL || cursor.others.at == NULL) {
        rp_cursor_free(&cursor);
        return RP_NO_MEMORY;
    }
    for (uint32_t i = 0; i < cursor.count; i++)
        cursor.known[i] = (struct rp_known){.signature = plan->entries[i].signature, .entry = i};
    qsort(cursor.known, cursor.count, sizeof(*cursor.known), compare_known);
    rp_cursor_reset(&cursor, plan, false);
    *cursor_out = cursor;
    return RP_OK;
}

void rp_cursor_free(struct rp_cursor *cursor)
{
    free(cursor->actions);
    free(cursor->known);
    free(cursor->here.at);
    free(cursor->others.at);
    *cursor = (struct rp_cursor){0};
}

void rp_cursor_reset(struct rp_cursor *cursor, const struct rp_plan *plan, bool at_end)
{
    for (uint32_t i = 0; i < cursor->count; i++)
        cursor->actions[i] = plan->entries[i].action;
    cursor->here.count = at_end ? 1 : 0;
    cursor->here.at[0] = cursor->count - 1;
    cursor->others.count = 0;
    cursor->misses = 0;
    cursor->confirmed = at_end;
    cursor->moves = 0;
    cursor->epoch = 0;
}

/* ---------------------------------------------------------------- following */

static uint32_t next_of(const struct rp_cursor *cursor, uint32_t entry)
{
    return entry + 1 == cursor->count ? 0 : entry + 1;
}

/* The entry so many ops before. */
static uint32_t before(const struct rp_cursor *cursor, uint32_t entry, uint64_t back)
{
    return (uint32_t)((entry + cursor->count - back % cursor->count) % cursor->count);
}

static void remember(struct rp_cursor *cursor, uint64_t signature)
{
    cursor->history[cursor->moves % RP_CURSOR_HISTORY] = signature;
    cursor->moves++;
}

/* First of the entries with the signature in `known`, or `count`. */
static uint32_t find_known(const struct rp_cursor *cursor, uint64_t signature)
{
    uint32_t low = 0, high = cursor->count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (cursor->known[middle].signature < signature)
            low = middle + 1;
        else
            high = middle;
    }
    return low < cursor->count && cursor->known[low].signature == signature ? low : cursor->count;
}

/* Moves the places on by an op and drops those that it does not fit. If it fits none they are empty. */
static void advance(const struct rp_cursor *cursor, struct rp_places *places, uint64_t signature)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < places->count; i++) {
        uint32_t next = next_of(cursor, places->at[i]);
        if (cursor->entries[next].signature == signature)
            places->at[kept++] = next;
    }
    places->count = kept;
}

/* How many of the ops before the last `skipped` ones are the entries before `entry`, latest first. */
static uint32_t fit(const struct rp_cursor *cursor, uint32_t entry, uint32_t skipped)
{
    uint64_t most = cursor->moves < RP_CURSOR_HISTORY ? cursor->moves : RP_CURSOR_HISTORY;
    uint32_t length = 0;

    while (length + skipped < most) {
        uint64_t seen = cursor->history[(cursor->moves - 1 - skipped - length) % RP_CURSOR_HISTORY];
        if (cursor->entries[before(cursor, entry, length + 1)].signature != seen)
            break;
        length++;
    }
    return length;
}

/* Every entry of the signature that fits what came before as well as any does. */
static void find_places(struct rp_cursor *cursor, uint64_t signature, uint32_t first)
{
    uint32_t best = 0;

    cursor->here.count = 0;
    for (uint32_t i = first; i < cursor->count && cursor->known[i].signature == signature; i++) {
        uint32_t length = fit(cursor, cursor->known[i].entry, 0);
        if (length > best)
            cursor->here.count = 0;
        if (length < best)
            continue;
        best = length;
        cursor->here.at[cursor->here.count++] = cursor->known[i].entry;
    }
}

static void take_others(struct rp_cursor *cursor)
{
    struct rp_places here = cursor->here;

    cursor->here = cursor->others;
    cursor->others = here;
    cursor->others.count = 0;
    cursor->misses = 0;
    cursor->confirmed = false;
    cursor->epoch++;
}

static enum rp_cursor_move see_slowly(struct rp_cursor *cursor, uint64_t signature)
{
    uint32_t known = find_known(cursor, signature);
    enum rp_cursor_move move = RP_CURSOR_FOLLOWED;

    if (known == cursor->count)
        return RP_CURSOR_FOREIGN;
    advance(cursor, &cursor->others, signature);
    advance(cursor, &cursor->here, signature);
    if (cursor->here.count == 0) {
        bool others = cursor->others.count > 0;
        take_others(cursor);
        if (!others)
            find_places(cursor, signature, known);
        move = RP_CURSOR_DIVERGED;
    }
    remember(cursor, signature);
    return move;
}

enum rp_cursor_move rp_cursor_see(struct rp_cursor *cursor, uint64_t signature)
{
    if (cursor->here.count == 1 && cursor->others.count == 0) {
        uint32_t next = next_of(cursor, cursor->here.at[0]);
        if (cursor->entries[next].signature == signature) {
            cursor->here.at[0] = next;
            remember(cursor, signature);
            return RP_CURSOR_FOLLOWED;
        }
    }
    return see_slowly(cursor, signature);
}

bool rp_cursor_knows(const struct rp_cursor *cursor, uint64_t signature)
{
    return find_known(cursor, signature) != cursor->count;
}

bool rp_cursor_expects(const struct rp_cursor *cursor, uint64_t signature)
{
    uint32_t sole = rp_cursor_sole(cursor);

    return sole == RP_NO_ENTRY || cursor->entries[next_of(cursor, sole)].signature == signature ||
           !rp_cursor_knows(cursor, signature);
}

/* ---------------------------------------------------------------- verdicts */

/* Drops the places whose entry `back` ops ago does not say `keep`, if any does. */
static void pick(struct rp_cursor *cursor, uint64_t back, bool keep)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < cursor->here.count; i++) {
        uint32_t place = cursor->here.at[i];
        if (rp_plan_serves(cursor->actions[before(cursor, place, back)]) != keep)
            continue;
        cursor->here.at[i] = cursor->here.at[kept];
        cursor->here.at[kept++] = place;
    }
    if (kept > 0)
        cursor->here.count = kept;
}

void rp_cursor_hit(struct rp_cursor *cursor, struct rp_cursor_mark mark)
{
    if (mark.epoch != cursor->epoch)
        return;
    cursor->others.count = 0;
    cursor->misses = 0;
    if (cursor->here.count > 1)
        pick(cursor, cursor->moves - mark.moves, true);
}

/* The miss of a unit that another place does not expect either is explained by that place. */
static bool explains(const struct rp_cursor *cursor, uint32_t place, uint32_t missed)
{
    return !rp_plan_serves(cursor->actions[place]) || cursor->entries[place].unit != cursor->entries[missed].unit;
}

/* The last op missed as `entry`: the others of its signature that fit as well and explain it. */
static void find_others(struct rp_cursor *cursor, uint32_t entry)
{
    uint64_t signature = cursor->entries[entry].signature;
    uint32_t length = fit(cursor, entry, 1);

    cursor->others.count = 0;
    for (uint32_t i = find_known(cursor, signature); i < cursor->count && cursor->known[i].signature == signature;
         i++) {
        uint32_t place = cursor->known[i].entry;
        if (explains(cursor, place, entry) && fit(cursor, place, 1) >= length)
            cursor->others.at[cursor->others.count++] = place;
    }
}

static void drop_unexplained(struct rp_cursor *cursor, uint64_t back, uint32_t missed)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < cursor->others.count; i++) {
        uint32_t place = cursor->others.at[i];
        if (explains(cursor, before(cursor, place, back), missed))
            cursor->others.at[kept++] = place;
    }
    cursor->others.count = kept;
}

static void miss_single(struct rp_cursor *cursor, uint64_t back)
{
    uint32_t entry = before(cursor, cursor->here.at[0], back);

    if (!rp_plan_serves(cursor->actions[entry])) {
        cursor->confirmed = true;
        return;
    }
    if (cursor->misses++ == 0) {
        if (back == 0)
            find_others(cursor, entry);
        return;
    }
    drop_unexplained(cursor, back, entry);
    if (cursor->others.count > 0)
        take_others(cursor);
}

void rp_cursor_miss(struct rp_cursor *cursor, struct rp_cursor_mark mark)
{
    uint64_t back = cursor->moves - mark.moves;

    if (mark.epoch != cursor->epoch || cursor->here.count == 0)
        return;
    if (cursor->here.count == 1)
        miss_single(cursor, back);
    else
        pick(cursor, back, false);
}
