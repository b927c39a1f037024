/*
 * One operation: what is enqueued before its call, the call, and what is enqueued behind it. Calls alone stand inside
 * groups and captures.
 */
#include "tests/chaos/chaos_rank.h"

#include <string.h>

#define JUNK 0xa6

/* An operation as this rank sees it. */
struct view {
    const struct chaos_action *action;
    int members[CHAOS_RANKS_MAX];
    int count, place;
    ncclComm_t comm;
    cudaStream_t stream;
    struct chaos_buffer *buffer; /* receive buffer of a gather, else scratch */
    char *send, *recv;
    size_t send_bytes, recv_bytes; /* of this rank, 0: none */
};

cudaStream_t chaos_stream_of(const struct chaos_rank *me, const struct chaos_action *action)
{
    bool peer = action->kind == CHAOS_PEER_RECV || action->kind == CHAOS_PEER_SEND;
    return peer ? me->peer_stream : me->streams[action->stream];
}

/* Views ------------------------------------------------------------------------------------------------------------ */

static void view_gather(struct chaos_rank *me, struct view *view)
{
    const struct chaos_action *action = view->action;
    const struct chaos_unit *unit = &me->program->units[action->unit];
    view->buffer = &me->slots[action->comm][action->slot];
    view->recv = chaos_buffer_data(view->buffer) + unit->offset;
    view->send_bytes = unit->bytes;
    view->recv_bytes = (size_t)view->count * unit->bytes;
    if (unit->send == CHAOS_SEND_IN_PLACE)
        view->send = view->recv + (size_t)view->place * unit->bytes;
    else if (unit->send == CHAOS_SEND_STAGED)
        view->send = chaos_buffer_data(&me->staged[action->unit]) + unit->offset;
    else
        view->send = chaos_buffer_data(&me->shards[action->unit]) + unit->offset;
}

/* Which part of the scratch buffer is sent and which received into; where the operation may be in place it is if told
 * so. */
static void view_transfer(struct chaos_rank *me, struct view *view)
{
    const struct chaos_action *action = view->action;
    size_t part = action->count, count = (size_t)view->count;
    bool root = view->place == action->root, even = me->rank % 2 == 0;
    view->buffer = &me->scratch[action->comm][action->slot];
    view->send = chaos_buffer_data(view->buffer);
    view->recv = view->send + view->buffer->bytes / 2;
    view->send_bytes = view->recv_bytes = part;
    switch (action->kind) {
    case CHAOS_REDUCE_SCATTER:
        view->recv = action->in_place ? view->send + 4 * part * (size_t)view->place : view->recv;
        view->send_bytes = 4 * part * count;
        view->recv_bytes = 4 * part;
        break;
    case CHAOS_ALL_REDUCE:
        view->recv = action->in_place ? view->send : view->recv;
        view->send_bytes = view->recv_bytes = 4 * part;
        break;
    case CHAOS_BROADCAST:
        view->recv = action->in_place ? view->send : view->recv;
        view->send_bytes = root ? part : 0;
        break;
    case CHAOS_ALL_TO_ALL:
        view->send_bytes = view->recv_bytes = part * count;
        break;
    case CHAOS_UNEVEN:
        view->send_bytes = root ? 0 : part * (size_t)(view->place + 1);
        view->recv_bytes = root ? chaos_uneven_offset(action, action->root, view->count) : 0;
        break;
    case CHAOS_PEER_RECV:
        view->send_bytes = 0;
        view->recv_bytes = even ? 0 : part;
        break;
    case CHAOS_PEER_SEND:
        view->send_bytes = even && me->rank + 1 < me->program->ranks ? part : 0;
        view->recv_bytes = 0;
        break;
    default: /* RING */
        break;
    }
}

static struct view view_of(struct chaos_rank *me, const struct chaos_action *action)
{
    struct view view = {.action = action, .comm = me->comms[action->comm], .stream = chaos_stream_of(me, action)};
    view.count = chaos_members(me->program, action->comm, me->rank, view.members);
    while (view.members[view.place] != me->rank)
        view.place++;
    if (action->kind == CHAOS_GATHER)
        view_gather(me, &view);
    else
        view_transfer(me, &view);
    return view;
}

/* Before ----------------------------------------------------------------------------------------------------------- */

static void poison(struct chaos_rank *me, const struct view *view)
{
    if (view->action->poison && view->recv_bytes && view->recv != view->send)
        CHAOS_CUDA(me, cudaMemsetAsync(view->recv, JUNK, view->recv_bytes, view->stream));
}

