/*
 * Annotation rules: from where an op was issued (its site) to a module, a phase and the beginning of a step. README.md
 * has the format of their files; rule_file.h reads them.
 *
 * A rule looks at one text of one source, and perhaps at where that was:
 *
 *   source   text                                                                   where
 *   NATIVE   a symbol of the native stack, as the dynamic symbol table spells it     the file of its library
 *            (mangled), or library+0xoffset
 *   PYTHON   a frame's qualified name ("FSDPParamGroup.unshard")                     its source file
 *   NVTX     the text of a range ("forward layers.3")                                its domain, "" for the default one
 *   KERNEL   the name of a launched kernel (mangled)                                  nothing
 *
 * Of all rules that match one text, the last that says a module gives the module, the last that says a phase gives the
 * phase. Rules stay in place from their reading to rp_rules_destroy(), so that what they said can be kept.
 *
 * Threads: filled by one; then any number may match.
 */
#ifndef RP_RULE_H
#define RP_RULE_H

#include <stdbool.h>
#include <stddef.h>

#include "core/event.h"
#include "core/rules/glob.h"
#include "core/status.h"

#define RP_RULES_MAX 4096     /* in a table: a range that is opened may ask all of them */
#define RP_RULE_ROOT "<root>" /* what an empty module's name becomes */

/* X(enumerator, key of the pattern, key of the condition; "": it has none) */
#define RP_RULE_SOURCES(X)         \
    X(NATIVE, "native", "library") \
    X(PYTHON, "python", "file")    \
    X(NVTX, "nvtx", "domain")      \
    X(KERNEL, "kernel", "")

enum rp_rule_source {
#define X(name, pattern, where) RP_RULE_##name,
    RP_RULE_SOURCES(X)
#undef X
        RP_RULE_SOURCE_COUNT
};

enum rp_rule_module {
    RP_RULE_SAYS_NONE, /* unless the pattern has {module} */
    RP_RULE_SAYS_TEXT, /* `module` with its {captures} filled in */
    RP_RULE_SAYS_PATH  /* `module` is a path to be read in the frame (path.h); PYTHON only */
};

struct rp_rule {
    const char *name; /* of its section */
    const char *file; /* as the user named it; of a shipped one, its name */
    unsigned line;    /* of its section */
    bool shipped;
    enum rp_rule_source source;
    const char *pattern; /* glob.h */
    const char *where;   /* a glob, or NULL: anywhere */
    enum rp_rule_module module_kind;
    const char *module;
    enum rp_phase phase;       /* UNKNOWN: this rule says nothing of it, unless the pattern has {phase} */
    enum rp_phase in_backward; /* what a FORWARD of this rule is when the native stack says backward */
    bool nested;               /* its module is inside those of enclosing rules that are nested too */
    bool step;                 /* a step begins here */
    bool calls_only;           /* what it says is of calls alone; launches behind them belong to what is further out */
    _Atomic bool matched;      /* some text, ever; relaxed: told at the end */
};

struct rp_rules;

/* Empty. RP_NO_MEMORY. */
enum rp_status rp_rules_create(struct rp_rules **rules_out);
void rp_rules_destroy(struct rp_rules *rules);

/* Takes a copy of `rule` and of its texts, behind all others. RP_FULL, RP_NO_MEMORY. */
enum rp_status rp_rules_add(struct rp_rules *rules, const struct rp_rule *rule);

size_t rp_rules_count(const struct rp_rules *rules);
const struct rp_rule *rp_rules_at(const struct rp_rules *rules, size_t index);

struct rp_rule_match {
    const struct rp_rule *module_rule; /* or NULL */
    const struct rp_rule *phase_rule;  /* or NULL */
    const struct rp_rule *step_rule;   /* or NULL; the last that has `step` */
    enum rp_phase phase;               /* from the rule or its capture */
    struct rp_captures captures;       /* of module_rule, inside `text` */
};

/* What KERNEL rules say of the launches of one kernel, its module interned. */
struct rp_kernel_rules {
    struct rp_event event;                          /* RP_MODULE_UNKNOWN, RP_PHASE_UNKNOWN: they say nothing of that */
    const struct rp_rule *module_rule, *phase_rule; /* or NULL */
};

/* Matches `text` against the rules of `source`; `where` may be NULL. False: none did, and `match_out` is untouched. */
bool rp_rules_match(const struct rp_rules *rules, enum rp_rule_source source, const char *text, const char *where,
                    struct rp_rule_match *match_out);

/*
 * The module that a match says by text, into `text` (terminated, cut at `size`). Returns its length, 0 for an empty
 * name. Only where module_rule is there and not of RP_RULE_SAYS_PATH.
 */
size_t rp_rule_module_text(const struct rp_rule_match *match, char *text, size_t size);

/* Whether some rule of `source` begins steps, or is nested: then more than the innermost match counts. */
bool rp_rules_have_steps(const struct rp_rules *rules, enum rp_rule_source source);
bool rp_rules_have_nested(const struct rp_rules *rules, enum rp_rule_source source);

/*
 * For an interpreter that gives a frame's plain name only (Python 3.10): true if `name` is a method that some PYTHON
 * rule spells out: the pattern is "Class.name".
 */
bool rp_rules_have_method(const struct rp_rules *rules, const char *name);

#endif
