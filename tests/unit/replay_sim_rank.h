/* One rank of replay_sim.h: what it does between calls, in a call, and what it issues ahead. */
#ifndef RP_TEST_REPLAY_SIM_RANK_H
#define RP_TEST_REPLAY_SIM_RANK_H

#include "replay_sim_world.h"

/* They come late, and some together. */
static inline void sim_give_stamps(struct sim_rank *rank)
{
    if (rank->stamp_count <= rank->sim->stamps_late + rank->sim->late_on[rank->number])
        return;
    for (size_t i = 0; i < rank->stamp_count; i++) {
        rp_replay_stamp(rank->replay, rank->stamps[i].position, rank->stamps[i].kind,
                        (int64_t)(rank->stamps[i].ns - rank->stamp_ns));
        rank->stamp_ns = rank->stamps[i].ns;
    }
    rank->stamp_count = 0;
}

/* What this rank has issued has ended: all have issued it. */
static inline bool sim_ended(const struct sim_rank *rank)
{
    return rank->fills == 0 || rank->sim->fills[rank->fills - 1].ranks == rank->sim->nranks;
}

static inline void sim_look_after_child(struct sim_rank *rank)
{
    struct rp_replay_id id;

    if (rp_replay_joins(rank->replay, &id)) {
        assert_int_equal(id.bytes[127], 7);
        rank->joins = 1 + sim_random(rank->sim) % 20;
        rank->told = true;
    }
    if (rank->told && rp_replay_leaves(rank->replay) && sim_ended(rank) && rp_replay_left(rank->replay)) {
        rank->told = rank->joined = false;
        rank->lefts++;
        rank->joins = 0;
    }
    if (rank->joins == 0 || --rank->joins > 0)
        return;
    rank->joined = (rank->sim->childless >> rank->number & 1) == 0;
    rp_replay_child(rank->replay, rank->joined);
}

static inline bool sim_id(void *context, struct rp_replay_id *id_out)
{
    (void)context;
    memset(id_out, 7, sizeof(*id_out));
    return true;
}

static inline void sim_stamp(struct sim_rank *rank, uint64_t position, enum rp_stamp_kind kind)
{
    uint32_t lost = rank->sim->stamps_lost;

    if (rank->stamp_count == SIM_STAMPS || (lost > 0 && sim_random(rank->sim) % 100 < lost))
        return;
    rank->stamps[rank->stamp_count].position = position;
    rank->stamps[rank->stamp_count].kind = kind;
    rank->stamps[rank->stamp_count++].ns = rank->now_ns;
}

/* Memory: nobody's content. */
static inline void sim_get_slots(struct sim_rank *rank, const struct rp_plan *plan)
{
    assert_true(plan->slot_count <= SIM_SLOTS && plan->snapshot_count <= SIM_SLOTS);
    rank->fills_slots = plan->prefetches > 0;
    for (size_t i = 0; i < SIM_SLOTS; i++) {
        rank->slots[i] = (struct sim_slot){.serial = SIM_NOBODYS, .fill = SIM_SETTLED};
        rank->slots[i].bytes = i < plan->slot_count ? plan->slot_bytes[i] : 0;
        rank->snapshots[i] = (struct sim_snapshot){.serial = SIM_NOBODYS};
        rank->snapshots[i].bytes = i < plan->snapshot_count ? plan->snapshot_bytes[i] : 0;
    }
}

