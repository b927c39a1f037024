/*
 * The operations: argument checks, then a task in the thread's group. Errors and their codes are those of NCCL's own
 * checks (argcheck.cc, enqueue.cc); beyond them, a buffer that is not in memory of a device or leaves its allocation
 * is refused.
 */
#include "nccl_private.h"

#include <signal.h>

static ncclResult_t buffer_check(const void *buffer, size_t bytes, const char *what)
{
    struct fake_memory memory;
    if (!buffer || !fake_memory_find(buffer, &memory))
        return nccl_warn(ncclInvalidArgument, "%s buffer %p is not device memory", what, buffer);
    if (bytes > (size_t)(memory.base + memory.bytes - (const char *)buffer))
        return nccl_warn(ncclInvalidArgument, "%s buffer %p of %zu bytes leaves its allocation", what, buffer, bytes);
    return ncclSuccess;
}

/* How many times `count` elements a rank reads and writes. */
static void extents(const struct task *task, size_t *send_out, size_t *recv_out)
{
    size_t ranks = (size_t)task->comm->ranks;
    bool root = task->comm->rank == task->root;
    *send_out = *recv_out = 1;
    switch (task->kind) {
    case KIND_ALL_GATHER:
        *recv_out = ranks;
        break;
    case KIND_REDUCE_SCATTER:
        *send_out = ranks;
        break;
    case KIND_ALL_TO_ALL:
        *send_out = *recv_out = ranks;
        break;
    case KIND_BROADCAST:
        *send_out = root;
        break;
    case KIND_REDUCE:
        *recv_out = root;
        break;
    case KIND_GATHER:
        *recv_out = root ? ranks : 0;
        break;
    case KIND_SCATTER:
        *send_out = root ? ranks : 0;
        break;
    case KIND_SEND:
        *recv_out = 0;
        break;
    case KIND_RECV:
        *send_out = 0;
        break;
    default:
        break;
    }
}

static ncclResult_t buffers_check(const struct task *task)
{
    size_t send, recv, bytes = task->count * datatype_bytes(task->datatype);
    extents(task, &send, &recv);
    ncclResult_t result = send && bytes ? buffer_check(task->send, send * bytes, "send") : ncclSuccess;
    if (result == ncclSuccess && recv && bytes)
        result = buffer_check(task->recv, recv * bytes, "receive");
    return result;
}

static ncclResult_t op_check(struct task *task)
{
    if ((int)task->op >= 0 && task->op < ncclNumOps)
        return ncclSuccess;
    if (!user_op_find(task->comm, task->op, &task->user_op))
        return nccl_warn(ncclInvalidArgument, "reduction %d is unknown", (int)task->op);
    if (task->user_op.datatype != task->datatype)
        return nccl_warn(ncclInvalidArgument, "reduction %d is of another type", (int)task->op);
    return ncclSuccess;
}

static ncclResult_t task_check(struct task *task)
{
    ncclResult_t result = comm_check_ready(task->comm);
    if (result != ncclSuccess)
        return result;
    if (task->root < 0 || task->root >= task->comm->ranks)
        return nccl_warn(ncclInvalidArgument, "root or peer %d of %d ranks", task->root, task->comm->ranks);
    if ((int)task->datatype < 0 || task->datatype >= ncclNumTypes)
        return nccl_warn(ncclInvalidArgument, "type %d is unknown", (int)task->datatype);
    result = op_check(task);
    return result == ncclSuccess ? buffers_check(task) : result;
}

/* A stream's name depends on the device and the thread: the task keeps the stream itself. */
static ncclResult_t stream_find(struct task *task)
{
    int before = fake_device_current();
    fake_device_select(task->comm->device);
    cudaError_t error = fake_stream_handle(task->stream, &task->stream);
    fake_device_select(before);
    return error == cudaSuccess ? ncclSuccess : nccl_warn(ncclUnhandledCudaError, "cuda error %d", (int)error);
}

/* Faults that strike when the collective is called. */
static ncclResult_t faults_apply(const struct task *task)
{
    if (fake_fault(FAKE_FAULT_KILL, task->number, NULL))
        raise(SIGKILL);
    if (fake_fault(FAKE_FAULT_ERROR, task->number, NULL))
        return nccl_warn(ncclSystemError, "fault: collective %llu fails", (unsigned long long)task->number);
    return ncclSuccess;
}

