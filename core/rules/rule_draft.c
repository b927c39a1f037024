/*
 * What a rule may say, and what is expected where it says something else. Each check is false after it has noted a
 * fault.
 */
#include "core/rules/rule_draft.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/rules/path.h"

#define EXPECTED_PHASE "forward, backward, recompute, optimizer or other"
#define EXPECTED_PATTERN "exactly one of native, python, nvtx, kernel"

static const char *const key_names[RP_RULE_KEY_COUNT] = {
#define X(name, pattern, where) [RP_RULE_KEY_PATTERN + RP_RULE_##name] = pattern,
    RP_RULE_SOURCES(X)
#undef X
#define X(name, pattern, where) [RP_RULE_KEY_WHERE + RP_RULE_##name] = where,
        RP_RULE_SOURCES(X)
#undef X
#define X(name, text) [RP_RULE_KEY_##name] = text,
            RP_RULE_KEYS(X)
#undef X
};

void rp_rule_draft_begin(struct rp_rule_draft *draft, const char *name, size_t length, unsigned line)
{
    memset(draft->lines, 0, sizeof(draft->lines));
    draft->line = line;
    draft->fault_line = 0;
    snprintf(draft->name, sizeof(draft->name), "%.*s", (int)length, name);
}

bool rp_rule_draft_fault(struct rp_rule_draft *draft, unsigned line, const char *format, ...)
{
    va_list arguments;
    if (draft->fault_line != 0)
        return false;
    draft->fault_line = line;
    va_start(arguments, format);
    vsnprintf(draft->fault, sizeof(draft->fault), format, arguments);
    va_end(arguments);
    return false;
}

/* ---------------------------------------------------------------- one line */

static bool find_key(const char *name, unsigned *key_out)
{
    for (unsigned key = 0; key < RP_RULE_KEY_COUNT; key++) {
        if (key_names[key][0] != '\0' && strcmp(name, key_names[key]) == 0) {
            *key_out = key;
            return true;
        }
    }
    return false;
}

static void unknown_key(struct rp_rule_draft *draft, const char *name, unsigned line)
{
    char known[256] = "";
    for (unsigned key = 0; key < RP_RULE_KEY_COUNT; key++) {
        size_t length = strlen(known);
        if (key_names[key][0] != '\0')
            snprintf(known + length, sizeof(known) - length, "%s%s", length == 0 ? "" : ", ", key_names[key]);
    }
    rp_rule_draft_fault(draft, line, "unknown key \"%s\"; expected one of %s", name, known);
}

void rp_rule_draft_set(struct rp_rule_draft *draft, const char *name, const char *value, unsigned line)
{
    unsigned key;
    if (!find_key(name, &key)) {
        unknown_key(draft, name, line);
    } else if (value[0] == '\0') {
        rp_rule_draft_fault(draft, line, "\"%s\" has no value; expected %s = value", name, name);
    } else if (draft->lines[key] != 0) {
        rp_rule_draft_fault(draft, line, "\"%s\" is in line %u already; expected each key once in a section", name,
                            draft->lines[key]);
    } else {
        draft->lines[key] = line;
        snprintf(draft->values[key], sizeof(draft->values[key]), "%s", value);
    }
}

/* ---------------------------------------------------------------- the whole section */

/* The value of a key that is there, else NULL. */
static const char *value_of(const struct rp_rule_draft *draft, unsigned key)
{
    return draft->lines[key] != 0 ? draft->values[key] : NULL;
}

/* `keys` are there both; the later one is the one too many. */
static bool two_patterns(struct rp_rule_draft *draft, const unsigned keys[2])
{
    unsigned later = draft->lines[keys[1]] > draft->lines[keys[0]] ? 1 : 0;
    return rp_rule_draft_fault(draft, draft->lines[keys[later]], "\"%s\" beside \"%s\"; expected " EXPECTED_PATTERN,
                               key_names[keys[later]], key_names[keys[1 - later]]);
}

static bool take_source(struct rp_rule_draft *draft, struct rp_rule *rule)
{
    unsigned keys[2], count = 0;
    for (unsigned key = RP_RULE_KEY_PATTERN; key < RP_RULE_KEY_WHERE && count < 2; key++)
        if (value_of(draft, key) != NULL)
            keys[count++] = key;
    if (count == 0)
        return rp_rule_draft_fault(draft, draft->line, "rule \"%s\" has no pattern; expected " EXPECTED_PATTERN,
                                   draft->name);
    if (count == 2)
        return two_patterns(draft, keys);
    rule->source = (enum rp_rule_source)(keys[0] - RP_RULE_KEY_PATTERN);
    rule->pattern = draft->values[keys[0]];
    return true;
}

