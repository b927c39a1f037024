/*
 * The inside of the trace writer, for trace_write.c, trace_put.c and the recorder. A writer may exist before it is
 * known where its file goes: records then collect in memory, up to a bound.
 *
 * Threads: one at a time.
 */
#ifndef RP_TRACE_WRITER_H
#define RP_TRACE_WRITER_H

#include "core/trace/trace.h"
#include "core/trace/trace_format.h"

/*
 * A writer that keeps what is put in memory. When `limit` bytes are held, ops, launches, fingerprints, losses,
 * counts and gathers ahead are refused with RP_FULL; names, sites, communicators and states, which come once, are not.
 * The caller owns the writer. RP_NO_MEMORY.
 */
enum rp_status rp_trace_spool_create(size_t limit, struct rp_trace_writer **writer_out);

/*
 * Creates `directory`/rank-<rank>.rpt, which must not exist (RP_EXISTS), and writes what was held. The directory must
 * exist. Once per writer; a failure breaks it: RP_IO with errno kept.
 */
enum rp_status rp_trace_spool_attach(struct rp_trace_writer *writer, const char *directory,
                                     const struct rp_trace_identity *identity);

/*
 * Room for a record of `bytes` (rounded up to 8) in the block, zeroed, with type and length filled in; valid until
 * the next call on the writer. NULL: `*status_out` says why (RP_IO, RP_FULL, RP_NO_MEMORY).
 */
void *rp_trace_reserve(struct rp_trace_writer *writer, enum rp_file_record_type type, size_t bytes,
                       enum rp_status *status_out);

#endif