static inline void sim_turn(struct sim_rank *rank)
{
    const struct rp_plan *wants = NULL;
    uint64_t position;
    size_t used = 0;

    while (used < rank->due_count && rp_replay_due(rank->replay, &position)) {
        struct sim_due *due = &rank->due[used];
        if (due->position < position) {
            used++; /* of before learning began anew */
            continue;
        }
        if (due->position > position)
            rp_replay_fingerprint_lost(rank->replay);
        else if (due->ready <= rank->at)
            rp_replay_fingerprint(rank->replay, position, due->value);
        else
            break;
        used++;
    }
    rank->due_count -= used;
    for (size_t i = 0; i < rank->due_count && used > 0; i++)
        rank->due[i] = rank->due[i + used];
    sim_give_stamps(rank);
    if (rank->unpackable)
        rp_replay_unpackable(rank->replay);
    rp_replay_turn(rank->replay, rank->sim->budget, &wants);
    sim_look_after_child(rank);
    if (wants == NULL)
        return;
    sim_get_slots(rank, wants);
    rp_replay_prepared(rank->replay, true);
}

static inline void sim_want_fingerprint(struct sim_rank *rank, const struct sim_call *call)
{
    uint64_t shard = call->action->shard[rank->number];

    rank->due = realloc(rank->due, (rank->due_count + 1) * sizeof(*rank->due));
    if (rank->due == NULL)
        abort();
    rank->due[rank->due_count++] = (struct sim_due){.position = call->op.position,
                                                    .value = {shard, sim_hash(shard, 1, 2)},
                                                    .ready = rank->at + sim_random(rank->sim) % 4};
}

static inline struct rp_op sim_op(const struct sim *sim, const struct sim_action *action, uint64_t position)
{
    bool gather = action->act == SIM_GATHER, halves = gather && sim->packs;

    return (struct rp_op){.kind = (uint8_t)(gather ? RP_OP_ALL_GATHER : RP_OP_REDUCE_SCATTER),
                          .dtype = (uint8_t)(halves ? RP_DTYPE_BFLOAT16 : RP_DTYPE_UINT8),
                          .redop = (uint8_t)(gather ? RP_REDOP_NONE : RP_REDOP_SUM),
                          .root = -1,
                          .count = halves ? action->bytes / 2 : action->bytes,
                          .position = position};
}

static inline void sim_call_begin(struct sim_rank *rank, struct sim_action *action)
{
    struct sim_call *call = &rank->calls[rank->call_count];
    bool gather = action->act == SIM_GATHER;

    *call = (struct sim_call){
        .action = action,
        .op = sim_op(rank->sim, action, atomic_load(&rank->lane.next) + rank->call_count),
        .result = {.verdict = RP_VERDICT_YES},
        .fails = action->fails,
    };
    rp_replay_next(rank->replay, &call->op, &call->step);
    call->result.send = gather && rank->sim->persistent ? action->unit + 1 : 0;
    if (gather && call->step.entry < SIM_ENTRIES)
        rank->unit_of[call->step.entry] = action->unit;
    rank->now_ns += rank->sim->gap_ns;
    if (call->step.stamp)
        sim_stamp(rank, call->op.position, RP_STAMP_BEGIN);
    rank->call_count++;
}

/* What the child can do now; a warm one is ready at one of the next words. */
static inline bool sim_child_can(struct sim_rank *rank, enum rp_word word)
{
    if (word == RP_WORD_COMMIT && rank->warms > 0)
        rank->warms--;
    unsigned refuses = word == RP_WORD_WARM ? rank->sim->unwarmed : rank->sim->unready;
    if (word == RP_WORD_NONE)
        return true;
    return rank->joined && (refuses >> rank->number & 1) == 0 && (word == RP_WORD_WARM || rank->warms == 0);
}

static inline void sim_settle(struct sim_rank *rank, struct sim_slot *slot)
{
    if (slot->fill == SIM_SETTLED || rank->sim->fills[slot->fill].ranks < rank->sim->nranks)
        return;
    memcpy(slot->parts, rank->sim->fills[slot->fill].parts, sizeof(slot->parts));
    slot->fill = SIM_SETTLED;
}

