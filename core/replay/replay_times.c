/*
 * What gathers ahead are planned by, measured by rank 0 while the lane learns: the time that compute takes between
 * gathers, and what a transfer takes. Other ranks read it from the table and the proposal: times differ from rank to
 * rank, and all must plan with the same.
 *
 *              real call a               real call b
 *     the link  ─┼─────────────┼┼─────────────┼──►              the caller's stream: BEGIN, END
 *                └─ transfer ──┘
 *     compute   ───┼───────────┼───────────────┼─┼──►           a stream that waits: WAIT, GO
 *                              └─── gap of b ──┘
 *
 * Gap: compute's own time, from where it goes on behind the gather that it waited for to where it has come to wait for
 * this one. What it waited for other ops between is left out: the plan has them on the link. Where no other stream
 * waits the caller's stream is compute's own, or the host waits, and the gap is from END to BEGIN; what fingerprints of
 * a gather take is in it then. Where the first stream that waits comes long behind the transfer, it waits for something
 * else, as for what compute made of the gather on the caller's own stream: no wait either.
 *
 * The median over the last cycles of the data, the lower one of two: a host that stalled is not compute. A gather that
 * has no stamps of compute in any of them, where others have, is taken to be as one alike. Gaps are given for the last
 * cycle alone, so that the plan's own choice between two cycles changes nothing.
 *
 * Link: a transfer also waits for ranks that come later, so quarters count and not means, each gather by its bytes. A
 * large gather shows the rate, what its latency adds included; latency is what small gathers take longer than that, 0
 * if there are none. A gather that begins before the one in front of it has ended (a group, another stream) shows
 * nothing.
 *
 * Stamps are taken on rank 0 alone; some may be missing.
 *
 * Threads: by the thread whose turn it is on the lane.
 */
#include <stdlib.h>

#include "core/plan/plan_private.h"
#include "core/replay/replay_private.h"

#define CYCLES_MOST 8u
#define WAITS_LATE 32u                  /* items: so late is an op waited for that is not a gather */
#define RATE_LEAST (UINT64_C(64) << 10) /* bytes received: less is all latency, and counts where there is no more */
#define MIB (UINT64_C(1) << 20)         /* less shows the latency */
#define QUARTER 4u
#define NOT_KNOWN UINT64_MAX

struct range {
    const struct rp_replay *replay;
    const struct rp_learned *items;
    uint64_t from;
    size_t count;
};

/* ---------------------------------------------------------------- single gathers */

/* NULL: the ring has it no longer. */
static const struct rp_past *past_of(const struct range *range, size_t index)
{
    uint64_t position = range->from + index;
    return rp_past_has(range->replay, position) ? rp_past_at(range->replay, position) : NULL;
}

/* The gather before this one; SIZE_MAX: none. */
static size_t gather_before(const struct range *range, size_t index)
{
    while (index > 0)
        if (range->items[--index].kind == RP_OP_ALL_GATHER)
            return index;
    return SIZE_MAX;
}

/* When it has ended; 0: not known. */
static uint64_t end_before(const struct range *range, size_t index)
{
    size_t before = gather_before(range, index);
    const struct rp_past *past = before == SIZE_MAX ? NULL : past_of(range, before);
    return past == NULL ? 0 : past->ns[RP_STAMP_END];
}

static bool has(const struct rp_past *past, enum rp_stamp_kind first, enum rp_stamp_kind second)
{
    return past != NULL && past->ns[first] != 0 && past->ns[second] != 0;
}

/* A gather that compute waits for. What is between the end of its transfer and that of the wait is of events, and of
 * fingerprints, which take less than a transfer does. */
static bool is_waited_for(const struct rp_past *past)
{
    if (!has(past, RP_STAMP_WAIT, RP_STAMP_GO) || !has(past, RP_STAMP_BEGIN, RP_STAMP_END))
        return false;
    const uint64_t *ns = past->ns;
    uint64_t begin = ns[RP_STAMP_BEGIN], end = ns[RP_STAMP_END];
    uint64_t latest = ns[RP_STAMP_WAIT] > end ? ns[RP_STAMP_WAIT] : end;
    return end >= begin && ns[RP_STAMP_GO] <= latest + (end - begin);
}

