/*
 * Hooks of a communicator's whole life: unique id, creation, split, shrink, registration, errors, end. Creation is
 * reported when it is complete: at once, at the end of the group, or when a nonblocking one says success.
 * Called by every thread of the application.
 */
#include "shim/comm.h"
#include "shim/gather.h"
#include "shim/group.h"
#include "shim/hook.h"
#include "shim/runtime.h"

/* `real` is the caller's: where a process has two libraries, a communicator is asked about in its own. */
static struct rp_comm_birth birth_init(const struct rp_nccl *real, ncclComm_t *comm, int nranks, int rank)
{
    return (struct rp_comm_birth){
        .real = real, .handle = comm, .origin = RP_COMM_INIT, .parent = RP_NO_COMM, .nranks = nranks, .rank = rank};
}

static struct rp_comm_birth birth_child(const struct rp_nccl *real, ncclComm_t *comm, enum rp_comm_origin origin,
                                        const struct rp_comm *parent)
{
    uint32_t number = parent != NULL ? rp_comm_number(parent) : RP_NO_COMM;
    return (struct rp_comm_birth){.real = real, .handle = comm, .origin = origin, .parent = number, .rank = -1};
}

/* After the real call: its success has found the arguments good, now they may be looked at more closely. */
static void born(struct rp_comm_birth *birth, const ncclConfig_t *config, ncclResult_t result)
{
    if (!rp_nccl_accepted(result)) {
        rp_comm_unborn(birth);
        return;
    }
    rp_comm_birth_name(birth, config);
    if (rp_thread.group_depth == 0 || !rp_group_add_birth(birth))
        rp_comm_born(birth, result);
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    rp_real_refresh();
    return RP_PASS(nccl, ncclGetUniqueId, id);
}

ncclResult_t ncclCommInitRank(ncclComm_t *comm, int nranks, ncclUniqueId id, int rank)
{
    rp_real_refresh();
    if (!rp_hook_enter())
        return RP_PASS(nccl, ncclCommInitRank, comm, nranks, id, rank);
    struct rp_comm_birth birth = birth_init(rp_nccl(RP_CALLER), comm, nranks, rank);
    birth.key = rp_comm_key_init(&id, 1, nranks);
    rp_comm_announce(&birth, nranks);
    ncclResult_t result = RP_PASS(nccl, ncclCommInitRank, comm, nranks, id, rank);
    born(&birth, NULL, result);
    rp_hook_leave();
    return result;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int nranks, ncclUniqueId id, int rank, ncclConfig_t *config)
{
    rp_real_refresh();
    if (!rp_hook_enter())
        return RP_PASS(nccl, ncclCommInitRankConfig, comm, nranks, id, rank, config);
    struct rp_comm_birth birth = birth_init(rp_nccl(RP_CALLER), comm, nranks, rank);
    birth.key = rp_comm_key_init(&id, 1, nranks);
    rp_comm_birth_blocking(&birth, config);
    rp_comm_announce(&birth, nranks);
    ncclResult_t result = RP_PASS(nccl, ncclCommInitRankConfig, comm, nranks, id, rank, config);
    born(&birth, config, result);
    rp_hook_leave();
    return result;
}

#if NCCL_VERSION_CODE >= 22300
ncclResult_t ncclCommInitRankScalable(ncclComm_t *comm, int nranks, int rank, int id_count, ncclUniqueId *ids,
                                      ncclConfig_t *config)
{
    rp_real_refresh();
    if (!rp_hook_enter())
        return RP_PASS(nccl, ncclCommInitRankScalable, comm, nranks, rank, id_count, ids, config);
    struct rp_comm_birth birth = birth_init(rp_nccl(RP_CALLER), comm, nranks, rank);
    birth.key = rp_comm_key_init(ids, id_count, nranks);
    rp_comm_birth_blocking(&birth, config);
    rp_comm_announce(&birth, nranks);
    ncclResult_t result = RP_PASS(nccl, ncclCommInitRankScalable, comm, nranks, rank, id_count, ids, config);
    born(&birth, config, result);
    rp_hook_leave();
    return result;
}
#endif

/* All ranks in one process. */
ncclResult_t ncclCommInitAll(ncclComm_t *comm, int device_count, const int *devices)
{
    rp_real_refresh();
    if (!rp_hook_enter())
        return RP_PASS(nccl, ncclCommInitAll, comm, device_count, devices);
    ncclResult_t result = RP_PASS(nccl, ncclCommInitAll, comm, device_count, devices);
    uint64_t key = rp_comm_key_all(device_count);
    for (int rank = 0; rp_nccl_accepted(result) && rank < device_count; rank++) {
        struct rp_comm_birth birth = birth_init(rp_nccl(RP_CALLER), &comm[rank], device_count, rank);
        birth.key = key;
        born(&birth, NULL, result);
    }
    rp_hook_leave();
    return result;
}

