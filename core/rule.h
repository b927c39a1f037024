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
 * Threads: the table is constant; matching is pure.
 */
#ifndef RP_RULE_H
#define RP_RULE_H

#include <stdbool.h>
#include <stddef.h>

#include "core/event.h"

enum rp_rule_source { RP_RULE_NATIVE, RP_RULE_PYTHON, RP_RULE_NVTX };

struct rp_rule {
    enum rp_rule_source source;
    const char *pattern;
    /*
     * What names the module, or NULL: this rule says nothing of it. NATIVE: a literal. PYTHON: a literal in single
     * quotes, or an attribute path from a local of the frame ("self._module_fqn"). NVTX: NULL, `{module}` captures.
     */
    const char *module;
    enum rp_phase phase; /* UNKNOWN: this rule says nothing of it */
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

#endif
