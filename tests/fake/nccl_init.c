/*
 * Making communicators. Every call allocates the communicator and hands it to the user; a job of the group then
 * brings its ranks together, so that several ranks of one process can be made in one group.
 */
#include "nccl_private.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Fields that an older caller does not know stay undefined. */
static ncclResult_t config_apply(struct ncclComm *comm, const ncclConfig_t *config)
{
    ncclConfig_t known = NCCL_CONFIG_INITIALIZER;
    if (!config)
        return ncclSuccess;
    if (config->magic != known.magic || config->size < offsetof(ncclConfig_t, cgaClusterSize))
        return nccl_warn(ncclInvalidArgument, "config is not initialized");
    memcpy(&known, config, config->size < sizeof known ? config->size : sizeof known);
    bool undefined = known.blocking == NCCL_CONFIG_UNDEF_INT;
    if (!undefined && known.blocking != 0 && known.blocking != 1)
        return nccl_warn(ncclInvalidArgument, "config: blocking is %d", known.blocking);
    if (known.minCTAs != NCCL_CONFIG_UNDEF_INT && known.maxCTAs != NCCL_CONFIG_UNDEF_INT &&
        known.minCTAs > known.maxCTAs)
        return nccl_warn(ncclInvalidArgument, "config: minCTAs is larger than maxCTAs");
    comm->blocking = undefined || known.blocking == 1;
    comm->share_split = known.splitShare == 1;
    comm->share_shrink = known.shrinkShare == 1;
    return ncclSuccess;
}

static ncclResult_t join_run(void *argument)
{
    return rendezvous_join(argument);
}

/* Hands the communicator to the user and adds its job to the group that the caller has started. */
static ncclResult_t comm_launch(ncclComm_t *comm_out, struct ncclComm *comm, ncclResult_t (*run)(void *),
                                void *argument)
{
    *comm_out = comm;
    return group_add_job(comm, run, argument);
}

static ncclResult_t init_add(ncclComm_t *comm_out, int ranks, const ncclUniqueId *ids, int id_count, int rank,
                             const ncclConfig_t *config)
{
    if (!comm_out || !ids || id_count < 1 || ranks < 1 || ranks > NCCL_RANKS_MAX || rank < 0 || rank >= ranks)
        return nccl_warn(ncclInvalidArgument, "init: rank %d of %d, %d ids", rank, ranks, id_count);
    if (fake_enter() != cudaSuccess)
        return nccl_warn(ncclUnhandledCudaError, "init: no device");
    struct ncclComm *comm = comm_new();
    if (!comm)
        return ncclSystemError;
    ncclResult_t result = config_apply(comm, config);
    if (result != ncclSuccess) {
        comm_drop(comm);
        return result;
    }
    comm->rank = rank;
    comm->ranks = ranks;
    rendezvous_key(comm->key, ids, (size_t)id_count * sizeof *ids, "init");
    return comm_launch(comm_out, comm, join_run, comm);
}

static ncclResult_t init(ncclComm_t *comm_out, int ranks, const ncclUniqueId *ids, int id_count, int rank,
                         const ncclConfig_t *config)
{
    group_start();
    ncclResult_t result = group_error(init_add(comm_out, ranks, ids, id_count, rank, config));
    ncclResult_t ended = group_end();
    return result != ncclSuccess ? result : ended;
}

ncclResult_t pncclCommInitRank(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank)
{
    return init(comm, ranks, &id, 1, rank, NULL);
}
NCCL_WEAK(CommInitRank);

ncclResult_t pncclCommInitRankConfig(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t *config)
{
    return init(comm, ranks, &id, 1, rank, config);
}
NCCL_WEAK(CommInitRankConfig);

ncclResult_t pncclCommInitRankScalable(ncclComm_t *comm, int ranks, int rank, int id_count, ncclUniqueId *ids,
                                       ncclConfig_t *config)
{
    return init(comm, ranks, ids, id_count, rank, config);
}
NCCL_WEAK(CommInitRankScalable);

