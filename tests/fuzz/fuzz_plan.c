/*
 * The planner, which works inside the program that is replayed, on whatever order that program happens to have.
 *
 * An input is a cycle and what is known beside it: HEADER bytes, then three bytes an op: what it is, which content it
 * sends and how that changes from cycle to cycle, the time before it. The lane shows that cycle some times. The plan is
 * then played over the last two of them.
 *
 * Threads: one.
 */
#include <stdlib.h>
#include <string.h>

#include "core/plan/plan.h"
#include "core/plan/plan_private.h"
#include "tests/fuzz/fuzz.h"

const char fuzz_target[] = "plan";

#define HEADER 8u
#define OP 3u
#define OPS_MOST 400u
#define CYCLES_MOST 40u
#define UNITS 32u
#define KIB 1024u
#define HUGE 7u /* a size */

struct known {
    uint32_t nranks;
    uint64_t budget, granule;
    size_t cycles, parts, period; /* contents that rotate: changes in a cycle, after how many each comes again */
    struct rp_plan_ahead ahead;
};

static struct known read_known(const uint8_t *data)
{
    static const uint64_t granules[] = {1, 4 * KIB, 2048 * KIB, 3 * KIB};
    return (struct known){
        .nranks = 1 + data[0] % 16,
        .granule = granules[data[0] >> 4 & 3],
        .budget = data[1] == UINT8_MAX ? UINT64_MAX : (uint64_t)data[1] << (data[2] % 24),
        .cycles = 2 + data[3] % (CYCLES_MOST - 1),
        .parts = 1 + data[4] % 8,
        .period = 1 + data[4] / 8 % 8,
        .ahead = {.link = {.latency_ns = data[5] * 100u, .ns_per_mib = data[6] * 1000u},
                  .packs = data[7] & 1,
                  .extra = (data[7] >> 1) * KIB},
    };
}

/* What an op of the cycle sends the time that the cycle is shown: changed by its steps, parts of one, or never. */
static uint64_t version_of(const struct known *known, uint8_t how, size_t cycle, size_t at, size_t count)
{
    size_t part = cycle * known->parts + at * known->parts / count;

    switch (how & 7) {
    case 0:
        return 0;
    case 1:
        return 1 + part % known->period;
    case 2:
        return 1 + part;
    case 3:
        return 1 + cycle * count + at;
    default:
        return 1 + cycle;
    }
}

static void add(const struct known *known, const uint8_t *op, size_t cycle, size_t at, size_t count,
                struct rp_learned *item_out)
{
    static const enum rp_op_kind kinds[] = {RP_OP_ALL_GATHER, RP_OP_ALL_GATHER, RP_OP_ALL_GATHER, RP_OP_REDUCE_SCATTER,
                                            RP_OP_ALL_GATHER, RP_OP_ALL_GATHER, RP_OP_ALL_REDUCE, RP_OP_SEND};
    uint64_t bytes = op[0] >> 5 == HUGE ? UINT64_MAX / 4 : (uint64_t)(op[0] >> 5) * 64 * KIB;
    struct rp_op call = {.kind = (uint8_t)kinds[op[0] & 7], .dtype = RP_DTYPE_UINT8, .root = -1, .count = bytes};

    *item_out = (struct rp_learned){.signature = rp_op_signature(&call),
                                    .bytes = bytes,
                                    .kind = call.kind,
                                    .send = op[0] & 16 ? 1 + op[1] % UNITS : 0,
                                    .packable = call.kind == RP_OP_ALL_GATHER && op[0] & 8};
    if (call.kind != RP_OP_ALL_GATHER)
        return;
    item_out->content[0] = 1 + op[1] % UNITS;
    item_out->content[1] = version_of(known, op[1] / UNITS, cycle, at, count);
}

static void check_memory(const struct known *known, const struct rp_plan *plan)
{
    uint64_t bytes = rp_plan_bytes(plan);
    must(bytes <= known->budget && (plan->prefetches == 0 || known->ahead.extra <= known->budget - bytes));
    for (size_t slot = 0; slot < plan->slot_count; slot++)
        must(plan->slot_bytes[slot] % known->granule == 0);
    for (size_t snapshot = 0; snapshot < plan->snapshot_count; snapshot++)
        must(plan->snapshot_bytes[snapshot] % known->granule == 0);
}

static void check_entry(const struct known *known, const struct rp_plan *plan, size_t place)
{
    const struct rp_plan_entry *entry = &plan->entries[place];
    bool ahead = entry->action == RP_PLAN_PREFETCH;
    must(entry->unit == RP_NO_UNIT || entry->unit < plan->unit_count);
    must(entry->snapshot == RP_NO_SLOT || entry->snapshot < plan->snapshot_count);
    must(ahead ? entry->issue < plan->count : entry->issue == RP_NO_ISSUE);
    must(ahead == (entry->source != RP_PLAN_FROM_NOTHING));
    must(entry->source != RP_PLAN_FROM_SNAPSHOT || entry->snapshot != RP_NO_SLOT);
    if (entry->slot == RP_NO_SLOT) {
        must(!rp_plan_serves(entry->action));
        return;
    }
    must(entry->slot < plan->slot_count && entry->kind == RP_OP_ALL_GATHER);
    must(plan->slot_bytes[entry->slot] >=
         rp_plan_unit_bytes(entry->bytes, entry->packed, known->nranks, known->granule));
}

