/*
 * A rank's program: which calls it may make next, and what it does with what they return.
 *
 *     TURN ─ looks for a proposal, ─► ARMED? ─► VOTE ... VOTE ─► READ ... READ ─► LEAVE? ─► PASS ─► TURN
 *              leaves older ones, answers  at `at`    a group of positions   or withdraw     dead?
 */
#include "tests/explore/explore.h"

#include <string.h>

const char *explore_call_name(enum explore_call call)
{
    static const char *const names[] = {
#define X(name, text) text,
        EXPLORE_CALLS(X)
#undef X
    };
    return names[call];
}

static uint32_t group_end(const struct explore_rank *rank)
{
    uint32_t end = rank->position + (scenario->group > 1 ? scenario->group : 1U);
    return end < scenario->positions ? end : scenario->positions;
}

/* The next op of a rank that has nothing left to ask: vote at it, or pass it as without us. */
static void begin_position(struct explore_rank *rank)
{
    rank->next = rank->position;
    if (rank->pending != NONE && rank->position == rank->pending_at)
        rank->phase = PHASE_ARMED;
    else
        rank->phase = rank->arming != NONE ? PHASE_VOTE : PHASE_PASS;
}

static void begin_turn(struct explore_rank *rank)
{
    if (rank->position >= scenario->positions)
        rank->phase = PHASE_ENDED;
    else if (scenario->proposals > 0)
        rank->phase = PHASE_TURN;
    else
        begin_position(rank);
}

void explore_begin(void)
{
    memset(&now, 0, sizeof(now));
    for (uint32_t i = 0; i < scenario->nranks; i++) {
        struct explore_rank *rank = &now.ranks[i];
        rank->pending = NONE;
        rank->arming = scenario->proposals > 0 ? NONE : 0;
        if (scenario->presence) {
            rank->phase = i < scenario->come ? PHASE_JOIN : PHASE_DEAD;
            continue;
        }
        struct rp_agree agree = explore_agree(i);
        explore_check(rp_agree_join(&agree, explore_shared(&now), scenario->nranks, 1, i) == RP_OK, "no seat");
        rank->seat = (uint8_t)agree.seat;
        begin_turn(rank);
    }
}

/* ---------------------------------------------------------------- what a rank may do next */

struct menu {
    struct explore_move *moves;
    uint32_t count, rank;
};

static void add(struct menu *menu, enum explore_call call, uint32_t option)
{
    menu->moves[menu->count++] = (struct explore_move){(uint8_t)menu->rank, (uint8_t)call, (uint8_t)option};
}

static void add_kill(struct menu *menu)
{
    if (now.ghost.kills < scenario->kills)
        add(menu, EXPLORE_KILL, 0);
}

static void add_votes(struct menu *menu)
{
    const struct explore_ghost *used = &now.ghost;
    add(menu, EXPLORE_VOTE, RP_VERDICT_YES);
    if (used->noes < scenario->noes)
        add(menu, EXPLORE_VOTE, RP_VERDICT_NO);
    if (used->disarms < scenario->disarms)
        add(menu, EXPLORE_VOTE, RP_VERDICT_DISARM_SLOWER);
    add_kill(menu);
}

/* Rank 0 proposes one thing at a time, and nothing while it replays. */
static void add_turn(struct menu *menu, const struct explore_rank *rank)
{
    add(menu, EXPLORE_LOOK, 0);
    if (menu->rank == 0 && now.ghost.proposals < scenario->proposals && now.ghost.proposals == rank->looked &&
        rank->arming == NONE && rank->pending == NONE)
        add(menu, EXPLORE_PROPOSE, 0);
}

