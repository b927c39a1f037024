/*
 * Graphs made by capture. A launch is one piece of work that runs the nodes in the order of capture, which is a
 * topological order, on one thread; their modelled spans follow the dependencies, so branches overlap. The launch
 * joins the chains of all its nodes.
 */
#include "engine_internal.h"

#include <stdlib.h>

void fake_graph_drop(struct CUgraph_st *graph)
{
    if (!graph || atomic_fetch_sub(&graph->references, 1) != 1)
        return;
    for (int i = 0; i < graph->count; i++) {
        fake_work_release(&graph->nodes[i].work);
        fake_frontier_clear(&graph->nodes[i].after);
    }
    free(graph->nodes);
    free(graph);
}

cudaError_t fake_graph_destroy(cudaGraph_t graph)
{
    if (!graph)
        return cudaErrorInvalidValue;
    fake_graph_drop(graph);
    return cudaSuccess;
}

cudaError_t fake_graph_nodes(cudaGraph_t graph, size_t *count_out)
{
    if (!graph || !count_out)
        return cudaErrorInvalidValue;
    *count_out = (size_t)graph->count;
    return cudaSuccess;
}

cudaError_t fake_graph_instantiate(cudaGraphExec_t *exec_out, cudaGraph_t graph)
{
    if (!exec_out || !graph)
        return cudaErrorInvalidValue;
    struct CUgraphExec_st *exec = fake_need(calloc(1, sizeof *exec));
    exec->graph = graph;
    atomic_fetch_add(&graph->references, 1);
    *exec_out = exec;
    return cudaSuccess;
}

cudaError_t fake_graph_exec_destroy(cudaGraphExec_t exec)
{
    if (!exec)
        return cudaErrorInvalidValue;
    fake_graph_drop(exec->graph);
    free(exec);
    return cudaSuccess;
}

static uint64_t graph_run(void *payload, uint64_t ready)
{
    struct CUgraph_st *graph = payload;
    uint64_t *ends = fake_need(calloc((size_t)graph->count + 1, sizeof *ends));
    uint64_t end = ready;
    for (int i = 0; i < graph->count; i++) {
        const struct fake_node *node = &graph->nodes[i];
        uint64_t start = ready;
        for (int k = 0; k < node->after.count; k++)
            if (ends[node->after.nodes[k]] > start)
                start = ends[node->after.nodes[k]];
        ends[i] = node->work.run ? node->work.run(node->work.payload, start) : start;
        end = ends[i] > end ? ends[i] : end;
    }
    free(ends);
    return end;
}

static void graph_release(void *payload)
{
    fake_graph_drop(payload);
}

cudaError_t fake_graph_launch(cudaGraphExec_t exec, cudaStream_t stream)
{
    if (!exec)
        return cudaErrorInvalidValue;
    cudaError_t error = fake_stream_check_device(stream);
    if (error != cudaSuccess)
        return error;
    atomic_fetch_add(&exec->graph->references, 1);
    struct fake_work work = {graph_run, graph_release, exec->graph, NULL};
    return fake_submit_graph(stream, exec->graph, &work);
}
