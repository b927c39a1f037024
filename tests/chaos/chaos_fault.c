/*
 * Faults for the stand-in, only such that what must be delivered stays known:
 *   lag       of one rank
 *   error     of the same collective on all ranks, which then call it again
 *   malloc    an allocation of the program, which then frees what it can and tries again
 *   cualloc   an allocation of whoever else is in the process
 *   scribble  in a gather of the first collectives: later ones need not reach NCCL under a tool, so their numbers shift
 *   kill      the others must end by their watchdog * And a device that has no more than what the program takes at
 * most, and a margin that it leaves to others for good.
 */
#include "tests/chaos/chaos_maker.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define SCRIBBLE_MOST 6           /* collectives: fewer than any order needs to be known */
#define MARGIN ((size_t)1 << 20)  /* for each communicator, and one that is still being given back */
#define GRANULE ((size_t)2 << 20) /* what devices give memory in */
#define WATCHDOG_MS 1500

static void fault_add(struct chaos_program *program, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void fault_add(struct chaos_program *program, const char *format, ...)
{
    size_t length = strlen(program->faults);
    va_list arguments;
    if (length > 0)
        program->faults[length++] = ',';
    va_start(arguments, format);
    vsnprintf(program->faults + length, sizeof program->faults - length, format, arguments);
    va_end(arguments);
}

static int collectives(const struct chaos_program *program)
{
    int count = 0;
    for (size_t i = 0; i < program->count; i++)
        count += chaos_is_collective(&program->actions[i]);
    return count;
}

static int random_rank(struct chaos_maker *maker)
{
    return chaos_below(&maker->random, maker->program->ranks);
}

static void lag_plan(struct chaos_maker *maker, int most)
{
    int rank = random_rank(maker), op = 1 + chaos_below(&maker->random, most);
    fault_add(maker->program, "lag:rank=%d,op=%d,us=%d", rank, op, chaos_between(&maker->random, 100, 20000));
    maker->program->fault_lag++;
}

static void allocations_plan(struct chaos_maker *maker)
{
    struct chaos_program *program = maker->program;
    if (chaos_draw(maker, 8)) {
        fault_add(program, "malloc:rank=%d,n=%d", random_rank(maker), chaos_between(&maker->random, 1, 25));
        program->fault_malloc++;
    }
    if (chaos_draw(maker, 8)) {
        fault_add(program, "cualloc:rank=%d,n=%d", random_rank(maker), chaos_between(&maker->random, 1, 25));
        program->fault_driver++;
    }
}

static void pressure_plan(struct chaos_maker *maker)
{
    struct chaos_program *program = maker->program;
    size_t granules = (size_t)chaos_below(&maker->random, program->unit_count + 2);
    program->balloon_bytes = granules * GRANULE + 1 + (size_t)chaos_below(&maker->random, (int)MARGIN);
    size_t margin = MARGIN * (size_t)(program->comm_count + 1);
    program->memory_mb = (double)(chaos_program_memory(program) + program->balloon_bytes + margin) / (1 << 20);
    chaos_feature(program, CHAOS_HAS_PRESSURE);
}

/* Where numbers are alike on all ranks, and not where a call belongs to a capture or is answered later. */
static bool error_possible(const struct chaos_program *program)
{
    return !program->parallel && !program->nonblocking && !(program->features >> CHAOS_HAS_CAPTURE & 1) &&
           !(program->features >> CHAOS_HAS_PARITY & 1);
}

static void error_plan(struct chaos_maker *maker, int most)
{
    int op = 1 + chaos_below(&maker->random, most);
    for (int rank = 0; rank < maker->program->ranks; rank++)
        fault_add(maker->program, "error:rank=%d,op=%d", rank, op);
    maker->program->fault_error++;
}

/* From here on the shard itself is another one, until it is written again. */
static void scribble_spread(struct chaos_program *program, size_t at, int rank)
{
    const struct chaos_action *struck = &program->actions[at];
    program->actions[at].content[rank].scribbled = true;
    if (program->units[struck->unit].send != CHAOS_SEND_PERSISTENT)
        return;
    for (size_t i = at + 1; i < program->count; i++) {
        struct chaos_action *later = &program->actions[i];
        if (later->unit != struck->unit)
            continue;
        if (later->kind == CHAOS_WRITE && later->ranks >> rank & 1)
            return;
        if (later->kind == CHAOS_GATHER)
            later->content[rank].scribbled = true;
    }
}

static void scribble_plan(struct chaos_maker *maker)
{
    struct chaos_program *program = maker->program;
    int rank = random_rank(maker), wanted = chaos_between(&maker->random, 1, SCRIBBLE_MOST);
    for (size_t i = 0, number = 0; i < program->count && number < SCRIBBLE_MOST; i++) {
        const struct chaos_action *action = &program->actions[i];
        number += chaos_is_collective(action);
        if ((int)number < wanted || action->kind != CHAOS_GATHER || action->bracket == CHAOS_CAPTURE)
            continue;
        fault_add(program, "scribble:rank=%d,op=%zu", rank, number);
        scribble_spread(program, i, rank);
        program->fault_scribble++;
        return;
    }
}

static void kill_plan(struct chaos_maker *maker, int most)
{
    struct chaos_program *program = maker->program;
    fault_add(program, "kill:rank=%d,op=%d", random_rank(maker), 1 + chaos_below(&maker->random, most));
    program->watchdog_ms = WATCHDOG_MS;
    program->fault_kill++;
    chaos_feature(program, CHAOS_HAS_KILL);
}

void chaos_faults_make(struct chaos_maker *maker)
{
    struct chaos_program *program = maker->program;
    int most = collectives(program);
    if (most == 0)
        return;
    if (chaos_draw(maker, 8))
        lag_plan(maker, most);
    allocations_plan(maker);
    if (maker->pressure)
        pressure_plan(maker);
    int which = chaos_below(&maker->random, 100);
    if (which < 8 && error_possible(program))
        error_plan(maker, most);
    else if (which >= 8 && which < 14 && !program->parallel)
        scribble_plan(maker);
    else if (which >= 98)
        kill_plan(maker, most);
}
