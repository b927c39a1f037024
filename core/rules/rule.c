/*
 * The table of rules and how it matches. A rule and its texts are one block of memory.
 *
 * Threads: see rule.h. `matched` is the one field that is written after the filling.
 */
#include "core/rules/rule.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct rp_rules {
    struct rp_rule **items;
    size_t count, capacity;
    bool have_steps[RP_RULE_SOURCE_COUNT], have_nested[RP_RULE_SOURCE_COUNT];
};

enum rp_status rp_rules_create(struct rp_rules **rules_out)
{
    struct rp_rules *rules = calloc(1, sizeof(*rules));
    if (rules == NULL)
        return RP_NO_MEMORY;
    *rules_out = rules;
    return RP_OK;
}

void rp_rules_destroy(struct rp_rules *rules)
{
    if (rules == NULL)
        return;
    for (size_t i = 0; i < rules->count; i++)
        free(rules->items[i]);
    free(rules->items);
    free(rules);
}

size_t rp_rules_count(const struct rp_rules *rules)
{
    return rules->count;
}

const struct rp_rule *rp_rules_at(const struct rp_rules *rules, size_t index)
{
    return rules->items[index];
}

/* ---------------------------------------------------------------- filling */

static size_t bytes_of(const char *text)
{
    return text != NULL ? strlen(text) + 1 : 0;
}

/* The copy of `text` at `*at`, which is moved behind it. */
static const char *put_text(char **at, const char *text)
{
    if (text == NULL)
        return NULL;
    char *copy = memcpy(*at, text, bytes_of(text));
    *at += bytes_of(text);
    return copy;
}

static struct rp_rule *copy_rule(const struct rp_rule *rule)
{
    size_t bytes = bytes_of(rule->name) + bytes_of(rule->file) + bytes_of(rule->pattern) + bytes_of(rule->where) +
                   bytes_of(rule->module);
    struct rp_rule *copy = malloc(sizeof(*copy) + bytes);
    if (copy == NULL)
        return NULL;
    char *at = (char *)(copy + 1);
    *copy = *rule;
    copy->name = put_text(&at, rule->name);
    copy->file = put_text(&at, rule->file);
    copy->pattern = put_text(&at, rule->pattern);
    copy->where = put_text(&at, rule->where);
    copy->module = put_text(&at, rule->module);
    return copy;
}

static bool make_room(struct rp_rules *rules)
{
    if (rules->count < rules->capacity)
        return true;
    size_t capacity = rules->capacity == 0 ? 64 : 2 * rules->capacity;
    struct rp_rule **items = realloc(rules->items, capacity * sizeof(struct rp_rule *));
    if (items == NULL)
        return false;
    rules->items = items;
    rules->capacity = capacity;
    return true;
}

enum rp_status rp_rules_add(struct rp_rules *rules, const struct rp_rule *rule)
{
    if (rules->count == RP_RULES_MAX)
        return RP_FULL;
    struct rp_rule *copy = make_room(rules) ? copy_rule(rule) : NULL;
    if (copy == NULL)
        return RP_NO_MEMORY;
    rules->items[rules->count++] = copy;
    rules->have_steps[rule->source] |= rule->step;
    rules->have_nested[rule->source] |= rule->nested;
    return RP_OK;
}

/* ---------------------------------------------------------------- matching */

static bool rule_matches(const struct rp_rule *rule, const char *text, const char *where, struct rp_captures *captures)
{
    struct rp_captures of_where;
    if (!rp_glob_match(rule->pattern, text, captures))
        return false;
    return rule->where == NULL || (where != NULL && rp_glob_match(rule->where, where, &of_where));
}

static bool says_module(const struct rp_rule *rule, const struct rp_captures *captures)
{
    return rule->module_kind != RP_RULE_SAYS_NONE || rp_capture_find(captures, "module", strlen("module")) != NULL;
}

static enum rp_phase phase_said(const struct rp_rule *rule, const struct rp_captures *captures)
{
    const struct rp_capture *capture = rp_capture_find(captures, "phase", strlen("phase"));
    if (rule->phase != RP_PHASE_UNKNOWN || capture == NULL)
        return rule->phase;
    return rp_phase_from_name(capture->text, capture->length);
}

/* What one more rule that matched says, over what those before it said. */
static void take(struct rp_rule_match *match, const struct rp_rule *rule, const struct rp_captures *captures)
{
    enum rp_phase phase = phase_said(rule, captures);
    if (says_module(rule, captures)) {
        match->module_rule = rule;
        match->captures = *captures;
    }
    if (phase != RP_PHASE_UNKNOWN) {
        match->phase_rule = rule;
        match->phase = phase;
    }
    if (rule->step)
        match->step_rule = rule;
}

bool rp_rules_match(const struct rp_rules *rules, enum rp_rule_source source, const char *text, const char *where,
                    struct rp_rule_match *match_out)
{
    struct rp_rule_match match = {0};
    bool any = false;
    for (size_t i = 0; i < rules->count; i++) {
        struct rp_rule *rule = rules->items[i];
        struct rp_captures captures;
        if (rule->source != source || !rule_matches(rule, text, where, &captures))
            continue;
        atomic_store_explicit(&rule->matched, true, memory_order_relaxed);
        take(&match, rule, &captures);
        any = true;
    }
    if (any)
        *match_out = match;
    return any;
}

/* ---------------------------------------------------------------- what a match says */

struct writer {
    char *text;
    size_t size, length;
};

static void put(struct writer *writer, const char *bytes, size_t count)
{
    size_t room = writer->size - 1 - writer->length;
    count = count < room ? count : room;
    memcpy(writer->text + writer->length, bytes, count);
    writer->length += count;
}

static void put_filled(struct writer *writer, const char *module, const struct rp_captures *captures)
{
    while (*module != '\0') {
        size_t plain = strcspn(module, "{");
        put(writer, module, plain);
        module += plain;
        if (*module == '\0')
            return;
        size_t length = rp_capture_name_length(module + 1);
        const struct rp_capture *capture = rp_capture_find(captures, module + 1, length);
        if (capture != NULL)
            put(writer, capture->text, capture->length);
        module += length + 2;
    }
}

size_t rp_rule_module_text(const struct rp_rule_match *match, char *text, size_t size)
{
    struct writer writer = {.text = text, .size = size};
    bool has_text = match->module_rule->module_kind == RP_RULE_SAYS_TEXT;
    put_filled(&writer, has_text ? match->module_rule->module : "{module}", &match->captures);
    text[writer.length] = '\0';
    return writer.length;
}

bool rp_rules_have_steps(const struct rp_rules *rules, enum rp_rule_source source)
{
    return rules->have_steps[source];
}

bool rp_rules_have_nested(const struct rp_rules *rules, enum rp_rule_source source)
{
    return rules->have_nested[source];
}

bool rp_rules_have_method(const struct rp_rules *rules, const char *name)
{
    for (size_t i = 0; i < rules->count; i++) {
        const struct rp_rule *rule = rules->items[i];
        const char *dot = strchr(rule->pattern, '.');
        if (rule->source == RP_RULE_PYTHON && dot != NULL && strcmp(dot + 1, name) == 0)
            return true;
    }
    return false;
}