uint32_t explore_options(uint32_t number, struct explore_move moves_out[EXPLORE_OPTIONS])
{
    const struct explore_rank *rank = &now.ranks[number];
    struct menu menu = {.moves = moves_out, .rank = number};
    if (rank->phase == PHASE_ENDED || rank->phase == PHASE_DEAD)
        return 0;
    if (now.ghost.deaths < scenario->deaths)
        add(&menu, EXPLORE_DIE, 0);
    if (rank->call != EXPLORE_NOTHING) {
        add(&menu, (enum explore_call)rank->call, rank->option);
        return menu.count;
    }
    switch ((enum explore_phase)rank->phase) {
    case PHASE_JOIN:
        add(&menu, EXPLORE_JOIN, 0);
        break;
    case PHASE_COMPLETE: /* the real creation is a rendezvous */
        if (now.ghost.joined == scenario->come)
            add(&menu, EXPLORE_COMPLETE, 0);
        break;
    case PHASE_TURN:
        add_turn(&menu, rank);
        break;
    case PHASE_LEFT:
        add(&menu, EXPLORE_LEFT, 0);
        break;
    case PHASE_ANSWER:
        add(&menu, EXPLORE_ANSWER, 0);
        break;
    case PHASE_ARMED:
        add(&menu, EXPLORE_ARMED, 0);
        break;
    case PHASE_VOTE:
        add_votes(&menu);
        break;
    case PHASE_READ:
        add(&menu, EXPLORE_READ, 0);
        add(&menu, EXPLORE_WITHDRAW, 0);
        add_kill(&menu);
        break;
    case PHASE_LEAVE:
        add(&menu, EXPLORE_DEAD, 0);
        break;
    case PHASE_PASS:
        add(&menu, EXPLORE_PASS, 0);
        break;
    case PHASE_ENDED:
    case PHASE_DEAD:
        break;
    }
    return menu.count;
}

/* ---------------------------------------------------------------- the calls */

static uint64_t digest_of(const struct rp_agree *agree, const struct explore_rank *rank)
{
    return 1000U + rank->next + (fault == FAULT_ONE_DIGEST ? 0U : scenario->shift[agree->rank]);
}

static uint64_t propose(struct rp_agree *agree, const struct explore_rank *rank)
{
    struct rp_proposal proposal = {.at = rank->position + (uint64_t)scenario->ahead};
    return rp_agree_propose(agree, &proposal);
}

/* The oldest arming that the rank may still touch. */
static uint64_t oldest(const struct explore_rank *rank)
{
    if (rank->arming != NONE)
        return rank->arming;
    return rank->pending != NONE ? rank->pending : rank->looked - 1U;
}

uint64_t explore_call(struct rp_agree *agree, const struct explore_rank *rank)
{
    switch ((enum explore_call)rank->call) {
    case EXPLORE_JOIN:
        return rp_agree_join(agree, agree->shared, agree->seats, scenario->terms[agree->rank],
                             scenario->token[agree->rank]);
    case EXPLORE_COMPLETE:
        return rp_agree_complete(agree, scenario->nranks, agree->rank);
    case EXPLORE_PROPOSE:
        return propose(agree, rank);
    case EXPLORE_LOOK:
        return rp_agree_proposals(agree);
    case EXPLORE_LEFT:
        rp_agree_set_left(agree, oldest(rank));
        return 0;
    case EXPLORE_ANSWER:
        rp_agree_answer(agree, rank->looked - 1U, rank->answer != 0);
        return 0;
    case EXPLORE_ARMED:
        return rp_agree_armed(agree, rank->pending);
    case EXPLORE_VOTE:
        return rp_agree_vote(agree, rank->arming, rank->next, digest_of(agree, rank), (enum rp_verdict)rank->option);
    case EXPLORE_READ:
        return rp_agree_read(agree, rank->arming, rank->next);
    case EXPLORE_WITHDRAW:
        return rp_agree_withdraw(agree, rank->arming, rank->next);
    case EXPLORE_KILL:
        rp_agree_kill(agree, rank->arming, 0);
        return 0;
    case EXPLORE_DEAD:
        return rp_agree_dead(agree, rank->arming, rank->next);
    case EXPLORE_PASS:
        rp_agree_set_passed(agree, group_end(rank));
        return 0;
    case EXPLORE_NOTHING:
    case EXPLORE_DIE:
    case EXPLORE_CALL_COUNT:
        break;
    }
    return 0;
}

void explore_started(uint32_t number)
{
    struct explore_rank *rank = &now.ranks[number];
    struct explore_ghost *ghost = &now.ghost;
    if (rank->call == EXPLORE_VOTE) {
        if (rank->option == RP_VERDICT_YES)
            ghost->wants[rank->next] |= (uint8_t)(1U << number);
        ghost->noes += rank->option == RP_VERDICT_NO;
        ghost->disarms += rank->option == RP_VERDICT_DISARM_SLOWER;
    } else if (rank->call == EXPLORE_ANSWER && rank->answer) {
        ghost->said_yes[rank->looked - 1] |= (uint8_t)(1U << number);
    }
    ghost->kills += rank->call == EXPLORE_KILL;
    ghost->proposals += rank->call == EXPLORE_PROPOSE;
}

/* ---------------------------------------------------------------- what comes of a call */

