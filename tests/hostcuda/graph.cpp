/* Graphs: a capture's nodes with their edges, replayed in any order that these allow. */
#include "race.h"
#include "stream.h"

using namespace hostcuda;

struct CUgraph_st {
    std::vector<node> nodes;
};

struct CUgraphExec_st {
    std::shared_ptr<const std::vector<node>> nodes; /* launches hold it, too */
};

namespace {

std::vector<std::unique_ptr<CUgraph_st>> graphs;
std::vector<std::unique_ptr<CUgraphExec_st>> executables;

template <typename T> size_t index_of(const std::vector<std::unique_ptr<T>> &all, const T *one) {
    size_t i = 0;
    while (i < all.size() && all[i].get() != one) {
        ++i;
    }
    return i;
}

template <typename T> cudaError_t destroy(std::vector<std::unique_ptr<T>> &all, const T *one) {
    const size_t i = index_of(all, one);
    if (i == all.size()) {
        return fail(cudaErrorInvalidValue, "%p is no graph", (const void *)one);
    }
    all.erase(all.begin() + (long)i);
    return cudaSuccess;
}

/* Whether every node precedes one of the origin's last nodes. */
bool joined(const capture &c) {
    std::vector<bool> before(c.nodes.size());
    for (size_t node : c.origin->tail) {
        before[node] = true;
    }
    for (size_t i = c.nodes.size(); i-- > 0;) {
        for (size_t earlier : c.nodes[i].after) {
            before[earlier] = before[earlier] || before[i];
        }
    }
    bool all = true;
    for (bool b : before) {
        all = all && b;
    }
    return all;
}

} // namespace

namespace hostcuda {

/* Without a seed in the order of the capture; with one, in any order that the edges allow. */
cudaError_t replay(const std::vector<node> &nodes) {
    std::vector<bool> done(nodes.size());
    race::begin_graph(nodes.size());
    for (size_t left = nodes.size(); left > 0; --left) {
        std::vector<size_t> ready;
        for (size_t i = 0; i < nodes.size() && (ready.empty() || setting().seed); ++i) {
            bool can = !done[i];
            for (size_t earlier : nodes[i].after) {
                can = can && done[earlier];
            }
            if (can) {
                ready.push_back(i);
            }
        }
        const size_t next = ready[setting().seed ? chance(ready.size()) : 0];
        done[next] = true;
        race::begin_node(next, nodes[next].after);
        if (cudaError_t error = nodes[next].run()) {
            return error;
        }
        race::end_node(next);
    }
    race::end_graph();
    return cudaSuccess;
}

void release_graphs() {
    graphs.clear();
    executables.clear();
}

} // namespace hostcuda

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, enum cudaStreamCaptureMode mode) {
    HOSTCUDA_BEGIN();
    CUstream_st *stream = stream_of(handle);
    if (!stream || !handle || handle == cudaStreamLegacy) {
        return fail(cudaErrorStreamCaptureUnsupported, "%s: %p cannot be captured", __func__,
                    (void *)handle);
    }
    if (stream->capture) {
        return fail(cudaErrorIllegalState, "%s: captured already", __func__);
    }
    stream->capture = std::make_shared<capture>();
    stream->capture->origin = stream;
    stream->capture->mode = mode;
    stream->capture->members = {stream};
    stream->tail.clear();
    strict_captures += mode != cudaStreamCaptureModeRelaxed;
    return cudaSuccess;
}

/* The capture has ended, also after a failure. */
cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t *graph) {
    const cudaError_t begun = begin(__func__);
    *graph = nullptr;
    CUstream_st *stream = stream_of(handle);
    if (!stream || !stream->capture) {
        return fail(cudaErrorIllegalState, "%s: the stream is not captured", __func__);
    }
    const std::shared_ptr<capture> c = stream->capture;
    if (c->origin != stream) {
        c->broken = true;
        return fail(cudaErrorStreamCaptureUnmatched, "%s: begun in another stream", __func__);
    }
    const bool whole = joined(*c);
    for (cudaStream_t member : c->members) {
        member->capture = nullptr;
        member->tail.clear();
    }
    strict_captures -= c->mode != cudaStreamCaptureModeRelaxed;
    if (begun) {
        return begun;
    }
    if (c->broken) {
        return note(cudaErrorStreamCaptureInvalidated);
    }
    if (!whole) {
        return fail(cudaErrorStreamCaptureUnjoined, "%s: a stream that took part was not joined",
                    __func__);
    }
    graphs.push_back(std::make_unique<CUgraph_st>());
    graphs.back()->nodes = std::move(c->nodes);
    *graph = graphs.back().get();
    return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, enum cudaStreamCaptureStatus *status) {
    HOSTCUDA_BEGIN();
    CUstream_st *stream = stream_of(handle);
    if (!stream) {
        return fail(cudaErrorInvalidResourceHandle, "%s: no stream", __func__);
    }
    *status = !stream->capture          ? cudaStreamCaptureStatusNone
              : stream->capture->broken ? cudaStreamCaptureStatusInvalidated
                                        : cudaStreamCaptureStatusActive;
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *executable, cudaGraph_t graph,
                                 unsigned long long flags) {
    HOSTCUDA_BEGIN();
    *executable = nullptr;
    if (index_of(graphs, graph) == graphs.size() || flags != 0) {
        return fail(cudaErrorInvalidValue, "%s: no graph, or flags %#llx", __func__, flags);
    }
    executables.push_back(std::make_unique<CUgraphExec_st>());
    executables.back()->nodes = std::make_shared<const std::vector<node>>(graph->nodes);
    *executable = executables.back().get();
    if (setting().trace) {
        fprintf(stderr, "hostcuda: graph %p of %zu nodes\n", (void *)*executable,
                graph->nodes.size());
    }
    return cudaSuccess;
}

cudaError_t cudaGraphUpload(cudaGraphExec_t executable, cudaStream_t stream) {
    HOSTCUDA_BEGIN();
    if (index_of(executables, executable) == executables.size()) {
        return fail(cudaErrorInvalidValue, "%s: no executable graph", __func__);
    }
    return enqueue(stream, [] { return cudaSuccess; });
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
    HOSTCUDA_BEGIN();
    if (index_of(executables, executable) == executables.size()) {
        return fail(cudaErrorInvalidValue, "%s: no executable graph", __func__);
    }
    if (capturing(stream_of(stream))) {
        return fail(cudaErrorNotSupported, "%s: no graphs in graphs here", __func__);
    }
    auto nodes = executable->nodes;
    return enqueue(stream, [nodes] { return replay(*nodes); });
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
    HOSTCUDA_BEGIN();
    if (setting().trace) {
        fprintf(stderr, "hostcuda: graph %p destroyed\n", (void *)executable);
    }
    return destroy(executables, executable);
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    HOSTCUDA_BEGIN();
    return destroy(graphs, graph);
}

/* The handles are only for counting. */
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count) {
    HOSTCUDA_BEGIN();
    if (index_of(graphs, graph) == graphs.size()) {
        return fail(cudaErrorInvalidValue, "%s: no graph", __func__);
    }
    const size_t all = graph->nodes.size();
    for (size_t i = 0; nodes && i < *count; ++i) {
        nodes[i] = i < all ? (cudaGraphNode_t)&graph->nodes[i] : nullptr;
    }
    *count = nodes ? min(*count, all) : all;
    return cudaSuccess;
}
}
