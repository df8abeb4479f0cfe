/* The threads of the active blocks, and their waits. A gang is one block, the blocks of a
   cluster, or all of a cooperative grid. */
#ifndef HOSTCUDA_GRID_H
#define HOSTCUDA_GRID_H

#include "fiber.h"
#include "hostcuda.h"

namespace hostcuda {

enum class waits { nothing, warp, block, cluster, grid, gone, KINDS };

struct block;
struct warp;

struct thread {
    fiber stack;
    unsigned number; /* of the stack */
    uint3 index;
    block *home;
    warp *lanes;
    unsigned lane;
    waits state;
    const void *caller; /* caller of the function that waits */
    /* State of a warp collective, from arrival until the last lane has arrived. */
    hostcuda_collective what;
    unsigned mask, argument, width;
    uint64_t value;
    uint64_t result; /* also that of __syncthreads_count */
};

struct warp {
    thread *first; /* lane 0; the others follow */
    unsigned waiting = 0, gone = 0;
};

/* Threads that can run, in order of arrival; with a seed, in any order. */
class queue {
  public:
    void reserve(size_t threads);
    void push(thread *t);
    thread *pop(); /* nullptr: none */
    bool empty() const {
        return count == 0;
    }

  private:
    std::vector<thread *> ring; /* a power of two */
    size_t head = 0, count = 0;
};

struct block {
    uint3 index;
    unsigned rank; /* in its cluster */
    unsigned first, threads;
    queue ready;
    std::vector<thread *> yielded;
    unsigned gone, arrived, predicates;
    std::vector<float> shared; /* while another block of the gang runs */
};

/* Whether the schedule is permuted: a copy of setting().seed. */
extern bool permuted;

/* The running thread; nullptr in host code. */
extern thread *current;

/* Ends the launch with a fault: "KERNEL, block, thread: what". Does not return. */
[[noreturn]] void stop(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* "KERNEL, block, thread" of the current thread. */
std::string whereabouts();

/* Lets others run until the current thread is ready again. */
void suspend(waits state, const void *caller);

/* `t` can run again. */
void wake(thread *t);

/* Lets the other ready threads run first. */
void yield_turn();

const char *name(hostcuda_collective what);

/* Waits for all threads of the cluster (of the grid). */
void meet(waits where, const void *caller);
unsigned cluster_blocks();
bool cooperative();
const void *kernel();

/* A fault: `what`, and the wait of each thread (deadlock.cpp). */
void report_waits(const std::vector<thread> &threads, const char *what);
block &cluster_block(unsigned rank);

/* The block in whose shared memory `at` is, also if that was reached through map_shared_rank; `at`
   becomes its address in `shared_memory`. nullptr: it is other memory. */
block *home_of(const char *&at);

} // namespace hostcuda

#endif
