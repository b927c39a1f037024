/*
 * What a microbatch does: gathers in forward order, gathers and reductions in backward order, other operations now and
 * then, some of them in groups or captured.
 */
#include "tests/chaos/chaos_maker.h"

static struct chaos_entry *entry_add(struct chaos_phase *phase, enum chaos_kind kind, int unit)
{
    if (phase->count == CHAOS_PHASE_MAX)
        return NULL;
    struct chaos_entry *entry = &phase->entries[phase->count++];
    *entry = (struct chaos_entry){.kind = (uint8_t)kind, .unit = (uint8_t)unit};
    return entry;
}

static int random_unit(struct chaos_maker *maker)
{
    return chaos_below(&maker->random, maker->program->unit_count);
}

/* Forward and backward of a sharded model. `again`: backward gathers every unit twice, as with recomputation. */
static void layers(struct chaos_maker *maker, struct chaos_shape *shape, bool again, bool reduces)
{
    int units = maker->program->unit_count;
    for (int i = 0; i < units; i++)
        entry_add(&shape->forward, CHAOS_GATHER, i);
    for (int i = units - 1; i >= 0; i--) {
        entry_add(&shape->backward, CHAOS_GATHER, i);
        if (again)
            entry_add(&shape->backward, CHAOS_GATHER, i);
        if (reduces)
            entry_add(&shape->backward, CHAOS_REDUCE_SCATTER, i);
    }
}

/* Any order, some units several times, some never. */
static void anyhow(struct chaos_maker *maker, struct chaos_shape *shape)
{
    int forward = chaos_between(&maker->random, 2, 8), backward = chaos_between(&maker->random, 2, 8);
    for (int i = 0; i < forward; i++)
        entry_add(&shape->forward, CHAOS_GATHER, random_unit(maker));
    for (int i = 0; i < backward; i++) {
        int unit = random_unit(maker);
        entry_add(&shape->backward, CHAOS_GATHER, unit);
        if (chaos_draw(maker, 60))
            entry_add(&shape->backward, CHAOS_REDUCE_SCATTER, unit);
    }
}

static void others(struct chaos_maker *maker, struct chaos_shape *shape)
{
    static const struct {
        enum chaos_kind kind;
        int percent;
    } table[] = {
        {CHAOS_RING, 18}, {CHAOS_BROADCAST, 10}, {CHAOS_ALL_TO_ALL, 10}, {CHAOS_UNEVEN, 10}, {CHAOS_ALL_REDUCE, 12}};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (chaos_draw(maker, table[i].percent))
            entry_add(chaos_draw(maker, 50) ? &shape->forward : &shape->backward, table[i].kind, random_unit(maker));
}

/* Streams ---------------------------------------------------------------------------------------------------------- */

enum stream_rule { STREAMS_BY_KIND, STREAMS_ONE, STREAMS_ANY, STREAM_RULES };

/* Threads that issue at once have streams of their own. */
static int stream_of(struct chaos_maker *maker, const struct chaos_entry *entry, enum stream_rule rule)
{
    int streams = maker->program->streams;
    if (maker->program->parallel)
        return maker->program->units[entry->unit].comm == 1 ? streams - 1 : chaos_below(&maker->random, streams - 1);
    if (rule == STREAMS_ONE)
        return 0;
    if (rule == STREAMS_BY_KIND)
        return entry->kind == CHAOS_GATHER ? 0 : (entry->kind == CHAOS_REDUCE_SCATTER ? 1 : 2) % streams;
    return chaos_below(&maker->random, streams);
}

static void dress(struct chaos_maker *maker, struct chaos_phase *phase, enum stream_rule rule)
{
    for (int i = 0; i < phase->count; i++) {
        struct chaos_entry *entry = &phase->entries[i];
        entry->stream = (uint8_t)stream_of(maker, entry, rule);
        entry->poison = chaos_draw(maker, maker->poison_percent);
        entry->late = chaos_draw(maker, maker->late_percent);
        entry->host_wait = entry->kind == CHAOS_GATHER && maker->host_waits && chaos_draw(maker, 25);
    }
}

/* Groups and captures ---------------------------------------------------------------------------------------------- */

/* Members of a bracket use different units; of threads at once, a bracket is of one. */
static bool may_join(const struct chaos_program *program, const struct chaos_phase *phase, int first, int next)
{
    const struct chaos_entry *joins = &phase->entries[next];
    if (next >= phase->count || next - first >= CHAOS_BRACKET_MAX)
        return false;
    for (int i = first; i < next; i++) {
        const struct chaos_entry *member = &phase->entries[i];
        if (member->unit == joins->unit)
            return false;
        if (program->parallel && program->units[member->unit].comm != program->units[joins->unit].comm)
            return false;
    }
    return true;
}

static void bracket_features(struct chaos_program *program, const struct chaos_entry *first, int count)
{
    chaos_feature(program, first->bracket == CHAOS_GROUP ? CHAOS_HAS_GROUP : CHAOS_HAS_CAPTURE);
    for (int i = 1; i < count && first->bracket == CHAOS_GROUP; i++) {
        if (first[i].stream != first->stream)
            chaos_feature(program, CHAOS_HAS_GROUP_STREAMS);
        if (program->units[first[i].unit].comm != program->units[first->unit].comm)
            chaos_feature(program, CHAOS_HAS_GROUP_COMMS);
    }
}

static int bracket_make(struct chaos_maker *maker, struct chaos_phase *phase, int first, enum chaos_bracket bracket)
{
    int wanted = chaos_between(&maker->random, 1, CHAOS_BRACKET_MAX), next = first;
    maker->number++;
    do {
        struct chaos_entry *entry = &phase->entries[next++];
        entry->bracket = (uint8_t)bracket;
        entry->number = maker->number;
        entry->host_wait = false;
        if (bracket == CHAOS_CAPTURE) /* one stream, without a fork and a join of others */
            entry->stream = phase->entries[first].stream;
    } while (next - first < wanted && may_join(maker->program, phase, first, next));
    bracket_features(maker->program, &phase->entries[first], next - first);
    return next;
}

static void brackets_draw(struct chaos_maker *maker, struct chaos_phase *phase)
{
    for (int i = 0; i < phase->count;) {
        if (chaos_draw(maker, maker->group_percent))
            i = bracket_make(maker, phase, i, CHAOS_GROUP);
        else if (chaos_draw(maker, maker->capture_percent))
            i = bracket_make(maker, phase, i, CHAOS_CAPTURE);
        else
            i++;
    }
}

void chaos_shape_draw(struct chaos_maker *maker, struct chaos_shape *shape)
{
    *shape = (struct chaos_shape){0};
    int style = chaos_below(&maker->random, 10);
    if (style < 7)
        layers(maker, shape, style >= 5, style != 4);
    else
        anyhow(maker, shape);
    others(maker, shape);
    enum stream_rule rule = (enum stream_rule)chaos_below(&maker->random, STREAM_RULES);
    if (maker->program->tight)
        rule = STREAMS_ANY;
    dress(maker, &shape->forward, rule);
    dress(maker, &shape->backward, rule);
    brackets_draw(maker, &shape->forward);
    brackets_draw(maker, &shape->backward);
}
