/*
 * What must hold. The ghost state knows what no rank does: who wanted what, and who took which verdict.
 */
#include "tests/explore/explore.h"

void explore_check(bool holds, const char *what)
{
    if (!holds && found.violation == NULL)
        found.violation = what;
}

static uint32_t all_ranks(void)
{
    return (1U << scenario->nranks) - 1;
}

void explore_check_verdict(uint32_t number, uint32_t position, enum rp_verdict verdict)
{
    struct explore_ghost *ghost = &now.ghost;
    uint8_t *took = verdict == RP_VERDICT_YES ? ghost->served : ghost->plain;
    bool dead = position >= ~explore_shared(&now)->armings[now.ranks[number].arming % RP_AGREE_ARMINGS].dead;
    found.verdicts |= 1U << verdict;
    took[position] |= (uint8_t)(1U << number);
    explore_check(ghost->served[position] == 0 || ghost->plain[position] == 0, "one rank serves, another does not");
    explore_check(verdict == ghost->decided[position] || (verdict == RP_VERDICT_NO && dead),
                  "a verdict is not its word's");
    if (verdict != RP_VERDICT_YES)
        return;
    explore_check(ghost->wants[position] == all_ranks(), "YES without all votes");
    explore_check(!dead, "YES at or behind dead_from");
    for (uint32_t i = 1; i < scenario->nranks; i++)
        explore_check(scenario->shift[i] == scenario->shift[0], "YES of different ops");
}

void explore_check_plain(uint32_t number, uint32_t position)
{
    if ((now.ghost.served[position] >> number & 1) == 0)
        now.ghost.plain[position] |= (uint8_t)(1U << number);
    explore_check(now.ghost.served[position] == 0 || now.ghost.plain[position] == 0,
                  "one rank serves, another has no part in it");
}

void explore_check_armed(uint32_t number, uint32_t arming, bool yes)
{
    struct explore_ghost *ghost = &now.ghost;
    uint8_t *took = yes ? ghost->armed : ghost->unarmed;
    found.armed |= 1U << yes;
    took[arming] |= (uint8_t)(1U << number);
    explore_check(ghost->armed[arming] == 0 || ghost->unarmed[arming] == 0, "one rank is armed, another is not");
    explore_check(!yes || ghost->said_yes[arming] == all_ranks(), "armed without all answers");
}

/* Every rank has looked at a later arming than the one that had the place, and is in that one no more. */
void explore_check_proposed(uint64_t arming)
{
    if (arming == RP_NO_ARMING || arming < RP_AGREE_ARMINGS)
        return;
    found.rearmed++;
    uint64_t before = arming - RP_AGREE_ARMINGS;
    for (uint32_t i = 0; i < scenario->nranks; i++) {
        const struct explore_rank *rank = &now.ranks[i];
        explore_check(rank->arming != before && rank->pending != before && rank->looked > before + 1,
                      "an arming is lost");
    }
}

/* The words themselves, after each move: a final state stays until all have passed its position. */
static void watch_word(uint32_t place, uint64_t before)
{
    uint64_t word = explore_shared(&now)->words[place];
    uint64_t used = rp_word_epoch(before) * RP_AGREE_WORDS + place;
    uint64_t position = rp_word_epoch(word) * RP_AGREE_WORDS + place;
    found.recycled += position != used;
    for (uint32_t i = 0; i < scenario->nranks && position != used; i++)
        explore_check(explore_shared(&now)->seats[i].passed > used, "a word is lost");
    if (rp_word_state(word) == RP_VERDICT_OPEN || position >= EXPLORE_POSITIONS)
        return;
    uint8_t *decided = &now.ghost.decided[position];
    explore_check(*decided == RP_VERDICT_OPEN || *decided == rp_word_state(word), "a final word changes");
    *decided = (uint8_t)rp_word_state(word);
}

void explore_check_words(const struct explore_state *before)
{
    uint64_t dead_from = ~explore_shared(&now)->armings[0].dead;
    for (uint32_t place = 0; place < RP_AGREE_WORDS; place++) {
        if (explore_shared(before)->words[place] != explore_shared(&now)->words[place])
            watch_word(place, explore_shared(before)->words[place]);
    }
    for (uint64_t position = dead_from; position < EXPLORE_POSITIONS && scenario->proposals == 0; position++)
        explore_check(now.ghost.decided[position] != RP_VERDICT_YES, "a word becomes YES at or behind dead_from");
}
