/* HOSTCUDA_COUNT=1: counts what a launch waits for and moves, instead of finding races. At its end
   it prints one line:

     count KERNEL blocks=N dependencies=N device=READ+WRITTEN touched=N pinned=READ+WRITTEN
     shared=READ+WRITTEN cluster=READ+WRITTEN

   dependencies: the launch itself, and the most barriers between blocks that one block met: those
   of clusters and cooperative grids, and atomics on device memory, by which blocks wait for each
   other. All others are bytes of all blocks:

   - device, pinned: whole sectors, once a block between two of its dependencies, as if a cache of
     its own had room for all of them: so these come from L2, or from the host;
   - touched: sectors of device memory that the launch used, once;
   - shared, cluster: of each thread, in its block's and in other blocks' shared memory.

   A copy prints "count copy BYTES". */
#ifndef HOSTCUDA_COUNT_H
#define HOSTCUDA_COUNT_H

#include "grid.h"

namespace hostcuda {
namespace count {

extern bool on;

void open_launch(size_t gang);
void open_block(const block &b);
void met_barrier();
void met_gang_barrier();

/* `stamps` are the region's, zero at first: three for each of its sectors. */
void met_memory(const char *kind, uint32_t *stamps, size_t offset, size_t size, bool write);
void met_shared(size_t size, bool write, bool own);
void copied(size_t size);
void close_launch(const launch &work);

} // namespace count
} // namespace hostcuda

#endif
