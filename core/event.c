/*
 * Phase names and the table of module names.
 *
 * Reading a name takes no lock: entries never move (they live in chunks of doubling size that are only ever added)
 * and are published by the count. The hash and all adding are under the mutex. Linked into the preload object:
 * nothing runs at load time.
 */
#include "core/event.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* uthash would exit() the application when memory is out; instead the entry stays out of the table. */
#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#define FIRST_CHUNK_LOG2 6
#define CHUNKS (32 - FIRST_CHUNK_LOG2)

_Static_assert(RP_MODULES_MAX <= 1u << 31, "every number has its chunk");

struct module {
    UT_hash_handle hh;
    uint32_t number;
    size_t length;
    char name[];
};

/* ENDED: a fork may have caught the hash half changed, so it is never looked at again. */
enum intake { INTAKE_OPEN, INTAKE_ENDED };

struct rp_modules {
    pthread_mutex_t lock; /* adding, and the hash */
    enum intake intake;
    struct module *hash;
    _Atomic uint32_t count; /* released after the entry is in its chunk, to the acquire of readers */
    struct module **chunks[CHUNKS];
};

const char *rp_phase_name(enum rp_phase phase)
{
    switch (phase) {
#define X(name, text)     \
    case RP_PHASE_##name: \
        return text;
        RP_PHASES(X)
#undef X
    case RP_PHASE_COUNT:
        break;
    }
    return "-";
}

enum rp_phase rp_phase_from_name(const char *name, size_t length)
{
    for (int i = 0; i < RP_PHASE_COUNT; i++) {
        const char *text = rp_phase_name((enum rp_phase)i);
        if (strlen(text) == length && memcmp(text, name, length) == 0)
            return (enum rp_phase)i;
    }
    return RP_PHASE_UNKNOWN;
}

/* Chunk c holds 2^(c + FIRST_CHUNK_LOG2) entries; the place inside it goes to *place_out. */
static unsigned chunk_of(uint32_t number, uint32_t *place_out)
{
    uint64_t shifted = (uint64_t)number + (1u << FIRST_CHUNK_LOG2);
    unsigned log2 = 63u - (unsigned)__builtin_clzll(shifted);
    *place_out = (uint32_t)(shifted - (UINT64_C(1) << log2));
    return log2 - FIRST_CHUNK_LOG2;
}

/* `number` is below the count that the caller has read. */
static struct module *entry(const struct rp_modules *modules, uint32_t number)
{
    uint32_t at;
    unsigned chunk = chunk_of(number, &at);
    return modules->chunks[chunk][at];
}

static struct module *module_new(const char *name, size_t length)
{
    struct module *module = calloc(1, sizeof(*module) + length + 1);
    if (module == NULL)
        return NULL;
    module->length = length;
    memcpy(module->name, name, length);
    return module;
}

/* Gives the entry its number and place. Lock held. */
static enum rp_status place(struct rp_modules *modules, struct module *module)
{
    uint32_t number = atomic_load_explicit(&modules->count, memory_order_relaxed), at;
    unsigned chunk = chunk_of(number, &at);

    if (number >= RP_MODULES_MAX)
        return RP_FULL;
    if (modules->chunks[chunk] == NULL)
        modules->chunks[chunk] = calloc((size_t)1 << (chunk + FIRST_CHUNK_LOG2), sizeof(struct module *));
    if (modules->chunks[chunk] == NULL)
        return RP_NO_MEMORY;
    modules->chunks[chunk][at] = module;
    module->number = number;
    return RP_OK;
}

/* Lock held. Only an entry that is both placed and hashed is counted. */
static enum rp_status add(struct rp_modules *modules, const char *name, size_t length, uint32_t *number_out)
{
    struct module *module = module_new(name, length);
    enum rp_status status = RP_NO_MEMORY;

    if (module == NULL)
        return status;
    status = place(modules, module);
    if (status != RP_OK)
        goto fail;
    HASH_ADD_KEYPTR(hh, modules->hash, module->name, module->length, module);
    if (module->hh.tbl == NULL) {
        status = RP_NO_MEMORY;
        goto fail;
    }
    atomic_store_explicit(&modules->count, module->number + 1, memory_order_release);
    *number_out = module->number;
    return RP_OK;
fail:
    free(module);
    return status;
}

enum rp_status rp_modules_create(struct rp_modules **modules_out)
{
    struct rp_modules *modules = calloc(1, sizeof(*modules));
    uint32_t unknown;

    if (modules == NULL)
        return RP_NO_MEMORY;
    pthread_mutex_init(&modules->lock, NULL);
    if (add(modules, "-", 1, &unknown) != RP_OK) {
        rp_modules_destroy(modules);
        return RP_NO_MEMORY;
    }
    *modules_out = modules;
    return RP_OK;
}

void rp_modules_destroy(struct rp_modules *modules)
{
    if (modules == NULL)
        return;
    uint32_t count = rp_module_count(modules);
    if (modules->intake == INTAKE_OPEN)
        HASH_CLEAR(hh, modules->hash);
    for (uint32_t i = 0; i < count; i++)
        free(entry(modules, i));
    for (unsigned i = 0; i < CHUNKS; i++)
        free(modules->chunks[i]);
    pthread_mutex_destroy(&modules->lock);
    free(modules);
}

void rp_modules_forked(struct rp_modules *modules)
{
    if (pthread_mutex_trylock(&modules->lock) == 0)
        pthread_mutex_unlock(&modules->lock);
    else
        modules->intake = INTAKE_ENDED;
    pthread_mutex_init(&modules->lock, NULL);
}

uint32_t rp_module_intern(struct rp_modules *modules, const char *name, size_t length)
{
    uint32_t number = RP_MODULE_UNKNOWN;
    struct module *module;

    if (length > RP_MODULE_NAME_MAX)
        length = RP_MODULE_NAME_MAX;
    pthread_mutex_lock(&modules->lock);
    if (modules->intake == INTAKE_ENDED)
        goto out;
    HASH_FIND(hh, modules->hash, name, length, module);
    if (module != NULL)
        number = module->number;
    else if (add(modules, name, length, &number) != RP_OK)
        number = RP_MODULE_UNKNOWN;
out:
    pthread_mutex_unlock(&modules->lock);
    return number;
}

uint32_t rp_module_count(const struct rp_modules *modules)
{
    /* pairs with the release in add(): numbers below it can be read without the lock */
    return atomic_load_explicit(&modules->count, memory_order_acquire);
}

const char *rp_module_name(const struct rp_modules *modules, uint32_t module)
{
    return module < rp_module_count(modules) ? entry(modules, module)->name : "-";
}
