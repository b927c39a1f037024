/*
 * One rule while its section is read: first its lines are gathered, then, at the section's end, they are checked
 * together. The first fault of a rule is the one that is said.
 *
 * Threads: none of its own.
 */
#ifndef RP_RULE_DRAFT_H
#define RP_RULE_DRAFT_H

#include "core/rules/rule.h"

#define RP_RULE_LINE_BYTES 512 /* of a line, with its end; inih's own bound may be less */

/*
 * Keys: a pattern and a condition for each source, in the order of the sources, then the rest, X(enumerator, name).
 */
#define RP_RULE_KEYS(X)           \
    X(MODULE, "module")           \
    X(PHASE, "phase")             \
    X(IN_BACKWARD, "in_backward") \
    X(LAUNCHES, "launches")       \
    X(NESTED, "nested")           \
    X(STEP, "step")

enum rp_rule_key {
    RP_RULE_KEY_PATTERN, /* plus a source */
    RP_RULE_KEY_WHERE = RP_RULE_KEY_PATTERN + RP_RULE_SOURCE_COUNT,
    RP_RULE_KEY_LAST_WHERE = RP_RULE_KEY_WHERE + RP_RULE_SOURCE_COUNT - 1,
#define X(name, text) RP_RULE_KEY_##name,
    RP_RULE_KEYS(X)
#undef X
        RP_RULE_KEY_COUNT
};

struct rp_rule_draft {
    char name[RP_RULE_LINE_BYTES];
    unsigned line;
    char values[RP_RULE_KEY_COUNT][RP_RULE_LINE_BYTES];
    unsigned lines[RP_RULE_KEY_COUNT]; /* 0: the key is not there */
    unsigned fault_line;               /* 0: no fault so far */
    char fault[2 * RP_RULE_LINE_BYTES];
};

void rp_rule_draft_begin(struct rp_rule_draft *draft, const char *name, size_t length, unsigned line);

/* Notes what is wrong, unless something was before. Returns false. */
bool rp_rule_draft_fault(struct rp_rule_draft *draft, unsigned line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* One "key = value" of the section. */
void rp_rule_draft_set(struct rp_rule_draft *draft, const char *key, const char *value, unsigned line);

/* The rule of the whole section, but for `file` and `shipped`; its texts are the draft's. False: there is a fault. */
bool rp_rule_draft_finish(struct rp_rule_draft *draft, struct rp_rule *rule_out);

#endif
