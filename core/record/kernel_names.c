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
    uint64_t hash;
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

static void remember_function(struct rp_kernel_names *kernels, uint64_t function, uint64_t hash)
{
    struct rp_kernel_function *known = calloc(1, sizeof *known);
    if (known == NULL)
        return;
    known->function = function;
    known->hash = hash;
    HASH_ADD(hh, kernels->functions, function, sizeof function, known);
    if (known->hh.tbl == NULL)
        free(known);
}

uint64_t rp_kernel_names_hash(struct rp_kernel_names *kernels, uint64_t function, struct rp_trace_writer *writer)
{
    struct rp_kernel_function *known;
    HASH_FIND(hh, kernels->functions, &function, sizeof function, known);
    if (known != NULL)
        return known->hash;
    const char *name = kernels->name_of == NULL ? NULL : kernels->name_of(function);
    if (name == NULL)
        name = "?";
    uint64_t hash = XXH64(name, strlen(name), 0);
    if (!remember_name(kernels, hash))
        rp_trace_put_kernel(writer, hash, name);
    remember_function(kernels, function, hash);
    return hash;
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
