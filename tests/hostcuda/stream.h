/* Streams and events. Work is queued and runs when someone waits for it, so that a missing wait
   shows as stale data. */
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

/* The stream of a handle; nullptr if invalid. */
cudaStream_t stream_of(cudaStream_t handle);

/* Runs the stream's work up to its `number`th operation. */
cudaError_t run_until(cudaStream_t stream, uint64_t number);

} // namespace hostcuda

/* Kept until cudaDeviceReset, so that marks in other queues stay valid. */
struct CUstream_st {
    bool blocking; /* waits for the legacy stream, which waits for it */
    int device = 0;
    bool destroyed = false;
    std::deque<hostcuda::operation> queue;
    uint64_t enqueued = 0, done = 0;
};

#endif