/* Of the gather, or of the last one that was called together with it, in a group; NULL: compute does not wait. */
static const struct rp_past *waited_for(const struct range *range, size_t index)
{
    const struct rp_past *past = past_of(range, index), *other = past;

    for (size_t i = index; past != NULL && other != NULL && !is_waited_for(other); i++) {
        bool more = i + 1 < range->count && range->items[i + 1].kind == RP_OP_ALL_GATHER;
        other = more ? past_of(range, i + 1) : NULL;
        if (other != NULL && (other->ns[RP_STAMP_BEGIN] == 0 || other->ns[RP_STAMP_BEGIN] >= past->ns[RP_STAMP_END]))
            other = NULL;
    }
    return other;
}

/* What other ops than gathers were waited for in between, of the items before. */
static uint64_t waited_between(const struct range *range, size_t index, uint64_t from_ns, uint64_t to_ns)
{
    uint64_t sum = 0;

    for (size_t i = index > WAITS_LATE ? index - WAITS_LATE : 0; i < index; i++) {
        const struct rp_past *past = past_of(range, i);
        if (range->items[i].kind == RP_OP_ALL_GATHER || !has(past, RP_STAMP_WAIT, RP_STAMP_GO))
            continue;
        uint64_t wait = past->ns[RP_STAMP_WAIT], go = past->ns[RP_STAMP_GO];
        if (wait >= from_ns && wait <= go && go <= to_ns)
            sum += go - wait;
    }
    return sum;
}

/* Of two times of the device; 0 where they are the other way round. */
static uint64_t from_to(uint64_t from_ns, uint64_t to_ns)
{
    return to_ns > from_ns ? to_ns - from_ns : 0;
}

/* Of a gather, by one of two clocks. False: not known. */
typedef bool gap_of(const struct range *range, size_t index, uint64_t *ns_out);

static bool gap_of_compute(const struct range *range, size_t index, uint64_t *ns_out)
{
    size_t earlier = gather_before(range, index);
    const struct rp_past *past = waited_for(range, index);
    const struct rp_past *before = earlier == SIZE_MAX ? NULL : waited_for(range, earlier);

    if (past == NULL || before == NULL)
        return false;
    uint64_t from = before->ns[RP_STAMP_GO], to = past->ns[RP_STAMP_WAIT];
    *ns_out = from_to(waited_between(range, index, from, to), from_to(from, to));
    return true;
}

static bool gap_of_caller(const struct range *range, size_t index, uint64_t *ns_out)
{
    const struct rp_past *past = past_of(range, index);
    uint64_t end = end_before(range, index);

    if (past == NULL || past->ns[RP_STAMP_BEGIN] == 0 || end == 0)
        return false;
    *ns_out = from_to(end, past->ns[RP_STAMP_BEGIN]);
    return true;
}

/* 0: not known, or not its own. */
static uint64_t transfer_of(const struct range *range, size_t index)
{
    const struct rp_past *past = past_of(range, index);

    if (!has(past, RP_STAMP_BEGIN, RP_STAMP_END) || past->ns[RP_STAMP_BEGIN] < end_before(range, index))
        return 0;
    return from_to(past->ns[RP_STAMP_BEGIN], past->ns[RP_STAMP_END]);
}

/* By each rank; 0: no gather. */
static uint64_t received(const struct range *range, size_t index)
{
    const struct rp_learned *item = &range->items[index];

    return item->kind == RP_OP_ALL_GATHER ? rp_plan_received(item, range->replay->agree->nranks) : 0;
}

/* ---------------------------------------------------------------- the link */

struct sample {
    uint64_t value, weight;
};

static int compare_samples(const void *left, const void *right)
{
    const struct sample *a = left, *b = right;
    return (a->value > b->value) - (a->value < b->value);
}

/* The value that a quarter of the weight does not exceed; 0: no samples. */
static uint64_t lower_quarter(struct sample *samples, size_t count)
{
    uint64_t total = 0, sum = 0;

    for (size_t i = 0; i < count; i++)
        total += samples[i].weight;
    qsort(samples, count, sizeof(*samples), compare_samples);
    for (size_t i = 0; i < count; i++) {
        sum += samples[i].weight;
        if (sum >= (total + QUARTER - 1) / QUARTER)
            return samples[i].value;
    }
    return 0;
}

/* Neither factor is near 2^64 but for nonsense; it is not to be divided by nothing. */
static uint64_t ns_per_mib(uint64_t ns, uint64_t bytes)
{
    return ns > UINT64_MAX / MIB ? UINT64_MAX / bytes : ns * MIB / bytes;
}

