/*
 * How minitrain says what it is at, for tools that look on: each piece of work is called through mt_at, and while it
 * runs one of these tells its phase and its module (--sites):
 *
 *   nvtx    a range "<phase> <module>", or "<phase>"
 *   native  a frame of a function whose name tells both: layer3_forward (minitrain_names.c)
 *   python  a frame of a Python method: Block.forward, with the module in self._fqn (minitrain_python.c)
 *   off     nothing
 *
 * Pieces nest; the innermost one is meant. A phase of an evaluation is MT_EVAL, whatever it would be in training.
 *
 * Threads: any.
 */
#ifndef MINITRAIN_SITE_H
#define MINITRAIN_SITE_H

#include "minitrain_options.h"

enum mt_phase { MT_FORWARD, MT_BACKWARD, MT_RECOMPUTE, MT_EVAL, MT_OPTIMIZER, MT_OTHER, MT_PHASES };

/* "forward", "backward", "recompute", "eval", "optimizer", "other". */
const char *mt_phase_name(enum mt_phase phase);

typedef void mt_work(void *argument);

/* Once in a rank, before the first mt_at and before there are threads. */
void mt_sites_open(const struct mt_options *options);
/* Calls work(argument). `module` may be NULL. */
void mt_at(enum mt_phase phase, const char *module, mt_work *work, void *argument);
/* The same for what one module does ahead for another: a range is in the domain "ahead". */
void mt_at_ahead(enum mt_phase phase, const char *module, mt_work *work, void *argument);

/* minitrain_names.c: the same, by a function named after the phase and the module. */
void mt_names_call(enum mt_phase phase, const char *module, mt_work *work, void *argument);
/* Whether so many layers and chunks have functions. */
bool mt_names_are_enough(int layers, int chunks);

/* minitrain_python.c: the same, by a method of that name, in a Python that is loaded from `library`. */
void mt_python_start(const char *library);
void mt_python_call(enum mt_phase phase, const char *module, mt_work *work, void *argument);

#endif
