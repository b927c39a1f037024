/* Where the bytes came from that a gather delivered: what replay noted in its flags, as one word. */
#ifndef RP_TOOL_SOURCE_H
#define RP_TOOL_SOURCE_H

#include "core/op.h"

/* X(enumerator, name) */
#define RP_SOURCES(X)                                                                       \
    X(NONE, "-")               /* no gather, or it delivered nothing when it was called */  \
    X(NETWORK, "network")      /* the real call */                                          \
    X(STORED, "network, kept") /* the real call, and replay kept the result */              \
    X(MEMORY, "memory")        /* replay's own memory; nothing was sent */                  \
    X(PREFETCH, "prefetch")    /* the same, but a gather of ours had sent it before */      \
    X(REPAIRED, "repaired")    /* was to come from memory; a rank said no: the real call */ \
    X(WITHDRAWN, "withdrawn")  /* was to come from memory; a rank waited too long: the real call */

enum rp_source {
#define X(name, text) RP_SOURCE_##name,
    RP_SOURCES(X)
#undef X
        RP_SOURCE_COUNT
};

enum rp_source rp_source_of(const struct rp_op *op);
const char *rp_source_name(enum rp_source source);

#endif