/* False: the slot is still being filled. */
static inline bool sim_make_up_mind(struct sim_rank *rank, struct sim_call *call)
{
    if (call->step.serve != RP_SERVE_KEEP) {
        call->own = sim_child_can(rank, call->step.word) && !call->fails ? RP_VERDICT_YES : RP_VERDICT_NO;
        return true;
    }
    struct sim_slot *slot = &rank->slots[call->step.slot];
    const struct sim_action *action = call->action;
    call->own = call->fails ? RP_VERDICT_NO : call->step.vote;
    sim_settle(rank, slot);
    if (call->own == RP_VERDICT_YES && slot->bytes == 0) {
        rp_replay_lost(rank->replay);
        call->own = RP_VERDICT_NO;
    }
    if (call->own == RP_VERDICT_YES && slot->fill != SIM_SETTLED) {
        call->own = RP_VERDICT_WITHDRAWN;
        return call->polls++ >= rank->sim->bound;
    }
    if (call->own == RP_VERDICT_YES && !sim_child_can(rank, call->step.word))
        call->own = RP_VERDICT_NO;
    if (call->own == RP_VERDICT_YES &&
        (slot->serial != call->step.expected || slot->parts[rank->number] != action->shard[rank->number]))
        call->own = RP_VERDICT_NO;
    return true;
}

static inline bool sim_issues(const struct sim_rank *rank, const struct sim_action *action)
{
    return (action->ranks >> rank->number & 1) != 0;
}

static inline struct sim_slot *sim_largest(struct sim_rank *rank)
{
    struct sim_slot *largest = &rank->slots[0];

    for (size_t i = 1; i < SIM_SLOTS; i++)
        if (rank->slots[i].bytes > largest->bytes)
            largest = &rank->slots[i];
    return largest;
}

/* All memory that no work is under way on; with gathers ahead, which all ranks issue, the largest slot stays. */
static inline void sim_lose(struct sim_rank *rank)
{
    const struct sim_slot *sink = rank->fills_slots ? sim_largest(rank) : NULL;

    for (size_t i = 0; i < SIM_SLOTS; i++) {
        struct sim_slot *slot = &rank->slots[i];
        sim_settle(rank, slot);
        slot->bytes = slot == sink || slot->fill != SIM_SETTLED ? slot->bytes : 0;
        rank->snapshots[i].bytes = 0;
    }
    if (rank->sim->budget_after_loss > 0)
        rank->sim->budget = rank->sim->budget_after_loss;
}

/* Actions up to the next call or group, whose nexts it makes. False: the program has ended. */
static inline bool sim_begin(struct sim_rank *rank)
{
    struct sim_program *program = &rank->sim->program;

    rank->call_count = rank->call = 0;
    for (; rank->at < program->count && rank->call_count == 0; rank->at++) {
        struct sim_action *action = &program->actions[rank->at];
        if (!sim_issues(rank, action))
            continue;
        if (action->act == SIM_LOSE) {
            sim_lose(rank);
        } else if (action->act == SIM_UNPACKABLE) {
            rank->unpackable = true;
        } else if (action->act == SIM_GIVE_UP) {
            rp_agree_give_up(&rank->agree);
        } else if (action->act == SIM_STRAY) {
            rank->replay->filled++;
        } else if (action->act == SIM_CHANGE) {
            for (uint32_t unit = 0; unit < SIM_UNITS; unit++)
                rank->versions[unit] += action->unit == unit || action->unit == UINT32_MAX;
        } else {
            sim_turn(rank);
            sim_call_begin(rank, action);
            rank->refused = !rank->refused && (action->refused >> rank->number & 1) != 0;
            rank->calls[0].fails |= rank->refused;
            if (rank->refused)
                return true; /* at the same action */
        }
    }
    for (; rank->call_count > 0 && rank->at < program->count && program->actions[rank->at].grouped; rank->at++)
        sim_call_begin(rank, &program->actions[rank->at]);
    return rank->call_count > 0;
}