#if NCCL_VERSION_CODE >= 21800
ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *child, ncclConfig_t *config)
{
    if (!rp_hook_enter())
        return RP_PASS(nccl, ncclCommSplit, comm, color, key, child, config);
    struct rp_comm *parent = rp_comm_find(comm);
    struct rp_comm_birth birth = birth_child(rp_nccl(RP_CALLER), child, RP_COMM_SPLIT, parent);
    birth.key = rp_comm_key_split(parent, color);
    rp_comm_birth_child_blocking(&birth, parent, config);
    if (color != NCCL_SPLIT_NOCOLOR)
        rp_comm_announce(&birth, rp_comm_size(parent));
    ncclResult_t result = RP_PASS(nccl, ncclCommSplit, comm, color, key, child, config);
    born(&birth, config, result);
    rp_hook_leave();
    return result;
}
#endif

#if NCCL_VERSION_CODE >= 22700
ncclResult_t ncclCommShrink(ncclComm_t comm, int *excluded, int excluded_count, ncclComm_t *child, ncclConfig_t *config,
                            int flags)
{
    if (!rp_hook_enter())
        return RP_PASS(nccl, ncclCommShrink, comm, excluded, excluded_count, child, config, flags);
    struct rp_comm *parent = rp_comm_find(comm);
    struct rp_comm_birth birth = birth_child(rp_nccl(RP_CALLER), child, RP_COMM_SHRINK, parent);
    birth.key = rp_comm_key_shrink(parent, excluded, excluded_count);
    rp_comm_birth_child_blocking(&birth, parent, config);
    rp_comm_announce(&birth, rp_comm_size(parent));
    ncclResult_t result = RP_PASS(nccl, ncclCommShrink, comm, excluded, excluded_count, child, config, flags);
    born(&birth, config, result);
    rp_hook_leave();
    return result;
}

ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void *buffer, size_t size, ncclWindow_t *window, int flags)
{
    return RP_PASS(nccl, ncclCommWindowRegister, comm, buffer, size, window, flags);
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window)
{
    return RP_PASS(nccl, ncclCommWindowDeregister, comm, window);
}
#endif

#if NCCL_VERSION_CODE >= 21900
ncclResult_t ncclCommRegister(const ncclComm_t comm, void *buffer, size_t size, void **handle)
{
    return RP_PASS(nccl, ncclCommRegister, comm, buffer, size, handle);
}

ncclResult_t ncclCommDeregister(const ncclComm_t comm, void *handle)
{
    return RP_PASS(nccl, ncclCommDeregister, comm, handle);
}
#endif

/* The end is told before the real call: after it the handle may be given to a new communicator on another thread. */
#define HOOK_END(name, parameters, arguments, how)                      \
    ncclResult_t name parameters                                        \
    {                                                                   \
        if (!rp_hook_enter())                                           \
            return RP_PASS(nccl, name, RP_UNWRAP arguments);            \
        rp_comm_ended(comm, how);                                       \
        ncclResult_t result = RP_PASS(nccl, name, RP_UNWRAP arguments); \
        rp_hook_leave();                                                \
        return result;                                                  \
    }
HOOK_END(ncclCommFinalize, (ncclComm_t comm), (comm), RP_STATE_COMM_FINALIZED)
HOOK_END(ncclCommDestroy, (ncclComm_t comm), (comm), RP_STATE_COMM_DESTROYED)
HOOK_END(ncclCommAbort, (ncclComm_t comm), (comm), RP_STATE_COMM_ABORTED)
#if NCCL_VERSION_CODE >= 22809
HOOK_END(ncclCommRevoke, (ncclComm_t comm, int flags), (comm, flags), RP_STATE_COMM_REVOKED)
#endif

/* What we have refused (REPRISE_STRICT) NCCL knows nothing of. */
const char *ncclGetLastError(ncclComm_t comm)
{
    const char *refusal = rp_gather_refusal();
    if (refusal != NULL)
        return refusal;
    return RP_PASS_OR(nccl, "", ncclGetLastError, comm);
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error)
{
    if (!rp_hook_enter())
        return RP_PASS(nccl, ncclCommGetAsyncError, comm, error);
    ncclResult_t result = RP_PASS(nccl, ncclCommGetAsyncError, comm, error);
    if (result == ncclSuccess && error != NULL)
        rp_comm_async(comm, *error);
    rp_hook_leave();
    return result;
}
