/* Segments as graphs: captured when their shape comes for the second time, and launched at once
   from then on. Without a graph a segment has the same bits, kernel by kernel: so whatever keeps
   one from being made costs time alone, and ends nothing. */
#include "engine.cuh"

extern "C" {
#include "common/log.h"
}

/* A node takes some 8 KiB of the device, by estimate: its arguments are up to 4 KiB, and CUDA keeps
   as much beside them. All together stay within half of what is left for plans and graphs. */
enum {
    GRAPH_NODES_MAX = 1024,  /* a longer segment is launched kernel by kernel */
    GRAPHS_NODES_MAX = 4096, /* of all graphs together */
    GRAPH_REST = 4096,       /* segments: a graph that was met since then makes no room for another,
                                for more shapes than there is room for would have each captured anew */
};

/* An upper bound of the launches of a segment. */
static size_t nodes(const struct engine *e, const struct shape *shape) {
    size_t layers = e->network.layer_count, others = 23 + e->gradient.count;
    return (size_t)shape->steps + 2 * (size_t)shape->length + 3 * layers + others;
}

static bool same(const struct shape *a, const struct shape *b) {
    return a->steps == b->steps && a->length == b->length && a->recompute == b->recompute &&
           a->measure == b->measure && a->lead_solve == b->lead_solve && a->solve == b->solve;
}

static void forget(struct engine *e, struct captured *graph) {
    if (graph->graph) {
        cudaStreamSynchronize(e->stream); /* it may be under way; the next call says what failed */
        cudaGraphExecDestroy(graph->graph);
        e->graph_nodes -= graph->nodes;
    }
    *graph = (struct captured){};
}

void engine_forget_graphs(struct engine *e) {
    for (size_t k = 0; k < GRAPHS_MAX; k++)
        forget(e, &e->graphs[k]);
    e->graphs_end = false; /* their memory is free again */
}

/* How dispensable a place is. Of shapes that were met not long ago, but have no graph, the newest
   goes: if the oldest did, more shapes than places that come in turn would never find theirs. */
enum rank { FREE, RESTS, WAITS, IN_USE };

static enum rank rank_of(const struct engine *e, const struct captured *graph) {
    if (graph->used == 0)
        return FREE;
    if (e->clock - graph->used > GRAPH_REST)
        return RESTS;
    return graph->graph ? IN_USE : WAITS;
}

/* Whether `a` should make room rather than `b`. */
static bool is_dispensable(const struct engine *e, const struct captured *a,
                           const struct captured *b) {
    enum rank of_a = rank_of(e, a), of_b = rank_of(e, b);
    if (of_a != of_b)
        return of_a < of_b;
    return of_a == WAITS ? a->used > b->used : a->used < b->used;
}

/* The place of that shape; else one that should make room for it before all others. */
static struct captured *find_graph(struct engine *e, const struct shape *shape) {
    struct captured *room = &e->graphs[0];
    for (size_t k = 0; k < GRAPHS_MAX; k++) {
        struct captured *graph = &e->graphs[k];
        if (graph->used && same(&graph->shape, shape))
            return graph;
        if (is_dispensable(e, graph, room))
            room = graph;
    }
    return room;
}

/* Room for so many nodes more; false where it would take a graph that is still in use. */
static bool make_room(struct engine *e, size_t count) {
    while (e->graph_nodes + count > GRAPHS_NODES_MAX) {
        struct captured *oldest = NULL;
        for (size_t k = 0; k < GRAPHS_MAX; k++)
            if (e->graphs[k].graph && (!oldest || e->graphs[k].used < oldest->used))
                oldest = &e->graphs[k];
        if (!oldest || rank_of(e, oldest) == IN_USE)
            return false;
        forget(e, oldest);
    }
    return true;
}

/* The segment's kernels become a graph, which is uploaded at once: later launches take no memory.
 */
static cudaError_t capture(struct engine *e, struct captured *place, const struct shape *shape) {
    cudaGraph_t graph = NULL;
    cudaError_t status = cudaStreamBeginCapture(e->stream, cudaStreamCaptureModeRelaxed);
    if (status != cudaSuccess)
        return status;
    status = engine_enqueue(e, shape);
    cudaError_t ended = cudaStreamEndCapture(e->stream, &graph);
    status = status ? status : ended;
    if (status == cudaSuccess)
        status = cudaGraphInstantiate(&place->graph, graph, 0);
    if (graph)
        cudaGraphDestroy(graph);
    return status ? status : cudaGraphUpload(place->graph, e->stream);
}

/* What has no graph by now gets none, until memory for plans has been taken anew. An error that
   stays is the device's: the next call returns it, too. */
static void end_graphs(struct engine *e, cudaError_t status) {
    e->graphs_end = true;
    cudaGetLastError();
    if (e->graphs_told || cudaPeekAtLastError() != cudaSuccess)
        return;
    e->graphs_told = true;
    log_warning(
        "the GPU has no more CUDA graphs for this network: CUDA says: %s (%s); what has none "
        "is launched kernel by kernel: the same results, but slower; free some of the GPU's "
        "memory",
        cudaGetErrorString(status), cudaGetErrorName(status));
}

static void make_graph(struct engine *e, struct captured *place, size_t count) {
    if (e->graphs_end || !make_room(e, count))
        return;
    cudaError_t status = capture(e, place, &place->shape);
    if (status == cudaSuccess) {
        place->nodes = (uint32_t)count;
        e->graph_nodes += count;
        return;
    }
    if (place->graph)
        cudaGraphExecDestroy(place->graph);
    place->graph = NULL;
    end_graphs(e, status);
}

/* A shape that comes for the first time is launched kernel by kernel: it may be the last time, and
   what CUDA loads at a first launch is loaded outside of a capture. */
cudaError_t engine_replay(struct engine *e, const struct shape *shape) {
    size_t count = nodes(e, shape);
    e->clock++;
    if (count > GRAPH_NODES_MAX)
        return engine_enqueue(e, shape);
    struct captured *graph = find_graph(e, shape);
    bool known = graph->used && same(&graph->shape, shape);
    if (known && !graph->graph)
        make_graph(e, graph, count);
    if (!known && rank_of(e, graph) != IN_USE) {
        forget(e, graph);
        graph->shape = *shape;
        known = true;
    }
    if (known)
        graph->used = e->clock;
    if (!known || !graph->graph)
        return engine_enqueue(e, shape);
    cudaError_t status = cudaGraphLaunch(graph->graph, e->stream);
    if (status != cudaErrorMemoryAllocation)
        return status;
    forget(e, graph);
    end_graphs(e, status);
    return engine_enqueue(e, shape);
}
