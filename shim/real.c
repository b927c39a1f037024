/*
 * Finds the real functions. A provider is a loaded object that defines the anchor (cudaLaunchKernel, ncclAllGather);
 * its table is filled once and never changes, and the object stays loaded: we keep a reference to it.
 *
 * Order of the search: with one library of the kind loaded, RTLD_NEXT first (so that other preloads in front of it
 * stay in the chain), then the loaded library by its soname: Python loads extension modules RTLD_LOCAL, where
 * RTLD_NEXT finds nothing. With none or several, the caller's own dependencies first.
 */
#include "shim/real.h"

#include <dlfcn.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROVIDER_MAX 8
#define CALLER_SLOTS 512
#define CALLER_PROBES 8

_Atomic(const struct rp_cudart *) rp_cudart_only;
_Atomic(const struct rp_nccl *) rp_nccl_only;

/* One row of a table: where the pointer goes, and the name. */
struct row {
    size_t offset;
    const char *name;
};

#define ROW_DROP(table, name)
#define ROW_KEEP(table, name) {offsetof(struct table, name), #name},
#define RP_SYMBOL(library, name, prototype, since) ROW_##library(name)

static const struct row cudart_rows[] = {
#define ROW_CUDART(name) ROW_KEEP(rp_cudart, name)
#define ROW_NCCL(name) ROW_DROP(rp_cudart, name)
#include "shim/symbols.def"
#undef ROW_CUDART
#undef ROW_NCCL
#define X(name) ROW_KEEP(rp_cudart, name)
    RP_CUDART_CALLED(X)
#undef X
};

static const struct row nccl_rows[] = {
#define ROW_CUDART(name) ROW_DROP(rp_nccl, name)
#define ROW_NCCL(name) ROW_KEEP(rp_nccl, name)
#include "shim/symbols.def"
#undef ROW_CUDART
#undef ROW_NCCL
#define X(name) ROW_KEEP(rp_nccl, name)
    RP_NCCL_CALLED(X)
#undef X
};

struct provider {
    const void *base; /* load address of the object that defines the anchor */
    void *table;
};

struct caller_entry {
    const void *caller;
    const void *table;
    unsigned long long unloads; /* of the loader when it was made: later the address may be another's */
};

/* One kind of library. */
struct kind {
    const char *prefix; /* of the file name */
    const char *anchor;
    const char *sonames[4];
    const char *strong; /* prefix of a second, strong name of each function, or NULL */
    const struct row *rows;
    size_t row_count, table_size;
    _Atomic(struct provider *) providers[PROVIDER_MAX];
    _Atomic(struct caller_entry *) callers[CALLER_SLOTS];
};

/* Wheels hold libcudart-<hash>.so.<version>; libnccl-net.so and its like are plugins. */
static struct kind cudart = {.prefix = "libcudart",
                             .anchor = "cudaLaunchKernel",
                             .sonames = {"libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0", NULL},
                             .rows = cudart_rows,
                             .row_count = sizeof cudart_rows / sizeof cudart_rows[0],
                             .table_size = sizeof(struct rp_cudart)};
static struct kind nccl = {.prefix = "libnccl.so",
                           .anchor = "ncclAllGather",
                           .sonames = {"libnccl.so.2", NULL},
                           .strong = "p",
                           .rows = nccl_rows,
                           .row_count = sizeof nccl_rows / sizeof nccl_rows[0],
                           .table_size = sizeof(struct rp_nccl)};

/* Of the loader, as rp_real_refresh() saw it last. */
static _Atomic unsigned long long adds_seen, subs_seen;

static const struct rp_cudart cudart_missing;
static const struct rp_nccl nccl_missing;

/* Load address of the object that holds an address; NULL if none. */
static const void *object_of(const void *address)
{
    Dl_info info;
    return address != NULL && dladdr(address, &info) != 0 ? info.dli_fbase : NULL;
}

static bool is_ours(const void *address)
{
    return object_of(address) == object_of(&cudart);
}

/* A handle of the loaded object that holds `address`, to be closed by the caller; NULL for the main program. */
static void *handle_of(const void *address)
{
    Dl_info info;
    struct link_map *map = NULL;
    if (address == NULL || dladdr1(address, &info, (void **)&map, RTLD_DL_LINKMAP) == 0)
        return NULL;
    if (map == NULL || map->l_name == NULL || map->l_name[0] == '\0')
        return NULL;
    return dlopen(map->l_name, RTLD_NOLOAD | RTLD_LAZY);
}