/* The shard goes where it is sent from, on the gather's stream or on another one. */
static void copy_in(struct chaos_rank *me, const struct view *view)
{
    const struct chaos_program *program = me->program;
    const struct chaos_unit *unit = &program->units[view->action->unit];
    struct chaos_buffer *shard = &me->shards[view->action->unit];
    struct chaos_buffer *target = unit->send == CHAOS_SEND_IN_PLACE ? view->buffer : &me->staged[view->action->unit];
    cudaStream_t stream = view->stream;
    if (unit->copy_elsewhere)
        stream = me->streams[(view->action->stream + 1) % program->streams];
    chaos_buffer_used(me, target, view->stream);
    chaos_buffer_use(me, target, stream);
    chaos_buffer_use(me, shard, stream);
    const char *from = chaos_buffer_data(shard) + unit->offset;
    CHAOS_CUDA(me, cudaMemcpyAsync(view->send, from, unit->bytes, cudaMemcpyDeviceToDevice, stream));
    chaos_buffer_used(me, shard, stream);
    chaos_buffer_used(me, target, stream);
    chaos_buffer_use(me, target, view->stream);
}

static void gather_before(struct chaos_rank *me, const struct view *view)
{
    const struct chaos_unit *unit = &me->program->units[view->action->unit];
    if (view->action->after_peer && me->rank % 2 == 1)
        CHAOS_CUDA(me, cudaStreamWaitEvent(view->stream, me->peer_done, 0));
    chaos_buffer_use(me, view->buffer, view->stream);
    poison(me, view);
    if (unit->send == CHAOS_SEND_PERSISTENT) {
        chaos_buffer_use(me, &me->shards[view->action->unit], view->stream);
        return;
    }
    if (unit->send == CHAOS_SEND_STAGED)
        chaos_buffer_use(me, &me->staged[view->action->unit], view->stream);
    copy_in(me, view);
}

static void values_write(const struct chaos_rank *me, const struct view *view, char *to)
{
    const struct chaos_action *action = view->action;
    for (size_t i = 0; i < view->send_bytes / 4; i++) {
        int32_t value = chaos_value(action->serial, me->rank, i);
        float number = (float)value;
        memcpy(to + 4 * i, action->integers ? (const void *)&value : (const void *)&number, 4);
    }
}

static void transfer_fill(struct chaos_rank *me, const struct view *view, char *to)
{
    const struct chaos_action *action = view->action;
    struct chaos_content content = chaos_transfer_content(action);
    if (action->kind == CHAOS_REDUCE_SCATTER || action->kind == CHAOS_ALL_REDUCE)
        values_write(me, view, to);
    else if (action->kind != CHAOS_ALL_TO_ALL)
        chaos_content_write(to, view->send_bytes, &content, me->rank);
    else
        for (int i = 0; i < view->count; i++)
            chaos_content_write(to + (size_t)i * action->count, action->count, &content,
                                chaos_pair(me->rank, view->members[i]));
}

static void transfer_before(struct chaos_rank *me, const struct view *view)
{
    char *staging = me->threads[view->action->thread].staging;
    chaos_buffer_use(me, view->buffer, view->stream);
    poison(me, view);
    if (view->send_bytes == 0)
        return;
    transfer_fill(me, view, staging);
    CHAOS_CUDA(me, cudaMemcpyAsync(view->send, staging, view->send_bytes, cudaMemcpyHostToDevice, view->stream));
}

void chaos_operation_before(struct chaos_rank *me, const struct chaos_action *action)
{
    struct view view = view_of(me, action);
    if (action->kind == CHAOS_GATHER)
        gather_before(me, &view);
    else
        transfer_before(me, &view);
}

/* The call --------------------------------------------------------------------------------------------------------- */

/* The first error that is one. */
static ncclResult_t worse(ncclResult_t result, ncclResult_t next)
{
    return result != ncclSuccess && result != ncclInProgress ? result : next;
}

static ncclResult_t ring_call(const struct view *view)
{
    int next = (view->place + 1) % view->count, previous = (view->place + view->count - 1) % view->count;
    ncclResult_t result = ncclGroupStart();
    result = worse(result, ncclSend(view->send, view->send_bytes, ncclUint8, next, view->comm, view->stream));
    result = worse(result, ncclRecv(view->recv, view->recv_bytes, ncclUint8, previous, view->comm, view->stream));
    return worse(result, ncclGroupEnd());
}