/* One poll of the call that is decided on; true if that is decided. */
static inline bool sim_decide(struct sim_rank *rank, struct sim_call *call)
{
    const struct rp_replay_step *step = &call->step;

    if (step->serve != RP_SERVE_KEEP && step->word == RP_WORD_NONE)
        return true;
    if (!call->voted && !sim_make_up_mind(rank, call))
        return false;
    if (call->action->withdrawn && rank->number == 1)
        call->polls = UINT32_MAX;
    if (!call->voted && call->action->withdrawn && rank->number == 1)
        call->result.verdict =
            rp_agree_vote(&rank->agree, step->arming, step->position, step->digest, RP_VERDICT_WITHDRAWN);
    else if (!call->voted)
        call->result.verdict = rp_agree_vote(&rank->agree, step->arming, step->position, step->digest, call->own);
    else if (call->polls++ >= rank->sim->bound || rp_agree_given_up(&rank->agree))
        call->result.verdict = rp_agree_withdraw(&rank->agree, step->arming, step->position);
    else
        call->result.verdict = rp_agree_read(&rank->agree, step->arming, step->position);
    call->voted = true;
    return call->result.verdict != RP_VERDICT_OPEN;
}

static inline void sim_serve(struct sim_rank *rank, struct sim_call *call)
{
    const struct sim_slot *slot = &rank->slots[call->step.slot];

    assert_true(slot->bytes > 0);
    if (call->step.ahead != 0) { /* by its number that it was filled by */
        assert_int_equal(call->step.ahead, slot->number);
        rank->fills_where_expected += slot->expected == call->step.position;
    }
    for (uint32_t i = 0; i < rank->sim->nranks; i++) {
        uint64_t delivered = i == rank->number ? call->action->shard[i] : slot->parts[i];
        assert_int_equal(delivered, call->action->shard[i]);
    }
    call->action->served++;
    rank->now_ns += rank->sim->hit_ns + rank->sim->hit_more_ns[rank->number];
}

static inline void sim_call_plain(struct sim_rank *rank, struct sim_call *call)
{
    const struct rp_replay_step *step = &call->step;
    bool stores = step->serve == RP_SERVE_STORE || step->serve == RP_SERVE_KEEP;

    call->action->plain += !call->fails || call->action->fails;
    rank->now_ns += rank->sim->plain_ns + (call->action->bytes * rank->sim->mib_ns >> 20);
    call->result.failed = call->fails;
    if (step->stamp_end && !call->result.failed)
        sim_stamp(rank, step->position, RP_STAMP_END);
    rank->now_ns += step->fingerprint ? rank->sim->learn_ns : 0;
    if (!stores || call->result.failed)
        return;
    if (step->snapshot != RP_NO_SLOT && rank->snapshots[step->snapshot].bytes > 0) {
        rank->snapshots[step->snapshot].part = call->action->shard[rank->number];
        rank->snapshots[step->snapshot].serial = step->serial;
    }
    if (step->slot == RP_NO_SLOT || rank->slots[step->slot].bytes == 0)
        return;
    struct sim_slot *slot = &rank->slots[step->slot];
    memcpy(slot->parts, call->action->shard, sizeof(slot->parts));
    slot->serial = step->packed && rank->unpackable ? SIM_NOBODYS : step->serial;
    slot->fill = SIM_SETTLED;
    slot->number = 0;
}

static inline void sim_warm(struct sim_rank *rank)
{
    rank->warms = 1 + sim_random(rank->sim) % 2;
    for (size_t i = 0; i < SIM_SLOTS; i++)
        rank->slots[i].serial = SIM_NOBODYS;
}

/* What this rank has of it now. */
static inline uint64_t sim_live(struct sim_rank *rank, uint32_t entry)
{
    assert_true(entry < SIM_ENTRIES);
    rank->fills_live++;
    uint32_t unit = rank->unit_of[entry];
    return sim_shard(rank->sim, unit, rank->versions[unit], rank->number);
}