static void *symbol_in(void *handle, const char *name)
{
    void *address = handle != NULL ? dlsym(handle, name) : NULL;
    return address != NULL && !is_ours(address) ? address : NULL;
}

static void *symbol_by_caller(const struct kind *kind, void *caller)
{
    void *handle = handle_of(caller);
    void *address = symbol_in(handle, kind->anchor);
    if (handle != NULL)
        dlclose(handle);
    return address;
}

static void *symbol_by_soname(const struct kind *kind)
{
    void *address = NULL;
    for (const char *const *name = kind->sonames; *name != NULL && address == NULL; name++) {
        void *handle = dlopen(*name, RTLD_NOLOAD | RTLD_LAZY);
        address = symbol_in(handle, kind->anchor);
        if (handle != NULL)
            dlclose(handle);
    }
    return address;
}

static void *find_anchor(const struct kind *kind, void *caller, bool single)
{
    void *address = single ? NULL : symbol_by_caller(kind, caller);
    if (address == NULL)
        address = symbol_in(RTLD_NEXT, kind->anchor);
    if (address == NULL)
        address = symbol_by_soname(kind);
    if (address == NULL && single)
        address = symbol_by_caller(kind, caller);
    return address;
}

/*
 * The function of that name, chained behind us or in the anchor's object. NCCL exports each function twice (weak
 * ncclX, strong pncclX; NCCL 2.0 to 2.28): the strong one is taken where both are of one object, since NCCL's own
 * calls of the weak one come back to our hooks.
 */
static void *find_function(const struct kind *kind, void *handle, const char *name, bool single)
{
    void *address = single ? symbol_in(RTLD_NEXT, name) : NULL;
    if (address == NULL)
        address = symbol_in(handle, name);
    char strong[96];
    if (address == NULL || kind->strong == NULL)
        return address;
    snprintf(strong, sizeof strong, "%s%s", kind->strong, name);
    void *second = symbol_in(handle, strong);
    return second != NULL && object_of(second) == object_of(address) ? second : address;
}

/* The handle is not closed: callers that were unloaded and loaded again find the pointers as they were. */
static struct provider *provider_make(const struct kind *kind, void *anchor, bool single)
{
    struct provider *provider = calloc(1, sizeof *provider);
    void *table = calloc(1, kind->table_size);
    if (provider == NULL || table == NULL) {
        free(provider);
        free(table);
        return NULL;
    }
    void *handle = handle_of(anchor);
    for (size_t i = 0; i < kind->row_count; i++) {
        void *address = find_function(kind, handle, kind->rows[i].name, single);
        memcpy((char *)table + kind->rows[i].offset, &address, sizeof address);
    }
    provider->base = object_of(anchor);
    provider->table = table;
    return provider;
}

/* The provider of that object: the one published first wins; a loser is freed. */
static const void *provider_table(struct kind *kind, void *anchor, bool single)
{
    const void *base = object_of(anchor);
    struct provider *mine = NULL;
    for (size_t i = 0; i < PROVIDER_MAX; i++) {
        struct provider *there = atomic_load_explicit(&kind->providers[i], memory_order_acquire);
        if (there == NULL) {
            if (mine == NULL)
                mine = provider_make(kind, anchor, single);
            if (mine == NULL)
                return NULL;
            if (atomic_compare_exchange_strong(&kind->providers[i], &there, mine))
                return mine->table;
        }
        if (there->base == base) {
            if (mine != NULL) {
                free(mine->table);
                free(mine);
            }
            return there->table;
        }
    }
    if (mine != NULL) {
        free(mine->table);
        free(mine);
    }
    return NULL;
}

struct count {
    const char *prefix;
    int found;
};

static int count_object(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)size;
    struct count *count = data;
    const char *slash = strrchr(info->dlpi_name, '/');
    const char *name = slash != NULL ? slash + 1 : info->dlpi_name;
    count->found += strncmp(name, count->prefix, strlen(count->prefix)) == 0;
    return 0;
}

/* How many libraries of the kind are loaded, by their file names. */
static int loaded(const struct kind *kind)
{
    struct count count = {.prefix = kind->prefix};
    dl_iterate_phdr(count_object, &count);
    return count.found;
}

