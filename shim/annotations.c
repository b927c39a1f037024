/* Loading annotation files, and saying which rules of them were of no use. */
#include "shim/annotations.h"

#include <stdatomic.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "core/log.h"
#include "core/rules/rule_file.h"

#define REPORT_BYTES 320

static void complain(void *context, const char *text)
{
    (void)context;
    rp_log_job(RP_LOG_WARN, "annotations", "%s", text);
}

static const struct rp_rule_complaints complaints = {.say = complain};

/* What cannot be read is complained of where it is found; out of memory some rules are missing, and the run goes on. */
static void load_files(struct rp_rules *rules, const char *files)
{
    char path[PATH_MAX];
    while (files != NULL && *files != '\0') {
        files += strspn(files, " ");
        size_t length = strcspn(files, ",");
        snprintf(path, sizeof(path), "%.*s", (int)length, files);
        if (length > 0)
            rp_rules_read_file(rules, path, &complaints);
        files += length + (files[length] == ',');
    }
}

struct rp_rules *rp_annotations_load(const char *files)
{
    struct rp_rules *rules;
    if (rp_rules_create(&rules) != RP_OK)
        return NULL;
    rp_rules_read_shipped(rules, &complaints);
    load_files(rules, files);
    return rules;
}

static bool is_idle(const struct rp_rule *rule)
{
    /* relaxed: the process is at its end */
    return !rule->shipped && !atomic_load_explicit(&rule->matched, memory_order_relaxed);
}

/*
 * A frame begins a step where it was not there before: one around every collective, as a training loop's often is,
 * begins the first alone, and steps are not looked for then.
 */
static void report_one_step(const struct rp_rules *rules)
{
    for (size_t i = 0; i < rp_rules_count(rules); i++) {
        const struct rp_rule *rule = rp_rules_at(rules, i);
        bool frame = rule->source == RP_RULE_PYTHON || rule->source == RP_RULE_NATIVE;
        if (rule->step && frame && !rule->shipped && !is_idle(rule)) {
            rp_log_end(RP_LOG_INFO, "annotations",
                       "%s:%u [%s]: \"step\" began one step in all; a frame that is around every collective begins no "
                       "other",
                       rule->file, rule->line, rule->name);
            return;
        }
    }
}

void rp_annotations_report(const struct rp_rules *rules, uint64_t steps)
{
    char text[REPORT_BYTES] = "";
    unsigned idle = 0, named = 0;
    for (size_t i = 0; i < rp_rules_count(rules); i++) {
        const struct rp_rule *rule = rp_rules_at(rules, i);
        size_t used = strlen(text);
        if (!is_idle(rule))
            continue;
        idle++;
        int written = snprintf(text + used, sizeof(text) - used, "%s%s:%u [%s]", used > 0 ? ", " : "", rule->file,
                               rule->line, rule->name);
        if (written > 0 && (size_t)written < sizeof(text) - used)
            named++;
        else
            text[used] = '\0';
    }
    if (idle > 0)
        rp_log_end(RP_LOG_INFO, "annotations", "%u rule%s never matched on this rank: %s%s", idle, idle > 1 ? "s" : "",
                   text, named < idle ? " and others" : "");
    if (steps == 1)
        report_one_step(rules);
}
