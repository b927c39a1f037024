#include "core/record/kernel_names.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* The default ends the program when memory is out; here the element is merely not added. */
#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

struct rp_kernel_function {
    uint64_t function;
    struct rp_kernel kernel;
    UT_hash_handle hh;
};

struct rp_kernel_name {
    uint64_t hash;
    UT_hash_handle hh;
};

/* Remembers that the name was written; true if it had been already. */
static bool remember_name(struct rp_kernel_names *kernels, uint64_t hash)
{
    struct rp_kernel_name *name;
    HASH_FIND(hh, kernels->names, &hash, sizeof hash, name);
    if (name != NULL)
        return true;
    name = calloc(1, sizeof *name);
    if (name == NULL)
        return false;
    name->hash = hash;
    HASH_ADD(hh, kernels->names, hash, sizeof hash, name);
    if (name->hh.tbl == NULL)
        free(name);
    return false;
}

static void remember_function(struct rp_kernel_names *kernels, uint64_t function, const struct rp_kernel *kernel)
{
    struct rp_kernel_function *known = calloc(1, sizeof *known);
    if (known == NULL)
        return;
    known->function = function;
    known->kernel = *kernel;
    HASH_ADD(hh, kernels->functions, function, sizeof function, known);
    if (known->hh.tbl == NULL)
        free(known);
}

static struct rp_kernel describe(const struct rp_kernel_names *kernels, const char *name)
{
    struct rp_kernel_rules rules = {0};
    struct rp_kernel kernel = {.hash = XXH64(name, strlen(name), 0), .seen = RP_SEEN_NONE};
    if (kernels->rules_of != NULL)
        rules = kernels->rules_of(name);
    kernel.event = rules.event;
    if (kernels->seen != NULL)
        kernel.seen =
            rp_seen_note(kernels->seen, RP_RULE_KERNEL, name, NULL, rules.module_rule, rules.phase_rule, NULL);
    return kernel;
}

struct rp_kernel rp_kernel_names_find(struct rp_kernel_names *kernels, uint64_t function,
                                      struct rp_trace_writer *writer)
{
    struct rp_kernel_function *known;
    HASH_FIND(hh, kernels->functions, &function, sizeof function, known);
    if (known != NULL)
        return known->kernel;
    const char *name = kernels->name_of == NULL ? NULL : kernels->name_of(function);
    if (name == NULL)
        name = "?";
    struct rp_kernel kernel = describe(kernels, name);
    if (!remember_name(kernels, kernel.hash))
        rp_trace_put_kernel(writer, kernel.hash, name);
    remember_function(kernels, function, &kernel);
    return kernel;
}

void rp_kernel_names_free(struct rp_kernel_names *kernels)
{
    struct rp_kernel_function *function, *next_function;
    struct rp_kernel_name *name, *next_name;
    HASH_ITER(hh, kernels->functions, function, next_function)
    {
        HASH_DEL(kernels->functions, function);
        free(function);
    }
    HASH_ITER(hh, kernels->names, name, next_name)
    {
        HASH_DEL(kernels->names, name);
        free(name);
    }
}
