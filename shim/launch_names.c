#include "shim/launch_names.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

struct entry {
    uint64_t function;
    const char *name;
    UT_hash_handle hh;
};

/* A framework registers tens of thousands of kernels: entries and names come from chunks that are never given back. */
#define CHUNK_BYTES (1u << 18)
static struct {
    pthread_mutex_t lock;
    struct entry *entries;
    char *chunk;
    size_t left;
} names = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void *chunk_take(size_t bytes)
{
    bytes = (bytes + 7) & ~(size_t)7;
    if (bytes > CHUNK_BYTES)
        return NULL;
    if (bytes > names.left) {
        char *chunk = malloc(CHUNK_BYTES);
        if (chunk == NULL)
            return NULL;
        names.chunk = chunk;
        names.left = CHUNK_BYTES;
    }
    void *taken = names.chunk;
    names.chunk += bytes;
    names.left -= bytes;
    return taken;
}

static struct entry *entry_find(uint64_t function)
{
    struct entry *entry = NULL;
    HASH_FIND(hh, names.entries, &function, sizeof function, entry);
    return entry;
}

/* `name` lives as long as the process. A function that is registered again (its library was loaded anew) is renamed. */
static void entry_set(uint64_t function, const char *name)
{
    struct entry *entry = entry_find(function);
    if (entry != NULL) {
        entry->name = name;
        return;
    }
    entry = chunk_take(sizeof *entry);
    if (entry == NULL)
        return;
    *entry = (struct entry){.function = function, .name = name};
    HASH_ADD(hh, names.entries, function, sizeof entry->function, entry);
}

void rp_launch_name_add(const void *stub, const char *name)
{
    size_t size = strlen(name) + 1;
    pthread_mutex_lock(&names.lock);
    char *copy = chunk_take(size);
    if (copy != NULL) {
        memcpy(copy, name, size);
        entry_set((uintptr_t)stub, copy);
    }
    pthread_mutex_unlock(&names.lock);
}

void rp_launch_name_alias(const void *kernel, const void *stub)
{
    pthread_mutex_lock(&names.lock);
    const struct entry *entry = entry_find((uintptr_t)stub);
    if (entry != NULL)
        entry_set((uintptr_t)kernel, entry->name);
    pthread_mutex_unlock(&names.lock);
}

const char *rp_launch_name(uint64_t function)
{
    pthread_mutex_lock(&names.lock);
    const struct entry *entry = entry_find(function);
    const char *name = entry != NULL ? entry->name : NULL;
    pthread_mutex_unlock(&names.lock);
    return name;
}

void rp_launch_names_forked(void)
{
    if (pthread_mutex_trylock(&names.lock) == 0) {
        pthread_mutex_unlock(&names.lock);
        return;
    }
    pthread_mutex_init(&names.lock, NULL);
    names.entries = NULL; /* not freed: it may be half changed */
    names.left = 0;
}
