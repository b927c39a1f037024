/*
 * What is explored. Whatever the numbers: a rank may be late by any stretch, and withdraw at any poll.
 */
#include "tests/explore/explore.h"

#define SAME    \
    {           \
        1, 1, 1 \
    }
#define OWN     \
    {           \
        1, 2, 3 \
    }

const struct explore_scenario explore_small[] = {
    {"presence, three of three", 3, .presence = 1, .seats = 3, .come = 3, .terms = SAME, .token = OWN},
    {"presence, one rank without", 3, .presence = 1, .seats = 3, .come = 2, .terms = SAME, .token = OWN,
     .complete = RP_NOT_FOUND},
    {"presence, more seats than ranks", 2, .presence = 1, .seats = 3, .come = 2, .terms = SAME, .token = OWN},
    {"presence, other terms", 3, .presence = 1, .seats = 3, .come = 3, .terms = {1, 1, 2}, .token = OWN,
     .complete = RP_VERSION},
    {"presence, two in one process", 3, .presence = 1, .seats = 3, .come = 3, .terms = SAME, .token = {1, 2, 1},
     .complete = RP_UNSUPPORTED},
    {"two ranks, words used again", 2, 5, .noes = 1},
    {"two ranks, a death, a disarm", 2, 4, .disarms = 1, .deaths = 1},
    {"two ranks, one killed", 2, 4, .noes = 1, .kills = 1},
    {"two ranks, one op apart", 2, 3, .shift = {0, 1}, .noes = 1},
    {"two ranks, groups of two", 2, 4, .group = 2, .noes = 1, .kills = 1},
    {"two ranks, two proposals", 2, 5, .proposals = 2, .ahead = 1, .noes = 1},
    {"two ranks, three proposals in two places", 2, 6, .proposals = 3, .ahead = 1},
    {"two ranks, a proposal, a death", 2, 4, .proposals = 1, .ahead = 2, .deaths = 1},
    {"three ranks", 3, 2, .noes = 1},
    {"three ranks, a proposal", 3, 3, .proposals = 1, .ahead = 1},
    {"three ranks, one op apart", 3, 2, .shift = {0, 0, 1}},
};
const uint32_t explore_small_count = sizeof(explore_small) / sizeof(explore_small[0]);

const struct explore_scenario explore_large[] = {
    {"two ranks, words used again twice", 2, 7, .noes = 1, .disarms = 1, .kills = 1, .deaths = 1},
    {"two ranks, one op apart", 2, 7, .shift = {0, 1}, .noes = 1, .kills = 1, .deaths = 1},
    {"two ranks, groups of two", 2, 6, .group = 2, .noes = 1, .kills = 1, .deaths = 1},
    {"two ranks, groups of three", 2, 6, .group = 3, .noes = 1, .kills = 1, .deaths = 1},
    {"two ranks, two proposals", 2, 6, .proposals = 2, .ahead = 1, .noes = 1, .kills = 1, .deaths = 1},
    {"two ranks, three proposals in two places", 2, 7, .proposals = 3, .ahead = 1, .kills = 1, .deaths = 1},
    {"three ranks, words used again", 3, 3, .noes = 1},
    {"three ranks, a disarm, a death", 3, 2, .disarms = 1, .deaths = 1},
    {"three ranks, one killed", 3, 2, .kills = 1},
    {"three ranks, groups of two", 3, 2, .group = 2, .kills = 1},
    {"three ranks, one op apart", 3, 4, .shift = {0, 0, 1}, .noes = 1},
    {"three ranks, two proposals", 3, 4, .proposals = 2, .ahead = 1},
    {"three ranks, a proposal, a death", 3, 3, .proposals = 1, .ahead = 1, .noes = 1, .deaths = 1},
};
const uint32_t explore_large_count = sizeof(explore_large) / sizeof(explore_large[0]);
