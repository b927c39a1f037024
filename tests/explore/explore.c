/*
 * Every move of every state, depth first, each state once.
 */
#include "tests/explore/explore.h"

#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define DEPTH 1000

struct explore_state now;
const struct explore_scenario *scenario;
enum explore_fault fault;

struct explore_result found;
static struct explore_move path[DEPTH];
static FILE *to;

/* ---------------------------------------------------------------- states seen */

/* Open addressing; zero is an empty place. */
static struct {
    uint64_t *hashes;
    uint64_t places, used;
} seen;

static void seen_make(uint64_t places)
{
    seen.hashes = calloc(places, sizeof(seen.hashes[0]));
    if (seen.hashes == NULL)
        abort();
    seen.places = places;
    seen.used = 0;
}

static bool seen_add(uint64_t hash)
{
    uint64_t place = hash % seen.places;
    while (seen.hashes[place] != 0 && seen.hashes[place] != hash)
        place = (place + 1) % seen.places;
    if (seen.hashes[place] == hash)
        return false;
    seen.hashes[place] = hash;
    seen.used++;
    return true;
}

static void seen_grow(void)
{
    uint64_t *old = seen.hashes, places = seen.places;
    seen_make(2 * places);
    for (uint64_t i = 0; i < places; i++) {
        if (old[i] != 0)
            seen_add(old[i]);
    }
    free(old);
}

/* True the first time. */
static bool state_is_new(void)
{
    uint64_t hash = XXH3_64bits(&now, sizeof(now));
    if (2 * seen.used > seen.places)
        seen_grow();
    return seen_add(hash != 0 ? hash : 1);
}

/* ---------------------------------------------------------------- moves */

static void make_move(struct explore_move move, const struct explore_state *before)
{
    struct explore_rank *rank = &now.ranks[move.rank];
    uint64_t returned;
    if (move.call == EXPLORE_DIE) {
        now.ghost.deaths++;
        explore_forget(rank);
        rank->phase = PHASE_DEAD;
        rank->call = EXPLORE_NOTHING;
        return;
    }
    if (rank->call == EXPLORE_NOTHING) {
        rank->call = move.call;
        rank->option = move.option;
        explore_started(move.rank);
    }
    bool done = explore_step(move.rank, &returned);
    explore_check_words(before);
    if (done)
        explore_returned(move.rank, returned);
}

static void tell(uint32_t depth)
{
    fprintf(to, "%s: %s, after\n", scenario->name, found.violation);
    for (uint32_t i = 0; i < depth; i++)
        fprintf(to, "  rank %u %s %u\n", path[i].rank, explore_call_name((enum explore_call)path[i].call),
                path[i].option);
}

static bool all_ended(void)
{
    for (uint32_t i = 0; i < scenario->nranks; i++) {
        if (now.ranks[i].phase != PHASE_ENDED && now.ranks[i].phase != PHASE_DEAD)
            return false;
    }
    return true;
}

static void visit(uint32_t depth) /* NOLINT(misc-no-recursion) */
{
    const struct explore_state here = now;
    struct explore_move moves[EXPLORE_OPTIONS];
    bool moved = false;
    found.states++;
    if (depth == DEPTH)
        explore_check(false, "a run does not end");
    for (uint32_t rank = 0; rank < scenario->nranks && found.violation == NULL; rank++) {
        uint32_t count = explore_options(rank, moves);
        for (uint32_t i = 0; i < count && found.violation == NULL; i++) {
            path[depth] = moves[i];
            moved = true;
            found.moves++;
            make_move(moves[i], &here);
            if (found.violation != NULL && to != NULL)
                tell(depth + 1);
            if (found.violation == NULL && state_is_new())
                visit(depth + 1);
            memcpy(&now, &here, sizeof(now));
        }
    }
    if (!moved)
        found.ends++;
    explore_check(moved || all_ended(), "a rank waits for ever");
}

struct explore_result explore_run(const struct explore_scenario *what, enum explore_fault with, FILE *trace)
{
    scenario = what;
    fault = with;
    to = trace;
    found = (struct explore_result){0};
    seen_make(1 << 16);
    explore_begin();
    state_is_new();
    visit(0);
    free(seen.hashes);
    return found;
}