static ncclResult_t devices_check(int count, const int *devices)
{
    for (int i = 0; i < count; i++) {
        int device = devices ? devices[i] : i;
        if (device < 0 || device >= fake_config()->devices)
            return nccl_warn(ncclUnhandledCudaError, "InitAll: no device %d", device);
        for (int k = 0; devices && k < i; k++)
            if (devices[k] == device)
                return nccl_warn(ncclInvalidUsage, "InitAll: device %d twice", device);
    }
    return ncclSuccess;
}

ncclResult_t pncclCommInitAll(ncclComm_t *comms, int count, const int *devices)
{
    if (!comms || count < 1)
        return nccl_warn(ncclInvalidArgument, "InitAll: %d devices", count);
    ncclResult_t result = devices_check(count, devices);
    ncclUniqueId id;
    if (result == ncclSuccess)
        result = pncclGetUniqueId(&id);
    if (result != ncclSuccess)
        return result;
    int before = fake_device_current();
    group_start();
    for (int i = 0; i < count && result == ncclSuccess; i++) {
        fake_device_select(devices ? devices[i] : i);
        result = group_error(init_add(&comms[i], count, &id, 1, i, NULL));
    }
    fake_device_select(before);
    ncclResult_t ended = group_end();
    return result != ncclSuccess ? result : ended;
}
NCCL_WEAK(CommInitAll);

/* Children ------------------------------------------------------------------------------------------------------- */

struct child {
    struct ncclComm *parent; /* a reference */
    struct ncclComm *comm;
    int color;
    int key;
    int ordinal;
    uint64_t ticket;
};

/* A revoked parent can have children; a failed or unfinished one cannot. */
static ncclResult_t parent_check(struct ncclComm *parent)
{
    ncclResult_t result = comm_check(parent);
    if (result != ncclSuccess)
        return result;
    int async = atomic_load(&parent->async);
    if (async == ncclInProgress)
        return nccl_warn(ncclInvalidArgument, "parent used before the previous operation returned ncclSuccess");
    return atomic_load(&parent->finalized) ? nccl_warn(ncclInvalidUsage, "parent is finalized") : (ncclResult_t)async;
}

/* Shared resources: one after the other with the parent, and one abort for both. */
static struct ncclComm *child_new(struct ncclComm *parent, bool share, const ncclConfig_t *config)
{
    struct ncclComm *comm = comm_new();
    if (!comm)
        return NULL;
    comm->device = parent->device;
    comm->blocking = parent->blocking;
    comm_follow(comm, parent, share && !atomic_load(&parent->revoked));
    if (config_apply(comm, config) == ncclSuccess)
        return comm;
    comm_drop(comm);
    return NULL;
}

static void child_key(struct child *child, const char *kind, const void *bytes, size_t count)
{
    char salt[96];
    snprintf(salt, sizeof salt, "%s %s %d", kind, child->parent->key, child->ordinal);
    rendezvous_key(child->comm->key, bytes, count, salt);
}

/* This rank's place among those of its color, by key and then by the parent's rank. */
static void split_place(struct child *child, const struct host_word *words)
{
    struct ncclComm *comm = child->comm;
    comm->ranks = comm->rank = 0;
    for (int i = 0; i < child->parent->ranks; i++) {
        if (words[i].color != child->color)
            continue;
        comm->ranks++;
        comm->rank += words[i].key < child->key || (i < child->parent->rank && words[i].key == child->key);
    }
}

static ncclResult_t split_exchange(struct child *child)
{
    struct host_word *words = calloc((size_t)child->parent->ranks, sizeof *words);
    if (!words)
        return ncclSystemError;
    struct host_word word = {.what = HOST_SPLIT, .color = child->color, .key = child->key};
    ncclResult_t result = host_exchange(child->parent, child->ticket, word, words);
    if (result == ncclSuccess && child->color != NCCL_SPLIT_NOCOLOR)
        split_place(child, words);
    free(words);
    return result;
}

static void child_free(struct child *child)
{
    comm_drop(child->parent);
    free(child);
}

static ncclResult_t split_run(void *argument)
{
    struct child *child = argument;
    ncclResult_t result = split_exchange(child);
    if (result == ncclSuccess && child->color != NCCL_SPLIT_NOCOLOR) {
        child_key(child, "split", &child->color, sizeof child->color);
        result = rendezvous_join(child->comm);
    }
    child_free(child);
    return result;
}