/* Of gathers that receive at least so much. */
static uint64_t rate(const struct range *range, uint64_t least, struct sample *samples)
{
    size_t count = 0;

    for (size_t i = 0; i < range->count; i++) {
        uint64_t ns = transfer_of(range, i), bytes = received(range, i);
        if (ns != 0 && bytes >= least)
            samples[count++] = (struct sample){.value = ns_per_mib(ns, bytes), .weight = bytes / least};
    }
    return lower_quarter(samples, count);
}

static uint64_t latency(const struct range *range, uint64_t per_mib, struct sample *samples)
{
    size_t count = 0;

    for (size_t i = 0; i < range->count; i++) {
        uint64_t ns = transfer_of(range, i), bytes = received(range, i);
        if (ns == 0 || bytes == 0 || bytes >= MIB)
            continue;
        uint64_t own = per_mib > UINT64_MAX / MIB ? UINT64_MAX : per_mib * bytes / MIB;
        samples[count++] = (struct sample){.value = ns > own ? ns - own : 0, .weight = 1};
    }
    return lower_quarter(samples, count);
}

static enum rp_status measure_link(const struct range *range, struct rp_plan_link_model *link_out)
{
    struct sample *samples = malloc(range->count * sizeof(*samples));

    if (samples == NULL)
        return RP_NO_MEMORY;
    *link_out = (struct rp_plan_link_model){.ns_per_mib = rate(range, RATE_LEAST, samples)};
    if (link_out->ns_per_mib == 0)
        link_out->ns_per_mib = rate(range, 1, samples);
    if (link_out->ns_per_mib != 0)
        link_out->latency_ns = latency(range, link_out->ns_per_mib, samples);
    free(samples);
    return RP_OK;
}

/* ---------------------------------------------------------------- gaps */

static uint64_t as_in_table(uint64_t ns)
{
    return ns < UINT32_MAX ? ns : UINT32_MAX;
}

/* Whole cycles at the end of the data that are the last one again, itself included. */
static size_t count_cycles(const struct rp_plan_cycle *cycle)
{
    size_t cycles = 1;

    for (size_t start = cycle->last; start >= cycle->period && cycles < CYCLES_MOST; cycles++) {
        start -= cycle->period;
        for (size_t place = 0; place < cycle->period; place++)
            if (cycle->items[cycle->index[start + place]].signature != rp_plan_last(cycle, place)->signature)
                return cycles;
    }
    return cycles;
}

/* The last ones of the data. */
struct cycles {
    const struct range *range;
    const struct rp_plan_cycle *cycle;
    size_t count;
};

