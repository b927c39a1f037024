/*
 * The way into an arming and out of it. Rank 0 leads: it compiles what all have published and proposes it; every rank
 * answers while its own next position is below the one from which the plan holds. Nobody waits for anybody: who comes
 * to that position first closes an unanswered proposal to a no, and all read the same.
 *
 * Out: any rank's kill, a withdrawal or a verdict that disarms ends the arming. Ranks may see the end at different
 * positions, but nobody is served at or behind dead_from, and nothing that was learned from verdicts outlives the
 * arming. What follows is rank 0's to decide, and a proposal says it.
 *
 * Threads: by the thread whose turn it is on the lane.
 */
#include "core/replay/replay_private.h"

#include <stdio.h>

#define LEARN_LEAST 32u     /* positions that must have come since the last attempt to compile */
#define LEAD_DOUBLED 3u     /* times at most */
#define LEAD_LEAST 32u      /* positions ahead of the first rank at which an arming may begin */
#define GATHERLESS 4096u    /* positions without a gather: none is to be expected */
#define FRESH_GATHERS 512u  /* so many gathers without a repeat: there will be none */
#define FRUITLESS_TABLES 8u /* so many times the table's positions without a cycle */
#define WITHDRAWALS_MOST 3u /* without a good cycle between */
#define FAILED_MOST 8u      /* proposals in a row: a rank will never be ready */
#define RELEARNED_MOST 4u   /* without so many good cycles between as pay for one */
#define SLOWER_REST_CYCLES 64u
#define UNTIMED_REST_CYCLES 256u /* a host may be that far ahead of the device's times */
#define COMPARED_CYCLES 5u /* one that is left out, three that are timed, and what is left of the one they begin in */
#define JOIN_SHARE 4u      /* of the positions that are remembered: so long may joining the child take */
#define BUDGET_REST 128u   /* positions: every rank has told what it could give by then */

/* ---------------------------------------------------------------- rank 0: learning */

static void attempt(struct rp_replay *replay, uint64_t from, uint64_t to, uint64_t budget);

