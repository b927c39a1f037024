/* A trace that is written straight to its file, without the recorder before it. */
#ifndef RP_TRACE_FILE_H
#define RP_TRACE_FILE_H

#include <errno.h>

#include "core/trace/trace_writer.h"

/* The caller owns the writer. A failure as rp_trace_spool_attach() has it, with errno. */
static inline enum rp_status trace_file_create(const char *directory, const struct rp_trace_identity *identity,
                                               struct rp_trace_writer **writer_out)
{
    struct rp_trace_writer *writer;
    enum rp_status status = rp_trace_spool_create(0, &writer);
    if (status != RP_OK)
        return status;
    status = rp_trace_spool_attach(writer, directory, identity);
    if (status == RP_OK) {
        *writer_out = writer;
        return RP_OK;
    }
    int cause = errno;
    rp_trace_finish(writer);
    errno = cause;
    return status;
}

#endif
