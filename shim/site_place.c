/*
 * From one place to what the rules say of it, and from the places of a stack, from the innermost outwards, to what its
 * source says.
 *
 * Threads: any; takes no lock but those of the tables, each for itself.
 */
#include "shim/site_sources.h"

#include <string.h>

uint32_t rp_site_intern(struct rp_modules *modules, const char *name, size_t length)
{
    if (length == 0)
        return rp_module_intern(modules, RP_RULE_ROOT, strlen(RP_RULE_ROOT));
    return rp_module_intern(modules, name, length);
}

static void take_module_rule(const struct rp_site_tables *tables, const struct rp_rule_match *match,
                             struct rp_site_place *place)
{
    char text[RP_MODULE_NAME_MAX + 1];
    const struct rp_rule *rule = match->module_rule;
    if (rule == NULL)
        return;
    place->nested = rule->nested;
    if (rule->module_kind == RP_RULE_SAYS_PATH)
        place->by_path = rule;
    else
        place->module = rp_site_intern(tables->modules, text, rp_rule_module_text(match, text, sizeof(text)));
}

struct rp_site_place rp_site_ask(const struct rp_site_tables *tables, enum rp_rule_source source, const char *text,
                                 const char *where, bool listed)
{
    struct rp_rule_match match = {0};
    struct rp_site_place place = rp_site_no_place();
    bool matched = rp_rules_match(tables->rules, source, text, where, &match);
    if (listed && tables->seen != NULL)
        place.seen = rp_seen_note(tables->seen, source, text, where, match.module_rule, match.phase_rule);
    if (!matched)
        return place;
    take_module_rule(tables, &match, &place);
    place.phase = (uint8_t)match.phase;
    place.in_backward = (uint8_t)(match.phase_rule != NULL ? match.phase_rule->in_backward : RP_PHASE_UNKNOWN);
    place.step = match.step_rule != NULL;
    return place;
}

struct rp_kernel_rules rp_site_kernel(const char *name)
{
    struct rp_rule_match match;
    struct rp_site_place place = rp_site_no_place();
    const struct rp_site_tables *tables = rp_site_tables();
    if (tables == NULL || !rp_rules_match(tables->rules, RP_RULE_KERNEL, name, NULL, &match))
        return (struct rp_kernel_rules){0};
    take_module_rule(tables, &match, &place);
    return (struct rp_kernel_rules){.event = {.module = place.module, .phase = match.phase},
                                    .module_rule = match.module_rule,
                                    .phase_rule = match.phase_rule};
}

/* ---------------------------------------------------------------- a stack of places */

bool rp_site_wants_module(const struct rp_site_finding *finding, const struct rp_site_place *place)
{
    return finding->module == RP_MODULE_UNKNOWN || (finding->nested_count > 0 && place->nested);
}

static void take_module(struct rp_site_finding *finding, const struct rp_site_place *place, uint32_t module)
{
    if (module == RP_MODULE_UNKNOWN || !rp_site_wants_module(finding, place))
        return;
    if (finding->module == RP_MODULE_UNKNOWN)
        finding->module = module;
    /* several frames may name one module: it is not inside itself */
    bool again = finding->nested_count > 0 && finding->nested[finding->nested_count - 1] == module;
    if (place->nested && !again && finding->nested_count < RP_SITE_NESTED)
        finding->nested[finding->nested_count++] = module;
}

/* A function that calls itself, or a range inside one of its name, is one place all the same. */
static void count(const struct rp_site_query *query, uint32_t number)
{
    uint64_t bit = UINT64_C(1) << number % 64;
    if (query->tables->seen == NULL || query->counted == NULL || number >= RP_SEEN_MAX ||
        (query->counted[number / 64] & bit) != 0)
        return;
    query->counted[number / 64] |= bit;
    rp_seen_count(query->tables->seen, number);
}

void rp_site_take(const struct rp_site_query *query, struct rp_site_finding *finding, const struct rp_site_place *place,
                  uint32_t module)
{
    count(query, place->seen);
    take_module(finding, place, module);
    finding->step = finding->step || place->step;
    if (finding->phase != RP_PHASE_UNKNOWN)
        return;
    finding->phase = (enum rp_phase)place->phase;
    finding->in_backward = (enum rp_phase)place->in_backward;
}

bool rp_site_done(const struct rp_site_query *query, enum rp_rule_source source, const struct rp_site_finding *finding)
{
    const struct rp_rules *rules = query->tables->rules;
    return finding->module != RP_MODULE_UNKNOWN && finding->phase != RP_PHASE_UNKNOWN && !query->whole &&
           !(finding->nested_count > 0 && rp_rules_have_nested(rules, source)) && !rp_rules_have_steps(rules, source);
}

/* "outer.inner"; the root adds nothing to a name. */
void rp_site_join(const struct rp_site_query *query, struct rp_site_finding *finding)
{
    struct rp_modules *modules = query->tables->modules;
    char text[RP_MODULE_NAME_MAX + 1];
    size_t length = 0;
    if (finding->nested_count < 2)
        return;
    for (unsigned i = finding->nested_count; i-- > 0;) {
        const char *name = rp_module_name(modules, finding->nested[i]);
        size_t bytes = strlen(name), needed = bytes + (length > 0);
        if (strcmp(name, RP_RULE_ROOT) == 0 || length + needed > RP_MODULE_NAME_MAX)
            continue;
        if (length > 0)
            text[length++] = '.';
        memcpy(text + length, name, bytes);
        length += bytes;
    }
    finding->module = rp_site_intern(modules, text, length);
}
