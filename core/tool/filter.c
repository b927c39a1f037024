#include "core/tool/filter.h"

#include <inttypes.h>
#include <string.h>

#include "core/rules/glob.h"
#include "core/tool/tool.h"

#define NAMES_SIZE 600 /* bytes of a list of names in a message */

/* ---------------------------------------------------------------- options */

void rp_filter_take_module(struct rp_filter *filter, struct argp_state *state, const char *text)
{
    const char *fault = rp_glob_fault(text);
    if (fault != NULL)
        argp_error(state, "--module wants a pattern, as layers.*, not '%s': %s", text, fault);
    filter->module = text;
}

void rp_filter_take_phase(struct rp_filter *filter, struct argp_state *state, const char *text)
{
    char names[NAMES_SIZE] = "";
    for (int phase = 0; phase < RP_PHASE_COUNT; phase++) {
        const char *name = rp_phase_name((enum rp_phase)phase);
        if (phase != RP_PHASE_UNKNOWN)
            rp_tool_append(names, sizeof(names), "%s, ", name);
        if (strcmp(name, text) == 0) {
            filter->phase = (enum rp_phase)phase;
            filter->has_phase = true;
            return;
        }
    }
    argp_error(state, "--phase wants one of %sor - for none, not '%s'", names, text);
}

void rp_filter_take_kind(struct rp_filter *filter, struct argp_state *state, const char *text)
{
    char names[NAMES_SIZE] = "";
    for (int kind = RP_OP_NONE + 1; kind < RP_OP_KIND_COUNT; kind++) {
        const char *name = rp_op_kind_name((enum rp_op_kind)kind);
        rp_tool_append(names, sizeof(names), "%s%s", names[0] != '\0' ? ", " : "", name);
        if (strcmp(name, text) == 0) {
            filter->kind = (enum rp_op_kind)kind;
            return;
        }
    }
    argp_error(state, "--kind wants one of %s, not '%s'", names, text);
}

void rp_filter_take_comm(struct rp_filter *filter, struct argp_state *state, const char *text)
{
    filter->comm = (uint32_t)rp_tool_number(state, "--comm", text, 0);
    filter->has_comm = true;
}

/* ---------------------------------------------------------------- is there such a one */

/* Adds a name to a list that is cut with the number of those that are left out. */
static void add_name(char *names, size_t *left_out, const char *name)
{
    size_t used = strlen(names);
    if (*left_out == 0 && used + strlen(name) + 3 < NAMES_SIZE)
        rp_tool_append(names, NAMES_SIZE, "%s%s", used > 0 ? ", " : "", name);
    else
        ++*left_out;
}

static void end_names(char *names, size_t left_out, char *end, size_t size)
{
    end[0] = '\0';
    if (left_out > 0)
        snprintf(end, size, "%s%zu more", names[0] != '\0' ? " and " : "", left_out);
}

static enum rp_status check_module(const struct rp_filter *filter, const char *command, const struct rp_trace *trace)
{
    char names[NAMES_SIZE] = "", name[4 * RP_MODULE_NAME_MAX + 1], end[40];
    struct rp_captures captures;
    size_t left_out = 0;
    for (uint32_t m = 0; m < rp_module_count(trace->modules); m++) {
        if (rp_glob_match(filter->module, rp_module_name(trace->modules, m), &captures))
            return RP_OK;
        if (m != RP_MODULE_UNKNOWN)
            add_name(names, &left_out, rp_tool_safe(rp_module_name(trace->modules, m), name, sizeof(name)));
    }
    end_names(names, left_out, end, sizeof(end));
    if (rp_module_count(trace->modules) <= 1)
        rp_tool_error(command, "rank %" PRId32 " has no module '%s': it has no names at all", trace->identity.rank,
                      filter->module);
    else
        rp_tool_error(command, "rank %" PRId32 " has no module '%s'; it has %s%s", trace->identity.rank, filter->module,
                      names, end);
    return RP_NOT_FOUND;
}

static enum rp_status check_comm(const struct rp_filter *filter, const char *command, const struct rp_trace *trace)
{
    char names[NAMES_SIZE] = "", end[40];
    size_t left_out = 0;
    if (rp_trace_find_comm(trace, filter->comm) != NULL)
        return RP_OK;
    for (size_t i = 0; i < trace->comm_count; i++) {
        char number[16];
        snprintf(number, sizeof(number), "%" PRIu32, trace->comms[i].number);
        add_name(names, &left_out, number);
    }
    end_names(names, left_out, end, sizeof(end));
    rp_tool_error(command, "rank %" PRId32 " has no communicator %" PRIu32 "; it has %s%s", trace->identity.rank,
                  filter->comm, trace->comm_count > 0 ? names : "none", end);
    return RP_NOT_FOUND;
}

enum rp_status rp_filter_check(const struct rp_filter *filter, const char *command, const struct rp_trace *trace)
{
    enum rp_status status = filter->module != NULL ? check_module(filter, command, trace) : RP_OK;
    return status == RP_OK && filter->has_comm ? check_comm(filter, command, trace) : status;
}

/* ---------------------------------------------------------------- ops */

static bool is_of_calls(const struct rp_filter *filter)
{
    return filter->has_comm || filter->kind != RP_OP_NONE;
}

bool rp_filter_is_set(const struct rp_filter *filter)
{
    return filter->module != NULL || filter->has_phase || is_of_calls(filter);
}

bool rp_filter_has_call(const struct rp_filter *filter, const struct rp_op *op)
{
    if (filter->has_comm && op->comm != filter->comm)
        return false;
    if (filter->kind != RP_OP_NONE)
        return op->kind == filter->kind;
    return filter->allocations || !rp_op_kind_is_allocation((enum rp_op_kind)op->kind);
}

bool rp_filter_has_event(const struct rp_filter *filter, const struct rp_trace *trace, struct rp_event event)
{
    struct rp_captures captures;
    if (filter->has_phase && event.phase != filter->phase)
        return false;
    return filter->module == NULL ||
           rp_glob_match(filter->module, rp_module_name(trace->modules, event.module), &captures);
}

bool rp_filter_has(const struct rp_filter *filter, const struct rp_trace *trace, const struct rp_op *op)
{
    const struct rp_event event = {.module = op->module, .phase = (enum rp_phase)op->phase};
    return rp_filter_has_call(filter, op) && rp_filter_has_event(filter, trace, event);
}

bool rp_filter_has_part(const struct rp_filter *filter, const struct rp_trace *trace, const struct rp_trace_part *part)
{
    bool call =
        part->op < trace->op_count ? rp_filter_has_call(filter, &trace->ops[part->op].op) : !is_of_calls(filter);
    return call && rp_filter_has_event(filter, trace, part->event);
}

char *rp_filter_text(const struct rp_filter *filter, char *text, size_t size)
{
    const char *comma = "; only ";
    text[0] = '\0';
    if (filter->module != NULL) {
        rp_tool_append(text, size, "%smodule %s", comma, filter->module);
        comma = ", ";
    }
    if (filter->has_phase) {
        rp_tool_append(text, size, "%sphase %s", comma, rp_phase_name(filter->phase));
        comma = ", ";
    }
    if (filter->kind != RP_OP_NONE) {
        rp_tool_append(text, size, "%skind %s", comma, rp_op_kind_name(filter->kind));
        comma = ", ";
    }
    if (filter->has_comm)
        rp_tool_append(text, size, "%scommunicator %" PRIu32, comma, filter->comm);
    return text;
}
