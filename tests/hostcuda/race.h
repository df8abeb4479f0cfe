/* Races: accesses of kernels that nothing orders, whatever order they came in.

   Kernels compiled with -fsanitize=thread call a hook at each access (race_hooks.cpp; nothing of
   libtsan is linked). Each word of device, pinned and shared memory remembers its last write, and
   the reads and atomics since, with launch, block, thread, that thread's clock, and place in the
   code. Two accesses of which one writes, and at most one is atomic, race unless the first *happens
   before* the second. That is so

   - in one thread;
   - in one block, with a __syncthreads between them (a clock of the block's);
   - in one warp, with a __syncwarp between them whose mask names both (clocks of lanes);
   - in blocks of a cluster or a cooperative grid, with its barrier between them;
   - where a __threadfence follows the first, an atomic (or volatile access) that one, and the
   second stands after a __threadfence after an atomic that met the same address later. Barriers
   carry both halves to the others of a block, since the fence is CUDA's sequentially consistent
   one: "all write and fence, __syncthreads, thread 0 counts; __syncthreads, the last block's
   threads fence and read" is right, and without either fence it is not;
   - in two launches, copies or fills, where their streams, events and the graph's edges order them,
     and between the host and the device, where the host has waited (race_order.cpp).

   Shuffles and votes order nothing: CUDA says that they are no barrier of memory.

   So the order in which threads happened to run decides nothing, as long as control flow does not
   depend on it. What it cannot see:

   - branches that were not taken, and accesses in registers or in a thread's own memory;
   - an atomic met in the other order: who of two blocks is the last is found out by running, and
     the edge is that of this run (other seeds, other runs);
   - of a word's bytes that several threads write, all but the newest write;
   - edges by __threadfence_block (it gives none), and memory of another block of a cluster reached
     through map_shared_rank;
   - orders that the compiler for a GPU would change: what is seen is the C++ program.

   A race is reported on stderr, once a pair of places, and fails its launch.

   With HOSTCUDA_WEAK=1 stores are weak, too (race_weak.cpp). One thread at a time calls. */
#ifndef HOSTCUDA_RACE_H
#define HOSTCUDA_RACE_H

#include "grid.h"
#include "stream.h"

namespace hostcuda {
namespace race {

/* Whether accesses are watched: in a program whose kernels have been compiled for it. */
extern bool on;

/* ---- accesses (race.cpp) ---- */

enum class way : uint8_t { read, write, atomic };

/* One access, or the same of several lanes of a warp. */
struct access {
    uint32_t operation; /* see race_order.cpp; 0: none */
    uint32_t block;     /* in its grid */
    uint32_t when;      /* its thread's clock */
    uint32_t lanes;     /* a bit each */
    uint16_t warp;
    uint8_t bytes; /* of the word, a bit each */
    way how;
    int32_t code; /* from `anchor` on */
};

/* What holds bytes that are watched. `made`: who asked for it. */
void watch_memory(const void *at, size_t size, const char *kind, const void *made);
void forget_memory(const void *at);

/* An access by the thread that runs, else by the operation that runs, else by the host. */
void met(const void *at, size_t size, way how, const void *code);

/* ---- clocks of threads (race_clocks.cpp) ---- */

void open_launch(const launch &work, size_t gang, size_t threads);
void open_block(const block &b);
void at_barrier(const block &b);
void at_gang_barrier();
void at_warp_barrier(const warp &w, unsigned mask);
void at_fence();
enum class half { both, load, store };
void at_atomic(const void *at, half which);

/* The access that the running thread would make now, and whether `a`, of the same launch, happened
   before it. */
access current_access();
bool before_current(const access &a);

/* Of a block's shared memory: a number of its own for each block that ran. */
uint32_t visit(const block &b);

/* ---- clocks of streams (race_order.cpp) ---- */

/* What happened before a point: for each chain of operations, how many of them. */
struct past {
    std::vector<uint32_t> ticks;
    void join(const past &other);
};

/* What the host knew when it enqueued. */
std::shared_ptr<const past> issue();
void begin_operation(cudaStream_t stream, const std::shared_ptr<const past> &issued,
                     const std::vector<mark> &after);
void end_operation(cudaStream_t stream);
void begin_graph(size_t nodes);
void begin_node(size_t node, const std::vector<size_t> &after);
void end_node(size_t node);
void end_graph();
void host_waited(cudaStream_t stream, uint64_t number);
void reset_order();

bool in_operation();

/* The operation that runs, else the host's present one. */
uint32_t operation_now();
bool operation_before(uint32_t operation);
void name_operation(const void *kernel);
/* "KERNEL", "a copy" or "the host" */
std::string operation_name(uint32_t operation);

/* ---- sentences (race_report.cpp) ---- */

extern const char anchor;
int32_t code_of(const void *address);

/* `what` says which memory. True: the pair is new. */
bool tell(const access &first, const access &second, const std::string &what);

/* Races of the launch, copy or fill that ends; 0 from here on. */
unsigned take_count();
void forget_told();

/* ---- weak stores (race_weak.cpp) ---- */

void weak_open_launch(size_t gang);
void weak_store(const void *at, size_t size);
void weak_atomic(const void *at);
void weak_fence();
void weak_close_block();
void weak_close_launch();

} // namespace race
} // namespace hostcuda

#endif