/* The caller's place, or a free one; NULL: neither within reach, this caller is looked up each time. */
static _Atomic(struct caller_entry *) *caller_slot(struct kind *kind, const void *caller)
{
    size_t first = ((uintptr_t)caller * 0x9e3779b97f4a7c15u) >> 55; /* 9 bits: CALLER_SLOTS */
    for (size_t i = 0; i < CALLER_PROBES; i++) {
        _Atomic(struct caller_entry *) *slot = &kind->callers[(first + i) % CALLER_SLOTS];
        struct caller_entry *entry = atomic_load_explicit(slot, memory_order_acquire);
        if (entry == NULL || entry->caller == caller)
            return slot;
    }
    return NULL;
}

/* An entry of before an unloading is replaced and left: another thread may be reading it. */
static void caller_remember(_Atomic(struct caller_entry *) *slot, const struct caller_entry *entry)
{
    struct caller_entry *there = atomic_load(slot), *copy = malloc(sizeof *copy);
    if (copy == NULL || (there != NULL && there->caller != entry->caller)) {
        free(copy);
        return;
    }
    *copy = *entry;
    if (!atomic_compare_exchange_strong(slot, &there, copy))
        free(copy);
}

/* `*single_out`: it is the only library of its kind, and that of every caller. */
static const void *find(struct kind *kind, void *caller, bool *single_out)
{
    unsigned long long unloads = atomic_load_explicit(&subs_seen, memory_order_relaxed);
    _Atomic(struct caller_entry *) *slot = caller_slot(kind, caller);
    const struct caller_entry *entry = slot != NULL ? atomic_load_explicit(slot, memory_order_acquire) : NULL;
    *single_out = false;
    if (entry != NULL && entry->unloads == unloads)
        return entry->table;
    bool single = loaded(kind) == 1;
    void *anchor = find_anchor(kind, caller, single);
    if (single && loaded(kind) != 1) { /* another was loaded meanwhile: whose the anchor is, only the caller tells */
        single = false;
        anchor = find_anchor(kind, caller, single);
    }
    const void *table = anchor != NULL ? provider_table(kind, anchor, single) : NULL;
    *single_out = single && table != NULL;
    if (table != NULL && !single && slot != NULL)
        caller_remember(slot, &(struct caller_entry){caller, table, unloads});
    return table;
}

/* Where a second library appeared since it was counted, rp_real_refresh() may have gone by already. */
#define PUBLISH_ONLY(kind, only, table)  \
    do {                                 \
        atomic_store(&(only), (table));  \
        if (loaded(&(kind)) != 1)        \
            atomic_store(&(only), NULL); \
    } while (0)

const struct rp_cudart *rp_cudart_find(void *caller)
{
    bool single;
    const void *table = find(&cudart, caller, &single);
    if (single)
        PUBLISH_ONLY(cudart, rp_cudart_only, table);
    return table != NULL ? table : &cudart_missing;
}

const struct rp_nccl *rp_nccl_find(void *caller)
{
    bool single;
    const void *table = find(&nccl, caller, &single);
    if (single)
        PUBLISH_ONLY(nccl, rp_nccl_only, table);
    return table != NULL ? table : &nccl_missing;
}

struct counters {
    unsigned long long adds, subs;
};

static int read_counters(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)size;
    *(struct counters *)data = (struct counters){info->dlpi_adds, info->dlpi_subs};
    return 1;
}

/* Said to have been seen only when done: another thread that sees the same meanwhile does the same. */
/* A thread that was held up must not bring an old count back. */
static void move_on(_Atomic unsigned long long *seen, unsigned long long now)
{
    unsigned long long before = atomic_load(seen);
    while (before < now && !atomic_compare_exchange_weak(seen, &before, now)) {
    }
}

void rp_real_refresh(void)
{
    struct counters now = {0};
    dl_iterate_phdr(read_counters, &now);
    if (atomic_load(&adds_seen) >= now.adds)
        return;
    move_on(&subs_seen, now.subs);
    if (loaded(&cudart) > 1)
        atomic_store(&rp_cudart_only, NULL);
    if (loaded(&nccl) > 1)
        atomic_store(&rp_nccl_only, NULL);
    move_on(&adds_seen, now.adds);
}
