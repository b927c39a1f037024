#include "core/record/recorder_sites.h"

#include <stdio.h>
#include <string.h>

#include "core/log.h"
#include "core/trace/trace_format.h"

/* A trace has its own list of sources; the numbers are the same. */
_Static_assert((int)RP_SITE_NATIVE == RP_RULE_NATIVE && (int)RP_SITE_PYTHON == RP_RULE_PYTHON &&
                   (int)RP_SITE_NVTX == RP_RULE_NVTX && (int)RP_SITE_KERNEL == RP_RULE_KERNEL,
               "what a table notes is what a trace says");
_Static_assert(RP_SEEN_MAX <= RP_SITE_MAX, "every number fits");

#define RULE_TEXT_MAX 512

/* "file:section" of a rule; "" without one. */
static const char *rule_text(const struct rp_rule *rule, char text[RULE_TEXT_MAX])
{
    text[0] = '\0';
    if (rule != NULL)
        snprintf(text, RULE_TEXT_MAX, "%s:%s", rule->file, rule->name);
    return text;
}

static enum rp_status write_site(const struct rp_sites *sites, uint32_t number, struct rp_trace_writer *writer)
{
    struct rp_seen_site seen = rp_seen_site(sites->seen, number);
    char module_rule[RULE_TEXT_MAX], phase_rule[RULE_TEXT_MAX], step_rule[RULE_TEXT_MAX];
    const struct rp_trace_site site = {
        .number = number,
        .source = (enum rp_site_source)seen.source,
        .text = seen.text,
        .where = seen.where,
        .module_rule = rule_text(seen.module_rule, module_rule),
        .phase_rule = rule_text(seen.phase_rule, phase_rule),
        .step_rule = rule_text(seen.step_rule, step_rule),
    };
    return rp_trace_put_site(writer, &site);
}

enum rp_status rp_sites_write(struct rp_sites *sites, struct rp_trace_writer *writer)
{
    uint32_t total = sites->seen == NULL ? 0 : rp_seen_total(sites->seen);
    for (; sites->written < total; sites->written++) {
        enum rp_status status = write_site(sites, sites->written, writer);
        if (status != RP_OK)
            return status;
        if (sites->written + 1 == RP_SEEN_MAX)
            rp_log(RP_LOG_WARN, "sites", "%u places were seen at collectives; more are not listed", RP_SEEN_MAX);
    }
    return RP_OK;
}

enum rp_status rp_sites_write_counts(struct rp_sites *sites, struct rp_trace_writer *writer)
{
    for (uint32_t i = 0; i < sites->written; i++) {
        uint64_t count = rp_seen_collectives(sites->seen, i);
        if (count == sites->counts[i])
            continue;
        enum rp_status status = rp_trace_put_site_count(writer, i, count);
        if (status != RP_OK)
            return status;
        sites->counts[i] = count;
    }
    return RP_OK;
}