static void looked(struct explore_rank *rank, uint64_t count)
{
    if (count == rank->looked) {
        begin_position(rank);
        return;
    }
    rank->looked = (uint8_t)count; /* an older one that was missed needs no answer: it lacks this rank's */
    uint64_t at = explore_shared(&now)->armings[(count - 1) % RP_AGREE_ARMINGS].proposal.at;
    rank->answer = rank->position < at && rank->arming == NONE && rank->pending == NONE;
    if (rank->answer) {
        rank->pending = (uint8_t)(count - 1);
        rank->pending_at = (uint8_t)at;
    }
    rank->phase = PHASE_LEFT;
}

static void armed(struct explore_rank *rank, uint32_t number, bool yes)
{
    explore_check_armed(number, rank->pending, yes);
    rank->arming = yes ? rank->pending : NONE;
    rank->pending = NONE;
    rank->pending_at = 0;
    begin_position(rank);
}

/* Final at `next`: the vote's own, or a read one. A group votes on behind a final one. */
static void settled(struct explore_rank *rank, uint32_t number, enum rp_verdict verdict)
{
    explore_check_verdict(number, rank->next, verdict);
    if (++rank->next < group_end(rank))
        return;
    rank->phase = scenario->proposals > 0 && verdict != RP_VERDICT_YES ? PHASE_LEAVE : PHASE_PASS;
}

static void voted(struct explore_rank *rank, uint32_t number, enum rp_verdict verdict)
{
    bool whole = rank->next + 1U == group_end(rank);
    if (scenario->group <= 1 && verdict != RP_VERDICT_OPEN) {
        settled(rank, number, verdict);
    } else if (whole) {
        rank->next = rank->position;
        rank->phase = PHASE_READ;
    } else {
        rank->next++;
    }
}

/* From here on as without us; behind a vote, an abort: what it has voted at, it reads no more. */
static void killed(struct explore_rank *rank)
{
    bool has_voted = rank->voted > rank->position;
    rank->arming = NONE;
    rank->phase = has_voted ? PHASE_ENDED : PHASE_PASS;
}

static void passed(struct explore_rank *rank, uint32_t number)
{
    for (uint32_t i = rank->position; i < group_end(rank) && rank->arming == NONE; i++)
        explore_check_plain(number, i);
    rank->position = (uint8_t)group_end(rank);
    begin_turn(rank);
}

void explore_returned(uint32_t number, uint64_t result)
{
    struct explore_rank *rank = &now.ranks[number];
    enum explore_call call = (enum explore_call)rank->call;
    rank->call = EXPLORE_NOTHING;
    rank->option = 0;
    switch (call) {
    case EXPLORE_JOIN:
        now.ghost.joined++;
        rank->phase = result == RP_OK ? PHASE_COMPLETE : PHASE_ENDED;
        break;
    case EXPLORE_COMPLETE:
        explore_check(result == scenario->complete, "a rank is told otherwise who is here");
        rank->phase = PHASE_ENDED;
        break;
    case EXPLORE_PROPOSE: /* and looks, as every rank */
        explore_check_proposed(result);
        break;
    case EXPLORE_LOOK:
        looked(rank, result);
        break;
    case EXPLORE_LEFT:
        rank->phase = PHASE_ANSWER;
        break;
    case EXPLORE_ANSWER:
        if (!rank->answer)
            explore_check_armed(number, rank->looked - 1U, false);
        rank->answer = 0;
        begin_position(rank);
        break;
    case EXPLORE_ARMED:
        explore_check(result != RP_VERDICT_OPEN, "an arming stays open");
        armed(rank, number, result == RP_VERDICT_YES);
        break;
    case EXPLORE_VOTE:
        voted(rank, number, (enum rp_verdict)result);
        break;
    case EXPLORE_WITHDRAW:
        explore_check(result != RP_VERDICT_OPEN, "a withdrawal does not end the wait");
        settled(rank, number, (enum rp_verdict)result);
        break;
    case EXPLORE_READ:
        if (result != RP_VERDICT_OPEN)
            settled(rank, number, (enum rp_verdict)result);
        break;
    case EXPLORE_KILL:
        killed(rank);
        break;
    case EXPLORE_DEAD:
        rank->arming = result ? NONE : rank->arming;
        rank->phase = PHASE_PASS;
        break;
    case EXPLORE_PASS:
        passed(rank, number);
        break;
    case EXPLORE_NOTHING:
    case EXPLORE_DIE:
    case EXPLORE_CALL_COUNT:
        break;
    }
}
