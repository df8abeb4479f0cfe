/* Streams, events and captures, for stream.cpp and graph.cpp. Work is queued and runs when
   someone waits for it, so that a missing wait shows as stale data. */
#ifndef HOSTCUDA_STREAM_H
#define HOSTCUDA_STREAM_H

#include "hostcuda.h"
#include <deque>

namespace hostcuda {

using action = std::function<cudaError_t()>;

/* All work of a stream up to its `number`th operation. */
struct mark {
    cudaStream_t stream;
    uint64_t number;
};

namespace race {
struct past;
}

struct operation {
    action run;
    std::vector<mark> after;                  /* of other streams */
    std::shared_ptr<const race::past> issued; /* the host's clock, see race.h */
};

struct node {
    action run;
    std::vector<size_t> after; /* earlier nodes */
};

/* Between cudaStreamBeginCapture and cudaStreamEndCapture. */
struct capture {
    cudaStream_t origin;
    cudaStreamCaptureMode mode;
    bool broken = false;
    std::vector<node> nodes;
    std::vector<cudaStream_t> members;
};

/* The stream of a handle; nullptr if invalid. */
cudaStream_t stream_of(cudaStream_t handle);

/* Runs the stream's work up to its `number`th operation. */
cudaError_t run_until(cudaStream_t stream, uint64_t number);

/* Adds the elements of `from` to `to`, each once. */
void join(std::vector<size_t> &to, const std::vector<size_t> &from);

/* Number of captures that are not in relaxed mode. */
extern unsigned strict_captures;

/* Runs an executable graph, in an order that its edges allow. */
cudaError_t replay(const std::vector<node> &nodes);
void release_graphs();

} // namespace hostcuda

/* Kept until cudaDeviceReset, so that marks in other queues stay valid. */
struct CUstream_st {
    bool blocking; /* waits for the legacy stream, which waits for it */
    int device = 0;
    bool destroyed = false;
    std::deque<hostcuda::operation> queue;
    uint64_t enqueued = 0, done = 0;
    std::shared_ptr<hostcuda::capture> capture; /* its current capture */
    std::vector<size_t> tail;                   /* nodes that its next one follows */
};

#endif
