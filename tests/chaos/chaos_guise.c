/*
 * What ranks are dressed in: whether the library is there, in which mode and with which options. Mostly all alike; in
 * some programs one rank is not, and then nothing may change for anybody.
 */
#include "tests/chaos/chaos_random.h"
#include "tests/chaos/chaos_run.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

const char *const chaos_mode_names[CHAOS_MODES] = {"plain", "off", "record", "replay"};

#define GRANULE ((uint64_t)2 << 20)      /* what devices give memory in */
#define FINE_GRANULE ((uint64_t)4 << 10) /* where gathering ahead is to be worth it */
#define AHEAD_TIMEOUT "100ms"            /* the stand-in makes a child's first gathers in real time */

/* How one rank differs from the others. */
enum odd { ODD_NONE, ODD_PLAIN, ODD_OFF, ODD_RECORD, ODD_TIMEOUT, ODD_BUDGET, ODD_COUNT };

struct guise {
    int odd_rank;
    enum odd odd;
    uint64_t budget;    /* bytes; 0: auto */
    bool ahead;         /* REPRISE_PREFETCH=1, on a slow link and with small granules */
    bool packs;         /* small granules, and memory for about half of what is gathered */
    bool blocking;      /* CUDA_LAUNCH_BLOCKING=1 on all ranks */
    unsigned jitter_us; /* FAKE_JITTER_US */
};

static uint64_t all_units(const struct chaos_program *program)
{
    uint64_t bytes = 0;
    for (int i = 0; i < program->unit_count; i++)
        bytes += (uint64_t)program->units[i].bytes * (uint64_t)program->ranks;
    return bytes;
}

static struct guise draw(const struct chaos_program *program)
{
    struct chaos_random random = {chaos_mix(program->seed ^ 0x67756973u)};
    struct guise guise = {.odd_rank = chaos_below(&random, program->ranks)};
    if (chaos_chance(&random, 14))
        guise.odd = (enum odd)chaos_between(&random, ODD_PLAIN, ODD_COUNT - 1);
    /* Without a budget nothing is kept where memory is just enough. */
    if (chaos_chance(&random, program->memory_mb > 0 ? 85 : 40))
        guise.budget = 1 + chaos_next(&random) % (GRANULE * (uint64_t)(program->unit_count + 1));
    if (program->tight)
        guise.budget = GRANULE + chaos_next(&random) % GRANULE;
    guise.ahead = program->ahead && program->memory_mb == 0;
    if (guise.ahead)
        guise.budget = FINE_GRANULE + chaos_next(&random) % (2 * FINE_GRANULE * (uint64_t)program->unit_count);
    guise.packs = program->packs && program->memory_mb == 0;
    if (guise.packs)
        guise.budget = FINE_GRANULE + chaos_next(&random) % (all_units(program) + 1);
    guise.blocking = chaos_chance(&random, 2);
    if (program->tight || chaos_chance(&random, 20))
        guise.jitter_us = (unsigned)chaos_between(&random, 50, 800);
    return guise;
}

static void set_number(const char *name, const char *format, uint64_t value)
{
    char text[32];
    snprintf(text, sizeof text, format, value);
    setenv(name, text, 1);
}

static void forget(const char *const *names)
{
    for (; *names; names++)
        unsetenv(*names);
}

static void wear_place(const struct chaos_program *program, int rank)
{
    set_number("RANK", "%" PRIu64, (uint64_t)rank);
    set_number("LOCAL_RANK", "%" PRIu64, (uint64_t)rank);
    set_number("WORLD_SIZE", "%" PRIu64, (uint64_t)program->ranks);
}

static void wear_faults(const struct chaos_settings *settings, const struct chaos_program *program)
{
    char text[32];
    if (settings->untold)
        setenv("FAKE_FAULT", "scribble:rank=0,op=1,scribble:rank=0,op=2,scribble:rank=0,op=3", 1);
    else if (program->faults[0])
        setenv("FAKE_FAULT", program->faults, 1);
    if (program->preconnect)
        setenv("FAKE_PRECONNECT", "1", 1);
    snprintf(text, sizeof text, "%f", program->memory_mb);
    if (program->memory_mb > 0)
        setenv("FAKE_MEMORY_MB", text, 1);
}

static void wear_library(const struct chaos_settings *settings, const struct chaos_program *program,
                         const struct guise *guise, enum odd odd)
{
    static const enum chaos_mode modes[ODD_COUNT] = {[ODD_OFF] = CHAOS_MODE_OFF, [ODD_RECORD] = CHAOS_MODE_RECORD};
    char trace[4096];
    enum chaos_mode mode = modes[odd] ? modes[odd] : settings->mode;
    setenv("LD_PRELOAD", settings->preload, 1);
    setenv("REPRISE_MODE", chaos_mode_names[mode], 1);
    setenv("REPRISE_LOG", getenv("CHAOS_LOG") ? getenv("CHAOS_LOG") : "info", 1);
    setenv("REPRISE_TIMEOUT", odd == ODD_TIMEOUT ? "37ms" : guise->ahead ? AHEAD_TIMEOUT : settings->timeout, 1);
    if (odd == ODD_BUDGET)
        setenv("REPRISE_BUDGET", "3K", 1);
    else if (guise->budget)
        set_number("REPRISE_BUDGET", "%" PRIu64, guise->budget);
    if (guise->ahead)
        setenv("REPRISE_PREFETCH", "1", 1);
    if (guise->ahead || guise->packs)
        setenv("REPRISE_TRIAL", "0", 1);
    if (chaos_guise_trace(settings, program->seed, trace, sizeof trace))
        setenv("REPRISE_TRACE", trace, 1);
}

bool chaos_guise_trace(const struct chaos_settings *settings, uint64_t seed, char *path, size_t size)
{
    if (!settings->scratch || settings->mode < CHAOS_MODE_RECORD)
        return false;
    return snprintf(path, size, "%s/%" PRIu64, settings->scratch, seed) < (int)size;
}

void chaos_guise_wear(const struct chaos_settings *settings, const struct chaos_program *program, int rank)
{
    static const char *const others[] = {
        "LD_PRELOAD",      "REPRISE_MODE",   "REPRISE_TRACE",  "REPRISE_LOG",      "REPRISE_BUDGET", "REPRISE_TIMEOUT",
        "FAKE_FAULT",      "FAKE_MEMORY_MB", "FAKE_REALTIME",  "FAKE_PRECONNECT",  "FAKE_DEVICES",   "NCCL_COMM_ID",
        "FAKE_GRANULE_KB", "FAKE_LINK_GBPS", "FAKE_KERNEL_US", "REPRISE_PREFETCH", "REPRISE_TRIAL",  NULL};
    struct guise guise = draw(program);
    enum odd odd = rank == guise.odd_rank ? guise.odd : ODD_NONE;
    forget(others);
    set_number("FAKE_JITTER_US", "%" PRIu64, guise.jitter_us);
    if (guise.packs)
        setenv("FAKE_GRANULE_KB", "4", 1);
    if (guise.ahead) {
        setenv("FAKE_GRANULE_KB", "4", 1);
        setenv("FAKE_LINK_GBPS", "0.1", 1);
        setenv("FAKE_KERNEL_US", "500", 1);
    }
    wear_place(program, rank);
    wear_faults(settings, program);
    setenv("LD_LIBRARY_PATH", settings->runtime, 1);
    if (settings->mode == CHAOS_MODE_PLAIN || odd == ODD_PLAIN)
        return;
    wear_library(settings, program, &guise, odd);
    if (guise.blocking)
        setenv("CUDA_LAUNCH_BLOCKING", "1", 1);
}
