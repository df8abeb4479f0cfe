/* Streams, events and captures: what stream.cpp and graph.cpp share. Work is put into queues and
   runs when somebody waits for it, so that a missing wait shows as stale data. */
#ifndef HOSTCUDA_STREAM_H
#define HOSTCUDA_STREAM_H

#include "hostcuda.h"
#include <deque>

namespace hostcuda {

using action = std::function<cudaError_t()>;

/* All work of a stream up to its `number`th. */
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
    std::shared_ptr<const race::past> issued; /* what the host knew, see race.h */
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

/* The stream a handle stands for, or nullptr when it is none. */
cudaStream_t stream_of(cudaStream_t handle);

/* Run the stream's work up to its `number`th. */
cudaError_t run_until(cudaStream_t stream, uint64_t number);

/* Add what `from` has to `to`, each once. */
void join(std::vector<size_t> &to, const std::vector<size_t> &from);

/* Captures that are not in relaxed mode. */
extern unsigned strict_captures;

/* The graph of an executable one, in an order that its edges allow. */
cudaError_t replay(const std::vector<node> &nodes);
void release_graphs();

} // namespace hostcuda

/* Kept until cudaDeviceReset, so that marks in other queues stay good. */
struct CUstream_st {
    bool blocking; /* waits for the legacy stream, and that one for it */
    int device = 0;
    bool destroyed = false;
    std::deque<hostcuda::operation> queue;
    uint64_t enqueued = 0, done = 0;
    std::shared_ptr<hostcuda::capture> capture; /* the one it takes part in */
    std::vector<size_t> tail;                   /* nodes its next one follows */
};

#endif
