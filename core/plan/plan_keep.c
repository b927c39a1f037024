/*
 * What is kept in which slot. A slot holds units of one size, so each size is a cache of its own (plan_cache.h).
 *
 * How many slots a size gets (plan_share.h): one more slot, of nranks times n bytes, saves n bytes for each further
 * gather served. With every slot they become fewer, so the game is played for runs of slots that add equally.
 *
 * plan_private.h has the threads.
 */
#include "core/plan/plan_cache.h"
#include "core/plan/plan_private.h"
#include "core/plan/plan_share.h"

#include <stdlib.h>

/* The gathers of one size are members first, first + 1, ... of all. */
struct size_class {
    uint64_t bytes; /* of one rank's part */
    bool packed;
    size_t first, count;
    size_t slots; /* what it gets */
};

struct keeper {
    uint32_t nranks;
    uint64_t granule;
    size_t *places; /* of a member, by size, then in order */
    size_t *next;   /* of a member, by its number in its class: the link */
    size_t count;
    struct size_class *classes;
    size_t class_count;
    struct rp_plan_cache cache;
    struct rp_share_size *sizes; /* of a class */
    struct rp_share_run *runs;
    size_t run_count;
};

/* ---------------------------------------------------------------- what slots are worth */

/* So many slots serve so many gathers; there are no more than `most`. */
struct played {
    size_t slots, keeps, most;
};

static size_t play(struct keeper *keeper, const struct size_class *class, size_t slots)
{
    return rp_plan_cache_play(&keeper->cache, keeper->next + class->first, class->count, slots);
}

/* With so many slots more each one serves `gain` more. */
static bool adds_equally(struct keeper *keeper, const struct size_class *class, const struct played *played,
                         size_t gain, size_t slots)
{
    return slots <= played->most - played->slots &&
           play(keeper, class, played->slots + slots) == played->keeps + gain * slots;
}

/* One more slot serves `gain` more: how many do. All that there are, or found in strides that double, then halve. */
static size_t equal_run(struct keeper *keeper, const struct size_class *class, const struct played *played, size_t gain)
{
    size_t slots = 1, stride = 1;

    if (adds_equally(keeper, class, played, gain, played->most - played->slots))
        return played->most - played->slots;
    for (; adds_equally(keeper, class, played, gain, slots + stride); stride *= 2)
        slots += stride;
    for (stride /= 2; stride > 0; stride /= 2)
        slots += adds_equally(keeper, class, played, gain, slots + stride) ? stride : 0;
    return slots;
}

/* So that the values of all slots together can be counted. */
static uint64_t value_of(const struct keeper *keeper, const struct size_class *class, size_t gain)
{
    uint64_t most = UINT64_MAX / (4 * (keeper->count + 1));
    return gain * (class->bytes < most ? class->bytes : most);
}

/* The next run, if any. One more slot may be of no use where links over the boundary are in one another's way. */
static bool add_run(struct keeper *keeper, size_t number, struct played *played)
{
    const struct size_class *class = &keeper->classes[number];
    struct rp_share_size *size = &keeper->sizes[number];
    size_t left = played->most - played->slots, more = 1, keeps = 0;

    while (more <= left && (keeps = play(keeper, class, played->slots + more)) <= played->keeps)
        more = more < left && 2 * more > left ? left : 2 * more;
    if (more > left)
        return false;
    size_t gain = (keeps - played->keeps + more - 1) / more;
    if (more == 1) {
        more = equal_run(keeper, class, played, gain);
        keeps = played->keeps + gain * more;
    } else {
        size->values = RP_SHARE_ROUGH;
    }
    played->slots += more;
    played->keeps = keeps;
    keeper->runs[keeper->run_count++] =
        (struct rp_share_run){.size = number, .slots = more, .value = value_of(keeper, class, gain)};
    size->count++;
    return true;
}

/* As far as the budget goes. */
static void find_runs(struct keeper *keeper, size_t number, uint64_t budget)
{
    const struct size_class *class = &keeper->classes[number];
    struct rp_share_size *size = &keeper->sizes[number];
    uint64_t bytes = rp_plan_unit_bytes(class->bytes, class->packed, keeper->nranks, keeper->granule),
             fit = bytes == UINT64_MAX ? 0 : budget / bytes;
    struct played played = {.most = rp_plan_cache_slots(&keeper->cache, keeper->next + class->first, class->count)};

    played.most = fit < played.most ? (size_t)fit : played.most;
    *size = (struct rp_share_size){.bytes = bytes, .first = keeper->run_count};
    while (add_run(keeper, number, &played)) {
    }
}

static enum rp_status share_out(struct keeper *keeper, uint64_t budget)
{
    for (size_t i = 0; i < keeper->class_count; i++)
        find_runs(keeper, i, budget);
    struct rp_share share = {.sizes = keeper->sizes,
                             .count = keeper->class_count,
                             .runs = keeper->runs,
                             .run_count = keeper->run_count,
                             .budget = budget};
    enum rp_status status = rp_share_out(&share);
    for (size_t i = 0; i < keeper->class_count; i++)
        keeper->classes[i].slots = keeper->sizes[i].slots;
    return status;
}

/* ---------------------------------------------------------------- into the plan */

/* Slots are numbered over all classes, from `base` on; only links that are kept to their end count. */
static void write_entries(const struct keeper *keeper, const struct size_class *class, uint32_t base,
                          struct rp_plan *plan)
{
    const uint32_t *served = keeper->cache.served, *stored = keeper->cache.stored;