static uint64_t largest(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Plans have no gathers ahead from here on. */
static void go_alone(struct rp_replay *replay, uint64_t budget)
{
    replay->leader.joining = false;
    replay->leader.alone = true;
    attempt(replay, replay->from, replay->to, budget);
}

/* The child first: joining it takes NCCL a second or so, and nobody waits for that. */
static void propose_joining(struct rp_replay *replay, uint64_t budget)
{
    struct rp_proposal proposal = {.kind = RP_PROPOSE_JOIN, .at = replay->next};
    struct rp_leader *leader = &replay->leader;
    struct rp_replay_id id;

    if (rp_agree_largest_child(replay->agree) > RP_CHILD_OF_RANK_IDLE || /* not all have left the last one */
        !replay->options.new_id(replay->context, &id)) {
        go_alone(replay, budget);
        return;
    }
    rp_learn_set_id(replay->learn, &id);
    leader->joining = rp_agree_propose(replay->agree, &proposal) != RP_NO_ARMING;
    leader->join_until = replay->next + replay->past_count / JOIN_SHARE;
    leader->join_budget = budget;
}

void rp_arming_propose(struct rp_replay *replay, uint64_t budget, uint64_t at)
{
    struct rp_proposal proposal = {
        .from = replay->from,
        .to = replay->to,
        .plan = replay->plan.hash,
        .at = at,
        .budget = budget,
        .cycle_ns = rp_agree_largest_cycle_ns(replay->agree),
        .link_latency_ns = replay->measured.link.latency_ns,
        .link_ns_per_mib = replay->measured.link.ns_per_mib,
        .packs = replay->plan.packs,
        .recorded = replay->recorded,
    };
    if (replay->measured.gap_ns != NULL)
        rp_learn_set_gaps(replay->learn, replay->from, replay->to, replay->measured.gap_ns);
    rp_agree_propose(replay->agree, &proposal); /* or later: a rank has not looked for long */
}

/*
 * The plan at hand, so many of its cycles ahead of the rank that is farthest; more after each proposal that came to
 * nothing: a rank whose host is behind must see it before the farthest reaches it.
 */
static void propose(struct rp_replay *replay, uint64_t budget, uint64_t cycles)
{
    if (replay->plan.prefetches > 0 && rp_agree_largest_child(replay->agree) == RP_CHILD_OF_RANK_FAILED) {
        go_alone(replay, budget);
        return;
    }
    if (replay->plan.prefetches > 0 && !replay->leader.joined) {
        propose_joining(replay, budget);
        return;
    }
    uint32_t failed = replay->leader.failed < LEAD_DOUBLED ? replay->leader.failed : LEAD_DOUBLED;
    uint64_t ahead = largest(rp_cycle_positions(replay) * cycles, LEAD_LEAST) << failed;
    rp_arming_propose(replay, budget, largest(rp_agree_largest_passed(replay->agree), replay->next) + ahead);
}

/* True, and what every rank can give, once all have told. */
bool rp_arming_budget(const struct rp_replay *replay, uint64_t *budget_out)
{
    uint64_t least = rp_agree_least_budget(replay->agree);

    if (least == 0)
        return false;
    *budget_out = least - 1;
    return true;
}

/* Compiles and proposes. While resting the cycle is known: what is not found then is something that fits. */
static void attempt(struct rp_replay *replay, uint64_t from, uint64_t to, uint64_t budget)
{
    enum rp_status status = rp_replay_compile(replay, from, to, budget, NULL);

    if (status == RP_UNSUPPORTED || (status == RP_NOT_FOUND && replay->state == RP_REPLAY_RESTING))
        rp_replay_give_up(replay, "no gather repeats that could be kept in memory");
    else if (status == RP_OK)
        propose(replay, budget, 1);
}

/* All ranks have joined the child, or one has not. */
static void lead_joining(struct rp_replay *replay)
{
    struct rp_leader *leader = &replay->leader;

    if (rp_agree_largest_child(replay->agree) == RP_CHILD_OF_RANK_FAILED || replay->next >= leader->join_until) {
        go_alone(replay, leader->join_budget);
    } else if (rp_agree_least_child(replay->agree) == RP_CHILD_OF_RANK_JOINED) {
        leader->joining = false;
        leader->joined = true;
        propose(replay, leader->join_budget, 1);
    }
}

/* NULL, or why learning will come to nothing. */
static const char *hopeless(const struct rp_replay *replay)
{
    uint64_t gathers, repeats, positions = replay->next - replay->leader.since;

    rp_learn_repeats(replay->learn, &gathers, &repeats);
    if (gathers == 0 && positions > GATHERLESS)
        return "no gathers, or none whose content is known";
    if (gathers >= FRESH_GATHERS && repeats == 0)
        return "its gathers never repeat";
    if (positions > FRUITLESS_TABLES * replay->past_count)
        return "no cycle was found";
    return NULL;
}

static void lead_learning(struct rp_replay *replay)
{
    struct rp_leader *leader = &replay->leader;
    uint64_t grown = largest((leader->tried_to - leader->tried_from) / 8, LEARN_LEAST);
    uint64_t from, to, budget;

    if (replay->next < leader->tried_to + grown)
        return;
    const char *why = hopeless(replay); /* also where no rank publishes: only gathers are told of */
    if (why != NULL) {
        rp_replay_give_up(replay, why);
        return;
    }
    rp_learn_range(replay->learn, replay->agree, &from, &to);
    if (to < leader->tried_to + grown || !rp_arming_budget(replay, &budget))
        return;
    leader->tried_from = from;
    leader->tried_to = to;
    attempt(replay, from, to, budget);
}

/* ---------------------------------------------------------------- rank 0: after an arming */

/* Every rank that sees it learns anew (RP_PROPOSE_LEARN): no plan, and no answer. */
static void propose_learning(struct rp_replay *replay)
{
    struct rp_proposal proposal = {.kind = RP_PROPOSE_LEARN, .at = replay->next};

    if (replay->leader.relearned == RELEARNED_MOST)
        rp_replay_give_up(replay, "its order changes too often");
    else if (rp_agree_propose(replay->agree, &proposal) != RP_NO_ARMING)
        replay->leader.relearned++;
}

/* Off, and one retrial later. */
static void turn_off(struct rp_replay *replay)
{
    const struct rp_replay_figures *figures = &replay->figures;
    struct rp_leader *leader = &replay->leader;

    leader->rest = RP_REST_SLOWER;
    leader->rest_until = replay->next + SLOWER_REST_CYCLES * rp_cycle_positions(replay);
    if (rp_trial_slower(replay))
        rp_replay_enter(replay, RP_REPLAY_RESTING, "replay is not faster: %.1f ms a cycle against %.1f plain; off",
                        (double)figures->replay_cycle_ns / 1e6, (double)figures->plain_cycle_ns / 1e6);
    else
        rp_replay_enter(replay, RP_REPLAY_RESTING, "replay is not faster on another rank; off");
    if (replay->agree->rank == 0 && ++leader->slower == 2)
        rp_replay_give_up(replay, "replay was not faster a second time");
}

/* A rest in which no cycle can be timed does not go on for ever. Another rank that finds itself slower says so once
 * armed. */
static void compare(struct rp_replay *replay)
{
    uint64_t rested = replay->next - replay->leader.rested;
    bool timed = rp_trial_take_rest(replay);

    if (timed && rp_trial_slower(replay))
        turn_off(replay);
    else if (timed || rested >= UNTIMED_REST_CYCLES * rp_cycle_positions(replay))
        propose(replay, replay->proposal.budget, 1);
}

/* The plan packs what a rank has meanwhile found not to fit: its misses may come from that. */
static bool outdated(const struct rp_replay *replay)
{
    return replay->plan.packs && !rp_replay_may_pack(replay);
}

static void lead_rest(struct rp_replay *replay)
{
    struct rp_leader *leader = &replay->leader;
    uint64_t budget;

    if (replay->next < leader->rest_until)
        return;
    if (leader->rest != RP_REST_ORDER && outdated(replay))
        leader->rest = RP_REST_BUDGET;
    leader->rest_until = replay->next + rp_cycle_positions(replay); /* should this come to nothing */
    switch (leader->rest) {
    case RP_REST_WITHDRAWN:
    case RP_REST_ENDED:
    case RP_REST_FAILED:
        propose(replay, replay->proposal.budget, UINT64_C(1) << (leader->withdrawals - 1));
        return;
    case RP_REST_COMPARE:
        compare(replay);
        return;
    case RP_REST_SLOWER:
        propose(replay, replay->proposal.budget, 1);
        return;
    case RP_REST_CHILD:
        go_alone(replay, replay->proposal.budget);
        return;
    case RP_REST_BUDGET:
        if (rp_arming_budget(replay, &budget))
            attempt(replay, replay->from, replay->to, budget);
        return;
    case RP_REST_MISSES:
    case RP_REST_ORDER:
        propose_learning(replay);
        return;
    }
}

/* ---------------------------------------------------------------- proposals */

static void learn_again(struct rp_replay *replay)
{
    struct rp_leader *leader = &replay->leader;

    rp_preset_free(replay);
    rp_learn_restart(replay->learn);
    replay->feeding = true;
    replay->calm = RP_REPLAY_LEARNING;
    leader->since = leader->tried_from = leader->tried_to = replay->next;
    if (replay->agree->rank == 0 && leader->rest == RP_REST_MISSES)
        rp_replay_enter(replay, RP_REPLAY_LEARNING, "learning again: %llu of %zu kept gathers missed in a cycle",
                        (unsigned long long)leader->missed, replay->plan.keeps + replay->plan.prefetches);
    else
        rp_replay_enter(replay, RP_REPLAY_LEARNING, "learning again: the order has changed");
}

static enum rp_status have_plan(struct rp_replay *replay)
{
    const struct rp_proposal *p = &replay->proposal;
    bool same =
        replay->to > replay->from && replay->from == p->from && replay->to == p->to && replay->recorded == p->recorded;

    if (replay->next >= p->at)
        return RP_NOT_FOUND;
    if (same && replay->plan.hash == p->plan)
        return RP_OK;
    return rp_replay_compile(replay, p->from, p->to, p->budget, p);
}

/* Rank 0 alone knows what it has planned with; "" on others, and without times. */
static const char *planned_with(const struct rp_replay *replay, char *text, size_t size)
{
    const struct rp_plan_link_model *link = &replay->measured.link;
    const struct rp_plan_waits *waits = &replay->plan.waits;

    text[0] = '\0';
    if (replay->agree->rank == 0 && link->ns_per_mib != 0)
        snprintf(text, size,
                 "; planned with: link %.1f us + %.1f us/MiB, compute %.3f ms a cycle, waits %.3f ms plain, %.3f ms "
                 "kept, %.3f ms planned",
                 (double)link->latency_ns / 1e3, (double)link->ns_per_mib / 1e3, (double)waits->compute / 1e6,
                 (double)waits->plain / 1e6, (double)waits->kept / 1e6, (double)waits->planned / 1e6);
    return text;
}

static void look_at(struct rp_replay *replay, uint32_t arming, const struct rp_plan **wants_out)
{
    char text[180];

    if (replay->state == RP_REPLAY_ARMING) { /* it has failed, or there would be no other one */
        rp_agree_kill(replay->agree, replay->arming, replay->next);
        rp_replay_enter(replay, replay->calm, "not armed");
    }
    replay->arming = arming;
    replay->seen = arming + 1;
    rp_agree_set_left(replay->agree, arming);
    rp_agree_proposal(replay->agree, arming, &replay->proposal);
    if (replay->proposal.kind == RP_PROPOSE_LEARN) {
        learn_again(replay);
        return;
    }
    if (replay->proposal.kind == RP_PROPOSE_DROP && rp_preset_leads(replay))
        rp_preset_drop(replay, "rank 0 gives it up");
    replay->joins |= replay->proposal.kind == RP_PROPOSE_JOIN;
    if (replay->proposal.kind != RP_PROPOSE_ARM)
        return;
    if (have_plan(replay) != RP_OK) {
        rp_agree_answer(replay->agree, arming, false);
        return;
    }
    /* What is lost before the shim gets slots is got again; pairs with rp_replay_lost(). */
    atomic_store_explicit(&replay->lost, false, memory_order_relaxed);
    rp_replay_enter(replay, RP_REPLAY_ARMING, "arming: from position %llu on%s",
                    (unsigned long long)replay->proposal.at, planned_with(replay, text, sizeof(text)));
    replay->asked = true;
    *wants_out = &replay->plan;
}

void rp_arming_turn(struct rp_replay *replay, const struct rp_plan **wants_out)
{
    bool leads = replay->agree->rank == 0;

    if (replay->state == RP_REPLAY_ARMED || rp_ahead_busy(replay))
        return; /* another plan would take the slots of what is to be issued yet */
    if (leads && replay->leader.joining)
        lead_joining(replay);
    else if (leads && replay->state == RP_REPLAY_LEARNING && rp_preset_leads(replay))
        rp_preset_lead(replay);
    else if (leads && replay->state == RP_REPLAY_LEARNING)
        lead_learning(replay);
    else if (leads && replay->state == RP_REPLAY_RESTING)
        lead_rest(replay);
    uint32_t count = rp_agree_proposals(replay->agree);
    if (count > replay->seen && replay->state != RP_REPLAY_PASSIVE)
        look_at(replay, count - 1, wants_out);
}

static void not_armed(struct rp_replay *replay, const char *why)
{
    rp_replay_enter(replay, replay->calm, "%s", why);
    if (replay->agree->rank == 0 && ++replay->leader.failed == FAILED_MOST)
        rp_replay_give_up(replay, "a rank is never ready");
}

void rp_arming_prepared(struct rp_replay *replay, bool ready)
{
    if (replay->state != RP_REPLAY_ARMING || !replay->asked)
        return;
    replay->asked = false;
    ready = ready && replay->next < replay->proposal.at;
    rp_agree_answer(replay->agree, replay->arming, ready);
    if (ready)
        return;
    not_armed(replay, "not armed: this rank has no memory for kept gathers");
}

/* ---------------------------------------------------------------- in and out */

static void say_armed(struct rp_replay *replay)
{
    const struct rp_plan *plan = &replay->plan;
    size_t gathers = 0;
    char size[32], ahead[48] = "";
    const char *packed = plan->packs ? ", packed" : "";

    if (plan->prefetches > 0)
        snprintf(ahead, sizeof(ahead), ", %zu gathered ahead", plan->prefetches);
    for (size_t i = 0; i < plan->count; i++)
        gathers += plan->entries[i].kind == RP_OP_ALL_GATHER;
    rp_replay_enter(replay, RP_REPLAY_ARMED, "armed: %zu gathers a cycle, %zu kept in %zu slots, %s%s%s%s", gathers,
                    plan->keeps, plan->slot_count, rp_bytes_print(rp_plan_bytes(plan), size, sizeof(size)), packed,
                    ahead, replay->recorded != 0 ? ", in a recorded order" : "");
}

void rp_arming_reached(struct rp_replay *replay)
{
    replay->asked = false;
    if (rp_agree_armed(replay->agree, replay->arming) != RP_VERDICT_YES || !rp_preset_reached(replay)) {
        not_armed(replay, "not armed: a rank was not ready");
        return;
    }
    replay->leader.failed = 0;
    rp_trial_begin(replay);
    rp_replay_place(replay);
    replay->armed = (struct rp_armed){.cycle = RP_FIRST_CYCLE, .looked = RP_FIRST_CYCLE};
    rp_ahead_begin(replay);
    replay->leader.joined &= replay->plan.prefetches > 0; /* else the ranks leave the child */
    replay->feeding = false;
    replay->figures.armings++;
    say_armed(replay);
}

static void rest_withdrawn(struct rp_replay *replay, const char *why)
{
    rp_replay_enter(replay, RP_REPLAY_RESTING, "resting: %s", why);
    if (replay->agree->rank == 0 && ++replay->leader.withdrawals == WITHDRAWALS_MOST)
        rp_replay_give_up(replay, "it was interrupted three times without a good cycle between");
}

/* ENDED: by a verdict that disarms, if there was one; a rank that is ahead has then ended it for all. */
void rp_arming_end(struct rp_replay *replay, enum rp_rest why)
{
    static const char *const texts[] = {
        [RP_REST_WITHDRAWN] = "a rank waited longer than the bound (REPRISE_TIMEOUT at most)",
        [RP_REST_ENDED] = "another rank ended the arming",
        [RP_REST_FAILED] = "a call failed",
        [RP_REST_COMPARE] = "plain cycles are timed, to compare",
        [RP_REST_CHILD] = "gathers ahead can't be issued",
        [RP_REST_BUDGET] = "memory was given back",
        [RP_REST_MISSES] = "too many kept gathers missed",
        [RP_REST_ORDER] = "the order has changed",
    };
    struct rp_leader *leader = &replay->leader;

    if (why == RP_REST_ENDED && replay->armed.end == RP_VERDICT_DISARM_SLOWER)
        why = replay->trial.plain == RP_PLAIN_LEARNED ? RP_REST_COMPARE : RP_REST_SLOWER;
    else if (why == RP_REST_ENDED && replay->armed.end == RP_VERDICT_DISARM_BUDGET)
        why = RP_REST_BUDGET;
    rp_agree_kill(replay->agree, replay->arming, replay->next);
    replay->calm = RP_REPLAY_RESTING;
    rp_trial_rest(replay);
    leader->rest = why;
    leader->rested = leader->rest_until = replay->next;
    if (why == RP_REST_BUDGET)
        leader->rest_until += BUDGET_REST;
    else if (why == RP_REST_COMPARE)
        leader->rest_until += COMPARED_CYCLES * rp_cycle_positions(replay);
    if (why == RP_REST_SLOWER)
        turn_off(replay);
    else if (why <= RP_REST_FAILED)
        rest_withdrawn(replay, texts[why]);
    else
        rp_replay_enter(replay, RP_REPLAY_RESTING, "resting: %s",
                        why == RP_REST_BUDGET && outdated(replay) ? "bytes that were to be packed did not fit"
                                                                  : texts[why]);
}
