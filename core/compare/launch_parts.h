/*
 * The launches behind an op, part by part: launches in a row that belong to one event (core/trace/README.md).
 *
 * Threads: pure.
 */
#ifndef RP_LAUNCH_PARTS_H
#define RP_LAUNCH_PARTS_H

#include "core/trace/trace_packed.h"

/*
 * Takes the parts out of a trace that say nothing which their ops do not: of an op whose launches are all of one part
 * and belong to its own event. Here an op without parts is taken for such a one.
 */
void rp_launch_parts_shrink(struct rp_trace *trace);

/* The parts of a trace by the op that they follow. All zero: of no trace. */
struct rp_launch_parts {
    const struct rp_trace *trace; /* borrowed; its ops are packed */
    const struct rp_packed *packed;
    /* NULL: there are no parts */
    uint32_t *first; /* per op the index of its first part, or UINT32_MAX */
    uint32_t *next;  /* per part the index of the next one of its op, or UINT32_MAX */
};

/* The caller frees it. RP_NO_MEMORY. */
enum rp_status rp_launch_parts_create(const struct rp_packed *packed, struct rp_launch_parts *parts_out);
void rp_launch_parts_free(struct rp_launch_parts *parts);

/* Where the launches behind two ops first differ. */
struct rp_launch_difference {
    const struct rp_trace *trace; /* whose number the event's module is */
    struct rp_event event;        /* of the left part, or where that has no name or is not there, of the right one */
    uint64_t left, right;         /* launches of the part; 0: it is not there, or belongs to another event */
};

/*
 * The first part that differs of those behind op `i` of the left and op `j` of the right trace, by its event's name, as
 * far as both know it, by its number of launches or by their digest. The launches of the two differ, as a whole.
 */
struct rp_launch_difference rp_launch_parts_compare(const struct rp_launch_parts *left, uint32_t i,
                                                    const struct rp_launch_parts *right, uint32_t j);

#endif
