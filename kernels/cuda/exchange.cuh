/* Exchange between the blocks that play one network, its *team*. The scope says what a team is: a
   block alone, a cluster, or blocks of a cooperative grid. This is the only file with barriers
   between blocks, and with writes to another block's shared memory. No bit depends on the scope, or
   on the number of blocks: work is dealt in pieces of fixed size, and sums over pieces have a fixed
   order. */
#ifndef RUNNEL_CUDA_EXCHANGE_CUH
#define RUNNEL_CUDA_EXCHANGE_CUH

#include <cooperative_groups.h>

#include "device.cuh"

enum {
    CLUSTER_CAPABILITY = 9,  /* the oldest with clusters */
    BARRIER_POLLS = 1 << 26, /* seconds: then the launch ends with an error */
    BARRIER_SLEEP = 20,      /* nanoseconds */
};

struct team {
    uint32_t scope, rank, size;
    unsigned *arrived; /* of a grid: blocks at the barrier, and in the highest bit its phase */
};

/* Thread 0 of each block counts its block, and waits for the others: their counts together turn
   the highest bit, and leave 0 in the others. The fences make all writes before the barrier visible
   to all threads after it. */
DEVICE void meet_in_grid(const struct team &team) {
    const unsigned phase = 1u << 31;
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        unsigned before = atomicAdd(team.arrived, team.rank ? 1u : phase - (team.size - 1));
        for (unsigned polls = 0; !((before ^ *(volatile unsigned *)team.arrived) & phase);
             __nanosleep(BARRIER_SLEEP))
            if (++polls == BARRIER_POLLS)
                __trap();
        __threadfence();
    }
    __syncthreads();
}

/* Whether code for clusters can be compiled: this passes in tests, too. */
#if !defined(__CUDACC__) || (defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900)
#    define HAS_CLUSTERS
#endif

/* The block's team, in its shared memory; struct network begins with it. */
DEVICE struct team &block_team() {
    return *(struct team *)(shared_memory + SCRATCH);
}

/* Every thread of the team's blocks must call it. */
PHASE void team_sync() {
    const struct team &team = block_team();
    switch (team.scope) {
    case SCOPE_BLOCK:
        __syncthreads();
        break;
    case SCOPE_CLUSTER:
#ifdef HAS_CLUSTERS
        cooperative_groups::this_cluster().sync();
#else
        __trap();
#endif
        break;
    default:
        meet_in_grid(team);
    }
}

/* Stores a number at the same place of block `rank`'s shared memory, in a cluster. It can be read
   after the next barrier. */
DEVICE void put(float *own, uint32_t rank, float value) {
#ifdef HAS_CLUSTERS
    *cooperative_groups::this_cluster().map_shared_rank(own, rank) = value;
#else
    (void)own, (void)rank, (void)value;
    __trap();
#endif
}

#endif
