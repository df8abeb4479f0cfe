/* Runs blocks one after the other, and their threads in turn, each until it waits for another. */
#include "count.h"
#include "race.h"
#include <chrono>
#include <stdarg.h>

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;
unsigned hostcuda_polls;

/* Room for a block's largest request, and for a guard after it. */
constexpr size_t GUARD = 4096;
alignas(1024) float shared_memory[(hostcuda::SHARED_LIMIT + GUARD) / sizeof(float)];

namespace hostcuda {

thread *current;
bool permuted;

namespace {

/* Threads that have only yielded for that many turns, and for a second, wait forever. A thread
   that waits for time to pass may need longer turns. */
constexpr unsigned IDLE_TURNS = 1 << 16;
constexpr long long IDLE_TIME = 1000000000;
constexpr unsigned char GUARD_BYTE = 0xa5;

const launch *work;
fiber host; /* the caller of run() */
std::vector<block> gang;
std::vector<thread> threads;
std::vector<warp> warps;
unsigned alive; /* threads of the gang */
unsigned arrived[(int)waits::KINDS];
const char *saved_first, *saved_end; /* the saved shared memory of a cluster's blocks */
size_t idle;                         /* turns in a row in which threads only yielded, since: */
long long idle_since;
bool stopped;

std::string where(const block &b, const thread *t) {
    char text[160];
    int length =
        snprintf(text, sizeof text, ", block (%u, %u, %u)", b.index.x, b.index.y, b.index.z);
    if (t) {
        snprintf(text + length, sizeof text - (size_t)length, ", thread (%u, %u, %u)", t->index.x,
                 t->index.y, t->index.z);
    }
    return place(work->kernel) + text;
}

/* ---- Switching ---- */

void go(thread *next) {
    fiber &from = current ? current->stack : host;
    const bool last = current && current->state == waits::gone;
    current = next;
    if (next) {
        threadIdx = next->index;
    }
    fiber_switch(from, next ? next->stack : host, last);
}

/* Continues with the next thread: another of this block, or the host's loop. */
void go_on() {
    thread *next = current->home->ready.pop();
    if (next != current) {
        go(next);
    }
}

void leave() {
    thread &t = *current;
    block &b = *t.home;
    if (!fiber_whole(t.number)) {
        stop("its stack is too small for its variables");
    }
    for (unsigned lane = 0; lane < warpSize; ++lane) {
        if (t.lanes->waiting >> lane & 1 && t.lanes->first[lane].mask >> t.lane & 1) {
            stop("lane %u exits while lane %u waits for it in %s with mask %08x (%s)", t.lane, lane,
                 name(t.lanes->first[lane].what), t.lanes->first[lane].mask,
                 place(t.lanes->first[lane].caller).c_str());
        }
    }
    if (b.arrived) {
        stop("exits while %u threads wait in __syncthreads", b.arrived);
    }
    t.state = waits::gone;
    t.lanes->gone |= 1u << t.lane;
    ++b.gone;
    --alive;
    idle = 0;
    if (race::on && b.gone == b.threads) {
        race::close_block(b);
    }
    go_on();
}

void body() {
    fiber_entered();
    work->body();
    leave();
}

} // namespace

std::string whereabouts() {
    return where(*current->home, current);
}

void stop(const char *format, ...) {
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fault(cudaErrorLaunchFailure, "%s: %s", whereabouts().c_str(), text);
    stopped = true;
    current->state = waits::gone;
    go(nullptr);
    __builtin_unreachable();
}

void wake(thread *t) {
    t->state = waits::nothing;
    t->home->ready.push(t);
}

void yield_turn() {
    wake(current);
    go_on();
}

void suspend(waits state, const void *caller) {
    current->state = state;
    current->caller = caller;
    go_on();
}

void meet(waits kind, const void *caller) {
    unsigned &here = arrived[(int)kind];
    if (++here < threads.size()) {
        if (alive < threads.size()) {
            stop("waits for blocks of which %zu threads have exited", threads.size() - alive);
        }
        suspend(kind, caller);
        return;
    }
    here = 0;
    idle = 0;
    if (race::on) {
        race::at_gang_barrier();
    }
    if (count::on) {
        count::met_gang_barrier();
    }
    for (thread &t : threads) {
        wake(&t);
    }
    go_on();
}

const void *kernel() {
    return work->kernel;
}

bool cooperative() {
    return work->cooperative;
}

unsigned cluster_blocks() {
    return work->cluster.x * work->cluster.y * work->cluster.z;
}

block &cluster_block(unsigned rank) {
    return gang[rank];
}

block *home_of(const char *&at) {
    const char *own = (const char *)shared_memory;
    if (at >= own && at < own + SHARED_LIMIT) {
        return current ? current->home : nullptr;
    }
    for (size_t i = 0; current && at >= saved_first && at < saved_end && i < gang.size(); ++i) {
        const char *saved = (const char *)gang[i].shared.data();
        if (at >= saved && at < saved + work->shared) {
            at = own + (at - saved);
            return &gang[i];
        }
    }
    return nullptr;
}

/* ---- The queue ---- */

void queue::reserve(size_t count_) {
    size_t size = 1;
    while (size < count_) {
        size *= 2;
    }
    ring.resize(size);
    head = count = 0;
}

void queue::push(thread *t) {
    ring[(head + count++) & (ring.size() - 1)] = t;
}

thread *queue::pop() {
    if (!count) {
        return nullptr;
    }
    if (permuted) {
        std::swap(ring[head], ring[(head + chance(count)) & (ring.size() - 1)]);
    }
    thread *t = ring[head];
    head = (head + 1) & (ring.size() - 1);
    --count;
    return t;
}

namespace {

/* ---- Gangs ---- */

uint3 coordinates(size_t number, const dim3 &extent) {
    return make_uint3((unsigned)(number % extent.x), (unsigned)(number / extent.x % extent.y),
                      (unsigned)(number / extent.x / extent.y));
}

void open_block(block &b, unsigned rank, uint3 index) {
    const unsigned count = work->block.x * work->block.y * work->block.z;
    b.index = index;
    b.rank = rank;
    b.first = rank * count;
    b.threads = count;
    b.ready.reserve(count);
    b.yielded.clear();
    b.gone = b.arrived = b.predicates = 0;
    const unsigned per_block = (count + warpSize - 1) / warpSize;
    for (unsigned i = 0; i < count; ++i) {
        thread &t = threads[b.first + i];
        t.number = b.first + i;
        t.index = coordinates(i, work->block);
        t.home = &b;
        t.lanes = &warps[rank * per_block + i / warpSize];
        t.lane = i % warpSize;
        if (t.lane == 0) {
            const unsigned lanes = min(count - i, (unsigned)warpSize);
            t.lanes->first = &t;
            t.lanes->waiting = 0;
            t.lanes->gone = lanes == warpSize ? 0 : ~0u << lanes;
        }
        fiber_prepare(t.stack, t.number, body);
        wake(&t);
    }
}

/* ---- Shared memory: the array is the running block's; the others' is saved meanwhile ---- */

void open_guard() {
    char *guard = (char *)shared_memory + work->shared;
    ASAN_UNPOISON_MEMORY_REGION(shared_memory, sizeof shared_memory);
    memset(guard, GUARD_BYTE, GUARD);
    ASAN_POISON_MEMORY_REGION(guard, sizeof shared_memory - work->shared);
}

void close_guard(const block &b) {
#if !defined(__SANITIZE_ADDRESS__)
    const unsigned char *guard = (unsigned char *)shared_memory + work->shared;
    for (size_t i = 0; i < GUARD; ++i) {
        if (guard[i] != GUARD_BYTE) {
            fault(cudaErrorIllegalAddress,
                  "%s: wrote shared memory at byte %zu, of %zu that its launch asked for",
                  where(b, nullptr).c_str(), work->shared + i, work->shared);
            stopped = true;
            open_guard();
            return;
        }
    }
#else
    (void)b;
#endif
}

void take_shared(block &b) {
    if (gang.size() > 1) {
        memcpy(shared_memory, b.shared.data(), work->shared);
    }
}

void put_shared(block &b) {
    close_guard(b);
    if (gang.size() > 1) {
        memcpy(b.shared.data(), shared_memory, work->shared);
    }
}

void fill_shared(block &b) {
    if (gang.size() > 1) {
        b.shared.resize((work->shared + 3) / 4 + 1); /* an empty one would have no address */
        poison(b.shared.data(), b.shared.size() * 4);
        const char *saved = (const char *)b.shared.data();
        saved_first = b.rank == 0 || saved < saved_first ? saved : saved_first;
        saved_end = b.rank == 0 ? saved : saved_end;
        if (!work->cooperative) {
            saved_end = std::max(saved_end, saved + work->shared);
        }
    } else {
        poison(shared_memory, work->shared);
        saved_first = saved_end = nullptr;
    }
}

/* ---- The loop ---- */

/* Runs the block's threads until all of them wait; false if none could run. */
bool turn(block &b) {
    if (b.ready.empty() && b.yielded.empty()) {
        return false;
    }
    if (b.ready.empty() && idle++ == 0) {
        idle_since = clock64();
    }
    for (thread *t : b.yielded) {
        b.ready.push(t);
    }
    b.yielded.clear();
    blockIdx = b.index;
    take_shared(b);
    go(b.ready.pop());
    put_shared(b);
    return true;
}

bool hopeless() {
    return idle > IDLE_TURNS * gang.size() && clock64() - idle_since > IDLE_TIME;
}

/* Runs the gang's blocks in turns until all threads have ended. */
void play() {
    std::vector<size_t> order(gang.size());
    while (alive && !stopped) {
        bool ran = false;
        for (size_t i = 0; i < order.size(); ++i) {
            order[i] = i;
        }
        for (size_t i = 0; permuted && i + 1 < order.size(); ++i) {
            std::swap(order[i], order[i + chance(order.size() - i)]);
        }
        for (size_t i = 0; i < order.size() && !stopped; ++i) {
            ran = turn(gang[order[i]]) || ran;
        }
        if (!stopped && alive && !ran) {
            report_waits(threads, "deadlock: no thread can run");
            stopped = true;
        }
        if (!stopped && hopeless()) {
            report_waits(threads, "its threads wait in a loop for what never comes");
            stopped = true;
        }
    }
}

/* The blocks of gang `number`: block by block within the cluster's corner of the grid. */
void open_gang(size_t number, const dim3 &extent) {
    const dim3 gangs(work->grid.x / extent.x, work->grid.y / extent.y, work->grid.z / extent.z);
    const uint3 corner = coordinates(number, gangs);
    alive = (unsigned)threads.size();
    idle = 0;
    memset(arrived, 0, sizeof arrived);
    for (size_t rank = 0; rank < gang.size(); ++rank) {
        uint3 index = coordinates(rank, extent);
        index.x += corner.x * extent.x;
        index.y += corner.y * extent.y;
        index.z += corner.z * extent.z;
        open_block(gang[rank], (unsigned)rank, index);
        fill_shared(gang[rank]);
        if (race::on) {
            race::open_block(gang[rank]);
        }
        if (count::on) {
            count::open_block(gang[rank]);
        }
    }
}

} // namespace

cudaError_t run(const launch &launched) {
    work = &launched;
    permuted = setting().seed != 0;
    const dim3 extent = launched.cooperative ? launched.grid : launched.cluster;
    const size_t blocks = (size_t)extent.x * extent.y * extent.z;
    const size_t gangs = (size_t)launched.grid.x * launched.grid.y * launched.grid.z / blocks;
    const size_t count = (size_t)launched.block.x * launched.block.y * launched.block.z;
    blockDim = launched.block;
    gridDim = launched.grid;
    gang.resize(blocks);
    threads.resize(blocks * count);
    warps.resize(blocks * ((count + warpSize - 1) / warpSize));
    stopped = false;
    if (race::on) {
        race::open_launch(launched, blocks, threads.size());
    }
    if (count::on) {
        count::open_launch(blocks);
    }
    fiber_adopt(host);
    open_guard();
    std::vector<size_t> order(permuted ? gangs : 0);
    for (size_t i = 0; i < order.size(); ++i) {
        order[i] = i;
    }
    for (size_t i = 0; i < gangs && !stopped; ++i) {
        if (!order.empty()) {
            std::swap(order[i], order[i + chance(gangs - i)]);
        }
        open_gang(order.empty() ? i : order[i], extent);
        play();
    }
    current = nullptr;
    if (count::on) {
        count::close_launch(launched);
    }
    if (race::on && race::take_count() > 0 && !stopped) {
        stopped = true;
        note(cudaErrorLaunchFailure);
    }
    ASAN_UNPOISON_MEMORY_REGION(shared_memory, sizeof shared_memory);
    return stopped ? cudaPeekAtLastError() : cudaSuccess;
}

} // namespace hostcuda

using namespace hostcuda;

unsigned hostcuda_block(int predicate) {
    block &b = *current->home;
    b.predicates += predicate != 0;
    if (b.gone) {
        stop("__syncthreads: %u threads of its block have exited", b.gone);
    }
    if (++b.arrived < b.threads) {
        suspend(waits::block, __builtin_return_address(0));
        return (unsigned)current->result;
    }
    const unsigned predicates = b.predicates;
    if (race::on) {
        race::at_barrier(b);
    }
    b.arrived = b.predicates = 0;
    idle = 0;
    for (unsigned i = 0; i < b.threads; ++i) {
        threads[b.first + i].result = predicates;
        wake(&threads[b.first + i]);
    }
    go_on();
    return predicates;
}

void hostcuda_yield(void) {
    if (!current) {
        return;
    }
    current->home->yielded.push_back(current);
    go_on();
}

void hostcuda_trap(const char *reason) {
    stop("%s", reason);
}

long long clock64(void) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
}
