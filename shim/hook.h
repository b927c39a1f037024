/* What all hooks share: how to pass a call on to the real function. */
#ifndef RP_HOOK_H
#define RP_HOOK_H

#include "shim/real.h"

#define RP_CALLER __builtin_return_address(0)

/* Calls the real function of the caller's `library` (cudart, nccl); `missing` where that version has none. */
#define RP_PASS(library, missing, name, ...)                        \
    __extension__({                                                 \
        const struct rp_##library *real_ = rp_##library(RP_CALLER); \
        real_->name != NULL ? real_->name(__VA_ARGS__) : (missing); \
    })

#endif
