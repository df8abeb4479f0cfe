/* Segments as graphs: captured when their shapes occur for the second time, and launched as one
   from then on. Without a graph a segment has the same bits, kernel by kernel: a failure only
   costs time. */
#include "ensemble.cuh"

#include <string.h>

extern "C" {
#include "common/log.h"
}

/* A node needs some 8 KiB on the device, by estimate: its arguments are up to 4 KiB, and CUDA
   uses as much again. */
enum {
    NODE_BYTES = 8 << 10,
    GRAPH_NODES_MAX = 1024,  /* longer segments are launched kernel by kernel */
    GRAPHS_NODES_MAX = 4096, /* of all graphs together */
    /* segments: a graph used more recently is not replaced, or too many shapes would replace
       each other's graphs each time */
    GRAPH_REST = 4096,
};

size_t graphs_budget(const struct engine *e) {
    uint32_t window = e->network.window;
    struct shape longest = {};
    longest.steps = window < RUN_MAX ? window : RUN_MAX;
    longest.length = window;
    longest.probe = true;
    size_t nodes = branch_nodes(e, &longest);
    if (window >= GEMM_STEPS)
        nodes += e->gradient.count;
    nodes = nodes < GRAPH_NODES_MAX ? nodes : GRAPH_NODES_MAX;
    size_t all = GRAPHS_MAX * nodes;
    return (all < GRAPHS_NODES_MAX ? all : GRAPHS_NODES_MAX) * NODE_BYTES;
}

static void forget(struct ensemble *x, struct captured *graph) {
    if (graph->graph) {
        /* the graph may be running; the next call returns an error */
        cudaStreamSynchronize(ensemble_stream(x));
        cudaGraphExecDestroy(graph->graph);
        x->graph_nodes -= graph->nodes;
    }
    graph->graph = NULL;
    graph->nodes = 0;
    graph->used = 0;
}

void ensemble_forget_graphs(struct ensemble *x) {
    for (size_t k = 0; k < GRAPHS_MAX; k++)
        forget(x, &x->graphs[k]);
    x->graphs_end = false; /* their memory is free again */
}

/* Order in which places are replaced. Of recent shapes without a graph the newest is replaced:
   if it were the oldest, more recurring shapes than places would never find theirs. */
enum rank { FREE, RESTS, WAITS, IN_USE };

static enum rank rank_of(const struct ensemble *x, const struct captured *graph) {
    if (graph->used == 0)
        return FREE;
    if (x->clock - graph->used > GRAPH_REST)
        return RESTS;
    return graph->graph ? IN_USE : WAITS;
}

/* Whether `a` should be replaced before `b`. */
static bool is_dispensable(const struct ensemble *x, const struct captured *a,
                           const struct captured *b) {
    enum rank of_a = rank_of(x, a), of_b = rank_of(x, b);
    if (of_a != of_b)
        return of_a < of_b;
    return of_a == WAITS ? a->used > b->used : a->used < b->used;
}

/* The place of those shapes, or else the first one to be replaced. */
static struct captured *find_graph(struct ensemble *x, const struct shape *shapes) {
    struct captured *room = &x->graphs[0];
    for (size_t k = 0; k < GRAPHS_MAX; k++) {
        struct captured *graph = &x->graphs[k];
        if (graph->used && same_shapes(graph->shapes, shapes, x->count))
            return graph;
        if (is_dispensable(x, graph, room))
            room = graph;
    }
    return room;
}

/* Room for `count` more nodes; false if a graph in use would have to go. */
static bool make_room(struct ensemble *x, size_t count) {
    while (x->graph_nodes + count > GRAPHS_NODES_MAX) {
        struct captured *oldest = NULL;
        for (size_t k = 0; k < GRAPHS_MAX; k++)
            if (x->graphs[k].graph && (!oldest || x->graphs[k].used < oldest->used))
                oldest = &x->graphs[k];
        if (!oldest || rank_of(x, oldest) == IN_USE)
            return false;
        forget(x, oldest);
    }
    return true;
}

/* Captures the segment's kernels as a graph, and uploads it: later launches allocate no memory. */
static cudaError_t capture(struct ensemble *x, struct captured *place, const struct shape *shapes) {
    cudaGraph_t graph = NULL;
    cudaError_t status = cudaStreamBeginCapture(ensemble_stream(x), cudaStreamCaptureModeRelaxed);
    if (status != cudaSuccess)
        return status;
    status = ensemble_enqueue(x, shapes);
    cudaError_t ended = cudaStreamEndCapture(ensemble_stream(x), &graph);
    status = status ? status : ended;
    if (status == cudaSuccess)
        status = cudaGraphInstantiate(&place->graph, graph, 0);
    if (graph)
        cudaGraphDestroy(graph);
    return status ? status : cudaGraphUpload(place->graph, ensemble_stream(x));
}

/* No more graphs are created until memory for plans is allocated again. A sticky error is the
   device's: the next call returns it, too. */
static void end_graphs(struct ensemble *x, cudaError_t status) {
    x->graphs_end = true;
    cudaGetLastError();
    if (x->graphs_reported || cudaPeekAtLastError() != cudaSuccess)
        return;
    x->graphs_reported = true;
    log_warning("cannot create another CUDA graph for this network: CUDA error: %s (%s); kernels "
                "are launched one by one instead: same results, but slower; free GPU memory",
                cudaGetErrorString(status), cudaGetErrorName(status));
}

static void make_graph(struct ensemble *x, struct captured *place, size_t count) {
    if (x->graphs_end || !make_room(x, count))
        return;
    cudaError_t status = capture(x, place, place->shapes);
    if (status == cudaSuccess) {
        place->nodes = (uint32_t)count;
        x->graph_nodes += count;
        return;
    }
    if (place->graph)
        cudaGraphExecDestroy(place->graph);
    place->graph = NULL;
    end_graphs(x, status);
}

/* The first occurrence of a shape is launched kernel by kernel: it may be the only one, and CUDA
   loads kernels at their first launch, outside of a capture. */
cudaError_t ensemble_replay(struct ensemble *x, const struct shape *shapes) {
    size_t count = ensemble_nodes(x, shapes);
    x->clock++;
    if (count > GRAPH_NODES_MAX)
        return ensemble_enqueue(x, shapes);
    struct captured *graph = find_graph(x, shapes);
    bool known = graph->used && same_shapes(graph->shapes, shapes, x->count);
    if (known && !graph->graph)
        make_graph(x, graph, count);
    if (!known && rank_of(x, graph) != IN_USE) {
        forget(x, graph);
        memcpy(graph->shapes, shapes, x->count * sizeof *shapes);
        known = true;
    }
    if (known)
        graph->used = x->clock;
    if (!known || !graph->graph)
        return ensemble_enqueue(x, shapes);
    cudaError_t status = cudaGraphLaunch(graph->graph, ensemble_stream(x));
    if (status != cudaErrorMemoryAllocation)
        return status;
    forget(x, graph);
    end_graphs(x, status);
    return ensemble_enqueue(x, shapes);
}
