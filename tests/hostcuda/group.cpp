/* Barriers of clusters and of cooperative grids, and the memory of a cluster's blocks. */
#include "cooperative_groups.h"
#include "grid.h"

using namespace hostcuda;

void hostcuda_grid(void) {
    if (!cooperative()) {
        stop("waits for its grid, which was not launched as a cooperative one");
    }
    meet(waits::grid, __builtin_return_address(0));
}

void hostcuda_cluster(void) {
    if (cluster_blocks() == 1) {
        hostcuda_block(0);
    } else {
        meet(waits::cluster, __builtin_return_address(0));
    }
}

unsigned hostcuda_cluster_blocks(void) {
    return cluster_blocks();
}

unsigned hostcuda_cluster_rank(void) {
    return cluster_blocks() == 1 ? 0 : current->home->rank;
}

/* The others' memory is saved elsewhere while this block runs. */
void *hostcuda_cluster_memory(const void *own, unsigned rank) {
    if (rank >= cluster_blocks()) {
        stop("reads shared memory of block %u, in a cluster of %u", rank, cluster_blocks());
    }
    if (rank == hostcuda_cluster_rank()) {
        return (void *)own;
    }
    return (char *)cluster_block(rank).shared.data() +
           ((const char *)own - (const char *)shared_memory);
}
