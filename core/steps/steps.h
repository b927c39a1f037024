/*
 * Cuts the ops of a lane into steps, over a whole recording: also with a warm-up before, evaluation between, a step
 * that differs from the others, an end in mid-step, and small ops that come and go.
 *
 * Where gathers are fresh, a step begins with the first fresh gather after a reduction: the weights have changed.
 * The commonest such stretch is the cycle (generation.h); it is looked for in the others too, so that an
 * evaluation that begins a generation is told from the step behind it. Without freshness the period of the signatures
 * cuts alone, if it has as many gathers as there were fresh ones: a step gathers every unit.
 *
 * Where annotations say that steps begin (rp_cycle_item.step), that counts alone: each such item begins a step, and
 * those that are as most are WHOLE. Only behind the last such item, where replay asks for names no more, the lane is
 * cut where what most steps are repeats.
 *
 * Threads: pure functions of their arguments.
 */
#ifndef RP_STEPS_H
#define RP_STEPS_H

#include <stddef.h>

#include "core/steps/cycle.h"
#include "core/status.h"

/* WHOLE: one cycle, as most others. OTHER: a prefix, an evaluation, an odd or unfinished step, or no cycle known. */
enum rp_step_kind { RP_STEP_WHOLE, RP_STEP_OTHER };

struct rp_step {
    size_t first; /* index of its first item; it ends where the next begins, the last at the end of the array */
    enum rp_step_kind kind;
};

/*
 * Steps in order; the first begins at item 0, so that every item belongs to one. SMALL items before a step's first
 * other item belong to the step before. No items: no steps. The caller frees *steps_out (NULL if there are none).
 * RP_NO_MEMORY. An annotated step begins at its item, whatever that is. Linear time but for one sort of the steps.
 */
enum rp_status rp_steps_cut(const struct rp_cycle_item *items, size_t count, struct rp_step **steps_out,
                            size_t *count_out);

#endif