static bool check_glob(struct rp_rule_draft *draft, unsigned key, const char *expected)
{
    const char *fault = rp_glob_fault(draft->values[key]);
    if (fault != NULL)
        return rp_rule_draft_fault(draft, draft->lines[key], "\"%s\" has %s; expected %s", key_names[key], fault,
                                   expected);
    return true;
}

/* Quotes would be part of what is matched. */
static bool check_unquoted(struct rp_rule_draft *draft, unsigned key)
{
    const char *value = draft->values[key];
    size_t length = strlen(value);
    if (length > 1 && value[0] == '"' && value[length - 1] == '"')
        return rp_rule_draft_fault(draft, draft->lines[key],
                                   "\"%s\" is in quotes; expected it without (a quote itself is [\"])", key_names[key]);
    return true;
}

static bool check_pattern(struct rp_rule_draft *draft, const struct rp_rule *rule)
{
    unsigned key = RP_RULE_KEY_PATTERN + rule->source;
    bool mangled = rule->source == RP_RULE_NATIVE || rule->source == RP_RULE_KERNEL;
    if (!check_glob(draft, key, "a glob of *, ?, [...] and {captures}") || !check_unquoted(draft, key))
        return false;
    if (mangled && strstr(draft->values[key], "::") != NULL)
        return rp_rule_draft_fault(draft, draft->lines[key],
                                   "\"%s\" has \"::\"; expected a mangled name, as reprise sites --csv prints it",
                                   key_names[key]);
    return true;
}

static bool take_where(struct rp_rule_draft *draft, struct rp_rule *rule)
{
    static const char globs[] = "a glob of *, ?, [...] without captures";
    for (unsigned source = 0; source < RP_RULE_SOURCE_COUNT; source++) {
        unsigned key = RP_RULE_KEY_WHERE + source, own = RP_RULE_KEY_WHERE + rule->source;
        const char *where = value_of(draft, key);
        if (where == NULL)
            continue;
        if (key != own)
            return rp_rule_draft_fault(draft, draft->lines[key], "\"%s\" in a rule with \"%s\"; expected %s%s%s",
                                       key_names[key], key_names[rule->source],
                                       key_names[own][0] != '\0' ? "\"" : "no condition", key_names[own],
                                       key_names[own][0] != '\0' ? "\", or nothing" : "");
        if (strchr(where, '{') != NULL)
            return rp_rule_draft_fault(draft, draft->lines[key], "\"%s\" has a \"{\"; expected %s", key_names[key],
                                       globs);
        if (!check_glob(draft, key, globs) || !check_unquoted(draft, key))
            return false;
        rule->where = where;
    }
    return true;
}

/* Every {name} of the text between `text` and `end` is one of the pattern. */
static bool check_captures(struct rp_rule_draft *draft, const struct rp_rule *rule, const char *text)
{
    unsigned line = draft->lines[RP_RULE_KEY_MODULE];
    for (text = strchr(text, '{'); text != NULL; text = strchr(text + 1, '{')) {
        size_t length = rp_capture_name_length(text + 1);
        if (length == 0 || text[1 + length] != '}')
            return rp_rule_draft_fault(draft, line,
                                       "\"module\" has a \"{\" without a name and its \"}\"; expected \"text with "
                                       "{captures}\"");
        if (!rp_glob_has_capture(rule->pattern, text + 1, length))
            return rp_rule_draft_fault(draft, line,
                                       "\"module\" has {%.*s}, which the pattern has not; expected captures of the "
                                       "pattern",
                                       (int)length, text + 1);
    }
    return true;
}

/* The text between the quotes of `value`, which loses the second one. */
static bool take_text(struct rp_rule_draft *draft, struct rp_rule *rule, char *value)
{
    unsigned line = draft->lines[RP_RULE_KEY_MODULE];
    char *quote = strchr(value + 1, '"');
    if (quote == NULL)
        return rp_rule_draft_fault(draft, line, "\"module\" has a quote without its end; expected \"text\"");
    if (quote[1] != '\0')
        return rp_rule_draft_fault(draft, line, "\"module\" goes on behind its text; expected one \"text\"");
    *quote = '\0';
    rule->module_kind = RP_RULE_SAYS_TEXT;
    rule->module = value + 1;
    return check_captures(draft, rule, rule->module);
}

static bool take_module(struct rp_rule_draft *draft, struct rp_rule *rule)
{
    char *value = draft->values[RP_RULE_KEY_MODULE];
    unsigned line = draft->lines[RP_RULE_KEY_MODULE];
    if (line == 0)
        return true;
    if (value[0] == '"')
        return take_text(draft, rule, value);
    if (rule->source != RP_RULE_PYTHON)
        return rp_rule_draft_fault(draft, line, "\"module\" is no text in quotes; expected \"text with {captures}\"");
    if (!rp_path_good(value))
        return rp_rule_draft_fault(draft, line,
                                   "\"module\" is no path; expected as in self.name, a.b[0] - c.d | e[f.g], or "
                                   "\"text with {captures}\"");
    rule->module_kind = RP_RULE_SAYS_PATH;
    rule->module = value;
    return true;
}

