/*
 * Actions as the program issues them: alone, in a group, or captured and launched.
 */
#include "tests/chaos/chaos_rank.h"

#include <unistd.h>

#define ATTEMPTS 3
#define NAP_US 50

static void write_unit(struct chaos_rank *me, const struct chaos_action *action)
{
    const struct chaos_unit *unit = &me->program->units[action->unit];
    struct chaos_buffer *shard = &me->shards[action->unit];
    char *staging = me->threads[action->thread].staging;
    if (!(action->ranks >> me->rank & 1))
        return;
    chaos_content_write(staging, unit->bytes, &action->content[me->rank], me->rank);
    cudaStream_t stream = me->streams[action->stream];
    chaos_buffer_use(me, shard, stream);
    char *to = chaos_buffer_data(shard) + unit->offset;
    CHAOS_CUDA(me, cudaMemcpyAsync(to, staging, unit->bytes, cudaMemcpyHostToDevice, stream));
    chaos_buffer_used(me, shard, stream);
}

/* Calls ------------------------------------------------------------------------------------------------------------ */

static ncclResult_t calls(struct chaos_rank *me, const struct chaos_action *actions, int count)
{
    ncclResult_t result = ncclSuccess;
    for (int i = 0; i < count && (result == ncclSuccess || result == ncclInProgress); i++)
        result = chaos_operation_call(me, &actions[i]);
    return result;
}

static ncclResult_t group_call(struct chaos_rank *me, const struct chaos_action *actions, int count)
{
    CHAOS_NCCL(me, ncclGroupStart());
    ncclResult_t result = calls(me, actions, count);
    ncclResult_t ended = ncclGroupEnd();
    return result != ncclSuccess && result != ncclInProgress ? result : ended;
}

/* Only gathers give the same when they are made twice. */
static bool repeatable(const struct chaos_action *actions, int count)
{
    for (int i = 0; i < count; i++)
        if (actions[i].kind != CHAOS_GATHER)
            return false;
    return actions[0].poison;
}

static ncclResult_t capture_call(struct chaos_rank *me, const struct chaos_action *actions, int count)
{
    struct chaos_thread *thread = &me->threads[actions[0].thread];
    cudaStream_t stream = chaos_stream_of(me, &actions[0]);
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CHAOS_CUDA(me, cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    ncclResult_t result = count > 1 ? group_call(me, actions, count) : calls(me, actions, count);
    CHAOS_CUDA(me, cudaStreamEndCapture(stream, &graph));
    CHAOS_CUDA(me, cudaGraphInstantiate(&exec, graph, 0));
    CHAOS_CUDA(me, cudaGraphDestroy(graph));
    for (int i = 0; i < (repeatable(actions, count) ? 2 : 1); i++)
        CHAOS_CUDA(me, cudaGraphLaunch(exec, stream));
    if (thread->graph_count == CHAOS_GRAPHS_MAX)
        chaos_die(me, "more graphs than there is room for");
    thread->graphs[thread->graph_count++] = exec;
    return result;
}

static ncclResult_t bracket_call(struct chaos_rank *me, const struct chaos_action *actions, int count)
{
    ncclResult_t result;
    if (actions[0].bracket == CHAOS_GROUP)
        result = group_call(me, actions, count);
    else if (actions[0].bracket == CHAOS_CAPTURE)
        result = capture_call(me, actions, count);
    else
        result = calls(me, actions, count);
    for (int i = 0; i < count && me->program->nonblocking; i++)
        result = chaos_comm_settle(me, me->comms[actions[i].comm], result == ncclSuccess ? ncclInProgress : result);
    return result;
}

static void rank0_await(struct chaos_rank *me, uint32_t index)
{
    while (atomic_load_explicit(&me->shared->issued, memory_order_acquire) <= index)
        usleep(NAP_US);
}

/* A call that fails by a fault has done nothing, and is made again. */
static void operations(struct chaos_rank *me, const struct chaos_action *actions, int count)
{
    uint32_t index = (uint32_t)(actions - me->program->actions);
    ncclResult_t result = ncclSystemError;
    for (int i = 0; i < count; i++)
        chaos_operation_before(me, &actions[i]);
    if (actions[0].host_wait && me->rank > 0)
        rank0_await(me, index);
    for (int i = 0; i < ATTEMPTS && result == ncclSystemError; i++) {
        result = bracket_call(me, actions, count);
        chaos_figures_of(me)->errors += result == ncclSystemError;
    }
    chaos_nccl(me, result, "a collective");
    if (actions[0].host_wait && me->rank == 0)
        atomic_store_explicit(&me->shared->issued, index + 1, memory_order_release);
    for (int i = 0; i < count; i++)
        chaos_operation_after(me, &actions[i]);
    chaos_figures_of(me)->operations += (uint64_t)count;
}

void chaos_issue(struct chaos_rank *me, const struct chaos_action *actions, int count)
{
    const struct chaos_action *first = &actions[0];
    switch (first->kind) {
    case CHAOS_WRITE:
        write_unit(me, first);
        break;
    case CHAOS_REALLOC:
        chaos_buffer_renew(me, first);
        break;
    case CHAOS_BALLOON:
        chaos_balloon(me);
        break;
    case CHAOS_SYNC:
        CHAOS_CUDA(me, cudaDeviceSynchronize());
        break;
    case CHAOS_LAG:
        if (first->root == me->rank)
            usleep(first->count);
        break;
    case CHAOS_REMAKE:
        chaos_comm_end(me, first->comm, first->in_place);
        chaos_comm_make(me, first->comm);
        break;
    case CHAOS_DESTROY:
        chaos_comm_end(me, first->comm, first->in_place);
        break;
    default:
        operations(me, actions, count);
    }
    /* What a framework checks after its launches: nobody has left an error behind. */
    chaos_cuda(me, cudaPeekAtLastError(), "an error is left behind");
}

/* What fails by a fault fails on all ranks, and is not missed. */
void chaos_issue_careless(struct chaos_rank *me, const struct chaos_action *action)
{
    chaos_operation_before(me, action);
    ncclResult_t result = chaos_operation_call(me, action);
    if (result != ncclSystemError)
        chaos_nccl(me, chaos_comm_settle(me, me->comms[action->comm], result), "a gather before the abort");
}
