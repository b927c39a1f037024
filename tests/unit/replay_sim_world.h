/* What the simulation of replay_sim.h is made of: the job, its ranks, their devices of a few words. */
#ifndef RP_TEST_REPLAY_SIM_WORLD_H
#define RP_TEST_REPLAY_SIM_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/agree/agree.h"
#include "core/lane.h"
#include "core/replay/replay_private.h"
#include "replay_program.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#define SIM_UNITS 40
#define SIM_GROUP 4
#define SIM_SLOTS 64
#define SIM_STAMPS 256
#define SIM_ENTRIES 256
#define SIM_SETTLED SIZE_MAX
#define SIM_NOBODYS UINT64_MAX /* a serial */

struct sim_slot {
    uint64_t bytes; /* 0: no memory */
    uint64_t parts[SIM_RANKS], serial;
    size_t fill;               /* the gather ahead that fills it; SIM_SETTLED: none */
    uint64_t number, expected; /* of the last one, 0 after a plain gather; and the position of its call */
};

struct sim_snapshot {
    uint64_t bytes; /* 0: no memory */
    uint64_t part, serial;
};

/* A gather ahead: there when all ranks have issued it. */
struct sim_fill {
    uint64_t parts[SIM_RANKS];
    uint32_t ranks;
};

struct sim_call {
    struct sim_action *action;
    struct rp_op op;
    struct rp_replay_step step;
    struct rp_replay_result result;
    bool fails, voted;
    uint32_t polls;
    enum rp_verdict own;
};

struct sim_due {
    uint64_t position, value[2];
    size_t ready; /* action index from which it is there */
};

struct sim;
struct sim_rank {
    struct sim *sim;
    uint32_t number;
    struct rp_agree agree;
    struct rp_lane lane;
    struct rp_replay *replay;
    size_t at; /* action */
    struct sim_call calls[SIM_GROUP];
    size_t call_count, call; /* a group under way: the one that is decided on */
    struct sim_slot slots[SIM_SLOTS];
    struct sim_snapshot snapshots[SIM_SLOTS];
    bool unpackable;               /* told at each turn; nothing that is packed is anybody's */
    bool fills_slots;              /* gathers ahead go there: the largest slot stays */
    size_t fills;                  /* issued */
    size_t fills_sunk;             /* of these, into the largest slot, since their own had no memory */
    uint32_t versions[SIM_UNITS];  /* of what it has of each unit */
    uint32_t unit_of[SIM_ENTRIES]; /* entry of the plan: the unit that it sent there last */
    size_t fills_live;
    size_t fills_where_expected;         /* served to the call that they were issued for */
    size_t fills_resting, fills_passive; /* of these, when the arming had ended, and when the lane was given up */
    uint32_t joins, warms; /* turns, and words, until its child has joined, is warm; 0: it has, or was not asked to */
    bool told, joined;     /* to join; it has */
    uint32_t lefts;
    struct sim_due *due;
    size_t due_count;
    uint64_t now_ns;   /* of the device */
    uint64_t stamp_ns; /* of the stamp given out last */
    struct {
        uint64_t position, ns;
        enum rp_stamp_kind kind;
    } stamps[SIM_STAMPS];
    size_t stamp_count;
    uint64_t hits_possible; /* repeated gathers while armed */
    bool refused;           /* the call at hand was, and is made again */
    bool dead, done;
    char last[200]; /* line told last */
    size_t entered[8];
    size_t refusals;
};

struct sim {
    struct sim_program program;
    struct sim_rank ranks[SIM_RANKS];
    uint32_t nranks;
    uint64_t random;
    void *shared, *table;
    struct sim_fill *fills;
    size_t fill_count;
    /* How the job behaves; set before sim_run(). */
    uint32_t bound;                      /* polls until a rank withdraws */
    uint64_t budget, budget_after_loss;  /* 0: the same */
    uint64_t plain_ns, hit_ns, learn_ns; /* of a call; the last more for one that is learned from */
    uint64_t hit_more_ns[SIM_RANKS];
    uint64_t gap_ns, mib_ns; /* of compute before a call; of a plain call for each MiB of a part */
    uint32_t stamps_late;    /* so many come together */
    uint32_t stamps_lost;    /* of a hundred */
    uint32_t late_on[SIM_RANKS];
    bool strict, untried, equal_layers;
    bool packs;                           /* gathers are of bfloat16, and may be packed */
    bool ahead;                           /* plans may have gathers ahead */
    bool persistent;                      /* ranks always send a unit's gathers from the same place */
    struct rp_preset *presets[SIM_RANKS]; /* taken over */
    enum rp_preset_lack lacks[SIM_RANKS];
    /* A bit a rank: it can't join; it says no to every WARM, or COMMIT. */
    unsigned childless, unwarmed, unready;
    bool dies;
    size_t dies_at; /* rank 1 stops there */
    bool verbose;
};

