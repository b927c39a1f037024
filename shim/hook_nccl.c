/*
 * Hooks of the collectives, of point-to-point calls and of groups. All alike: guard, then
 * rp_call_run(): describe, real call, report.
 * Called by every thread of the application that issues NCCL calls.
 */
#include "shim/call.h"
#include "shim/group.h"
#include "shim/hook.h"
#include "shim/runtime.h"

/* name, parameters, arguments, then the fields of struct rp_call_arguments */
#define HOOK(name, parameters, arguments, ...)                                                                        \
    ncclResult_t name parameters                                                                                      \
    {                                                                                                                 \
        if (!rp_hook_enter())                                                                                         \
            return RP_PASS(nccl, name, RP_UNWRAP arguments);                                                          \
        ncclResult_t result =                                                                                         \
            rp_call_run(rp_nccl(RP_CALLER), &(struct rp_call_arguments){__VA_ARGS__, .dtype = datatype, .comm = comm, \
                                                                        .stream = stream, .caller = RP_CALLER});      \
        rp_hook_leave();                                                                                              \
        return result;                                                                                                \
    }

HOOK(ncclAllGather,
     (const void *send, void *receive, size_t count, ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream),
     (send, receive, count, datatype, comm, stream), .kind = RP_OP_ALL_GATHER, .send = send, .receive = receive,
     .count = count, .redop = -1, .root = -1)

HOOK(ncclReduceScatter,
     (const void *send, void *receive, size_t count, ncclDataType_t datatype, ncclRedOp_t redop, ncclComm_t comm,
      cudaStream_t stream),
     (send, receive, count, datatype, redop, comm, stream), .kind = RP_OP_REDUCE_SCATTER, .send = send,
     .receive = receive, .count = count, .redop = (int)redop, .root = -1)

HOOK(ncclAllReduce,
     (const void *send, void *receive, size_t count, ncclDataType_t datatype, ncclRedOp_t redop, ncclComm_t comm,
      cudaStream_t stream),
     (send, receive, count, datatype, redop, comm, stream), .kind = RP_OP_ALL_REDUCE, .send = send, .receive = receive,
     .count = count, .redop = (int)redop, .root = -1)

HOOK(ncclBroadcast,
     (const void *send, void *receive, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
      cudaStream_t stream),
     (send, receive, count, datatype, root, comm, stream), .kind = RP_OP_BROADCAST, .send = send, .receive = receive,
     .count = count, .redop = -1, .root = root)

HOOK(ncclBcast, (void *buffer, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream),
     (buffer, count, datatype, root, comm, stream), .kind = RP_OP_BROADCAST, .send = buffer, .receive = buffer,
     .count = count, .redop = -1, .root = root, .in_place_name = true)

HOOK(ncclReduce,
     (const void *send, void *receive, size_t count, ncclDataType_t datatype, ncclRedOp_t redop, int root,
      ncclComm_t comm, cudaStream_t stream),
     (send, receive, count, datatype, redop, root, comm, stream), .kind = RP_OP_REDUCE, .send = send,
     .receive = receive, .count = count, .redop = (int)redop, .root = root)

HOOK(ncclSend,
     (const void *send, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm, cudaStream_t stream),
     (send, count, datatype, peer, comm, stream), .kind = RP_OP_SEND, .send = send, .count = count, .redop = -1,
     .root = peer)

HOOK(ncclRecv, (void *receive, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm, cudaStream_t stream),
     (receive, count, datatype, peer, comm, stream), .kind = RP_OP_RECV, .receive = receive, .count = count,
     .redop = -1, .root = peer)

#if NCCL_VERSION_CODE >= 22800
HOOK(ncclAlltoAll,
     (const void *send, void *receive, size_t count, ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream),
     (send, receive, count, datatype, comm, stream), .kind = RP_OP_ALL_TO_ALL, .send = send, .receive = receive,
     .count = count, .redop = -1, .root = -1)

HOOK(ncclGather,
     (const void *send, void *receive, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
      cudaStream_t stream),
     (send, receive, count, datatype, root, comm, stream), .kind = RP_OP_GATHER, .send = send, .receive = receive,
     .count = count, .redop = -1, .root = root)

HOOK(ncclScatter,
     (const void *send, void *receive, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
      cudaStream_t stream),
     (send, receive, count, datatype, root, comm, stream), .kind = RP_OP_SCATTER, .send = send, .receive = receive,
     .count = count, .redop = -1, .root = root)
#endif

/* A group may be a library's first call, around the creation of its communicators. */
ncclResult_t ncclGroupStart(void)
{
    rp_real_refresh();
    if (!rp_hook_enter())
        return RP_PASS(nccl, ncclGroupStart);
    ncclResult_t result = RP_PASS(nccl, ncclGroupStart);
    rp_group_start(rp_nccl(RP_CALLER), result);
    rp_hook_leave();
    return result;
}

ncclResult_t ncclGroupEnd(void)
{
    if (!rp_hook_enter())
        return RP_PASS(nccl, ncclGroupEnd);
    bool allowed = rp_group_prepare();
    ncclResult_t result = RP_PASS(nccl, ncclGroupEnd);
    rp_group_end(result);
    rp_hook_leave();
    return allowed ? result : ncclInvalidUsage;
}

#if NCCL_VERSION_CODE >= 22200
ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t *info)
{
    if (!rp_hook_enter())
        return RP_PASS(nccl, ncclGroupSimulateEnd, info);
    rp_group_prepare_simulated();
    ncclResult_t result = RP_PASS(nccl, ncclGroupSimulateEnd, info);
    rp_group_simulate_end(result);
    rp_hook_leave();
    return result;
}
#endif