static ncclResult_t task_add(struct task *task)
{
    static _Atomic uint64_t numbers;
    ncclResult_t result = task_check(task);
    if (result != ncclSuccess || (task->count == 0 && !task_is_p2p(task)))
        return result;
    if (!task_is_p2p(task)) {
        task->number = atomic_fetch_add(&numbers, 1) + 1;
        result = faults_apply(task);
    }
    if (result == ncclSuccess)
        result = stream_find(task);
    return result == ncclSuccess ? group_add(task) : result;
}

/* Where a kind has no reduction or no root, they are ncclSum and 0; `root` is the peer of a send or receive. */
static ncclResult_t issue(enum kind kind, const void *send, void *recv, size_t count, ncclDataType_t datatype,
                          ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream)
{
    struct task task = {.comm = comm,
                        .kind = kind,
                        .send = send,
                        .recv = recv,
                        .count = count,
                        .datatype = datatype,
                        .op = op,
                        .root = root,
                        .stream = stream};
    if (fake_enter() != cudaSuccess)
        return nccl_warn(ncclUnhandledCudaError, "no device");
    group_start();
    ncclResult_t result = group_error(task_add(&task));
    ncclResult_t ended = group_end();
    return result != ncclSuccess ? result : ended;
}

ncclResult_t pncclAllGather(const void *send, void *recv, size_t count, ncclDataType_t datatype, ncclComm_t comm,
                            cudaStream_t stream)
{
    return issue(KIND_ALL_GATHER, send, recv, count, datatype, ncclSum, 0, comm, stream);
}
NCCL_WEAK(AllGather);

ncclResult_t pncclAllReduce(const void *send, void *recv, size_t count, ncclDataType_t datatype, ncclRedOp_t op,
                            ncclComm_t comm, cudaStream_t stream)
{
    return issue(KIND_ALL_REDUCE, send, recv, count, datatype, op, 0, comm, stream);
}
NCCL_WEAK(AllReduce);

ncclResult_t pncclReduceScatter(const void *send, void *recv, size_t count, ncclDataType_t datatype, ncclRedOp_t op,
                                ncclComm_t comm, cudaStream_t stream)
{
    return issue(KIND_REDUCE_SCATTER, send, recv, count, datatype, op, 0, comm, stream);
}
NCCL_WEAK(ReduceScatter);

ncclResult_t pncclBroadcast(const void *send, void *recv, size_t count, ncclDataType_t datatype, int root,
                            ncclComm_t comm, cudaStream_t stream)
{
    return issue(KIND_BROADCAST, send, recv, count, datatype, ncclSum, root, comm, stream);
}
NCCL_WEAK(Broadcast);

ncclResult_t pncclReduce(const void *send, void *recv, size_t count, ncclDataType_t datatype, ncclRedOp_t op, int root,
                         ncclComm_t comm, cudaStream_t stream)
{
    return issue(KIND_REDUCE, send, recv, count, datatype, op, root, comm, stream);
}
NCCL_WEAK(Reduce);

ncclResult_t pncclAlltoAll(const void *send, void *recv, size_t count, ncclDataType_t datatype, ncclComm_t comm,
                           cudaStream_t stream)
{
    return issue(KIND_ALL_TO_ALL, send, recv, count, datatype, ncclSum, 0, comm, stream);
}
NCCL_WEAK(AlltoAll);

ncclResult_t pncclGather(const void *send, void *recv, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
                         cudaStream_t stream)
{
    return issue(KIND_GATHER, send, recv, count, datatype, ncclSum, root, comm, stream);
}
NCCL_WEAK(Gather);

ncclResult_t pncclScatter(const void *send, void *recv, size_t count, ncclDataType_t datatype, int root,
                          ncclComm_t comm, cudaStream_t stream)
{
    return issue(KIND_SCATTER, send, recv, count, datatype, ncclSum, root, comm, stream);
}
NCCL_WEAK(Scatter);

ncclResult_t pncclSend(const void *send, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
                       cudaStream_t stream)
{
    return issue(KIND_SEND, send, NULL, count, datatype, ncclSum, peer, comm, stream);
}
NCCL_WEAK(Send);

ncclResult_t pncclRecv(void *recv, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
                       cudaStream_t stream)
{
    return issue(KIND_RECV, NULL, recv, count, datatype, ncclSum, peer, comm, stream);
}
NCCL_WEAK(Recv);
