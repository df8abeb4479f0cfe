/* Replaces CUDA's header of this name: blocks, clusters and cooperative grids. map_shared_rank
   gives access to another block's memory while this thread's block runs, until it waits in a
   barrier of the cluster; the pointer stays valid after it. */
#ifndef HOSTCUDA_COOPERATIVE_GROUPS_H
#define HOSTCUDA_COOPERATIVE_GROUPS_H

#include "cuda_runtime.h"

void hostcuda_grid(void);
void hostcuda_cluster(void);
unsigned hostcuda_cluster_blocks(void);
unsigned hostcuda_cluster_rank(void);
void *hostcuda_cluster_memory(const void *own, unsigned rank);

namespace cooperative_groups {

class thread_block {
  public:
    static void sync() {
        __syncthreads();
    }
    static unsigned thread_rank() {
        return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    }
    static unsigned num_threads() {
        return blockDim.x * blockDim.y * blockDim.z;
    }
    static unsigned size() {
        return num_threads();
    }
};

class cluster_group {
  public:
    static void sync() {
        hostcuda_cluster();
    }
    static unsigned num_blocks() {
        return hostcuda_cluster_blocks();
    }
    static unsigned block_rank() {
        return hostcuda_cluster_rank();
    }
    static unsigned thread_rank() {
        return block_rank() * thread_block::num_threads() + thread_block::thread_rank();
    }
    static unsigned num_threads() {
        return num_blocks() * thread_block::num_threads();
    }
    template <typename T> static T *map_shared_rank(T *own, unsigned rank) {
        return (T *)hostcuda_cluster_memory(own, rank);
    }
};

class grid_group {
  public:
    static void sync() {
        hostcuda_grid();
    }
    static bool is_valid() {
        return true;
    }
    static unsigned long long num_blocks() {
        return (unsigned long long)gridDim.x * gridDim.y * gridDim.z;
    }
    static unsigned long long block_rank() {
        return blockIdx.x + (unsigned long long)gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    }
    static unsigned long long num_threads() {
        return num_blocks() * thread_block::num_threads();
    }
    static unsigned long long size() {
        return num_threads();
    }
    static unsigned long long thread_rank() {
        return block_rank() * thread_block::num_threads() + thread_block::thread_rank();
    }
};

inline thread_block this_thread_block() {
    return {};
}
inline cluster_group this_cluster() {
    return {};
}
inline grid_group this_grid() {
    return {};
}
template <typename Group> inline void sync(const Group &) {
    Group::sync();
}

} // namespace cooperative_groups

#endif