/* False: not known in any of them. */
static bool median_gap(const struct cycles *cycles, size_t place, gap_of *gap, uint64_t *ns_out)
{
    const struct rp_plan_cycle *cycle = cycles->cycle;
    uint64_t sorted[CYCLES_MOST], ns;
    size_t count = 0;

    for (size_t i = 0; i < cycles->count; i++) {
        if (!gap(cycles->range, cycle->index[cycle->last + place - i * cycle->period], &ns))
            continue;
        size_t at = count++;
        for (; at > 0 && sorted[at - 1] > ns; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = ns;
    }
    *ns_out = count == 0 ? 0 : sorted[(count - 1) / 2];
    return count > 0;
}

/* Of the same size, and both behind another gather or neither. */
static bool is_alike(const struct rp_plan_cycle *cycle, size_t a, size_t b)
{
    const struct rp_learned *of_a = rp_plan_last(cycle, a), *of_b = rp_plan_last(cycle, b);
    const struct rp_learned *before_a = rp_plan_last(cycle, (a + cycle->period - 1) % cycle->period);
    const struct rp_learned *before_b = rp_plan_last(cycle, (b + cycle->period - 1) % cycle->period);

    return of_a->signature == of_b->signature && before_a->kind == before_b->kind;
}

/* By compute's clock, of the nearest one before, round the cycle, that is alike; false: there is none. */
static bool gap_alike(const struct rp_plan_cycle *cycle, const uint64_t *known, size_t place, uint64_t *ns_out)
{
    for (size_t back = 1; back < cycle->period; back++) {
        size_t other = (place + cycle->period - back) % cycle->period;
        if (known[other] == NOT_KNOWN || !is_alike(cycle, other, place))
            continue;
        *ns_out = known[other];
        return true;
    }
    return false;
}

/* Of each place of the cycle, by compute's clock, or NOT_KNOWN. */
static void find_known(const struct cycles *cycles, uint64_t *known)
{
    for (size_t place = 0; place < cycles->cycle->period; place++) {
        uint64_t ns;
        bool gather = rp_plan_last(cycles->cycle, place)->kind == RP_OP_ALL_GATHER;
        known[place] = gather && median_gap(cycles, place, gap_of_compute, &ns) ? ns : NOT_KNOWN;
    }
}

static void give_gaps(const struct cycles *cycles, const uint64_t *known, uint64_t *gap_ns)
{
    const struct rp_plan_cycle *cycle = cycles->cycle;

    for (size_t place = 0; place < cycle->period; place++) {
        uint64_t ns = known[place];
        if (rp_plan_last(cycle, place)->kind != RP_OP_ALL_GATHER)
            continue;
        if (ns != NOT_KNOWN || gap_alike(cycle, known, place, &ns) || median_gap(cycles, place, gap_of_caller, &ns))
            gap_ns[cycle->index[cycle->last + place]] = as_in_table(ns);
    }
}

static enum rp_status measure_gaps(const struct range *range, const struct rp_plan_cycle *cycle,
                                   struct rp_measured *measured)
{
    struct cycles cycles = {.range = range, .cycle = cycle, .count = count_cycles(cycle)};
    uint64_t *known = calloc(cycle->period, sizeof(*known));

    measured->gap_ns = calloc(range->count, sizeof(*measured->gap_ns));
    if (measured->gap_ns == NULL || known == NULL) {
        free(known);
        return RP_NO_MEMORY;
    }
    find_known(&cycles, known);
    give_gaps(&cycles, known, measured->gap_ns);
    free(known);
    return RP_OK;
}

/* ---------------------------------------------------------------- all of it */

bool rp_measured_wanted(const struct rp_replay *replay)
{
    return replay->agree->rank == 0 && replay->options.new_id != NULL && !replay->leader.alone;
}

enum rp_status rp_measured_make(const struct rp_replay *replay, const struct rp_learned *items, uint64_t from,
                                uint64_t to, struct rp_measured *measured_out)
{
    struct range range = {.replay = replay, .items = items, .from = from, .count = (size_t)(to - from)};
    struct rp_plan_cycle cycle;

    *measured_out = (struct rp_measured){0};
    if (!rp_measured_wanted(replay))
        return RP_OK;
    enum rp_status status = rp_plan_cycle_find(items, range.count, &cycle);
    if (status != RP_OK)
        return status;
    status = measure_link(&range, &measured_out->link);
    if (status == RP_OK && measured_out->link.ns_per_mib != 0)
        status = measure_gaps(&range, &cycle, measured_out);
    rp_plan_cycle_free(&cycle);
    return status;
}

enum rp_status rp_measured_read(const struct rp_replay *replay, const struct rp_proposal *proposal,
                                struct rp_measured *measured_out)
{
    struct rp_plan_link_model link = {.latency_ns = proposal->link_latency_ns, .ns_per_mib = proposal->link_ns_per_mib};
    size_t count = (size_t)(proposal->to - proposal->from);

    *measured_out = (struct rp_measured){0};
    if (link.latency_ns == 0 && link.ns_per_mib == 0)
        return RP_OK;
    uint64_t *gap_ns = malloc(count * sizeof(*gap_ns));
    if (gap_ns == NULL)
        return RP_NO_MEMORY;
    rp_learn_gaps(replay->learn, proposal->from, proposal->to, gap_ns);
    *measured_out = (struct rp_measured){.gap_ns = gap_ns, .link = link};
    return RP_OK;
}

enum rp_status rp_measured_copy(const struct rp_measured *measured, size_t count, struct rp_measured *measured_out)
{
    *measured_out = (struct rp_measured){.link = measured->link};
    if (measured->gap_ns == NULL)
        return RP_OK;
    measured_out->gap_ns = malloc(count * sizeof(*measured_out->gap_ns));
    if (measured_out->gap_ns == NULL)
        return RP_NO_MEMORY;
    for (size_t i = 0; i < count; i++)
        measured_out->gap_ns[i] = measured->gap_ns[i];
    return RP_OK;
}
