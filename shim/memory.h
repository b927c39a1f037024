/*
 * Memory that replay holds goes back when the application wants it: an allocation that failed is tried once more.
 * Threads: any.
 */
#ifndef RP_MEMORY_H
#define RP_MEMORY_H

#include <stdbool.h>

#include "shim/real.h"

/* Before the call: true if the runtime's last error is clear. */
bool rp_memory_error_clear(const struct rp_cudart *real);

/* The allocation failed for want of memory on the current device. True if any was given back: it is worth another try.
 */
bool rp_memory_give_back(const struct rp_cudart *real);

/* After the second try: a success leaves no error of the first one behind, if there was none before. A framework's next
 * check of the last error would throw it. */
void rp_memory_retried(const struct rp_cudart *real, cudaError_t result, bool clear);

#endif
