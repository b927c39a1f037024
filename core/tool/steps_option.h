/*
 * What --steps takes, of every command that has it: which of a trace's steps are meant.
 *
 *     3      step 3 alone        3:5    steps 3, 4 and 5
 *     3:     from step 3 on      :5     steps 1 to 5
 *
 * People count from 1, and both ends belong to it.
 *
 * Threads: the command line has one.
 */
#ifndef RP_TOOL_STEPS_OPTION_H
#define RP_TOOL_STEPS_OPTION_H

#include <argp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RP_STEPS_OPEN SIZE_MAX

/* Steps [from, to), counted from 0; `to` may be RP_STEPS_OPEN: to the last one. */
struct rp_tool_steps {
    size_t from, to;
};

/* For the help of the option: its argument, and what stands behind "Show only these steps". */
#define RP_STEPS_ARGUMENT "A:B"
#define RP_STEPS_HELP "counted from 1 (3:5, 3:, :5, or 3 alone)"

/* What `text` means; what is malformed ends the process as other wrong arguments do. */
struct rp_tool_steps rp_tool_take_steps(struct argp_state *state, const char *text);

/* A step that is asked for and that a trace of `count` steps does not have, counted from 1; 0: it has all of them. */
size_t rp_tool_steps_missing(struct rp_tool_steps steps, size_t count);

#endif