/* Into a slot that is gone: into the largest instead, and nobody's. What is sent without a snapshot is anything. */
static inline void sim_fill(struct sim_rank *rank, const struct rp_replay_fill *fill)
{
    struct sim *sim = rank->sim;
    struct sim_snapshot live = {0};
    const struct sim_snapshot *snapshot = fill->snapshot == RP_NO_SLOT ? &live : &rank->snapshots[fill->snapshot];
    if (snapshot == &live)
        live = (struct sim_snapshot){fill->bytes, sim_live(rank, fill->entry), fill->serial};
    struct sim_slot *slot = &rank->slots[fill->slot];
    bool gone = slot->bytes == 0, sends = !gone && snapshot->bytes > 0;
    enum rp_replay_state state = rp_replay_state(rank->replay);

    if (gone)
        slot = sim_largest(rank);
    assert_true(fill->bytes * sim->nranks <= slot->bytes);
    if (rank->fills == sim->fill_count) {
        sim->fills = realloc(sim->fills, ++sim->fill_count * sizeof(*sim->fills));
        if (sim->fills == NULL)
            abort();
        sim->fills[rank->fills] = (struct sim_fill){0};
    }
    sim->fills[rank->fills].parts[rank->number] = sends ? snapshot->part : sim_random(sim);
    sim->fills[rank->fills].ranks++;
    slot->fill = rank->fills++;
    assert_int_equal(fill->number, rank->fills);
    slot->number = fill->number;
    slot->expected = fill->position;
    slot->serial = sends ? snapshot->serial : SIM_NOBODYS;
    rank->fills_sunk += gone;
    rank->fills_resting += state == RP_REPLAY_RESTING;
    rank->fills_passive += state == RP_REPLAY_PASSIVE;
}

/* What all ranks issue behind this call. */
static inline void sim_issue(struct sim_rank *rank, struct sim_call *call)
{
    struct rp_replay_fill fill;
    uint64_t issues = 0;

    if (call->step.word == RP_WORD_WARM && call->result.verdict == RP_VERDICT_YES) {
        sim_warm(rank);
        issues = 1;
    }
    while (rp_replay_fill(rank->replay, &fill)) {
        issues = sim_hash(issues, fill.slot, sim_hash(fill.snapshot, fill.bytes, 0));
        sim_fill(rank, &fill);
    }
    if (call->fails && !call->action->fails) { /* refused */
        assert_int_equal(issues, 0);
        return;
    }
    if (call->action->issued)
        assert_int_equal(issues, call->action->issues);
    call->action->issued = true;
    call->action->issues = issues;
}

static inline void sim_call_end(struct sim_rank *rank, struct sim_call *call)
{
    if (call->step.serve == RP_SERVE_REFUSE) {
        rank->refusals++;
        call->result.failed = true;
    } else if (call->step.serve == RP_SERVE_KEEP && call->result.verdict == RP_VERDICT_YES) {
        sim_serve(rank, call);
    } else {
        sim_call_plain(rank, call);
    }
    if (call->action->act == SIM_GATHER && call->action->repeated && rp_replay_state(rank->replay) == RP_REPLAY_ARMED)
        rank->hits_possible++;
    call->op.flags |= call->result.failed ? RP_OP_FAILED : 0;
    rp_lane_take(&rank->lane, &call->op);
    if (call->step.fingerprint && !call->result.failed)
        sim_want_fingerprint(rank, call);
    rp_replay_done(rank->replay, &call->op, &call->step, &call->result);
    sim_issue(rank, call);
}

/* A little of the rank's way. */
static inline void sim_advance(struct sim_rank *rank)
{
    if (rank->sim->dies && rank->number == 1 && rank->at >= rank->sim->dies_at) {
        rank->dead = true;
        return;
    }
    if (rank->call_count == 0) {
        rank->done = !sim_begin(rank);
        return;
    }
    if (rank->call < rank->call_count) {
        if (sim_decide(rank, &rank->calls[rank->call]))
            rank->call++;
        return;
    }
    for (size_t i = 0; i < rank->call_count; i++)
        sim_call_end(rank, &rank->calls[i]);
    rank->call_count = 0;
}

#endif
