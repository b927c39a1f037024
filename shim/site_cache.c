/*
 * A bounded map from an address to what the rules say of it, so that a known stack costs look-ups only.
 *
 * Invariants: entries live in the cache itself and never move; a key is in it at most once.
 * Threads: any; a mutex held for the time of the look-ups of one stack.
 */
#include "shim/site_sources.h"

/* Out of memory: an entry is not added, and the process lives. */
#define HASH_NONFATAL_OOM 1
/* Fibonacci hashing of the pointer instead of a byte-wise hash: the key is one word. */
#define HASH_FUNCTION(key, length, value)                                      \
    do {                                                                       \
        uintptr_t rp_word;                                                     \
        memcpy(&rp_word, key, sizeof(rp_word));                                \
        (value) = (unsigned)(((uint64_t)rp_word * 0x9e3779b97f4a7c15u) >> 32); \
    } while (0)
#include <uthash.h>

struct entry {
    const void *key;
    struct rp_site_place place;
    UT_hash_handle hh;
};

#define ENTRIES 8192

struct rp_site_cache {
    pthread_mutex_t lock;
    struct entry *table; /* head of the hash; NULL: empty */
    size_t used;         /* entries taken, from the first on */
    bool recycles;       /* full: forget everything; else: add no more */
    struct entry entries[ENTRIES];
};

struct rp_site_cache rp_site_addresses = {.lock = PTHREAD_MUTEX_INITIALIZER, .recycles = true};
struct rp_site_cache rp_site_codes = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct entry *find(struct rp_site_cache *cache, const void *key)
{
    struct entry *entry;
    HASH_FIND_PTR(cache->table, &key, entry);
    return entry;
}

static void clear(struct rp_site_cache *cache)
{
    HASH_CLEAR(hh, cache->table);
    cache->used = 0;
}

static bool add(struct rp_site_cache *cache, const void *key, const struct rp_site_place *place)
{
    if (cache->used == ENTRIES && cache->recycles)
        clear(cache);
    if (cache->used == ENTRIES || find(cache, key) != NULL)
        return false;
    struct entry *entry = &cache->entries[cache->used];
    *entry = (struct entry){.key = key, .place = *place};
    HASH_ADD_PTR(cache->table, key, entry);
    if (entry->hh.tbl == NULL)
        return false;
    cache->used++;
    return true;
}

bool rp_site_cache_find(struct rp_site_cache *cache, const void *key, struct rp_site_place *place_out)
{
    pthread_mutex_lock(&cache->lock);
    const struct entry *entry = find(cache, key);
    if (entry != NULL)
        *place_out = entry->place;
    pthread_mutex_unlock(&cache->lock);
    return entry != NULL;
}

bool rp_site_cache_add(struct rp_site_cache *cache, const void *key, const struct rp_site_place *place)
{
    pthread_mutex_lock(&cache->lock);
    bool added = add(cache, key, place);
    pthread_mutex_unlock(&cache->lock);
    return added;
}

size_t rp_site_cache_find_all(struct rp_site_cache *cache, void *const *keys, size_t count,
                              struct rp_site_place *places_out)
{
    size_t known = 0;
    pthread_mutex_lock(&cache->lock);
    for (; known < count; known++) {
        const struct entry *entry = find(cache, keys[known]);
        if (entry == NULL)
            break;
        places_out[known] = entry->place;
    }
    pthread_mutex_unlock(&cache->lock);
    return known;
}

void rp_site_cache_clear(struct rp_site_cache *cache)
{
    pthread_mutex_lock(&cache->lock);
    clear(cache);
    pthread_mutex_unlock(&cache->lock);
}

void rp_site_cache_forked(struct rp_site_cache *cache)
{
    if (pthread_mutex_trylock(&cache->lock) == 0) {
        pthread_mutex_unlock(&cache->lock);
        return;
    }
    pthread_mutex_init(&cache->lock, NULL);
    cache->table = NULL; /* not freed: it may be half changed */
    cache->used = 0;
}
