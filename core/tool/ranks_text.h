/* What the text about the ranks of a run (ranks_report.h) is made of. Each returns `text`, cut at `size`. */
#ifndef RP_TOOL_RANKS_TEXT_H
#define RP_TOOL_RANKS_TEXT_H

#include <stddef.h>

#include "core/compare/ranks.h"

/* "1,234" */
char *rp_ranks_text_number(uint64_t number, char *text, size_t size);

/* "rank 1", "ranks 0, 2-7": the ranks of the run that stand in the list, which grows. "no rank": it is empty. */
char *rp_ranks_text_list(const int32_t *ranks, size_t count, char *text, size_t size);

/* Likewise of a communicator's members that are marked. */
char *rp_ranks_text_members(const struct rp_ranks_comm *comm, const bool *marked, char *text, size_t size);

/* Likewise of the ranks below `expected` that have no trace at all. NULL: there are none. */
char *rp_ranks_text_missing(const struct rp_ranks *ranks, char *text, size_t size);

/* "all-gather 4.0 KiB bfloat16 (layers.3 forward)" */
char *rp_ranks_text_call(const struct rp_trace *trace, const struct rp_op *op, char *text, size_t size);

/* "collective type mismatch", "size mismatch, dtype mismatch" */
char *rp_ranks_text_classes(unsigned classes, char *text, size_t size);

/* "communicator 0, position 63", "communicator 0, message 3 from rank 0 to rank 1" */
char *rp_ranks_text_place(const struct rp_ranks *ranks, const struct rp_ranks_finding *finding, char *text,
                          size_t size);

/* "rank 2 has 1 call less from position 12 on; then they fit": of a finding with a rank that is shifted. */
char *rp_ranks_text_shift(const struct rp_ranks *ranks, const struct rp_ranks_finding *finding, char *text,
                          size_t size);

/* "12.3 us" */
char *rp_ranks_text_ns(double ns, char *text, size_t size);

/* The finding in one line: "communicator 0, position 63: rank 1 all-gather ..., others reduce-scatter ..." */
char *rp_ranks_text_finding(const struct rp_ranks *ranks, const struct rp_ranks_finding *finding, char *text,
                            size_t size);

#endif