static inline uint64_t sim_random(struct sim *sim)
{
    sim->random ^= sim->random << 13;
    sim->random ^= sim->random >> 7;
    sim->random ^= sim->random << 17;
    return sim->random;
}

static inline uint64_t sim_hash(uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t words[3] = {a, b, c};
    return XXH3_64bits(words, sizeof(words));
}

/* ---------------------------------------------------------------- the job */

static inline uint64_t sim_shard(const struct sim *sim, uint32_t unit, uint64_t version, uint32_t rank)
{
    bool same = sim->equal_layers && version == 0 && unit > 0;
    return sim_hash(same ? 1 : unit, version, rank);
}

/* What each gather sends, and whether that is what it sent last. */
static inline void sim_finish(struct sim *sim)
{
    static uint64_t version[SIM_UNITS][SIM_RANKS], last[SIM_UNITS][SIM_RANKS];

    memset(version, 0, sizeof(version));
    memset(last, 0, sizeof(last));
    for (size_t i = 0; i < sim->program.count; i++) {
        struct sim_action *action = &sim->program.actions[i];
        for (uint32_t unit = 0; unit < SIM_UNITS && action->act == SIM_CHANGE; unit++)
            for (uint32_t rank = 0; rank < sim->nranks; rank++)
                if ((action->unit == unit || action->unit == UINT32_MAX) && (action->ranks >> rank & 1) != 0)
                    version[unit][rank]++;
        if (action->act != SIM_GATHER)
            continue;
        action->repeated = true;
        for (uint32_t rank = 0; rank < sim->nranks; rank++) {
            action->shard[rank] = sim_shard(sim, action->unit, version[action->unit][rank], rank);
            action->repeated &= action->shard[rank] == last[action->unit][rank];
            last[action->unit][rank] = action->shard[rank];
        }
    }
}

static inline void sim_tell(void *context, enum rp_replay_state state, const char *text)
{
    static const char *const names[] = {
#define X(name, word) word,
        RP_REPLAY_STATES(X)
#undef X
    };
    struct sim_rank *rank = context;

    snprintf(rank->last, sizeof(rank->last), "%s", text);
    rank->entered[state]++;
    if (rank->sim->verbose)
        fprintf(stderr, "rank %u at %llu: %s: %s\n", rank->number, (unsigned long long)atomic_load(&rank->lane.next),
                names[state], text);
}

/* Defaults: a job in which nothing is late. */
static inline struct sim *sim_create(uint32_t nranks, uint64_t seed)
{
    struct sim *sim = calloc(1, sizeof(*sim));

    assert_non_null(sim);
    sim->nranks = nranks;
    sim->random = seed * 0x9e3779b97f4a7c15u + 1;
    sim->bound = 100000;
    sim->budget = UINT64_C(1) << 40;
    sim->plain_ns = 1000;
    sim->verbose = getenv("SIM_VERBOSE") != NULL;
    sim->hit_ns = 100;
    sim->shared = calloc(1, rp_agree_bytes(nranks));
    sim->table = calloc(1, rp_learn_bytes(nranks));
    assert_non_null(sim->shared);
    assert_non_null(sim->table);
    return sim;
}

static inline void sim_destroy(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->nranks; i++) {
        rp_replay_destroy(sim->ranks[i].replay);
        free(sim->ranks[i].due);
    }
    free(sim->program.actions);
    free(sim->shared);
    free(sim->table);
    free(sim->fills);
    free(sim);
}

#endif
