/*
 * The table of what was seen. An entry never moves and is published by the total, so reading needs no lock; the hash
 * and all adding are under the mutex.
 */
#include "core/record/seen.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* Out of memory: the entry stays out of the table, and the process lives. */
#define HASH_NONFATAL_OOM 1
#include <uthash.h>

/* ENDED: a fork may have caught the hash half changed, so it is never looked at again. */
enum intake { INTAKE_OPEN, INTAKE_ENDED };

/* The source as one byte, the text and its end, the where and its end: what two entries never have alike. */
struct key {
    size_t length;
    size_t where; /* begins here */
    char bytes[1 + 2 * (RP_SEEN_TEXT_MAX + 1)];
};

struct entry {
    UT_hash_handle hh;
    uint32_t number;
    const struct rp_rule *module_rule, *phase_rule, *step_rule;
    const char *where; /* inside `key` */
    size_t length;
    char key[];
};

struct rp_seen {
    pthread_mutex_t lock; /* adding, and the hash */
    enum intake intake;
    struct entry *hash;
    _Atomic uint32_t total; /* released after the entry is in its place, to the acquire of readers */
    struct entry *entries[RP_SEEN_MAX];
    _Atomic uint64_t collectives[RP_SEEN_MAX]; /* relaxed: counts alone */
};

static size_t append(char *bytes, size_t at, const char *text)
{
    size_t length = strnlen(text, RP_SEEN_TEXT_MAX);
    memcpy(bytes + at, text, length);
    bytes[at + length] = '\0';
    return at + length + 1;
}

static void key_make(struct key *key, enum rp_rule_source source, const char *text, const char *where)
{
    key->bytes[0] = (char)source;
    key->where = append(key->bytes, 1, text);
    key->length = append(key->bytes, key->where, where != NULL ? where : "");
}

enum rp_status rp_seen_create(struct rp_seen **seen_out)
{
    struct rp_seen *seen = calloc(1, sizeof(*seen));
    if (seen == NULL)
        return RP_NO_MEMORY;
    pthread_mutex_init(&seen->lock, NULL);
    *seen_out = seen;
    return RP_OK;
}

void rp_seen_destroy(struct rp_seen *seen)
{
    if (seen == NULL)
        return;
    uint32_t total = rp_seen_total(seen);
    if (seen->intake == INTAKE_OPEN)
        HASH_CLEAR(hh, seen->hash);
    for (uint32_t i = 0; i < total; i++)
        free(seen->entries[i]);
    pthread_mutex_destroy(&seen->lock);
    free(seen);
}

static struct entry *entry_new(const struct key *key)
{
    struct entry *entry = calloc(1, sizeof(*entry) + key->length);
    if (entry == NULL)
        return NULL;
    memcpy(entry->key, key->bytes, key->length);
    entry->length = key->length;
    entry->where = entry->key + key->where;
    return entry;
}

/* Lock held. Only an entry that is hashed gets a number. NULL: full, or no memory. */
static struct entry *add(struct rp_seen *seen, const struct key *key)
{
    uint32_t number = atomic_load_explicit(&seen->total, memory_order_relaxed);
    struct entry *entry = number < RP_SEEN_MAX ? entry_new(key) : NULL;
    if (entry == NULL)
        return NULL;
    HASH_ADD_KEYPTR(hh, seen->hash, entry->key, entry->length, entry);
    if (entry->hh.tbl == NULL) {
        free(entry);
        return NULL;
    }
    entry->number = number;
    seen->entries[number] = entry;
    return entry;
}

/* Lock held. */
static uint32_t note(struct rp_seen *seen, const struct key *key, const struct rp_rule *module_rule,
                     const struct rp_rule *phase_rule, const struct rp_rule *step_rule)
{
    struct entry *entry;
    if (seen->intake == INTAKE_ENDED)
        return RP_SEEN_NONE;
    HASH_FIND(hh, seen->hash, key->bytes, key->length, entry);
    if (entry != NULL)
        return entry->number;
    entry = add(seen, key);
    if (entry == NULL)
        return RP_SEEN_NONE;
    entry->module_rule = module_rule;
    entry->phase_rule = phase_rule;
    entry->step_rule = step_rule;
    atomic_store_explicit(&seen->total, entry->number + 1, memory_order_release);
    return entry->number;
}

uint32_t rp_seen_note(struct rp_seen *seen, enum rp_rule_source source, const char *text, const char *where,
                      const struct rp_rule *module_rule, const struct rp_rule *phase_rule,
                      const struct rp_rule *step_rule)
{
    struct key key;
    key_make(&key, source, text, where);
    pthread_mutex_lock(&seen->lock);
    uint32_t number = note(seen, &key, module_rule, phase_rule, step_rule);
    pthread_mutex_unlock(&seen->lock);
    return number;
}

void rp_seen_count(struct rp_seen *seen, uint32_t number)
{
    if (number < RP_SEEN_MAX)
        atomic_fetch_add_explicit(&seen->collectives[number], 1, memory_order_relaxed);
}

uint32_t rp_seen_total(const struct rp_seen *seen)
{
    /* pairs with the release in note(): entries below it can be read without the lock */
    return atomic_load_explicit(&seen->total, memory_order_acquire);
}

struct rp_seen_site rp_seen_site(const struct rp_seen *seen, uint32_t number)
{
    const struct entry *entry = seen->entries[number];
    return (struct rp_seen_site){
        .source = (enum rp_rule_source)entry->key[0],
        .text = entry->key + 1,
        .where = entry->where,
        .module_rule = entry->module_rule,
        .phase_rule = entry->phase_rule,
        .step_rule = entry->step_rule,
    };
}

uint64_t rp_seen_collectives(const struct rp_seen *seen, uint32_t number)
{
    return atomic_load_explicit(&seen->collectives[number], memory_order_relaxed);
}

void rp_seen_forked(struct rp_seen *seen)
{
    if (pthread_mutex_trylock(&seen->lock) == 0)
        pthread_mutex_unlock(&seen->lock);
    else
        seen->intake = INTAKE_ENDED;
    pthread_mutex_init(&seen->lock, NULL);
    for (uint32_t i = 0; i < RP_SEEN_MAX; i++)
        atomic_store_explicit(&seen->collectives[i], 0, memory_order_relaxed);
}
