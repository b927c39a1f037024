/*
 * What the compute stream stands still for, with --times; without it nothing is recorded.
 *
 * Timed events on the compute stream, around each of its waits and where a gather is called, of which the host reads
 * the differences when the step has long ended: nothing waits for anything that it does not wait for anyway.
 *
 * Called by the thread that issues; never by two at a time. mt_times_read and mt_times_print: main thread only.
 */
#ifndef MINITRAIN_TIMES_H
#define MINITRAIN_TIMES_H

#include "minitrain.h"

enum mt_wait { MT_WAIT_GATHER, MT_WAIT_REDUCTION };

/* NULL without --times. */
struct mt_times *mt_times_open(const struct mt_trainer *t);
void mt_times_close(struct mt_times *times);

/* Waits between the two are counted; what is put on the compute stream between them is the step. */
void mt_times_begin(const struct mt_trainer *t, int step);
void mt_times_end(const struct mt_trainer *t);
/* A forward pass begins: its first wait for a gather is the gap at the start of its microbatch. */
void mt_times_forward(const struct mt_trainer *t);
/* A gather is about to be called: the compute stream has all work that came before it. */
void mt_times_called(const struct mt_trainer *t);
/* The compute stream waits for `event`, with --times or without. */
void mt_compute_wait(const struct mt_trainer *t, enum mt_wait kind, cudaEvent_t event);

/* `step` has ended on the device. At most MT_STEPS_AHEAD steps may have begun after it. */
void mt_times_read(const struct mt_trainer *t, int step);
/* A table with a line for each step, then one with the medians over the last half of the steps. */
void mt_times_print(const struct mt_trainer *t);

#endif
