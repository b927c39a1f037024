/*
 * One rank while it is exported: what the walks over its threads, streams and counters share. Private to export*.c.
 *
 * Threads: one at a time.
 */
#ifndef RP_TOOL_EXPORT_WALK_H
#define RP_TOOL_EXPORT_WALK_H

#include "core/tool/export.h"

struct rp_export_walk {
    struct rp_export *export;
    uint32_t process;
    const struct rp_trace *trace;
    const struct rp_timeline *timeline;
    struct rp_export_steps steps;
    size_t from, to; /* ops [from, to): those of the steps */
};

/* Ns since time 0, at least 0. Never falls as ticks grow. */
int64_t rp_export_time(const struct rp_export_walk *walk, uint64_t ticks);

/* True if launches or a state of that time belong to what is exported. */
bool rp_export_is_shown(const struct rp_export_walk *walk, uint64_t ticks);

void rp_export_put_number(struct rp_export_arguments *arguments, enum rp_export_argument_name name, uint64_t number);
void rp_export_put_text(struct rp_export_arguments *arguments, enum rp_export_argument_name name, const char *text);

/* Some thousand ops were walked over. */
void rp_export_progress(struct rp_export_walk *walk, size_t ops);

/* Each makes its tracks and what lies on them. RP_NO_MEMORY. */
enum rp_status rp_export_threads(struct rp_export_walk *walk);
enum rp_status rp_export_streams(struct rp_export_walk *walk);
enum rp_status rp_export_ahead(struct rp_export_walk *walk);

/* The flow from that gather ahead to the call that it was served to; 0: one of them is not exported, or `issue` is
 * NULL. */
uint64_t rp_export_flow(const struct rp_export_walk *walk, const struct rp_trace_issue *issue);

/* How long before the call that it was served to it was issued. */
uint64_t rp_export_ahead_ns(const struct rp_export_walk *walk, const struct rp_trace_issue *issue);

#endif
