/*
 * Kernel names: from the function that a launch names to the hash of its name, asked for once a function; each name
 * is written to the trace once.
 *
 * Threads: the background thread.
 */
#ifndef RP_KERNEL_NAMES_H
#define RP_KERNEL_NAMES_H

#include <stdint.h>

#include "core/trace/trace.h"

struct rp_kernel_function;
struct rp_kernel_name;

struct rp_kernel_names { /* zero-initialised: empty */
    struct rp_kernel_function *functions;
    struct rp_kernel_name *names;
    const char *(*name_of)(uint64_t function); /* NULL: no names */
};

/* XXH64 of the function's name, or of "?" if it has none; a new name is put into the trace. */
uint64_t rp_kernel_names_hash(struct rp_kernel_names *kernels, uint64_t function, struct rp_trace_writer *writer);

void rp_kernel_names_free(struct rp_kernel_names *kernels);

#endif
