/* What all hooks share: how to pass a call on to the real function. */
#ifndef RP_HOOK_H
#define RP_HOOK_H

#include <stdbool.h>

#include "shim/real.h"

#define RP_CALLER __builtin_return_address(0)

/* What a hook returns where the library that its caller reaches is too old to have the function. */
#define RP_MISSING_cudart cudaErrorNotSupported
#define RP_MISSING_nccl ncclInvalidUsage

/* Calls the real function of the caller's `library` (cudart, nccl); `missing` where that version has none. */
#define RP_PASS_OR(library, missing, name, ...)                     \
    __extension__({                                                 \
        const struct rp_##library *real_ = rp_##library(RP_CALLER); \
        real_->name != NULL ? real_->name(__VA_ARGS__) : (missing); \
    })
#define RP_PASS(library, name, ...) RP_PASS_OR(library, RP_MISSING_##library, name, __VA_ARGS__)

/* The arguments in a macro's parenthesised list. */
#define RP_UNWRAP(...) __VA_ARGS__

/* True if NCCL has taken the call: done, or going on in the background (a nonblocking communicator). */
static inline bool rp_nccl_accepted(ncclResult_t result)
{
    return result == ncclSuccess || result == ncclInProgress;
}

#endif
