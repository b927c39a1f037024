/*
 * The annotation rules of this process: those that are shipped, then those of the user's files (REPRISE_ANNOTATIONS),
 * which so override them. What is wrong with a file is said once a job, and the run goes on.
 *
 * Threads: the one that starts the library, and the one that ends it.
 */
#ifndef RP_ANNOTATIONS_H
#define RP_ANNOTATIONS_H

#include <stdint.h>

#include "core/rules/rule.h"

/* `files`: paths with commas between, or NULL. NULL: memory is out. The caller owns the rules. */
struct rp_rules *rp_annotations_load(const char *files);

/*
 * One line for the rules of the user's files that never matched, if there are some; one where a rule of theirs for
 * frames began the only one of `steps` (0: not counted, as where gathers are replayed and nobody looks at frames).
 */
void rp_annotations_report(const struct rp_rules *rules, uint64_t steps);

#endif