static void check_issues(const struct rp_plan *plan)
{
    size_t listed = 0;
    if (plan->prefetches == 0)
        return;
    for (size_t place = 0; place < plan->count; place++) {
        for (uint32_t i = plan->issues_at[place]; i < plan->issues_at[place + 1]; i++, listed++)
            must(plan->entries[plan->issues[i]].issue == place);
    }
    must(listed == plan->prefetches);
}

/* What a slot or a snapshot holds, and until which moment a gather ahead uses it. */
struct buffer {
    const struct rp_learned *holds;
    size_t busy;
};

static bool holds(const struct buffer *buffer, const struct rp_learned *item)
{
    return buffer->holds != NULL && buffer->holds->bytes == item->bytes &&
           memcmp(buffer->holds->content, item->content, sizeof(item->content)) == 0;
}

struct play {
    const struct rp_plan *plan;
    struct rp_plan_cycle cycle;
    struct buffer *slots, *snapshots;
};

/* Behind the op at `moment`; what is copied from a live buffer is taken to be right. */
static void play_issues(const struct play *play, size_t moment)
{
    const struct rp_plan *plan = play->plan;
    size_t place = moment % plan->count;

    if (plan->prefetches == 0)
        return;
    for (uint32_t i = plan->issues_at[place]; i < plan->issues_at[place + 1]; i++) {
        size_t used = plan->issues[i], length = (used + plan->count - place - 1) % plan->count + 1;
        const struct rp_plan_entry *entry = &plan->entries[used];
        struct buffer *slot = &play->slots[entry->slot];
        must(length <= RP_PLAN_LOOKAHEAD && slot->busy <= moment);
        bool live = entry->source == RP_PLAN_FROM_LIVE;
        slot->holds = moment + length >= 2 * plan->count ? NULL
                      : live                             ? rp_plan_before(&play->cycle, moment + length)
                                                         : play->snapshots[entry->snapshot].holds;
        slot->busy = moment + length;
    }
}

/* In the first cycle everything comes from the network; in the second what is served must be there. */
static void play_op(const struct play *play, size_t moment)
{
    const struct rp_plan_entry *entry = &play->plan->entries[moment % play->plan->count];
    const struct rp_learned *item = rp_plan_before(&play->cycle, moment);
    bool first = moment < play->plan->count, serves = rp_plan_serves(entry->action);

    if (entry->slot != RP_NO_SLOT) {
        struct buffer *slot = &play->slots[entry->slot];
        must(slot->busy <= moment && (first || !serves || holds(slot, item)));
        slot->holds = item;
    }
    if (entry->snapshot != RP_NO_SLOT && (first || !serves))
        play->snapshots[entry->snapshot].holds = item;
}

static void play_plan(const struct rp_plan *plan, const struct rp_learned *items, size_t count)
{
    struct play play = {.plan = plan,
                        .slots = calloc(plan->slot_count + 1, sizeof(*play.slots)),
                        .snapshots = calloc(plan->snapshot_count + 1, sizeof(*play.snapshots))};

    must(play.slots != NULL && play.snapshots != NULL);
    must(rp_plan_cycle_find(items, count, &play.cycle) == RP_OK && play.cycle.period == plan->count);
    for (size_t moment = 0; moment < 2 * plan->count; moment++) {
        play_op(&play, moment);
        play_issues(&play, moment);
    }
    rp_plan_cycle_free(&play.cycle);
    free(play.slots);
    free(play.snapshots);
}

static void check(const struct known *known, const struct rp_plan *plan)
{
    size_t keeps = 0, prefetches = 0;
    check_memory(known, plan);
    for (size_t place = 0; place < plan->count; place++) {
        check_entry(known, plan, place);
        keeps += plan->entries[place].action == RP_PLAN_KEEP;
        prefetches += plan->entries[place].action == RP_PLAN_PREFETCH;
    }
    must(keeps == plan->keeps && prefetches == plan->prefetches);
    check_issues(plan);
}

static enum rp_status compile(const struct known *known, const struct rp_learned *items, size_t count,
                              struct rp_plan *plan_out)
{
    *plan_out = (struct rp_plan){0};
    return rp_plan_compile_ahead(items, count, known->nranks, known->budget, known->granule, &known->ahead, plan_out);
}

static void compile_twice(const struct known *known, const struct rp_learned *items, size_t count)
{
    struct rp_plan plan, again;
    enum rp_status status = compile(known, items, count, &plan);
    must(compile(known, items, count, &again) == status);
    must(status == RP_OK || status == RP_NOT_FOUND || status == RP_UNSUPPORTED);
    if (status == RP_OK) {
        must(plan.hash == again.hash);
        check(known, &plan);
        play_plan(&plan, items, count);
    }
    rp_plan_free(&plan);
    rp_plan_free(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < HEADER + OP)
        return 0;
    struct known known = read_known(data);
    size_t ops = (size - HEADER) / OP, count = 0;
    ops = ops < OPS_MOST ? ops : OPS_MOST;
    struct rp_learned *items = calloc(ops * known.cycles, sizeof(*items));
    uint64_t *gaps = calloc(ops * known.cycles, sizeof(*gaps));
    must(items != NULL && gaps != NULL);
    for (size_t cycle = 0; cycle < known.cycles; cycle++) {
        for (size_t at = 0; at < ops; at++, count++) {
            const uint8_t *op = data + HEADER + at * OP;
            add(&known, op, cycle, at, ops, &items[count]);
            gaps[count] = op[2] * 1000u;
        }
    }
    known.ahead.gap_ns = gaps;
    compile_twice(&known, items, count);
    free(items);
    free(gaps);
    return 0;
}