    for (size_t m = 0; m < class->count; m++) {
        size_t after = keeper->next[class->first + m];
        struct rp_plan_entry *entry = &plan->entries[keeper->places[class->first + m]];
        if (served[m] != RP_NO_SLOT) {
            entry->action = RP_PLAN_KEEP;
            entry->slot = base + served[m];
            plan->keeps++;
            plan->saved += entry->bytes;
        } else if (after != RP_NO_MEMBER && served[after] != RP_NO_SLOT) {
            entry->action = RP_PLAN_NETWORK;
            entry->slot = base + stored[m];
        }
    }
}

/* Numbers slots anew in the order of their first use, so that one that is not used is none. */
static enum rp_status number_slots(const struct keeper *keeper, struct rp_plan *plan, size_t slots)
{
    uint32_t *number = malloc((slots + 1) * sizeof(*number));

    plan->slot_bytes = calloc(slots + 1, sizeof(*plan->slot_bytes));
    if (number == NULL || plan->slot_bytes == NULL) {
        free(number);
        return RP_NO_MEMORY;
    }
    for (size_t slot = 0; slot < slots; slot++)
        number[slot] = RP_NO_SLOT;
    for (size_t place = 0; place < plan->count; place++) {
        struct rp_plan_entry *entry = &plan->entries[place];
        if (entry->slot == RP_NO_SLOT)
            continue;
        if (number[entry->slot] == RP_NO_SLOT) {
            number[entry->slot] = (uint32_t)plan->slot_count;
            plan->slot_bytes[plan->slot_count++] =
                rp_plan_unit_bytes(entry->bytes, entry->packed, keeper->nranks, keeper->granule);
        }
        entry->slot = number[entry->slot];
    }
    free(number);
    return RP_OK;
}

static enum rp_status assign(struct keeper *keeper, struct rp_plan *plan)
{
    size_t slots = 0;

    for (size_t i = 0; i < keeper->class_count; i++) {
        const struct size_class *class = &keeper->classes[i];
        play(keeper, class, class->slots);
        write_entries(keeper, class, (uint32_t)slots, plan);
        slots += class->slots;
    }
    return number_slots(keeper, plan, slots);
}

/* ---------------------------------------------------------------- members and classes */

static void add_member(struct keeper *keeper, const struct rp_plan_sized *sized, size_t *number)
{
    struct size_class *last = keeper->class_count == 0 ? NULL : &keeper->classes[keeper->class_count - 1];

    if (last == NULL || last->bytes != sized->bytes || last->packed != sized->packed) {
        last = &keeper->classes[keeper->class_count++];
        *last = (struct size_class){.bytes = sized->bytes, .packed = sized->packed, .first = keeper->count};
    }
    number[sized->place] = last->count++;
    keeper->places[keeper->count++] = sized->place;
}

static size_t sorted_by_size(const struct rp_plan *plan, struct rp_plan_sized *sized)
{
    size_t count = 0;
    bool sorted = true;

    for (size_t place = 0; place < plan->count; place++) {
        const struct rp_plan_entry *entry = &plan->entries[place];
        if (entry->kind != RP_OP_ALL_GATHER || entry->bytes == 0)
            continue;
        sized[count] = (struct rp_plan_sized){.bytes = entry->bytes, .packed = entry->packed, .place = place};
        sorted = sorted && (count == 0 || rp_plan_compare_sized(&sized[count - 1], &sized[count]) < 0);
        count++;
    }
    if (!sorted)
        qsort(sized, count, sizeof(*sized), rp_plan_compare_sized);
    return count;
}

/* Every gather becomes a member; the links, from place to place, become links from member to member. */
static enum rp_status find_members(struct keeper *keeper, const struct rp_plan *plan, const size_t *next)
{
    struct rp_plan_sized *sized = calloc(plan->count, sizeof(*sized));
    size_t *number = calloc(plan->count, sizeof(*number)); /* of a place, in its class */

    if (sized == NULL || number == NULL) {
        free(sized);
        free(number);
        return RP_NO_MEMORY;
    }
    size_t count = sorted_by_size(plan, sized);
    for (size_t i = 0; i < count; i++)
        add_member(keeper, &sized[i], number);
    for (size_t i = 0; i < count; i++) {
        size_t after = next[keeper->places[i]];
        keeper->next[i] = after == RP_NO_PLACE ? RP_NO_MEMBER : number[after];
    }
    free(sized);
    free(number);
    return RP_OK;
}

static enum rp_status keeper_make(struct keeper *keeper, const struct rp_plan *plan, const size_t *next)
{
    enum rp_status status = rp_plan_cache_make(plan->count, &keeper->cache);

    keeper->places = calloc(plan->count, sizeof(*keeper->places));
    keeper->next = calloc(plan->count, sizeof(*keeper->next));
    keeper->classes = calloc(plan->count, sizeof(*keeper->classes));
    keeper->sizes = calloc(plan->count, sizeof(*keeper->sizes));
    keeper->runs = calloc(plan->count, sizeof(*keeper->runs));
    if (status != RP_OK || keeper->places == NULL || keeper->next == NULL || keeper->classes == NULL ||
        keeper->sizes == NULL || keeper->runs == NULL)
        return RP_NO_MEMORY;
    return find_members(keeper, plan, next);
}

static void keeper_free(struct keeper *keeper)
{
    rp_plan_cache_free(&keeper->cache);
    free(keeper->places);
    free(keeper->next);
    free(keeper->classes);
    free(keeper->sizes);
    free(keeper->runs);
}

enum rp_status rp_plan_keep(const size_t *next, uint32_t nranks, uint64_t budget, uint64_t granule,
                            struct rp_plan *plan)
{
    struct keeper keeper = {.nranks = nranks, .granule = granule};
    enum rp_status status = keeper_make(&keeper, plan, next);

    if (status == RP_OK)
        status = share_out(&keeper, budget);
    if (status == RP_OK)
        status = assign(&keeper, plan);
    keeper_free(&keeper);
    return status;
}
