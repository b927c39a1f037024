/*
 * From the records of a file to the tables of a struct rp_trace. Private to trace_read.c.
 *
 * Threads: one at a time.
 */
#ifndef RP_TRACE_PARSE_H
#define RP_TRACE_PARSE_H

#include "core/trace/trace.h"
#include "core/trace/trace_format.h"
#include "core/trace/trace_issue.h"

struct rp_file_number { /* the number that the file gives to a module, and ours */
    uint32_t in_file;
    uint32_t ours;
};

/* A LAUNCHES as it is read. */
struct rp_file_stretch {
    uint64_t after_begin, count, digest; /* of the whole stretch as far as this record knows it */
    uint64_t before, first;
    uint32_t thread, module, phase;
    bool says_event; /* else it is the op's, and there is no part before this one */
};

/* What is read before it can be put together. Tables grow by doubling. */
struct rp_trace_parse {
    struct rp_trace *trace;
    struct rp_file_stretch *stretches;
    struct rp_file_launch *launches;
    struct rp_file_site_count *site_counts;
    struct rp_file_fingerprint *fingerprints; /* whose op was not found at once */
    struct rp_file_number *modules;
    /* by thread: index + 1 of its last op, of its last op that is no allocation, and of its last stretch, so far; 0:
     * none. RP_THREAD_MAX + 1 long */
    uint32_t *last_op, *last_call, *last_stretch;
    /* of the first so many ops: index + 1 of the last that is no allocation; made when asked for */
    uint32_t *calls_before;
    size_t fingerprint_next; /* index, so far, of the op that the last fingerprint was of */
    size_t stretches_count, stretches_room;
    size_t launches_count, launches_room;
    size_t site_counts_count, site_counts_room;
    size_t fingerprints_count, fingerprints_room;
    size_t modules_count, modules_room;
    size_t ops_room, comms_room, states_room, sites_room, kernels_room;
    struct rp_trace_issue_parse issues;
    struct rp_file_clock clock; /* the last one; ticks 0: none */
    bool lean;                  /* rp_trace_read_lean() */
    bool ended;
};

/*
 * Takes the records of one block. RP_CORRUPT: `*offset_out` is where in the payload, `*cause_out` what is wrong
 * (static). RP_NO_MEMORY.
 */
enum rp_status rp_trace_parse_block(struct rp_trace_parse *parse, const unsigned char *payload, size_t bytes,
                                    size_t *offset_out, const char **cause_out);

/* The op of a fingerprint, if it is among the next ones from that of the last fingerprint on; else NULL. */
struct rp_trace_op *rp_trace_parse_next_fingerprinted(struct rp_trace_parse *parse,
                                                      const struct rp_file_fingerprint *from);

/* Keeps a stretch, in place of what was known of it before. RP_NO_MEMORY. */
enum rp_status rp_trace_parse_take_stretch(struct rp_trace_parse *parse, const struct rp_file_stretch *read);

/* Of two records of a stretch the one that knows more of it holds. */
void rp_trace_parse_give_launches(struct rp_trace_op *op, const struct rp_file_stretch *stretch);

/* Sorts communicators, kernels and sites, one of each number, and gives sites their counts. */
void rp_trace_parse_sort_tables(struct rp_trace_parse *parse);

/* Sorts, gives launches and fingerprints to their ops, and works out the clock: when the last block has been taken. */
enum rp_status rp_trace_parse_finish(struct rp_trace_parse *parse);

/* Frees what is not part of the trace. */
void rp_trace_parse_free(struct rp_trace_parse *parse);

#endif
