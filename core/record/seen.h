/*
 * What was seen at collectives: each frame and range (source, text, where) once, with the rules that gave a module,
 * a phase and the beginning of a step there, and how many collectives were under it. From this a trace tells its reader
 * what rules could be written for.
 *
 * Bounded: what comes after RP_SEEN_MAX different ones is not kept. The rules must outlive the table, which only
 * carries the pointers.
 *
 * Threads: any may note and count; the background thread reads. Noting takes a short lock in which no code of others
 * runs; counting and reading take none.
 */
#ifndef RP_SEEN_H
#define RP_SEEN_H

#include <stdint.h>

#include "core/rules/rule.h"
#include "core/status.h"

#define RP_SEEN_MAX 8192u
#define RP_SEEN_NONE UINT32_MAX
#define RP_SEEN_TEXT_MAX 2000 /* bytes of a text, and of a where, that count; longer ones are cut */

struct rp_seen;

struct rp_seen_site {
    enum rp_rule_source source;
    const char *text;  /* what a pattern is matched against */
    const char *where; /* file (PYTHON), library (NATIVE), domain (NVTX); "" if unknown */
    const struct rp_rule *module_rule, *phase_rule, *step_rule; /* or NULL */
};

/* RP_NO_MEMORY. */
enum rp_status rp_seen_create(struct rp_seen **seen_out);
void rp_seen_destroy(struct rp_seen *seen);

/*
 * The number of what was seen, kept if it is new: numbers count up from 0. `where` may be NULL. The rules of the first
 * call count. RP_SEEN_NONE: the table is full, or memory is out.
 */
uint32_t rp_seen_note(struct rp_seen *seen, enum rp_rule_source source, const char *text, const char *where,
                      const struct rp_rule *module_rule, const struct rp_rule *phase_rule,
                      const struct rp_rule *step_rule);

/* One more collective was under it. RP_SEEN_NONE is passed over. */
void rp_seen_count(struct rp_seen *seen, uint32_t number);

/* How many numbers exist: who keeps the last answer knows what is new. */
uint32_t rp_seen_total(const struct rp_seen *seen);

/* What a number below the total stands for. The texts stay in place until rp_seen_destroy(). */
struct rp_seen_site rp_seen_site(const struct rp_seen *seen, uint32_t number);

/* How many collectives were under a number below the total, so far. */
uint64_t rp_seen_collectives(const struct rp_seen *seen, uint32_t number);

/*
 * In the child of a fork: the lock is made anew and all counts are 0. If another thread was noting just then, the table
 * takes nothing new from here on.
 */
void rp_seen_forked(struct rp_seen *seen);

#endif