static ncclResult_t uneven_call(const struct view *view)
{
    const struct chaos_action *action = view->action;
    ncclResult_t result = ncclGroupStart();
    if (view->send_bytes)
        result =
            worse(result, ncclSend(view->send, view->send_bytes, ncclUint8, action->root, view->comm, view->stream));
    for (int i = 0; view->recv_bytes && i < view->count; i++) {
        char *to = view->recv + chaos_uneven_offset(action, action->root, i);
        size_t bytes = (size_t)(i + 1) * action->count;
        if (i != action->root)
            result = worse(result, ncclRecv(to, bytes, ncclUint8, i, view->comm, view->stream));
    }
    return worse(result, ncclGroupEnd());
}

/* NCCL has it from 2.28 on; before, it was made of sends and receives. */
static ncclResult_t all_to_all_call(const struct view *view)
{
    size_t part = view->action->count;
#if NCCL_VERSION_CODE >= 22800
    return ncclAlltoAll(view->send, view->recv, part, ncclUint8, view->comm, view->stream);
#else
    ncclResult_t result = ncclGroupStart();
    for (int i = 0; i < view->count; i++) {
        size_t at = (size_t)i * part;
        result = worse(result, ncclSend(view->send + at, part, ncclUint8, i, view->comm, view->stream));
        result = worse(result, ncclRecv(view->recv + at, part, ncclUint8, i, view->comm, view->stream));
    }
    return worse(result, ncclGroupEnd());
#endif
}

static ncclResult_t gather_call(const struct chaos_rank *me, const struct view *view)
{
    static const ncclDataType_t types[] = {[1] = ncclUint8, [2] = ncclBfloat16, [4] = ncclFloat, [8] = ncclInt64};
    const struct chaos_unit *unit = &me->program->units[view->action->unit];
    size_t count = unit->bytes / unit->element_bytes;
    return ncclAllGather(view->send, view->recv, count, types[unit->element_bytes], view->comm, view->stream);
}

ncclResult_t chaos_operation_call(struct chaos_rank *me, const struct chaos_action *action)
{
    struct view view = view_of(me, action);
    ncclDataType_t type = action->integers ? ncclInt32 : ncclFloat;
    ncclRedOp_t op = action->maximum ? ncclMax : ncclSum;
    switch (action->kind) {
    case CHAOS_GATHER:
        return gather_call(me, &view);
    case CHAOS_REDUCE_SCATTER:
        return ncclReduceScatter(view.send, view.recv, action->count, type, op, view.comm, view.stream);
    case CHAOS_ALL_REDUCE:
        return ncclAllReduce(view.send, view.recv, action->count, type, op, view.comm, view.stream);
    case CHAOS_BROADCAST:
        return ncclBroadcast(view.send, view.recv, action->count, ncclUint8, action->root, view.comm, view.stream);
    case CHAOS_ALL_TO_ALL:
        return all_to_all_call(&view);
    case CHAOS_UNEVEN:
        return uneven_call(&view);
    case CHAOS_PEER_RECV:
        return view.recv_bytes ? ncclRecv(view.recv, view.recv_bytes, ncclUint8, me->rank - 1, view.comm, view.stream)
                               : ncclSuccess;
    case CHAOS_PEER_SEND:
        return view.send_bytes ? ncclSend(view.send, view.send_bytes, ncclUint8, me->rank + 1, view.comm, view.stream)
                               : ncclSuccess;
    default:
        return ring_call(&view);
    }
}

/* Behind ----------------------------------------------------------------------------------------------------------- */

void chaos_operation_after(struct chaos_rank *me, const struct chaos_action *action)
{
    struct view view = view_of(me, action);
    struct chaos_delivery delivery = {.action = action, .device = view.recv, .bytes = view.recv_bytes};
    if (view.recv_bytes)
        chaos_delivered(me, &delivery, action->thread, view.stream, action->late ? view.buffer : NULL);
    chaos_buffer_used(me, view.buffer, view.stream);
    if (action->kind == CHAOS_PEER_RECV)
        CHAOS_CUDA(me, cudaEventRecord(me->peer_done, view.stream));
    if (action->kind != CHAOS_GATHER)
        return;
    if (me->program->units[action->unit].send == CHAOS_SEND_PERSISTENT)
        chaos_buffer_used(me, &me->shards[action->unit], view.stream);
    if (me->program->units[action->unit].send == CHAOS_SEND_STAGED)
        chaos_buffer_used(me, &me->staged[action->unit], view.stream);
}
