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
    place->module_of_calls = rule->calls_only;
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
        place.seen =
            rp_seen_note(tables->seen, source, text, where, match.module_rule, match.phase_rule, match.step_rule);
    if (!matched)
        return place;
    take_module_rule(tables, &match, &place);
    place.phase = (uint8_t)match.phase;
    place.in_backward = (uint8_t)(match.phase_rule != NULL ? match.phase_rule->in_backward : RP_PHASE_UNKNOWN);
    place.phase_of_calls = match.phase_rule != NULL && match.phase_rule->calls_only;
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

static bool wants_module(const struct rp_site_said *said, const struct rp_site_place *place)
{
    return said->module == RP_MODULE_UNKNOWN || (said->nested_count > 0 && place->nested);
}

bool rp_site_wants_module(const struct rp_site_finding *finding, const struct rp_site_place *place)
{
    return wants_module(&finding->call, place) || (!place->module_of_calls && wants_module(&finding->launches, place));
}

static void take_module(struct rp_site_said *said, const struct rp_site_place *place, uint32_t module)
{
    if (module == RP_MODULE_UNKNOWN || !wants_module(said, place))
        return;
    if (said->module == RP_MODULE_UNKNOWN)
        said->module = module;
    /* several frames may name one module: it is not inside itself */
    bool again = said->nested_count > 0 && said->nested[said->nested_count - 1] == module;
    if (place->nested && !again && said->nested_count < RP_SITE_NESTED)
        said->nested[said->nested_count++] = module;
}

static void take_phase(struct rp_site_said *said, const struct rp_site_place *place)
{
    if (said->phase != RP_PHASE_UNKNOWN)
        return;
    said->phase = (enum rp_phase)place->phase;
    said->in_backward = (enum rp_phase)place->in_backward;
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
    finding->step = finding->step || place->step;
    take_module(&finding->call, place, module);
    take_phase(&finding->call, place);
    if (!place->module_of_calls)
        take_module(&finding->launches, place, module);
    if (!place->phase_of_calls)
        take_phase(&finding->launches, place);
}

static bool is_known(const struct rp_site_said *said)
{
    return said->module != RP_MODULE_UNKNOWN && said->phase != RP_PHASE_UNKNOWN;
}

bool rp_site_done(const struct rp_site_query *query, enum rp_rule_source source, const struct rp_site_finding *finding)
{
    const struct rp_rules *rules = query->tables->rules;
    bool nested = finding->call.nested_count > 0 || finding->launches.nested_count > 0;
    return is_known(&finding->call) && is_known(&finding->launches) && !query->whole &&
           !(nested && rp_rules_have_nested(rules, source)) && !rp_rules_have_steps(rules, source);
}

/* "outer.inner"; the root adds nothing to a name. */
static void join(struct rp_modules *modules, struct rp_site_said *said)
{
    char text[RP_MODULE_NAME_MAX + 1];
    size_t length = 0;
    if (said->nested_count < 2)
        return;
    for (unsigned i = said->nested_count; i-- > 0;) {
        const char *name = rp_module_name(modules, said->nested[i]);
        size_t bytes = strlen(name), needed = bytes + (length > 0);
        if (strcmp(name, RP_RULE_ROOT) == 0 || length + needed > RP_MODULE_NAME_MAX)
            continue;
        if (length > 0)
            text[length++] = '.';
        memcpy(text + length, name, bytes);
        length += bytes;
    }
    said->module = rp_site_intern(modules, text, length);
}

void rp_site_join(const struct rp_site_query *query, struct rp_site_finding *finding)
{
    join(query->tables->modules, &finding->call);
    join(query->tables->modules, &finding->launches);
}
