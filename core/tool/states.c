#include "core/tool/states.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/tool/tool.h"
#include "core/trace/trace_format.h"

static const char *const names[] = {
#define X(name, text) text,
    RP_TRACE_STATES(X)
#undef X
};

void rp_states_line(FILE *out, const struct rp_trace *trace)
{
    size_t count[RP_STATE_COUNT] = {0};
    const char *before = "states: ";
    for (size_t i = 0; i < trace->state_count; i++)
        count[trace->states[i].state]++;
    for (size_t i = 0; i < RP_STATE_COUNT; i++) {
        if (count[i] == 0)
            continue;
        fprintf(out, "%s%s", before, names[i]);
        if (count[i] > 1)
            fprintf(out, " (%zu)", count[i]);
        before = ", ";
    }
    if (trace->state_count > 0)
        fputc('\n', out);
}

/* ---------------------------------------------------------------- replay */

static bool is_of_replay(enum rp_trace_state state)
{
    return state >= RP_STATE_REPLAY_LEARNING && state <= RP_STATE_REPLAY_FIGURES;
}

/* By time; of equal ones, and they lie in one table, as they came. */
static int compare_changes(const void *left, const void *right)
{
    const struct rp_trace_change *a = *(const struct rp_trace_change *const *)left;
    const struct rp_trace_change *b = *(const struct rp_trace_change *const *)right;
    if (a->ticks != b->ticks)
        return a->ticks < b->ticks ? -1 : 1;
    return (a > b) - (a < b);
}

/* "passive: it is nonblocking". Most texts begin with the word themselves; those of learning say more than it does. */
static char *change_text(const struct rp_trace_change *change, char *text, size_t size)
{
    const char *word = names[change->state] + strlen("replay ");
    if (change->text[0] == '\0')
        return rp_tool_safe(names[change->state], text, size);
    if (change->state == RP_STATE_REPLAY_LEARNING || strncmp(change->text, word, strlen(word)) == 0)
        return rp_tool_safe(change->text, text, size);
    int used = snprintf(text, size, "%s: ", word);
    rp_tool_safe(change->text, text + used, size - (size_t)used);
    return text;
}

static void print_change(FILE *out, const struct rp_trace *trace, const struct rp_trace_change *change)
{
    char comm[16] = "-", text[4 * RP_STATE_TEXT_MAX + 20];
    if (change->comm != RP_NO_COMM)
        snprintf(comm, sizeof(comm), "%" PRIu32, change->comm);
    fprintf(out, "%9.3f  %12s  %s\n", rp_trace_ns(trace, change->ticks) * 1e-9, comm,
            change_text(change, text, sizeof(text)));
}

enum rp_status rp_states_replay(FILE *out, const struct rp_trace *trace)
{
    const struct rp_trace_change **changes = malloc((trace->state_count + 1) * sizeof(*changes));
    size_t count = 0;
    if (changes == NULL)
        return RP_NO_MEMORY;
    for (size_t i = 0; i < trace->state_count; i++) {
        if (is_of_replay(trace->states[i].state))
            changes[count++] = &trace->states[i];
    }
    qsort(changes, count, sizeof(*changes), compare_changes);
    if (count > 0)
        fprintf(out, "%9s  %12s  %s\n", "seconds", "communicator", "what became of replay");
    else
        fputs("no replay in this trace\n", out);
    for (size_t i = 0; i < count; i++)
        print_change(out, trace, changes[i]);
    free(changes);
    return RP_OK;
}
