/*
 * Kernel names: from the function that a launch names to the hash of its name and to what the rules for kernels say of
 * it, asked for once a function; each name is written to the trace once.
 *
 * Threads: the background thread.
 */
#ifndef RP_KERNEL_NAMES_H
#define RP_KERNEL_NAMES_H

#include <stdint.h>

#include "core/record/seen.h"
#include "core/trace/trace.h"

struct rp_kernel {
    uint64_t hash;         /* XXH64 of the name, or of "?" if it has none */
    struct rp_event event; /* as in the rules */
    uint32_t seen;         /* its number in the table of what was seen, or RP_SEEN_NONE */
};

struct rp_kernel_function;
struct rp_kernel_name;

struct rp_kernel_names { /* zero-initialised: empty */
    struct rp_kernel_function *functions;
    struct rp_kernel_name *names;
    const char *(*name_of)(uint64_t function);            /* NULL: no names */
    struct rp_kernel_rules (*rules_of)(const char *name); /* NULL: no rules */
    struct rp_seen *seen;                                 /* or NULL */
};

/* The kernel that `function` is; a new one is noted, a new name is put into the trace. */
struct rp_kernel rp_kernel_names_find(struct rp_kernel_names *kernels, uint64_t function,
                                      struct rp_trace_writer *writer);

void rp_kernel_names_free(struct rp_kernel_names *kernels);

#endif