static bool take_phase(struct rp_rule_draft *draft, unsigned key, enum rp_phase *phase)
{
    const char *value = value_of(draft, key);
    if (value == NULL)
        return true;
    *phase = rp_phase_from_name(value, strlen(value));
    if (*phase == RP_PHASE_UNKNOWN)
        return rp_rule_draft_fault(draft, draft->lines[key], "\"%s\" is \"%s\"; expected " EXPECTED_PHASE,
                                   key_names[key], value);
    return true;
}

static bool take_switch(struct rp_rule_draft *draft, unsigned key, bool *on)
{
    const char *value = value_of(draft, key);
    if (value == NULL)
        return true;
    *on = strcmp(value, "yes") == 0;
    if (!*on && strcmp(value, "no") != 0)
        return rp_rule_draft_fault(draft, draft->lines[key], "\"%s\" is \"%s\"; expected yes or no", key_names[key],
                                   value);
    return true;
}

static bool take_launches(struct rp_rule_draft *draft, struct rp_rule *rule)
{
    bool launches = true;
    bool good = take_switch(draft, RP_RULE_KEY_LAUNCHES, &launches);
    rule->calls_only = !launches;
    return good;
}

static bool has_capture(const struct rp_rule *rule, const char *name)
{
    return rp_glob_has_capture(rule->pattern, name, strlen(name));
}

/*
 * It stands for the forward of a frame of Python's or of a range (phase_in_backward() in shim/site.c); of native frames
 * the innermost that says a phase gives it.
 */
static bool check_in_backward(struct rp_rule_draft *draft, const struct rp_rule *rule)
{
    unsigned line = draft->lines[RP_RULE_KEY_IN_BACKWARD];
    bool captured = rule->phase == RP_PHASE_UNKNOWN && has_capture(rule, "phase");
    if (line == 0)
        return true;
    if (rule->source != RP_RULE_PYTHON && rule->source != RP_RULE_NVTX)
        return rp_rule_draft_fault(draft, line, "\"in_backward\" in a rule with \"%s\"; expected python or nvtx",
                                   key_names[rule->source]);
    if (rule->phase != RP_PHASE_FORWARD && !captured)
        return rp_rule_draft_fault(draft, line,
                                   "\"in_backward\" in a rule that says no forward; expected phase = forward too");
    return true;
}

/* What would have no effect was meant otherwise. */
static bool check_effect(struct rp_rule_draft *draft, const struct rp_rule *rule)
{
    bool module = rule->module_kind != RP_RULE_SAYS_NONE || has_capture(rule, "module");
    bool kernel = rule->source == RP_RULE_KERNEL;
    bool phase = rule->phase != RP_PHASE_UNKNOWN || has_capture(rule, "phase");
    if (!module && !phase && !rule->step)
        return rp_rule_draft_fault(draft, draft->line, "rule \"%s\" says nothing; expected module, phase or step",
                                   draft->name);
    if (kernel && (rule->nested || rule->step))
        return rp_rule_draft_fault(draft, draft->lines[rule->step ? RP_RULE_KEY_STEP : RP_RULE_KEY_NESTED],
                                   "\"%s\" in a rule with \"kernel\"; expected module or phase alone",
                                   rule->step ? "step" : "nested");
    if (rule->calls_only && (kernel || (!module && !phase)))
        return rp_rule_draft_fault(draft, draft->lines[RP_RULE_KEY_LAUNCHES],
                                   "\"launches\" in a rule %s; expected module or phase of a place",
                                   kernel ? "with \"kernel\"" : "that only begins steps");
    if (rule->nested && !module)
        return rp_rule_draft_fault(draft, draft->lines[RP_RULE_KEY_NESTED],
                                   "\"nested\" in a rule without a module; expected module too");
    return check_in_backward(draft, rule);
}

bool rp_rule_draft_finish(struct rp_rule_draft *draft, struct rp_rule *rule_out)
{
    struct rp_rule rule = {.name = draft->name, .line = draft->line};
    bool good = draft->fault_line == 0 && take_source(draft, &rule) && check_pattern(draft, &rule) &&
                take_where(draft, &rule) && take_module(draft, &rule) &&
                take_phase(draft, RP_RULE_KEY_PHASE, &rule.phase) &&
                take_phase(draft, RP_RULE_KEY_IN_BACKWARD, &rule.in_backward) && take_launches(draft, &rule) &&
                take_switch(draft, RP_RULE_KEY_NESTED, &rule.nested) &&
                take_switch(draft, RP_RULE_KEY_STEP, &rule.step) && check_effect(draft, &rule);
    if (good)
        *rule_out = rule;
    return good;
}
