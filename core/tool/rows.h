/* Ops as lines: aligned text for people, CSV with everything for programs. */
#ifndef RP_TOOL_ROWS_H
#define RP_TOOL_ROWS_H

#include <stdbool.h>
#include <stdio.h>

#include "core/compare/timeline.h"
#include "core/trace/trace.h"

/* What a line ends with: the launches behind the op and its fingerprint, or where a gather's bytes came from. */
enum rp_rows_view { RP_ROWS_CALLS, RP_ROWS_PLAN };

/* The view, and the widths of its columns of text, grown by rp_rows_measure(). Zero-initialised but for the view. */
struct rp_rows {
    enum rp_rows_view view;
    int position, module, phase, op, comm, launches;
};

/* Makes room for the op. */
void rp_rows_measure(struct rp_rows *rows, const struct rp_trace *trace, const struct rp_trace_op *op);

/* Prints the names of the columns, or an op. `indent` goes before them. */
void rp_rows_head(const struct rp_rows *rows, FILE *out, const char *indent);
void rp_rows_print(const struct rp_rows *rows, FILE *out, const char *indent, const struct rp_trace *trace,
                   const struct rp_trace_op *op);

/*
 * One line of CSV (RFC 4180, but lines end in a newline alone). Times are ns from the trace's start; names are made
 * safe (tool.h). `launches_named`: of the op's launches, those that belong to a named event (launch_view.h).
 */
void rp_rows_csv_head(FILE *out);
void rp_rows_csv(FILE *out, const struct rp_trace *trace, size_t index, size_t step, uint64_t launches_named);

/* "layers.0 forward", or the one of both that is known, or "an unnamed op". */
char *rp_rows_event(const struct rp_trace *trace, const struct rp_op *op, char *text, size_t size);

#endif
