#include "core/tool/source.h"

enum rp_source rp_source_of(const struct rp_op *op)
{
    if (op->kind != RP_OP_ALL_GATHER || op->flags & (RP_OP_FAILED | RP_OP_SIMULATED | RP_OP_CAPTURED))
        return RP_SOURCE_NONE;
    if (op->flags & RP_OP_WITHDRAWN)
        return RP_SOURCE_WITHDRAWN;
    if (op->flags & RP_OP_HIT)
        return op->flags & RP_OP_AHEAD ? RP_SOURCE_PREFETCH : RP_SOURCE_MEMORY;
    if (op->flags & RP_OP_VOTED)
        return RP_SOURCE_REPAIRED;
    return op->flags & RP_OP_STORED ? RP_SOURCE_STORED : RP_SOURCE_NETWORK;
}

const char *rp_source_name(enum rp_source source)
{
    static const char *const names[] = {
#define X(name, text) text,
        RP_SOURCES(X)
#undef X
    };
    return names[source];
}
