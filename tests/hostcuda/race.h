/* Detects races: accesses of kernels without a defined order, in whatever order they ran.

   Kernels compiled with -fsanitize=thread call a hook at each access (race_hooks.cpp; libtsan is
   not linked). Each word of device, pinned and shared memory has a record of its last write, and of
   later reads and atomics, with launch, block, thread, that thread's clock, and place in the code.
   Two accesses race if one of them writes, at most one is atomic, and the first does not *happen
   before* the second. It does so

   - in one thread;
   - in one block, with a __syncthreads between them (a clock of the block);
   - in one warp, with a __syncwarp between them whose mask names both (clocks of lanes);
   - in blocks of a cluster or a cooperative grid, with its barrier between them;
   - if a __threadfence follows the first and an atomic (or volatile access) follows that fence, and
     the second follows a __threadfence after a later atomic on the same address. Barriers extend
     both halves to the other threads of a block, since CUDA's fence is sequentially consistent:
     "all write and fence, __syncthreads, thread 0 counts; __syncthreads, the last block's threads
     fence and read" is correct, and without either fence it is not;
   - in two launches, copies or fills that streams or events order, and between
     the host and the device, if the host has waited (race_order.cpp).

   Shared memory that another block of the cluster reaches through map_shared_rank is watched as
   that block's. Such an access must also happen after the block's start, and before its end.

   Shuffles and votes order nothing: in CUDA they are not memory barriers.

   So the actual order of threads does not matter, as long as control flow does not depend on it.
   Not detected:

   - branches that were not taken, and accesses in registers or in a thread's own memory;
   - another order of atomics: a run decides which of two blocks is last, and the edge is that of
     this run (use other seeds, other runs). Where blocks poll an atomic, all of them read it before
     one goes on, so that later atomics order no more than they must;
   - of a word's bytes that several threads write, all but the newest write;
   - edges by __threadfence_block (it gives none);
   - reordering by the GPU's compiler: the detector runs the C++ program.

   A race is reported on stderr, once per pair of places, and fails its launch. Only one thread at a
   time may call. */
#ifndef HOSTCUDA_RACE_H
#define HOSTCUDA_RACE_H

#include "grid.h"
#include "stream.h"

namespace hostcuda {
namespace race {

/* Whether accesses are watched: in a program whose kernels are compiled for it. */
extern bool on;

/* ---- Accesses (race.cpp) ---- */

/* `start` and `end` of a block are for its shared memory, see close_block. */
enum class way : uint8_t { read, write, atomic, start, end };

/* One access, or the same of several lanes of a warp. */
struct access {
    uint32_t operation; /* see race_order.cpp; 0: none */
    uint32_t block;     /* in its grid */
    uint32_t when;      /* its thread's clock */
    uint32_t lanes;     /* a bit each */
    uint16_t warp;
    uint8_t bytes; /* bytes of the word, a bit each */
    way how;
    int32_t code; /* from `anchor` on */
};

/* Memory to be watched. `made`: the code that allocated it. */
void watch_memory(const void *at, size_t size, const char *kind, const void *made);
void forget_memory(const void *at);

/* An access by the running thread, or the running operation, or the host. */
void met(const void *at, size_t size, way how, const void *code);

/* ---- Clocks of threads (race_clocks.cpp) ---- */

void open_launch(const launch &work, size_t gang, size_t threads);
void open_block(const block &b);
void close_block(const block &b); /* its last thread ends (race.cpp) */
void at_barrier(const block &b);
void at_gang_barrier();
void at_warp_barrier(const warp &w, unsigned mask);
void at_fence();
void let_others_read();
enum class half { both, load, store };
void at_atomic(const void *at, half which);

/* The current access of the running thread, and whether `a`, of the same launch, happened before
   it. */
access current_access();
bool before_current(const access &a);

/* A unique number of a block's shared memory, for each block that ran; and its number in the grid.
 */
uint32_t visit(const block &b);
uint32_t number(const block &b);

/* ---- Clocks of streams (race_order.cpp) ---- */

/* All that happened before a point: for each chain of operations, their number. */
struct past {
    std::vector<uint32_t> ticks;
    void join(const past &other);
};

/* The past of the host when it enqueues. */
std::shared_ptr<const past> issue();
void begin_operation(cudaStream_t stream, const std::shared_ptr<const past> &issued,
                     const std::vector<mark> &after);
void end_operation(cudaStream_t stream);
void host_waited(cudaStream_t stream, uint64_t number);
void reset_order();

bool in_operation();

/* The running operation, else the host's current one. */
uint32_t operation_now();
bool operation_before(uint32_t operation);
void name_operation(const void *kernel);
/* "KERNEL", "a copy" or "the host" */
std::string operation_name(uint32_t operation);

/* ---- Reports (race_report.cpp) ---- */

extern const char anchor;
int32_t code_of(const void *address);

/* `what` names the memory. True: the pair is new. */
bool report_race(const access &first, const access &second, const std::string &what);

/* Races of the ending launch, copy or fill; resets the number. */
unsigned take_count();
void forget_reported();

} // namespace race
} // namespace hostcuda

#endif
