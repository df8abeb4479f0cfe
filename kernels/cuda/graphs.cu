/* Segments as graphs: captured when their shapes come for the second time, and launched at once
   from then on. Without a graph a segment has the same bits, kernel by kernel: so whatever keeps
   one from being made costs time alone, and ends nothing. */
#include "ensemble.cuh"

#include <string.h>

extern "C" {
#include "common/log.h"
}

/* A node takes some 8 KiB of the device, by estimate: its arguments are up to 4 KiB, and CUDA keeps
   as much beside them. */
enum {
    NODE_BYTES = 8 << 10,
    GRAPH_NODES_MAX = 1024,  /* a longer segment is launched kernel by kernel */
    GRAPHS_NODES_MAX = 4096, /* of all graphs together */
    GRAPH_REST = 4096,       /* segments: a graph that was met since then makes no room for another,
                                for more shapes than there is room for would have each captured anew */
};

size_t graphs_budget(const struct engine *e) {
    uint32_t window = e->network.window;
    struct shape longest = {};
    longest.steps = window < RUN_MAX ? window : RUN_MAX;
    longest.length = window;
    size_t nodes = branch_nodes(e, &longest);
    if (window >= GEMM_STEPS)
        nodes += e->gradient.count;
    nodes = nodes < GRAPH_NODES_MAX ? nodes : GRAPH_NODES_MAX;
    size_t all = GRAPHS_MAX * nodes;
    return (all < GRAPHS_NODES_MAX ? all : GRAPHS_NODES_MAX) * NODE_BYTES;
}

static void forget(struct ensemble *x, struct captured *graph) {
    if (graph->graph) {
        /* it may be under way; the next call says what failed */
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

/* How dispensable a place is. Of shapes that were met not long ago, but have no graph, the newest
   goes: if the oldest did, more shapes than places that come in turn would never find theirs. */
enum rank { FREE, RESTS, WAITS, IN_USE };

static enum rank rank_of(const struct ensemble *x, const struct captured *graph) {
    if (graph->used == 0)
        return FREE;
    if (x->clock - graph->used > GRAPH_REST)
        return RESTS;
    return graph->graph ? IN_USE : WAITS;
}

/* Whether `a` should make room rather than `b`. */
static bool is_dispensable(const struct ensemble *x, const struct captured *a,
                           const struct captured *b) {
    enum rank of_a = rank_of(x, a), of_b = rank_of(x, b);
    if (of_a != of_b)
        return of_a < of_b;
    return of_a == WAITS ? a->used > b->used : a->used < b->used;
}

/* The place of those shapes; else one that should make room for it before all others. */
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

/* Room for so many nodes more; false where it would take a graph that is still in use. */
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

/* The segment's kernels become a graph, which is uploaded at once: later launches take no memory.
 */
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

/* What has no graph by now gets none, until memory for plans has been taken anew. An error that
   stays is the device's: the next call returns it, too. */
static void end_graphs(struct ensemble *x, cudaError_t status) {
    x->graphs_end = true;
    cudaGetLastError();
    if (x->graphs_told || cudaPeekAtLastError() != cudaSuccess)
        return;
    x->graphs_told = true;
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

/* A shape that comes for the first time is launched kernel by kernel: it may be the last time, and
   what CUDA loads at a first launch is loaded outside of a capture. */
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