/* Without a color the rank only takes part in the exchange; its communicator is for the job alone. */
static ncclResult_t split_add(struct ncclComm *parent, int color, int key, ncclComm_t *comm_out,
                              const ncclConfig_t *config)
{
    ncclResult_t result = parent_check(parent);
    if (result != ncclSuccess)
        return result;
    if (!comm_out || (color < 0 && color != NCCL_SPLIT_NOCOLOR))
        return nccl_warn(ncclInvalidArgument, "split: color %d", color);
    struct ncclComm *comm = child_new(parent, parent->share_split, config);
    struct child *child = comm ? calloc(1, sizeof *child) : NULL;
    if (!child)
        return ncclInvalidArgument;
    pthread_mutex_lock(&parent->lock);
    *child = (struct child){comm_keep(parent), comm, color, key, ++parent->splits, ++parent->host_tickets};
    pthread_mutex_unlock(&parent->lock);
    result = comm_launch(comm_out, comm, split_run, child);
    if (color == NCCL_SPLIT_NOCOLOR) {
        *comm_out = NULL;
        comm_drop(comm);
    }
    return result;
}

ncclResult_t pncclCommSplit(ncclComm_t parent, int color, int key, ncclComm_t *comm, ncclConfig_t *config)
{
    group_start();
    ncclResult_t result = group_error(split_add(parent, color, key, comm, config));
    ncclResult_t ended = group_end();
    return result != ncclSuccess ? result : ended;
}
NCCL_WEAK(CommSplit);

static ncclResult_t shrink_run(void *argument)
{
    struct child *child = argument;
    ncclResult_t result = rendezvous_join(child->comm);
    child_free(child);
    return result;
}

/* Which ranks stay; false if the list is not one of ranks that leaves this rank. */
static bool survivors(const struct ncclComm *parent, const int *excluded, int count, bool *stays)
{
    if (count < 1 || count >= parent->ranks || !excluded)
        return false;
    for (int i = 0; i < parent->ranks; i++)
        stays[i] = true;
    for (int i = 0; i < count; i++) {
        if (excluded[i] < 0 || excluded[i] >= parent->ranks)
            return false;
        stays[excluded[i]] = false;
    }
    return stays[parent->rank];
}

/* The survivors alone meet: the others may be dead. */
static ncclResult_t shrink_add(struct ncclComm *parent, const int *excluded, int count, ncclComm_t *comm_out,
                               const ncclConfig_t *config, int flags)
{
    bool stays[NCCL_RANKS_MAX] = {false};
    ncclResult_t result = parent_check(parent);
    if (result != ncclSuccess && !(flags == NCCL_SHRINK_ABORT && result != ncclInvalidArgument))
        return result;
    if (!comm_out || (flags != NCCL_SHRINK_DEFAULT && flags != NCCL_SHRINK_ABORT) ||
        !survivors(parent, excluded, count, stays))
        return nccl_warn(ncclInvalidArgument, "shrink: %d ranks excluded", count);
    if (flags == NCCL_SHRINK_ABORT)
        comm_halt(parent);
    struct ncclComm *comm = child_new(parent, parent->share_shrink && flags == NCCL_SHRINK_DEFAULT, config);
    struct child *child = comm ? calloc(1, sizeof *child) : NULL;
    if (!child)
        return ncclInvalidArgument;
    pthread_mutex_lock(&parent->lock);
    *child = (struct child){comm_keep(parent), comm, 0, 0, ++parent->shrinks, 0};
    pthread_mutex_unlock(&parent->lock);
    for (int i = 0; i < parent->ranks; i++) {
        comm->rank += i < parent->rank && stays[i];
        comm->ranks += stays[i];
    }
    child_key(child, "shrink", stays, (size_t)parent->ranks);
    return comm_launch(comm_out, comm, shrink_run, child);
}

ncclResult_t pncclCommShrink(ncclComm_t parent, int *excluded, int count, ncclComm_t *comm, ncclConfig_t *config,
                             int flags)
{
    group_start();
    ncclResult_t result = group_error(shrink_add(parent, excluded, count, comm, config, flags));
    ncclResult_t ended = group_end();
    return result != ncclSuccess ? result : ended;
}
NCCL_WEAK(CommShrink);
