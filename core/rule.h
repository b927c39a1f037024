/*
 * Annotation rules: from where an op was issued (its site) to a module and a phase. This is the seam; the rules
 * built in here serve PyTorch FSDP2 and FSDP1 and plain programs with NVTX ranges. Rule files come later.
 *
 * A rule matches one text of one source:
 *   NATIVE  a symbol of the native stack, as the dynamic symbol table spells it (mangled)
 *   PYTHON  a frame's qualified name ("FSDPParamGroup.unshard")
 *   NVTX    the text of a range ("forward layers.3")
 * The pattern is a glob (fnmatch without flags) for NATIVE and PYTHON. For NVTX it is a template in which
 * `{module}` and `{phase}` each take at least one character, `{phase}` only a phase's name; all else is literal.
 * Where several rules match, the first of the table wins, separately for module and for phase.
 *
 * How a PYTHON rule says the module, by reading and never by running the application's code:
 *   module := "'" text "'" | name { " | " name }   the first name that there is
 *   name   := path [ " - " path ]                  without the second at its end, if it ends in it
 *   path   := local { part }                       a local variable of the frame, then
 *   part   := "." attribute                        from the object's own dictionary: no property, no class attribute
 *           | "[" number "]"                       of a tuple or list
 *           | "[" path "]"                         of a dictionary, by identity of the key
 * A path ends in a str; all else (None, an int, nothing there) is no name. An empty name is RP_RULE_ROOT.
 *
 * Threads: the table is constant; matching is pure.
 */
#ifndef RP_RULE_H
#define RP_RULE_H

#include <stdbool.h>
#include <stddef.h>

#include "core/event.h"

#define RP_RULE_ROOT "<root>"

enum rp_rule_source { RP_RULE_NATIVE, RP_RULE_PYTHON, RP_RULE_NVTX, RP_RULE_KERNEL };

struct rp_rule {
    enum rp_rule_source source;
    const char *pattern;
    /*
     * What names the module, or NULL: this rule says nothing of it. NATIVE: a literal. PYTHON: see above. NVTX: NULL,
     * `{module}` captures.
     */
    const char *module;
    enum rp_phase phase; /* UNKNOWN: this rule says nothing of it, unless `{phase}` captures */
    /* What a FORWARD of this rule is when the native stack says backward; UNKNOWN: BACKWARD, as any other phase. */
    enum rp_phase forward_in_backward;
};

struct rp_rule_match {
    const struct rp_rule *module_rule; /* or NULL */
    const struct rp_rule *phase_rule;  /* or NULL */
    enum rp_phase phase;               /* from the rule or its capture */
    const char *module;                /* NVTX: the capture, inside `text`; else NULL */
    size_t module_length;
};

/* Matches `text` (terminated) against the rules of `source`. False: no rule matched, and `match_out` is untouched. */
bool rp_rule_match(enum rp_rule_source source, const char *text, struct rp_rule_match *match_out);

/*
 * For an interpreter that gives a frame's plain name only (Python 3.10): true if `name` is a method that some PYTHON
 * rule spells out: the pattern is "Class.name".
 */
bool rp_rule_python_method(const char *name);

#endif
